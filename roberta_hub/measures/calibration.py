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
    count: int
    score: float
    """Mean of their probabilities."""
    right: float
    """The share of them that is right."""


def reliability_bins(scores: Sequence[float], right: Sequence[bool]) -> tuple[Bin, ...]:
    """Sort answers into ten bins by their probability; bins without an answer are left out.

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
