"""Reads tables row by row in little memory: CSV, TSV, JSONL and Parquet, plain or compressed.

Values are what the file says: text in CSV and TSV, JSON's and Parquet's own types elsewhere. A row
that cannot be read is an error with its file and line; nothing is guessed and nothing left out.
"""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from roberta_hub.arguments import path_of, shown
from roberta_hub.errors import (
    InputError,
    MissingExtraError,
    RobertaHubError,
    UnknownNameError,
    near_names,
)
from roberta_hub.extras import install
from roberta_hub.terminal import clean

FORMATS = ("tsv", "jsonl", "parquet", "csv")
"""What `open_table` reads."""
SUFFIXES = {**{name: name for name in FORMATS}, "ndjson": "jsonl", "pq": "parquet"}
"""The format that each ending of a file's name stands for; `.gz` and `.xz` may follow."""
MAX_FIELD = 10_000_000
"""Characters of a CSV field. A quote that is never closed makes the rest of a file one field."""
LOOK = 1000
"""Lines by which a TSV shows whether its fields are quoted."""
SHOWN = 20
"""Columns that an error lists."""


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    values: dict[str, Any]
    """The value of each column."""
    number: int
    """The line it begins on, counted from 1; of Parquet and of frames its number from 1."""
    where: str
    """File and line, for messages: "reviews.csv:12"."""


@dataclass(frozen=True)
class Table:
    """A table whose rows can be read any number of times."""

    name: str
    """What errors call it: the path."""
    columns: list[str]
    """Names in the file's order; of JSONL those of its first 100 objects."""
    read: Callable[[], Iterator[tuple[int, dict[str, Any]]]]
    """Reads the rows anew, with their numbers."""

    def rows(self) -> Iterator[Row]:
        """Read the rows from the first on.

        Raises:
            InputError: a row that cannot be read; the message has its file and line.
        """
        for number, values in self.read():
            yield Row(values, number, f"{self.name}:{number}")

    def check(self, column: object) -> str:
        """Return the name of a column that the table has.

        Args:
            column: what a caller passed.

        Raises:
            UnknownNameError: no such column; the message lists all, with the values of two rows.

        Example:
            >>> Table("x.csv", ["text"], lambda: iter([(2, {"text": "Fine."})])).check("texts")
            Traceback (most recent call last):
            ...
            roberta_hub.errors.UnknownNameError: x.csv has no column 'texts'; did you mean text? \
Its columns, with two rows: text ('Fine.')
        """
        if isinstance(column, str) and column in self.columns:
            return column
        near = near_names(column, self.columns) if isinstance(column, str) else ""
        hint = f"; did you mean {clean(near)}?" if near else ";"
        raise UnknownNameError(f"{self.name} has no column {shown(column)}{hint} {self.listed()}")

    def listed(self) -> str:
        """List the columns for a message, each with its values in the first two rows."""
        if not self.columns:
            return "It is empty"
        rows = [values for _, values in islice(self.read(), 2)]
        columns = [
            f"{clean(name)[:60]} ({', '.join(clean(shown(row.get(name), 40)) for row in rows)})"
            for name in self.columns[:SHOWN]
        ]
        more = len(self.columns) - SHOWN
        columns += [f"and {more} more"] if more > 0 else []
        return f"Its columns, with two rows: {'; '.join(columns)}"


def open_table(path: str | os.PathLike[str], format: str | None = None) -> Table:
    r"""Open a table, and read its columns' names.

    - CSV: fields in quotes as spreadsheets write them, a quote inside doubled. The separator is the
      comma; where the first line has none, the semicolon or the tab.
    - TSV: quotes are characters as in GLUE's files, unless they are quotes: every field in the
      first 1,000 lines that holds one is written as in a CSV, and one of them has a doubled quote
      inside, or the whole header is quoted.
    - JSONL: an object a line. Parquet: needs pyarrow.

    Text is UTF-8, with or without a byte order mark; lines end with LF or CRLF.

    Args:
        path: a file; `.gz` and `.xz` are unpacked on the fly.
        format: one of `FORMATS`; None: by the file's name.

    Raises:
        InputError: no such file, no such format, or a file that is something else.
        UnknownNameError: a format that is not known.
        MissingExtraError: Parquet without pyarrow.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "reviews.csv"
        >>> _ = path.write_text('review,stars\n"Good, ""very"" good.",5\n')
        >>> table = open_table(path)
        >>> table.columns
        ['review', 'stars']
        >>> [row.values for row in table.rows()]
        [{'review': 'Good, "very" good.', 'stars': '5'}]
    """
    path = path_of("the table", path)
    if format is not None and format not in FORMATS:
        near = near_names(format, FORMATS)
        raise UnknownNameError(
            f"format is {shown(format)}; " + (f"did you mean {near}?" if near else _among())
        )
    format = format or format_of(path)
    if format is None:
        raise InputError(
            f"{str(path)[:300]}: its name does not say what it is; {_among()}{_excel(path)}"
        )
    check_file(path)
    columns, read = _READERS[format](path)
    if twice := sorted({name for name in columns if columns.count(name) > 1}):
        at = "" if format == "parquet" else ":1"
        raise InputError(f"{path}{at}: two columns have the same name, {shown(twice[0])}")
    return Table(str(path), columns, read)


def format_of(path: Path) -> str | None:
    """Tell a table's format by its name; None: the name does not say.

    Example:
        >>> format_of(Path("Reviews.CSV.gz")), format_of(Path("reviews.txt"))
        ('csv', None)
    """
    suffixes = [suffix[1:].lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in ("gz", "xz"):
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def _among() -> str:
    return f"there are {', '.join(FORMATS)}"


def _excel(path: Path) -> str:
    if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        return "; save the sheet as CSV UTF-8"
    return "; write an object a line, as .jsonl" if path.suffix.lower() == ".json" else ""


def bad(path: Path, line: int | str, what: str) -> InputError:
    """Make the error of one row: its file, its line and what is wrong."""
    return InputError(f"{path}:{line}: {what}")


def check_file(path: Path) -> None:
    """Refuse a path where no file is."""
    if not os.path.isfile(path):  # which also answers for names that no file can have
        what = "a folder, not a file" if os.path.isdir(path) else "no such file"
        raise InputError(f"{str(path)[:300]}: {what}")


# ---- lines ----


def lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Read a UTF-8 file as (number from 1, line without its end); only "\n" ends a line.

    Raises:
        InputError: no such file, not UTF-8, or one that cannot be unpacked.
    """
    for number, text in _raw_lines(path):
        yield number, text.rstrip("\r\n")


def _raw_lines(path: Path) -> Iterator[tuple[int, str]]:
    check_file(path)
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, 1):
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    other = _other_than_text(raw) if number == 1 else ""
                    what = other or f"not UTF-8: {error}; convert the file"
                    raise bad(path, number, what) from None
                yield number, text
    except RobertaHubError:
        raise
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        damaged = "; damaged, or not what its name says" if path.suffix in (".gz", ".xz") else ""
        raise InputError(f"{path}: cannot be read: {error}{damaged}") from None


def _other_than_text(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "not UTF-8 but UTF-16; save it as CSV UTF-8"
    kinds = {b"PK\x03\x04": "a zip or Excel file", b"PAR1": "a Parquet file", b"\x1f\x8b": "gzip"}
    kind = next((name for magic, name in kinds.items() if raw.startswith(magic)), None)
    return f"not UTF-8 but {kind}; its name says otherwise" if kind else ""


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".xz":
        return lzma.open(path)
    if path.suffix == ".gz":
        return gzip.open(path)  # type: ignore[return-value]
    return open(path, "rb")


# ---- one reader a format: path -> (columns, what reads the rows) ----

Rows = Iterator[tuple[int, dict[str, Any]]]
Reader = tuple[list[str], Callable[[], Rows]]


def _csv(path: Path) -> Reader:
    first = next(lines(path), (1, ""))[1]
    if said := re.fullmatch(r"sep=(.)", first):  # how Excel is told the separator
        return _with_header(path, lambda: islice(_records(path, said[1]), 1, None))
    bare = re.sub(r'"[^"]*"', "", first)
    separator = next((sign for sign in ",;\t" if sign in bare), ",")
    return _with_header(path, lambda: _records(path, separator))


def _tsv(path: Path) -> Reader:
    if _is_quoted(path):
        return _with_header(path, lambda: _records(path, "\t"))
    return _with_header(path, lambda: ((line, text.split("\t")) for line, text in lines(path)))


def _with_header(path: Path, records: Callable[[], Iterator[tuple[int, list[str]]]]) -> Reader:
    """Name the fields after the first record; where it leaves a name out, by their place."""
    header = next(iter(records()), (1, []))[1]
    columns = [name.strip() or f"column {i}" for i, name in enumerate(header, 1)]

    def read() -> Rows:
        for line, cells in islice(records(), 1, None):
            if len(cells) == len(columns):
                yield line, dict(zip(columns, cells, strict=True))
            elif cells != [""]:  # a blank line has no fields
                raise bad(
                    path,
                    line,
                    f"{len(cells)} fields, the header has {len(columns)}; a text with a separator "
                    "in it needs quotes in a CSV, and cannot be in a TSV",
                )

    return columns, read


def _records(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Read the records of a CSV, each with the line it begins on."""
    # The limit belongs to the process; it is only ever raised.
    csv.field_size_limit(max(MAX_FIELD, csv.field_size_limit()))
    reader = csv.reader((text for _, text in _raw_lines(path)), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise bad(path, line, csv_trouble(error)) from None
        if any("\0" in cell for cell in cells):
            raise bad(path, line, "holds a NUL, which no text does; is the file UTF-8?")
        if cells:
            yield line, cells


def csv_trouble(error: csv.Error) -> str:
    """Say what is wrong with a row that `csv.reader` refuses, and what mends it."""
    said = str(error)
    if "expected after" in said:
        return "text stands behind a closing quote; a quote inside a quoted field is doubled"
    if "unexpected end" in said or "field larger" in said:
        return "a quote opens here that is never closed; a quote inside a quoted field is doubled"
    if "new-line character" in said:
        return "a line ends with CR alone; save the file with LF or CRLF"
    return f"not CSV: {said}"


_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def _is_quoted(path: Path) -> bool:
    """Tell whether the fields of a TSV are quoted as in a CSV; see `open_table`."""
    doubled = False
    for line, text in islice(lines(path), LOOK):
        cells = text.split("\t")
        fields = [cell for cell in cells if '"' in cell]
        if not all(map(_QUOTED.fullmatch, fields)):
            return False
        if line == 1 and len(fields) == len(cells):
            return True
        doubled = doubled or any('""' in cell[1:-1] for cell in fields)
    return doubled


def _jsonl(path: Path) -> Reader:
    def read() -> Rows:
        for line, text in lines(path):
            if text.strip():
                yield line, json_object(text, path, line)

    rows = read()
    columns = dict.fromkeys(next(rows, (1, {}))[1])
    with suppress(InputError):  # of a later row: it is said when that row is read
        for _, values in islice(rows, 99):
            columns |= dict.fromkeys(values)
    return list(columns), read


def json_object(text: str, path: Path, line: int | str) -> dict[str, Any]:
    """Read the JSON object that a line holds."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad(path, line, f"not JSON: {error}; a JSONL file has an object a line") from None
    if not isinstance(value, dict):
        raise bad(path, line, f"a JSON {type(value).__name__}, not an object")
    return value


def _parquet(path: Path) -> Reader:
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(f"{path}: Parquet needs pyarrow: {install('tables')}") from None
    failures = (pyarrow.ArrowException, OSError, ValueError, OverflowError)

    def read() -> Rows:
        try:
            number = 0
            for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=4096):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
        except failures as error:
            raise unreadable(error) from None

    def unreadable(error: Exception) -> InputError:
        return InputError(f"{path}: not a readable Parquet file: {str(error)[:200]}")

    try:
        return list(pyarrow.parquet.ParquetFile(path).schema_arrow.names), read
    except failures as error:
        raise unreadable(error) from None


_READERS = {"csv": _csv, "tsv": _tsv, "jsonl": _jsonl, "parquet": _parquet}
