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
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.errors import VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.text.dictionary import MASK, SPECIALS
from roberta_hub.text.gpt2_tables import MAX_TABLE_BYTES, from_printable
from roberta_hub.text.sentencepiece_file import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    SentencePieceModel,
    model_of,
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
MODELS = ("BPE", "WordPiece", "Unigram")
"""What the file calls the kinds of model that are read."""
_SHAPE_ERRORS = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
_COMMA_PENALTY = 100.0
"""What a piece like `▁9,` loses, as in transformers, since tokenizers cannot cut it again."""
_BEGIN, _PAD, _END, _UNKNOWN = SPECIALS


# ---- reading: every engine ----


@contextlib.contextmanager
def reading(path: Path, fault: str = "it holds what transformers does not write") -> Iterator[None]:
    """Name the file in every error about its content.

    Args:
        path: of the file.
        fault: what is said of a value of another shape than the code in the block expects.

    Raises:
        VocabularyError: the block raised one, or met another shape.

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
    """Return which of `MODELS` the file holds; older files of a BPE do not say it.

    Raises:
        VocabularyError: a model of another kind.
    """
    model = read_table(folder).get("model")
    named = model.get("type", MODELS[0]) if isinstance(model, dict) else MODELS[0]
    if not isinstance(named, str) or named not in MODELS:
        raise VocabularyError(
            f"{folder / TOKENIZER_FILE}: its model is {brief(named)}, which this version does "
            "not read; it "
            f"reads {', '.join(MODELS)}"
        )
    return named


@dataclass(frozen=True)
class Added:
    """One token that was added to a vocabulary, as a file lists it."""

    word: str
    id: int
    special: bool | None = None
    """A control token, which no text may write here; None: the file does not say."""
    normalized: bool = True
    """It is looked for in the normalized text."""
    odd: bool = False
    """It is found in another way than by its letters alone: lstrip, rstrip or single_word."""

    @classmethod
    def of(cls, number: object, entry: Mapping[str, Any]) -> Added:
        """Read an entry of tokenizer.json, or one of tokenizer_config.json.

        Raises:
            KeyError: the entry has no word.
            VocabularyError: the word is empty or no str, or the number no whole number.
        """
        word, special = entry["content"], bool(entry.get("special"))
        if type(number) is not int or not isinstance(word, str) or not word:
            raise VocabularyError(
                f"added token {brief(word)} has id {brief(number)}; a token is a text and its id a "
                "whole number"
            )
        normalized = bool(entry.get("normalized", not special))
        odd = any(entry.get(flag) for flag in ("lstrip", "rstrip", "single_word"))
        return cls(word, number, special, normalized, odd)


def added_tokens(folder: Folder) -> list[Added]:
    """Return the tokens that the file adds to the model's vocabulary, or names in it."""
    with reading(folder / TOKENIZER_FILE, "it lists no added tokens as transformers does"):
        entries = read_table(folder).get("added_tokens") or ()
        return [Added.of(entry["id"], entry) for entry in entries]


def _steps(part: Any) -> list[Any]:
    """Return the steps of a normalizer or pre_tokenizer, in order; None: it has none."""
    if isinstance(part, Mapping) and part.get("type") == "Sequence":
        return list(part["normalizers"] if "normalizers" in part else part["pretokenizers"])
    return [] if part is None else [part]


def _only(part: Any) -> Mapping[str, Any]:
    """Return a normalizer or pre_tokenizer of one step, out of its sequence; others as they are."""
    steps = _steps(part)
    step = steps[0] if len(steps) == 1 else part
    return step if isinstance(step, Mapping) else {"type": step}


# ---- reading: byte-level BPE ----


def read_byte_level(folder: Folder) -> tuple[dict[str, Any], list[tuple[bytes, bytes]]]:
    """Return the vocabulary, whose ids are not checked, and the merges, earliest first.

    Raises:
        VocabularyError: the file holds no byte-level BPE.
    """
    with reading(folder / TOKENIZER_FILE, "it holds no byte-level BPE"):
        model = read_table(folder)["model"]
        # Older files write a merge as 'Ġ t', newer ones as ['Ġ', 't'].
        pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
        merges = [(from_printable(left), from_printable(right)) for left, right in pairs]
        return dict(model["vocab"]), merges


def read_byte_level_prefix(folder: Folder) -> Any:
    """Refuse steps other than GPT-2's, and return what the file says of `add_prefix_space`.

    Raises:
        VocabularyError: the file changes or cuts texts in another way; it says in which.
    """
    with reading(folder / TOKENIZER_FILE):
        table = read_table(folder)
        normalizer, cutter = _only(table.get("normalizer")), _only(table.get("pre_tokenizer"))
        problem = ""
        if _steps(table.get("normalizer")):
            problem = f"its normalizer {str(normalizer.get('type'))[:40]} changes texts"
        elif table.get("pre_tokenizer") is not None and cutter.get("type") != "ByteLevel":
            problem = f"its pre_tokenizer is {str(cutter.get('type'))[:40]}, not ByteLevel,"
        elif cutter.get("use_regex") is False:
            problem = "its pre_tokenizer cuts texts without GPT-2's pattern"
        if problem:
            raise VocabularyError(
                f"{problem} before the BPE sees them, which this package does not do, so texts "
                "would get other ids than in training"
            )
        return cutter.get("add_prefix_space", True)


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
    longest_word: int = LONGEST_WORD
    """Characters of a word; a longer one is unknown."""
    clean_up: bool = True
    """Decoding leaves out the blank before punctuation."""


SWITCHES = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
"""Of WordPiece: names in tokenizer_config.json, and in a normalizer of tokenizer.json."""


def read_wordpiece(folder: Folder) -> WordPieceTable:
    """Read what the file says; an empty record where there is none.

    Raises:
        VocabularyError: no WordPiece, or one that does anything else to texts than BERT's.
    """
    table = read_table(folder)
    if not table:
        return WordPieceTable()
    with reading(folder / TOKENIZER_FILE, "it says things as transformers does not"):
        model, normalizer = table["model"], _only(table.get("normalizer"))
        _check_wordpiece(model, normalizer, _only(table.get("pre_tokenizer")))
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
            longest_word=longest,
            clean_up=(table.get("decoder") or {}).get("cleanup", True) is not False,
        )


def switches(source: Mapping[str, Any], names: Iterable[str]) -> dict[str, bool | None]:
    """Return what a table says under names in the order of `SWITCHES`, by its names.

    Raises:
        VocabularyError: neither true, false nor null.

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


def _check_wordpiece(
    model: Mapping[str, Any], normalizer: Mapping[str, Any], cutter: Mapping[str, Any]
) -> None:
    found = {
        "model": (model.get("type", "WordPiece"), "WordPiece"),
        "normalizer": (normalizer.get("type"), "BertNormalizer"),
        "clean_text": (normalizer.get("clean_text", True), True),
        "pre_tokenizer": (cutter.get("type"), "BertPreTokenizer"),
        "continuing_subword_prefix": (model.get("continuing_subword_prefix", PREFIX), PREFIX),
    }
    for name, (value, wanted) in found.items():
        if value != wanted:
            raise VocabularyError(
                f"{name} is {brief(value)}; this version reads {wanted!r}, and would give other ids"
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


def read_wordpiece_separators(folder: Folder, specials: Specials, names: Sequence[str]) -> int:
    """Return how many separators the post_processor puts between two sentences; without one, one.

    Args:
        folder: may hold the file.
        specials: name what begins a sequence and what ends a sentence.
        names: the pieces in the order of their ids.

    Raises:
        VocabularyError: sentences are joined in another way than by separators.
    """
    with reading(folder / TOKENIZER_FILE, "it says things as transformers does not"):
        step = read_table(folder).get("post_processor")
        if step is None:
            return 1
        begin, end = specials.bos, specials.eos
        if step["type"] in ("BertProcessing", "RobertaProcessing"):
            given = {word: [number] for word, number in (step["cls"], step["sep"])}
            twice = step["type"] == "RobertaProcessing"
            order = [begin, "A", end, *([end] if twice else []), "B", end]
        elif step["type"] == "TemplateProcessing":
            given = {word: own["ids"] for word, own in step["special_tokens"].items()}
            order = [
                part["SpecialToken"]["id"] if "SpecialToken" in part else part["Sequence"]["id"]
                for part in step["pair"]
            ]
        else:
            raise VocabularyError(f"its post_processor is {brief(step['type'])}")
        wrong = [word for word in (begin, end) if given.get(word) != [names.index(word)]]
        separators = len(order) - 4  # besides the first word, both sentences and the last one
        if wrong or order != [begin, "A", *[end] * separators, "B", end]:
            raise VocabularyError(
                f"its post_processor makes pairs as {brief(order)}, with ids {brief(given)}; this "
                f"version reads {begin} A {end} B {end}"
            )
        return separators


# ---- reading: SentencePiece's unigram ----


def read_unigram(folder: Folder, specials: set[str]) -> tuple[SentencePieceModel, Cleaning | None]:
    """Make a model of the file's vocabulary, whose order stays, and its character map.

    Args:
        folder: holds the file.
        specials: further symbols that are never encoded from text, besides the file's.

    Returns:
        (model, ALBERT's cleaning where the normalizer has one).

    Raises:
        VocabularyError: no unigram model, or one whose texts are changed or cut in another way than
            SentencePiece does: the message says which part.
    """
    table, added = read_table(folder), added_tokens(folder)
    with reading(folder / TOKENIZER_FILE, "it holds no unigram model"):
        part = table["model"]
        texts = [str(text) for text, _ in part["vocab"]]
        scores = [float(score) for _, score in part["vocab"]]
        unknown = part["unk_id"]
        blob, cleaning = _read_normalizer(table.get("normalizer"))
        prefix = _begins_with_space(table.get("pre_tokenizer"))
        if type(unknown) is not int or not 0 <= unknown < len(texts):
            raise VocabularyError(f"unk_id is {brief(unknown)}, and it has {len(texts)} pieces")
        if words := [token.word for token in added if not token.special]:
            raise VocabularyError(
                f"it adds words that a text can write, {brief(words[0])} among them, which is not "
                "done here, so their texts would get other ids; add them as special tokens, and "
                "save the tokenizer again"
            )
        if part.get("byte_fallback", False):
            raise VocabularyError("byte_fallback is true, which is read from a .model file only")
        if cleaning is not None:  # the engine cuts such pieces again
            scores = [
                score + _COMMA_PENALTY
                if ends_in_comma(text) and score <= -_COMMA_PENALTY
                else score
                for text, score in zip(texts, scores, strict=True)
            ]
        controls = specials | {token.word for token in added}
        kinds = bytearray(CONTROL if text in controls else NORMAL for text in texts)
        kinds[unknown] = UNKNOWN
        model = model_of(texts, scores, bytes(kinds), character_map=blob, add_dummy_prefix=prefix)
    return model, cleaning


def _read_normalizer(normalizer: Any) -> tuple[bytes, Cleaning | None]:
    """Return the character map and ALBERT's cleaning."""
    blob, kinds = b"", []
    for step in _steps(normalizer):
        kind = step["type"]
        if kind == "Precompiled":
            blob = base64.b64decode(step["precompiled_charsmap"] or "", validate=True)
        elif kind == "Replace" and step["pattern"] in ({"String": "``"}, {"String": "''"}):
            kinds.append("quotes")
        elif kind in ("NFKD", "StripAccents", "Lowercase"):
            kinds.append(kind)
        elif not (kind == "Strip" or (kind == "Replace" and step["content"] == " ")):
            # Spaces that go or become one are what SentencePiece does.
            raise VocabularyError(
                f"its normalizer has a part {brief(kind)}, which is not done here"
            )
    if not kinds:
        return blob, None
    return blob, Cleaning(do_lower_case="Lowercase" in kinds, keep_accents="NFKD" not in kinds)


def _begins_with_space(cutter: Any) -> bool:
    """Return whether a text is read with a space before it."""
    prefix = False
    for step in _steps(cutter):
        kind, scheme = step["type"], step.get("prepend_scheme")
        if kind == "Metaspace" and step.get("replacement", "▁") == "▁":
            prefix = step.get("add_prefix_space", True) if scheme is None else scheme != "never"
        elif kind != "WhitespaceSplit":
            raise VocabularyError(
                f"its pre_tokenizer has a part {brief(kind)}, which is not done here"
            )
    return bool(prefix)


# ---- writing ----


def write_byte_level(
    ids: Mapping[str, int],
    words: Mapping[str, int],
    merges: Sequence[Sequence[str]],
    *,
    add_prefix_space: bool,
) -> bytes:
    """Write the file of a byte-level BPE, as transformers writes that of a RobertaTokenizer.

    Args:
        ids: of each printable piece or symbol.
        words: ids of words that are always one piece.
        merges: the two printable parts of each, earliest first.
        add_prefix_space: whether a text is read with a space before it.
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
            _added(number, word, mask=MASK, special=word in specials)
            for word, number in sorted({**words, **specials}.items(), key=lambda item: item[1])
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
    """Write the file of a WordPiece.

    Args:
        ids: of each piece or symbol.
        rules: how texts are cut.
        specials: all among the pieces.
    """
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
    """Write the file of a unigram model.

    Args:
        model: gives texts, scores and the character map.
        family: how texts are cleaned and sentences joined.
        rows: what each of the model's ids is: a piece's number, or a symbol that is no piece.
    """
    names = [row if isinstance(row, str) else model.texts[row] for row in rows]
    unknown = model.texts[model.unknown]
    special = {family.bos, family.eos, family.pad, family.mask, unknown, *family.first}
    prefix = "always" if model.add_dummy_prefix else "never"
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": prefix, "split": True}
    cutters = [{"type": "WhitespaceSplit"}, space] if model.remove_extra_whitespaces else [space]
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
    cut = family.cleaning is not None and ends_in_comma(model.texts[row])
    return model.scores[row] - _COMMA_PENALTY * cut


def _normalizers(model: SentencePieceModel, family: Family) -> list[dict[str, object]]:
    parts: list[dict[str, object]] = []
    if family.cleaning is not None:
        for quotes in ("``", "''"):
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


def _added(number: int, word: str, *, mask: str = "", special: bool = True) -> dict[str, object]:
    """Describe an added token; white space before a mask belongs to it, as in `fill_mask`."""
    return {
        "id": number,
        "content": word,
        "single_word": False,
        "lstrip": word == mask,
        "rstrip": False,
        "normalized": not special,
        "special": special,
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
