"""The work that the log counts, the constant rate that then decays, and batches that grow."""

import csv
from itertools import pairwise

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from toy import ToyTask, config

from roberta_hub.config import RobertaConfig
from roberta_hub.errors import InputError
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.config import OptimizerConfig, compose
from roberta_hub.train.loop.flops import DEVICE_PEAKS, peak_flops, training_flops
from roberta_hub.train.loop.optimizer import Schedule, learning_rate
from roberta_hub.train.loop.training_loop import train_loop

SIZES = {"num_layers": 2, "embed_dim": 32, "ffn_dim": 64, "num_heads": 4, "vocab_size": 60}


@pytest.mark.parametrize("factor", [None, 8])
def test_flops_are_those_that_torch_counts(factor):
    """On a padded batch without padding, where torch's counter sees every product."""
    model = Roberta(RobertaConfig(**SIZES, embedding_dim=factor)).train()
    ids = torch.randint(4, 60, (3, 20))
    ids[:, 0] = 0
    with FlopCounterMode(display=False) as counter:
        features, _ = model(ids, features_only=True)
        features.sum().backward()
    counted = counter.get_total_flops()
    said = training_flops(model.config, [20] * 3)
    # The first product needs no gradient of ids; softmax and attention's own backward differ a bit.
    assert said == pytest.approx(counted, rel=0.12)


def rows(folder):
    with open(folder / "log.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_utilization_is_logged_where_the_peak_is_known(tmp_path):
    train_loop(ToyTask(), config(tmp_path / "known", loop__peak_flops=1e9))
    task = ToyTask()
    for row in rows(tmp_path / "known"):
        share = float(row["model_flops_utilization"])
        assert 0 <= share < 1e3
        lengths = [10] * (int(row["tokens"]) // 10)  # about: lengths are 6 to 17
        about = training_flops(task.module.roberta.config, lengths)
        speed = float(row["tokens_per_second"]) / int(row["tokens"])
        assert share == pytest.approx(about * speed / 1e9, rel=0.1, abs=2e-4)
    train_loop(ToyTask(), config(tmp_path / "unknown"))
    assert "model_flops_utilization" not in rows(tmp_path / "unknown")[0]


def test_a_peak_is_never_guessed(monkeypatch):
    cuda = torch.device("cuda", 0)
    for name, known in {"NVIDIA H100 PCIe": 756e12, "NVIDIA L40": None, "Quadro": None}.items():
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: name)
        assert peak_flops(cuda, "bf16") == known
        assert peak_flops(cuda, "no") is None and peak_flops(torch.device("cpu"), "bf16") is None
    assert all(1e13 < peak < 1e16 for peak in DEVICE_PEAKS.values())


def test_the_rate_stays_and_then_falls(tmp_path):
    options = {"optimizer__schedule": "constant_then_decay", "optimizer__decay_updates": 6}
    options |= {"loop__log_every": 1, "loop__evaluate_every": 0, "optimizer__power": 2.0}
    train_loop(ToyTask(), config(tmp_path, **options))
    rates = [float(row["lr"]) for row in rows(tmp_path)]
    assert rates[4:15] == [0.01] * 11 and rates[0] == 0
    assert rates[15:] == pytest.approx([0.01 * (1 - n / 6) ** 2 for n in range(1, 6)])
    # Without warm-up the first update has the full rate already.
    late = {"schedule": "constant_then_decay", "total": 4, "decay": 2}
    assert [learning_rate(n, peak=1.0, **late) for n in range(5)] == [1, 1, 1, 0.5, 0]
    open_ = OptimizerConfig(schedule="constant_then_decay")
    assert (Schedule.of(open_, 40).warmup, Schedule.of(open_, 40).decay) == (3, 4)
    with pytest.raises(InputError, match=r"warmup_updates 4 and decay_updates 6 are more than"):
        train_loop(ToyTask(), config(tmp_path / "wrong", **options, optimizer__total_updates=8))
    assert not (tmp_path / "wrong").exists()


@pytest.mark.system
def test_batches_that_grow_go_on_where_a_run_stopped(tmp_path):
    """96 examples in micro-batches of 4: the updates of two epochs, whole and in two starts."""
    options = {"batch__batch_size": 4, "batch__update_freq": 4, "batch__warmup_updates": 10}
    options |= {"loop__log_every": 1, "loop__max_updates": None, "loop__max_epochs": 2}
    options |= {"loop__evaluate_every": 0, "optimizer__total_updates": 30}
    report = train_loop(ToyTask(), config(tmp_path / "whole", **options))
    parts = config(tmp_path / "parts", **options)
    for stop in (5, 12, None):  # within the first epoch, and within the second
        parts.loop.max_updates = stop
        stopped = train_loop(ToyTask(), parts)
    whole, again = rows(tmp_path / "whole"), rows(tmp_path / "parts")
    tokens = [int(row["tokens"]) for row in whole]
    assert report.update == stopped.update == len(whole) and report.epoch == 2
    assert [(r["loss"], r["tokens"]) for r in whole] == [(r["loss"], r["tokens"]) for r in again]
    assert tokens[0] * 3 < tokens[9] and sum(a > b for a, b in pairwise(tokens[:10])) < 5


def test_the_recipe_masks_thirty_percent():
    recipe, base = compose(["pretrain=mask_30"]), compose(["pretrain=base"])
    assert recipe.task.options == {"mask_prob": 0.3} and recipe.loop.precision == "bf16"
    assert recipe.optimizer.schedule == "constant_then_decay"
    assert (recipe.batch.update_freq, recipe.optimizer.lr) == (128, base.optimizer.lr)
    assert recipe.batch.warmup_updates == 10_000 and base.batch.warmup_updates is None
