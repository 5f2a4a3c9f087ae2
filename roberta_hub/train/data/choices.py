"""Reads multiple choice: RACE, CommonsenseQA, and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roberta_hub.train.data.tables import (
    TABLES,
    bad,
    check_format,
    json_object,
    lines,
    list_of,
    nonempty,
    number_of,
    roles,
    rows,
    text_of,
    value_of,
)


@dataclass(frozen=True)
class Choice:
    """A context and its options, one of which is right."""

    context: str
    options: tuple[str, ...]
    answer: int
    where: str


def read_choices(
    path: str | Path, format: str | None = None, columns: Mapping[str, Any] | None = None
) -> list[Choice]:
    """Read examples of multiple choice.

    Args:
        path: a file; for RACE also a folder of its .txt files.
        format: "race", "commonsense_qa", or a table.
        columns: of a table, which are `context`, `options` (one with lists, or a list of columns)
            and `answer` (the option's number from 0, or its text).

    Raises:
        InputError: a row that cannot be read, with its file and line.
    """
    path = Path(path)
    if format == "race":
        return nonempty(list(_race(path)), path)
    if format == "commonsense_qa":
        return nonempty([_commonsense(row, path, line) for line, row in rows(path, "jsonl")], path)
    check_format(format, ("race", "commonsense_qa", *TABLES))
    names = ("context", "options", "answer")
    named = roles(columns, names, {name: name for name in names})
    found = []
    for line, row in rows(path, format):
        options = tuple(list_of(row, named["options"], path, line))
        answer = value_of(row, named["answer"], path, line)
        number = options.index(answer) if answer in options else number_of(answer)
        if number is None or not 0 <= number < len(options):
            raise bad(path, line, f"answer {answer!r} is none of {len(options)} options")
        context = text_of(row, named["context"], path, line)
        found.append(Choice(context, options, number, f"{path}:{line}"))
    return nonempty(found, path)


def _race(path: Path) -> Iterator[Choice]:
    """Read RACE as fairseq's `preprocess_RACE.py` does.

    The option takes the place of `_` in a question; without a `_` it follows the question.
    """
    files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
    for file in files:
        for line, text in lines(file):
            if not text.strip():
                continue
            row = json_object(text, file, line)
            article = _one_line(text_of(row, "article", file, line))
            questions = list_of(row, "questions", file, line)
            answers, options = row.get("answers"), row.get("options")
            if not isinstance(answers, list) or not isinstance(options, list):
                raise bad(file, line, "has no lists 'answers' and 'options'")
            if not len(questions) == len(answers) == len(options):
                raise bad(file, line, "questions, options and answers differ in number")
            for number, (question, own, answer) in enumerate(
                zip(questions, options, answers, strict=True)
            ):
                where = f"{line}, question {number}"
                letters = "ABCDEFGH"[: len(own)] if isinstance(own, list) else ""
                if not isinstance(answer, str) or len(answer) != 1 or answer not in letters:
                    raise bad(file, where, f"answer {answer!r} is none of {', '.join(letters)}")
                joined = tuple(_with_option(question, str(option)) for option in own)
                yield Choice(article, joined, letters.index(answer), f"{file}:{where}")


def _with_option(question: str, option: str) -> str:
    return _one_line(question.replace("_", option) if "_" in question else f"{question} {option}")


def _one_line(text: str) -> str:
    return text.replace("\n", " ").strip()


def _commonsense(row: dict[str, Any], path: Path, line: int) -> Choice:
    """Write `Q: question` and `A: option` (fairseq `examples/roberta/commonsense_qa`)."""
    try:
        question = row["question"]
        letters = [str(choice["label"]) for choice in question["choices"]]
        options = tuple(f"A: {choice['text']}" for choice in question["choices"])
        stem, right = str(question["stem"]), letters.index(row["answerKey"])
    except (KeyError, TypeError, ValueError) as error:
        raise bad(path, line, f"not CommonsenseQA: {type(error).__name__}: {error}") from None
    return Choice(f"Q: {stem}", options, right, f"{path}:{line}")
