"""The verb score: how natural each text is."""

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
    later,
)

if TYPE_CHECKING:
    from roberta_hub.inference.verb_model import VerbModel


def _columns(model: VerbModel, texts: Sequence[Any], found: list[float]) -> Columns:
    layout = model.runner.tokenizer.layout
    counts = [
        sum(end - start for start, end in layout.sentences(ids)) for ids in model.runner.ids(texts)
    ]
    each = [value / max(count, 1) for value, count in zip(found, counts, strict=True)]
    return {"score": found, "tokens": counts, "per_token": each}


def _answer_format(settings: Settings) -> AnswerFormat:
    return AnswerFormat(
        Parts(),
        sample={"score": 0.0, "tokens": 0, "per_token": 0.0},
        titles=("score", "tokens", "per token"),
        line=lambda record: (record["score"], record["tokens"], record["per_token"]),
    )


SCORE: Question[float, list[float]] = Question(
    name="score",
    help="""Measure how natural each text is, by its pseudo-log-likelihood (Salazar et al. 2020).

    The answer has the `score`, which is the nearer to 0 the more natural, the number of `tokens`,
    and their quotient `per_token`, which compares texts of different lengths. A text of T tokens
    costs T runs.
    """,
    examples=(
        'roberta-hub score "A dog ran." "Dog a ran."',
        "printf 'A dog ran.\\nDog a ran.\\n' | roberta-hub score -f csv",
    ),
    answers=later(lambda: import_module("roberta_hub.inference.score").score),
    columns=_columns,
    answer_format=_answer_format,
    rows_at_once=SLOW_ROWS_AT_ONCE,
)
