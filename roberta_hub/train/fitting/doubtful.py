"""Finds rows whose label is likely wrong, by the answers of a model not trained on them.

benchmarks/results/doubtful.md has what this finds of wrong labels that were put in by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.inference.classify import Prediction
from roberta_hub.show.report import Section
from roberta_hub.show.terminal_text import cut
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.data.sentences import LabelledText
from roberta_hub.train.fitting.scores import rows_with_texts


@dataclass(frozen=True)
class Doubtful:
    """A row whose label is likely wrong."""

    text: Text
    where: str
    """File and line, or table and row."""
    given: str
    """The label in the table; of several labels "art", or "not art" where the row lacks it."""
    suggested: str
    """The label that the model answers."""
    probability: float
    """Probability of the suggested label."""
    score: float
    """How doubtful the given label is, above 0.5: the suggested one's part of both
    probabilities."""
    by_heavier: bool = False
    """Whether the row weighs little, and a model of the heavier rows alone suggests the label."""

    def said(self) -> str:
        """Write the label of the table, and the one that is more likely."""
        given, suggested = cut(self.given, 20), cut(self.suggested, 20)
        by = "by the heavier rows " if self.by_heavier else "more likely "
        return f"{given}, {by}{suggested} ({self.probability:.2f})"


LIGHT = 0.5
"""Rows that weigh at most this part of the heaviest are trusted less than others."""
DOUBTFUL_SHOWN = 5
"""Likely wrong labels that a report shows."""


def doubtful_section(doubtful: Sequence[Doubtful], most: int = DOUBTFUL_SHOWN) -> Section:
    r"""List the rows whose label is likely wrong; empty where there are none.

    Example:
        >>> found = Doubtful("It rains.", "x.csv:7", "sun", "rain", 0.93, 0.97)
        >>> print("\n".join(doubtful_section([found]).text[1:]))
        labels that are likely wrong (1):
          x.csv:7: sun, more likely rain (0.93)
            It rains.
    """
    count = len(doubtful)
    shown = f"{count:,}" if count <= most else f"the first {most} of {count:,}"
    rows = [(one.where, one.said(), one.text) for one in doubtful[:most]]
    return rows_with_texts(f"{doubtful_title(doubtful)} ({shown}):", rows)


def doubtful_title(doubtful: Sequence[Doubtful]) -> str:
    """Say what is listed: of rows that weigh little, more than is likely wrong.

    Example:
        >>> doubtful_title([Doubtful("It rains.", "x.csv:7", "sun", "rain", 0.53, 0.53, True)])
        'labels that are likely wrong, or that the heavier rows contradict'
    """
    title = "labels that are likely wrong"
    contradicted = any(one.by_heavier for one in doubtful)
    return f"{title}, or that the heavier rows contradict" if contradicted else title


def is_light(rows: Sequence[LabelledText]) -> list[bool]:
    """Tell which rows are trusted less: those of at most half the weight of the heaviest.

    Example:
        >>> is_light([LabelledText("a", ("x",), "t:1", weight=own) for own in (1, 0.6, 0.5, 0)])
        [False, False, True, True]
    """
    most = max((row.weight for row in rows), default=0.0)
    return [row.weight <= LIGHT * most for row in rows]


def doubtful_answers(
    task: str,
    rows: Sequence[LabelledText],
    answers: Sequence[Prediction],
    by_heavier: Sequence[bool] = (),
) -> tuple[Doubtful, ...]:
    """Find the rows whose label is likely wrong; see `likely_wrong`.

    Example:
        >>> rows = [LabelledText(f"text {i}", ("ab"[i % 2],), f"t:{i}") for i in range(8)]
        >>> sure = {"a": Prediction.of(["a", "b"], [0.9, 0.1]),
        ...         "b": Prediction.of(["a", "b"], [0.1, 0.9])}
        >>> answers = [sure["b" if i == 2 else row.labels[0]] for i, row in enumerate(rows)]
        >>> doubtful_answers("classification", rows, answers)[0].suggested
        'b'
    """
    if task == "regression" or not rows:
        return ()
    names = sorted(answers[0].scores)
    values = [[answer.scores[name] for name in names] for answer in answers]
    several = task == "multi_label"
    return tuple(likely_wrong(rows, names, values, several=several, by_heavier=by_heavier))


def likely_wrong(
    rows: Sequence[LabelledText],
    names: Sequence[str],
    probabilities: Tensor | Sequence[Sequence[float]],
    *,
    several: bool = False,
    by_heavier: Sequence[bool] = (),
) -> list[Doubtful]:
    """Find the rows whose label is likely wrong, the most doubtful first.

    The model must not be trained on the rows that it answers, as in cross-validation. A label is
    doubted where the model answers another, and is as sure of that as it is on average in the rows
    that have it (the idea of confident learning, Northcutt et al. 2021). A class of one row is not
    judged: a model that is not trained on that row does not know the class.

    A row that is trusted less is doubted where the heavier rows answer another label, however sure
    of it they are: they are few, and seldom sure (benchmarks/results/machine_labels.md).

    Args:
        rows: with their labels.
        names: of the classes or labels.
        probabilities: of each name for each row. Shape: (N, K)
        several: whether a text may have several labels; then each is judged by itself.
        by_heavier: whether a model of the heavier rows alone answered each row; (): none.

    Example:
        >>> rows = [LabelledText(f"text {i}", ("ab"[i % 2],), f"t:{i}") for i in range(8)]
        >>> sure = [[0.9, 0.1] if i % 2 == 0 else [0.2, 0.8] for i in range(8)]
        >>> sure[2] = [0.05, 0.95]
        >>> [(found.where, found.suggested) for found in likely_wrong(rows, ["a", "b"], sure)]
        [('t:2', 'b')]
    """
    values = torch.as_tensor(probabilities, dtype=torch.float64).cpu()
    if values.shape != (len(rows), len(names)):
        raise InputError(
            f"probabilities are of shape {tuple(values.shape)}; {len(rows)} rows and {len(names)} "
            "labels have one each"
        )
    shares = [[row.amounts.get(name, 0) / row.weight for name in names] for row in rows]
    own = torch.tensor(shares, dtype=torch.float64).reshape(values.shape)
    if not several:
        return _ranked(rows, names, values, own, by_heavier)
    found: list[Doubtful] = []
    for k, name in enumerate(names):
        both = torch.stack([values[:, k], 1 - values[:, k]], 1)
        has = torch.stack([own[:, k], 1 - own[:, k]], 1)
        found += _ranked(rows, [name, f"not {name}"], both, has, by_heavier)
    return sorted(found, key=lambda doubtful: -doubtful.score)


def doubts(probabilities: Tensor, given: Tensor) -> Tensor:
    """Tell how doubtful each given label is: the likeliest other one's part of both probabilities.

    Args:
        probabilities: of each class. Shape: (N, K)
        given: number of the class. Shape: (N,)

    Returns:
        0 to 1. Shape: (N,)

    Example:
        >>> doubts(torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2]]), torch.tensor([0, 0]))
        tensor([0.3333, 0.7500])
    """
    least = torch.finfo(probabilities.dtype).tiny  # where both are 0 neither is likelier
    own = probabilities.gather(1, given[:, None])[:, 0] + least
    other = probabilities.scatter(1, given[:, None], -1).amax(1) + least
    return other / (own + other)


def _ranked(
    rows: Sequence[LabelledText],
    names: Sequence[str],
    values: Tensor,
    own: Tensor,
    by_heavier: Sequence[bool],
) -> list[Doubtful]:
    """Judge rows of one class each.

    Args:
        rows: all of them.
        names: of the classes.
        values: probabilities. Shape: (N, K)
        own: share of each class that is given; a row with none is not judged. Shape: (N, K)
        by_heavier: see `likely_wrong`.
    """
    if len(names) < 2 or not len(rows):
        return []
    counts = own.gt(0).sum(0)
    usual = (values * own).sum(0) / own.sum(0).clamp(min=1e-9)  # of a class in its own rows
    best, answered = values.max(1)
    most, given = own.max(1)
    judged = own.any(1) & (counts[given] > 1) & (counts[answered] > 0)
    less = own.gather(1, answered[:, None])[:, 0] < most  # of equal shares both are right
    light = torch.tensor([*by_heavier] or [False] * len(rows))
    doubted = judged & less & (light | (best >= usual[answered]))
    scores = doubts(values, given)
    order = torch.argsort(-scores, stable=True).tolist()
    return [
        Doubtful(
            text=rows[i].text,
            where=rows[i].where,
            given=names[int(given[i])],
            suggested=names[int(answered[i])],
            probability=float(best[i]),
            score=float(scores[i]),
            by_heavier=bool(light[i]),
        )
        for i in order
        if doubted[i]
    ]
