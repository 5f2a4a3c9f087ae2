"""The verb choose: the best of several options."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from roberta_hub.verbs.question import (
    SLOW_ROWS_AT_ONCE,
    AnswerFormat,
    Columns,
    Parts,
    Question,
    Settings,
    Share,
    later,
)

if TYPE_CHECKING:
    from roberta_hub.inference.classify import Prediction
    from roberta_hub.inference.verb_model import VerbModel

MAX_OPTIONS = 1000
"""Most options of one text."""


def _columns(model: VerbModel, rows: Sequence[Any], found: list[Prediction]) -> Columns:
    return {
        "label": [p.label for p in found],
        "score": [p.score for p in found],
        "options": [[{"option": o, "score": s} for o, s in p.scores.items()] for p in found],
    }


def _answer_format(settings: Settings) -> AnswerFormat:
    hint = "give --options A,B, or options after each text, in columns or after tabs"
    fixed = settings.get("options") is not None
    return AnswerFormat(
        Parts(most=1) if fixed else Parts(least=3, most=MAX_OPTIONS, two=("text",), hint=hint),
        sample={"label": "", "score": 0.0, "options": [{"option": "", "score": 0.0}]},
        titles=("label", "score"),
        line=lambda record: (record["label"], Share(record["score"])),
        block=lambda record: [(o["option"], Share(o["score"])) for o in record["options"]],
    )


CHOOSE: Question[Prediction, list[Prediction]] = Question(
    name="choose",
    help="""Choose the best of several options for each text, or question.

    Options are --options, the same for each text, or follow it in further columns or after tabs. It
    takes a model with a head of one output: `roberta-hub train finetune=race` trains one.
    """,
    examples=(
        'roberta-hub choose -m race "Where do fish live?" --options "in water,in trees"',
        "printf 'Fish live in\\twater\\ttrees\\n' | roberta-hub choose -m race",
    ),
    options={"options": {}, "head": {}},
    answers=later(lambda: import_module("roberta_hub.inference.choose").choose),
    columns=_columns,
    answer_format=_answer_format,
    rows_at_once=SLOW_ROWS_AT_ONCE,
    any_count=True,
    what_columns="a text and its options, or the text alone with options=[...]",
)
