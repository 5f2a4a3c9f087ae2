"""A child that is forked after a model was loaded or used works, on one thread, or says why not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import forks
import pytest

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]

START = """
import os, sys, time, warnings, torch, roberta_hub
torch.set_num_threads(2)
roberta = roberta_hub.load_model("roberta.tiny").eval()
texts = [f"The film was good, and {number} times too long." for number in range(64)]
torch.ones(2000, 2000) @ torch.ones(2000, 2000)  # torch's threads run now

def ended(pid, seconds=60):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "hangs"

def in_child(work):
    pid = os.fork()
    if not pid:
        status = 1
        try:
            work()
            status = 0
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr, flush=True)
        os._exit(status)
    return ended(pid)
"""
CHILD = """
optimize, used = sys.argv[1:]
if optimize != "no":
    roberta.optimize(None if optimize == "float32" else optimize)
wanted = roberta.embed(texts, progress=False) if used == "used" else None

def work():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        vectors = [roberta.embed(texts, progress=False) for _ in range(2)][1]
    (said,) = [str(one.message) for one in found if "forked" in str(one.message)]
    assert "2 threads" in said and "it computes with one" in said and '"spawn"' in said, said
    assert torch.get_num_threads() == 1
    if wanted is not None:
        assert torch.cosine_similarity(vectors, wanted).min() > 0.999
    if optimize == "no":
        roberta.train()
        roberta.extract_features(roberta.encode("A dog ran.")).sum().backward()

assert in_child(work) == 0
assert torch.get_num_threads() == 2
roberta.embed(texts, progress=False)  # the parent goes on with its own
"""


@pytest.mark.parametrize("used", ["loaded", "used"])
@pytest.mark.parametrize("optimize", ["no", "float32", "int8"])
def test_a_child_computes(optimize: str, used: str, tmp_path: Path) -> None:
    done = forks.run("-c", START + CHILD, optimize, used, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


MORE_THREADS = """
def work():
    torch.set_num_threads(2)
    roberta.embed(texts, progress=False)

assert in_child(work) == 1
"""


def test_more_threads_in_a_child_are_refused_at_once(tmp_path: Path) -> None:
    done = forks.run("-c", START + MORE_THREADS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "InputError torch.set_num_threads(2) in a child that was forked" in done.stderr
    assert 'multiprocessing.get_context("spawn")' in done.stderr


QUIET = """
torch.set_num_threads(1)
roberta.embed(texts, progress=False)

def work():
    warnings.simplefilter("error")
    roberta.embed(texts, progress=False)

assert in_child(work) == 0
"""


def test_children_of_one_thread_go_on_as_before(tmp_path: Path) -> None:
    done = forks.run("-c", START + QUIET, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


WORKERS = """
from torch.utils.data import DataLoader, Dataset

class Vectors(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        ids = roberta.encode(texts[index])
        return roberta.embed(texts[index], progress=False) * len(ids)

def work():
    loader = DataLoader(Vectors(), batch_size=2, num_workers=2, multiprocessing_context="fork")
    assert [len(batch) for batch in loader] == [2] * 4

roberta.embed(texts, progress=False)
assert in_child(work) == 0
work()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="DataLoader's workers are forks on Linux")
def test_workers_of_a_data_loader(tmp_path: Path) -> None:
    done = forks.run("-c", START + WORKERS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
