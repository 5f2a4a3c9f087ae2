"""The verb classify: a label for each text, by a head that was trained for it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from roberta_hub.verbs.predictions import prediction_columns, prediction_format, prediction_view
from roberta_hub.verbs.question import Parts, Question, later

if TYPE_CHECKING:
    from roberta_hub.inference.classify import Prediction

_NO_HEAD = (
    "roberta.tiny, the model in the box, labels pairs only (--pair A B). For labels in words, "
    "without training: roberta-hub zero-shot TEXT --labels good,bad. For a model of your own: "
    "roberta-hub fit reviews.csv, then classify -m with the folder that it writes"
)


CLASSIFY: Question[Prediction, list[Prediction]] = Question(
    name="classify",
    help="""Give each text a label, by a head that was trained for it.

    The answer has the label, its probability `score`, and the `scores` of all labels; where a text
    may have several labels, it also has `labels`. Without -m the model in the box judges pairs:
    entailment, neutral or contradiction.
    """,
    examples=(
        'roberta-hub classify -m mine "I loved every minute of it."',
        "roberta-hub classify -m mine -i reviews.csv --text text -o labels.csv",
        'roberta-hub classify --pair "A dog ran." "An animal moved."',
    ),
    options={"head": {}, "multi_label": {"flags": ("--multi-label/--single-label",)}},
    answers=later(lambda: import_module("roberta_hub.inference.classify").classify),
    of_empty="its label",
    columns=prediction_columns,
    answer_format=prediction_format,
    view=prediction_view,
    parts_of_tiny=Parts(least=2, hint=_NO_HEAD),
    asked_columns=("scores",),
    any_count=True,
)
