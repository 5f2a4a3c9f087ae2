"""Makes the files of a tokenizer, and says which formats can hold it."""

from __future__ import annotations

import copy
import json

from roberta_hub.arguments import brief
from roberta_hub.errors import CheckpointError
from roberta_hub.text.added import LISTED, TOKENIZER_CONFIG_FILE
from roberta_hub.text.dictionary import UNUSED_SUFFIX
from roberta_hub.text.huggingface import LAYOUT
from roberta_hub.text.layout import SequenceLayout
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.text.tokenizer_json import TOKENIZER_FILE
from roberta_hub.text.with_added import WithAddedTokens

VOCABULARIES = (
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "added_tokens.json",
    "tokenizer.json",
    "special_tokens_map.json",
)
"""Every file that an engine may write, but for the settings."""
_ONE_SEPARATOR = ("Albert", "Bert", "DistilBert", "Electra")
"""How the names of transformers' tokenizer classes begin that join sentences as BERT does."""


def tokenizer_files(tokenizer: Tokenizer, max_length: int) -> dict[str, bytes]:
    """Return the files from which transformers builds the same tokenizer, as many as it needs."""
    settings = tokenizer.piece_table.settings
    if not settings:
        return {}  # there is no vocabulary
    layout = tokenizer.layout
    longest = max_length if layout.max_length is None else min(max_length, layout.max_length)
    about = {"tokenizer_class": settings["tokenizer_class"], "model_max_length": longest}
    about |= settings
    if layout.truncation_side != "right":
        about["truncation_side"] = layout.truncation_side
    if not lays_out_as_roberta(tokenizer):
        about[LAYOUT] = _described(layout)
    files = tokenizer.piece_table.files(_rows(tokenizer))
    if TOKENIZER_FILE not in files:  # which lists added tokens better
        about |= _added(tokenizer)
    return files | {TOKENIZER_CONFIG_FILE: json.dumps(about, indent=2).encode()}


def _added(tokenizer: Tokenizer) -> dict[str, object]:
    """Describe the user's tokens as tokenizer_config.json does; none: nothing."""
    engine = tokenizer.engine
    entries = engine.entries(tokenizer.rows) if isinstance(engine, WithAddedTokens) else {}
    return {LISTED: {str(number): entry for number, entry in entries.items()}} if entries else {}


def fairseq_added_file(tokenizer: Tokenizer) -> dict[str, bytes]:
    """Return the file that lists the user's tokens next to a dict.txt; fairseq ignores it.

    Without such tokens there is none.
    """
    about = _added(tokenizer)
    return {TOKENIZER_CONFIG_FILE: json.dumps(about, indent=2).encode()} if about else {}


def is_written_by_its_class(tokenizer: Tokenizer) -> bool:
    """Whether transformers' class for the files joins sentences as we do."""
    kind = str(tokenizer.piece_table.settings.get("tokenizer_class"))
    single = kind.startswith(_ONE_SEPARATOR) and tokenizer.layout.separators == 1
    return single or lays_out_as_roberta(tokenizer)


def lays_out_as_roberta(tokenizer: Tokenizer) -> bool:
    """Whether special ids and separators are those that a dict.txt means."""
    dictionary = tokenizer.dictionary
    return dictionary.as_fairseq and tokenizer.layout == SequenceLayout.of(dictionary)


def _described(layout: SequenceLayout) -> dict[str, int | None]:
    """Special ids and separators, for a file and for people."""
    names = ("bos", "eos", "pad", "unk", "mask", "separators")
    return {name: getattr(layout, name) for name in names}


def _rows(tokenizer: Tokenizer) -> list[int | str]:
    """Piece number or symbol of each id; unused rows of a special symbol are named after it."""
    dictionary, layout, rows = tokenizer.dictionary, tokenizer.layout, list(tokenizer.rows)
    used = {
        dictionary.bos_word: layout.bos,
        dictionary.eos_word: layout.eos,
        dictionary.pad_word: layout.pad,
        dictionary.unk_word: layout.unk,
    }
    for i, symbol in enumerate(dictionary.symbols):
        if used.get(symbol, i) != i:
            rows[i] = symbol + UNUSED_SUFFIX
    return rows


def fairseq_dictionary(tokenizer: Tokenizer, rows: int) -> bytes:
    """Make a dict.txt without `<mask>`, with a filler for each row that has no symbol."""
    dictionary = tokenizer.dictionary
    if rows > len(dictionary):
        dictionary = copy.deepcopy(dictionary)
        dictionary.pad_to_(rows)
    return dictionary.dumps(with_mask=False)


def check_layout(tokenizer: Tokenizer, format: str, fits: bool) -> None:
    """Refuse a tokenizer that joins sentences as no reader of a format would."""
    if not fits:
        raise CheckpointError(
            f"format {format!r} has no place for the special ids and separators of this tokenizer, "
            f"{brief(_described(tokenizer.layout))}; save as 'roberta_hub'"
        )
