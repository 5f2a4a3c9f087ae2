"""Computes precision, recall and F1 from what is right, missed and wrong."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T", bound=Hashable)


def f1(right: float, missed: float, wrong: float) -> float:
    """Compute F1 from counts; 0 where nothing was found and nothing missed.

    Example:
        >>> f1(right=1, missed=1, wrong=1)
        0.5
    """
    total = 2 * right + missed + wrong
    return 2 * right / total if total else 0.0


def f1s(counts: Tensor) -> Tensor:
    """Compute F1, (...), from counts or means of right, missed and wrong, (..., 3).

    Example:
        >>> f1s(torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])).tolist()
        [0.5, 0.0]
    """
    right, missed, wrong = counts.unbind(-1)
    total = 2 * right + missed + wrong
    return torch.where(total > 0, 2 * right / total.clamp(min=1e-12), torch.zeros_like(total))


def precision_recall_f1(right: float, missed: float, wrong: float) -> dict[str, float]:
    """Compute precision, recall and F1 of counts; 0 where there is nothing to divide by.

    Example:
        >>> precision_recall_f1(right=1, missed=1, wrong=0)["precision"]
        1.0
        >>> precision_recall_f1(right=0.25, missed=0, wrong=0.25)["precision"]  # of weighted rows
        0.5
    """
    return {
        "precision": right / ((right + wrong) or 1),
        "recall": right / ((right + missed) or 1),
        "f1": f1(right, missed, wrong),
    }


def all_right(wrong: Tensor, weights: Sequence[float] | None = None) -> float:
    """Compute the share of rows with no wrong label: wrong ones of each row, (n, K), and weights.

    Example:
        >>> all_right(torch.tensor([[0, 0], [0, 1]])), all_right(torch.tensor([[0], [1]]), [3, 1])
        (0.5, 0.75)
    """
    right = wrong.eq(0).all(-1).double()
    if weights is None:
        return float(right.mean())
    return float(right @ torch.tensor(weights, dtype=torch.double)) / sum(weights)


@dataclass(frozen=True)
class Counts:
    """How many of the labels, or of the labelled spans, of some rows are right."""

    rows: Tensor
    """Right, missed and wrong ones of each row, times its weight: (n, 3), float64."""
    labels: dict[tuple[str, str], float]
    """How often a label is right, missed or wrong; an int where rows have no weights."""

    def totals(self) -> tuple[float, float, float]:
        """Sum the rows: right, missed, wrong."""
        right, missed, wrong = map(whole, self.rows.sum(0).tolist())
        return right, missed, wrong

    def of(self, label: str) -> tuple[float, float, float]:
        """Return what is right, missed and wrong of a label."""
        right, missed, wrong = (
            self.labels.get((label, kind), 0) for kind in ("right", "missed", "wrong")
        )
        return right, missed, wrong


def count_labels(
    wanted: Sequence[AbstractSet[T]],
    given: Sequence[AbstractSet[T]],
    label: Callable[[T], str] = str,
    weights: Sequence[float] | None = None,
) -> Counts:
    """Count what is in both sets of each row, and in one of them alone; each row by its weight.

    Example:
        >>> found = count_labels([{"a", "b"}, set()], [{"b", "c"}, set()])
        >>> found.totals(), found.of("b")
        ((1, 1, 1), (1, 0, 0))
    """
    rows, labels = [], dict[tuple[str, str], float]()
    weights = [1] * len(wanted) if weights is None else weights
    for own, answered, weight in zip(wanted, given, weights, strict=True):
        kinds: dict[str, AbstractSet[T]] = {
            "right": own & answered,
            "missed": own - answered,
            "wrong": answered - own,
        }
        rows.append([float(weight * len(items)) for items in kinds.values()])
        for key in [(label(item), kind) for kind, items in kinds.items() for item in items]:
            labels[key] = labels.get(key, 0) + weight
    return Counts(torch.tensor(rows, dtype=torch.double).view(-1, 3), labels)


def whole(number: float) -> float:
    """Return a count without a fraction as an int.

    Example:
        >>> whole(3.0), whole(0.5)
        (3, 0.5)
    """
    return int(number) if number == int(number) else number


def count_text(count: float) -> str:
    """Write a count; a sum of weights has a digit behind the point.

    Example:
        >>> count_text(1200), count_text(1200.25)
        ('1,200', '1,200.2')
    """
    return f"{count:,}" if isinstance(count, int) else f"{count:,.1f}"
