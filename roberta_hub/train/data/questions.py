"""Reads questions with contexts that answer them: SQuAD 1.1 and 2, and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roberta_hub.errors import InputError
from roberta_hub.rows.lines import document
from roberta_hub.rows.tables import FORMATS, Row, Table, json_row
from roberta_hub.rows.values import to_python
from roberta_hub.train.data.roles import check_format, column_roles, nonempty, read_rows

COLUMNS = ("question", "context", "answers")
"""Columns of a table of questions."""


@dataclass(frozen=True)
class QuestionExample:
    """A question, a context, and where the context answers it."""

    question: str
    context: str
    answers: tuple[tuple[int, str], ...]
    """(first character, text) of each accepted answer; none: the context has no answer."""
    where: str


def read_questions(
    path: str | Path, format: str | None = None, columns: Mapping[str, Any] | None = None
) -> list[QuestionExample]:
    """Read questions with contexts that answer them."""
    path = Path(path)
    if format == "squad" or (format is None and path.suffix == ".json"):
        return nonempty(list(_squad(path)), path)
    check_format(format, ("squad", *FORMATS))
    named = column_roles(columns, COLUMNS, {name: name for name in COLUMNS})
    return nonempty([_question(row, named) for row in read_rows(path, format)], path)


def table_questions(table: Table) -> list[QuestionExample]:
    """Read the questions of an open table, whose columns have their own names."""
    named = {name: table.check(name) for name in COLUMNS}
    return nonempty([_question(row, named) for row in table.rows()], table.name)


def _question(row: Row, named: Mapping[str, Any]) -> QuestionExample:
    context, question = row.text(named["context"]), row.text(named["question"])
    given = to_python(row.value(named["answers"]))
    if isinstance(given, dict):
        starts, texts = (to_python(given.get(key, [])) for key in ("answer_start", "text"))
        if len(starts) != len(texts):
            raise row.error(f"{len(texts)} answers and {len(starts)} starts")
        pairs = list(zip(starts, texts, strict=True))
    else:
        texts = given if isinstance(given, list) else [given]
        pairs = [(context.find(str(text)), str(text)) for text in texts if str(text)]
    return QuestionExample(question, context, _checked(pairs, context, row.where), row.where)


def _squad(path: Path) -> Iterator[QuestionExample]:
    about = json_row("".join(document(path)), 1, path).values
    where = str(path)
    try:
        for article in about["data"]:
            for paragraph in article["paragraphs"]:
                context = paragraph["context"]
                for qa in paragraph["qas"]:
                    where = f"{path}:question {qa['id']}"
                    given = [] if qa.get("is_impossible") else qa["answers"]
                    pairs = [(a["answer_start"], a["text"]) for a in given]
                    yield QuestionExample(
                        qa["question"], context, _checked(pairs, context, where), where
                    )
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{where}: not in SQuAD's layout: {type(error).__name__}: {error}"
        ) from None


def _checked(pairs: list[tuple[Any, Any]], context: str, where: str) -> tuple[tuple[int, str], ...]:
    for start, text in pairs:
        fits = isinstance(start, int) and isinstance(text, str) and start >= 0 and text.strip()
        if not fits or context[start : start + len(text)] != text:
            raise InputError(
                f"{where}: answer {str(text)[:40]!r} does not stand at character {start}"
            )
    return tuple(pairs)
