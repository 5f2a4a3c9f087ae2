"""Reads tables row by row: CSV, TSV, JSONL and Parquet in little memory, frames, dicts and lists.

Values are what the file says: text in CSV and TSV, JSON's and Parquet's own types elsewhere.
Nothing is guessed and nothing left out: a row that cannot be read is a `Fault` in its place.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from roberta_hub.arguments import kind_of, path_of, short_repr
from roberta_hub.errors import (
    InputError,
    InputTypeError,
    Remedy,
    RobertaHubError,
    UnknownNameError,
    close_names,
)
from roberta_hub.rows.arrow import (
    column_values,
    import_arrow,
    parquet_tables,
    plain_schema,
    saved_class_names,
)
from roberta_hub.rows.delimited import RowValues, csv_header, delimited_rows, tsv_header
from roberta_hub.rows.formats import (
    FRAME,
    JSONL,
    PARQUET,
    ROW_FORMATS,
    Missing,
    RowFormat,
    RowTexts,
)
from roberta_hub.rows.frames import class_names, column_names, column_of
from roberta_hub.rows.lines import (
    Line,
    check_file,
    decoded,
    file_state,
    raw_lines,
    unchanged,
)
from roberta_hub.rows.values import Fault, is_missing, value_or_raise
from roberta_hub.terminal import clean

FORMATS = ("tsv", "jsonl", "parquet", "csv")
"""What `open_table` reads."""
SUFFIXES = {ending: name for name in FORMATS for ending in ROW_FORMATS[name].endings}
"""File formats by suffix; `.gz` and `.xz` may follow."""
TABLE_FORMS = (
    "give a path to a CSV, TSV, JSONL or Parquet file, a data frame of pandas, polars or Arrow, "
    "a dict of columns or a list of dicts"
)
"""What `table_of` takes, in words."""
FILL = "drop the row or fill it"
"""What fixes a row in which something is missing."""
COLUMNS_SHOWN = 20
"""Columns that an error lists."""
JSONL_HEADER_OBJECTS = 100
"""Objects of a JSONL file that say which columns there are."""
PARQUET_BATCH_ROWS = 4096
"""Rows of Parquet that are read together."""
KEPT_ROWS = 1000
"""Rows by which it shows, at most, what columns hold."""
NumberedRows = Iterator[tuple[int, RowValues]]
"""Rows with their numbers."""


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    values: dict[str, Any]
    """The value of each column."""
    number: int
    """The line it begins on, counted from 1; of Parquet and of frames its number from 1."""
    where: str
    """File and line, for messages: "reviews.csv:12"."""
    format: RowFormat = FRAME
    """What its values are, and which of them are missing."""

    def error(self, why: str, remedy: Remedy | None = None) -> InputError:
        """Error for this row."""
        return InputError(why, place=self.where, remedy=remedy)

    def nothing(self, column: str) -> InputError:
        """Error for a column in which this row has nothing."""
        return self.error(f"nothing in the column {column!r}; {FILL}")

    def value(self, column: str) -> Any:
        """Return the value of a column."""
        if column not in self.values:
            raise self.error(f"no column {column!r}; there are {', '.join(map(str, self.values))}")
        value = self.values[column]
        if is_missing(value):
            raise self.nothing(column)
        return value

    def text(self, column: str) -> str:
        """Return the text in a column."""
        text = self.format.text(self.value(column), column)
        if isinstance(text, Missing):
            raise self.nothing(column)
        return value_or_raise(text, self.where)

    def texts_of(self, columns: Sequence[str]) -> RowTexts:
        """Read the text of a column, or the texts of two; a fault in the place of an error.

        Example:
            >>> Row({"a": "Goal!", "b": None}, 2, "x.jsonl:2", JSONL).texts_of(["a", "b"])
            Missing(why="nothing in the column 'b'")
        """
        return self.format.texts_of(self.values, columns)

    def texts(self, column: str | list[str] | tuple[str, ...]) -> list[str]:
        """Return the list of texts in a column, or the texts of several columns."""
        if not isinstance(column, str):
            return [self.text(name) for name in column]
        value = self.value(column)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(
                f"the column {column!r} holds {short_repr(value)}, not a list of texts"
            )
        return value


@dataclass(frozen=True)
class Table:
    """A table whose rows can be read any number of times."""

    name: str
    """What errors call it: the path."""
    columns: list[str]
    """Names in the file's order; of JSONL those of its first 100 objects."""
    read: Callable[[], NumberedRows]
    """Reads numbered rows from the start, faulty ones included."""
    headed: bool = False
    """Whether the names are the first row of a file, which may be a row of data as well."""
    format: RowFormat = FRAME
    """What the values are, and which of them are missing."""
    first: Callable[[], NumberedRows] | None = None
    """Reads the first rows of a pipe again, whose rows come once, and those after them."""
    schema: Any = None
    """Arrow's, of a Parquet file."""
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What `datasets` says that each number means, for columns with lists of numbers."""

    def rows(self) -> Iterator[Row]:
        """Read the rows from the first on."""
        for number, values in self.read():
            where = f"{self.name}:{number}"
            yield Row(value_or_raise(values, where), number, where, self.format)

    def kept(self) -> Table:
        """Return the table with its first rows kept: to look at them reads no file again."""
        return replace(self, read=_Kept(self.read).rows, first=None)

    def begin(self) -> NumberedRows:
        """Read rows from the start, to look at them; `read` yields them all the same."""
        return (self.first or self.read)()

    def check(self, column: object) -> str:
        """Return the name of a column that the table has.

        Example:
            >>> Table("x.csv", ["text"], lambda: iter([(2, {"text": "Fine."})])).check("texts")
            Traceback (most recent call last):
            ...
            roberta_hub.errors.UnknownNameError: x.csv has no column 'texts'; did you mean text? \
Its columns, with two rows: text ('Fine.')
        """
        if isinstance(column, str) and column in self.columns:
            return column
        raise unknown_column(self.name, column, self.columns, self.listed())

    def listed(self) -> str:
        """List the columns for a message, each with its values in the first two rows."""
        if not self.columns:
            return "It is empty"
        first = (values for _, values in self.begin() if not isinstance(values, Fault))
        rows = list(islice(first, 2))
        columns = [
            f"{clean(name)[:60]} "
            f"({', '.join(clean(short_repr(row.get(name), 40)) for row in rows)})"
            for name in self.columns[:COLUMNS_SHOWN]
        ]
        more = len(self.columns) - COLUMNS_SHOWN
        columns += [f"and {more} more"] if more > 0 else []
        return f"Its columns, with two rows: {'; '.join(columns)}"


class _Kept:
    """Rows of which the first are kept. The first reader of all rows continues behind them."""

    def __init__(self, read: Callable[[], NumberedRows]) -> None:
        self._read = read
        self._begin()

    def _begin(self) -> None:
        self._first: list[tuple[int, RowValues]] = []
        self._rest: NumberedRows | None = self._read()

    def rows(self) -> NumberedRows:
        """Read the rows from the start."""
        number = 0
        while number < KEPT_ROWS and (number < len(self._first) or self._take()):
            yield self._first[number]
            number += 1
        if number == KEPT_ROWS:
            rest, self._rest = self._rest, None
            yield from islice(self._read(), KEPT_ROWS, None) if rest is None else rest

    def _take(self) -> bool:
        before = len(self._first)
        try:
            self._first.extend(islice(self._rest or (), 1))
        except RobertaHubError:
            self._begin()  # a reader that has raised only ends when it is asked again
            raise
        return len(self._first) > before


def unknown_column(
    what: str, column: object, known: Iterable[object], listed: str
) -> UnknownNameError:
    """Error for a column that does not exist."""
    names = [name for name in known if isinstance(name, str)]
    near = close_names(column, names) if isinstance(column, str) else ""
    hint = f"; did you mean {clean(near)}?" if near else "."
    return UnknownNameError(f"{what} has no column {short_repr(column)}{hint} {listed}")


def open_table(
    path: str | os.PathLike[str], format: str | None = None, header: bool = True
) -> Table:
    r"""Open a table, and read its columns' names.

    - CSV: fields in quotes as spreadsheets write them, a quote inside doubled. The separator is the
      comma; where the first line has none, the semicolon or the tab.
    - TSV: quotes are characters as in GLUE's files, unless they are quotes: every field in the
      first 1,000 lines that holds one is written as in a CSV, and one of them has a doubled quote
      inside, or the whole header is quoted.
    - JSONL: an object a line. Parquet: needs pyarrow.

    Text is UTF-8, with or without a byte order mark; lines end with LF or CRLF.

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
        near = close_names(format, FORMATS)
        raise UnknownNameError(
            f"format is {short_repr(format)}; " + (f"did you mean {near}?" if near else _among())
        )
    format = format or format_of(path)
    if format is None:
        raise InputError(
            f"{str(path)[:300]}: its name does not say what it is; {_among()}{_excel(path)}"
        )
    check_file(path)
    if format in ("csv", "tsv"):
        return _delimited(path, format, header)
    if not header:
        raise InputError(
            f"{str(path)[:300]}: only CSV and TSV have a header, and {format} names its columns",
            remedy=Remedy("leave header=False out", "leave --no-header out"),
        )
    return _READERS[format](path)


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


# ---- anything that holds rows ----


def table_of(value: Any, name: str = "table", header: bool = True) -> Table:
    """Return the table that a caller means.

    Example:
        >>> table = table_of({"text": ["Fine.", "Dull."], "label": [1, 0]})
        >>> [row.where for row in table.rows()]
        ['table:1', 'table:2']
    """
    if isinstance(value, Table):
        return value
    if isinstance(value, (str, os.PathLike)):
        return open_table(value, header=header)
    try:
        names = column_names(value, name)
        if names is not None:
            columns = {_key(key, name): column_of(value, key, name) for key in names}
            return _of_columns(columns, name, class_names(value))
    except RobertaHubError:
        raise
    except Exception as error:  # of another package's frame
        raise InputTypeError(
            f"{name} is a {kind_of(value)} whose columns cannot be read "
            f"({short_repr(str(error))}); {TABLE_FORMS}"
        ) from None
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return _of_rows(value, name)
    raise InputTypeError(f"{name} is a {kind_of(value)}; {TABLE_FORMS}")


def _key(key: object, name: str) -> str:
    if not isinstance(key, str):
        raise InputTypeError(f"{name} has a column {short_repr(key)}; names of columns are str")
    return key


def _of_columns(
    columns: Mapping[str, list[Any]], name: str, classes: Mapping[str, Sequence[str]]
) -> Table:
    sizes = {key: len(column) for key, column in columns.items()}
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{short_repr(key)} {size:,}" for key, size in sizes.items())
        raise InputError(f"{name} has columns of different lengths: {said}")

    def read() -> NumberedRows:
        for number, row in enumerate(zip(*columns.values(), strict=True), 1):
            yield number, dict(zip(columns, row, strict=True))

    return Table(name, list(columns), read, classes=classes)


def _of_rows(rows: Sequence[Any], name: str) -> Table:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise InputTypeError(f"{name}:{number} is a {kind_of(row)}, not a dict; {TABLE_FORMS}")
        if unnamed := [key for key in row if not isinstance(key, str)]:
            raise InputTypeError(
                f"{name}:{number} has a key {short_repr(unnamed[0])}; keys are str"
            )
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return Table(name, columns, lambda: ((i, dict(row)) for i, row in enumerate(rows, 1)))


# ---- one reader a format ----


def _delimited(path: Path, format: str, named: bool) -> Table:
    begun = file_state(path)

    def lines() -> Iterator[Line]:
        return raw_lines(path, begun=begun)

    header = csv_header(lines(), path, named) if format == "csv" else tsv_header(lines, path, named)

    def read() -> NumberedRows:
        return delimited_rows(islice(lines(), header.lines, None), header, header.lines + 1)

    return Table(str(path), list(header.columns), read, headed=named, format=ROW_FORMATS[format])


def _jsonl(path: Path) -> Table:
    columns: dict[str, None] = {}
    begun = file_state(path)

    def read() -> NumberedRows:
        return json_rows(raw_lines(path, begun=begun))

    for k, (number, values) in enumerate(islice(read(), JSONL_HEADER_OBJECTS)):
        if isinstance(values, Fault) and k:  # reported when that row is read
            break
        columns |= dict.fromkeys(value_or_raise(values, f"{path}:{number}"))
    return Table(str(path), list(columns), read, format=JSONL)


def json_rows(lines: Iterable[Line], first: int = 1) -> NumberedRows:
    """Read JSONL: an object a line, blank lines left out."""
    for number, line in enumerate(lines, first):
        text = decoded(line, number)
        if isinstance(text, Fault):
            yield number, text
        elif text.strip():
            yield number, json_object(text)


def json_object(text: str) -> RowValues:
    """Read the JSON object that a line holds.

    Example:
        >>> json_object('{"text": "Fine."}'), json_object("[]").why
        ({'text': 'Fine.'}, 'a JSON list, not an object')
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Fault(f"not JSON: {error}; a JSONL file has an object a line")
    return (
        value if isinstance(value, dict) else Fault(f"a JSON {type(value).__name__}, not an object")
    )


def json_row(text: str, number: int, name: object) -> Row:
    """Read the row that a line of JSONL holds."""
    where = f"{name}:{number}"
    return Row(value_or_raise(json_object(text), where), number, where, JSONL)


class _Replay:
    """Lines that come once, of which those that were looked at come again."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines, self._seen = iter(lines), deque[Line]()

    def look(self) -> Iterator[Line]:
        """Yield lines from the first on, and keep them."""
        number = 0
        while number < len(self._seen) or self._take():
            yield self._seen[number]
            number += 1

    def read(self) -> Iterator[Line]:
        """Yield lines from the first on, and keep none."""
        while self._seen:
            yield self._seen.popleft()
        yield from self._lines

    def _take(self) -> bool:
        before = len(self._seen)
        self._seen.extend(islice(self._lines, 1))
        return len(self._seen) > before


def stream_table(lines: Iterable[Line], format: str, name: str) -> Table:
    r"""Open a table whose lines come once, as they arrive in a pipe.

    Of JSONL the first object says which columns there are. A TSV shows by its first 1,000 lines
    whether its fields are quoted, so these are read first.

    Example:
        >>> table = stream_table([b"id,text\n", b"1,Goal!\n"], "csv", "standard input")
        >>> table.columns, [row.values["text"] for row in table.rows()]
        (['id', 'text'], ['Goal!'])
    """
    replay = _Replay(lines)
    kind = ROW_FORMATS[format]
    if format == "jsonl":
        first = next(json_rows(replay.look()), (1, dict[str, Any]()))
        columns = list(value_or_raise(first[1], f"{name}:{first[0]}"))
        read, look = (lambda: json_rows(replay.read())), (lambda: json_rows(replay.look()))
        return Table(name, columns, read, format=kind, first=look)
    header = csv_header(replay.look(), name) if format == "csv" else tsv_header(replay.look, name)

    def rows(found: Iterator[Line]) -> NumberedRows:
        return delimited_rows(islice(found, header.lines, None), header, header.lines + 1)

    return Table(
        name,
        list(header.columns),
        lambda: rows(replay.read()),
        headed=True,
        format=kind,
        first=lambda: rows(replay.look()),
    )


def parquet_table(file: Path | BinaryIO, name: str) -> Table:
    """Open a Parquet file."""
    path = name
    pa = import_arrow(f"{path}: Parquet")
    failures = (pa.ArrowException, OSError, ValueError, OverflowError)

    def unreadable(error: Exception) -> InputError:
        return InputError(f"{path}: not a readable Parquet file: {str(error)[:200]}")

    def read() -> NumberedRows:
        number = 0
        try:
            with unchanged(Path(name), state, begun):
                opened = pa.parquet.ParquetFile(file)
                for table in parquet_tables(
                    opened, name, columns, 0, opened.metadata.num_rows, PARQUET_BATCH_ROWS
                ):
                    values = [column_values(column) for column in table.columns]
                    for row in zip(*values, strict=True):
                        number += 1
                        yield number, dict(zip(columns, row, strict=True))
        except RobertaHubError:
            raise
        except failures as error:
            raise unreadable(error) from None

    state = file if isinstance(file, Path) else file.fileno()
    begun = file_state(state)
    try:
        written = pa.parquet.ParquetFile(file).schema_arrow
        schema, classes = plain_schema(written), saved_class_names(written)
        columns = list(schema.names)
    except failures as error:
        raise unreadable(error) from None
    if twice := sorted({name for name in columns if columns.count(name) > 1}):
        raise InputError(f"{path}: two columns have the same name, {short_repr(twice[0])}")
    return Table(name, columns, read, format=PARQUET, schema=schema, classes=classes)


_READERS: dict[str, Callable[[Path], Table]] = {
    "jsonl": _jsonl,
    "parquet": lambda path: parquet_table(path, str(path)),
}
