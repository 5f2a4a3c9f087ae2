"""The verb choose: the best of several options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roberta_hub.verbs.question import (
    SLOW_ROWS_AT_ONCE,
    AnswerFormat,
    Columns,
    Parts,
    Question,
    Settings,
    Share,
    VerbModel,
    one_by_one,
)

if TYPE_CHECKING:
    from roberta_hub.inference.classify import Prediction

MAX_OPTIONS = 1000
"""Most options of one text."""


def choose(
    model: VerbModel, context: str, options: Sequence[str], *, head: str | None = None
) -> Prediction:
    """Ask a head with one output. See `RobertaHubInterface.choose`."""
    from roberta_hub.inference import choose as choosing

    return choosing.choose(model.runner, context, options, model.heads, head, model.task)


def _answers(
    model: VerbModel,
    rows: Sequence[Any],
    *,
    options: Sequence[str] | None = None,
    head: str | None = None,
) -> list[Prediction]:
    def one(row: Any) -> Prediction:
        context, *own = (row,) if isinstance(row, str) else row
        return choose(model, context, own if options is None else list(options), head=head)

    return one_by_one(rows, one)


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
    answers=_answers,
    columns=_columns,
    answer_format=_answer_format,
    rows_at_once=SLOW_ROWS_AT_ONCE,
    any_count=True,
    what_columns="a text and its options, or the text alone with options=[...]",
)
