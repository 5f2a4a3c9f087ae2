"""Computes how far a number from so few rows can be trusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

BOOTSTRAP_DRAWS = 1000
"""Tables that a bootstrap draws."""
_BOOTSTRAP_CHUNK = 500_000
"""Numbers of a bootstrap that are in memory at a time."""
NORMAL_QUANTILE = 1.96
"""Deviations on either side of a normal distribution's mean that hold 95 % of it."""
Interval: TypeAlias = tuple[float, float]


def effective_rows(weights: Sequence[float]) -> float:
    """Count the rows that weighted rows are worth to an interval (Kish 1965).

    Example:
        >>> effective_rows([1, 1, 1]), effective_rows([3, 1])
        (3.0, 1.6)
    """
    return sum(weights) ** 2 / sum(weight * weight for weight in weights)


def share_interval(share: float, count: float) -> Interval:
    """95 % confidence interval of a share of `count` rows (Wilson 1927).

    Example:
        >>> [round(bound, 2) for bound in share_interval(1.0, 24)]
        [0.86, 1.0]
    """
    square = NORMAL_QUANTILE**2 / count
    middle = (share + square / 2) / (1 + square)
    around = math.sqrt(square * (share * (1 - share) + square / 4)) / (1 + square)
    return max(middle - around, 0.0), min(middle + around, 1.0)


def paired_difference_interval(better: float, worse: float, count: float) -> Interval:
    """95 % confidence interval of the difference of two shares on the same rows.

    It is the adjusted Wald interval of Bonett and Price (2012), which holds for few rows too.

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
