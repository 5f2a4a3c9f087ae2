"""Computes precision, recall and F1 from what is right, missed and wrong."""

from __future__ import annotations

from collections import Counter
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
    return 2 * right / max(2 * right + missed + wrong, 1)


def f1s(counts: Tensor) -> Tensor:
    """Compute F1, (...), from counts or means of right, missed and wrong, (..., 3).

    Example:
        >>> f1s(torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])).tolist()
        [0.5, 0.0]
    """
    right, missed, wrong = counts.unbind(-1)
    total = 2 * right + missed + wrong
    return torch.where(total > 0, 2 * right / total.clamp(min=1e-12), torch.zeros_like(total))


def precision_recall_f1(right: int, missed: int, wrong: int) -> dict[str, float]:
    """Compute precision, recall and F1 of counts; 0 where there is nothing to divide by.

    Example:
        >>> precision_recall_f1(right=1, missed=1, wrong=0)["precision"]
        1.0
    """
    return {
        "precision": right / max(right + wrong, 1),
        "recall": right / max(right + missed, 1),
        "f1": f1(right, missed, wrong),
    }


@dataclass(frozen=True)
class Counts:
    """How many of the labels, or of the labelled spans, of some rows are right."""

    rows: Tensor
    """Right, missed and wrong ones of each row: (n, 3), float64."""
    labels: dict[tuple[str, str], int]
    """How often a label is right, missed or wrong."""

    def totals(self) -> tuple[int, int, int]:
        """Sum the rows: right, missed, wrong."""
        right, missed, wrong = self.rows.sum(0).tolist()
        return int(right), int(missed), int(wrong)

    def of(self, label: str) -> tuple[int, int, int]:
        """Return what is right, missed and wrong of a label."""
        right, missed, wrong = (
            self.labels.get((label, kind), 0) for kind in ("right", "missed", "wrong")
        )
        return right, missed, wrong


def count_labels(
    wanted: Sequence[AbstractSet[T]],
    given: Sequence[AbstractSet[T]],
    label: Callable[[T], str] = str,
) -> Counts:
    """Count what is in both sets of each row, and in one of them alone.

    Example:
        >>> found = count_labels([{"a", "b"}, set()], [{"b", "c"}, set()])
        >>> found.totals(), found.of("b")
        ((1, 1, 1), (1, 0, 0))
    """
    rows, labels = [], Counter[tuple[str, str]]()
    for own, answered in zip(wanted, given, strict=True):
        kinds: dict[str, AbstractSet[T]] = {
            "right": own & answered,
            "missed": own - answered,
            "wrong": answered - own,
        }
        rows.append([float(len(items)) for items in kinds.values()])
        labels.update((label(item), kind) for kind, items in kinds.items() for item in items)
    return Counts(torch.tensor(rows, dtype=torch.double).view(-1, 3), dict(labels))
