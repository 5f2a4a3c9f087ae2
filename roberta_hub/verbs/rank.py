"""The verb rank: how well each text answers a query, by a cross-encoder (Nogueira and Cho 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from roberta_hub.verbs.question import (
    AnswerFormat,
    Cells,
    Columns,
    Parts,
    Question,
    Record,
    Settings,
    Share,
    later,
)

if TYPE_CHECKING:
    from roberta_hub.inference.verb_model import VerbModel

_PAIRS = (
    "a query and a text go together: --pair QUERY TEXT, two columns of a table, or a tab between "
    "the two on a line"
)


def _columns(model: VerbModel, pairs: Sequence[tuple[str, str]], found: list[float]) -> Columns:
    return {"score": found}


def _line(record: Record) -> Cells:
    return (Share(record["score"]),)


def _answer_format(settings: Settings) -> AnswerFormat:
    return AnswerFormat(
        Parts(least=2, two=("query", "text"), hint=_PAIRS),
        sample={"score": 0.0},
        titles=("score",),
        line=_line,
        block=lambda record: [_line(record)],
    )


RANK: Question[float, list[float]] = Question(
    name="rank",
    help="""Score how well each text answers a query; the pairs are query and text.

    The answer has the `score`, from 0 to 1, by which the texts of a query are ordered. It takes a
    cross-encoder, a model with a head of one output, or --label of a head of several.
    """,
    examples=(
        'roberta-hub rank -m reranker --pair "late delivery" "It came a week late."',
        "roberta-hub rank --label entailment -i found.csv --text query,text -f csv",
    ),
    options={"head": {}, "label": {}},
    answers=later(lambda: import_module("roberta_hub.inference.rank").rank),
    columns=_columns,
    answer_format=_answer_format,
    what_columns='text=("query", "text")',
)
