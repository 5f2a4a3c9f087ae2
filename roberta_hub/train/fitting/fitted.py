"""Holds what `fit` learnt of a table: the way, the scores, and each judged row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roberta_hub.inference.classify import Prediction
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.data.sentences import Sentences
from roberta_hub.train.fitting.choice import Choice
from roberta_hub.train.fitting.judging import labels_of
from roberta_hub.train.fitting.scores import Mistake, Scores

Label = str | float | tuple[str, ...]
"""A class, a number, or the labels of a text that may have several."""


@dataclass(frozen=True)
class Judged:
    """A row that was judged, and what the model answered before it had learnt it."""

    text: Text
    where: str
    """File and line, or table and row."""
    wanted: Label
    answered: Label
    probability: float | None
    """Of the answer; None of a number, and of several labels."""


@dataclass(frozen=True)
class Fitted:
    """What `fit` learnt of a table, and what the model reaches."""

    source: str
    """What errors and reports call the table."""
    scores: Scores
    rows: tuple[Judged, ...]
    """Each row that was judged: held out, or answered while its part of the table was."""
    choice: Choice | None
    """Which way of learning was taken, and what the others would have reached."""
    seconds: float
    """Of choosing, learning and judging."""
    notes: tuple[str, ...] = ()
    """What is odd about the table, and what was done with it; a sentence each."""

    @property
    def confusion(self) -> dict[tuple[str, str], int]:
        """Judged rows by (right class, answer); see `Scores.confusion`."""
        return self.scores.confusion

    @property
    def mistakes(self) -> list[Mistake]:
        """The surest wrong answers, surest first."""
        return self.scores.mistakes

    def __repr__(self) -> str:
        return f"<fitted on {self.source}: {self.scores.headline()}>"


def judged_rows(
    task: str, rows: Sequence[Sentences], answers: Sequence[Prediction]
) -> tuple[Judged, ...]:
    """Put each judged row beside its answer.

    Args:
        task: "classification", "multi_label" or "regression".
        rows: the judged rows, with the right labels.
        answers: one to each row.

    Example:
        >>> rows = [Sentences("fine", ("good",), "1")]
        >>> answers = [Prediction.of(["good", "bad"], [0.9, 0.1])]
        >>> judged_rows("classification", rows, answers)[0].probability
        0.9
    """
    found = []
    for row, answer in zip(rows, answers, strict=True):
        wanted: Label = row.labels
        given: Label = tuple(sorted(labels_of(answer)))
        probability = None
        if task == "regression":
            wanted, given = float(row.labels[0]), answer.score
        elif task == "classification":
            wanted, given = row.labels[0], answer.label
            probability = answer.score
        found.append(Judged(row.text, row.where, wanted, given, probability))
    return tuple(found)
