"""Measures answers that may be refused: coverage beside accuracy, known texts beside others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
    certainties: Sequence[float], right: Sequence[bool], scores: Sequence[float]
) -> tuple[CoveragePoint, ...]:
    """Compute how accurate the most certain answers are, for several shares of the rows.

    Example:
        >>> found = coverage_curve([0.9, 0.2], [True, False], [0.9, 0.4])
        >>> [(point.coverage, point.accuracy) for point in found if point.coverage in (0.5, 1.0)]
        [(1.0, 0.5), (0.5, 1.0)]
    """
    order = sorted(range(len(certainties)), key=lambda i: -certainties[i])
    found = []
    for coverage in COVERAGES:
        own = order[: math.ceil(round(coverage * len(order), 9))]
        accuracy = sum(right[i] for i in own) / len(own)
        score = sum(scores[i] for i in own) / len(own)
        found.append(CoveragePoint(coverage, certainties[own[-1]], accuracy, score))
    return tuple(found)


def auroc(inside: Sequence[float], outside: Sequence[float]) -> float:
    """Compute how often a number of the first kind is above one of the second.

    Equal ones count half. This is the area under the receiver operating characteristic (Mann and
    Whitney 1947).

    Example:
        >>> auroc([0.9, 0.5], [0.5, 0.1])
        0.875
    """
    low, first = (
        torch.tensor(sorted(outside), dtype=torch.float64),
        torch.tensor(inside, dtype=torch.float64),
    )
    less = torch.searchsorted(low, first).double() + torch.searchsorted(low, first, right=True)
    return float(less.mean() / (2 * len(outside)))
