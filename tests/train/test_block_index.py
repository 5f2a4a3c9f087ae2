"""Blocks that are mapped, and plans that are tensors, are those of before, number for number."""

import hashlib
import os
import random
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from roberta_hub.errors import InputError
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.train.data import blocks
from roberta_hub.train.data.batches import count_updates, plan_epoch, update_freq_at
from roberta_hub.train.data.blocks import cached_blocks, cut_blocks
from roberta_hub.train.data.streams import build_stream, open_stream

TOKENIZER = Tokenizer.shipped()
WORDS = ["river", "stone", " cloud", "42", "so", "a"]


def before(lengths, max_tokens, *, seed, epoch, update_freq=1, world=1, batch_size=None):
    """The plan as it was when it was made of lists: an independent road to the same updates."""

    def generator(what):
        digest = hashlib.blake2b(f"{what} {seed} {epoch}".encode(), digest_size=7).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest, "big"))

    order = torch.randperm(len(lengths), generator=generator("order")).tolist()
    if batch_size is None:
        size = max(1, int(64 * max_tokens / max(1.0, sum(lengths) / len(lengths))))
        windows = (order[i : i + size] for i in range(0, len(order), size))
        order = list(chain.from_iterable(sorted(w, key=lambda i: -lengths[i]) for w in windows))
    micro, current, total = [], [], 0
    for i in order:
        over = max_tokens is not None and total + lengths[i] > max_tokens
        if current and (over or len(current) == batch_size):
            micro.append(current)
            current, total = [], 0
        current.append(i)
        total += lengths[i]
    micro = [sorted(batch, key=lambda i: -lengths[i]) for batch in [*micro, current]]
    if batch_size is None:
        micro = [micro[i] for i in torch.randperm(len(micro), generator=generator("updates"))]

    def weight(batch):
        return len(batch) > 1, sum(lengths[i] for i in batch)

    def deal(update):
        dealt = list(update)
        while len(dealt) % world:
            heaviest = max(dealt, key=weight)
            if len(heaviest) < 2:
                dealt.append([])
                continue
            dealt.remove(heaviest)
            dealt += [heaviest[::2], heaviest[1::2]]
        return dealt if dealt == update else sorted(dealt, key=weight, reverse=True)

    return [deal(micro[i : i + update_freq]) for i in range(0, len(micro), update_freq)]


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=300),
    st.sampled_from([50, 77, 400]),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([None, 1, 5]),
    st.integers(0, 3),
)
def test_a_plan_is_what_it_was(lengths, budget, freq, world, size, epoch):
    options = {"seed": 3, "epoch": epoch, "update_freq": freq, "world": world, "batch_size": size}
    assert list(plan_epoch(lengths, budget, **options)) == before(lengths, budget, **options)
    if size is not None:
        assert plan_epoch(lengths, None, **options) == before(lengths, None, **options)


def test_a_plan_is_read_like_a_list():
    made = plan_epoch(list(range(1, 40)), 60, seed=0, epoch=0, update_freq=2)
    everything = list(made)
    assert made[-1] == everything[-1] and made[1:3] == everything[1:3] and len(made) > 3
    with pytest.raises(IndexError, match="update 99 of"):
        made[99]


def test_updates_grow_until_they_are_whole():
    lengths = [1] * 40
    sizes = [len(u) for u in plan_epoch(lengths, 1, seed=0, epoch=0, update_freq=6, warmup=6)]
    assert sizes == [1, 2, 3, 4, 5, 6, 6, 6, 6, 1]
    assert sizes[:6] == [update_freq_at(number, 6, 6) for number in range(6)]
    # The next epoch goes on where this one stopped: with whole updates, or still growing.
    later = plan_epoch(lengths, 1, seed=0, epoch=1, update_freq=6, warmup=6, done=10)
    assert [len(u) for u in later] == [6, 6, 6, 6, 6, 6, 4]
    still = plan_epoch(lengths, 1, seed=0, epoch=1, update_freq=6, warmup=18, done=15)
    assert [len(u) for u in still] == [5, 5, 6, 6, 6, 6, 6]
    assert count_updates(40, 2, 6, 6) == len(sizes) + len(later)
    assert count_updates(40, 3, 6, 0) == 3 * 7
    examples = chain.from_iterable(chain.from_iterable(still))
    assert sorted(examples) == list(range(40))


@pytest.fixture
def stream(tmp_path):
    draw = random.Random(1)
    lines = (" ".join(draw.choices(WORDS, k=draw.randint(0, 30))) for _ in range(300))
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    return build_stream(tmp_path / "text.txt", tmp_path / "tokens", TOKENIZER)


@pytest.mark.parametrize("mode", ["full", "doc"])
@pytest.mark.parametrize("size", [8, 64])
def test_mapped_blocks_are_those_that_were_cut(stream, tmp_path, monkeypatch, mode, size):
    wanted = cut_blocks(stream, size, mode=mode, bos=0, eos=2)
    first = cached_blocks(stream, tmp_path / "tokens", size, mode=mode, bos=0, eos=2)
    monkeypatch.setattr(blocks, "cut_blocks", None)  # the second time nothing is cut
    monkeypatch.setattr(blocks, "TOKENS_PER_SCAN", 7)
    second = cached_blocks(stream, tmp_path / "tokens", size, mode=mode, bos=0, eos=2)
    for found in (first, second):
        assert torch.equal(found.starts, wanted.starts) and torch.equal(found.ends, wanted.ends)
        assert list(found.sizes()) == found.lengths() == wanted.lengths()
        for a, b in zip(found.sequences([0, 3]), wanted.sequences([0, 3]), strict=True):
            assert torch.equal(a, b)
    options = {"seed": 1, "epoch": 2, "update_freq": 3}
    assert plan_epoch(second.sizes(), 640, **options) == before(wanted.lengths(), 640, **options)


def test_an_index_of_another_stream_is_not_used(stream, tmp_path):
    folder = tmp_path / "tokens"
    cached_blocks(stream, folder, 16, bos=0, eos=2)
    cached_blocks(stream, folder, 16, mode="doc", bos=0, eos=2)
    (old,) = folder.glob("blocks-16-full-*.bin")
    # Other text of the same source, then other ids of the same size and number.
    (tmp_path / "text.txt").write_text("The sea.\nA stone in the sea.\n" * 9, encoding="utf-8")
    other = build_stream(tmp_path / "text.txt", folder, TOKENIZER)
    found = cached_blocks(other, folder, 16, bos=0, eos=2)
    assert found.lengths() == cut_blocks(other, 16, bos=0, eos=2).lengths() and not old.exists()
    ids = other.clone()
    ids[1::3] = 2
    ids.numpy().tofile(folder / "tokens.bin")
    os.utime(folder / "tokens.bin", (1, 1))
    changed = open_stream(folder, TOKENIZER)
    found = cached_blocks(changed, folder, 16, bos=0, eos=2)
    assert found.lengths() == cut_blocks(changed, 16, bos=0, eos=2).lengths()
    assert len(list(folder.glob("blocks-16-full-*.bin"))) == 1


@pytest.mark.parametrize(
    "damage", ["cut off", "zeros", "another number", "nothing", "past the end"]
)
def test_a_damaged_index_is_cut_again(stream, tmp_path, damage):
    folder = tmp_path / "tokens"
    wanted = cached_blocks(stream, folder, 16, bos=0, eos=2).lengths()
    (path,) = folder.glob("blocks-16-full-*.bin")
    whole = path.read_bytes()
    path.write_bytes(
        {
            "cut off": whole[:-16],
            "zeros": whole[:64] + bytes(len(whole) - 64),
            "another number": whole[:8] + bytes(8) + whole[16:],
            "nothing": b"",
            "past the end": whole[:-8] + (1 << 40).to_bytes(8, "little"),
        }[damage]
    )
    assert cached_blocks(stream, folder, 16, bos=0, eos=2).lengths() == wanted
    assert path.read_bytes() == whole


def test_a_corpus_that_may_only_be_read(stream, tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(blocks, "publishing", refuse)  # root may write anywhere
    found = cached_blocks(stream, tmp_path / "tokens", 16, bos=0, eos=2)
    assert found.lengths() == cut_blocks(stream, 16, bos=0, eos=2).lengths()
    assert not list((tmp_path / "tokens").glob("blocks-*"))
    with pytest.raises(InputError, match="block size 2"):
        cached_blocks(stream, tmp_path / "tokens", 2, bos=0, eos=2)


@pytest.mark.system
@pytest.mark.slow
def test_of_three_processes_one_cuts(stream, tmp_path):
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom roberta_hub.train.data import blocks\n"
        "from roberta_hub.text.tokenizer import Tokenizer\n"
        "from roberta_hub.train.data.streams import open_stream\nown = blocks.cut_blocks\n"
        "def slow(*args, **kwargs):\n    print('cut')\n    time.sleep(1)\n"
        "    return own(*args, **kwargs)\nblocks.cut_blocks = slow\n"
        "stream = open_stream(Path(sys.argv[1]), Tokenizer.shipped())\n"
        "print(len(blocks.cached_blocks(stream, Path(sys.argv[1]), 16, bos=0, eos=2)))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "tokens")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = "".join(process.communicate(timeout=300)[0] for process in started).split()
    assert said.count("cut") == 1
    assert said.count(str(len(cut_blocks(stream, 16, bos=0, eos=2)))) == 3
