"""Chooses how a model learns a small table: by cross-validation, within a counted amount of work.

Legend: n rows to learn from, K outputs of the head.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from roberta_hub.measures.numbers import spearman
from roberta_hub.train.fitting.calibration import (
    choose_thresholds,
    cross_calibrated,
    fit_temperature,
)
from roberta_hub.train.fitting.learner import Learner
from roberta_hub.train.fitting.regression import regression, solve
from roberta_hub.train.reports import fitting
from roberta_hub.train.settings import Config

METHOD_AS_IS = "the model as it is"
METHOD_HEAD = "a regression on the model's vectors"
METHOD_WHOLE = "training the whole model from a regression"
METHOD_OWN = "training the whole model from its own head"
METHOD_COSINE = "the cosine of the model's vectors, nothing learnt"
METHOD_ZERO_SHOT = "zero_shot by the labels' names, nothing learnt"
NUM_FOLDS = 5
"""Parts of a very small table, each answered by what the others taught."""
NUM_FOLDS_LARGER_TABLE = 3
"""Parts of a table that has enough rows for each of them to say something."""
LARGER_TABLE_ROWS = 64
"""Rows from which on they are fewer: the choice then takes two fifths less work."""
OPTIMISM_DRAWS = 500
"""Tables that are drawn to see how lucky the best way was."""
SEEN_LUCK = math.sqrt(1 - math.exp(-1))
"""Part of the luck that a draw shows: it holds 63 % of the rows, which choose by so much less."""
WARM_ROWS = 28
"""Rows at which a model that is trained as a whole mostly needs a temperature of 2; with more rows
it comes near 1. By the tables for tuning: 1.3 to 6 at 16 rows, 1.6 to 2 at 40, 1.6 at 80."""
DOUBT_STANDARD_ERRORS = 2.0
"""Standard errors by which the regression must be better than the whole model to be taken."""
DEFAULT_MINUTES = 2.0
"""Minutes of two cores that selection and training take by default."""
METHOD_MEASURES = {
    "classification": "accuracy",
    "multi_label": "micro-F1",
    "regression": "Spearman",
}
"""What ways are compared by, for each task."""


@dataclass(frozen=True)
class Method:
    """A way of learning, with its cross-validation."""

    name: str
    learn: Callable[[Sequence[int]], None]
    """Learns some rows, from the start."""
    work: Callable[[Sequence[int]], float]
    """Counts the seconds of two cores that this takes."""
    usual: float = 1.0
    """The temperature that it mostly needs."""


@dataclass(frozen=True)
class MethodAnswers:
    """Answers of a method to rows that it had not learnt."""

    way: Method
    folds: list[list[int]]
    """The rows that were answered, each fold by what the others taught."""
    logits: Tensor
    """Logits of the rows of the folds, in their order, calibrated by other folds. (m, K)"""
    temperature: float
    """Temperature of all of them."""

    @property
    def rows(self) -> list[int]:
        """The rows that were answered."""
        return [i for fold in self.folds for i in fold]


def untrained_answers(name: str, rows: Sequence[int], logits: Tensor) -> MethodAnswers:
    """Hold what a model answers to some rows without learning: (len(rows), K)."""
    return MethodAnswers(Method(name, lambda rows: None, lambda rows: 0.0), [[*rows]], logits, 1.0)


class MethodSelector:
    """Tries ways of learning on some rows of a learner."""

    def __init__(self, learner: Learner, folds: list[list[int]]) -> None:
        """Say which rows choose."""
        self.learner, self.folds = learner, folds
        self.rows = sorted(i for fold in folds for i in fold)

    # ---- ways ----

    def by_regression(self, words: Tensor | None) -> MethodAnswers:
        """Choose the settings of a regression, and answer every row."""
        learner = self.learner
        fitting.info("%s: reads %s rows", METHOD_HEAD, f"{len(learner.encoded.ids):,}")
        features = learner.features(learner.all())
        targets, weights = learner.encoded.targets, learner.encoded.weights
        relative = learner.encoded.relative_weights(self.rows)
        scale = float((relative * features[self.rows].norm(dim=1)).mean().clamp(min=1e-9))
        features = features / scale
        place = {row: i for i, row in enumerate(self.rows)}
        parts = [[place[row] for row in fold] for fold in self.folds]
        own = features[self.rows], targets[self.rows], learner.kind, parts, words
        found = regression(*own, weights[self.rows])
        prior = None if words is None else found.settings.trust * words

        def learn(rows: Sequence[int]) -> None:
            learner.restore()
            own = list(rows)
            strength = found.settings.strength
            known = features[own], targets[own], learner.kind, strength, prior
            layer = solve(*known, weights=weights[own])
            learner.set_head(layer, scale)

        way = Method(METHOD_HEAD, learn, lambda rows: learner.work_of(rows) / 3)
        return self._answered(way, self.folds, found.unseen[[i for p in parts for i in p]])

    def by_training(
        self, name: str, begin: Callable[[Sequence[int]], None], config: Config | None = None
    ) -> Method:
        """Make a way that trains the whole model."""

        def learn(rows: Sequence[int]) -> None:
            self.learner.config = config or self.learner.config
            begin(rows)
            self.learner.train(rows)

        def work(rows: Sequence[int]) -> float:
            self.learner.config = config or self.learner.config
            return self.learner.work_of_training(rows)

        usual = 1 + WARM_ROWS / len(self.rows)
        return Method(name, learn, work, usual)

    def answers(self, way: Method, folds: Sequence[list[int]]) -> MethodAnswers:
        """Learn all but one fold and answer that, for each of some folds."""
        found = []
        for number, fold in enumerate(folds, 1):
            fitting.info("%s: fold %d of %d", way.name, number, len(folds))
            out = set(fold)
            way.learn([i for i in self.rows if i not in out])
            found.append(self.learner.logits(self.learner.encoded, fold))
        return self._answered(way, [list(fold) for fold in folds], torch.cat(found))

    def as_it_is(self) -> MethodAnswers:
        """Answer every row by the head that the model has."""
        learner = self.learner
        way = Method(METHOD_AS_IS, lambda rows: learner.restore(), lambda rows: 0.0)
        logits = learner.logits(learner.encoded, [i for fold in self.folds for i in fold])
        return MethodAnswers(way, self.folds, logits, 1.0)

    def _answered(self, way: Method, folds: list[list[int]], logits: Tensor) -> MethodAnswers:
        rows = [i for fold in folds for i in fold]
        targets, weights = self.learner.encoded.targets[rows], self.learner.encoded.weights[rows]
        kind = self.learner.kind
        even = cross_calibrated(logits, targets, kind, rows_of_folds(folds), way.usual, weights)
        temperature = fit_temperature(logits, targets, kind, way.usual, weights)
        answers = MethodAnswers(way, folds, even, temperature)
        score = measure_of(answers, answers.rows, self.learner)
        fitting.info("%s: %s %.3f", way.name, METHOD_MEASURES[self.learner.task], score)
        return answers


def rows_of_folds(folds: Sequence[Sequence[int]]) -> list[list[int]]:
    """Positions of each fold's rows when the folds are concatenated.

    A fold that is alone has two halves, so that each can be judged by what the other says.

    Example:
        >>> rows_of_folds([[7, 3], [5]]), rows_of_folds([[4, 5, 6]])
        ([[0, 1], [2]], [[0, 2], [1]])
    """
    if len(folds) == 1:
        count = len(folds[0])
        return [list(range(0, count, 2)), list(range(1, count, 2))]
    ends = list(itertools.accumulate(map(len, folds)))
    return [list(range(end - len(fold), end)) for fold, end in zip(folds, ends, strict=True)]


def folds_for(rows: int) -> int:
    """Choose into how many parts a table is cut.

    Example:
        >>> folds_for(16), folds_for(640)
        (5, 3)
    """
    return NUM_FOLDS if rows < LARGER_TABLE_ROWS else NUM_FOLDS_LARGER_TABLE


# ---- which way is best ----


def best_method(found: Sequence[MethodAnswers], learner: Learner) -> MethodAnswers:
    """Take the way that answers best.

    The model as it is stays, unless another way answers better. Training the whole model is taken
    unless the regression answers better by more than luck: on most tables it is better, and few
    rows cannot tell.
    """
    best = found[0]
    for other in found[1:]:
        rows = common_rows([best, other])
        gain = measure_of(other, rows, learner) - measure_of(best, rows, learner)
        if learner.kind == "regression":
            error = 1 / math.sqrt(max(len(rows), 1))
        else:
            error = _difference_error(*(_sums(answers, rows, learner) for answers in (best, other)))
        if _is_taken(gain, error, best.way):
            best = other
    return best


def _is_taken(gain: float, error: float, first: Method) -> bool:
    """Whether another way is taken in the place of the first, by its gain and its error."""
    if first.name == METHOD_AS_IS:
        return gain > 0
    return gain >= -DOUBT_STANDARD_ERRORS * error


def _difference_error(first: Tensor, second: Tensor) -> float:
    """Compute the standard error of the difference of two ways' measures on the same rows.

    Both are sums of `_sums`: (m, 2).
    """
    each = second[:, 0] / second[:, 1].mean().clamp(min=1e-9)
    each = each - first[:, 0] / first[:, 1].mean().clamp(min=1e-9)
    return float(each.std(correction=0)) / math.sqrt(max(len(each), 1))


def common_rows(found: Sequence[MethodAnswers]) -> list[int]:
    """Return the rows that all ways answered, in order."""
    return sorted(set.intersection(*(set(answers.rows) for answers in found)))


def measure_of(
    answers: MethodAnswers, rows: Sequence[int], learner: Learner, *, weighted: bool = True
) -> float:
    """Compute the measure of `METHOD_MEASURES` on some of the answered rows.

    Where each class is to count as much as the others, it does so unless `weighted` is False.
    """
    if learner.kind == "regression":
        place = {row: i for i, row in enumerate(answers.rows)}
        numbers = answers.logits[[place[row] for row in rows], 0].tolist()
        wanted = learner.encoded.targets[list(rows), 0].tolist()
        return spearman(wanted, numbers, learner.encoded.weights[list(rows)].tolist()) or 0.0
    return float(_share(_sums(answers, rows, learner, weighted=weighted).sum(0)))


def selection_optimism(found: Sequence[MethodAnswers], learner: Learner, seed: int = 0) -> float:
    """Estimate what the way that is taken gains because it was chosen by the rows that judge it.

    In tables drawn from the rows, the way that is taken there is judged by the rows that were not
    drawn (Tsamardinos et al. 2018); what it loses of its score on all rows is luck, but for the
    part that a draw does not show. It is taken as `best_method` takes it where the first way is the
    regression or the model as it is; otherwise it is the one with the best measure.
    """
    if len(found) < 2 or learner.kind == "regression":
        return 0.0
    rows = common_rows(found)
    sums = torch.stack([_sums(answers, rows, learner) for answers in found])  # (ways, m, 2)
    every, lost = _share(sums.sum(1)), []
    generator = torch.Generator().manual_seed(seed)
    for _ in range(OPTIMISM_DRAWS):
        drawn = torch.randint(len(rows), (len(rows),), generator=generator)
        left = torch.ones(len(rows), dtype=torch.bool)
        left[drawn] = False
        if not left.any():
            continue
        inside, outside = (_share(part.sum(1)) for part in (sums[:, drawn], sums[:, left]))
        less = every - outside
        taken = int(inside.argmax())
        if found[0].way.name in (METHOD_AS_IS, METHOD_HEAD):
            other = 1 + int(inside[1:].argmax())
            error = _difference_error(sums[0, drawn], sums[other, drawn])
            gain = float(inside[other] - inside[0])
            taken = other if _is_taken(gain, error, found[0].way) else 0
        lost.append(float(less[taken] - less.mean()))
    return max(sum(lost) / max(len(lost), 1), 0.0) / SEEN_LUCK


def _share(sums: Tensor) -> Tensor:
    return sums[..., 0] / sums[..., 1].clamp(min=1e-9)


def _sums(
    answers: MethodAnswers, rows: Sequence[int], learner: Learner, *, weighted: bool = True
) -> Tensor:
    """Compute what each row adds to the measure's numerator and denominator: (m, 2)."""
    place = {row: i for i, row in enumerate(answers.rows)}
    logits = answers.logits[[place[row] for row in rows]]
    targets, weights = learner.encoded.targets[list(rows)], learner.encoded.weights[list(rows)]
    if learner.kind == "single_label":
        counted = targets  # a row with shares counts as parts of rows
        if learner.shares is not None:  # every class counts as much
            counted = targets / learner.shares if weighted else targets
            if answers.way.name not in (METHOD_AS_IS, METHOD_ZERO_SHOT):  # whose weights stay
                logits = logits - learner.shares.log()
        right = counted.gather(1, logits.argmax(1, keepdim=True))[:, 0]
        return weights[:, None] * torch.stack([right, counted.sum(1)], 1)
    least = torch.tensor(choose_thresholds(logits.sigmoid(), targets, weights))
    given = (logits.sigmoid() >= least).double()
    sums = torch.stack([2 * (given * targets).sum(1), given.sum(1) + targets.sum(1)], 1)
    return weights[:, None] * sums
