"""Sinks for text: a table for terminals; JSONL, CSV and TSV."""

from __future__ import annotations

import csv
import io
import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TextIO

from roberta_hub.errors import Remedy
from roberta_hub.rows.columns import check_clash
from roberta_hub.shell.drawing import Page
from roberta_hub.shell.kept import cell_text, json_value
from roberta_hub.shell.layout import AnsweredRow, Layout
from roberta_hub.shell.reading import Item
from roberta_hub.terminal import clean
from roberta_hub.verbs.question import Record

_LIST_SEPARATORS = {"labels": ", "}
"""Separators of the items of a list in one cell; default: a space."""
SIGNIFICANT_DIGITS = 8
"""Significant digits of numbers in text, about those of float32."""


class Sink(Protocol):
    """Writes answers, window by window."""

    def write(self, rows: Sequence[AnsweredRow]) -> None:
        """Write the answer of each input."""

    def close(self) -> None:
        """Write the rest."""


class TableSink:
    """Answers for terminals: a line each, or a block below each text given as an argument."""

    def __init__(self, stream: TextIO, layout: Layout) -> None:
        """Write to a stream: a terminal, or anything else."""
        self._page, self._layout = Page(stream), layout
        answer_format = layout.answer_format
        self._blocks = answer_format.line is None or (
            layout.blocks and answer_format.block is not None
        )

    def write(self, rows: Sequence[AnsweredRow]) -> None:
        """Draw the answer of each input; in its place why there is none."""
        answer_format, names = self._layout.answer_format, self._layout.names
        if self._blocks:
            assert answer_format.block is not None
            for row in rows:
                texts = row.item.texts[: len(names)] or (row.item.where,)
                cells = [(_why(row),)] if row.record is None else answer_format.block(row.record)
                self._page.block(texts, cells)
        else:
            assert answer_format.line is not None
            count = len(answer_format.line(self._layout.example(rows)))
            lines = [
                (
                    *(row.item.texts[: len(names)] or ("",) * len(names)),
                    *(
                        (_why(row), *("",) * (count - 1))
                        if row.record is None
                        else answer_format.line(row.record)
                    ),
                )
                for row in rows
            ]
            self._page.lines((*names, *answer_format.titles), lines, texts=len(names))
        self._page.flush()

    def close(self) -> None:
        """Do nothing."""


def _why(row: AnsweredRow) -> str:
    return f"(none: {row.error.what if row.error else 'no answer'})"


class JsonlSink:
    """Answers as JSONL in UTF-8."""

    def __init__(self, stream: TextIO, layout: Layout) -> None:
        """Write to the bytes of a stream."""
        self._file, self._layout, self._checked = stream.buffer, layout, False

    def write(self, rows: Sequence[AnsweredRow]) -> None:
        """Write a line for each input, at once."""
        if not self._checked:
            self._layout.check(list(self._layout.example(rows)))
            self._checked = True
        lines = []
        for row in rows:
            beside, answer = self._layout.beside(row.item), self._layout.answer(row)
            check_clash(list(beside), list(answer), Remedy(f"it is in {row.item.where}; {_KEEP}"))
            value = {**json_value(beside), **rounded(answer)}
            lines.append(_escaped(json.dumps(value, ensure_ascii=False)) + "\n")
        self._file.write("".join(lines).encode())
        self._file.flush()

    def close(self) -> None:
        """Do nothing."""


_KEEP = "--keep NAME,NAME names the columns to keep, --keep none keeps no column"


class DelimitedSink:
    """Answers as CSV or TSV; an answer that is a list has a row per item."""

    def __init__(self, stream: TextIO, layout: Layout, dialect: Mapping[str, Any]) -> None:
        """Write to the bytes of a stream, in a dialect of Python's csv."""
        self._file, self._layout, self._dialect = stream.buffer, layout, dialect
        self._columns: list[str] = []
        """Names of the cells of an answer; none: the header is not written yet."""
        self._shown = stream.isatty()

    def write(self, rows: Sequence[AnsweredRow]) -> None:
        """Write the rows of each answer, at once."""
        buffer = io.StringIO(newline="")
        if not self._columns:
            self._write_header(buffer, self._layout.example(rows), rows[0].item)
        sample = self._layout.answer_format.sample
        for row in rows:
            beside = [*map(cell_text, self._layout.beside(row.item).values())]
            error = [row.why or ""] if self._layout.has_error_column else []
            for cells in [{}] if row.record is None else flat_rows(row.record, sample):
                values = [cells.get(name, "") for name in self._columns]
                self._line(buffer, [*beside, *values, *error])
        self._put(buffer)

    def close(self) -> None:
        """Write the header if there was no answer."""
        if not self._columns:
            buffer = io.StringIO(newline="")
            self._write_header(buffer, self._layout.answer_format.sample, None)
            self._put(buffer)

    def _write_header(self, buffer: io.StringIO, example: Record, item: Item | None) -> None:
        first = next(flat_rows(example, self._layout.answer_format.sample))
        self._columns = list(first)
        self._layout.check(self._columns)
        beside = self._layout.empty_beside() if item is None else self._layout.beside(item)
        error = ["error"] if self._layout.has_error_column else []
        self._line(buffer, [*beside, *self._columns, *error])

    def _put(self, buffer: io.StringIO) -> None:
        self._file.write(buffer.getvalue().encode())
        self._file.flush()

    def _line(self, buffer: io.StringIO, cells: list[Any]) -> None:
        """Write a row; quote cells with a CR, which Python's csv omits if lines end with LF."""
        if self._shown:
            cells = list(map(clean, cells))
        quotes = any(isinstance(cell, str) and "\r" in cell for cell in cells)
        dialect = {**self._dialect, **({"quoting": csv.QUOTE_ALL} if quotes else {})}
        csv.writer(buffer, lineterminator="\n", **dialect).writerow(cells)


def csv_sink(stream: TextIO, layout: Layout) -> DelimitedSink:
    """Make a CSV sink."""
    return DelimitedSink(stream, layout, {"delimiter": ","})


def tsv_sink(stream: TextIO, layout: Layout) -> DelimitedSink:
    """Make a TSV sink; texts are quoted, so that tabs in them can be read back."""
    return DelimitedSink(stream, layout, {"delimiter": "\t", "quoting": csv.QUOTE_NONNUMERIC})


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
