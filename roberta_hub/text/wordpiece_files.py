"""Reads a WordPiece tokenizer: `vocab.txt`, `tokenizer.json`, or both, and the settings."""

from __future__ import annotations

import codecs
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.errors import VocabularyError
from roberta_hub.files import UTF16_MARKS, read_bytes
from roberta_hub.folder import Folder
from roberta_hub.text.added import (
    SPECIAL_TOKENS_FILE,
    TOKENIZER_CONFIG_FILE,
    class_of,
    embedding_rows,
    is_generic,
    read_added,
)
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.gpt2_tables import MAX_TABLE_BYTES
from roberta_hub.text.layout import SequenceLayout
from roberta_hub.text.pieces import SubwordTokenizer
from roberta_hub.text.tokenizer_json import (
    SWITCHES,
    WordPieceTable,
    read_separators,
    read_table,
    read_wordpiece,
    reading,
    switches,
    unread_setting,
)
from roberta_hub.text.tokenizer_steps import at_odds
from roberta_hub.text.with_added import with_tokens
from roberta_hub.text.wordpiece import WordPiece
from roberta_hub.text.wordpiece_rules import (
    LONGEST_WORD,
    MAX_PIECES,
    PREFIX,
    Rules,
    Specials,
    check_pieces,
)

VOCABULARY_FILE = "vocab.txt"
CLASSES = ("BertTokenizer", "ElectraTokenizer", "DistilBertTokenizer")
"""transformers' classes that read it."""
_DEFAULTS = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
"""What these classes do where tokenizer_config.json is silent, whatever tokenizer.json has."""
_ROLES = {"bos": "cls", "eos": "sep", "pad": "pad", "unk": "unk", "mask": "mask"}
"""Roles of special words: our names, and Hugging Face's before `_token`."""
_UNREAD: dict[str, tuple[object, ...]] = {
    "word_tokenizer_type": ("basic", None),
    "subword_tokenizer_type": ("wordpiece", None),
    "do_basic_tokenize": (True, None),
    "do_word_tokenize": (True, None),
    "do_subword_tokenize": (True, None),
    "never_split": (None, []),
}
"""Settings of transformers' Python classes that cut texts otherwise, with their harmless values."""


def read(folder: Folder) -> tuple[SubwordTokenizer, Dictionary, SequenceLayout]:
    """Read engine, dictionary and layout of a Hugging Face directory with a WordPiece.

    It does what BERT's does; settings that ask for anything else are refused.
    """
    settings, table = (
        folder.optional(TOKENIZER_CONFIG_FILE, VocabularyError),
        read_wordpiece(folder),
    )
    _check_settings(settings, folder / TOKENIZER_CONFIG_FILE)
    with reading(folder.path):
        names, added = _names(folder, table), read_added(folder)
        vocabulary = {name: i for i, name in enumerate(names)}
        rows, tokens = added.placed(vocabulary, embedding_rows(folder))
        pieces = [*names, *(row for row in rows[len(names) :] if row not in tokens)]
        controls = set(filter(added.is_control, rows))
        specials = _specials(folder, settings, table, pieces, controls)
        rules = _rules(folder, settings, table, names)
        kind = settings.get("tokenizer_class") or "BertTokenizer"
        engine = WordPiece(pieces, rules=rules, specials=specials, tokenizer_class=kind)
        bos, eos, pad, unk = specials.bos, specials.eos, specials.pad, specials.unk
        begin, end = (bos, rows.index(bos)), (eos, rows.index(eos))
        separators = read_separators(folder, begin, end, class_of(folder, CLASSES), 1)
        dictionary = Dictionary.from_symbols(rows, bos=bos, eos=eos, pad=pad, unk=unk)
    layout = SequenceLayout.of(dictionary, mask=specials.mask or "", separators=separators)
    return with_tokens(engine, tokens), dictionary, layout


def read_vocabulary(path: Path) -> list[str]:
    r"""Read the pieces of a vocab.txt, one a line; a line ends at "\n" and at nothing else.

    A byte order mark before the first piece, which editors write, is no part of it.
    """
    data = read_bytes(path, MAX_TABLE_BYTES, VocabularyError, "vocabulary").rstrip(b"\n")
    count = data.count(b"\n") + 1
    if count > MAX_PIECES:
        raise VocabularyError(f"{path.name} has {count:,} lines; the limit is {MAX_PIECES:,}")
    if data.startswith(UTF16_MARKS):
        raise VocabularyError(
            f"{path.name} is UTF-16, as an editor saved it; save it as UTF-8, or fetch it again"
        )
    if data.startswith(codecs.BOM_UTF8) and not data[3:].startswith((b"\n", b"\r")):
        data = data[3:]
    try:
        lines = data.decode().split("\n")  # not splitlines: U+2028 is a piece of Chinese BERT
    except UnicodeDecodeError as error:
        raise VocabularyError(f"{path.name} is not UTF-8 at byte {error.start}") from None
    if all(line.endswith("\r") for line in lines[:-1]) and count > 1:
        lines = [line.removesuffix("\r") for line in lines]
    check_pieces(lines, f"{path.name}, line ", 1)
    return lines


def _names(folder: Folder, table: WordPieceTable) -> list[str]:
    """Return the pieces by their ids: tokenizer.json's, as in transformers, else vocab.txt's."""
    return list(table.names) if read_table(folder) else read_vocabulary(folder / VOCABULARY_FILE)


def _specials(
    folder: Folder,
    settings: Mapping[str, Any],
    table: WordPieceTable,
    names: Sequence[str],
    controls: Collection[str],
) -> Specials:
    """Return the special words; those without a part in our sequences are among `controls`."""
    given = {**folder.optional(SPECIAL_TOKENS_FILE, VocabularyError), **settings}
    roles = {role: _word(given, key) for role, key in _ROLES.items()}
    kind = class_of(folder, CLASSES)
    if kind is not None and table.unk not in (None, roles["unk"]):
        raise at_odds("unk_token", table.unk, kind, roles["unk"])
    if kind is not None and table.longest_word != LONGEST_WORD:
        raise at_odds("max_input_chars_per_word", table.longest_word, kind, LONGEST_WORD)
    if table.unk is not None and table.unk not in names:
        raise VocabularyError(
            f"unk_token is {brief(table.unk)}, which is not among its {len(names):,} pieces; add "
            "it, or correct unk_token"
        )
    roles["unk"] = roles["unk"] if table.unk is None else table.unk
    mask: str | None = roles.pop("mask")
    if mask not in names:
        mask = None
    others = set(controls) - {*roles.values(), mask}
    return Specials(**roles, mask=mask, others=tuple(name for name in names if name in others))


def _word(settings: Mapping[str, Any], role: str) -> str:
    """Return a special word of the settings: BERT's, a str, or a table with its `content`."""
    value = settings.get(f"{role}_token")
    if isinstance(value, Mapping):
        value = value.get("content", value)
    if not isinstance(value, (str, type(None))):
        raise VocabularyError(f"{role}_token is {brief(value)}, not a text")
    return value or f"[{role.upper()}]"


def _rules(
    folder: Folder, settings: Mapping[str, Any], table: WordPieceTable, names: Sequence[str]
) -> Rules:
    """Settings count before tokenizer.json, as in transformers, but for its generic classes."""
    said = dict(table.switches)
    if not (read_table(folder) and is_generic(settings.get("tokenizer_class"))):
        with reading(folder / TOKENIZER_CONFIG_FILE):
            own = switches(settings, SWITCHES)
        # null means that the file does not say it, but of accents: they go with the capitals.
        own = {k: v for k, v in own.items() if v is not None or k == "strip_accents"}
        if (kind := class_of(folder, CLASSES)) is not None:
            _check_defaults(folder, said, own, kind)
        said |= own
    lower, accents = said.get("do_lower_case"), said.get("strip_accents")
    lower = _uncased(names, folder) if lower is None else lower
    if table.lowercased:  # and then, as the normalizer says
        accents, lower = lower if accents is None else accents, True
    return Rules(
        lower=lower,
        strip_accents=accents,
        chinese=said.get("tokenize_chinese_chars") is not False,
        longest_word=table.longest_word,
        clean_up=table.clean_up,
    )


def _check_defaults(
    folder: Folder, table: Mapping[str, object], own: Mapping[str, object], kind: str
) -> None:
    """Refuse what tokenizer.json alone says, where the class of the tokenizer does otherwise."""
    for name, usual in _DEFAULTS.items():
        if name in table and name not in own and table[name] is not usual:
            raise unread_setting(folder, name, table[name], kind, usual)


def _uncased(names: Sequence[str], folder: Folder) -> bool:
    """Guess by the pieces, as no file says it, and say so."""
    letters = (name for name in names if name.removeprefix(PREFIX).isalpha())  # not [CLS], <S>
    capital = next((name for name in letters if any("A" <= c <= "Z" for c in name)), None)
    reason = (
        "no piece has a capital" if capital is None else f"{capital[:40]!r} is among its pieces"
    )
    kind = "uncased: texts are read in lower case" if capital is None else "cased"
    warnings.warn(
        f"{folder} does not say do_lower_case; {reason}, so it is taken for {kind}. Write "
        f'{{"do_lower_case": {str(capital is None).lower()}}} into its tokenizer_config.json to '
        "settle it",
        stacklevel=2,
    )
    return capital is None


def _check_settings(settings: Mapping[str, Any], path: Path) -> None:
    """Refuse settings of transformers' Python classes that cut texts otherwise."""
    for name, harmless in _UNREAD.items():
        if settings.get(name) not in harmless:
            raise VocabularyError(
                f"{path}: {name} is {brief(settings[name])}, which this version does not read: "
                "texts would get other ids"
            )
