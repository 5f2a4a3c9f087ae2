"""A vocabulary learnt from text: the same ids for every reader, or a sentence and no folder."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
import tokenizers
import torch

import roberta_hub
from roberta_hub.errors import CheckpointError, InputError, MissingExtraError, VocabularyError
from roberta_hub.folder import Folder
from roberta_hub.text import Tokenizer
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.huggingface import read_tokenizer
from roberta_hub.train.config import compose
from roberta_hub.train.data import learnt_vocabulary
from roberta_hub.train.data.learnt_vocabulary import learn_vocabulary
from roberta_hub.train.run import run
from roberta_hub.train.vocabularies import read_vocabulary

GEORGIAN = """დედა წიგნს კითხულობს, და ბავშვი უსმენს.
დილით მზე ამოდის, საღამოს მზე ჩადის.

  ბავშვი სკოლაში მიდის და წიგნს კითხულობს.
სკოლა დიდია: 120 ბავშვი სწავლობს, 12 მასწავლებელი ასწავლის.
დედა სახლში არის, და მამა სამსახურში მიდის.
"""
TEXTS = [
    "დედა კითხულობს.",
    "  two  blanks,\ta tab\nand a line ",
    "<mask> <s> </s> <unk> <|endoftext|>",
    "日本 \U0001f600 \u00a0 é e\u0301 \x00",
    "",
]


def write_corpus(folder: Path) -> Path:
    path = folder / "corpus.txt"
    path.write_text(GEORGIAN * 3, encoding="utf-8")
    return path


def learn(path: Path, target: Path, size: int = 360) -> Tokenizer:
    return learn_vocabulary([str(path)], target, size, progress=False).tokenizer


def by_tokenizers(lines: list[str], size: int) -> list[tuple[str, str]]:
    """The merges of `tokenizers` itself, as its documentation trains a byte-level BPE."""
    engine = tokenizers.Tokenizer(tokenizers.models.BPE())
    engine.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator(lines, trainer)
    return [tuple(merge) for merge in json.loads(engine.to_str())["model"]["merges"]]


def merges_of(tokenizer: Tokenizer) -> list[tuple[str, ...]]:
    assert isinstance(tokenizer.engine, GPT2BPE)
    return [tuple(merge.split(" ")) for merge in tokenizer.engine.printable_merges()]


def test_merges_are_those_of_tokenizers(tmp_path: Path) -> None:
    learnt = learn(write_corpus(tmp_path), tmp_path / "mine")
    lines = [line.strip() for line in (GEORGIAN * 3).splitlines() if line.strip()]
    assert merges_of(learnt) == by_tokenizers(lines, 360)
    assert len(learnt) == 360
    assert len(merges_of(learnt)) == 360 - 256 - 5


def test_every_reader_gives_the_same_ids(tmp_path: Path) -> None:
    learnt = learn(write_corpus(tmp_path), tmp_path / "mine")
    named = read_vocabulary(str(tmp_path / "mine"))
    engine, dictionary, layout = read_tokenizer(Folder(tmp_path / "mine"))
    others = [named, Tokenizer(engine, dictionary, layout)]
    for other in others:
        assert other.dictionary.symbols == learnt.dictionary.symbols
        assert other.engine.fingerprint == learnt.engine.fingerprint != ""
    for text in [*TEXTS, GEORGIAN]:
        ids = learnt.encode(text)
        assert learnt.layout.unk not in ids  # every byte has an id
        assert learnt.mask_idx not in ids  # special words are text
        assert learnt.decode(ids) == text
        assert all(torch.equal(other.encode(text), ids) for other in others)
    assert [learnt.dictionary[i] for i in range(4)] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert learnt.mask_idx == len(learnt) - 1


def test_counts_are_those_of_the_text(tmp_path: Path) -> None:
    learnt = learn(write_corpus(tmp_path), tmp_path / "mine")
    lines = [line.strip() for line in (GEORGIAN * 3).splitlines() if line.strip()]
    wanted = Counter(i for line in lines for i in learnt.encode(line).tolist()[1:-1])
    found = Dictionary.load(tmp_path / "mine/dict.txt")
    assert {i: n for i, n in enumerate(found.count) if i >= 4 and n} == dict(wanted)
    assert found.count[4:] == sorted(found.count[4:], reverse=True)
    about = json.loads((tmp_path / "mine/vocabulary.json").read_text())
    assert (about["size"], about["lines"]) == (360, len(lines))
    assert about["tokens"] == sum(wanted.values())


def test_compressed_files_and_tables_are_the_same_text(tmp_path: Path) -> None:
    wanted = merges_of(learn(write_corpus(tmp_path), tmp_path / "mine"))
    data = (GEORGIAN * 3).encode()
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(data))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(data))
    rows = [json.dumps({"words": line}) for line in (GEORGIAN * 3).splitlines() if line.strip()]
    (tmp_path / "c.jsonl").write_text("\n".join(rows) + "\n")
    for name in ("a.txt.xz", "b.txt.gz", "c.jsonl"):
        found = learn_vocabulary(
            [str(tmp_path / name)], tmp_path / f"of-{name}", 360, column="words"
        )
        assert merges_of(found.tokenizer) == wanted, name


def test_a_line_of_any_length_is_cut_where_words_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = " ".join(GEORGIAN.split()) + "   a  b " + " ".join(GEORGIAN.split()) * 3
    (tmp_path / "line.txt").write_text(text, encoding="utf-8")
    wanted = by_tokenizers([text], 350)
    for longest in (100_000, 40, 17):
        monkeypatch.setattr(learnt_vocabulary, "LONGEST_LINE", longest)
        found = learn(tmp_path / "line.txt", tmp_path / f"of-{longest}", 350)
        assert merges_of(found) == wanted, longest
        assert "".join(learnt_vocabulary._cut(text)) == text


def test_a_text_with_few_pairs_gives_fewer(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("tas tas\n")
    learnt = learn(tmp_path / "a.txt", tmp_path / "mine", 1000)
    assert merges_of(learnt) == [("a", "s"), ("t", "as")]
    assert learnt.pieces(learnt.encode("tas ta")) == ["<s>", "tas", "Ġ", "t", "a", "</s>"]


@pytest.mark.parametrize(
    "data, size, said",
    [
        (b"tas tas\n", 261, "a vocabulary of 261 has no room for a merge: 256 bytes and 5 special"),
        (b"tas tas\n", -3, "a vocabulary of -3 has no room"),
        (b"tas tas\n", 600_000, "the most is 500,000"),
        (b"\n  \n", 300, "there is no text in it"),
        (b"", 300, "there is no text in it"),
        (b"tas\n\xff\n", 300, "corpus.txt:2: not UTF-8"),
    ],
)
def test_what_cannot_be_learnt_is_refused_and_leaves_nothing(
    tmp_path: Path, data: bytes, size: int, said: str
) -> None:
    (tmp_path / "corpus.txt").write_bytes(data)
    with pytest.raises(InputError, match=said):
        learn(tmp_path / "corpus.txt", tmp_path / "mine", size)
    assert os.listdir(tmp_path) == ["corpus.txt"]


def test_halves_of_characters_and_endless_rulers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "tas \\ud800"}\n')
    with pytest.raises(InputError, match="U\\+D800"):
        learn(tmp_path / "a.jsonl", tmp_path / "mine")
    (tmp_path / "a.jsonl").unlink()
    (tmp_path / "a.txt").write_text(("-" * 8192 + "\n") * 3)
    with pytest.raises(VocabularyError, match="too long to be pieces of words; leave out lines"):
        learn(tmp_path / "a.txt", tmp_path / "mine")
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_folder_with_something_in_it_stays(tmp_path: Path) -> None:
    path = write_corpus(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/kept").write_text("kept")
    with pytest.raises(InputError, match="is there already; give a folder that is new or empty"):
        learn(path, tmp_path / "mine")
    assert os.listdir(tmp_path / "mine") == ["kept"]


def test_without_the_library_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_corpus(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match="learning a vocabulary needs tokenizers"):
        learn(path, tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


@pytest.mark.system
def test_a_model_learns_with_it_and_keeps_it_in_every_format(tmp_path: Path) -> None:
    path = write_corpus(tmp_path)
    learnt = learn(path, tmp_path / "mine")
    settings = ["pretrain=tiny", f"data.train={path}", f"data.vocabulary={tmp_path / 'mine'}"]
    settings += ["architecture.num_layers=1", "architecture.embed_dim=16", "loop.max_updates=1"]
    settings += ["architecture.embedding_dim=null", "task.options.block_size=16"]
    settings += ["loop.precision=no", f"output={tmp_path / 'run'}"]
    run(compose(settings))
    model = roberta_hub.load_model(tmp_path / "run/last")
    assert model.model.config.vocab_size == 360
    for format in ("roberta_hub", "fairseq", "huggingface"):
        model.save(tmp_path / format, format=format)
        again = roberta_hub.load_model(tmp_path / format)
        for text in TEXTS:
            assert torch.equal(again.encode(text), learnt.encode(text)), (format, text)
    assert model.eval().fill_mask("დედა <mask>", topk=2)


def test_a_model_with_weights_keeps_its_own(tmp_path: Path) -> None:
    learn(write_corpus(tmp_path), tmp_path / "mine")
    settings = ["finetune=rte", "data.train=a.tsv", f"data.vocabulary={tmp_path / 'mine'}"]
    (tmp_path / "a.tsv").write_text("")
    config = compose([*settings, f"output={tmp_path / 'run'}", f"data.train={tmp_path / 'a.tsv'}"])
    with pytest.raises(InputError, match="is for a model that begins with random weights"):
        run(config)
    with pytest.raises(CheckpointError, match="a vocabulary without a model; train one with it"):
        roberta_hub.load_model(tmp_path / "mine")
