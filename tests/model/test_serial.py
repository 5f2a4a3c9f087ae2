"""One text waits for no thread of torch's: its operators stay on the caller's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from compiled_layers import runs_compiled
from small_models import small_roberta

from roberta_hub.model import compiled, kernels
from roberta_hub.model.serial import num_threads, openmp, serial

pytestmark = pytest.mark.system
ROOT = Path(__file__).resolve().parents[2]
ONE_TEXT = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
import torch
torch.set_num_threads(2)
import roberta_hub
roberta = roberta_hub.load_model().optimize()
verbs = {
    "classify": lambda: roberta.classify([("A man eats.", "Somebody eats.")]),
    "fill_mask": lambda: roberta.fill_mask("The capital of France is <mask>."),
    "features": lambda: roberta.features("Hello world!"),
    "embed": lambda: roberta.embed("Hello world!"),
}
torch.randn(4000, 400) @ torch.randn(400, 400)  # torch's threads are there
def switches():
    found = {}
    for task in os.listdir("/proc/self/task"):
        place = f"/proc/self/task/{task}/"
        name = open(place + "comm").read().strip()
        lines = open(place + "status").read().splitlines()
        if int(task) != os.getpid() and name != "roberta_hub":
            found[task] = sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return found
woken = {}
for name, run in verbs.items():
    run()
    import time; time.sleep(0.3)  # OpenMP's threads spin a while before they sleep
    before = switches()
    for _ in range(20):
        run()
    woken[name] = sum(count - before.get(task, 0) for task, count in switches().items())
from roberta_hub.inference.threads import is_compiled
from roberta_hub.model.kernels import ANY_ROWS
print(json.dumps([len(before), woken, is_compiled(roberta.model, ANY_ROWS)]))
"""
FEW_ROWS = """
from roberta_hub.model import kernels
for rows in kernels.COMPILED_ROWS.values():
    rows |= {"float32": 32, "float16": 32}
"""
"""As on Intel's CPUs, where layers run in compiled code for so many rows, and heads do not."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no /proc")
@pytest.mark.parametrize("limit", ["", FEW_ROWS], ids=["", "few rows"])
def test_one_text_wakes_no_thread_of_torch(limit: str, built: Path) -> None:
    if not runs_compiled(small_roberta().optimize().model):
        pytest.skip("layers run on torch's operators here")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("OMP_NUM_THREADS", None)
    ran = subprocess.run(
        [sys.executable, "-c", limit + ONE_TEXT],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    threads, woken, always = json.loads(ran.stdout)
    assert threads >= 1 and (always or limit or kernels.cpu().vendor == "GenuineIntel")
    asked = woken if always else {verb: woken[verb] for verb in ("features", "embed")}
    assert all(count <= 2 for count in asked.values()), woken  # 40 and more, when they work


def test_the_number_of_other_threads_stays() -> None:
    if openmp() is None:
        pytest.skip("torch has no OpenMP here")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    seen: list[int] = []
    try:
        with serial():
            assert (torch.get_num_threads(), num_threads()) == (1, 2)
            other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
            other.start()
            other.join()
            with serial():  # the inner one does nothing
                assert num_threads() == 2
            assert num_threads() == 2
        assert torch.get_num_threads() == num_threads() == 2 and seen == [2]
        with pytest.raises(KeyError), serial():
            raise KeyError
        assert torch.get_num_threads() == num_threads() == 2
        torch.set_num_threads(1)
        with serial():
            assert num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_compiled_layers_keep_their_threads(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roberta = small_roberta().optimize()
    if not runs_compiled(roberta.model):
        pytest.skip("layers run on torch's operators here")
    there = compiled.library()
    assert there is not None
    asked: list[int] = []
    monkeypatch.setattr(there, "threads", lambda *_: asked.append(num_threads()) or 1)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        roberta.features("Hello world!")
    finally:
        torch.set_num_threads(before)
    assert asked and set(asked) == {2}
