"""Reads and writes tokenizer.json, in which `tokenizers` describes an engine as a row of steps.

A normalizer changes a text, a pre_tokenizer cuts it into words, a model cuts words into pieces, a
post_processor joins sentences; added tokens are found before all of these. One file serves the
three engines of this package: byte-level BPE, WordPiece and SentencePiece's unigram. Reading
refuses by name every step that the engine here does otherwise, as texts would get other ids than
in training.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from roberta_hub.arguments import brief
from roberta_hub.errors import Remedy, VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.text.dictionary import MASK, SPECIALS
from roberta_hub.text.gpt2_tables import MAX_TABLE_BYTES, from_printable
from roberta_hub.text.sentencepiece_file import (
    BYTE,
    BYTES,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    SentencePieceModel,
    model_of,
)
from roberta_hub.text.tokenizer_steps import (
    byte_level_prefix,
    check_byte_level,
    check_model,
    separators,
    unigram_steps,
    wordpiece_normalizer,
)
from roberta_hub.text.unigram_family import Cleaning, Family, ends_in_comma
from roberta_hub.text.wordpiece_rules import (
    LONGEST_WORD,
    MAX_PIECES,
    MAX_WORD,
    PREFIX,
    Rules,
    Specials,
    check_pieces,
)

TOKENIZER_FILE = "tokenizer.json"
"""The file's name."""
_SETTINGS_FILE = "tokenizer_config.json"
"""What the classes of transformers read their own arguments from."""
MODELS = ("BPE", "WordPiece", "Unigram")
"""What the file calls the kinds of model that are read."""
_SHAPE_ERRORS = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
_SPACE = "▁"
_COMMA_PENALTY = 100.0
"""What a piece like `▁9,` loses, as in transformers, since tokenizers cannot cut it again."""
_BEGIN, _PAD, _END, _UNKNOWN = SPECIALS


# ---- reading: every engine ----


@contextlib.contextmanager
def reading(path: Path, fault: str = "it holds what transformers does not write") -> Iterator[None]:
    """Name the file in every error about its content.

    `fault` is what is said of a value of another shape than the code in the block expects.

    Example:
        >>> with reading(Path("tokenizer.json"), "it holds no model"):
        ...     {}["model"]
        Traceback (most recent call last):
        ...
        roberta_hub.errors.VocabularyError: tokenizer.json: it holds no model (KeyError: 'model')
    """
    try:
        yield
    except VocabularyError as error:
        said = str(error)
        # A reader of files begins with the file's name; a block inside has set the place.
        if error.place is None and said.removeprefix(str(path))[:1] not in (":", "/", "\\", " "):
            error.at(str(path))
        raise
    except _SHAPE_ERRORS as error:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise VocabularyError(f"{path}: {fault} ({reason})") from None


def read_table(folder: Folder) -> Mapping[str, Any]:
    """Return the tokenizer.json of a folder; {}: there is none."""
    return folder.optional(TOKENIZER_FILE, VocabularyError, MAX_TABLE_BYTES)


def kind_of_model(folder: Folder) -> str:
    """Return which of `MODELS` the file holds; older files of a BPE do not say it."""
    model = read_table(folder).get("model")
    named = model.get("type", MODELS[0]) if isinstance(model, dict) else MODELS[0]
    if not isinstance(named, str) or named not in MODELS:
        raise VocabularyError(
            f"{folder / TOKENIZER_FILE}: its model is {brief(named)}, which this version does "
            "not read; it "
            f"reads {', '.join(MODELS)}"
        )
    return named


def read_separators(
    folder: Folder, begin: tuple[str, int], end: tuple[str, int], kind: str | None, own: int
) -> int:
    """Return how many separators are between two sentences.

    `begin` and `end` are word and id of what begins a sequence and ends a sentence. A class of
    transformers (`kind`) joins sentences itself, with `own` separators, and a folder without the
    file has as many; without a class the file says how.
    """
    with reading(folder / TOKENIZER_FILE, "it says things as transformers does not"):
        return separators(read_table(folder), begin, end, kind, own)


def read_direction(folder: Folder) -> Literal["left", "right"]:
    """Return the end of a text that the file's truncation removes, which is all it counts for."""
    with reading(folder / TOKENIZER_FILE, "it says things as transformers does not"):
        side = (read_table(folder).get("truncation") or {}).get("direction", "Right")
        if side not in ("Left", "Right"):
            raise VocabularyError(f"direction is {brief(side)}, not Left or Right")
        return "left" if side == "Left" else "right"


# ---- reading: byte-level BPE ----


@dataclass(frozen=True)
class ByteLevelTable:
    """What a tokenizer.json says of a byte-level BPE."""

    vocabulary: dict[str, Any]
    """The ids of the printable pieces, which are not checked."""
    merges: list[tuple[bytes, bytes]]
    """Earliest first."""
    add_prefix_space: Any
    """A text is read with a space before it; not checked."""
    unk: str | None
    """Stands for bytes that the vocabulary lacks; None: they are left out."""
    fuse_unk: bool
    """Such bytes in a row are one."""
    ignore_merges: bool
    """A whole word that the vocabulary has is one piece, whatever the merges say."""


def read_byte_level(folder: Folder) -> ByteLevelTable | None:
    """Read a byte-level BPE that changes and cuts texts as GPT-2's; None: there is no file."""
    table = read_table(folder)
    if not folder.is_file(TOKENIZER_FILE):
        return None
    with reading(folder / TOKENIZER_FILE, "it holds no byte-level BPE"):
        model = table["model"]
        check_byte_level(table)
        # Older files write a merge as 'Ġ t', newer ones as ['Ġ', 't'].
        pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
        return ByteLevelTable(
            vocabulary=dict(model["vocab"]),
            merges=[(from_printable(left), from_printable(right)) for left, right in pairs],
            add_prefix_space=byte_level_prefix(table),
            unk=model.get("unk_token"),
            fuse_unk=bool(model.get("fuse_unk")),
            ignore_merges=bool(model.get("ignore_merges")),
        )


# ---- reading: WordPiece ----


@dataclass(frozen=True)
class WordPieceTable:
    """What a tokenizer.json says of a WordPiece."""

    names: Sequence[str] = ()
    """The pieces in the order of their ids."""
    unk: str | None = None
    """Symbol of unknown words; None: not in the file."""
    switches: Mapping[str, bool | None] = field(default_factory=dict)
    """What it says of lower case, accents and ideographs, by tokenizer_config.json's names."""
    lowercased: bool = False
    """In lower case before all else, as sentence-transformers has it."""
    longest_word: int = LONGEST_WORD
    """Characters of a word; a longer one is unknown."""
    clean_up: bool = True
    """Decoding leaves out the blank before punctuation."""


SWITCHES = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
"""WordPiece's switches: names in tokenizer_config.json, and in a normalizer of tokenizer.json."""


def read_wordpiece(folder: Folder) -> WordPieceTable:
    """Read what the file says of a WordPiece like BERT's; an empty record where there is none."""
    table = read_table(folder)
    if not table:
        return WordPieceTable()
    with reading(folder / TOKENIZER_FILE, "it says things as transformers does not"):
        model, (normalizer, lowercased) = table["model"], wordpiece_normalizer(table, PREFIX)
        unk, longest = model.get("unk_token"), model.get("max_input_chars_per_word", LONGEST_WORD)
        if "unk_token" in model and not isinstance(unk, str):
            raise VocabularyError(f"unk_token is {brief(unk)}, not a text")
        if type(longest) is not int or not 1 <= longest <= MAX_WORD:
            raise VocabularyError(
                f"max_input_chars_per_word is {brief(longest)}, not 1 to {MAX_WORD:,}"
            )
        return WordPieceTable(
            names=_pieces_by_id(model["vocab"]),
            unk=unk,
            switches=switches(normalizer, SWITCHES.values()),
            lowercased=lowercased,
            longest_word=longest,
            clean_up=(table.get("decoder") or {}).get("cleanup", True) is not False,
        )


def switches(source: Mapping[str, Any], names: Iterable[str]) -> dict[str, bool | None]:
    """Return what a table says under names in the order of `SWITCHES`, by its names.

    Example:
        >>> switches({"lowercase": False}, SWITCHES.values())
        {'do_lower_case': False}
    """
    found: dict[str, bool | None] = {}
    for setting, name in zip(SWITCHES, names, strict=True):
        if name in source:
            found[setting] = value = source[name]
            if not isinstance(value, (bool, type(None))):
                raise VocabularyError(f"{name} is {brief(value)}, not true or false")
    return found


def unread_setting(
    folder: Folder, name: str, value: object, kind: str, usual: object
) -> VocabularyError:
    """Return the error for a setting that only tokenizer.json has, where a class does not look.

    The class takes its `usual` value if tokenizer_config.json does not say it.
    """
    said, other = json.dumps(value), json.dumps(usual)
    return VocabularyError(
        f"{folder / TOKENIZER_FILE} says {name} {said}, and {kind} takes {other} where "
        f"{_SETTINGS_FILE} does not say it: one of the two gives other ids than in training",
        remedy=Remedy(
            f'write "{name}": {said} into {_SETTINGS_FILE} where {TOKENIZER_FILE} is right, else '
            f"{other}"
        ),
    )


def _pieces_by_id(ids: Mapping[str, Any]) -> list[str]:
    if len(ids) > MAX_PIECES:
        raise VocabularyError(f"over {MAX_PIECES:,} pieces")
    numbers = list(ids.values())
    if not all(type(i) is int for i in numbers) or sorted(numbers) != list(range(len(ids))):
        raise VocabularyError("the ids are not 0, 1, 2, … each once")
    names = sorted(ids, key=ids.__getitem__)
    check_pieces(names, "id ", 0)
    return names


# ---- reading: SentencePiece's unigram ----


@dataclass(frozen=True)
class UnigramTable:
    """What a tokenizer.json says of a unigram model."""

    model: SentencePieceModel
    """Its pieces in the file's order, and its character map."""
    cleaning: Cleaning | None
    """What happens to a text first."""
    white_space: bool
    """All white space parts words; else the blank alone."""


def read_unigram(
    folder: Folder, controls: set[str], *, by_class: bool, cut_commas: bool
) -> UnigramTable:
    """Read the file's unigram model, whose order stays, and what it does to texts before.

    No text may write the names in `controls`. By class, transformers cuts the words whatever the
    file says. With `cut_commas` the engine cuts pieces like `▁9,` again, which get back what they
    lost on writing. What changes or cuts texts in another way than SentencePiece is refused.
    """
    table = read_table(folder)
    with reading(folder / TOKENIZER_FILE, "it holds no unigram model"):
        part = table["model"]
        check_model(part, "Unigram")
        texts = [str(text) for text, _ in part["vocab"]]
        scores = [float(score) for _, score in part["vocab"]]
        unknown = part["unk_id"]
        found = unigram_steps(table, by_class=by_class)
        if type(unknown) is not int or not 0 <= unknown < len(texts):
            raise VocabularyError(f"unk_id is {brief(unknown)}, and it has {len(texts)} pieces")
        fallback = part.get("byte_fallback", False)
        if not isinstance(fallback, bool):
            raise VocabularyError(f"byte_fallback is {brief(fallback)}, not true or false")
        if cut_commas:
            scores = [
                score + _COMMA_PENALTY
                if ends_in_comma(text) and score <= -_COMMA_PENALTY
                else score
                for text, score in zip(texts, scores, strict=True)
            ]
        kinds = bytearray(_kind_of_piece(text, controls) for text in texts)
        if fallback:
            kinds = bytearray(BYTE if t in BYTES else k for t, k in zip(texts, kinds, strict=True))
        kinds[unknown] = UNKNOWN
        model = model_of(
            texts,
            scores,
            bytes(kinds),
            character_map=found.character_map,
            byte_fallback=fallback,
        )
    return UnigramTable(model, found.cleaning, found.white_space)


def _kind_of_piece(text: str, controls: set[str]) -> int:
    if text in controls:
        return CONTROL
    return UNUSED if _SPACE in text[1:] else NORMAL  # no word of a text has a space inside


# ---- writing ----


def write_byte_level(
    ids: Mapping[str, int],
    merges: Sequence[Sequence[str]],
    *,
    add_prefix_space: bool,
) -> bytes:
    """Write the file of a byte-level BPE, as transformers writes that of a RobertaTokenizer.

    Pieces and the parts of merges, earliest first, are printable.
    """
    specials = {name: ids[name] for name in (*SPECIALS, MASK) if name in ids}
    bytes_to_text = {
        "type": "ByteLevel",
        "add_prefix_space": add_prefix_space,
        "trim_offsets": True,
        "use_regex": True,
    }
    return _written(
        added_tokens=[
            _added(number, word, mask=MASK)
            for word, number in sorted(specials.items(), key=lambda item: item[1])
        ],
        normalizer=None,
        pre_tokenizer=bytes_to_text,
        post_processor={
            "type": "RobertaProcessing",
            "sep": [_END, ids[_END]],
            "cls": [_BEGIN, ids[_BEGIN]],
            "trim_offsets": True,
            "add_prefix_space": add_prefix_space,
        },
        decoder=bytes_to_text,
        model={
            "type": "BPE",
            "dropout": None,
            "unk_token": _UNKNOWN if _UNKNOWN in ids else None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": ids,
            "merges": merges,
        },
    )


def write_wordpiece(ids: Mapping[str, int], rules: Rules, specials: Specials) -> bytes:
    """Write the file of a WordPiece."""
    return _written(
        indent=1,
        added_tokens=[
            _added(ids[name], name) for name in sorted(specials.names, key=ids.__getitem__)
        ],
        normalizer={
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": rules.chinese,
            "strip_accents": rules.strip_accents,
            "lowercase": rules.lower,
        },
        pre_tokenizer={"type": "BertPreTokenizer"},
        post_processor=_template(specials.bos, specials.eos, ids, separators=1),
        decoder={"type": "WordPiece", "prefix": PREFIX, "cleanup": rules.clean_up},
        model={
            "type": "WordPiece",
            "unk_token": specials.unk,
            "continuing_subword_prefix": PREFIX,
            "max_input_chars_per_word": rules.longest_word,
            "vocab": ids,
        },
    )


def write_unigram(model: SentencePieceModel, family: Family, rows: Sequence[int | str]) -> bytes:
    """Write the file of a unigram model, whose ids have the pieces or symbols in `rows`."""
    names = [row if isinstance(row, str) else model.texts[row] for row in rows]
    unknown = model.texts[model.unknown]
    special = {family.bos, family.eos, family.pad, family.mask, unknown, *family.first}
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    cutters = [{"type": "WhitespaceSplit"}, space]
    first = {name: i for i, name in reversed(list(enumerate(names)))}
    return _written(
        added_tokens=[
            _added(i, name, mask=family.mask) for i, name in enumerate(names) if name in special
        ],
        normalizer={"type": "Sequence", "normalizers": _normalizers(model, family)},
        pre_tokenizer={"type": "Sequence", "pretokenizers": cutters},
        post_processor=_template(family.bos, family.eos, first, separators=family.separators),
        decoder=space,
        model={
            "type": "Unigram",
            "unk_id": first[unknown],
            "vocab": [
                [name, _score(model, family, row)] for name, row in zip(names, rows, strict=True)
            ],
            "byte_fallback": model.byte_fallback,
        },
    )


def _score(model: SentencePieceModel, family: Family, row: int | str) -> float:
    if isinstance(row, str):
        return 0.0
    cleaning = family.cleaning
    cut = cleaning is not None and cleaning.cut_commas and ends_in_comma(model.texts[row])
    return model.scores[row] - _COMMA_PENALTY * cut


def _normalizers(model: SentencePieceModel, family: Family) -> list[dict[str, object]]:
    parts: list[dict[str, object]] = []
    if family.cleaning is not None:
        for quotes in ("``", "''") if family.cleaning.plain_quotes else ():
            parts.append({"type": "Replace", "pattern": {"String": quotes}, "content": '"'})
        if not family.cleaning.keep_accents:
            parts += [{"type": "NFKD"}, {"type": "StripAccents"}]
        if family.cleaning.do_lower_case:
            parts.append({"type": "Lowercase"})
    if model.character_map:
        blob = base64.b64encode(model.character_map).decode()
        parts.append({"type": "Precompiled", "precompiled_charsmap": blob})
    return parts


def _written(indent: int | None = None, **parts: object) -> bytes:
    table = {"version": "1.0", "truncation": None, "padding": None, **parts}
    return json.dumps(table, ensure_ascii=False, indent=indent).encode()


def _added(number: int, word: str, *, mask: str = "") -> dict[str, object]:
    """Describe a special token; white space before a mask belongs to it, as in `fill_mask`."""
    return {
        "id": number,
        "content": word,
        "single_word": False,
        "lstrip": word == mask,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def _template(bos: str, eos: str, ids: Mapping[str, int], *, separators: int) -> dict[str, object]:
    """Describe how one sentence and two become a sequence."""

    def special(name: str, segment: int) -> dict[str, object]:
        return {"SpecialToken": {"id": name, "type_id": segment}}

    def sentence(which: str, segment: int) -> dict[str, object]:
        return {"Sequence": {"id": which, "type_id": segment}}

    second = 1 if separators == 1 else 0  # a second segment, where the family has one
    single = [special(bos, 0), sentence("A", 0), special(eos, 0)]
    pair = [*single, *[special(eos, 0)] * (separators - 1)]
    pair += [sentence("B", second), special(eos, second)]
    tokens = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in (bos, eos)}
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": tokens,
    }
