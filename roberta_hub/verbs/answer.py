"""The verb answer: extractive question answering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roberta_hub.errors import InputError, placed
from roberta_hub.settings import MAX_ANSWER
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
    question: object,
    context: object,
    *,
    head: str | None = None,
    max_answer_tokens: int = MAX_ANSWER,
    no_answer: bool = True,
    topk: int | None = None,
) -> Any:
    """Ask a span head. See `RobertaHubInterface.answer`."""
    from roberta_hub.text.texts import as_single_texts

    questions, one_question = as_single_texts(question, "question", needs="a question is a str")
    contexts, one_context = as_single_texts(context, "context", needs="a context is a str")
    if one_question:
        questions *= 1 if one_context else len(contexts)
    elif one_context:
        contexts *= len(questions)
    if len(questions) != len(contexts):
        raise InputError(
            f"{len(questions)} questions and {len(contexts)} contexts; pass as many of both, or "
            "one str of either"
        )
    lone = {"question": one_question, "context": one_context}
    with placed(lambda at: at.argument if lone[at.argument] else at):
        found = _answers(
            model,
            list(zip(questions, contexts, strict=True)),
            head=head,
            max_answer_tokens=max_answer_tokens,
            no_answer=no_answer,
            topk=topk,
        )
    return found[0] if one_question and one_context else found


def _answers(
    model: VerbModel,
    pairs: Sequence[tuple[str, str]],
    *,
    head: str | None = None,
    max_answer_tokens: int = MAX_ANSWER,
    no_answer: bool = True,
    topk: int | None = None,
) -> list[Any]:
    from roberta_hub.inference.answer import best_answers, with_context

    found = best_answers(
        model.runner,
        pairs,
        model.heads.find(head, "span", "answer"),
        max_tokens=max_answer_tokens,
        no_answer=no_answer,
        topk=1 if topk is None else topk,
    )
    drawn = [
        [with_context(one, *pair) for one in own] for own, pair in zip(found, pairs, strict=True)
    ]
    return [own[0] for own in drawn] if topk is None else drawn


def _answers_of_rows(
    model: VerbModel, pairs: Sequence[tuple[str, str]], **settings: Any
) -> list[Any]:
    def one(pair: tuple[str, str]) -> Any:
        with placed(lambda at: at.argument):
            return _answers(model, [pair], **settings)[0]

    return one_by_one(pairs, one)


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
    answers=_answers_of_rows,
    columns=_columns,
    answer_format=_answer_format,
    rows_at_once=SLOW_ROWS_AT_ONCE,
    what_columns='text=("question", "context")',
)
