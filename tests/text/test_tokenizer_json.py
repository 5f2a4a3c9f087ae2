"""The tokenizer.json of a byte-level BPE gives `tokenizers`, and what stands on it, our ids."""

from __future__ import annotations

import json
import lzma
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from families import SENTENCES, write_bytes
from small_models import small_roberta

import roberta_hub
from roberta_hub.text.byte_level import read
from roberta_hub.text.tokenizer import Tokenizer

tokenizers = pytest.importorskip("tokenizers")
ODD = [
    "",
    " ",
    "  two  spaces\tand\na line ",
    "can’t, don't, WE'LL",
    "naïve café 今天 🤗👩‍👩‍👧 ﬁ \u200b\x00",
    "1,234.56 €/m² ½",
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("byte") / "saved"
    small_roberta(num_layers=1).save(folder, "huggingface")
    return folder


def theirs(folder: Path) -> Any:
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def lines_of(shared: Path) -> list[str]:
    """10,000 lines of real text."""
    found: list[str] = []
    for name in ("simplewiki_2022", "sgd_dialogues", "oanc_slate", "enwiki_2021_core"):
        with lzma.open(shared / "data/pretrain" / f"{name}.txt.xz", "rt", encoding="utf-8") as text:
            found += [line.rstrip("\n")[:400] for line in islice(text, 2500)]
    return found


def test_ids_of_texts_and_pairs(saved: Path) -> None:
    ours, rust = roberta_hub.load_model(saved), theirs(saved)
    texts = [*SENTENCES, *ODD]
    assert [rust.encode(text).ids for text in texts] == [
        ids.tolist() for ids in ours.encode_batch(texts)
    ]
    pairs = list(zip(texts, reversed(texts), strict=True))
    assert [rust.encode(*pair).ids for pair in pairs] == [
        ids.tolist() for ids in ours.encode_batch(pairs)
    ]
    masked = rust.encode("Paris is the <mask> of France.").ids
    assert masked == [0, 32826, 16, 5, 50264, 9, 1470, 4, 2]
    assert rust.decode(rust.encode(ODD[4]).ids) == ODD[4]


def test_ids_of_ten_thousand_lines(saved: Path, shared: Path) -> None:
    lines = lines_of(shared)
    assert len(lines) == 10_000
    ours, rust = roberta_hub.load_model(saved), theirs(saved)
    found = [encoding.ids for encoding in rust.encode_batch(lines)]
    assert found == [ids.tolist() for ids in ours.encode_batch(lines)]


def test_it_alone_is_enough(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes((saved / "tokenizer.json").read_bytes())
    ours = roberta_hub.load_model(saved)
    engine, dictionary, layout = read(tmp_path)
    alone = Tokenizer(engine, dictionary, layout)
    for text in ODD:
        assert alone.encode(text).tolist() == ours.encode(text).tolist()


@pytest.mark.parametrize("prefix", [False, True])
def test_of_another_vocabulary_with_added_words(tmp_path: Path, prefix: bool) -> None:
    write_bytes(tmp_path)
    size = len(json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8")))
    words = {"Hamburg-Berlin": size, "<br>": size + 1}
    (tmp_path / "added_tokens.json").write_text(json.dumps(words), encoding="utf-8")
    about = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": prefix}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")
    engine, dictionary, layout = read(tmp_path)
    ours = Tokenizer(engine, dictionary, layout)
    written = tmp_path / "written"
    written.mkdir()
    for name, data in engine.files(list(ours.rows)).items():
        (written / name).write_bytes(data)
    rust = theirs(written)
    for text in [*SENTENCES, "Hamburg-Berlin<br> is late", "a Hamburg-Berlin train"]:
        assert rust.encode(text).ids == ours.encode(text).tolist()


def test_it_is_left_out_where_a_merge_has_no_id(tmp_path: Path) -> None:
    from roberta_hub.text.bpe_files import huggingface_files

    names = ["<s>", "<pad>", "</s>", "<unk>", "a", "b"]
    assert sorted(huggingface_files(names, [], ["a b"])) == ["merges.txt", "vocab.json"]
