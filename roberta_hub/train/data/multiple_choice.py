"""Reads multiple choice: RACE, CommonsenseQA, and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roberta_hub.errors import InputError
from roberta_hub.rows.lines import lines
from roberta_hub.rows.tables import FORMATS, Row, json_row
from roberta_hub.train.data.roles import (
    check_format,
    column_roles,
    nonempty,
    parse_digits,
    read_rows,
)


@dataclass(frozen=True)
class ChoiceExample:
    """A context and its options, one of which is right."""

    context: str
    options: tuple[str, ...]
    answer: int
    where: str


def read_choices(
    path: str | Path, format: str | None = None, columns: Mapping[str, Any] | None = None
) -> list[ChoiceExample]:
    """Read examples of multiple choice."""
    path = Path(path)
    if format == "race":
        return nonempty(list(_race(path)), path)
    if format == "commonsense_qa":
        return nonempty([_commonsense(row) for row in read_rows(path, "jsonl")], path)
    check_format(format, ("race", "commonsense_qa", *FORMATS))
    names = ("context", "options", "answer")
    named = column_roles(columns, names, {name: name for name in names})
    found = []
    for row in read_rows(path, format):
        options = tuple(row.texts(named["options"]))
        answer = row.value(named["answer"])
        number = options.index(answer) if answer in options else parse_digits(answer)
        if number is None or not 0 <= number < len(options):
            raise row.error(f"answer {answer!r} is none of {len(options)} options")
        found.append(ChoiceExample(row.text(named["context"]), options, number, row.where))
    return nonempty(found, path)


def _race(path: Path) -> Iterator[ChoiceExample]:
    """Read RACE as fairseq's `preprocess_RACE.py` does.

    The option replaces `_` in a question; without a `_` it follows the question.
    """
    files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
    for file in files:
        for line, text in lines(file):
            if not text.strip():
                continue
            row = json_row(text, line, file)
            article, questions = _one_line(row.text("article")), row.texts("questions")
            answers, options = row.values.get("answers"), row.values.get("options")
            if not isinstance(answers, list) or not isinstance(options, list):
                raise row.error("has no lists 'answers' and 'options'")
            if not len(questions) == len(answers) == len(options):
                raise row.error("questions, options and answers differ in number")
            for number, (question, own, answer) in enumerate(
                zip(questions, options, answers, strict=True)
            ):
                where = f"{row.where}, question {number}"
                letters = "ABCDEFGH"[: len(own)] if isinstance(own, list) else ""
                if not isinstance(answer, str) or len(answer) != 1 or answer not in letters:
                    listed = ", ".join(letters)
                    raise InputError(f"{where}: answer {answer!r} is none of {listed}")
                joined = tuple(_with_option(question, str(option)) for option in own)
                yield ChoiceExample(article, joined, letters.index(answer), where)


def _with_option(question: str, option: str) -> str:
    return _one_line(question.replace("_", option) if "_" in question else f"{question} {option}")


def _one_line(text: str) -> str:
    return text.replace("\n", " ").strip()


def _commonsense(row: Row) -> ChoiceExample:
    """Write `Q: question` and `A: option` (fairseq `examples/roberta/commonsense_qa`)."""
    try:
        question = row.values["question"]
        letters = [str(choice["label"]) for choice in question["choices"]]
        options = tuple(f"A: {choice['text']}" for choice in question["choices"])
        stem, right = str(question["stem"]), letters.index(row.values["answerKey"])
    except (KeyError, TypeError, ValueError) as error:
        raise row.error(f"not CommonsenseQA: {type(error).__name__}: {error}") from None
    return ChoiceExample(f"Q: {stem}", options, right, row.where)
