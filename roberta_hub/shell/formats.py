"""Writes answers as text: a table for people; JSONL, CSV and TSV for programs."""

from __future__ import annotations

import csv
import io
import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TextIO

from roberta_hub.shell.drawing import Page
from roberta_hub.shell.reading import Item
from roberta_hub.terminal import clean
from roberta_hub.verbs.question import Form, Record

_BETWEEN = {"labels": ", "}
"""What stands between the items of a list in one cell, where it is no blank."""
DIGITS = 8
"""Digits of a number that is written as text: about what float32 holds."""


class Sink(Protocol):
    """Takes the answers, window by window."""

    def write(self, items: Sequence[Item], answers: Sequence[Record]) -> None:
        """Write an answer for each input."""

    def close(self) -> None:
        """Write what was held back."""


class Table:
    """Answers for people: a line each, or a block below each text that was an argument."""

    def __init__(self, stream: TextIO, form: Form, *, blocks: bool) -> None:
        """Write to a stream.

        Args:
            stream: a terminal, or anything else.
            form: of the answers.
            blocks: whether texts are arguments.
        """
        self._page, self._form = Page(stream), form
        self._blocks = form.line is None or (blocks and form.block is not None)

    def write(self, items: Sequence[Item], answers: Sequence[Record]) -> None:
        """Draw an answer for each input."""
        form = self._form
        names = form.parts.called(len(items[0].texts))
        rows = zip(items, answers, strict=True)
        if self._blocks:
            assert form.block is not None
            for item, answer in rows:
                self._page.block(item.texts[: len(names)], form.block(answer))
        else:
            assert form.line is not None
            cells = [(*item.texts[: len(names)], *form.line(answer)) for item, answer in rows]
            self._page.lines((*names, *form.titles), cells, texts=len(names))
        self._page.flush()

    def close(self) -> None:
        """Nothing is held back."""


class Jsonl:
    """Answers as a JSON object a line, in UTF-8."""

    def __init__(self, stream: TextIO, form: Form, *, blocks: bool) -> None:
        """Write to the bytes of a stream."""
        self._file, self._form = stream.buffer, form

    def write(self, items: Sequence[Item], answers: Sequence[Record]) -> None:
        """Write a line for each input, at once."""
        rows = map(self._form.row, (item.texts for item in items), answers)
        lines = [_escaped(json.dumps(plain(row), ensure_ascii=False)) + "\n" for row in rows]
        self._file.write("".join(lines).encode())
        self._file.flush()

    def close(self) -> None:
        """Nothing is held back."""


class Separated:
    """Answers as CSV or TSV. An answer with a list of several has a row for each of them."""

    def __init__(
        self, stream: TextIO, form: Form, *, blocks: bool, dialect: Mapping[str, Any]
    ) -> None:
        """Write to the bytes of a stream, as a dialect of Python's csv says."""
        self._file, self._form, self._dialect = stream.buffer, form, dialect
        self._header, self._shown = False, stream.isatty()

    def write(self, items: Sequence[Item], answers: Sequence[Record]) -> None:
        """Write the rows of each answer, at once."""
        self._put(
            row
            for item, answer in zip(items, answers, strict=True)
            for row in flat(self._form.row(item.texts, answer), self._form.sample)
        )

    def close(self) -> None:
        """Write the header where there was no answer."""
        if not self._header:
            self._put(iter(()))

    def _put(self, rows: Iterator[dict[str, Any]]) -> None:
        buffer = io.StringIO(newline="")
        for row in rows:
            if not self._header:
                self._line(buffer, list(row))
            self._line(buffer, list(row.values()))
        if not self._header:
            (row,) = flat(self._form.empty_row(), self._form.sample)
            self._line(buffer, list(row))
        self._file.write(buffer.getvalue().encode())
        self._file.flush()

    def _line(self, buffer: io.StringIO, cells: list[Any]) -> None:
        """Write a row; Python's csv leaves a CR without quotes, where lines end with LF."""
        self._header = True
        if self._shown:
            cells = list(map(clean, cells))
        quotes = any(isinstance(cell, str) and "\r" in cell for cell in cells)
        dialect = {**self._dialect, **({"quoting": csv.QUOTE_ALL} if quotes else {})}
        csv.writer(buffer, lineterminator="\n", **dialect).writerow(cells)


def comma(stream: TextIO, form: Form, *, blocks: bool) -> Separated:
    """Make what writes CSV."""
    return Separated(stream, form, blocks=blocks, dialect={"delimiter": ","})


def tab(stream: TextIO, form: Form, *, blocks: bool) -> Separated:
    """Make what writes TSV: a text with a tab in it is read back where all are in quotes."""
    dialect = {"delimiter": "\t", "quoting": csv.QUOTE_NONNUMERIC}
    return Separated(stream, form, blocks=blocks, dialect=dialect)


def _escaped(line: str) -> str:
    r"""Escape, as JSON does, what a terminal obeys and what may be taken for the end of a line.

    Example:
        >>> _escaped('{"text": "a\u2028b"}')
        '{"text": "a\\u2028b"}'
    """
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def plain(value: Any) -> Any:
    """Return a value as JSON has it, its numbers with as many digits as they deserve.

    Example:
        >>> plain({"score": 0.10000000149011612})
        {'score': 0.1}
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return list(map(plain, value)) if isinstance(value, (list, array)) else value


def flat(row: Mapping[str, Any], sample: Record) -> Iterator[dict[str, Any]]:
    """Return the rows of a table of plain cells that an answer has.

    Args:
        row: an input with its answer.
        sample: an answer with one of everything.

    Example:
        >>> row = {"text": "a", "scores": {"no": 0.25, "yes": 0.75}}
        >>> list(flat(row, {}))
        [{'text': 'a', 'scores.no': 0.25, 'scores.yes': 0.75}]
        >>> row = {"text": "a", "spans": [{"label": "PER"}, {"label": "LOC"}]}
        >>> [list(cells.values()) for cells in flat(row, row)]
        [['a', 'PER'], ['a', 'LOC']]
    """
    cells: dict[str, Any] = {}
    several: list[dict[str, Any]] = [{}]
    for name, value in row.items():
        first = (value or sample.get(name) or [None])[0] if isinstance(value, list) else None
        if isinstance(value, dict):
            cells |= {f"{name}.{inner}": plain(value[inner]) for inner in sorted(value)}
        elif isinstance(first, dict):
            blank = dict.fromkeys(first, "")
            several = [
                {f"{name}.{inner}": plain(cell) for inner, cell in one.items()}
                for one in value or [blank]
            ]
        elif isinstance(value, list):
            cells[name] = _BETWEEN.get(name, " ").join(map(str, value))
        else:
            cells[name] = plain(value)
    for one in several:
        yield cells | one
