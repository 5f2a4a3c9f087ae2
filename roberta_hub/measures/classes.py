"""Measures classes that were answered beside those that were wanted.

The numbers are scikit-learn's, also where a table has one row, one class or constant answers.
torchmetrics is not used: its Matthews correlation of a constant answer is not 0, and it refuses a
single label.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from roberta_hub.measures.counts import f1

NO_ANSWER = -1
"""What `likeliest` gives for a row with NaN, which no right class equals."""
REFUSED = -2
"""A refusal where no row is out of scope: a miss, and no class of its own."""


def likeliest(logits: Tensor) -> Tensor:
    """Return the class of the largest logit, `NO_ANSWER` where one is NaN: (n, K) to (n,).

    Example:
        >>> likeliest(torch.tensor([[0.0, 1.0], [0.0, math.nan]])).tolist()
        [1, -1]
    """
    return logits.argmax(-1).masked_fill(logits.isnan().any(-1), NO_ANSWER)


def over_half(logits: Tensor) -> Tensor:
    """Return 1 where a sigmoid is 0.5 or more, else 0; `NO_ANSWER` for NaN. Shape stays.

    Example:
        >>> over_half(torch.tensor([[-1.0, 0.0, math.nan]])).tolist()
        [[0, 1, -1]]
    """
    return logits.ge(0).long().masked_fill(logits.isnan(), NO_ANSWER)


def accuracy(answered: Tensor, wanted: Tensor, weights: Tensor | None = None) -> float:
    """Compute the share of equal numbers of two tensors of one shape; NaN of empty ones.

    Weights, of the same shape, say how much each counts; here and in the other measures.

    Example:
        >>> accuracy(torch.tensor([1, 0, 1, 1]), torch.tensor([1, 0, 0, 1]))
        0.75
    """
    right = answered.eq(wanted).double()
    return float(right.mean() if weights is None else (weights * right).sum() / weights.sum())


def f1_of(answered: Tensor, wanted: Tensor, label: int = 1, weights: Tensor | None = None) -> float:
    """Compute F1 of one class over all entries of two tensors of one shape.

    Example:
        >>> f1_of(torch.tensor([1, 1, 0]), torch.tensor([1, 0, 0]))
        0.6666666666666666
    """
    found, there = answered.eq(label), wanted.eq(label)
    counted = torch.ones_like(found, dtype=torch.double) if weights is None else weights
    both, missed, wrong = found & there, there & ~found, found & ~there
    return f1(*(float((counted * own).sum()) for own in (both, missed, wrong)))


def macro_f1(answered: Tensor, wanted: Tensor, weights: Tensor | None = None) -> float:
    """Average F1 over the classes that are wanted or answered, without `REFUSED`; NaN of none.

    Example:
        >>> macro_f1(torch.tensor([0, 2]), torch.tensor([0, 0]))
        0.3333333333333333
        >>> macro_f1(torch.tensor([0, 1, REFUSED]), torch.tensor([0, 1, 1]))
        0.8333333333333333
    """
    classes = sorted({*answered.tolist(), *wanted.tolist()} - {REFUSED})
    each = [f1_of(answered, wanted, label, weights) for label in classes]
    return sum(each) / len(each) if each else math.nan


def matthews(answered: Tensor, wanted: Tensor, weights: Tensor | None = None) -> float:
    """Compute Matthews' correlation of two classifications (Gorodkin 2004); 0 if one is constant.

    Example:
        >>> matthews(torch.zeros(11), torch.tensor([0] * 10 + [1]))
        0.0
        >>> matthews(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 1]))
        1.0
    """
    classes, numbers = torch.unique(torch.cat([answered, wanted]), return_inverse=True)
    ours, theirs = numbers.view(2, -1)
    size = len(classes)
    counts = torch.bincount(ours * size + theirs, weights, minlength=size * size)
    table = counts.view(size, size).double()
    a, b, total = table.sum(1), table.sum(0), table.sum()
    both = float(total * table.trace() - a @ b)
    spreads = [float(total**2 - own @ own) for own in (a, b)]
    rounding = 1e-14 * float(total**2)  # which is all that a constant answer of weighted rows has
    return both / math.sqrt(spreads[0] * spreads[1]) if min(spreads) > rounding else 0.0


@dataclass(frozen=True)
class ClassMeasure:
    """A number that says how good answers are where each text has one class."""

    title: str
    """What a report calls it."""
    meaning: str
    """A sentence for readers of a model card."""
    compute: Callable[..., float]
    """From the answered and the wanted classes, each (n,), and the rows' weights if they differ."""


CLASS_MEASURES = {
    "accuracy": ClassMeasure("accuracy", "Accuracy is the share of right answers.", accuracy),
    "f1_macro": ClassMeasure("macro-F1", "Macro-F1 is the mean of the classes' F1.", macro_f1),
    "mcc": ClassMeasure(
        "MCC",
        "MCC (Matthews' correlation) is 1 if all answers are right, and 0 if one is always given.",
        matthews,
    ),
}
"""What `fit`, `train`, `evaluate` and `compare` all tell of classes, by its key in JSON."""


def class_measures(
    answered: Tensor, wanted: Tensor, weights: Tensor | None = None
) -> dict[str, float]:
    """Compute all of `CLASS_MEASURES` for two tensors of classes, each (n,), as are weights.

    Example:
        >>> class_measures(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 1]))
        {'accuracy': 1.0, 'f1_macro': 1.0, 'mcc': 1.0}
    """
    weighted = () if weights is None else (weights,)
    return {k: each.compute(answered, wanted, *weighted) for k, each in CLASS_MEASURES.items()}
