"""Computes what answers are worth, and how far a number from so few rows can be trusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

NUM_BINS = 10
"""Of a reliability diagram, of one width."""
BOOTSTRAP_DRAWS = 1000
"""Tables that a bootstrap draws."""
_BOOTSTRAP_CHUNK = 500_000
"""Numbers of a bootstrap that are in memory at a time."""
_MIN_PROBABILITY = 1e-15
"""A probability of 0 counts as this, else one row would make a log loss infinite."""
NORMAL_QUANTILE = 1.96
"""Deviations on either side of a normal distribution's mean that hold 95 % of it."""
Interval = tuple[float, float]


@dataclass(frozen=True)
class Bin:
    """Answers whose probability is between two bounds, and how often they are right."""

    low: float
    high: float
    count: int
    score: float
    """Mean of their probabilities."""
    right: float
    """The share of them that is right."""


def reliability_bins(scores: Sequence[float], right: Sequence[bool]) -> tuple[Bin, ...]:
    """Sort answers into ten bins by their probability; bins without an answer are left out.

    Args:
        scores: probability of each answer.
        right: whether it is right.

    Example:
        >>> reliability_bins([0.95, 0.97, 0.55], [True, False, True])[1].right
        0.5
    """
    members: dict[int, list[tuple[float, bool]]] = {}
    for score, is_right in zip(scores, right, strict=True):
        members.setdefault(min(int(score * NUM_BINS), NUM_BINS - 1), []).append((score, is_right))
    return tuple(
        Bin(
            i / NUM_BINS,
            (i + 1) / NUM_BINS,
            len(own),
            sum(score for score, _ in own) / len(own),
            sum(is_right for _, is_right in own) / len(own),
        )
        for i, own in sorted(members.items())
    )


def calibration_error(bins: Sequence[Bin]) -> float:
    """Compute the expected calibration error (ECE; Guo et al. 2017, equation 3).

    Example:
        >>> round(calibration_error(reliability_bins([0.9, 0.9], [True, False])), 2)
        0.4
    """
    total = sum(each.count for each in bins)
    return sum(each.count * abs(each.score - each.right) for each in bins) / max(total, 1)


def log_loss(given: Sequence[float]) -> float:
    """Compute the mean of -log(p) over the probabilities that right answers were given.

    Example:
        >>> round(log_loss([1.0, 0.5]), 3)
        0.347
    """
    return -sum(math.log(max(p, _MIN_PROBABILITY)) for p in given) / len(given)


# ---- how far a number can be trusted ----


def share_interval(share: float, count: int) -> Interval:
    """95 % confidence interval of a share of `count` rows (Wilson 1927).

    Example:
        >>> [round(bound, 2) for bound in share_interval(1.0, 24)]
        [0.86, 1.0]
    """
    square = NORMAL_QUANTILE**2 / count
    middle = (share + square / 2) / (1 + square)
    around = math.sqrt(square * (share * (1 - share) + square / 4)) / (1 + square)
    return max(middle - around, 0.0), min(middle + around, 1.0)


def paired_difference_interval(better: int, worse: int, count: int) -> Interval:
    """95 % confidence interval of the difference of two shares on the same rows.

    It is the adjusted Wald interval of Bonett and Price (2012), which holds for few rows too.

    Args:
        better: rows that only the first answers rightly.
        worse: rows that only the second answers rightly.
        count: of all rows.

    Example:
        >>> [round(bound, 2) for bound in paired_difference_interval(12, 0, 24)]
        [0.24, 0.68]
    """
    first, second = (better + 1) / (count + 2), (worse + 1) / (count + 2)
    around = NORMAL_QUANTILE * math.sqrt((first + second - (first - second) ** 2) / (count + 2))
    return first - second - around, first - second + around


def bootstrap_interval(
    rows: Tensor, statistic: Callable[[Tensor], Tensor], seed: int = 0
) -> Interval:
    """95 % bootstrap interval of a statistic of means over rows.

    The same rows give the same interval, and the caller's random numbers stay as they are.

    Args:
        rows: what each row adds to the sums. Shape: (n, K)
        statistic: from the sums of several tables, divided by n, (tables, K), to (tables,).
        seed: of the draws.

    Example:
        >>> rows = torch.tensor([[0.0], [1.0]] * 50)
        >>> low, high = bootstrap_interval(rows, lambda means: means[:, 0])
        >>> 0.35 < low < 0.45 < 0.55 < high < 0.65
        True
    """
    count, generator = len(rows), torch.Generator().manual_seed(seed)
    found: list[Tensor] = []
    tables = max(1, min(BOOTSTRAP_DRAWS, _BOOTSTRAP_CHUNK // count))
    while sum(map(len, found)) < BOOTSTRAP_DRAWS:
        drawn = torch.randint(count, (tables, count), generator=generator)
        found.append(statistic(rows.double()[drawn].mean(1)))
    low, high = (
        torch.cat(found)[:BOOTSTRAP_DRAWS].quantile(torch.tensor([0.025, 0.975]).double()).tolist()
    )
    return low, high
