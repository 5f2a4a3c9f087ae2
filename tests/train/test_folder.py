"""The folder of a run: claimed before a model is fetched, and the same for every process."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import forks
import pytest
from toy import ToyTask, config

from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.train.config import compose
from roberta_hub.train.loop.output_folder import claim_folder
from roberta_hub.train.loop.state import find_state
from roberta_hub.train.loop.training_loop import train_loop
from roberta_hub.train.run import train

SPLIT = Path(__file__).with_name("split.py")


@pytest.mark.parametrize("kind", ["a file", "under a file", "too long", "nul"])
def test_a_folder_that_cannot_be_is_said_before_a_model_is_fetched(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("ROBERTA_HUB_OFFLINE", "1")
    (tmp_path / "x.tsv").write_text("sentence\tlabel\nA.\ta\nB.\tb\n")
    output = {
        "a file": tmp_path / "x.tsv",
        "under a file": tmp_path / "x.tsv" / "run",
        "too long": tmp_path / "new" / ("a" * 300),
        "nul": "a\0b",
    }[kind]
    settings = ["finetune=sst_2", "model=roberta.large", f"data.train={tmp_path}/x.tsv"]
    chosen = compose([*settings, "data.format=tsv"])
    chosen.output = str(output)
    with pytest.raises(InputError, match=r"output=.*: cannot be written .*; name another folder"):
        train(chosen)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.tsv"]


def test_no_name_at_all(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="output is empty"):
        train_loop(ToyTask(), config(""))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["best", "last"])
@pytest.mark.parametrize("kind", ["file", "model.pt", "config.json"])
def test_what_would_be_in_the_way_of_a_model_is_said_first(tmp_path, name, kind):
    """0.1.0 said so when it saved, after the training."""
    place = tmp_path / name
    if kind == "file":
        place.write_text("mine")
    else:
        place.mkdir()
        (place / kind).write_text('{"model_type": "roberta"}')
    with pytest.raises(InputError, match=rf"{name} is not a model that a run left"):
        train_loop(ToyTask(), config(tmp_path, loop__max_updates=2))
    assert find_state(tmp_path) is None and place.exists()


def test_a_log_that_is_none(tmp_path):
    (tmp_path / "log.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CheckpointError, match=r"log\.csv: not the log of a run"):
        train_loop(ToyTask(), config(tmp_path, loop__max_updates=2))
    shutil.rmtree(tmp_path)
    (tmp_path / "log.csv").mkdir(parents=True)
    with pytest.raises(InputError, match=r"log\.csv is no file"):
        train_loop(ToyTask(), config(tmp_path, loop__max_updates=2))


def test_folders_made_for_a_run_that_fails_go_again_but_nothing_else(tmp_path):
    (tmp_path / "there").mkdir()
    for output in ("there", "new/deep"):
        with pytest.raises(ZeroDivisionError), claim_folder(f"{tmp_path}/{output}"):
            raise ZeroDivisionError
    assert [p.name for p in tmp_path.iterdir()] == ["there"]
    with pytest.raises(ZeroDivisionError), claim_folder(f"{tmp_path}/kept") as folder:
        (folder / "x").write_text("")
        raise ZeroDivisionError
    assert (tmp_path / "kept/x").exists()


def split(folders, updates):
    """Two real processes on the CPU whose output folders differ."""
    root = Path(__file__).resolve().parents[2]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    command += [f"--master-port={port}", str(SPLIT), str(updates)]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    environment["FOLDERS"] = json.dumps([str(folder) for folder in folders])
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    return found.stdout + found.stderr


@pytest.mark.system
def test_processes_that_would_go_on_from_different_updates_are_refused(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    options = {"optimizer__total_updates": 8, "loop__evaluate_every": 0}
    train_loop(ToyTask(), config(one, **options, loop__max_updates=4))
    before = find_state(one)
    said = split([one, two], 8)
    for words in (f"process 0: {one} on ", "has update 4", f"process 1: {two} on "):
        assert said.count(words) >= 2, said  # both say so, and neither waits for the other
    assert "has no state" in said and "must be shared by all of them" in said
    assert find_state(one) == before and find_state(two) is None
    # Of the same update, but of another run.
    options["optimizer__lr"] = 0.02
    train_loop(ToyTask(), config(two, **options, loop__max_updates=4))
    assert "from different states" in split([one, two], 8)
    # A copy of the state is the same one.
    shutil.rmtree(two)
    two.mkdir()
    shutil.copytree(before, two / before.name)
    assert "done 8" in split([one, two], 8)


HOLD = """
import sys
from roberta_hub.train.loop.output_folder import claim_folder
with claim_folder(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.system
def test_another_run_that_writes_there_is_said_and_a_killed_one_holds_nothing(tmp_path):
    with forks.start("-c", HOLD, tmp_path, stdin=forks.PIPE, stdout=forks.PIPE) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="another run writes there; wait until it has ended"):
            train_loop(ToyTask(), config(tmp_path, loop__max_updates=2))
        assert not (tmp_path / "log.csv").exists()
        other.kill()
    with claim_folder(str(tmp_path)):  # as `run` does, and `fit` inside it
        assert train_loop(ToyTask(), config(tmp_path, loop__max_updates=2)).update == 2
    assert not (tmp_path / ".run.lock").exists()


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_before_the_first_update_leaves_no_empty_folder(tmp_path, number):
    """As while the model is loaded: the folder is claimed, and nothing is in it."""
    arguments = ("-c", HOLD, tmp_path / "new" / "deep")
    with forks.start(*arguments, stdin=forks.PIPE, stdout=forks.PIPE) as run:
        assert run.stdout.readline() == "held\n"
        run.send_signal(number)
        assert run.wait(60) != 0
    assert not list(tmp_path.iterdir())


def test_the_best_model_of_an_earlier_run_goes_with_it(tmp_path):
    train_loop(ToyTask(), config(tmp_path, loop__max_updates=4, loop__evaluate_every=2))
    assert (tmp_path / "best").is_dir()
    again = config(tmp_path, loop__max_updates=4, loop__evaluate_every=0, resume=False)
    assert train_loop(ToyTask(), again).best is None
    assert not (tmp_path / "best").exists() and (tmp_path / "last").is_dir()


def test_a_log_of_blank_lines(tmp_path):
    (tmp_path / "log.csv").write_text("\n\n")
    assert train_loop(ToyTask(), config(tmp_path, loop__max_updates=2)).update == 2
