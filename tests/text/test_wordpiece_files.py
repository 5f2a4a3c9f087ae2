"""A WordPiece tokenizer's files are read, or refused with a sentence."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import forks
import pytest
from wordpiece_vocabularies import vocabulary

from roberta_hub.errors import VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.formats.tokenizer_files import tokenizer_files
from roberta_hub.text import Tokenizer
from roberta_hub.text.huggingface import read_tokenizer
from roberta_hub.text.wordpiece import WordPiece
from roberta_hub.text.wordpiece_files import read_vocabulary

NAMES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "##s", "[", "]", "mask", "."]


def write(folder: Path, lines: str | bytes | None = None, **files: Any) -> Path:
    """vocab.txt, and JSON files by their names; `tokenizer` takes `table()`."""
    folder.mkdir(exist_ok=True)
    if lines is not None:
        (folder / "vocab.txt").write_bytes(lines if isinstance(lines, bytes) else lines.encode())
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def lines_of(names: list[str], end: str = "\n") -> bytes:
    return "".join(f"{name}{end}" for name in names).encode()


def table(**changes: Any) -> dict[str, Any]:
    """Our own tokenizer.json, changed in its parts."""
    whole = json.loads(WordPiece(NAMES).files(range(len(NAMES)))["tokenizer.json"])
    for name, change in changes.items():
        whole[name] = {**(whole[name] or {}), **change} if isinstance(change, dict) else change
    return whole


def read(folder: Path) -> Tokenizer:
    found = read_tokenizer(Folder(folder))
    assert found is not None
    return Tokenizer(*found)


QUIET = {"do_lower_case": True}


def test_lines(tmp_path: Path) -> None:
    tokenizer = read(write(tmp_path, lines_of(NAMES), tokenizer_config=QUIET))
    assert tokenizer.pieces() == NAMES
    assert tokenizer.encode("The dogs").tolist() == [2, 5, 6, 7, 3]
    layout = tokenizer.layout
    assert (layout.bos, layout.eos, layout.pad, layout.unk, layout.mask) == (2, 3, 0, 1, 4)
    assert layout.separators == 1
    assert tokenizer.dictionary.symbols == NAMES


def test_line_ends(tmp_path: Path) -> None:
    names = [*NAMES, "\u2028", "##\u2028", "\u0085", "a b", "\ufeff"]
    path = tmp_path / "vocab.txt"
    for data in (lines_of(names), lines_of(names).rstrip(b"\n"), lines_of(names) + b"\n\n"):
        path.write_bytes(data)
        assert read_vocabulary(path) == names
    path.write_bytes(lines_of(names, "\r\n"))
    assert read_vocabulary(path) == names


def test_real_chinese_vocabulary(tmp_path: Path) -> None:
    tokenizer = read(write(tmp_path, vocabulary("bert_chinese"), tokenizer_config=QUIET))
    assert len(tokenizer) == 21_128
    assert tokenizer.encode("你好").tolist() == [101, 872, 1962, 102]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1: it is empty"),
        (b"\n\n\n", "line 1: it is empty"),
        (lines_of([*NAMES, "", "x"]), "line 13: it is empty"),
        (lines_of([*NAMES, "dog"]), "line 13: 'dog' stands there twice, first as 7"),
        (lines_of([*NAMES, "x" * 1001]), r"line 13: 1,001 characters"),
        (lines_of([*NAMES, "x\0"]), "line 13: .* NUL"),
        (lines_of([*NAMES, "x\r", "y"]), "line 13: .* line break"),
        (lines_of(NAMES) + b"\xff\n", "not UTF-8 at byte 54"),
        (lines_of(NAMES).decode().encode("utf-16"), "is UTF-16, as an editor saved it"),
        (lines_of([n for n in NAMES if n != "[UNK]"]), r"lacks its special word '\[UNK\]'"),
        (b"a\n" * 10_000_000, "10,000,000 lines; the limit is 2,000,000"),
        (b"a" * 21_000_000, "larger than 20,971,520 bytes"),
    ],
    ids=range(12),
)
def test_false_lines(tmp_path: Path, data: bytes, message: str) -> None:
    write(tmp_path, data, tokenizer_config=QUIET)
    start = time.process_time()
    with pytest.raises(VocabularyError, match=message) as refused:
        read_tokenizer(Folder(tmp_path))
    assert str(tmp_path) in str(refused.value) and len(str(refused.value)) < 400
    assert time.process_time() - start < 10


def test_cased_or_not(tmp_path: Path) -> None:
    """The setting, else the normalizer, else the vocabulary, which is said."""
    plain, cased = tmp_path / "plain", tmp_path / "cased"
    kept = {"lowercase": False}
    for folder, names, lower in ((plain, NAMES, True), (cased, [*NAMES, "Dog"], False)):
        write(folder, lines_of(names))
        with pytest.warns(UserWarning, match="does not say do_lower_case"):
            assert read(folder).engine.settings["do_lower_case"] is lower
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write(cased, tokenizer_config={"do_lower_case": True})
        assert read(cased).engine.settings["do_lower_case"] is True
        write(plain, tokenizer=table(normalizer=kept))
        assert read(plain).engine.settings["do_lower_case"] is False
        write(plain, tokenizer_config=QUIET)
        assert read(plain).engine.settings["do_lower_case"] is True
        generic = {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": True}
        write(plain, tokenizer_config=generic)
        assert read(plain).engine.settings["do_lower_case"] is False


def test_other_settings(tmp_path: Path) -> None:
    about = {**QUIET, "strip_accents": False, "tokenize_chinese_chars": False}
    write(tmp_path, None, tokenizer=table(), tokenizer_config=about)
    rules = read(tmp_path).engine.rules  # type: ignore[attr-defined]
    assert (rules.strip, rules.chinese) == (False, False)
    assert (rules.longest_word, rules.clean_up) == (100, True)
    changed = table(
        normalizer={"strip_accents": True, "handle_chinese_chars": False},
        model={"max_input_chars_per_word": 7},
        decoder={"cleanup": False},
        truncation={"max_length": 3},
        padding={"strategy": {"Fixed": 9}},
    )
    generic = {"tokenizer_class": "PreTrainedTokenizerFast"}
    write(tmp_path, None, tokenizer=changed, tokenizer_config=generic)
    tokenizer = read(tmp_path)
    rules = tokenizer.engine.rules  # type: ignore[attr-defined]
    assert (rules.strip_accents, rules.chinese, rules.longest_word) == (True, False, 7)
    assert not rules.clean_up
    assert tokenizer.encode("the dogs. the dogs").tolist() == [2, 5, 6, 7, 11, 5, 6, 7, 3]
    about = json.loads(tokenizer_files(tokenizer, 512)["tokenizer_config.json"])
    assert about["tokenizer_class"] == "PreTrainedTokenizerFast"  # which alone reads the 7
    write(tmp_path, tokenizer_config={"tokenizer_class": "BertTokenizer"})
    with pytest.raises(VocabularyError, match=r"max_input_chars_per_word is 7, and BertTokenizer"):
        read(tmp_path)


def test_other_special_words(tmp_path: Path) -> None:
    names = ["<s>", "<pad>", "</s>", "<unk>", "the", "<extra>"]
    specials = {"cls_token": "<s>", "sep_token": {"content": "</s>"}, "pad_token": "<pad>"}
    write(tmp_path, lines_of(names), special_tokens_map=specials)
    about = {"unk_token": "<unk>", "mask_token": "<mask>", "do_lower_case": False}
    about |= {"additional_special_tokens": ["<extra>"]}
    tokenizer = read(write(tmp_path, tokenizer_config=about))
    layout = tokenizer.layout
    assert (layout.bos, layout.eos, layout.pad, layout.unk, layout.mask) == (0, 2, 1, 3, None)
    assert tokenizer.encode("the", "x").tolist() == [0, 4, 2, 3, 2]
    assert tokenizer.words.tolist() == [False] * 4 + [
        True,
        True,
    ]  # a user's own is no special token
    assert tokenizer.encode("the<extra>").tolist() == [0, 4, 5, 2]
    with pytest.raises(VocabularyError, match="nothing can be masked"):
        tokenizer.encode_masked("<mask>")


def test_added_words(tmp_path: Path) -> None:
    write(tmp_path, lines_of(NAMES), tokenizer_config=QUIET, added_tokens={"new": 12})
    tokenizer = read(tmp_path)
    assert tokenizer.pieces([12]) == ["new"] and tokenizer.tokenize("the NEWdog") == [
        "the",
        "new",
        "dog",
    ]
    write(tmp_path, special_tokens_map={"additional_special_tokens": ["new"]})
    assert read(tmp_path).tokenize("thenew NEW") == ["the", "new", "[UNK]"]
    write(tmp_path, added_tokens={"new": 13})
    with pytest.raises(VocabularyError, match=r"'new' was added as id 13.*gap"):
        read_tokenizer(Folder(tmp_path))


PAIR = [
    {"SpecialToken": {"id": w}} if w in NAMES else {"Sequence": {"id": w}} for w in ("[CLS]", "A")
]
IDS = {name: {"ids": [NAMES.index(name)]} for name in ("[CLS]", "[SEP]")}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalizer": None}, "normalizer is None"),
        ({"normalizer": {"type": "NFKC"}}, "normalizer is 'NFKC'"),
        ({"normalizer": {"clean_text": False}}, "clean_text is False"),
        ({"normalizer": {"lowercase": "yes"}}, "lowercase is 'yes'"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer is 'Whitespace'"),
        ({"pre_tokenizer": []}, r"pre_tokenizer is \[\]"),
        ({"model": {"type": "WordLevel"}}, "model is 'WordLevel'"),
        ({"model": {"continuing_subword_prefix": "@@"}}, "continuing_subword_prefix is '@@'"),
        ({"model": {"max_input_chars_per_word": 10**9}}, "max_input_chars_per_word"),
        ({"model": {"vocab": {"[PAD]": 0, "a": 2}}}, "not 0, 1, 2"),
        ({"model": {"vocab": {"[PAD]": 0, "a": True}}}, "not 0, 1, 2"),
        ({"model": {"vocab": {"[PAD]": 0, "a\n": 1}}}, "id 1: .* line break"),
        ({"model": {"vocab": [["[PAD]", 0]]}}, "as transformers does not"),
        ({"model": {"vocab": None}}, "as transformers does not"),
        ({"model": {"unk_token": "?"}}, r"unk_token is '\?', and BertTokenizer"),
        ({"model": {"unk_token": ["?"]}}, r"unk_token is \['\?'\], not a text"),
        ({"model": 3}, "as transformers does not"),
        ({"added_tokens": [{"id": 4, "content": "[CLS]", "special": True}]}, "id 4, where"),
        ({"added_tokens": [{"id": -1, "content": "[CLS]", "special": True}]}, "has id -1"),
        ({"added_tokens": 3}, "lists no added tokens"),
        ({"post_processor": {"type": "ByteLevel"}}, "post_processor is 'ByteLevel'"),
        ({"post_processor": {"pair": PAIR}}, "makes pairs as"),
        ({"post_processor": {"special_tokens": {"[CLS]": {"ids": [3]}}}}, "makes pairs as"),
        ({"post_processor": 3}, "post_processor is 3"),
    ],
    ids=range(24),
)
def test_false_tables(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    whole = table(**{k: v for k, v in changes.items() if k != "model" or isinstance(v, dict)})
    whole |= {k: v for k, v in changes.items() if not isinstance(v, dict)}
    about = {"tokenizer_class": "BertTokenizer"}
    write(tmp_path, None, tokenizer=whole, tokenizer_config=about)
    with pytest.raises(VocabularyError, match=message) as refused:
        read_tokenizer(Folder(tmp_path))
    assert str(tmp_path) in str(refused.value) and len(str(refused.value)) < 500


@pytest.mark.parametrize("kind", ["BertProcessing", "RobertaProcessing", "sequences of one"])
def test_other_spellings(tmp_path: Path, kind: str) -> None:
    whole = table()
    if kind == "sequences of one":
        whole["normalizer"] = {"type": "Sequence", "normalizers": [whole["normalizer"]]}
        whole["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [whole["pre_tokenizer"]]}
    else:
        whole["post_processor"] = {"type": kind, "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    tokenizer = read(write(tmp_path, None, tokenizer=whole))
    middle = [3, 3] if kind == "RobertaProcessing" else [3]
    assert tokenizer.encode("the", "dog").tolist() == [2, 5, *middle, 6, 3]


def test_tokenizer_json_counts_before_an_older_vocabulary(tmp_path: Path) -> None:
    """transformers saves over a folder, and leaves vocab.txt where it is."""
    for names in (NAMES, [*NAMES[:6], "cat", *NAMES[7:]], [*NAMES, "new"], NAMES[:7]):
        write(tmp_path, lines_of(names), tokenizer=table())
        assert read(tmp_path).pieces() == NAMES
    (tmp_path / "tokenizer.json").unlink()
    with pytest.warns(UserWarning, match="do_lower_case"):
        assert read(tmp_path).pieces() == NAMES[:7]


@pytest.mark.parametrize(
    "odd",
    [
        {"word_tokenizer_type": "mecab"},
        {"subword_tokenizer_type": "character"},
        {"do_basic_tokenize": False},
        {"never_split": ["dog"]},
    ],
)
def test_pythons_own_ways_are_refused(tmp_path: Path, odd: dict[str, Any]) -> None:
    write(tmp_path, lines_of(NAMES), tokenizer_config={**QUIET, **odd})
    with pytest.raises(VocabularyError, match=next(iter(odd))):
        read_tokenizer(Folder(tmp_path))


ATTACK = """
import random, sys
from pathlib import Path
from roberta_hub.errors import RobertaHubError
from roberta_hub.folder import Folder
from roberta_hub.text.huggingface import read_tokenizer
folder, draw, read = Path(sys.argv[1]), random.Random(int(sys.argv[2])), 0
good = {name: (folder / name).read_bytes() for name in ("vocab.txt", "tokenizer.json")}
for _ in range(int(sys.argv[3])):
    for name, data in good.items():
        bad = bytearray(data)
        for _ in range(draw.choice([0, 1, 1, 2, 9])):
            place = draw.randrange(len(bad))
            bad[place : place + draw.randint(0, 3)] = draw.randbytes(draw.randint(0, 3))
        (folder / name).write_bytes(bad)
    try:
        engine, dictionary, layout = read_tokenizer(Folder(folder))
        assert set(engine.encode_ids("the dogs [MASK] \\u2028 x")) <= set(range(len(dictionary)))
        read += 1
    except RobertaHubError as error:
        assert len(str(error)) < 1000
print(read)
"""


@pytest.mark.parametrize("count", [150, pytest.param(5000, marks=pytest.mark.slow)])
def test_mutated_files(tmp_path: Path, count: int) -> None:
    """In a process of its own, which ends in peace."""
    write(tmp_path, lines_of(NAMES), tokenizer=table(), tokenizer_config=QUIET)
    done = forks.run("-W", "ignore", "-c", ATTACK, tmp_path, 1, count, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    assert 0 < int(done.stdout) < count
