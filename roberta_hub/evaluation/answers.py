"""Measures answers to questions about a context, as SQuAD's own scripts do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from roberta_hub.errors import InputError
from roberta_hub.evaluation.records import Evaluation, Group
from roberta_hub.evaluation.tasks import Asked, at_rows, check_finite
from roberta_hub.measures.intervals import bootstrap_interval
from roberta_hub.measures.squad import squad_score
from roberta_hub.rows.tables import Table
from roberta_hub.train.data.questions import (
    QuestionExample,
    read_questions,
    table_questions,
)


def answers(asked: Asked, task: Path | Table) -> Evaluation:
    """Measure exact match and F1 of the answers that a span head finds.

    Where a question has no answer the rules are those of SQuAD 2.0, and the head may give none;
    else those of SQuAD 1.1, and it always gives one.
    """
    asked.takes("answers", "head")
    head = asked.head_of("span")
    if isinstance(task, Table):
        name, examples = task.name, table_questions(task)
    else:
        name, examples = str(task), read_questions(task)
    unanswerable = any(not example.answers for example in examples)
    blank = [one for one in examples if not (one.question.strip() and one.context.strip())]
    if blank:
        raise InputError("the question or the context is empty", place=blank[0].where)
    with at_rows([example.where for example in examples]):
        found = asked.roberta.answer(
            [example.question for example in examples],
            [example.context for example in examples],
            head,
            no_answer=unanswerable,
            **asked.options,
        )
    check_finite([answer.score for answer in found], [example.where for example in examples])
    scores = [
        squad_score(answer.text, [text for _, text in example.answers], unanswerable=unanswerable)
        for example, answer in zip(examples, found, strict=True)
    ]
    table = torch.tensor(scores, dtype=torch.double)
    exact, f1 = table.mean(0).tolist()
    return Evaluation(
        model=asked.name,
        task=name,
        kind="answers",
        verb="answer",
        how=f"head {head}, by the rules of SQuAD {'2.0' if unanswerable else '1.1'}",
        shape="questions about contexts",
        rows=len(examples),
        numbers={"f1": f1, "exact": exact},
        interval=bootstrap_interval(table, lambda sums: sums[:, 1]),
        groups=_groups(examples, scores) if unanswerable else (),
    )


def _groups(
    examples: Sequence[QuestionExample], scores: Sequence[tuple[float, float]]
) -> tuple[Group, ...]:
    """The questions that have an answer, and those that have none."""
    found = []
    for name, has in (("has an answer", True), ("has none", False)):
        own = [s for one, s in zip(examples, scores, strict=True) if bool(one.answers) == has]
        if own:
            exact, f1 = (sum(values) / len(own) for values in zip(*own, strict=True))
            found.append(Group("question", name, len(own), {"f1": f1, "exact": exact}))
    return tuple(found)
