"""The loop's promises: normalization, processes, precision, stops, warnings, and what it writes."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from toy import ToyTask, config

import roberta_hub
from roberta_hub.checkpoint.safetensors import read_safetensors
from roberta_hub.errors import UnknownNameError
from roberta_hub.train.loop.divergence import DivergedError
from roberta_hub.train.loop.state import find_state
from roberta_hub.train.loop.training_loop import train_loop

TOY = Path(__file__).with_name("toy.py")


def weights(directory):
    return read_safetensors(find_state(Path(directory)) / "weights.safetensors")


def gap(one, other):
    a, b = weights(one), weights(other)
    assert a.keys() == b.keys()
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def launch(runs, processes=2, timeout=120):
    """Run the toy with torchrun, on the CPU: one start, several runs."""
    root = Path(__file__).resolve().parents[2]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
    command += [f"--master-port={port}", str(TOY), json.dumps(runs)]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    found = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def losses(directory):
    rows = [line.split(",") for line in (Path(directory) / "log.csv").read_text().splitlines()]
    return [float(row[rows[0].index("loss")]) for row in rows[1:]]


@pytest.mark.system
def test_learns_and_writes_models_that_load(tmp_path):
    report = train_loop(ToyTask(), config(tmp_path, loop__max_updates=100))
    assert report.stopped == "max_updates" and report.finished
    assert report.best > 0.8 and losses(tmp_path)[-1] < 0.5
    best = roberta_hub.load_model(tmp_path / "best")
    last = read_safetensors(tmp_path / "last" / "model.safetensors")
    assert best.labels["toy"] == ("a", "b", "c")
    trained = weights(tmp_path)
    name = "encoder.sentence_encoder.layers.0.fc1.weight"
    assert torch.equal(last[name], trained[f"roberta.{name}"])
    rows = (tmp_path / "valid.csv").read_text().splitlines()
    assert rows[0] == "update,accuracy,loss" and rows[1].startswith("12,") and len(rows) == 10


EXACT = {"double": True, "examples": 90}
"""90 examples: the last update of an epoch is smaller. In float64, since Adam makes whole steps of
the rounding noise where a gradient is 0, as that of the keys' bias is: in float32 the runs below
differ by up to 5e-5."""


@pytest.mark.system
def test_accumulation_equals_a_larger_batch(tmp_path):
    train_loop(ToyTask(**EXACT), config(tmp_path / "one", batch__batch_size=8))
    train_loop(
        ToyTask(**EXACT), config(tmp_path / "two", batch__batch_size=4, batch__update_freq=2)
    )
    train_loop(
        ToyTask(**EXACT), config(tmp_path / "eight", batch__batch_size=1, batch__update_freq=8)
    )
    assert gap(tmp_path / "one", tmp_path / "two") < 1e-9
    assert gap(tmp_path / "one", tmp_path / "eight") < 1e-9


PARALLEL = {
    "plain": {"task": EXACT},
    "three": {"task": EXACT, "batch__update_freq": 3},
    "clipped": {"task": EXACT, "batch__update_freq": 2, "optimizer__clip_norm": 0.01},
    "recomputed": {"task": EXACT, "loop__gradient_checkpointing": True},
    # every other update has one example: one process has nothing to do
    "few": {"task": {**EXACT, "examples": 5}, "batch__batch_size": 4},
}


def alone(about):
    about = dict(about)
    return train_loop(ToyTask(**about.pop("task")), config(**about))


@pytest.mark.system
def test_two_processes_equal_one(tmp_path):
    launch([{**run, "output": str(tmp_path / name / "two")} for name, run in PARALLEL.items()])
    for name, run in PARALLEL.items():
        folder = tmp_path / name
        alone({**run, "output": str(folder / "one")})
        assert gap(folder / "one", folder / "two") < 1e-9, name
        assert losses(folder / "two") == pytest.approx(losses(folder / "one"), abs=1e-9), name


@pytest.mark.system
@pytest.mark.slow
def test_sharded_equals_one(tmp_path):
    about = {"task": EXACT, "loop__evaluate_every": 10, "optimizer__total_updates": 20}
    alone({**about, "output": str(tmp_path / "one")})
    sharded = {**about, "output": str(tmp_path / "two"), "loop__parallel": "fsdp"}
    launch([{**sharded, "loop__max_updates": 12}])
    launch([sharded])
    assert gap(tmp_path / "one", tmp_path / "two") < 1e-9
    assert roberta_hub.load_model(tmp_path / "two/best").labels["toy"] == ("a", "b", "c")


@pytest.mark.system
@pytest.mark.slow
def test_two_processes_resume(tmp_path):
    about = {"task": {"dropout": 0.2}, "optimizer__total_updates": 20}
    whole = {**about, "output": str(tmp_path / "whole")}
    parts = {**about, "output": str(tmp_path / "parts")}
    launch([whole, {**parts, "loop__max_updates": 7}])
    launch([parts])
    assert gap(tmp_path / "whole", tmp_path / "parts") == 0


@pytest.mark.system
def test_recomputed_layers_change_nothing(tmp_path):
    train_loop(ToyTask(dropout=0.1), config(tmp_path / "plain"))
    task = ToyTask(dropout=0.1)
    train_loop(task, config(tmp_path / "again", loop__gradient_checkpointing=True))
    assert gap(tmp_path / "plain", tmp_path / "again") == 0
    layer = task.module.roberta.encoder.sentence_encoder.layers[0]
    assert "forward" not in vars(layer)


@pytest.mark.system
def test_bfloat16_learns_and_leaves_the_module_plain(tmp_path):
    task = ToyTask()
    report = train_loop(task, config(tmp_path, loop__precision="bf16", loop__max_updates=60))
    assert report.best > 0.7
    assert "forward" not in vars(task.module)
    assert {p.dtype for p in task.module.parameters()} == {torch.float32}


@pytest.mark.system
def test_evaluation_disturbs_nothing(tmp_path):
    train_loop(ToyTask(dropout=0.1), config(tmp_path / "often", loop__evaluate_every=1))
    train_loop(ToyTask(dropout=0.1), config(tmp_path / "never", loop__evaluate_every=0))
    assert gap(tmp_path / "often", tmp_path / "never") == 0


def test_patience(tmp_path):
    task = ToyTask()
    task.evaluate = lambda interface=None: {"accuracy": 0.5}
    report = train_loop(task, config(tmp_path, loop__evaluate_every=2, loop__patience=3))
    assert (report.stopped, report.update, report.best_update) == ("patience", 8, 2)


def test_epochs(tmp_path):
    report = train_loop(ToyTask(), config(tmp_path, loop__max_updates=None, loop__max_epochs=2))
    assert (report.stopped, report.update, report.epoch) == ("max_epochs", 24, 2)


@pytest.mark.system
def test_max_minutes_stops_in_time_saves_and_goes_on(tmp_path, monkeypatch):
    """By a clock of its own, on which an update takes 0.03 s and nothing else takes any."""
    options = {"loop__max_updates": 150, "optimizer__total_updates": 150}
    now = [0.0]

    class Slow(ToyTask):
        def batch(self, indices, epoch):
            now[0] += 0.03
            return super().batch(indices, epoch)

    limited = config(tmp_path, **options, loop__max_minutes=2.5 / 60)
    with monkeypatch.context() as patch:
        patch.setattr(
            "roberta_hub.train.loop.clock.time", SimpleNamespace(monotonic=lambda: now[0])
        )
        report = train_loop(Slow(dropout=0.1), limited)
    # All 150 updates are 4.5 s; it keeps 0.3 s and one and a half updates in hand.
    assert 2.1 < now[0] < 2.5
    assert report.stopped == "max_minutes" and not report.finished
    assert 0 < report.update < 150
    assert find_state(tmp_path).name == f"state-{report.update:09d}"
    limited.loop.max_minutes = None
    assert train_loop(ToyTask(dropout=0.1), limited).update == 150
    train_loop(ToyTask(dropout=0.1), config(tmp_path / "whole", **options))
    assert gap(tmp_path, tmp_path / "whole") == 0


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_saves_and_goes_on(tmp_path, number):
    options = {"optimizer__total_updates": 40, "loop__max_updates": 40}

    class Interrupted(ToyTask):
        def batch(self, indices, epoch):
            if len(list(Path(tmp_path).glob("log.csv"))):
                os.kill(os.getpid(), number)
            return super().batch(indices, epoch)

    assert threading.current_thread() is threading.main_thread()
    before = signal.getsignal(number)
    report = train_loop(Interrupted(dropout=0.1), config(tmp_path, **options))
    assert signal.getsignal(number) is before
    assert report.stopped == "interrupted" and report.update == 6
    assert train_loop(ToyTask(dropout=0.1), config(tmp_path, **options)).update == 40
    train_loop(ToyTask(dropout=0.1), config(tmp_path / "whole", **options))
    assert gap(tmp_path, tmp_path / "whole") == 0


@pytest.mark.system
def test_a_degenerate_run_is_said(tmp_path):
    task = ToyTask()
    task.module.dead = True
    with pytest.warns(RuntimeWarning, match=r"learnt nothing.*ln 3 = 1\.0986"):
        report = train_loop(task, config(tmp_path, loop__max_updates=120))
    assert report.stopped == "max_updates" and "chance" in report.degenerate
    with pytest.warns(RuntimeWarning, match="learnt nothing"):
        stopped = config(tmp_path / "stop", loop__max_updates=120, loop__degenerate="stop")
        assert train_loop(task, stopped).stopped == "degenerate"
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert (
            train_loop(ToyTask(), config(tmp_path / "good", loop__max_updates=120)).degenerate
            is None
        )


def test_a_diverged_run_is_an_error_and_keeps_its_state(tmp_path):
    task = ToyTask()
    task.module.poison = 13
    with pytest.raises(DivergedError, match=r"update 13: the loss is nan \(learning rate 0\.0"):
        train_loop(task, config(tmp_path, loop__save_every=5))
    assert find_state(tmp_path).name == "state-000000010"
    assert all(torch.isfinite(w).all() for w in weights(tmp_path).values())


def test_exploding_gradients_are_said(tmp_path):
    class Exploding(ToyTask):
        updates = 0

        def batch(self, indices, epoch):
            self.updates += 1
            batch = super().batch(indices, epoch)
            if self.updates == 15:
                self.module.roberta.head("toy").out_proj.weight.data *= 1e4
            return batch

    with pytest.warns(RuntimeWarning, match=r"gradient norm .* times the usual"):
        train_loop(Exploding(), config(tmp_path))


def test_clipping(tmp_path):
    loose, tight = ToyTask(), ToyTask()
    train_loop(loose, config(tmp_path / "loose", loop__max_updates=5))
    train_loop(tight, config(tmp_path / "tight", loop__max_updates=5, optimizer__clip_norm=1e-9))
    start = ToyTask().module.roberta.head("toy").dense.bias
    far, near = (task.module.cpu().roberta.head("toy").dense.bias for task in (loose, tight))
    assert (far - start).abs().max() > 1e-3
    assert (near - start).abs().max() < 1e-3


def test_the_loss_is_the_mean_over_all_targets(tmp_path):
    """Batches of unlike size count by their targets, as fairseq's normalization has it."""
    task = ToyTask(examples=11)
    options = {"optimizer__lr": 0.0, "batch__batch_size": 4, "batch__update_freq": 3}
    train_loop(task, config(tmp_path, **options, loop__max_updates=1, loop__log_every=1))
    everything = task.module.cpu()(task.batch(range(11), 0)).total / 11
    assert losses(tmp_path)[0] == pytest.approx(float(everything), abs=1e-6)


def test_unknown_metric_and_schedule_that_does_not_fit(tmp_path):
    task = ToyTask()
    task.metric = "acuracy"
    with pytest.raises(UnknownNameError, match="did you mean accuracy"):
        train_loop(task, config(tmp_path))
    with pytest.warns(UserWarning, match="warm-up takes 1000 updates, and this data gives only 5"):
        short = config(tmp_path / "b", loop__max_updates=5, optimizer__warmup_updates=1000)
        train_loop(ToyTask(), short)


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    train_loop(ToyTask(), config(tmp_path, loop__tensorboard=True))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [5, 10, 12, 15, 20]
    assert math.isfinite(events.Scalars("valid/accuracy")[-1].value)
