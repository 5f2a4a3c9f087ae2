"""Correlates numbers that were answered with those that were wanted.

The coefficients are scipy's. torchmetrics' Spearman correlation of a NaN is a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor


def pearson(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Compute Pearson's correlation; None where one of both is constant, empty or not finite.

    Example:
        >>> pearson([1, 2, 3], [2, 4, 6]), pearson([1, 2], [3, 3]), pearson([1], [2])
        (1.0, None, None)
    """
    if not a or not all(map(math.isfinite, (*a, *b))) or min(a) == max(a) or min(b) == max(b):
        return None
    one, other = (sum(values) / len(values) for values in (a, b))
    spread = math.sqrt(sum((x - one) ** 2 for x in a) * sum((y - other) ** 2 for y in b))
    if not spread:  # the squares are too small for a float
        return None
    found = sum((x - one) * (y - other) for x, y in zip(a, b, strict=True)) / spread
    return min(max(found, -1.0), 1.0)


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Compute Spearman's correlation of ranks; None where `pearson` is.

    Example:
        >>> spearman([1, 2, 3], [1, 10, 100])
        1.0
    """
    if not all(map(math.isfinite, (*a, *b))):
        return None
    return pearson(_ranks(a), _ranks(b))


def _ranks(values: Sequence[float]) -> list[float]:
    """Rank values from 1; equal ones share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, start = [0.0] * len(values), 0
    for end in range(1, len(order) + 1):
        if end == len(order) or values[order[end]] != values[order[start]]:
            for i in order[start:end]:
                ranks[i] = (start + 1 + end) / 2
            start = end
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
