"""Columns, format and view of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roberta_hub.settings import REJECTED
from roberta_hub.verbs.question import (
    AnswerFormat,
    Cells,
    Columns,
    Parts,
    Record,
    Settings,
    Share,
)
from roberta_hub.verbs.views import draw_each

if TYPE_CHECKING:
    from roberta_hub.inference.classify import Prediction
    from roberta_hub.inference.verb_model import VerbModel

LABELS_DRAWN = 3
"""Most labels drawn for each of several texts."""


def prediction_columns(
    model: VerbModel, rows: Sequence[Any], found: Sequence[Prediction]
) -> Columns:
    """Predictions as columns; `labels` only for multi-label heads, `rejected` where one may be."""
    columns: Columns = {
        "label": [p.label for p in found],
        "score": [p.score for p in found],
        "scores": [dict(p.scores) for p in found],
    }
    if found and found[0].labels is not None:  # the same for all predictions of a head
        columns["labels"] = [list(p.labels or ()) for p in found]
    if found and found[0].rejected is not None:
        columns["rejected"] = [bool(p.rejected) for p in found]
    return columns


def prediction_format(settings: Settings) -> AnswerFormat:
    """Draw the best label of each text, or all of them below it."""
    return AnswerFormat(
        Parts(),
        sample={"label": "", "score": 0.0},
        titles=("label", "score"),
        line=_best,
        block=_shares,
    )


def prediction_view(texts: Sequence[Any], found: list[Prediction]) -> list[Prediction]:
    """Draw the most probable labels of each text."""
    from roberta_hub.inference.classify import prediction_parts

    return draw_each(
        texts, found, lambda one: prediction_parts(one, LABELS_DRAWN), lambda one: one.to_dict()
    )


def _shares(record: Record) -> Sequence[Cells]:
    """Draw every label with its share; a regression has a plain number.

    Predicted labels of a multi-label head are marked. A refusal is drawn above them.
    """
    shares = _of_scores(record)
    return [(_refusal(record), ""), *shares] if record.get("rejected") else shares


def _refusal(record: Record) -> str:
    return record["label"] or REJECTED


def _of_scores(record: Record) -> list[Cells]:
    scores = record["scores"].items()
    if "labels" in record:
        given = record["labels"]
        return [(label, Share(p), "yes" if label in given else "") for label, p in scores]
    whole = len(scores) > 1 and all(0 <= score <= 1 for _, score in scores)
    return [(label, Share(score) if whole else score) for label, score in scores]


def _best(record: Record) -> Cells:
    """Draw the label, or the labels, with the share of the most probable one."""
    label, share, *_ = _of_scores(record)[0]
    if "labels" in record:
        label = ", ".join(record["labels"]) or "(none)"
    if record.get("rejected"):
        label = _refusal(record)
    return label, share
