"""A tokenizer.json gives `tokenizers` our ids, and is read for three engines alike."""

from __future__ import annotations

import builtins
import json
import lzma
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import families
import pytest
from families import SENTENCES, write_bytes
from small_models import small_roberta

import roberta_hub
from roberta_hub.errors import VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.formats.tokenizer_files import tokenizer_files
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.byte_level import read
from roberta_hub.text.huggingface import read_tokenizer
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


@pytest.mark.system
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


@pytest.mark.system
def test_ids_of_ten_thousand_lines(saved: Path, shared: Path) -> None:
    lines = lines_of(shared)
    assert len(lines) == 10_000
    ours, rust = roberta_hub.load_model(saved), theirs(saved)
    found = [encoding.ids for encoding in rust.encode_batch(lines)]
    assert found == [ids.tolist() for ids in ours.encode_batch(lines)]


@pytest.mark.system
def test_it_alone_is_enough(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes((saved / "tokenizer.json").read_bytes())
    ours = roberta_hub.load_model(saved)
    engine, dictionary, layout = read(Folder(tmp_path))
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
    engine, dictionary, layout = read(Folder(tmp_path))
    ours = Tokenizer(engine, dictionary, layout)
    written = tmp_path / "written"
    written.mkdir()
    for name, data in engine.files(list(ours.rows)).items():
        (written / name).write_bytes(data)
    rust = theirs(written)
    for text in [*SENTENCES, "Hamburg-Berlin<br> is late", "a Hamburg-Berlin train"]:
        assert rust.encode(text).ids == ours.encode(text).tolist()


def test_it_is_left_out_where_a_merge_has_no_id(tmp_path: Path) -> None:
    engine = GPT2BPE([(b"a", b"b")])
    names = ["<s>", "<pad>", "</s>", "<unk>", "a", "b"]
    assert sorted(engine.files(names)) == ["merges.txt", "vocab.json"]
    assert sorted(engine.files([*names, "ab"])) == ["merges.txt", "tokenizer.json", "vocab.json"]


# ---- reading, whichever engine it holds ----

WRITERS = ("bytes", "wordpiece", "xlmr", "albert")


@pytest.mark.parametrize("engine", WRITERS)
def test_each_file_of_a_folder_is_opened_once(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    getattr(families, f"write_{engine}")(tmp_path)
    first = read_tokenizer(Folder(tmp_path))
    assert first is not None
    for name, data in tokenizer_files(Tokenizer(*first), 512).items():
        (tmp_path / name).write_bytes(data)
    opened: Counter[str] = Counter()
    plain = builtins.open

    def counted(file: Any, *args: Any, **options: Any) -> Any:
        opened[str(file)] += 1
        return plain(file, *args, **options)

    monkeypatch.setattr(builtins, "open", counted)
    again = read_tokenizer(Folder(tmp_path))
    monkeypatch.undo()
    assert again is not None and again[1:] == first[1:]
    assert opened[str(tmp_path / "tokenizer_config.json")] == 1
    assert set(opened.values()) == {1}


@pytest.mark.system
@pytest.mark.parametrize("changes", [{}, {"add_prefix_space": True}])
def test_sequences_of_one_step(saved: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    """`tokenizers` runs such a sequence as the step that it holds."""
    table = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    step = {**table["pre_tokenizer"], **changes}
    table["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [step]}
    table["normalizer"] = {"type": "Sequence", "normalizers": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps(table), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend"}')
    ours, rust = Tokenizer(*read(Folder(tmp_path))), theirs(tmp_path)
    for text in ODD:
        assert rust.encode(text).ids == ours.encode(text).tolist()
    table["pre_tokenizer"]["pretokenizers"].append(step)
    (tmp_path / "tokenizer.json").write_text(json.dumps(table), encoding="utf-8")
    with pytest.raises(
        VocabularyError, match="pre_tokenizer is 'Sequence'; this version reads 'ByteLevel'"
    ):
        read(Folder(tmp_path))


CLASSES = ("PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend")


@pytest.mark.system
@pytest.mark.parametrize("named", [*CLASSES, "RobertaTokenizer", "RobertaTokenizerFast"])
def test_a_generic_class_does_as_the_file_says(saved: Path, tmp_path: Path, named: str) -> None:
    """RobertaTokenizer does as its own arguments say, whatever the file does."""
    transformers = pytest.importorskip("transformers")
    table = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    table["pre_tokenizer"]["add_prefix_space"] = True
    (tmp_path / "tokenizer.json").write_text(json.dumps(table), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": named}))
    found = read_tokenizer(Folder(tmp_path))
    assert found is not None
    expected = transformers.AutoTokenizer.from_pretrained(tmp_path)("Hello").input_ids
    assert Tokenizer(*found).encode("Hello").tolist() == expected
    assert (len(expected), expected[1]) == (3, 20920 if named in CLASSES else 31414)


def nested(depth: int) -> dict[str, Any]:
    step: dict[str, Any] = {"type": "NFC"}
    for _ in range(depth):
        step = {"type": "Sequence", "normalizers": [step]}
    return step


@pytest.mark.system
@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer", "post_processor"])
@pytest.mark.parametrize("false", [{"type": "Sequence"}, nested(9), nested(400)])
def test_false_sequences(saved: Path, tmp_path: Path, part: str, false: Any) -> None:
    table = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    (tmp_path / "tokenizer.json").write_text(json.dumps({**table, part: false}), encoding="utf-8")
    with pytest.raises(VocabularyError, match="no list of steps, or lies in 8 others") as caught:
        read(Folder(tmp_path))
    assert str(tmp_path / "tokenizer.json") in str(caught.value)
