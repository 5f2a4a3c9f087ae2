"""Compiled layers compute the same on any threads, in any process, and make no caller wait."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from compiled_layers import computed, drawn, layer_of, only, prepared, skip_without

from roberta_hub.model.compiled import WEIGHT_FORMATS, CompiledRun, WeightFormat

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.system, pytest.mark.usefixtures("amd")]


@pytest.mark.parametrize("held", WEIGHT_FORMATS)
@pytest.mark.parametrize("before", [False, True], ids=["post", "pre"])
def test_two_threads_compute_what_one_does(held: WeightFormat, before: bool, built: Path) -> None:
    skip_without(held)
    form = prepared(layer_of((36, 52, 3), before), held)
    for lengths in ((1,), (4, 13)):
        x, asked = drawn(sum(lengths), 36), torch.tensor([0, 5])[: len(lengths)]
        found = []
        for threads in (1, *[2] * 100):  # a helper comes sooner or later
            torch.set_num_threads(threads)
            run = CompiledRun([only(form)], lengths, asked)
            found.append((run(only(form), x, False), run(only(form), x, True)))
        for every, some in found[1:]:
            assert torch.equal(every, found[0][0])
            assert torch.equal(some, found[0][1])


def test_many_python_threads_at_once(built: Path) -> None:
    form = prepared(layer_of((96, 224, 6)), "float16")
    inputs = [drawn(rows, 96) for rows in (1, 7, 16, 31)]
    wanted = [computed(form, (len(x),), x) for x in inputs]
    torch.set_num_threads(2)
    wrong = []

    def work(i: int) -> None:
        x = inputs[i % 4]
        for _ in range(5):
            if not torch.equal(computed(form, (len(x),), x), wanted[i % 4]):
                wrong.append(i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


START = """
import os, sys, signal
from pathlib import Path
import torch
from roberta_hub.model import compiled
compiled.LIBRARY_PATH = Path(sys.argv[1])
from compiled_layers import CompiledRun, drawn, layer_of, prepared
from small_models import small_model
def tasks():
    names = Path("/proc/self/task").glob("*/comm")
    return {path.parent: path.read_text().strip() for path in names}
"""
FORK = """
form = prepared(layer_of((36, 52, 3)), "float16").compiled[0][1]
x = drawn(9, 36)
torch.set_num_threads(2)
wanted = CompiledRun([form], (9,), None)(form, x, False)
child = os.fork()
assert torch.equal(CompiledRun([form], (9,), None)(form, x, False), wanted)
assert list(tasks().values()).count("roberta_hub") == 1
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
ONE_TEXT = """
torch.set_num_threads(1)
encoder = small_model(embed_dim=96, num_heads=6).eval().encoder.sentence_encoder
encoder.prepare(None)
text = torch.randint(5, 60, (1, 20))
with torch.no_grad():
    encoder.encode(text)  # MKL lays weights out on as many threads as torch has: one, as yet
torch.set_num_threads(3)
before, cores = tasks(), os.sched_getaffinity(0)
with torch.no_grad():
    encoder.encode(text)
new = {task: name for task, name in tasks().items() if task not in before}
assert list(new.values()) == ["roberta_hub"] * (min(3, len(cores)) - 1), new  # a core each
assert os.sched_getaffinity(0) == cores
for task in new:  # signals are for the program's own threads
    blocked = int((task / "status").read_text().split("SigBlk:")[1].split()[0], 16)
    assert blocked >> (signal.SIGINT - 1) & 1
    assert blocked >> (signal.SIGTERM - 1) & 1
"""


HELP = """
torch.set_num_threads(2)
form = prepared(layer_of((768, 3072, 12)), "float32").compiled[0][1]
x = drawn(400, 768)
def helper():
    (task,) = [task for task, name in tasks().items() if name == "roberta_hub"]
    return task
for _ in range(8):
    CompiledRun([form], (400,), None)(form, x, False)
took = int((helper() / "stat").read_text().rsplit(")", 1)[1].split()[11])  # of the user's time
assert took > 0, took
cores = os.sched_getaffinity(int(helper().name))
assert len(cores) == max(1, CORES - 1), cores
"""


def check_in_a_process(code: str, built: Path, **variables: str) -> None:
    path = os.pathsep.join([str(ROOT / "tests/model"), str(ROOT / "tests"), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "3", "PYTHONWARNINGS": "ignore"}
    env |= variables
    command = [sys.executable, "-c", f"{START}{code}print('reached')", str(built)]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert ran.stdout == "reached\n", ran.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_a_fork_after_its_first_call(built: Path) -> None:
    """A child makes its own threads; torch's products would wait for the parent's forever."""
    check_in_a_process(FORK, built)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_one_text_wakes_no_thread_of_torch_s(built: Path) -> None:
    """One of torch's operators would wake OpenMP's threads, and the call wait for them."""
    check_in_a_process(ONE_TEXT, built)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
@pytest.mark.parametrize("bound", ["false", "close"])
def test_a_helper_works_on_another_core(bound: str, built: Path) -> None:
    """Also where OpenMP binds the program's own thread to one core."""
    code = HELP.replace("CORES", str(len(os.sched_getaffinity(0))))
    check_in_a_process(code, built, OMP_PROC_BIND=bound, OMP_NUM_THREADS="2")


def test_more_callers_and_threads_than_cores(built: Path) -> None:
    form = prepared(layer_of((96, 224, 6)), "float32")
    inputs = [(drawn(sum(lengths), 96), lengths) for lengths in ((7,), (30, 1, 27), (500, 290))]
    torch.set_num_threads(1)
    wanted = [computed(form, lengths, x) for x, lengths in inputs]
    torch.set_num_threads(9)
    found: list[bool] = []

    def work(i: int) -> None:
        for k in range(6):
            x, lengths = inputs[(i + k) % 3]
            found.append(torch.equal(computed(form, lengths, x), wanted[(i + k) % 3]))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [True] * 36


def test_the_library_loads_with_an_older_libc(built: Path) -> None:
    """glibc 2.28, of manylinux_2_28: versions of symbols stand in the file as text."""
    found = {int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", built.read_bytes())}
    assert max(found, default=0) <= 28
