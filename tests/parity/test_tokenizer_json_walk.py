"""Each field of a tokenizer.json, set to another valid value: transformers' ids, or an error.

The files are written by transformers for a folder of each family. A field whose value changes no id
is in `WITHOUT_EFFECT`; every other is read, or refused by an error that names it.
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import families
import pytest

from roberta_hub.errors import VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.text import Tokenizer
from roberta_hub.text.huggingface import read_tokenizer

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

pytestmark = pytest.mark.parity

KINDS = ("bytes", "wordpiece", "xlmr", "camembert", "albert")
GENERIC = "PreTrainedTokenizerFast"
TEXTS = (
    *families.SENTENCES[:14:3],
    *families.SENTENCES[14::4],
    "",
    "  Two  blanks and\ta tab \n",
    "\u3000wide\xa0and\u2003thin\x0bspaces",
    "ÉLÈVES déjà vu, Straße ΑΣ",
    "a" * 60 + " was late",
    "unknown ☃ ☃☃ snow",
    "नमस्ते สวัสดี 今天",
    "house's 1,000 2.5 ''quoted``",
)
Path_ = tuple[str | int, ...]

OTHER: dict[str, tuple[Any, ...]] = {
    "version": ("2.0",),
    "normalizer": (
        None,
        {"type": "NFC"},
        {"type": "Lowercase"},
        {"type": "Prepend", "prepend": "x"},
    ),
    "pre_tokenizer": (
        None,
        {"type": "Whitespace"},
        {"type": "WhitespaceSplit"},
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True},
        {"type": "Digits", "individual_digits": True},
    ),
    "post_processor": (
        None,
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    ),
    "type": (),  # another type is another shape: see the parts above
    "lowercase": (False, True),
    "strip_accents": (False, True),
    "handle_chinese_chars": (False,),
    "clean_text": (False,),
    "add_prefix_space": (False, True),
    "use_regex": (False,),
    "replacement": ("_",),
    "prepend_scheme": ("never", "first"),
    "split": (False,),
    "normalizers": (),
    "pretokenizers": (),
    "pattern": ({"String": "e"},),
    "content": ("x",),
    "precompiled_charsmap": (None,),
    "dropout": (0.5, 0.0),
    "unk_token": ("<pad>", "[CLS]"),
    "continuing_subword_prefix": ("##", "@@"),
    "end_of_word_suffix": ("</w>",),
    "fuse_unk": (True,),
    "byte_fallback": (True,),
    "ignore_merges": (True,),
    "max_input_chars_per_word": (5,),
    "unk_id": (1, 2, 7),
    "sep": (["<pad>", 1],),
    "cls": (["<pad>", 1],),
    "type_id": (1,),
    "single": (),
    "pair": (),
    "special_tokens": (),
}
"""Other values of each field by its name; every value that the peer reads is tried."""
WITHOUT_EFFECT = {
    "truncation": (
        {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0},
    ),
    "padding": (
        {
            "strategy": {"Fixed": 30},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 1,
            "pad_type_id": 0,
            "pad_token": "<pad>",
        },
    ),
    "trim_offsets": (False, True),
    "decoder": (None, {"type": "Fuse"}),
}
"""Fields that change no id, with other values; all that stands inside a decoder is one of them."""


def fields(part: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yield the place of each field, but for what added tokens, vocabulary and merges hold."""
    if path and path[-1] in ("added_tokens", "vocab", "merges", "decoder", "ids", "tokens"):
        return
    if isinstance(part, dict):
        for key, value in part.items():
            yield (*path, key)
            yield from fields(value, (*path, key))
    elif isinstance(part, list) and part and isinstance(part[0], dict):
        for place, value in enumerate(part):
            yield from fields(value, (*path, place))


def changed(table: dict[str, Any], path: Path_, value: Any) -> dict[str, Any]:
    new = copy.deepcopy(table)
    part: Any = new
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return new


def variants(table: dict[str, Any]) -> Iterator[tuple[Path_, Any, dict[str, Any]]]:
    """Yield (place, value, the file with it)."""
    for path in fields(table):
        key = path[-1]
        if path[:-1] and path[-2] == "special_tokens":
            yield path, "another id", changed(table, (*path, "ids"), [1])
            continue
        if key == "id" and path[0] == "post_processor":
            continue  # the word that the other two name
        if key in ("model", "added_tokens", "vocab", "merges", "ids", "tokens"):
            continue
        if key in ("SpecialToken", "Sequence", "String", "Regex"):
            continue
        values = WITHOUT_EFFECT.get(str(key)) or OTHER[str(key)]
        for value in values:
            yield path, value, changed(table, path, value)
    yield from samples(table)


def samples(table: dict[str, Any]) -> Iterator[tuple[Path_, Any, dict[str, Any]]]:
    """The vocabulary with two pieces exchanged, and the merges without the first."""
    new = copy.deepcopy(table)
    model = new["model"]
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        first, second = [piece for piece in vocabulary if piece.isalpha()][5:7]
        vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    else:
        vocabulary[40], vocabulary[41] = vocabulary[41], vocabulary[40]
    yield ("model", "vocab"), "two exchanged", new
    if "merges" in model:
        new = copy.deepcopy(table)
        new["model"]["merges"][:2] = reversed(new["model"]["merges"][:2])
        yield ("model", "merges"), "two exchanged", new


@pytest.fixture(scope="module", params=KINDS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as transformers saves it."""
    folder = tmp_path_factory.mktemp(request.param)
    getattr(families, f"write_{request.param}")(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.save_pretrained(folder / "saved")
    return folder / "saved"


def theirs(folder: Path) -> list[list[int]]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    pairs = tokenizer(list(TEXTS), list(reversed(TEXTS)))
    return [*tokenizer(list(TEXTS)).input_ids, *pairs.input_ids]


def ours(folder: Path) -> list[list[int]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = read_tokenizer(Folder(folder))
    assert found is not None
    tokenizer = Tokenizer(*found)
    pairs = zip(TEXTS, reversed(TEXTS), strict=True)
    return [tokenizer.encode(*texts).tolist() for texts in (*((t,) for t in TEXTS), *pairs)]


def rust(file: Path) -> list[list[int]]:
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    pairs = zip(TEXTS, reversed(TEXTS), strict=True)
    return [tokenizer.encode(*texts).ids for texts in (*((t,) for t in TEXTS), *pairs)]


def first_difference(found: Any, expected: Any) -> Any:
    if isinstance(expected, str):
        return expected
    return next((a, b) for a, b in zip(found, expected, strict=True) if a != b)


@pytest.mark.parametrize("generic", [False, True])
def test_each_field_counts_or_is_refused(saved: Path, tmp_path: Path, generic: bool) -> None:
    about = json.loads((saved / "tokenizer_config.json").read_text(encoding="utf-8"))
    if generic:
        about["tokenizer_class"] = GENERIC
    table = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(table), encoding="utf-8")
    plain = theirs(tmp_path)
    assert ours(tmp_path) == plain
    wrong, refused, read, met = [], 0, 0, set()
    for path, value, other in variants(table):
        key = str(path[-1])
        met.add(key)
        file.write_text(json.dumps(other), encoding="utf-8")
        try:
            expected: Any = theirs(tmp_path)
        except BaseException as error:  # a panic of Rust's among them
            if isinstance(error, KeyboardInterrupt):
                raise
            expected = f"{type(error).__name__}: {error}"[:60]
        try:
            found: Any = ours(tmp_path)
        except VocabularyError as error:
            found = str(error)
        if key in WITHOUT_EFFECT:
            assert found == plain, (path, found)
        if isinstance(found, str):
            refused += 1
            inner = value if isinstance(value, dict) else {}
            names = [str(step) for step in path if isinstance(step, str)][-2:]
            if not any(name in found for name in (*names, *inner)):
                wrong.append((path, value, "does not name it", found))
            continue
        read += 1
        if value == {"type": "Lowercase"}:  # the class drops it; sentence-transformers keeps it
            expected = rust(file)
        if found != expected:
            wrong.append((path, value, "other ids", first_difference(found, expected)))
    assert not wrong, "\n".join(str(each)[:400] for each in wrong)
    assert refused > 4 and read > 4 and {"truncation", "padding", "vocab"} <= met
