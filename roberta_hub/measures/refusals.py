"""Measures answers that may be refused: coverage beside accuracy, known texts beside others."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch

COVERAGES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)
"""Shares of the rows that are answered, in a curve."""


@dataclass(frozen=True)
class CoveragePoint:
    """What the most certain answers are worth."""

    coverage: float
    """Share of the rows that are answered."""
    certainty: float
    """The least certainty among them."""
    accuracy: float
    """Share of them that is right."""
    score: float
    """Mean of their probabilities."""


def coverage_curve(
    certainties: Sequence[float],
    right: Sequence[float],
    scores: Sequence[float],
    weights: Sequence[float] | None = None,
) -> tuple[CoveragePoint, ...]:
    """Compute how accurate the most certain answers are, for several shares of the rows.

    Answers are right or wrong, or right in part: from 0 to 1. Weights say how much each row counts.

    Example:
        >>> found = coverage_curve([0.9, 0.2], [True, False], [0.9, 0.4])
        >>> [(point.coverage, point.accuracy) for point in found if point.coverage in (0.5, 1.0)]
        [(1.0, 0.5), (0.5, 1.0)]
    """
    weights = [1] * len(certainties) if weights is None else weights
    order = sorted(range(len(certainties)), key=lambda i: -certainties[i])
    counted = [*accumulate(weights[i] for i in order)]
    found = []
    for coverage in COVERAGES:
        least = coverage * counted[-1] * (1 - 1e-9)
        own = order[: bisect_left(counted, least) + 1]
        total = sum(weights[i] for i in own)
        accuracy = sum(weights[i] * right[i] for i in own) / total
        score = sum(weights[i] * scores[i] for i in own) / total
        found.append(CoveragePoint(coverage, certainties[own[-1]], accuracy, score))
    return tuple(found)


def auroc(
    inside: Sequence[float],
    outside: Sequence[float],
    weights: tuple[Sequence[float], Sequence[float]] | None = None,
) -> float:
    """Compute how often a number of the first kind is above one of the second.

    Equal ones count half. This is the area under the receiver operating characteristic (Mann and
    Whitney 1947). Weights, of both kinds, say how much each number counts.

    Example:
        >>> auroc([0.9, 0.5], [0.5, 0.1])
        0.875
        >>> auroc([0.9, 0.5], [0.5, 0.1], ([1, 1], [2, 1]))
        0.8333333333333334
    """
    own, others = ([1] * len(inside), [1] * len(outside)) if weights is None else weights
    pairs = torch.tensor(sorted(zip(outside, others, strict=True)), dtype=torch.float64)
    low, sums = pairs[:, 0].contiguous(), torch.cat([pairs.new_zeros(1), pairs[:, 1].cumsum(0)])
    first, heavy = (torch.tensor(values, dtype=torch.float64) for values in (inside, own))
    less = sum(sums[torch.searchsorted(low, first, right=right)] for right in (False, True))
    return float((heavy * less).sum() / heavy.sum() / (2 * sums[-1]))
