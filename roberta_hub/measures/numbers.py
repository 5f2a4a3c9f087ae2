"""Correlates numbers that were answered with those that were wanted.

The coefficients are scipy's. torchmetrics' Spearman correlation of a NaN is a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

from torch import Tensor


def pearson(
    a: Sequence[float], b: Sequence[float], weights: Sequence[float] | None = None
) -> float | None:
    """Compute Pearson's correlation; None where one of both is constant, empty or not finite.

    A pair with a weight of 2 counts as two pairs.

    Example:
        >>> pearson([1, 2, 3], [2, 4, 6]), pearson([1, 2], [3, 3]), pearson([1], [2])
        (1.0, None, None)
    """
    if not a or not all(map(math.isfinite, (*a, *b))) or min(a) == max(a) or min(b) == max(b):
        return None
    weights = [1] * len(a) if weights is None else weights
    one, other = (sum(map(mul, weights, values)) / sum(weights) for values in (a, b))
    far, off = [x - one for x in a], [y - other for y in b]
    squares = [sum(w * x**2 for w, x in zip(weights, d, strict=True)) for d in (far, off)]
    spread = math.sqrt(squares[0] * squares[1])
    if not spread:  # the squares are too small for a float
        return None
    found: float = sum(w * x * y for w, x, y in zip(weights, far, off, strict=True)) / spread
    return min(max(found, -1.0), 1.0)


def spearman(
    a: Sequence[float], b: Sequence[float], weights: Sequence[float] | None = None
) -> float | None:
    """Compute Spearman's correlation of ranks; None where `pearson` is.

    A pair with a weight of 2 counts as two pairs.

    Example:
        >>> spearman([1, 2, 3], [1, 10, 100])
        1.0
    """
    if not all(map(math.isfinite, (*a, *b))):
        return None
    weights = [1] * len(a) if weights is None else weights
    return pearson(_ranks(a, weights), _ranks(b, weights), weights)


def median(values: Sequence[float], weights: Sequence[float]) -> float:
    """Find the number with half of the weights on either side.

    Example:
        >>> median([3, 1, 2], [1, 1, 1]), median([1, 2], [1, 1]), median([1, 2], [1, 3])
        (2, 1.5, 2)
    """
    ordered, half = sorted(zip(values, weights, strict=True)), sum(weights) / 2
    before = 0.0
    for i, (value, weight) in enumerate(ordered):
        before += weight
        if before == half and i + 1 < len(ordered):
            return (value + ordered[i + 1][0]) / 2
        if before > half:
            return value
    return ordered[-1][0]


def _ranks(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Rank values from 1, each as often as its weight; equal ones share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, start, before = [0.0] * len(values), 0, 0.0
    for end in range(1, len(order) + 1):
        if end == len(order) or values[order[end]] != values[order[start]]:
            after = before + sum(weights[i] for i in order[start:end])
            for i in order[start:end]:
                ranks[i] = (before + 1 + after) / 2
            start, before = end, after
    return ranks


def correlations(found: Tensor, wanted: Tensor) -> dict[str, float]:
    """Compute both correlations of two vectors (n,); NaN where there is none.

    Example:
        >>> correlations(torch.tensor([1.0, 2.0]), torch.tensor([5.0, 5.0]))
        {'spearman': nan, 'pearson': nan}
    """
    a, b = found.tolist(), wanted.tolist()
    both = {"spearman": spearman(a, b), "pearson": pearson(a, b)}
    return {name: math.nan if value is None else value for name, value in both.items()}
