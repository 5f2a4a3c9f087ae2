"""Draws what `fit` learnt of a table: the scores, how far probabilities hold, the confusions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roberta_hub.show.bars import Bar, Bars
from roberta_hub.show.column_chart import ChartColumn, ColumnChart
from roberta_hub.show.display import Display, Part
from roberta_hub.show.facts import Facts, Note
from roberta_hub.train.fitting.choice import Choice
from roberta_hub.train.fitting.confusions import confusion_display
from roberta_hub.train.fitting.doubtful import DOUBTFUL_SHOWN, Doubtful, doubtful_heading
from roberta_hub.train.fitting.scores import Scores, short_text

_CLASSES = (
    "Filled: how many answers of that probability are right. Line: how probable the model said "
    "that they are. Below: the probability, and how many answers"
)
_SEVERAL = _CLASSES.replace("answers of that probability are right", "labels that probable apply")


def display(
    title: str,
    scores: Scores,
    choice: Choice | None,
    values: dict[str, Any],
    doubtful: Sequence[Doubtful] = (),
) -> Display:
    """Draw scores, and the choice that led to them.

    Args:
        title: heading of the display.
        scores: of the model.
        choice: which way was taken; None: there was none.
        values: the same in plain words and numbers.
        doubtful: rows whose label is likely wrong.
    """
    parts: list[Part] = [Note(scores.headline()), Note(scores.details())]
    parts += [Note(said) for said in scores.conclusions]
    if choice is not None:
        parts += _ways(choice)
    if scores.bins:
        parts.append(reliability(scores))
    parts += confusion_display(scores.task, scores.confusion)
    if scores.mistakes:
        parts.append(Note("largest errors:" if scores.task == "regression" else "surest mistakes:"))
        parts.append(Facts([(wrong.where, wrong.said(scores.task)) for wrong in scores.mistakes]))
    if doubtful:
        parts.append(Note(doubtful_heading(len(doubtful))))
        shown = doubtful[:DOUBTFUL_SHOWN]
        parts.append(Facts([(o.where, f"{o.said()}: {short_text(o.text)}") for o in shown]))
    return Display(title, parts, values)


def reliability(scores: Scores) -> ColumnChart:
    """Draw how often answers of about one probability are right (Guo et al. 2017, figure 1)."""
    columns = [
        ChartColumn(f"{one.low:.1f}–{one.high:.1f}", one.right, one.score, f"{one.count:,}")
        for one in scores.bins
    ]
    return ColumnChart(columns, _SEVERAL if scores.task == "multi_label" else _CLASSES)


def _ways(choice: Choice) -> list[Part]:
    rows, left_out = [], []
    for way in choice.ways:
        if way.score is None:
            left_out.append(f"{way.name} ({way.why_not})" if way.why_not else way.name)
        else:
            taken = "taken" if way.name == choice.taken else ""
            rows.append(Bar(way.name, f"{way.score:.3f}", way.score, taken))
    found: list[Part] = [Note(choice.said())]
    if rows:
        found.append(Bars(rows))
    if left_out:
        found.append(Note(f"not tried: {', '.join(left_out)}"))
    return found
