"""Several processes, on several nodes: killed at any moment, the run ends as it would have."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from test_folder import split
from test_loop import EXACT, TOY, alone, launch
from test_state import assert_same

from roberta_hub.train.loop.sharded import to_whole
from roberta_hub.train.loop.state import find_state, is_sharded, load_state

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(2400)]
LONG = 900
SHARDED = {"loop__parallel": "fsdp", "loop__state": "sharded", "loop__evaluate_every": 0}


def end(folder, work):
    """Weights and optimizer of a run's last state, as one process reads it."""
    path = find_state(folder)
    state = load_state(to_whole(path, work / folder.name) if is_sharded(path) else path)
    return state


def gap(one, other):
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def test_one_and_three_read_what_two_wrote(tmp_path):
    """And two read what one wrote whole; all of them end as one process does."""
    about = {"task": EXACT, "optimizer__total_updates": 16, "loop__evaluate_every": 0}
    about |= {"loop__max_updates": 16}
    alone({**about, "output": str(tmp_path / "one")})
    wanted = end(tmp_path / "one", tmp_path / "work").weights
    first = {**about, **SHARDED, "loop__max_updates": 6}
    launch([{**first, "output": str(tmp_path / "two")}], timeout=LONG)
    parts = sorted(p.name for p in (find_state(tmp_path / "two") / "parts").iterdir())
    assert parts == [".metadata", "__0_0.distcp", "__1_0.distcp"]
    for name in ("alone", "three"):
        shutil.copytree(tmp_path / "two", tmp_path / name)
    alone({**about, "output": str(tmp_path / "alone")})
    alone({**about, "output": str(tmp_path / "whole"), "loop__max_updates": 6})
    both = [{**about, **SHARDED, "output": str(tmp_path / name)} for name in ("two", "whole")]
    half = {**SHARDED, "loop__precision": "bf16", "loop__evaluate_every": None}
    half |= {"loop__max_updates": 100, "output": str(tmp_path / "half")}
    launch([*both, half], timeout=LONG)
    # bf16 under FSDP: weights are kept in 32 bits, and it learns.
    found = end(tmp_path / "half", tmp_path / "work")
    assert found.progress.best > 0.8
    assert {str(t.dtype) for t in found.weights.values()} == {"torch.float32"}
    launch([{**about, **SHARDED, "output": str(tmp_path / "three")}], processes=3, timeout=LONG)
    for name in ("alone", "two", "three", "whole"):
        found = end(tmp_path / name, tmp_path / "work").weights
        assert gap(wanted, found) < 1e-9, name


class Nodes:
    """The toy on simulated nodes of this machine: a torchrun each, in a process group each."""

    def __init__(self, about, nodes, processes):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        root = Path(__file__).resolve().parents[2]
        environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
        self.nodes = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "torch.distributed.run",
                    f"--nnodes={nodes}",
                    f"--node-rank={number}",
                    f"--nproc-per-node={processes}",
                    "--master-addr=127.0.0.1",
                    f"--master-port={port}",
                    str(TOY),
                    json.dumps([about]),
                ],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            for number in range(nodes)
        ]

    def running(self):
        return all(node.poll() is None for node in self.nodes)

    def kill(self, number):
        """SIGKILL a node: its torchrun and all of its processes."""
        children = Path(f"/proc/{self.nodes[number].pid}/task/{self.nodes[number].pid}/children")
        own = children.read_text().split() if children.exists() else []
        for each in [self.nodes[number].pid, *map(int, own)]:
            with suppress(ProcessLookupError):  # torchrun gives each process its own session
                os.kill(each, signal.SIGKILL)

    def wait(self):
        said = [node.communicate(timeout=LONG)[0] for node in self.nodes]
        return [node.returncode for node in self.nodes], "\n".join(said)


def killed(about, nodes, processes, kills, seed):
    """Run with deaths of a random node (all of them, where it is one) at random moments."""
    chance, folder, deaths, places = random.Random(seed), Path(about["output"]), 0, []
    while deaths < kills:
        run, was, begin = Nodes(about, nodes, processes), find_state(folder), time.monotonic()
        while run.running() and find_state(folder) == was and time.monotonic() < begin + LONG:
            time.sleep(0.01)
        time.sleep(chance.random() * 1.5)
        alive = run.running()
        run.kill(chance.randrange(nodes))
        codes, said = run.wait()
        assert alive, f"the run was faster than the killer, or failed: {said}"
        assert all(codes), said  # the other node does not go on alone
        deaths += 1
        places.append(sorted(p.name for p in folder.glob("*state*")))
    codes, said = Nodes(about, nodes, processes).wait()
    assert codes == [0] * nodes, said
    return places


def test_three_processes_killed_and_resumed_end_bit_for_bit(tmp_path):
    about = {**SHARDED, "task": {"dropout": 0.2}, "loop__max_updates": 150, "loop__save_every": 4}
    launch([{**about, "output": str(tmp_path / "whole")}], processes=3, timeout=LONG)
    places = killed({**about, "output": str(tmp_path / "killed")}, 1, 3, kills=2, seed=0)
    whole, found = (end(tmp_path / name, tmp_path / "work") for name in ("whole", "killed"))
    assert_same(whole.weights, found.weights)
    assert_same(whole.optimizer, found.optimizer)
    assert_same(whole.generators, found.generators)
    assert not list((tmp_path / "killed").glob(".state*")), places


def test_a_killed_node_is_started_again(tmp_path):
    """Two simulated nodes of two processes: a mesh of 2 x 2 (HSDP) over gloo."""
    about = {**SHARDED, "task": EXACT, "loop__max_updates": 120, "loop__save_every": 4}
    alone({"task": EXACT, "loop__max_updates": 120, "output": str(tmp_path / "one")})
    killed({**about, "output": str(tmp_path / "nodes")}, 2, 2, kills=1, seed=1)
    one, found = (end(tmp_path / name, tmp_path / "work") for name in ("one", "nodes"))
    assert gap(one.weights, found.weights) < 1e-9
    assert found.progress.update == 120


def test_parts_in_folders_that_are_not_shared_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIONS", json.dumps({"loop__state": "sharded"}))
    said = split([tmp_path / "one", tmp_path / "two"], 8)
    assert said.count("not every process sees what the first one writes there") >= 2, said
    assert not re.search(r"done \d", said) and find_state(tmp_path / "one") is None
