"""Sinks for text: a table for terminals; JSONL, CSV and TSV."""

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
from roberta_hub.verbs.question import AnswerFormat, Record

_LIST_SEPARATORS = {"labels": ", "}
"""Separators of the items of a list in one cell; default: a space."""
SIGNIFICANT_DIGITS = 8
"""Significant digits of numbers in text, about those of float32."""


class Sink(Protocol):
    """Writes answers, window by window."""

    def write(self, items: Sequence[Item], answers: Sequence[Record]) -> None:
        """Write an answer for each input."""

    def close(self) -> None:
        """Write the rest."""


class TableSink:
    """Answers for terminals: a line each, or a block below each text given as an argument."""

    def __init__(self, stream: TextIO, answer_format: AnswerFormat, *, blocks: bool) -> None:
        """Write to a stream.

        Args:
            stream: a terminal, or anything else.
            answer_format: of the answers.
            blocks: whether texts are arguments.
        """
        self._page, self._answer_format = Page(stream), answer_format
        self._blocks = answer_format.line is None or (blocks and answer_format.block is not None)

    def write(self, items: Sequence[Item], answers: Sequence[Record]) -> None:
        """Draw an answer for each input."""
        answer_format = self._answer_format
        names = answer_format.parts.called(len(items[0].texts))
        rows = zip(items, answers, strict=True)
        if self._blocks:
            assert answer_format.block is not None
            for item, answer in rows:
                self._page.block(item.texts[: len(names)], answer_format.block(answer))
        else:
            assert answer_format.line is not None
            cells = [
                (*item.texts[: len(names)], *answer_format.line(answer)) for item, answer in rows
            ]
            self._page.lines((*names, *answer_format.titles), cells, texts=len(names))
        self._page.flush()

    def close(self) -> None:
        """Do nothing."""


class JsonlSink:
    """Answers as JSONL in UTF-8."""

    def __init__(self, stream: TextIO, answer_format: AnswerFormat, *, blocks: bool) -> None:
        """Write to the bytes of a stream."""
        self._file, self._answer_format = stream.buffer, answer_format

    def write(self, items: Sequence[Item], answers: Sequence[Record]) -> None:
        """Write a line for each input, at once."""
        rows = map(self._answer_format.row, (item.texts for item in items), answers)
        lines = [_escaped(json.dumps(rounded(row), ensure_ascii=False)) + "\n" for row in rows]
        self._file.write("".join(lines).encode())
        self._file.flush()

    def close(self) -> None:
        """Do nothing."""


class DelimitedSink:
    """Answers as CSV or TSV; an answer that is a list has a row per item."""

    def __init__(
        self,
        stream: TextIO,
        answer_format: AnswerFormat,
        *,
        blocks: bool,
        dialect: Mapping[str, Any],
    ) -> None:
        """Write to the bytes of a stream, in a dialect of Python's csv."""
        self._file, self._answer_format, self._dialect = stream.buffer, answer_format, dialect
        self._header, self._shown = False, stream.isatty()

    def write(self, items: Sequence[Item], answers: Sequence[Record]) -> None:
        """Write the rows of each answer, at once."""
        self._put(
            row
            for item, answer in zip(items, answers, strict=True)
            for row in flat_rows(
                self._answer_format.row(item.texts, answer), self._answer_format.sample
            )
        )

    def close(self) -> None:
        """Write the header if there was no answer."""
        if not self._header:
            self._put(iter(()))

    def _put(self, rows: Iterator[dict[str, Any]]) -> None:
        buffer = io.StringIO(newline="")
        for row in rows:
            if not self._header:
                self._line(buffer, list(row))
            self._line(buffer, list(row.values()))
        if not self._header:
            (row,) = flat_rows(self._answer_format.empty_row(), self._answer_format.sample)
            self._line(buffer, list(row))
        self._file.write(buffer.getvalue().encode())
        self._file.flush()

    def _line(self, buffer: io.StringIO, cells: list[Any]) -> None:
        """Write a row; quote cells with a CR, which Python's csv omits if lines end with LF."""
        self._header = True
        if self._shown:
            cells = list(map(clean, cells))
        quotes = any(isinstance(cell, str) and "\r" in cell for cell in cells)
        dialect = {**self._dialect, **({"quoting": csv.QUOTE_ALL} if quotes else {})}
        csv.writer(buffer, lineterminator="\n", **dialect).writerow(cells)


def csv_sink(stream: TextIO, answer_format: AnswerFormat, *, blocks: bool) -> DelimitedSink:
    """Make a CSV sink."""
    return DelimitedSink(stream, answer_format, blocks=blocks, dialect={"delimiter": ","})


def tsv_sink(stream: TextIO, answer_format: AnswerFormat, *, blocks: bool) -> DelimitedSink:
    """Make a TSV sink; texts are quoted, so that tabs in them can be read back."""
    dialect = {"delimiter": "\t", "quoting": csv.QUOTE_NONNUMERIC}
    return DelimitedSink(stream, answer_format, blocks=blocks, dialect=dialect)


def _escaped(line: str) -> str:
    r"""Escape control characters and line ends of Unicode, as JSON does.

    Example:
        >>> _escaped('{"text": "a\u2028b"}')
        '{"text": "a\\u2028b"}'
    """
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def rounded(value: Any) -> Any:
    """Return a value for JSON, with numbers rounded to `SIGNIFICANT_DIGITS`.

    Example:
        >>> rounded({"score": 0.10000000149011612})
        {'score': 0.1}
    """
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    return list(map(rounded, value)) if isinstance(value, (list, array)) else value


def flat_rows(row: Mapping[str, Any], sample: Record) -> Iterator[dict[str, Any]]:
    """Flatten an answer into rows of plain cells.

    Args:
        row: an input with its answer.
        sample: the example record of the format.

    Example:
        >>> row = {"text": "a", "scores": {"no": 0.25, "yes": 0.75}}
        >>> list(flat_rows(row, {}))
        [{'text': 'a', 'scores.no': 0.25, 'scores.yes': 0.75}]
        >>> row = {"text": "a", "spans": [{"label": "PER"}, {"label": "LOC"}]}
        >>> [list(cells.values()) for cells in flat_rows(row, row)]
        [['a', 'PER'], ['a', 'LOC']]
    """
    cells: dict[str, Any] = {}
    several: list[dict[str, Any]] = [{}]
    for name, value in row.items():
        first = (value or sample.get(name) or [None])[0] if isinstance(value, list) else None
        if isinstance(value, dict):
            cells |= {f"{name}.{inner}": rounded(value[inner]) for inner in sorted(value)}
        elif isinstance(first, dict):
            blank = dict.fromkeys(first, "")
            several = [
                {f"{name}.{inner}": rounded(cell) for inner, cell in one.items()}
                for one in value or [blank]
            ]
        elif isinstance(value, list):
            cells[name] = _LIST_SEPARATORS.get(name, " ").join(map(str, value))
        else:
            cells[name] = rounded(value)
    for one in several:
        yield cells | one
