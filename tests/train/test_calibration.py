"""Probabilities mean what they say: the temperature, and the thresholds of several labels."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from small_models import assert_close
from torch import Tensor
from torch.profiler import profile

from roberta_hub.settings import HeadKind
from roberta_hub.train.fitting.calibration import (
    LOG_TEMPERATURE_STD,
    SHARED_THRESHOLD_ROWS,
    _middle,
    choose_thresholds,
    cross_calibrated,
    fit_temperature,
)
from roberta_hub.train.fitting.regression import losses

KINDS: tuple[HeadKind, ...] = ("single_label", "multi_label")


def drawn(kind: HeadKind, count: int, divisor: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits, and targets that are drawn as likely as the logits over `divisor` say."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(count, 4, generator=generator).double()
    if kind == "multi_label":
        chances = (logits / divisor).sigmoid()
        return logits, torch.bernoulli(chances, generator=generator)
    classes = torch.multinomial((logits / divisor).softmax(1), 1, generator=generator)
    return logits, torch.eye(4).double()[classes[:, 0]]


# ---- temperature ----


@pytest.mark.parametrize("divisor", [0.4, 1.0, 2.5, 8.0])
@pytest.mark.parametrize("kind", KINDS)
def test_many_rows_tell_the_temperature(kind: HeadKind, divisor: float) -> None:
    found = fit_temperature(*drawn(kind, 8000, divisor), kind)
    assert found == pytest.approx(divisor, rel=0.06)


@pytest.mark.parametrize("usual", [1.0, 2.0])
def test_few_rows_are_held_by_what_is_usual(usual: float) -> None:
    logits, targets = drawn("single_label", 8000, 8.0)
    assert fit_temperature(logits[:0], targets[:0], "single_label", usual) == usual
    errors = [
        abs(math.log(fit_temperature(logits[:n], targets[:n], "single_label", usual) / usual))
        for n in (1, 10, 100, 8000)
    ]
    assert errors == sorted(errors) and errors[0] < LOG_TEMPERATURE_STD


@pytest.mark.parametrize("right", ["all", "none", "half", "one"])
@pytest.mark.parametrize("size", [1e-5, 0.1, 1.0, 30.0, 1e5])
@pytest.mark.parametrize("count", [2, 40, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_never_at_an_edge(kind: HeadKind, count: int, size: float, right: str) -> None:
    """Rows that can be told apart, or not at all, with logits of any size: it is likeliest."""
    classes = torch.arange(count) % 2
    wrong = {
        "all": torch.zeros(count, dtype=torch.bool),
        "none": torch.ones(count, dtype=torch.bool),
        "half": torch.arange(count) % 4 < 2,
        "one": torch.arange(count) != 0,
    }[right]
    targets = torch.eye(2).double()[classes]
    logits = size * (2 * torch.eye(2).double()[classes.where(~wrong, 1 - classes)] - 1)
    found = fit_temperature(logits, targets, kind)
    assert math.isfinite(found) and found > 0

    log_t = torch.tensor(math.log(found), dtype=torch.float64, requires_grad=True)
    fit = losses(logits / log_t.exp(), targets, kind).sum()
    (slope,) = torch.autograd.grad(fit + (log_t / LOG_TEMPERATURE_STD).square() / 2, log_t)
    assert abs(float(slope)) < 1e-3 * max(1.0, float(fit.detach()))


def test_surer_than_right_is_warmer_and_less_sure_is_colder() -> None:
    targets = torch.eye(2).double()[[0, 0, 0, 1] * 10]
    targets, sure = targets.repeat(10, 1), torch.tensor([[5.0, -5.0]] * 400)
    assert fit_temperature(sure, targets, "single_label") > 2  # three of four are right
    assert fit_temperature(sure / 50, targets, "single_label") < 0.9
    assert fit_temperature(sure, targets, "regression") == 1.0


def test_scaling_the_logits_scales_the_temperature_of_many_rows() -> None:
    logits, targets = drawn("single_label", 8000, 1.5)
    small, large = (fit_temperature(s * logits, targets, "single_label") for s in (1.0, 3.0))
    assert large / small == pytest.approx(3.0, rel=0.03)


# ---- calibrated ----

FOLDS = [[0, 3, 6, 9], [1, 4, 7, 10, 11], [2, 5, 8]]


def test_each_fold_is_divided_by_the_temperature_of_the_others() -> None:
    logits, targets = drawn("single_label", 12, 4.0)
    before = logits.clone()
    found = cross_calibrated(logits, targets, "single_label", FOLDS, 2.0)
    assert torch.equal(logits, before)
    for fold in FOLDS:
        others = [i for i in range(12) if i not in fold]
        divisor = fit_temperature(logits[others], targets[others], "single_label", 2.0)
        assert_close(found[fold], logits[fold] / divisor)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_has_no_part_in_its_own_temperature(kind: HeadKind) -> None:
    logits, targets = drawn(kind, 12, 4.0)
    other = targets.clone()
    other[3] = targets[3].roll(1) if kind == "single_label" else 1 - targets[3]
    before = cross_calibrated(logits, targets, kind, FOLDS)
    after = cross_calibrated(logits, other, kind, FOLDS)
    assert torch.equal(before[FOLDS[0]], after[FOLDS[0]])
    for fold in FOLDS[1:]:
        assert not torch.equal(before[fold], after[fold])


def test_numbers_stay() -> None:
    logits, targets = drawn("single_label", 12, 4.0)
    assert torch.equal(cross_calibrated(logits, targets, "regression", FOLDS), logits)


# ---- thresholds ----


def rare(count: int, seed: int) -> Any:
    """Six labels of 3 to 25 % of the rows, and chances that are true but seldom above a half."""
    generator = torch.Generator().manual_seed(seed)
    level = torch.tensor([-4.5, -4.0, -3.5, -3.0, -2.5, -1.5]).double()
    logits = level + 1.5 * torch.randn(count, 6, generator=generator).double()
    chances = logits.sigmoid()
    return chances, torch.bernoulli(chances, generator=generator)


def micro_f1(chances: Tensor, targets: Tensor, least: Any) -> float:
    given = (chances >= torch.tensor(least, dtype=torch.float64)).double()
    return float(2 * (given * targets).sum() / (given.sum() + targets.sum()))


@pytest.mark.parametrize("seed", range(3))
def test_they_find_more_than_a_half_does(seed: int) -> None:
    least = choose_thresholds(*rare(400, seed))
    chances, targets = rare(4000, 100 + seed)
    assert micro_f1(chances, targets, least) > micro_f1(chances, targets, 0.5) + 0.05


def test_each_label_has_its_own_in_their_order() -> None:
    chances, targets = rare(2000, 1)
    chances[:, 2] = chances[:, 2] ** 0.5  # says too much
    least = choose_thresholds(chances, targets)
    assert len(least) == 6 and all(0 < one < 1 for one in least)
    assert least[2] == max(least)
    order = [3, 0, 5, 2, 4, 1]
    assert choose_thresholds(chances[:, order], targets[:, order]) == tuple(least[k] for k in order)


def test_a_label_of_no_row_is_in_between() -> None:
    chances, targets = rare(300, 1)
    targets[:, 4] = 0
    assert all(0 < one < 1 for one in choose_thresholds(chances, targets))
    assert choose_thresholds(chances, torch.zeros_like(targets)) == (0.5,) * 6
    assert choose_thresholds(chances[:0], targets[:0]) == (0.5,) * 6


def test_a_label_of_few_rows_is_held_by_the_others() -> None:
    """One row of twenty has the label, by chance with a high score: .9 would be its own choice."""
    chances, targets = rare(20, 5)
    own = torch.full((20, 1), 0.5).double()
    own[0], one = 0.95, torch.zeros(20, 1).double()
    one[0] = 1.0
    alone = choose_thresholds(own, one)
    beside = choose_thresholds(torch.cat([chances, own], 1), torch.cat([targets, one], 1))
    assert beside[-1] <= alone[0] > 0.5


def test_of_equal_ones_it_is_in_the_middle_and_as_good() -> None:
    chances = torch.tensor([[0.9], [0.1], [0.9], [0.1]], dtype=torch.float64)
    targets = torch.tensor([[1.0], [0.0], [1.0], [0.0]], dtype=torch.float64)
    assert choose_thresholds(chances, targets) == (0.525,)  # of 0.15 ... 0.9
    # 0.05 to 0.3 and 0.65 to 0.9 are equally good, and what lies between is worse.
    chances = torch.tensor([[0.9], [0.6], [0.6], [0.3]], dtype=torch.float64)
    targets = torch.tensor([[1.0], [0.0], [0.0], [1.0]], dtype=torch.float64)
    assert micro_f1(chances, targets, choose_thresholds(chances, targets)) == pytest.approx(2 / 3)


def test_they_take_less_memory_than_their_input() -> None:
    """All labels at once took 43 times as much: 4 GB for 5,700 rows of 4,271 labels."""
    chances = torch.rand(2000, 400)
    targets = (torch.rand(2000, 400) < chances).float()
    with profile(profile_memory=True) as seen:
        choose_thresholds(chances, targets)
    held, peak = 0, 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    assert 0 < peak < chances.nbytes


def test_a_label_at_a_time_is_as_all_at_once() -> None:
    chances, targets = rare(500, 3)
    grid = torch.arange(1, 20).double() / 20
    given = chances >= grid.view(-1, 1, 1)
    right, answered, wanted = (given * targets).sum(1), given.sum(1), targets.sum(0)
    share = SHARED_THRESHOLD_ROWS / len(targets)
    top = 2 * (right + share * right.mean(1, keepdim=True))
    found = top / (answered + wanted + share * (answered + wanted).mean(1, keepdim=True))
    best = (found.amax(0) - found < 1e-9).t().tolist()
    assert choose_thresholds(chances, targets) == tuple(_middle(grid.tolist(), own) for own in best)
