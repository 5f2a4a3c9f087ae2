"""Hugging Face's directories of XLM-R, CamemBERT and ALBERT: ids as transformers', both ways."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sentencepiece")

import sentencepiece_toys

from roberta_hub.errors import VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.formats.tokenizer_files import tokenizer_files
from roberta_hub.text import Tokenizer
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.huggingface import read_tokenizer
from roberta_hub.text.sentencepiece_file import parse_model
from roberta_hub.text.unigram import SentencePiece
from roberta_hub.text.unigram_family import XLM_R

CLASSES = {
    "XLMRobertaTokenizer": ("unigram", "sentencepiece.bpe.model"),
    "CamembertTokenizer": ("unigram", "sentencepiece.bpe.model"),
    "AlbertTokenizer": ("albert", "spiece.model"),
}
LINES = [
    *sentencepiece_toys.lines(150),
    "mela moni?",
    "Tita, sovu (nele) 75",
    "x - y",
    "a 1.",
    "",
    " a  b ",
    "É ﬁ Ⅷ",
    "zz🧿 q",
    "x ``y'' 1,000",
]


def directory_of(name: str, folder: Path, **settings: object) -> Path:
    kind, file = CLASSES[name]
    (folder / file).write_bytes(sentencepiece_toys.trained(kind))
    about = {"tokenizer_class": name, **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    return folder


def read(folder: Path) -> Tokenizer:
    found = read_tokenizer(Folder(folder))
    assert found is not None
    return Tokenizer(*found)


def save(tokenizer: Tokenizer, folder: Path) -> dict[str, bytes]:
    files = tokenizer_files(tokenizer, 512)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return files


@pytest.fixture(scope="module", params=CLASSES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def ours(name: str, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return read(directory_of(name, tmp_path_factory.mktemp("directory")))


@pytest.fixture(scope="module")
def saved(ours: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    save(ours, folder)
    return folder


def test_the_rows_are_the_familys(name: str, ours: Tokenizer) -> None:
    layout, symbols = ours.layout, ours.dictionary.symbols
    model = parse_model(sentencepiece_toys.trained(CLASSES[name][0]), "toy")
    if name == "XLMRobertaTokenizer":
        assert (layout.bos, layout.pad, layout.eos, layout.unk) == (0, 1, 2, 3)
        assert symbols[4:-1] == list(model.texts[3:])  # the file's number + 1
        assert layout.mask == len(symbols) - 1 and layout.separators == 2
    elif name == "CamembertTokenizer":
        assert (layout.bos, layout.pad, layout.eos, layout.unk) == (5, 1, 6, 3)
        assert symbols[5:-1] == list(model.texts[1:])  # the file's number + 4
        assert layout.mask == len(symbols) - 1 and layout.separators == 2
    else:
        assert (layout.pad, layout.unk, layout.bos, layout.eos, layout.mask) == (0, 1, 2, 3, 4)
        assert symbols == list(model.texts) and layout.separators == 1


def test_what_is_saved_is_read_back(ours: Tokenizer, saved: Path) -> None:
    again = read(saved)
    assert again.dictionary == ours.dictionary and again.layout == ours.layout
    assert again.rows == ours.rows
    assert again.engine.fingerprint == ours.engine.fingerprint
    for line in LINES:
        assert again.encode(line).tolist() == ours.encode(line).tolist()


def test_tokenizer_json_alone_is_enough(
    name: str, ours: Tokenizer, saved: Path, tmp_path: Path
) -> None:
    """As in multilingual-e5 and its like: vocabulary and map become a `.model` again."""
    (tmp_path / "tokenizer.json").write_bytes((saved / "tokenizer.json").read_bytes())
    for about in (None, {"tokenizer_class": name}):
        if about is not None:
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(about))
        again = read(tmp_path)
        assert again.dictionary == ours.dictionary and again.layout == ours.layout
        # That a comma is cut off a digit is said in tokenizer_config.json.
        for line in ordinary(name):
            assert again.encode(line, "a").tolist() == ours.encode(line, "a").tolist()


def ordinary(name: str) -> list[str]:
    """What tokenizers reads as we do: of ALBERT it cannot cut a comma off a digit."""
    if name != "AlbertTokenizer":
        return LINES
    return [line for line in LINES if not re.search(r"\d,", line)]


def test_tokenizers_gives_our_ids(name: str, ours: Tokenizer, saved: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_file(str(saved / "tokenizer.json"))
    lines = ordinary(name)
    assert len(lines) > 5
    for line in lines:
        assert theirs.encode(line).ids == ours.encode(line).tolist(), line
        assert theirs.encode(line, "mela").ids == ours.encode(line, "mela").tolist()


def test_transformers_gives_our_ids(name: str, ours: Tokenizer, saved: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(saved)
    assert type(theirs).__name__ == name
    assert len(theirs) == len(ours)
    layout = ours.layout
    ids = (theirs.cls_token_id, theirs.sep_token_id, theirs.pad_token_id, theirs.unk_token_id)
    assert ids == (layout.bos, layout.eos, layout.pad, layout.unk)
    assert theirs.mask_token_id == layout.mask
    for line in ordinary(name):
        assert theirs(line)["input_ids"] == ours.encode(line).tolist(), line
        assert theirs(line, "mela")["input_ids"] == ours.encode(line, "mela").tolist()


def test_what_tokenizers_does_otherwise(saved: Path, ours: Tokenizer) -> None:
    """A special word in a text is a special token there, and text here."""
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_file(str(saved / "tokenizer.json"))
    mask = ours.dictionary.symbols[ours.mask_idx]
    assert ours.mask_idx in theirs.encode(f"mela {mask}").ids
    assert ours.mask_idx not in ours.encode(f"mela {mask}").tolist()


# ---- settings ----


def test_albert_takes_its_settings_from_the_file(tmp_path: Path) -> None:
    cased = read(directory_of("AlbertTokenizer", tmp_path, do_lower_case=False))
    assert cased.engine.family.cleaning.do_lower_case is False
    assert cased.offsets("``A''")[-1][-1] == 5
    with pytest.raises(VocabularyError, match="keep_accents is 3, not true or false"):
        read(directory_of("AlbertTokenizer", tmp_path, keep_accents=3))


def test_sentencepieces_own_white_space_is_kept(tmp_path: Path) -> None:
    """A fairseq checkpoint reads U+0085 as unknown; transformers parts words at it."""
    model = parse_model(sentencepiece_toys.trained("unigram"), "toy")
    rows = ["<s>", "<pad>", "</s>", "<unk>", *model.texts[3:], "<mask>"]
    fairseqs = Tokenizer(SentencePiece(model, XLM_R), Dictionary.from_rows(rows))
    about = json.loads(save(fairseqs, tmp_path)["tokenizer_config.json"])
    assert about["white_space"] is False
    assert fairseqs.engine.fingerprint.endswith(" {'tokenizer_class': 'XLMRobertaTokenizer'}")
    assert read(tmp_path).engine.fingerprint == fairseqs.engine.fingerprint
    assert 3 in fairseqs.encode("mela\x85moni").tolist()
    assert read(tmp_path).encode("a\x85b").tolist() == fairseqs.encode("a\x85b").tolist()
    del about["white_space"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(about))
    apart = fairseqs.encode("mela moni").tolist()
    assert read(tmp_path).encode("mela\x85moni").tolist() == apart


def test_the_file_decides_where_no_class_is_named(tmp_path: Path) -> None:
    for name, (kind, file) in CLASSES.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / file).write_bytes(sentencepiece_toys.trained(kind))
        kinds = {"Camembert": "camembert", "XLMRobe": "xlm-roberta-xl", "AlbertT": "albert"}
        model_type = next(value for key, value in kinds.items() if name.startswith(key))
        (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
        assert read(folder).engine.settings["tokenizer_class"] == name
        (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))  # e5's body
        other = "AlbertTokenizer" if file == "spiece.model" else "XLMRobertaTokenizer"
        assert read(folder).engine.settings["tokenizer_class"] == other


def test_symbols_that_were_added(tmp_path: Path) -> None:
    directory_of("XLMRobertaTokenizer", tmp_path)
    rows = len(read(tmp_path))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<extra>": rows}))
    assert read(tmp_path).dictionary.symbols[-1] == "<extra>"
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<extra>": rows + 1}))
    with pytest.raises(VocabularyError, match="leave an id out"):
        read(tmp_path)
    (tmp_path / "added_tokens.json").unlink()
    word = {str(rows): {"content": "word", "special": False}}
    directory_of("XLMRobertaTokenizer", tmp_path, added_tokens_decoder=word)
    assert read(tmp_path).encode("aword").tolist()[-2] == rows


def test_another_familys_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sentencepiece.bpe.model").write_bytes(sentencepiece_toys.trained("albert"))
    with pytest.raises(VocabularyError, match=r"first pieces are .*<pad>.* other ids"):
        read(tmp_path)


# ---- false tokenizer.json ----


def change(path: tuple[str | int, ...], value: object) -> Callable[[dict[str, Any]], None]:
    def apply(table: dict[str, Any]) -> None:
        for step in path[:-1]:
            table = table[step]  # type: ignore[index]
        table[path[-1]] = value  # type: ignore[index]

    return apply


def double(table: dict[str, Any]) -> None:
    table["model"]["vocab"][9] = table["model"]["vocab"][10]


FALSE_MAP = base64.b64encode(b"\x00\x04\x00\x00" + b"\x00\x02\x00\x40" * 256 + b"x\0").decode()
MAP = ("normalizer", "normalizers", -1, "precompiled_charsmap")
FALSE = {
    "a false map": (change(MAP, FALSE_MAP), "leads outside itself"),
    "a map that is no base64": (change(MAP, "§"), "holds no unigram model"),
    "a map of three bytes": (change(MAP, "YWJj"), "says that its trie"),
    "no model": (change(("model",), {"type": "Unigram"}), "holds no unigram model"),
    "NaN": (change(("model", "vocab", 9, 1), float("nan")), "score nan"),
    "a score in words": (change(("model", "vocab", 9, 1), "high"), "holds no unigram model"),
    "a piece twice": (double, "twice"),
    "a piece of 400 kB": (change(("model", "vocab", 9, 0), "a" * 400_000), "400,000 bytes"),
    "an empty piece": (change(("model", "vocab", 9, 0), ""), "0 bytes"),
    "a piece with U+0000": (change(("model", "vocab", 9, 0), "a\0"), r"U\+0000"),
    "no unknown": (change(("model", "unk_id"), None), "unk_id is None"),
    "an unknown outside": (change(("model", "unk_id"), 10**9), "unk_id is 1000000000"),
    "other words": (
        change(("pre_tokenizer", "pretokenizers", 0), {"type": "ByteLevel"}),
        "part 'ByteLevel'",
    ),
    "another normalizer": (
        change(("normalizer", "normalizers", 0), {"type": "Prepend", "prepend": "x"}),
        "part 'Prepend'",
    ),
    "bytes": (change(("model", "byte_fallback"), True), "byte_fallback"),
    "a word in another's place": (
        change(("added_tokens", 0), {"id": 0, "content": "la", "special": False}),
        "'la' was added as id 0, where the vocabulary has",
    ),
}


@pytest.mark.parametrize("case", FALSE)
def test_a_false_tokenizer_json_is_a_sentence(case: str, saved: Path, tmp_path: Path) -> None:
    apply, reason = FALSE[case]
    table = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    apply(table)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(table), encoding="utf-8")
    with pytest.raises(VocabularyError, match=reason) as caught:
        read(tmp_path)
    assert str(path) in str(caught.value)
