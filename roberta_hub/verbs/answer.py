"""The verb answer: extractive question answering."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from roberta_hub.verbs.question import (
    SLOW_ROWS_AT_ONCE,
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
    from roberta_hub.inference.answer import Answer
    from roberta_hub.inference.verb_model import VerbModel

_PAIRS = (
    "a question and its context go together: --pair QUESTION CONTEXT, two columns of a table, or a "
    "tab between the two on a line"
)


def _columns(model: VerbModel, pairs: Sequence[tuple[str, str]], found: list[Any]) -> Columns:
    best = [own[0] if isinstance(own, list) else own for own in found]
    columns: Columns = {
        "answer": [a.text for a in best],
        "start": [a.start for a in best],
        "end": [a.end for a in best],
        "score": [a.score for a in best],
    }
    if found and isinstance(found[0], list):
        columns["answers"] = [[_record(a) for a in own] for own in found]
    return columns


def _record(found: Answer) -> Record:
    return {
        "answer": found.text,
        "start": found.start,
        "end": found.end,
        "score": found.score,
    }


def _line(record: Record) -> Cells:
    return record["answer"] or "(the text does not say it)", Share(record["score"])


def _block(record: Record) -> Sequence[Cells]:
    return [_line(one) for one in record.get("answers", [record])]


def _answer_format(settings: Settings) -> AnswerFormat:
    several = settings.get("topk") is not None
    sample: Record = {"answer": "", "start": 0, "end": 0, "score": 0.0}
    return AnswerFormat(
        Parts(least=2, two=("question", "context"), hint=_PAIRS),
        sample={**sample, "answers": [sample]} if several else sample,
        titles=() if several else ("answer", "score"),
        line=None if several else _line,
        block=_block,
    )


ANSWER: Question[Any, list[Any]] = Question(
    name="answer",
    help="""Find the span of a text that answers a question; the pairs are question and context.

    The answer is "" where the text does not say it. With --topk it also has `answers`, the best
    first. It takes a model with a span head: `roberta-hub train finetune=squad` trains one.
    """,
    examples=(
        'roberta-hub answer -m squad --pair "Who wrote it?" "Ada Lovelace wrote it."',
        "roberta-hub answer -m squad -i questions.csv --text question,context -f csv",
    ),
    options={
        "head": {},
        "max_answer_tokens": {"ends": (1, None)},
        "no_answer": {"flags": ("--always",)},
        "topk": {},
    },
    answers=later(lambda: import_module("roberta_hub.inference.answer").answer),
    columns=_columns,
    answer_format=_answer_format,
    rows_at_once=SLOW_ROWS_AT_ONCE,
    what_columns='text=("question", "context")',
)
