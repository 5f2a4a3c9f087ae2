"""Folders as fairseq-preprocess writes them: found, checked, read, learnt; hostile ones refused."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from small_models import small_roberta

from roberta_hub import load_model
from roberta_hub.errors import InputError
from roberta_hub.text import Dictionary, Tokenizer
from roberta_hub.train import train
from roberta_hub.train.config import compose
from roberta_hub.train.data.blocks import FAIRSEQ_MODES, cached_blocks, cut_blocks
from roberta_hub.train.data.data_bins import find_splits, open_text, read_labelled
from roberta_hub.train.data.indexed_files import DTYPES, IndexedWriter, bin_of, idx_of, open_indexed

LINES = [[31414, 232, 2], [2], [243, 21, 10, 2], [372, 2]]


def write(prefix: Path, lines: Sequence[Sequence[int]], dtype: torch.dtype = torch.uint16) -> Path:
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with IndexedWriter(prefix, dtype) as writer:
        for line in lines:
            writer.add(torch.tensor(line), [len(line)])
    return prefix


def write_older(prefix: Path, lines: Sequence[Sequence[int]], code: int = 4) -> Path:
    """The kind that begins with TNTIDX, by its description in fairseq's `IndexedDatasetBuilder`."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    dtype, sizes = DTYPES[code], [len(line) for line in lines]
    ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    numbers = [*range(len(sizes) + 1), *ends, *sizes]
    head = struct.pack("<QQQQQ", 1, code, dtype.itemsize, len(sizes), len(sizes))
    idx_of(prefix).write_bytes(b"TNTIDX\0\0" + head + struct.pack(f"<{len(numbers)}q", *numbers))
    ids = torch.tensor([i + 1 for line in lines for i in line]).to(dtype)
    bin_of(prefix).write_bytes(ids.numpy().tobytes())
    return prefix


def folder_of(
    path: Path, lines: Sequence[Sequence[int]] = LINES, splits: Sequence[str] = ("train",)
) -> Path:
    """A folder of text in RoBERTa's vocabulary."""
    for split in splits:
        write(path / split, lines)
    Dictionary.roberta().save(path / "dict.txt", with_mask=False)
    return path


@pytest.mark.parametrize("code", DTYPES)
def test_every_type_of_ids(tmp_path: Path, code: int) -> None:
    lines = [[100, 7, 2], [2], [5, 2]]
    for prefix in (
        write(tmp_path / "new", lines, DTYPES[code]),
        write_older(tmp_path / "old", lines, code),
    ):
        found = open_indexed(prefix)
        assert [ids.tolist() for ids in found.examples()] == lines
        assert (len(found), found[2].tolist(), found[-1].tolist()) == (3, [5, 2], [5, 2])
        assert found.ends().tolist() == [3, 4, 6]


def hostile(index: bytes, ids: bytes) -> dict[str, tuple[bytes, bytes]]:
    """Pairs of files that lie, made of a right pair of the kind mmap."""
    size, place = 26, 26 + 4 * len(LINES)

    def changed(at: int, form: str, value: int) -> bytes:
        return index[:at] + struct.pack(form, value) + index[at + struct.calcsize(form) :]

    return {
        "train.idx: 18 bytes where": (index[:18], ids),
        "bytes where 74 are due": (index[:-1], ids),
        "bytes where 86 are due, and its header says 5": (changed(18, "<Q", 5), ids),
        "header says 1152921504606846976 ex": (changed(18, "<Q", 2**60), ids),
        "version 2": (changed(9, "<Q", 2), ids),
        "type 11 of ids": (changed(17, "<B", 11), ids),
        "an example of -1 ids": (changed(size, "<i", -1), ids),
        "an example of 2147483647 ids": (changed(size, "<i", 2**31 - 1), ids),
        "examples that do not follow each other": (changed(place + 8, "<q", -6), ids),
        "its .idx says 10 ids of 2 bytes": (index, ids[:-2]),
        "20 bytes, and its .idx says 10 ids of 4": (_wide(index), ids),
        "it begins with b'MMIDIDX\\x01": (index[:7] + b"\1" + index[8:], ids),
        "huffman": (b"HUFFIDX\0\0" + index[9:], ids),
        "it begins with b''": (b"", ids),
        "has no examples": (changed(18, "<Q", 0)[:26], b""),
        "an example of 4 ids, and train.bin has 0 bytes": (index, b""),
    }


def _wide(index: bytes) -> bytes:
    """The same index for ids of 4 bytes."""
    places = struct.unpack("<4q", index[42:])
    return index[:17] + b"\x04" + index[18:42] + struct.pack("<4q", *(2 * p for p in places))


NAMES = list(hostile(b"0" * 74, b"0" * 20))


@pytest.mark.parametrize("said", NAMES)
def test_a_pair_that_lies_is_refused(tmp_path: Path, said: str) -> None:
    prefix = write(tmp_path / "train", LINES)
    index, ids = hostile(idx_of(prefix).read_bytes(), bin_of(prefix).read_bytes())[said]
    idx_of(prefix).write_bytes(index)
    bin_of(prefix).write_bytes(ids)
    with pytest.raises(InputError) as error:
        open_indexed(prefix)
    assert said in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert "fairseq-preprocess --dataset-impl mmap" in str(error.value)


@pytest.mark.system
@pytest.mark.parametrize("kind", ["new", "old"])
def test_random_damage_is_read_as_it_is_or_refused(tmp_path: Path, kind: str) -> None:
    """Bytes changed, cut and put in: what comes is ids of the right number, or our error."""
    draw = random.Random(5)
    write_one = write if kind == "new" else write_older
    prefix = write_one(tmp_path / "train", LINES)
    good = {path: path.read_bytes() for path in (idx_of(prefix), bin_of(prefix))}
    refused = 0
    for _ in range(600):
        for path, data in good.items():
            damaged = bytearray(data)
            for _ in range(draw.randrange(3)):
                at = draw.randrange(len(damaged))
                fate = draw.randrange(4)
                if fate == 0:
                    del damaged[at:]
                elif fate == 1:
                    damaged[at:at] = bytes([draw.randrange(256)])
                else:
                    damaged[at] = draw.choice([0, 1, 127, 128, 255, draw.randrange(256)])
                if not damaged:
                    break
            path.write_bytes(damaged)
        try:
            found = open_indexed(prefix)
            assert sum(map(len, found.examples())) == len(found.ids)
        except InputError:
            refused += 1
    assert refused > 100


def test_what_is_no_folder_of_fairseqs_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Hello.\n")
    assert find_splits(str(tmp_path / "text.txt"), "train") == []
    assert find_splits(str(tmp_path), "train") == []
    assert find_splits("corpus/*.txt", "train") == []
    folder = folder_of(tmp_path / "bin", splits=["train", "valid"])
    with pytest.raises(InputError, match=r"no split 'test' in it; there is train, valid"):
        find_splits(str(folder), "test")
    with pytest.raises(InputError, match="no folder of fairseq-preprocess"):
        find_splits(f"{folder}:{tmp_path / 'text.txt'}", "train")


def test_the_dictionary_must_be_the_models(tmp_path: Path) -> None:
    tokenizer, folder = Tokenizer.shipped(), folder_of(tmp_path / "bin")
    split = find_splits(str(folder), "train")[0]
    wanted = [i for line in LINES for i in line]
    assert open_text(split, tokenizer, tmp_path / "a").ids.long().tolist() == wanted
    rows = (folder / "dict.txt").read_text().splitlines()
    (folder / "dict.txt").write_text("\n".join(["unheard 5", *rows[1:]]) + "\n")
    with pytest.raises(InputError, match=r"only one has 'unheard'; .*--vocabulary MODEL"):
        open_text(split, tokenizer, tmp_path / "b")
    # The same symbols in another order, and no fillers: symbol by symbol.
    words = [row for row in rows if not row.startswith("madeup")]
    (folder / "dict.txt").write_text("\n".join(words[::-1]) + "\n")
    moved = [i if i < 4 else 50_264 - i for i in wanted]
    for number, dtype in enumerate((torch.uint16, torch.int64)):
        write(folder / "train", [moved[:4], moved[4:]], dtype)
        found = open_text(split, tokenizer, tmp_path / f"c{number}")
        assert found.ids.long().tolist() == wanted
        assert found.ends().tolist() == [4, 10]


def test_an_id_outside_the_dictionary_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "bin", [[5, 2], [50_265, 2]])
    with pytest.raises(InputError, match=r"train.bin: id 50265, and its dict.txt has 50265"):
        open_text(find_splits(str(folder), "train")[0], Tokenizer.shipped(), tmp_path / "a")
    write(folder / "train", [[5, 2], [-3, 2]], torch.int32)
    with pytest.raises(InputError, match="id -3"):
        open_text(find_splits(str(folder), "train")[0], Tokenizer.shipped(), tmp_path / "b")
    write(folder / "train", [[5, 2]], torch.float64)
    bin_of(folder / "train").write_bytes(struct.pack("<2d", 5.5, 2.0))
    with pytest.raises(InputError, match="numbers that are not whole"):
        open_text(find_splits(str(folder), "train")[0], Tokenizer.shipped(), tmp_path / "c")


def test_ids_are_mapped_where_they_are_and_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, tokenizer = folder_of(tmp_path / "bin"), Tokenizer.shipped()
    split = find_splits(str(folder), "train")[0]
    first = open_text(split, tokenizer, tmp_path / "own")
    assert not (tmp_path / "own/tokens.bin").exists()
    monkeypatch.setattr("roberta_hub.train.data.data_bins._look", None)
    assert open_text(split, tokenizer, tmp_path / "own").digest == first.digest
    write(folder / "train1", [[5, 2]])  # another part of the split, as fairseq joins them
    monkeypatch.undo()
    both = open_text(split, tokenizer, tmp_path / "own")
    assert both.ids.tolist() == [i for line in [*LINES, [5, 2]] for i in line]
    assert (tmp_path / "own/tokens.bin").stat().st_size == 2 * len(both.ids)
    assert both.digest != first.digest


@pytest.mark.parametrize("mode", FAIRSEQ_MODES)
def test_blocks_of_fairseqs_modes_are_cached_too(tmp_path: Path, mode: str) -> None:
    folder = folder_of(tmp_path / "bin", LINES * 3)
    text = open_text(find_splits(str(folder), "train")[0], Tokenizer.shipped(), tmp_path / "own")
    arguments = {"mode": mode, "bos": 0, "eos": 2, "lines": text.ends}
    wanted = cut_blocks(text.ids, 4, **arguments)
    for _ in range(2):
        found = cached_blocks(text.ids, tmp_path / "own", 4, name=text.digest, **arguments)
        assert found.starts.equal(wanted.starts) and found.ends.equal(wanted.ends)
    assert len(list((tmp_path / "own").glob("blocks-*"))) == 1


# ---- runs ----


@pytest.fixture
def model(tmp_path: Path) -> Path:
    small_roberta(dropout=0.0).save(tmp_path / "model")
    return tmp_path / "model"


def settings(model: Path, *more: str) -> list[str]:
    return [
        f"model={model}",
        f"output={model.parent}/run",
        "loop.max_updates=2",
        "loop.max_epochs=null",
        "optimizer.warmup_updates=0",
        "optimizer.total_updates=2",
        "batch.batch_size=2",
        "loop.progress=false",
        *more,
    ]


def small_ids(model: Path) -> list[int]:
    """Ids of text that the small model has."""
    tokenizer = load_model(model).tokenizer
    return tokenizer.words.nonzero().squeeze(1).tolist()


def bin_for(path: Path, model: Path, lines: Sequence[Sequence[int]]) -> Path:
    write(path / "train", lines)
    write(path / "valid", lines)
    load_model(model).tokenizer.dictionary.save(path / "dict.txt", with_mask=False)
    return path


@pytest.mark.system
def test_shards_take_turns_by_epoch(model: Path, tmp_path: Path) -> None:
    """As in fairseq: epoch by epoch the next of the folders, the first again after the last."""
    from roberta_hub.train.run import make_task

    words = small_ids(model)
    one = bin_for(tmp_path / "one", model, [[*words[:3], 2]])
    two = bin_for(tmp_path / "two", model, [[*words[:2], 2]] * 2)
    own = settings(model, "task.name=masked_lm", "task.options.sentences=eos")
    task = make_task(compose([*own, f"data.train={one}:{two}", f"data.valid={one}"]))
    assert [list(task.lengths(epoch)) for epoch in range(3)] == [[5], [4, 4], [5]]
    assert len(task.batch([0, 1], 1).packed.lengths) == 2
    with pytest.raises(InputError, match=r"data\.valid names 2 folders"):
        make_task(compose([*own, f"data.train={one}", f"data.valid={one}:{two}"]))


@pytest.mark.system
def test_a_line_that_the_model_cannot_take_is_left_out_and_said(
    model: Path, tmp_path: Path
) -> None:
    words, limit = small_ids(model), load_model(model).max_positions
    long = [*(words * 9)[:limit], 2]
    data = bin_for(tmp_path / "bin", model, [[*words[:3], 2], long, [*words[:2], 2]])
    own = settings(model, "task.name=masked_lm", "task.options.sentences=complete")
    with pytest.warns(UserWarning, match="left out 1 of 3 blocks"):
        train(compose([*own, f"data.train={data}", f"data.valid={data}"]))


def labelled(path: Path, model: Path, *, pairs: bool, numbers: bool) -> Path:
    words = small_ids(model)
    texts = [[words[i % 5], words[i % 3], 2] for i in range(8)]
    for part in ("input0", "input1") if pairs else ("input0",):
        bin_for(path / part, model, texts)
    names = path / "label"
    if numbers:
        names.mkdir()
        for split in ("train", "valid"):
            (names / f"{split}.label").write_text("".join(f"{i / 8}\n" for i in range(8)))
        return path
    for split in ("train", "valid"):
        write(names / split, [[4 + i % 2, 2] for i in range(8)])
    (names / "dict.txt").write_text("yes 4\nno 4\nmadeupword0000 0\nmadeupword0001 0\n")
    return path


@pytest.mark.system
@pytest.mark.parametrize("pairs", [False, True])
def test_a_classifier_learns_in_the_order_of_fairseqs_classes(
    model: Path, tmp_path: Path, pairs: bool
) -> None:
    data = labelled(tmp_path / "bin", model, pairs=pairs, numbers=False)
    trained = train(
        compose(
            settings(model, "task.name=classification", f"data.train={data}", f"data.valid={data}")
        )
    )
    head = "sentence_classification_head"
    assert trained.head_labels(head) == ("yes", "no")  # by frequency there, not by name
    assert trained.inputs[head] == ("pair" if pairs else "one")


@pytest.mark.system
def test_numbers_are_learnt_as_they_are(model: Path, tmp_path: Path) -> None:
    """Also under finetune=sts_b, whose tables are divided by 5: fairseq's files are already."""
    data = labelled(tmp_path / "bin", model, pairs=True, numbers=True)
    from roberta_hub.train.run import make_task

    config = compose(settings(model, "finetune=sts_b", f"data.train={data}"))
    assert make_task(config).batch([1, 4], 0).targets["labels"].tolist() == [0.125, 0.5]


@pytest.mark.system
def test_what_does_not_fit_together_is_refused(model: Path, tmp_path: Path) -> None:
    data = labelled(tmp_path / "bin", model, pairs=True, numbers=False)
    tokenizer = load_model(model).tokenizer
    split = find_splits(str(data), "train")[0]

    def refused(said: str, *more: str) -> None:
        with pytest.raises(InputError, match=said):
            train(compose(settings(model, f"data.train={data}", *more)))

    refused("labelled examples, and this task learns from text", "task.name=masked_lm")
    refused("label/train.label: no such file", "task.name=regression")
    refused("learns many", "task.name=multi_label")
    refused("leave data.columns out", "task.name=classification", "data.columns={label: x}")
    write(data / "input1/train", [[5, 2]])
    refused("input0 8, input1 1 and label 8 examples", "task.name=classification")
    write(data / "input1/train", [[5]] * 8)
    refused("does not end in </s>", "task.name=classification")
    write(data / "input1/train", [[small_ids(model)[0], 2]] * 8)
    for ids in ([4, 5, 2], [2], [3, 2], [6, 2], [900, 2]):
        write(data / "label/train", [ids] * 8)
        with pytest.raises(InputError, match=r"are no label"):
            read_labelled(split, tokenizer, numbers=False)
    text = bin_for(tmp_path / "text", model, [[5, 2]])
    with pytest.raises(InputError, match="text without labels"):
        train(compose(settings(model, "task.name=classification", f"data.train={text}")))
