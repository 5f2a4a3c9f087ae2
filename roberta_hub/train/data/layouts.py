"""Words, choices, questions and pronouns -> plain records.

They come out of tables or out of the published sets' own layouts: RACE, CommonsenseQA, SQuAD 1.1
and 2, CoNLL and WNUT, WSC (SuperGLUE), Winogrande, GAP.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.train.config import near
from roberta_hub.train.data.examples import (
    TABLES,
    bad,
    check_file,
    check_format,
    json_object,
    lines,
    list_of,
    nonempty,
    roles,
    rows,
    text_of,
    value_of,
)
from roberta_hub.train.data.labels import label_of


@dataclass(frozen=True)
class Words:
    """A sentence in words, and a label for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    where: str


@dataclass(frozen=True)
class Choice:
    """Options in a context, one of which is right."""

    context: str
    options: tuple[str, ...]
    answer: int
    where: str


@dataclass(frozen=True)
class Question:
    """A question, and where a context answers it."""

    question: str
    context: str
    answers: tuple[tuple[int, str], ...]
    """(first character, text) of each accepted answer; none: the context has no answer."""
    where: str


@dataclass(frozen=True)
class Pronoun:
    """A pronoun, what it is said to refer to, and what else it could."""

    before: str
    pronoun: str
    after: str
    query: str
    candidates: tuple[str, ...]
    """The rivals; empty: to be found by spaCy."""
    label: bool
    """Whether the pronoun refers to the query."""
    where: str


def read_words(
    path: str | Path, format: str | None = None, columns: Mapping[str, Any] | None = None
) -> list[Words]:
    """Sentences with a label a word.

    Args:
        path: a file.
        format: "conll": the word first and the label last on a line, tabs or spaces between, a
            blank line between sentences; or a table with lists. None: "conll" unless the name says
            JSONL or Parquet.
        columns: of a table, which are `words` and `tags`.

    Raises:
        InputError: a row that cannot be read, with its file and line.
    """
    path = Path(path)
    if format is None and path.suffix[1:] not in ("jsonl", "parquet"):
        format = "conll"
    if format == "conll":
        return nonempty(list(_conll(path)), path)
    check_format(format, ("conll", "jsonl", "parquet"))
    named = roles(columns, ("words", "tags"), {"words": "words", "tags": "tags"})
    found = []
    for line, row in rows(path, format):
        words = tuple(list_of(row, named["words"], path, line))
        where = f"{path}:{line}"
        tags = tuple(label_of(tag, where) for tag in list_of(row, named["tags"], path, line))
        if len(words) != len(tags) or not words:
            raise bad(path, line, f"{len(words)} words and {len(tags)} tags")
        found.append(Words(words, tags, where))
    return nonempty(found, path)


def _conll(path: Path) -> Iterator[Words]:
    pairs: list[tuple[str, str]] = []
    first = 0
    for line, text in lines(path):
        if not text.strip():
            if pairs:
                yield _sentence(pairs, path, first)
            pairs = []
            continue
        cells = text.split("\t") if "\t" in text else text.split()
        if cells[0].strip() == "-DOCSTART-":
            continue
        if len(cells) < 2 or not cells[0].strip() or not cells[-1].strip():
            raise bad(path, line, f"{text[:40]!r} is not a word and a label")
        first = first if pairs else line
        pairs.append((cells[0].strip(), label_of(cells[-1], f"{path}:{line}")))
    if pairs:
        yield _sentence(pairs, path, first)


def _sentence(pairs: list[tuple[str, str]], path: Path, line: int) -> Words:
    return Words(tuple(w for w, _ in pairs), tuple(t for _, t in pairs), f"{path}:{line}")


def read_choices(
    path: str | Path, format: str | None = None, columns: Mapping[str, Any] | None = None
) -> list[Choice]:
    """Multiple choice.

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
        number = options.index(answer) if answer in options else _number(answer)
        if number is None or not 0 <= number < len(options):
            raise bad(path, line, f"answer {answer!r} is none of {len(options)} options")
        context = text_of(row, named["context"], path, line)
        found.append(Choice(context, options, number, f"{path}:{line}"))
    return nonempty(found, path)


def _number(value: Any) -> int | None:
    return int(value) if re.fullmatch(r"\d{1,6}", str(value)) else None


def _race(path: Path) -> Iterator[Choice]:
    """`_` in a question stands for the option, else they are joined, as in fairseq.

    The code there is `preprocess_RACE.py`.
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
    """`Q: question`, `A: option` (fairseq `examples/roberta/commonsense_qa`)."""
    try:
        question = row["question"]
        letters = [str(choice["label"]) for choice in question["choices"]]
        options = tuple(f"A: {choice['text']}" for choice in question["choices"])
        stem, right = str(question["stem"]), letters.index(row["answerKey"])
    except (KeyError, TypeError, ValueError) as error:
        raise bad(path, line, f"not CommonsenseQA: {type(error).__name__}: {error}") from None
    return Choice(f"Q: {stem}", options, right, f"{path}:{line}")


def read_questions(
    path: str | Path, format: str | None = None, columns: Mapping[str, Any] | None = None
) -> list[Question]:
    """Questions with contexts that answer them.

    Args:
        path: a file.
        format: "squad": SQuAD's JSON, 1.1 or 2; or a table. None: "squad" where the name ends with
            .json.
        columns: of a table, which are `question`, `context`, and `answers`: a text that occurs in
            the context, a list of such, or {"text": [...], "answer_start": [...]}; "" or [] for no
            answer.

    Raises:
        InputError: a row that cannot be read, or an answer that is not where it should be.
    """
    path = Path(path)
    if format == "squad" or (format is None and path.suffix == ".json"):
        return nonempty(list(_squad(path)), path)
    check_format(format, ("squad", *TABLES))
    names = ("question", "context", "answers")
    named = roles(columns, names, {name: name for name in names})
    found = []
    for line, row in rows(path, format):
        context = text_of(row, named["context"], path, line)
        question = text_of(row, named["question"], path, line)
        given = value_of(row, named["answers"], path, line)
        if isinstance(given, dict):
            starts, texts = given.get("answer_start", ()), given.get("text", ())
            if len(starts) != len(texts):
                raise bad(path, line, f"{len(texts)} answers and {len(starts)} starts")
            pairs = list(zip(starts, texts, strict=True))
        else:
            texts = given if isinstance(given, list) else [given]
            pairs = [(context.find(str(text)), str(text)) for text in texts if str(text)]
        where = f"{path}:{line}"
        found.append(Question(question, context, _checked(pairs, context, where), where))
    return nonempty(found, path)


def _squad(path: Path) -> Iterator[Question]:
    check_file(path)
    about = json_object("".join(text for _, text in lines(path)), path, 1)
    where = str(path)
    try:
        for article in about["data"]:
            for paragraph in article["paragraphs"]:
                context = paragraph["context"]
                for qa in paragraph["qas"]:
                    where = f"{path}:question {qa['id']}"
                    given = [] if qa.get("is_impossible") else qa["answers"]
                    pairs = [(a["answer_start"], a["text"]) for a in given]
                    yield Question(qa["question"], context, _checked(pairs, context, where), where)
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


def read_pronouns(path: str | Path, format: str | None = None) -> list[Pronoun]:
    """Ambiguous pronouns.

    Args:
        path: a file.
        format: "wsc" (SuperGLUE's JSONL, to which a row may add "candidates", a list), "winogrande"
            (JSONL) or "gap" (TSV).

    Raises:
        InputError: a row that cannot be read, with its file and line.
    """
    path = Path(path)
    if format == "wsc":
        return nonempty([_wsc(row, path, line) for line, row in rows(path, "jsonl")], path)
    if format == "winogrande":
        return nonempty([_winogrande(row, path, line) for line, row in rows(path, "jsonl")], path)
    if format == "gap":
        return nonempty([_gap(row, path, line) for line, row in rows(path, "tsv")], path)
    raise UnknownNameError(f"data.format is {format!r}{near(format, ('wsc', 'winogrande', 'gap'))}")


_BEHIND = '.,"'


def _wsc(row: dict[str, Any], path: Path, line: int) -> Pronoun:
    """`target.span2` is the pronoun, counted in words, `span1` what it is said to refer to.

    Some indices are one too low; punctuation behind the pronoun belongs to the sentence (fairseq
    `wsc_utils.py`).
    """
    target = row.get("target")
    if not isinstance(target, dict):
        raise bad(path, line, "has no 'target'")
    text, query = text_of(row, "text", path, line), text_of(target, "span1_text", path, line)
    pronoun, place = text_of(target, "span2_text", path, line), target.get("span2_index")
    words, pronoun = text.split(" "), pronoun.rstrip(_BEHIND)
    if not isinstance(place, int) or not 0 <= place < len(words):
        raise bad(path, line, f"span2_index {place!r} is outside the text of {len(words)} words")
    there = [
        i for i in (place, place + 1) if words[i : i + 1] and words[i].rstrip(_BEHIND) == pronoun
    ]
    if not there or not pronoun:
        raise bad(path, line, f"{pronoun!r} does not stand at word {place}")
    start = sum(len(word) + 1 for word in words[: there[0]])
    label = value_of(row, "label", path, line)
    if not isinstance(label, bool):
        raise bad(path, line, f"label {label!r} is neither true nor false")
    candidates = tuple(list_of(row, "candidates", path, line)) if "candidates" in row else ()
    rest = text[start + len(pronoun) :]
    query = query[:-1] if query.endswith((".", ",")) else query
    return Pronoun(text[:start], pronoun, rest, query, candidates, label, f"{path}:{line}")


def _winogrande(row: dict[str, Any], path: Path, line: int) -> Pronoun:
    """`_` is the blank; the right option is the query, the other its rival."""
    text, answer = text_of(row, "sentence", path, line), str(value_of(row, "answer", path, line))
    if text.count("_") != 1 or answer not in ("1", "2"):
        raise bad(path, line, f"needs one '_' and the answer 1 or 2, not {answer!r}")
    before, after = text.split("_")
    right = text_of(row, f"option{answer}", path, line)
    wrong = text_of(row, f"option{3 - int(answer)}", path, line)
    return Pronoun(before, "_", after, right, (wrong,), True, f"{path}:{line}")


def _gap(row: dict[str, Any], path: Path, line: int) -> Pronoun:
    """The name that the pronoun means is the query; where it means neither, A is, wrongly."""
    text, pronoun = text_of(row, "Text", path, line), text_of(row, "Pronoun", path, line)
    start = _number(row.get("Pronoun-offset"))
    if start is None or text[start : start + len(pronoun)] != pronoun:
        raise bad(path, line, f"{pronoun!r} does not stand at character {start}")
    names = [text_of(row, name, path, line) for name in "AB"]
    truth = [str(row.get(f"{name}-coref")).upper() == "TRUE" for name in "AB"]
    if truth[1] and not truth[0]:
        names.reverse()
    rest = text[start + len(pronoun) :]
    return Pronoun(text[:start], pronoun, rest, names[0], (names[1],), any(truth), f"{path}:{line}")
