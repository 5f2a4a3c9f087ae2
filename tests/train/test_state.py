"""A run that is killed at any instant and goes on equals one that was left alone, bit for bit."""

import json
import os
import random
import shutil
import signal
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from pickletools import genops

import forks
import pytest
import torch
from toy import ToyTask, config

from roberta_hub.checkpoint.safetensors import read_safetensors
from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.train.loop import state as states
from roberta_hub.train.loop.state import find_state
from roberta_hub.train.loop.training_loop import train_loop

pytestmark = pytest.mark.system

TOY = Path(__file__).with_name("toy.py")


def start(about):
    return forks.start(TOY, json.dumps([about]), stdout=forks.PIPE, stderr=forks.STDOUT)


def numbers(directory):
    """All that a finished run leaves, but the clock."""
    path = find_state(directory)
    weights = {k: v.clone() for k, v in read_safetensors(path / "weights.safetensors").items()}
    optimizer = torch.load(path / "optimizer.pt", weights_only=True)
    rest = torch.load(path / "run.pt", weights_only=True)
    rest["progress"].pop("seconds")
    rows = [line.split(",") for line in (directory / "log.csv").read_text().splitlines()]
    clock = [rows[0].index(name) for name in ("seconds", "tokens_per_second")]
    log = [[cell for i, cell in enumerate(row) if i not in clock] for row in rows]
    best = {k: v.clone() for k, v in read_safetensors(directory / "best/model.safetensors").items()}
    return weights, optimizer, rest, log, (directory / "valid.csv").read_text(), best


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert torch.equal(one.cpu(), other.cpu())
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    else:
        assert one == other


RUN = {"loop__max_updates": 60, "loop__save_every": 3, "loop__evaluate_every": 10}


def test_stopped_anywhere_and_resumed_is_bit_for_bit(tmp_path):
    """In one process: every stop is between two updates, at each of which everything is dropped."""
    train_loop(ToyTask(dropout=0.2), config(tmp_path / "whole", **RUN))
    torch.manual_seed(99)  # nothing may rest on what the process drew before
    for end in (1, 2, 13, 14, 30, 60):
        parts = config(tmp_path / "parts", **RUN, optimizer__total_updates=60)
        parts.loop.max_updates = end
        parts.loop.save_every = 3
        parts.loop.evaluate_every = 10 if end % 10 == 0 else 0
        task = ToyTask(dropout=0.2)
        train_loop(task, parts)
    whole, pieces = (numbers(tmp_path / name) for name in ("whole", "parts"))
    for a, b in zip(whole[:2], pieces[:2], strict=True):
        assert_same(a, b)
    assert_same(whole[2]["generators"], pieces[2]["generators"])


def _killed(tmp_path, kills, seed):
    train_loop(ToyTask(dropout=0.2), config(tmp_path / "whole", **RUN))
    about = {"output": str(tmp_path / "killed"), "task": {"dropout": 0.2}, **RUN}
    chance = random.Random(seed)
    deaths, places = 0, []
    for _ in range(4 * kills):
        process = start(about)
        folder = tmp_path / "killed"
        begin, was = time.monotonic(), find_state(folder)
        while (
            process.poll() is None and find_state(folder) == was and time.monotonic() < begin + 60
        ):
            time.sleep(0.002)
        time.sleep(chance.random() * 0.15)  # some updates, evaluations and savings later
        process.kill()
        process.wait()
        if process.returncode == -signal.SIGKILL:
            deaths += 1
            places.append(find_state(folder).name if find_state(folder) else None)
        if process.returncode == 0 or deaths == kills:
            break
    last = start(about)
    output, _ = last.communicate(timeout=120)
    assert last.returncode == 0, output
    assert deaths >= 1, "the runs were faster than the killer"
    assert_same(numbers(tmp_path / "whole"), numbers(tmp_path / "killed"))
    assert not list((tmp_path / "killed").glob(".state*"))
    return places


def test_kill_9_and_resume_is_bit_for_bit(tmp_path):
    _killed(tmp_path, kills=2, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_kill_9_many_times(tmp_path, seed):
    _killed(tmp_path, kills=6, seed=seed)


@pytest.mark.parametrize("instant", ["write", "rename 1", "rename 2", "rename 3", "delete"])
def test_a_death_while_saving_loses_nothing(tmp_path, monkeypatch, instant):
    """The newest whole state is found wherever the saving of the next one broke off."""
    options = {"loop__save_every": 5, "loop__evaluate_every": 5, "optimizer__total_updates": 20}
    train_loop(ToyTask(), config(tmp_path, **options, loop__max_updates=5))
    before = find_state(tmp_path)

    class Death(BaseException):
        pass

    def die(*args, **kwargs):
        raise Death

    with monkeypatch.context() as patch:
        # Renaming fails where the older one is, which then makes way for the second try.
        if instant == "write":
            patch.setattr(states.torch, "save", die)
        elif instant == "delete":
            patch.setattr(states.shutil, "rmtree", die)
        else:
            real, calls = os.rename, []

            def rename(stage, target):
                calls.append(stage)
                if len(calls) == int(instant[-1]):
                    raise Death
                return real(stage, target)

            patch.setattr(os, "rename", rename)
        with pytest.raises(Death):
            # the same place again: the older one must make way
            train_loop(ToyTask(), config(tmp_path, **options, loop__max_updates=5))
    assert find_state(tmp_path) is not None
    report = train_loop(ToyTask(), config(tmp_path, **options, loop__max_updates=20))
    train_loop(ToyTask(), config(tmp_path / "whole", **options, loop__max_updates=20))
    assert report.update == 20 and before is not None
    weights = [
        read_safetensors(find_state(f) / "weights.safetensors")
        for f in (tmp_path, tmp_path / "whole")
    ]
    assert_same(*weights)
    assert len(list(tmp_path.glob("state-*"))) == 1 and not list(tmp_path.glob(".state*"))


def test_a_death_after_the_last_state_was_renamed(tmp_path):
    """A death after the last state's renaming leaves nothing in the way.

    The end saves its update a second time.
    """
    options = {"loop__save_every": 5, "loop__max_updates": 5, "optimizer__total_updates": 20}
    train_loop(ToyTask(), config(tmp_path, **options))
    newest = find_state(tmp_path)
    shutil.copytree(newest, tmp_path / f".{newest.name}.old")
    shutil.rmtree(tmp_path / "last")
    assert train_loop(ToyTask(), config(tmp_path, **options)).update == 5
    assert (tmp_path / "last").is_dir() and not list(tmp_path.glob(".state*"))


def test_another_model_is_refused(tmp_path):
    train_loop(ToyTask(), config(tmp_path, loop__max_updates=3))
    other = ToyTask()
    other.module.roberta.config = replace(other.module.roberta.config, layer_norm_eps=1e-3)
    with pytest.raises(InputError, match=r"model's layer_norm_eps was .* and is now 0\.001"):
        train_loop(other, config(tmp_path, loop__max_updates=3))


def test_another_configuration_is_refused(tmp_path):
    train_loop(ToyTask(), config(tmp_path, loop__max_updates=3))
    with pytest.raises(InputError, match=r"optimizer\.lr was 0\.01 and is now 0\.02.*resume=false"):
        train_loop(ToyTask(), config(tmp_path, loop__max_updates=3, optimizer__lr=0.02))
    with pytest.raises(InputError, match="training examples was 96 and is now 95"):
        train_loop(ToyTask(examples=95), config(tmp_path, loop__max_updates=3))
    with pytest.raises(InputError, match="model's num_layers was 2 and is now 3"):
        train_loop(ToyTask(layers=3), config(tmp_path, loop__max_updates=3))
    again = train_loop(
        ToyTask(), config(tmp_path, loop__max_updates=3, optimizer__lr=0.02, resume=False)
    )
    assert again.update == 3


def test_a_state_from_before_a_field_of_the_architecture_goes_on(tmp_path):
    """A model written before a field existed had what is the field's default now."""
    train_loop(ToyTask(), config(tmp_path, loop__max_updates=3))
    path = find_state(tmp_path) / "run.pt"
    rest = torch.load(path, weights_only=True)
    assert rest["identity"].pop("model's activation_fn") == "gelu"
    torch.save(rest, path)
    assert train_loop(ToyTask(), config(tmp_path, loop__max_updates=3)).update == 3
    rest["identity"].pop("model's num_layers")  # the toy's is no default
    torch.save(rest, path)
    with pytest.raises(InputError, match="model's num_layers was 12 and is now 2"):
        train_loop(ToyTask(), config(tmp_path, loop__max_updates=3))


def test_a_state_holds_no_class_of_the_package(tmp_path):
    """So that renaming one cannot make a state unreadable."""
    train_loop(ToyTask(), config(tmp_path, loop__max_updates=2))
    for name in ("optimizer.pt", "run.pt"):
        data = zipfile.ZipFile(find_state(tmp_path) / name)
        (pickled,) = [n for n in data.namelist() if n.endswith("data.pkl")]
        modules = {str(arg) for op, arg, _ in genops(data.read(pickled)) if op.name == "GLOBAL"}
        assert not [m for m in modules if "roberta" in m], modules


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.pt", "run.pt"])
def test_a_damaged_state_is_said(tmp_path, name):
    train_loop(ToyTask(), config(tmp_path, loop__max_updates=2))
    path = find_state(tmp_path) / name
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="state-000000002"):
        train_loop(ToyTask(), config(tmp_path, loop__max_updates=2))
    shutil.rmtree(find_state(tmp_path))


def test_logs_are_cut_to_the_place(tmp_path):
    whole = config(tmp_path, loop__max_updates=10, optimizer__total_updates=20)
    train_loop(ToyTask(), whole)
    log = tmp_path / "log.csv"
    log.write_text(log.read_text() + "15,1,0.1,0,0,0,0,0,1\n99")
    whole.loop.max_updates = 20
    train_loop(ToyTask(), whole)
    updates = [line.split(",")[0] for line in log.read_text().splitlines()]
    assert updates == ["update", "5", "10", "12", "15", "20"]


def test_settings_of_numpys_kind_are_read_again(tmp_path):
    import numpy

    chosen = config(tmp_path, loop__max_updates=2)
    chosen.optimizer.lr = numpy.float64(1e-3)
    chosen.optimizer.betas = [numpy.float64(0.9), 0.98]
    chosen.optimizer.total_updates = 8
    train_loop(ToyTask(), chosen)
    chosen.loop.max_updates = 4
    assert train_loop(ToyTask(), chosen).update == 4


def test_what_was_written_of_a_state_goes_where_the_disk_is_full(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(states, "commit_state", full)
        with pytest.raises(CheckpointError, match=r"No space left.*as it was"):
            train_loop(ToyTask(), config(tmp_path, loop__max_updates=2))
    assert not list(tmp_path.glob(".state*"))
