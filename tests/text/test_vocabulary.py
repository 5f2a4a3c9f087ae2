"""The shipped tables: rebuilt from their source, and equal to the originals."""

import hashlib
import importlib.util
import json
from pathlib import Path

import pytest
from scripts import TOOLS, load_script

from roberta_hub.errors import VocabularyError
from roberta_hub.text import vocabulary
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.gpt2_tables import BYTE_ORDER, from_printable, merge_within, printable

FILE = Path(vocabulary.__file__).with_name(vocabulary.FILE_NAME)


def test_digest():
    digest = "c3f74db7e2a8e8170ab8ddc6d18dd4a7fa6b9fbd46bf35debda3f423ae224e46"
    assert hashlib.sha256(FILE.read_bytes()).hexdigest() == vocabulary.SHA256 == digest


def test_rebuilt_from_blingfire():
    if importlib.util.find_spec("blingfire") is None:
        pytest.skip("blingfire is not installed")
    generator = load_script(TOOLS / "build_vocabulary.py")
    assert generator.build(generator.installed_blingfire()) == FILE.read_bytes()


def test_a_damaged_file_is_an_error(monkeypatch):
    monkeypatch.setattr(vocabulary, "SHA256", "0" * 64)
    with pytest.raises(VocabularyError, match=r"roberta\.vocab is damaged"):
        vocabulary.shipped_vocabulary.__wrapped__()


def test_encoder_json(shared):
    original = json.loads((shared / "vocab" / "encoder.json").read_text("utf-8"))
    bpe = GPT2BPE.shipped()
    assert {printable(bpe.token_bytes(i)): i for i in range(50_257)} == original


def test_merges(shared):
    original = (shared / "vocab" / "vocab.bpe").read_text("utf-8")
    assert ["#version: 0.2", *GPT2BPE.shipped().printable_merges(), ""] == original.split("\n")


def test_dictionary(shared):
    original = Dictionary.load(shared / "vocab" / "dict.txt", add_mask=True)
    assert Dictionary.roberta().symbols == original.symbols
    assert Dictionary.roberta() == original


def test_files_give_the_shipped_bpe(shared):
    folder = shared / "vocab"
    files = GPT2BPE.from_files(folder / "encoder.json", folder / "vocab.bpe")
    assert files.merges() == GPT2BPE.shipped().merges()
    assert files.encode("Hello wörld 🙂") == GPT2BPE.shipped().encode("Hello wörld 🙂")


def test_every_merge_follows_from_those_before():
    # What makes merging by token, as tiktoken does, the same as merging by pair; see
    # `gpt2_tables.check_merges`.
    merges = GPT2BPE.shipped().merges()
    ranks = {left + right: rank for rank, (left, right) in enumerate(merges)}
    assert len(ranks) == 50_000
    assert all(merge_within(a + b, ranks) == [a, b] for a, b in merges)


def test_pictures_of_bytes():
    assert sorted(BYTE_ORDER) == list(range(256))
    pictures = [printable(bytes([byte])) for byte in range(256)]
    assert len(set(pictures)) == 256 and all(len(p) == 1 and p.isprintable() for p in pictures)
    assert from_printable("".join(pictures)) == bytes(range(256))
