"""The verb zero_shot: zero-shot classification with the caller's labels."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from roberta_hub.verbs.predictions import prediction_columns, prediction_format, prediction_view
from roberta_hub.verbs.question import Question, later

if TYPE_CHECKING:
    from roberta_hub.inference.classify import Prediction


ZERO_SHOT: Question[Prediction, list[Prediction]] = Question(
    name="zero_shot",
    help="""Give each text one of your own labels, without training.

    A head for natural-language inference judges whether the text entails the hypothesis, and
    sentence vectors say which label is near. The answer has the label, its probability `score`,
    and the `scores` of all labels.
    """,
    examples=(
        'roberta-hub zero-shot "I was charged twice." --labels billing,delivery,praise',
        "roberta-hub zero-shot -i reviews.csv --text text --labels good,bad -f csv",
    ),
    options={
        "labels": {"needed": True},
        "hypothesis": {"metavar": "TEXT"},
        "head": {},
        "multi_label": {},
        "by": {},
        "none": {"metavar": "LABEL"},
    },
    answers=later(lambda: import_module("roberta_hub.inference.zero_shot").zero_shot),
    of_empty="its label",
    columns=prediction_columns,
    answer_format=prediction_format,
    view=prediction_view,
    asked_columns=("scores",),
)
