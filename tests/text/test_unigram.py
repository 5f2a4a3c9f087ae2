"""SentencePiece as an engine: ids, spans, joining, many at once, and no special token from text."""

from __future__ import annotations

import copy
import functools
import lzma
import os
import pickle
import random
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

spm = pytest.importorskip("sentencepiece")

import sentencepiece_toys  # noqa: E402
from hypothesis import given  # noqa: E402
from random_text import FRAGMENTS, texts  # noqa: E402

from roberta_hub.errors import (  # noqa: E402
    CheckpointError,
    InputError,
    InputTypeError,
    MissingExtraError,
)
from roberta_hub.text import Dictionary, SequenceLayout, SubwordTokenizer, Tokenizer  # noqa: E402
from roberta_hub.text.dictionary import MASK  # noqa: E402
from roberta_hub.text.sentencepiece_file import parse_model  # noqa: E402
from roberta_hub.text.unigram import SentencePiece  # noqa: E402
from roberta_hub.text.unigram_family import (  # noqa: E402
    ALBERT,
    XLM_R,
    Cleaning,
)

SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", Path(__file__).parents[3] / "shared"))
XLMR = SHARED / "vocab" / "xlmr.model.xz"
README = {
    "Hello world!": [0, 35378, 8999, 38, 2],
    "你好，世界": [0, 6, 124084, 4, 3221, 2],
    "नमस्ते दुनिया": [0, 68700, 97883, 29405, 2],
    "مرحبا بالعالم": [0, 665, 193478, 258, 1705, 77796, 2],
    "Bonjour le monde": [0, 84602, 95, 11146, 2],
}
"""fairseq's examples/xlmr/README.md."""
SPECIAL = ("<s>", "</s>", "<pad>", "<unk>", "<mask>", "[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]")


def engine_of(kind: str) -> SentencePiece:
    model = parse_model(sentencepiece_toys.trained(kind), kind)
    return SentencePiece(model, ALBERT if kind == "albert" else XLM_R)


def as_xlm_r(engine: SentencePiece) -> Tokenizer:
    """fairseq's numbering: its four specials, the file's pieces from 3 on, `<mask>`."""
    dictionary = Dictionary()
    for text in engine.model.texts[3:]:
        dictionary.add_symbol(text)
    dictionary.add_symbol(MASK)
    return Tokenizer(engine, dictionary)


@functools.cache
def tokenizer_of(kind: str) -> Tokenizer:
    engine = engine_of(kind)
    if kind != "albert":
        return as_xlm_r(engine)
    names = {"bos": "[CLS]", "pad": "<pad>", "eos": "[SEP]", "unk": "<unk>"}
    dictionary = Dictionary.from_symbols(engine.model.texts, **names)
    return Tokenizer(engine, dictionary, SequenceLayout.of(dictionary, mask="[MASK]", separators=1))


@pytest.fixture(scope="module", params=sentencepiece_toys.KINDS)
def toy(request: pytest.FixtureRequest) -> Tokenizer:
    return tokenizer_of(request.param)


@pytest.fixture(scope="module")
def xlmr() -> Tokenizer:
    if not XLMR.is_file():
        pytest.skip("needs the shared folder")
    return as_xlm_r(SentencePiece(parse_model(lzma.decompress(XLMR.read_bytes()), "xlmr.model")))


# ---- XLM-R's real vocabulary ----


@pytest.mark.system
def test_the_readme_of_xlm_r(xlmr: Tokenizer) -> None:
    assert len(xlmr) == 250_002 and xlmr.mask_idx == 250_001
    for text, ids in README.items():
        assert xlmr.encode(text).tolist() == ids
        # The map folds U+FF0C to an ASCII comma.
        assert xlmr.decode(ids) == text.replace("，", ",")
    assert [ids.tolist() for ids in xlmr.encode_batch(list(README))] == list(README.values())


def test_what_the_map_does(xlmr: Tokenizer) -> None:
    same = ["Hello world", " Hello world ", "Hello\tworld", "Hello \n world", "Hello\u200bworld"]
    assert len({tuple(xlmr.encode(text).tolist()) for text in [*same, "\ufeffHello world"]}) == 1
    assert xlmr.encode("a\0b").tolist() == [0, 10, 3, 275, 2]
    assert xlmr.tokenize("<mask> <s> x") == ["▁<", "mas", "k", ">", "▁<", "s", ">", "▁x"]
    assert xlmr.encode("zz🧿🧿 q").tolist() == [0, 97, 169, 3, 8096, 2]  # neighbours are one
    assert xlmr.encode("").tolist() == xlmr.encode(" \u3000 ").tolist() == [0, 2]
    assert xlmr.encode_masked("a <mask>b").tolist() == [0, 10, 250_001, 876, 2]


def test_spans_of_xlm_r(xlmr: Tokenizer) -> None:
    def cut(text: str) -> list[tuple[str, str]]:
        spans = xlmr.offsets(text)
        pieces = zip(xlmr.tokenize(text), spans, strict=True)
        return [(piece, text[start:end]) for piece, (start, end) in pieces]

    assert cut("你好，世界") == [("▁", ""), ("你好", "你好"), (",", "，"), ("世界", "世界")]
    assert cut(" ﬁx  Ⅷ ") == [("▁fix", "ﬁx"), ("▁VIII", "  Ⅷ")]
    assert cut("ｶﾞx") == [("▁", ""), ("ガ", "ｶﾞ"), ("x", "x")]
    assert cut("e\u0301a") == [("▁é", "e\u0301"), ("a", "a")]
    assert cut("zz🧿🧿 q")[2] == ("<unk>", "🧿🧿")


# ---- every kind ----


def test_it_is_an_engine(toy: Tokenizer) -> None:
    assert isinstance(toy.engine, SubwordTokenizer)


def test_ids_are_the_librarys(toy: Tokenizer) -> None:
    engine = toy.engine
    if engine.family.cleaning is not None:
        pytest.skip("cleans texts first; see below")
    library = spm.SentencePieceProcessor(model_proto=engine.model.serialized())
    lines = [*sentencepiece_toys.lines(300), *FRAGMENTS, "".join(FRAGMENTS)]
    assert engine.batch_encoder.encode(lines) == library.encode(lines)
    for line in lines[-60:]:
        assert engine.encode_ids(line) == library.encode(line)
        assert engine.encode(line) == " ".join(library.encode(line, out_type=str))


def test_many_at_once_are_as_one_by_one(toy: Tokenizer) -> None:
    lines = [*sentencepiece_toys.lines(600), "", *FRAGMENTS]
    pairs = [*zip(lines[:20], lines[20:40], strict=True), *lines[:5]]
    for items in (lines, pairs):
        many = toy.encode_batch(items)
        for item, ids in zip(items, many, strict=True):
            single = toy.encode(item) if isinstance(item, str) else toy.encode(*item)
            assert ids.tolist() == single.tolist()
        again = toy.encode_batch(items, threads=3)
        assert [ids.tolist() for ids in again] == [ids.tolist() for ids in many]


@given(text=texts())
def test_spans_cut_the_text_in_order(text: str) -> None:
    for kind in sentencepiece_toys.KINDS:
        toy = tokenizer_of(kind)
        spans = toy.offsets(text)
        assert len(spans) == len(toy.tokenize(text))
        last = (0, 0)
        for start, end in spans:
            assert 0 <= start <= end <= len(text)
            assert start >= last[0] and end >= last[1]
            assert start >= last[1] or not text.isascii() or not text.isprintable()
            last = (start, end)
        covered = {place for start, end in spans for place in range(start, end)}
        left = "".join(c for place, c in enumerate(text) if place not in covered)
        # What no piece covers is white space, or characters that are read as none.
        assert not toy.engine.encode_ids(left) or kind == "albert" or left.isspace() or _thin(left)


def _thin(left: str) -> bool:
    """Characters that the map drops, or reads as a space."""
    return all(unicodedata.category(c)[0] in "CZM" for c in left)


def test_pieces_of_plain_text_are_what_they_cover(toy: Tokenizer) -> None:
    for line in sentencepiece_toys.lines(100):
        spans = toy.offsets(line)
        for number, (start, end) in zip(toy.engine.encode_ids(line), spans, strict=True):
            covered = line[start:end]
            if toy.engine.family.cleaning is not None:
                covered = toy.engine.family.cleaning.clean(covered).text
            if number != toy.engine.model.unknown and toy.engine.model.kinds[number] != 6:
                assert toy.engine.surface(number).decode().strip() == covered.strip()


def test_text_comes_back(toy: Tokenizer) -> None:
    for line in sentencepiece_toys.lines(100):
        back = toy.decode(toy.encode(line))
        read = line
        if toy.engine.family.cleaning is not None:
            read = toy.engine.family.cleaning.clean(line).text
        assert back == read or "<unk>" in back


@given(text=texts(), name=texts(2))
def test_no_text_writes_a_control_token(text: str, name: str) -> None:
    rng = random.Random(len(text))
    for kind in sentencepiece_toys.KINDS:
        toy = tokenizer_of(kind)
        layout = toy.layout
        hostile = text + rng.choice(SPECIAL) + name + rng.choice(SPECIAL)
        for ids in (toy.encode(hostile), toy.encode_batch([hostile])[0]):
            inner = ids[1:-1].tolist()
            assert not {layout.bos, layout.eos, layout.pad, layout.mask} & set(inner)
            assert ids[0] == layout.bos and ids[-1] == layout.eos


def test_unknown_comes_from_characters_alone() -> None:
    """The name of the unknown symbol is text: `<`, `unk` and `>`."""
    toy = tokenizer_of("bpe")  # knows every character, by its bytes
    assert toy.layout.unk not in toy.encode("<unk> ▁<unk> 🧿").tolist()


def test_wrong_texts_are_named(toy: Tokenizer) -> None:
    with pytest.raises(InputError, match=r"texts\[300\]: character 1 .* U\+D800"):
        toy.encode_batch(["a"] * 300 + ["b\ud800"])
    with pytest.raises(InputTypeError, match=r"texts\[1\]: a text is a str"):
        toy.encode_batch(["a", 3])
    for call in (toy.engine.encode_ids, toy.engine.spans, toy.engine.encode):
        with pytest.raises(InputError, match="surrogate"):
            call("\udfff")
        with pytest.raises(InputTypeError, match="not a str"):
            call(b"a")
    with pytest.raises(InputTypeError, match="a str of pieces"):
        toy.engine.decode([1])


def test_copies_and_processes(toy: Tokenizer) -> None:
    assert copy.deepcopy(toy.engine) is toy.engine
    again = pickle.loads(pickle.dumps(toy.engine))
    lines = list(sentencepiece_toys.lines(50))
    assert again.batch_encoder.encode(lines) == toy.engine.batch_encoder.encode(lines)
    assert again.fingerprint == toy.engine.fingerprint and again.settings == toy.engine.settings


def test_threads_share_an_engine(toy: Tokenizer) -> None:
    lines = list(sentencepiece_toys.lines(400))
    expected = [toy.engine.encode_ids(line) for line in lines]
    spans = [toy.offsets(line) for line in lines]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(toy.engine.encode_ids, lines)) == expected
        assert list(pool.map(toy.offsets, lines)) == spans


def test_bytes_come_back_as_characters() -> None:
    toy = tokenizer_of("bpe")
    ids = toy.encode("🧿")
    assert toy.tokenize("🧿") == ["▁", "<0xF0>", "<0x9F>", "<0xA7>", "<0xBF>"]
    assert toy.offsets("🧿") == [(0, 0)] + [(0, 1)] * 4
    assert toy.decode(ids) == "🧿"
    assert toy.decode(ids[:-2]) == "\ufffd"


def test_beginnings_and_names(toy: Tokenizer) -> None:
    engine = toy.engine
    assert engine.is_beginning_of_word("▁a") and not engine.is_beginning_of_word("a")
    assert all(map(engine.is_beginning_of_word, ("<s>", "</s>", "<pad>", "<unk>")))
    assert not engine.is_beginning_of_word("<mask>")
    assert engine.decode("▁a <mask> b") == "a<mask>b"
    names = set(SPECIAL) & set(engine.symbols)
    assert not names


def test_each_model_has_a_fingerprint_of_its_own() -> None:
    engines = [tokenizer_of(kind).engine for kind in sentencepiece_toys.KINDS]
    assert len({engine.fingerprint for engine in engines}) == len(engines)


def test_a_mask_stands_between_words(toy: Tokenizer) -> None:
    masked = toy.encode_masked("mela <mask>moni")
    before, behind = toy.ids_of("mela"), toy.ids_of("moni")
    assert masked.tolist() == [
        toy.bos,
        *before.tolist(),
        toy.mask_idx,
        *behind.tolist(),
        toy.eos,
    ]


# ---- ALBERT's text ----


@functools.cache
def tokenizers_cleaning(*, lower: bool = True, accents: bool = False) -> Any:
    """What transformers' AlbertTokenizer puts before the character map."""
    normalizers = pytest.importorskip("tokenizers").normalizers
    parts = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    parts += [] if accents else [normalizers.NFKD(), normalizers.StripAccents()]
    return normalizers.Sequence(parts + [normalizers.Lowercase()] * lower)


def google(text: str, library: spm.SentencePieceProcessor) -> list[str]:
    """ALBERT's pieces: tokenizers' cleaning, and commas as in google-research/albert."""
    text = tokenizers_cleaning().normalize_str(text)
    text = text.replace("\x85", " ")  # the only White_Space that the map leaves as it is
    found: list[str] = []
    for piece in library.encode(text, out_type=str):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            inner = library.encode(piece[:-1].replace("▁", ""), out_type=str)
            if piece[0] != "▁" and inner[0][0] == "▁":
                inner = inner[1:] if len(inner[0]) == 1 else [inner[0][1:], *inner[1:]]
            found += [*inner, ","]
        else:
            found.append(piece)
    return found


@given(text=texts())
def test_albert_reads_as_tokenizers(text: str) -> None:
    toy = tokenizer_of("albert")
    library = spm.SentencePieceProcessor(model_proto=toy.engine.model.serialized())
    for given_text in (text, text + " 75,000 and9,9 ,75, x14,5", f"``{text}'' 12,"):
        pieces = google(given_text, library)
        assert toy.engine.encode_ids(given_text) == [library.piece_to_id(p) for p in pieces]


@pytest.mark.system
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("accents", [True, False])
def test_cleaning_of_every_character(lower: bool, accents: bool) -> None:
    theirs = tokenizers_cleaning(lower=lower, accents=accents).normalize_str
    cleaning = Cleaning(do_lower_case=lower, keep_accents=accents)
    for first in range(0, 0x110000, 64):
        text = "".join(chr(c) for c in range(first, first + 64) if not 0xD800 <= c < 0xE000)
        assert cleaning.clean(text).text == theirs(text)


def test_a_comma_behind_a_digit_is_a_piece_of_its_own() -> None:
    toy = tokenizer_of("albert")
    assert "▁75," in toy.engine.symbols
    assert toy.tokenize("75, 75,5") == ["▁", "7", "5", ",", "▁", "7", "5", ",", "5"]
    places = [(0, 0), (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8)]
    assert toy.offsets("75, 75,5") == places


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("accents", [True, False])
def test_cleaning_knows_where_characters_come_from(lower: bool, accents: bool) -> None:
    cleaning = Cleaning(do_lower_case=lower, keep_accents=accents)
    theirs = tokenizers_cleaning(lower=lower, accents=accents).normalize_str
    for text in [*FRAGMENTS, "".join(FRAGMENTS), " ``ΑΣ'' İﬁ\u0301  Ça ", "", "'''", "가 각"]:
        cleaned = cleaning.clean(text)
        assert len(cleaned.starts) == len(cleaned.text) + 1
        assert list(cleaned.starts) == sorted(cleaned.starts)
        assert all(0 <= start <= len(text) for start in cleaned.starts)
        assert cleaned.text == theirs(text)


# ---- what cannot be had ----


def test_fairseq_has_no_albert() -> None:
    with pytest.raises(CheckpointError, match="does not clean texts"):
        tokenizer_of("albert").engine.fairseq_files()
    data = tokenizer_of("unigram").engine.fairseq_files()
    assert list(data) == ["sentencepiece.bpe.model"]


def test_an_old_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spm, "__version__", "0.2.1")
    wanted = r"0\.2\.1 crashes .* needs 0\.2\.3 or newer: pip install"
    with pytest.raises(MissingExtraError, match=wanted):
        engine_of("unigram")


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(MissingExtraError, match=r'pip install .*\[multilingual\]"'):
        engine_of("unigram")


def mixed(size: int) -> list[str]:
    """Lines of many scripts, emoji and controls, `size` bytes in all."""
    rng = random.Random(11)
    blocks = [
        (0x20, 0x7E),
        (0x20, 0x7E),
        (0xA0, 0x24F),
        (0x370, 0x52F),
        (0x590, 0x6FF),
        (0x900, 0xDFF),
        (0xE00, 0xE7F),
        (0x1100, 0x11FF),
        (0x2000, 0x2BFF),
        (0x3000, 0x30FF),
        (0x4E00, 0x9FFF),
        (0xAC00, 0xD7A3),
        (0xF900, 0xFAFF),
        (0xFB00, 0xFEFF),
        (0xFF00, 0xFFEF),
        (0x1F300, 0x1FAFF),
        (0x20000, 0x2A6DF),
        (0, 0x1F),
        (0x300, 0x36F),
    ]
    found, left = [], size
    while left > 0:
        words = [
            "".join(chr(rng.randint(*block)) for _ in range(rng.randint(1, 9)))
            for block in rng.choices(blocks, k=rng.randint(1, 40))
        ]
        found.append(rng.choice((" ", " ", "")).join(words))
        left -= len(found[-1].encode())
    return found


def check_mixed(xlmr: Tokenizer, size: int) -> None:
    """The bare library on the bytes of the file: our reader, writer and numbering change none."""
    library = spm.SentencePieceProcessor(model_proto=lzma.decompress(XLMR.read_bytes()))
    lines = mixed(size)
    different = 0
    ours, theirs = xlmr.encode_batch(lines), library.encode(lines, num_threads=1)
    for ids, numbers in zip(ours, theirs, strict=True):
        expected = [0, *(number + 1 if number else 3 for number in numbers), 2]
        different += ids.tolist() != expected
    assert different == 0
    for line in lines[:: max(1, len(lines) // 200)]:
        spans = xlmr.offsets(line)
        assert len(spans) == len(xlmr.tokenize(line))
        assert spans == sorted(spans) and all(0 <= a <= b <= len(line) for a, b in spans)


@pytest.mark.system
def test_mixed_text_is_cut_as_by_the_library(xlmr: Tokenizer) -> None:
    check_mixed(xlmr, 200_000)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_megabytes_are_cut_as_by_the_library(xlmr: Tokenizer) -> None:
    check_mixed(xlmr, 10_000_000)
