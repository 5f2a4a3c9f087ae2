"""Folders that real fairseq-preprocess wrote, read by us beside real fairseq's own reading."""

from __future__ import annotations

import random
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.text import Tokenizer
from roberta_hub.train import train
from roberta_hub.train.config import compose
from roberta_hub.train.data.blocks import cut_blocks
from roberta_hub.train.data.data_bins import class_names, find_splits, open_text, read_labelled
from roberta_hub.train.data.indexed_files import IndexedWriter, open_indexed
from roberta_hub.train.data.preprocessing import preprocess_labelled, preprocess_text

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_fairseq]
SYMBOLS = 60


def text(seed: int, documents: int, longest: int = 12) -> str:
    """Documents of lines of ids as words, an empty line between two."""
    draw = random.Random(seed)

    def line() -> str:
        return " ".join(str(draw.randrange(SYMBOLS)) for _ in range(draw.randint(1, longest)))

    parts = ["\n".join(line() for _ in range(draw.randint(1, 6))) for _ in range(documents)]
    return "\n\n".join(parts) + "\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`mmap`, `cached`, `lazy`: the same text in each kind; a shard; RTE and STS-B as in GLUE."""
    folder = tmp_path_factory.mktemp("bins")
    peers.dictionary(folder, SYMBOLS)
    for name, seed in (("train", 1), ("valid", 2), ("more", 3)):
        (folder / name).write_text(text(seed, 12))
    own: dict[str, Any] = {"srcdict": folder / "dict.txt", "validpref": folder / "valid"}
    for kind in ("mmap", "cached", "lazy"):
        peers.preprocess(
            folder, destination=kind, trainpref=folder / "train", dataset_impl=kind, **own
        )
    peers.preprocess(folder, destination="shard", trainpref=folder / "more", **own)
    labels = {"RTE": ["entailment", "not_entailment"], "STS-B": []}
    for task, names in labels.items():
        _glue(folder, task, names)
    peers.save_era(peers.fairseq_model(folder), folder / "model", "plain")
    return folder


def _glue(folder: Path, task: str, names: list[str]) -> None:
    """The three steps of preprocess_GLUE_tasks.sh after its BPE."""
    draw = random.Random(4)
    for split, count in (("train", 30), ("valid", 10)):
        for part in ("input0", "input1"):
            lines = text(draw.randrange(99), count, 9).replace("\n\n", "\n").splitlines()[:count]
            (folder / f"{task}.{split}.{part}").write_text("\n".join(lines) + "\n")
        given = [draw.choice(names) if names else f"{draw.random():.4f}" for _ in range(count)]
        (folder / f"{task}.{split}.label").write_text("\n".join(given) + "\n")
    for part in ("input0", "input1", "label") if names else ("input0", "input1"):
        peers.preprocess(
            folder,
            destination=f"{task}-bin/{part}",
            trainpref=folder / f"{task}.train.{part}",
            validpref=folder / f"{task}.valid.{part}",
            srcdict=None if part == "label" else folder / "dict.txt",
        )
    if not names:
        (folder / f"{task}-bin/label").mkdir()
        for split in ("train", "valid"):
            given = (folder / f"{task}.{split}.label").read_bytes()
            (folder / f"{task}-bin/label/{split}.label").write_bytes(given)


@pytest.fixture(scope="module")
def ours(made: Path) -> RobertaHubInterface:
    return load_model(made / "model")


@pytest.mark.parametrize("kind", ["mmap", "cached", "lazy"])
@pytest.mark.parametrize("split", ["train", "valid"])
def test_every_kind_as_fairseq_reads_it(made: Path, kind: str, split: str) -> None:
    peers.real_fairseq()
    from fairseq.data import data_utils

    theirs = data_utils.load_indexed_dataset(
        str(made / kind / split), dataset_impl=None if kind != "lazy" else "lazy"
    )
    if kind == "cached":
        theirs.prefetch(range(len(theirs)))
    found = open_indexed(made / kind / split)
    wanted = [theirs[i].tolist() for i in range(len(theirs))]
    assert [ids.tolist() for ids in found.examples()] == wanted
    assert [2] in wanted  # an empty line is one </s>
    assert found[3].tolist() == wanted[3]


@pytest.mark.parametrize("mode", ["none", "complete", "complete_doc"])
@pytest.mark.parametrize("size", [8, 17, 64])
def test_blocks_as_fairseq_makes_them(
    made: Path, ours: RobertaHubInterface, tmp_path: Path, mode: str, size: int
) -> None:
    """`<s>` and the line that is longer than a block included."""
    peers.real_fairseq()
    from fairseq.data import PrependTokenDataset, TokenBlockDataset, data_utils

    data = data_utils.load_indexed_dataset(str(made / "mmap/train"))
    blocks = TokenBlockDataset(data, data.sizes, size - 1, pad=1, eos=2, break_mode=mode)
    theirs = PrependTokenDataset(blocks, 0)
    wanted = [theirs[i].tolist() for i in range(len(theirs))]
    for kind in ("mmap", "cached"):
        split = find_splits(str(made / kind), "train")[0]
        text = open_text(split, ours.tokenizer, tmp_path / kind)
        found = cut_blocks(text.ids, size, mode=mode, bos=0, eos=2, lines=text.ends)
        assert [ids.tolist() for ids in found.sequences(range(len(found)))] == wanted


def test_a_line_by_itself(made: Path, ours: RobertaHubInterface, tmp_path: Path) -> None:
    """`eos`: fairseq 0.12.2 fails in it on NumPy 2, and its blocks are the lines."""
    lines = list(open_indexed(made / "mmap/train").examples())
    text = open_text(find_splits(str(made / "mmap"), "train")[0], ours.tokenizer, tmp_path)
    found = cut_blocks(text.ids, 8, mode="eos", bos=0, eos=2, lines=text.ends)
    read = found.sequences(range(len(found)))
    assert [ids.tolist() for ids in read] == [[0, *line.tolist()] for line in lines]


def _sentence_prediction(folder: Path, classes: int, regression: bool) -> Any:
    from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

    config = SentencePredictionConfig(
        data=str(folder), num_classes=classes, init_token=0, separator_token=2
    )
    config.regression_target, config.seed = regression, 1
    task = SentencePredictionTask.setup_task(Namespace(**vars(config)))
    task.load_dataset("train")
    return task


def test_labelled_pairs_as_fairseq_reads_them(made: Path, ours: RobertaHubInterface) -> None:
    peers.real_fairseq()
    theirs = _sentence_prediction(made / "RTE-bin", 2, False)
    split = find_splits(str(made / "RTE-bin"), "train")[0]
    found, names = read_labelled(split, ours.tokenizer, numbers=False), class_names(split.folder)
    data = theirs.datasets["train"]
    assert len(found) == len(data)
    for number, example in enumerate(found):
        item = data[number]
        first, second = example.ids
        assert [0, *first, 2, *second] == item["net_input.src_tokens"].tolist()
        assert names.index(example.labels[0]) == int(item["target"])


def test_numbers_as_fairseq_reads_them(made: Path, ours: RobertaHubInterface) -> None:
    peers.real_fairseq()
    theirs = _sentence_prediction(made / "STS-B-bin", 1, True).datasets["train"]
    split = find_splits(str(made / "STS-B-bin"), "train")[0]
    found = read_labelled(split, ours.tokenizer, numbers=True)
    assert [float(example.labels[0]) for example in found] == [
        numpy.asarray(theirs[i]["target"]).item() for i in range(len(theirs))
    ]


@pytest.mark.parametrize(
    ("data", "valid", "more"),
    [
        ("mmap", "mmap", ["task.name=masked_lm", "task.options.sentences=complete"]),
        ("lazy", "shard/valid", ["task.name=masked_lm"]),
        ("mmap:{}/shard", "cached/valid", ["task.name=masked_lm"]),
        ("RTE-bin", "RTE-bin", ["finetune=rte", "optimizer.warmup_updates=1"]),
        ("STS-B-bin", "STS-B-bin/valid", ["finetune=sts_b", "optimizer.warmup_updates=1"]),
    ],
)
def test_a_run_learns_from_each(
    made: Path, tmp_path: Path, data: str, valid: str, more: list[str]
) -> None:
    lines = [
        *more,
        f"model={made}/model",
        f"data.train={made}/{data.format(made)}",
        f"data.valid={made}/{valid}",
        f"output={tmp_path}/run",
        "loop.max_updates=4",
        "loop.max_epochs=null",
        "optimizer.total_updates=4",
        "batch.batch_size=4",
        "loop.progress=false",
    ]
    trained = train(compose(lines))
    assert torch.isfinite(next(iter(trained.parameters()))).all()
    assert (tmp_path / "run/valid.csv").read_text().count("\n") > 1


def test_what_we_write_is_what_fairseqs_recipe_writes(tmp_path: Path) -> None:
    """README.pretraining.md: multiprocessing_bpe_encoder --keep-empty, then fairseq-preprocess."""
    peers.real_fairseq()
    from fairseq.data import data_utils
    from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

    encoder = get_encoder(*map(str, peers.write_bpe(peers.shipped_tokens(), tmp_path / "bpe")))
    lines = ["Hello world!", " blanks  around ", "", "Grüße, 你好 🙂", "\t", "don't  stop", ""]
    (tmp_path / "text").write_text("\n".join(lines * 40) + "\n")
    coded = [" ".join(map(str, encoder.encode(line.strip()))) for line in lines * 40]
    (tmp_path / "coded").write_text("\n".join(coded) + "\n")
    peers.dictionary(tmp_path)
    theirs = peers.preprocess(
        tmp_path, destination="theirs", trainpref=tmp_path / "coded", srcdict=tmp_path / "dict.txt"
    )
    preprocess_text({"train": [str(tmp_path / "text")]}, tmp_path / "ours", Tokenizer.shipped())
    for name in ("train.bin", "train.idx"):
        assert (tmp_path / "ours" / name).read_bytes() == (theirs / name).read_bytes()
    read = data_utils.load_indexed_dataset(str(tmp_path / "ours/train"))
    assert [read[i].tolist() for i in range(len(read))] == [
        ids.tolist() for ids in open_indexed(tmp_path / "ours/train").examples()
    ]


ENDS = {
    "CR alone": b"one\rtwo three\r four\rfive\n",
    "before an end": b"one\r\r\ntwo\n\rthree\r",
    "of Windows": b"one\r\ntwo\r\n\r\nthree",
    "an old Mac's": b"one\r\rtwo\rthree",
    "no ends": "one\x0btwo\x0cthree\x1cfour\x85five\u2028six\n\u2029seven\n".encode(),
}


@pytest.mark.parametrize("ends", ENDS)
def test_a_line_ends_where_fairseqs_recipe_ends_it(
    ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its multiprocessing_bpe_encoder itself, which opens files as Python's text."""
    peers.real_fairseq()
    from fairseq.examples.roberta import multiprocessing_bpe_encoder

    encoder, merges = peers.write_bpe(peers.shipped_tokens(), tmp_path / "bpe")
    (tmp_path / "text").write_bytes(ENDS[ends])
    words = ["--encoder-json", encoder, "--vocab-bpe", merges, "--inputs", tmp_path / "text"]
    words += ["--outputs", tmp_path / "coded", "--keep-empty", "--workers", "1"]
    monkeypatch.setattr(sys, "argv", ["multiprocessing_bpe_encoder", *map(str, words)])
    multiprocessing_bpe_encoder.main()
    peers.dictionary(tmp_path)
    theirs = peers.preprocess(
        tmp_path, destination="theirs", trainpref=tmp_path / "coded", srcdict=tmp_path / "dict.txt"
    )
    preprocess_text({"train": [str(tmp_path / "text")]}, tmp_path / "ours", Tokenizer.shipped())
    for name in ("train.bin", "train.idx"):
        assert (tmp_path / "ours" / name).read_bytes() == (theirs / name).read_bytes()


def test_fairseqs_task_reads_the_labelled_sets_that_we_write(tmp_path: Path) -> None:
    """Names of classes, pairs and numbers, and XLM-R's wide ids through fairseq's own reader."""
    peers.real_fairseq()
    rows = [("Hello.", "Hello world!", "no"), *[("Hello world!", "Hello.", "yes")] * 2]
    table = "".join("\t".join(row) + "\n" for row in rows)
    (tmp_path / "t.tsv").write_text("sentence\tsentence2\tlabel\n" + table)
    tokenizer, sources = Tokenizer.shipped(), {"train": str(tmp_path / "t.tsv")}
    preprocess_labelled(sources, tmp_path / "bin", tokenizer)
    theirs = _sentence_prediction(tmp_path / "bin", 2, False)
    data = theirs.datasets["train"]
    found = [(data[i]["net_input.src_tokens"].tolist(), int(data[i]["target"])) for i in range(3)]
    assert found == [
        (tokenizer.encode(*row[:2]).tolist(), {"yes": 0, "no": 1}[row[2]]) for row in rows
    ]
    (tmp_path / "n.tsv").write_text("sentence\tlabel\nHello.\t0.25\nHello world!\t-3\n")
    own = {"train": str(tmp_path / "n.tsv")}
    preprocess_labelled(own, tmp_path / "numbers", tokenizer, numbers=True)
    values = _sentence_prediction(tmp_path / "numbers", 1, True).datasets["train"]
    assert [numpy.asarray(values[i]["target"]).item() for i in range(2)] == [0.25, -3.0]


@pytest.mark.parametrize("dtype", [torch.uint16, torch.int32, torch.int64, torch.uint8])
def test_fairseq_reads_every_width_that_we_write(tmp_path: Path, dtype: torch.dtype) -> None:
    peers.real_fairseq()
    from fairseq.data import data_utils

    with IndexedWriter(tmp_path / "train", dtype) as writer:
        writer.add(torch.tensor([5, 200, 2, 2, 7, 2]), [3, 1, 2])
    read = data_utils.load_indexed_dataset(str(tmp_path / "train"))
    assert [read[i].tolist() for i in range(len(read))] == [[5, 200, 2], [2], [7, 2]]
