"""Computes accuracy, F1, Matthews' and the other correlations, and SQuAD's scores.

They are those of scikit-learn, scipy and SQuAD's own scripts, also where a table has one row, one
class or constant answers. torchmetrics is not used: its Matthews correlation of a constant answer
is not 0, its Spearman correlation of a NaN is a number, and it refuses a single label.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

NO_ANSWER = -1
"""What `likeliest` gives for a row with NaN, which no right class equals."""
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


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


def accuracy(answered: Tensor, wanted: Tensor) -> float:
    """Compute the share of equal numbers of two tensors of one shape; NaN of empty ones.

    Example:
        >>> accuracy(torch.tensor([1, 0, 1, 1]), torch.tensor([1, 0, 0, 1]))
        0.75
    """
    return float(answered.eq(wanted).double().mean())


def f1(right: float, missed: float, wrong: float) -> float:
    """Compute F1 from counts; 0 where nothing was found and nothing missed.

    Example:
        >>> f1(right=1, missed=1, wrong=1)
        0.5
    """
    return 2 * right / max(2 * right + missed + wrong, 1)


def f1_of(answered: Tensor, wanted: Tensor, label: int = 1) -> float:
    """Compute F1 of one class over all entries of two tensors of one shape.

    Example:
        >>> f1_of(torch.tensor([1, 1, 0]), torch.tensor([1, 0, 0]))
        0.6666666666666666
    """
    found, there = answered.eq(label), wanted.eq(label)
    right = int((found & there).sum())
    return f1(right, int(there.sum()) - right, int(found.sum()) - right)


def macro_f1(answered: Tensor, wanted: Tensor) -> float:
    """Average F1 over the classes that are wanted or answered; NaN of empty tensors.

    Example:
        >>> macro_f1(torch.tensor([0, 2]), torch.tensor([0, 0]))
        0.3333333333333333
    """
    classes = sorted({*answered.tolist(), *wanted.tolist()})
    each = [f1_of(answered, wanted, label) for label in classes]
    return sum(each) / len(each) if each else math.nan


def matthews(answered: Tensor, wanted: Tensor) -> float:
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
    table = torch.bincount(ours * size + theirs, minlength=size * size).view(size, size).double()
    a, b, total = table.sum(1), table.sum(0), table.sum()
    both = float(total * table.trace() - a @ b)
    spread = float(total**2 - a @ a) * float(total**2 - b @ b)
    return both / math.sqrt(spread) if spread > 0 else 0.0


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


# ---- SQuAD ----


def squad_words(text: str) -> list[str]:
    """Cut an answer into words as SQuAD's scripts do: no case, punctuation or articles.

    Example:
        >>> squad_words("The U.S. of A."), squad_words("the")
        (['us', 'of'], [])
    """
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def squad_score(
    answered: str, answers: Sequence[str], *, unanswerable: bool
) -> tuple[float, float]:
    """Compute (exact match, F1) of an answer, each with the right answer that gives most.

    Args:
        answered: what the model says; "" is no answer.
        answers: the right ones; of a question without one, none.
        unanswerable: True: as SQuAD 2.0's script, which leaves out right answers that have no word,
            and takes a question that has no other for one without an answer. False: as SQuAD 1.1's,
            to which F1 of an answer that has no word is 0.

    Example:
        >>> squad_score("the cat", ["cat", "a dog"], unanswerable=False)
        (1.0, 1.0)
        >>> squad_score("the", ["a"], unanswerable=True)
        (1.0, 1.0)
        >>> squad_score("the", ["a"], unanswerable=False)
        (1.0, 0.0)
    """
    found, right = squad_words(answered), [squad_words(text) for text in answers]
    if unanswerable:
        right = [words for words in right if words] or [[]]
    exact = max((float(found == words) for words in right), default=0.0)
    return exact, max((_overlap(found, words, unanswerable) for words in right), default=0.0)


def _overlap(found: list[str], right: list[str], unanswerable: bool) -> float:
    if unanswerable and not (found and right):
        return float(found == right)
    same = (Counter(found) & Counter(right)).total()
    return 2 * same / (len(found) + len(right)) if same else 0.0
