"""The verb answer: extractive question answering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roberta_hub.settings import MAX_ANSWER
from roberta_hub.verbs.question import (
    HEAD,
    SLOW_ROWS_AT_ONCE,
    AnswerFormat,
    Cells,
    Columns,
    Option,
    Parts,
    Question,
    Record,
    Settings,
    Share,
    VerbModel,
    one_by_one,
)

if TYPE_CHECKING:
    from roberta_hub.inference.answer import Answer

_PAIRS = (
    "a question and its context go together: --pair QUESTION CONTEXT, two columns of a table, or a "
    "tab between the two on a line"
)


def answer(
    model: VerbModel,
    question: str,
    context: str,
    *,
    head: str | None = None,
    max_answer_tokens: int = MAX_ANSWER,
    no_answer: bool = True,
) -> Answer:
    """Ask a span head. See `RobertaHubInterface.answer`."""
    from roberta_hub.inference.answer import answers, with_context

    [found] = answers(
        model.runner,
        [(question, context)],
        model.heads.find(head, "span", "answer"),
        max_tokens=max_answer_tokens,
        no_answer=no_answer,
    )
    return with_context(found, question, context)


def _answers(
    model: VerbModel,
    pairs: Sequence[tuple[str, str]],
    *,
    head: str | None = None,
    max_answer_tokens: int = MAX_ANSWER,
    no_answer: bool = True,
) -> list[Answer]:
    def one(pair: tuple[str, str]) -> Answer:
        return answer(
            model, *pair, head=head, max_answer_tokens=max_answer_tokens, no_answer=no_answer
        )

    return one_by_one(pairs, one)


def _columns(model: VerbModel, pairs: Sequence[tuple[str, str]], found: list[Answer]) -> Columns:
    return {
        "answer": [a.text for a in found],
        "start": [a.start for a in found],
        "end": [a.end for a in found],
        "score": [a.score for a in found],
    }


def _line(record: Record) -> Cells:
    return record["answer"] or "(the text does not say it)", Share(record["score"])


def _answer_format(settings: Settings) -> AnswerFormat:
    return AnswerFormat(
        Parts(least=2, two=("question", "context"), hint=_PAIRS),
        sample={"answer": "", "start": 0, "end": 0, "score": 0.0},
        titles=("answer", "score"),
        line=_line,
        block=lambda record: [_line(record)],
    )


ANSWER: Question[Answer, list[Answer]] = Question(
    name="answer",
    help="""Find the stretch of a text that answers a question; the pairs are question and context.

    The answer is "" where the text does not say it. It takes a model with a span head:
    `roberta-hub train finetune=squad` trains one.
    """,
    examples=(
        'roberta-hub answer -m squad --pair "Who wrote it?" "Ada Lovelace wrote it."',
        "roberta-hub answer -m squad -i questions.csv -c question,context -f csv",
    ),
    options=(
        HEAD,
        Option(
            "max_answer_tokens",
            "number",
            "Length of the longest answer.",
            default=MAX_ANSWER,
            least=1,
        ),
        Option(
            "no_answer",
            "flag",
            "Never answer that the text does not say it.",
            flags="--always",
            default=True,
            sets=False,
        ),
    ),
    answers=_answers,
    columns=_columns,
    answer_format=_answer_format,
    rows_at_once=SLOW_ROWS_AT_ONCE,
    what_columns='text=("question", "context")',
)
