"""Finds the certainty below which a head refuses to answer, by conformal prediction.

Legend: n rows that are answered by weights that have not learnt them, K classes.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from roberta_hub.errors import InputError, Remedy
from roberta_hub.inference.certainty import certainties, pack_pieces
from roberta_hub.inference.classify import Prediction
from roberta_hub.rows.formats import row_count
from roberta_hub.settings import REJECTED
from roberta_hub.train.data.sentences import LabelledText
from roberta_hub.train.fitting.scores import Scores


@dataclass(frozen=True)
class Rejection:
    """When a head refuses to answer."""

    below: float
    """The certainty below which it does."""
    pieces: str
    """The pieces that the head has learnt, packed."""

    def marks(self, answers: Sequence[Prediction], ids: Sequence[Tensor]) -> list[Prediction]:
        """Refuse the answers that are not certain enough, by pieces that are known now."""
        sure = _certainties(answers, ids, self.pieces)
        return _marked(answers, sure, [self.below] * len(sure))

    def having_learnt(self, texts: Iterable[Tensor]) -> Rejection:
        """Return it for a head that has learnt these texts."""
        return dataclasses.replace(self, pieces=pack_pieces(texts))


def rows_needed(share: float) -> int:
    """Tell how many rows choose a threshold that refuses at most this share.

    Example:
        >>> rows_needed(0.05), rows_needed(0.01)
        (19, 99)
    """
    return next(n for n in range(max(math.floor(1 / share) - 2, 1), 10**12) if _rank(n, share))


def _rank(count: float, share: float) -> int:
    """Return how many of `count` + 1 rows may be refused; 0: too few rows to refuse one."""
    return math.floor(round((count + 1) * share, 9))


def conformal_threshold(
    sure: Sequence[float], share: float, weights: Sequence[float] | None = None
) -> float:
    """Find the certainty below which at most a share of new rows are (Papadopoulos et al. 2002).

    Among n + 1 rows in any order each is equally likely to be the new one. So it is below the k-th
    smallest of the others in at most k of n + 1 cases. A row with a weight of 2 is two rows.

    Example:
        >>> conformal_threshold([i / 100 for i in range(39)], 0.05)
        0.01
        >>> conformal_threshold([0.1, 0.2, 0.3], 0.5, weights=[3, 1, 1])
        0.1
    """
    weights = [1] * len(sure) if weights is None else weights
    order = sorted(range(len(sure)), key=lambda i: sure[i])
    rank, counted = _rank(math.fsum(weights), share), accumulate(weights[i] for i in order)
    enough = (sure[i] for i, n in zip(order, counted, strict=True) if round(n, 9) >= rank)
    return next(enough, sure[order[-1]])


def _rows_known(weights: Sequence[float]) -> float:
    """Count rows by their weights; heavy ones are no more rows, as all may be unusual."""
    return min(len(weights), math.fsum(weights))


def check_rows(
    count: int, share: float, minutes: bool = False, weights: Sequence[float] | None = None
) -> None:
    """Refuse a share for which there are too few rows, or too light ones."""
    known = _rows_known([1] * count if weights is None else weights)
    if _rank(known, share):
        return
    larger = math.ceil(1000 / (known + 1)) / 1000
    light = f" with a weight of {known:.3g} in all" if round(known, 6) < count else ""
    raise InputError(
        f"reject={share:g} needs {row_count(rows_needed(share))} outside the training to find its "
        f"threshold, and there are {count:,}{light}",
        remedy=Remedy(
            "minutes=... allows more, or reject is larger"
            if minutes
            else f"add rows, or pass reject={larger:g}",
            "--minutes allows more, or --reject is larger"
            if minutes
            else f"add rows, or say --reject {larger:g}",
        ),
    )


def fit_rejection(
    answers: Sequence[Prediction],
    ids: Sequence[Tensor],
    folds: Sequence[Sequence[int]],
    rows: Sequence[int],
    share: float,
    weights: Sequence[float],
) -> tuple[Rejection, list[Prediction]]:
    """Find when to refuse; return the answers too, each refused by what the other folds say.

    The answers are those to the rows of the folds, in their order; `rows` were learnt in turns. The
    weights are of all rows of the table.
    """
    sure: list[float] = []
    for fold, own in zip(folds, _parts(answers, folds), strict=True):
        out = set(fold)
        pieces = pack_pieces(ids[i] for i in rows if i not in out)
        sure += _certainties(own, [ids[i] for i in fold], pieces)
    every = pack_pieces(ids[i] for i in rows)
    counted_as = [weights[i] for fold in folds for i in fold]
    check_rows(len(sure), share, minutes=True, weights=counted_as)
    found = Rejection(conformal_threshold(sure, share, counted_as), every)
    below = _crossed(sure, [*map(len, folds)], share, found.below, counted_as)
    return found, _marked(answers, sure, below)


def held_out_rejection(
    answers: Sequence[Prediction],
    ids: Sequence[Tensor],
    learnt: Sequence[Tensor],
    share: float,
    weights: Sequence[float],
) -> tuple[Rejection, list[Prediction]]:
    """Find when to refuse by rows that are never learnt; see `fit_rejection`."""
    pieces = pack_pieces(learnt)
    sure = _certainties(answers, ids, pieces)
    check_rows(len(sure), share, weights=weights)
    found = Rejection(conformal_threshold(sure, share, weights), pieces)
    halves = [len(sure) // 2, len(sure) - len(sure) // 2]
    return found, _marked(answers, sure, _crossed(sure, halves, share, found.below, weights))


def _parts(
    answers: Sequence[Prediction], folds: Sequence[Sequence[int]]
) -> list[Sequence[Prediction]]:
    found, start = [], 0
    for fold in folds:
        found.append(answers[start : start + len(fold)])
        start += len(fold)
    return found


def _crossed(
    sure: Sequence[float],
    sizes: Sequence[int],
    share: float,
    below: float,
    weights: Sequence[float],
) -> list[float]:
    """Find each row's threshold: that of the other parts, or the common one if they are few."""
    found: list[float] = []
    for size in sizes:
        start, end = len(found), len(found) + size
        others, counted_as = ([*own[:start], *own[end:]] for own in (sure, weights))
        enough = _rank(_rows_known(counted_as), share)
        found += [conformal_threshold(others, share, counted_as) if enough else below] * size
    return found


def _certainties(answers: Sequence[Prediction], ids: Sequence[Tensor], pieces: str) -> list[float]:
    if not answers:
        return []
    shares = torch.tensor([[*answer.scores.values()] for answer in answers], dtype=torch.float64)
    found: list[float] = certainties(shares, ids, pieces).tolist()
    return found


def _marked(
    answers: Sequence[Prediction], sure: Sequence[float], below: Sequence[float]
) -> list[Prediction]:
    rows = zip(answers, sure, below, strict=True)
    return [answer.refuse(certainty, least) for answer, certainty, least in rows]


# ---- what is told ----


def scores_of_answered(
    rows: Sequence[LabelledText],
    answers: Sequence[Prediction],
    measure: Callable[[Sequence[LabelledText], Sequence[Prediction]], Scores],
) -> Scores:
    """Measure the answers that are not refused, and say how many are."""
    kept = [i for i, answer in enumerate(answers) if not answer.rejected]
    if not kept:
        return _told(_without_answers(measure(rows, answers)), rows, answers)
    scores = measure([rows[i] for i in kept], [answers[i] for i in kept])
    refuses = any(answer.rejected is not None for answer in answers)
    return _told(scores, rows, answers) if refuses else scores


def _without_answers(scores: Scores) -> Scores:
    """Take out what answers reached, as all are refused; the baseline's number stays."""
    return dataclasses.replace(
        scores,
        count=0,
        numbers=dict.fromkeys(scores.numbers),
        interval=(0.0, 1.0),
        conclusions=(),
        recalls={},
        remedy=None,
        confusion={},
        bins=(),
        mistakes=[],
        optimism=0.0,
    )


def _told(scores: Scores, rows: Sequence[LabelledText], answers: Sequence[Prediction]) -> Scores:
    """Say how many rows are refused, and what all answers reach; count them as confusions."""
    refused = [row for row, answer in zip(rows, answers, strict=True) if answer.rejected]
    weight = sum(row.weight for row in rows)
    share = 100 * sum(row.weight for row in refused) / weight
    by_weight = " by weight" if any(row.weight != 1 for row in rows) else ""
    right = sum(row.amounts.get(a.best, 0) for row, a in zip(rows, answers, strict=True))
    of_others = "the numbers are those of the others, and " if scores.count else ""
    said = (
        f"refused are {len(refused):,} of {row_count(len(rows))} ({share:.1f} %{by_weight}); "
        f"{of_others}without refusing {100 * right / weight:.1f} % of all rows are right"
    )
    confusion = Counter(scores.confusion)
    for row in refused:
        confusion.update({(label, REJECTED): n for label, n in row.amounts.items()})
    conclusions = (*scores.conclusions[:1], said, *scores.conclusions[1:])
    return dataclasses.replace(scores, confusion=dict(confusion), conclusions=conclusions)
