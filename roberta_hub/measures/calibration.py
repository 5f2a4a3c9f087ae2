"""Measures probabilities beside how often their answers are right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

NUM_BINS = 10
"""Bins of a reliability diagram, of one width."""
_MIN_PROBABILITY = 1e-15
"""A probability of 0 counts as this, else one row would make a log loss infinite."""


@dataclass(frozen=True)
class Bin:
    """Answers whose probability is between two bounds, and how often they are right."""

    low: float
    high: float
    count: float
    """How many there are; of weighted rows the sum of their weights."""
    score: float
    """Mean of their probabilities."""
    right: float
    """The share of them that is right."""


def reliability_bins(
    scores: Sequence[float], right: Sequence[float], weights: Sequence[float] | None = None
) -> tuple[Bin, ...]:
    """Sort answers into ten bins by their probability; bins without an answer are left out.

    Answers are right or wrong, or right in part: from 0 to 1. Weights say how much each counts.

    Example:
        >>> reliability_bins([0.95, 0.97, 0.55], [True, False, True])[1].right
        0.5
    """
    weights = [1] * len(scores) if weights is None else weights
    members: dict[int, list[tuple[float, float, float]]] = {}
    for each in zip(scores, right, weights, strict=True):
        members.setdefault(min(int(each[0] * NUM_BINS), NUM_BINS - 1), []).append(each)
    return tuple(_bin(i, own) for i, own in sorted(members.items()))


def _bin(number: int, own: Sequence[tuple[float, float, float]]) -> Bin:
    """Average the answers of a bin: their scores, how far they are right, their weights."""
    total = sum(weight for _, _, weight in own)
    score = sum(weight * score for score, _, weight in own) / total
    right = sum(weight * right for _, right, weight in own) / total
    return Bin(number / NUM_BINS, (number + 1) / NUM_BINS, total, score, right)


def calibration_error(bins: Sequence[Bin]) -> float:
    """Compute the expected calibration error (ECE; Guo et al. 2017, equation 3).

    Example:
        >>> round(calibration_error(reliability_bins([0.9, 0.9], [True, False])), 2)
        0.4
    """
    total = sum(each.count for each in bins)
    return sum(each.count * abs(each.score - each.right) for each in bins) / (total or 1)


def log_loss(given: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Compute the mean of -log(p) over the probabilities that right answers were given.

    Weights say how much each counts.

    Example:
        >>> round(log_loss([1.0, 0.5]), 3)
        0.347
    """
    weights = [1] * len(given) if weights is None else weights
    logs = [math.log(max(p, _MIN_PROBABILITY)) for p in given]
    return -sum(w * log for w, log in zip(weights, logs, strict=True)) / sum(weights)
