"""CSV and TSV: what separates the fields, what the columns are called, where a row ends."""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, starmap
from typing import Any, TypeAlias

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError
from roberta_hub.rows.lines import MAX_ROW_BYTES, UTF8_BOM, Line, decoded, why_not_utf8
from roberta_hub.rows.values import Fault, Unreadable, is_utf8, value_or_raise

QUOTE_LINES = 1000
"""Lines by which a TSV shows whether its fields are quoted."""
SEPARATORS = ",;\t"
"""Signs that separate the fields of a CSV, in the order in which they are looked for."""
RowValues: TypeAlias = "dict[str, Any] | Fault"
"""The values of a row by column, or what is wrong with it."""


@dataclass(frozen=True)
class Header:
    """How the rows of a file are written."""

    columns: tuple[str, ...]
    """Names in the file's order; one that is left out is called by its place."""
    separator: str
    lines: int
    """Lines before the first row."""
    quoted: bool = True
    """Whether fields are quoted; in a TSV like GLUE's a quote is a character."""


def csv_header(lines: Iterable[Line], name: object, named: bool = True) -> Header:
    """Read the header of a CSV.

    The separator is the comma; where the first line has none, the semicolon or the tab; or what a
    line "sep=;" in front says.
    """
    lines = iter(lines)
    first = next(lines, b"")
    text = value_or_raise(decoded(first, 1), f"{name}:1")
    said = re.fullmatch(r'sep=([^"\r\n])', text)  # how Excel is told the separator
    bare = re.sub(r'"[^"]*"', "", text)
    separator = said[1] if said else next((sign for sign in SEPARATORS if sign in bare), ",")
    bars = bare.strip().split("|") if named and not said else []
    if len(bars) > 1 and all(map(_COLUMN.fullmatch, bars)):
        raise InputError(
            "the names of the columns are separated by '|'; a CSV's separators are the comma, the "
            "semicolon and the tab, or what a first line sep=| says",
            place=f"{name}:1",
        )
    begin = [first]
    if named and not said and _TITLE.fullmatch(text.strip()):
        begin += islice(lines, 2)
        _refuse_title(begin, name)
    counted = _Counted(chain(begin, lines))
    records = islice(_records(counted, separator), 1 if said else 0, None)
    if not named:
        return Header(_numbered(records, name), separator, 1 if said else 0)
    return Header(_named(records, name), separator, counted.count)


def _refuse_title(lines: Sequence[Line], name: object) -> None:
    """Refuse a file with a line above its header, by its first three lines."""
    if _is_title(lines):
        title = str(decoded(lines[0], 1)).strip()
        raise InputError(
            f"{short_repr(title)} seems to be a title, and line 2 the header; delete what stands "
            "above the names of the columns",
            place=f"{name}:1",
        )


_TITLE = re.compile(r"(#|[^\s,;\t\"]+ +[^\s,;\t\"])[^,;\t\"]*[,;\t]*")
"""A comment, or several words, in one cell."""
_COLUMN = re.compile(r"[^\W\d]\w*([ .-]\w+){0,2}")


def _is_title(lines: Sequence[Line]) -> bool:
    r"""Tell whether a line stands above the header: it has one cell, and those below have several.

    Example:
        >>> _is_title([b"# of 2024\n", b"text,label\n", b"A film.,good\n"])
        True
        >>> _is_title([b"a text\n", b"No, no.\n", b"Yes, yes.\n"])
        False
    """
    found = [decoded(line, number) for number, line in enumerate(lines, 1)]
    texts = [text for text in found if isinstance(text, str)]
    if len(texts) < 3 or not _TITLE.fullmatch(texts[0].strip()):
        return False
    sign = next((sign for sign in SEPARATORS if sign in texts[1]), "")
    names = texts[1].strip().split(sign) if sign else []
    named = len({*names}) == len(names) <= 1 + texts[2].count(sign or "\0")
    return bool(sign) and named and all(map(_COLUMN.fullmatch, names))


def tsv_header(read: Callable[[], Iterable[Line]], name: object, named: bool = True) -> Header:
    """Read the header of a TSV, and tell whether quotes are characters in it.

    They are not where every field in the first 1,000 lines that holds one is written as in a CSV,
    and one of them has a doubled quote inside, or the whole header is quoted.
    """
    first = enumerate(islice(read(), QUOTE_LINES), 1)
    quoted = _is_quoted(
        value_or_raise(decoded(line, number), f"{name}:{number}") for number, line in first
    )
    if named:
        _refuse_title([*islice(read(), 3)], name)
    counted = _Counted(read())
    records = _records(counted, "\t") if quoted else _fields(counted)
    if not quoted:
        records = (record for record in records if record[1] != [""])  # blank lines
    if not named:
        return Header(_numbered(records, name), "\t", 0, quoted)
    return Header(_named(records, name), "\t", counted.count, quoted)


class _Counted:
    """Counts the lines that a reader takes."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines, self.count = iter(lines), 0

    def __iter__(self) -> Iterator[Line]:
        return self

    def __next__(self) -> Line:
        line = next(self._lines)
        self.count += 1
        return line


Records: TypeAlias = "Iterator[tuple[int, list[str] | Fault]]"
"""Rows as their cells, with the lines that they begin on."""


def _first(records: Records, name: object) -> tuple[list[str], str]:
    """Read the cells of the first record, and where it is."""
    number, found = next(records, (1, list[str]()))
    where = f"{name}:{number}"
    return value_or_raise(found, where), where


def _numbered(records: Records, name: object) -> tuple[str, ...]:
    """Name the columns of a file without a header by their places."""
    return tuple(str(i) for i, _ in enumerate(_first(records, name)[0], 1))


def _named(records: Records, name: object) -> tuple[str, ...]:
    """Read the names of the columns from the first record."""
    cells, where = _first(records, name)
    if why := _no_text(cells):
        raise InputError(why, place=where)
    names = [cell.strip() or f"column {i}" for i, cell in enumerate(cells, 1)]
    if twice := [n for n in sorted(set(names)) if names.count(n) > 1]:
        raise InputError(f"two columns have the same name, {short_repr(twice[0])}", place=where)
    return tuple(names)


_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def _is_quoted(texts: Iterable[str]) -> bool:
    """Tell whether the fields of a TSV are quoted as in a CSV; see `tsv_header`."""
    doubled = False
    for number, text in enumerate(texts):
        cells = text.split("\t")
        fields = [cell for cell in cells if '"' in cell]
        if not all(map(_QUOTED.fullmatch, fields)):
            return False
        if not number and len(fields) == len(cells):
            return True
        doubled = doubled or any('""' in cell[1:-1] for cell in fields)
    return doubled


def delimited_rows(
    lines: Iterable[Line], header: Header, first: int
) -> Iterator[tuple[int, RowValues]]:
    """Read rows, each with its first line's number; continues after a faulty row."""
    records = _records(lines, header.separator, first) if header.quoted else _fields(lines, first)
    for number, cells in records:
        if cells == [""] and not header.quoted and len(header.columns) > 1:
            continue  # a blank line, which `csv` leaves out by itself
        yield number, _values(cells, header.columns)


_TOO_MANY = "a text with a separator in it needs quotes in a CSV, and cannot be in a TSV"
_TOO_FEW = (
    "a cell is missing, and an empty one needs its separator too; a text with a newline in it "
    "needs quotes in a CSV, and cannot be in a TSV"
)


def _values(cells: list[str] | Fault, columns: Sequence[str]) -> RowValues:
    if isinstance(cells, Fault):
        return cells
    if len(cells) != len(columns):
        why = _TOO_FEW if len(cells) < len(columns) else _TOO_MANY
        return Fault(f"{len(cells)} fields, the header has {len(columns)}; {why}")
    why = _no_text(cells)
    return Fault(why) if why else dict(zip(columns, cells, strict=True))


def _no_text(cells: Sequence[str]) -> str:
    """Say what no text holds; "" where all is well."""
    text = "".join(cells)
    if "\0" in text:
        return "holds a NUL, which no text does; is the file UTF-8?"
    return "" if is_utf8(text) else why_not_utf8(text)


def _fields(lines: Iterable[Line], first: int = 1) -> Iterator[tuple[int, list[str] | Fault]]:
    """Read the records of a TSV in which quotes are characters."""
    for number, line in enumerate(lines, first):
        text = decoded(line, number)
        yield number, text if isinstance(text, Fault) else text.split("\t")


class _TooLong(csv.Error):
    """A line that no reader is given."""


class _Endless(csv.Error):
    """Lines that are too many for one row."""


def _records(
    lines: Iterable[Line], separator: str, first: int = 1
) -> Iterator[tuple[int, list[str] | Fault]]:
    """Read the records of a CSV, each with the line it begins on."""
    seen = first - 1
    size = 0  # bytes of the row that is read

    def text(number: int, line: Line) -> str:
        nonlocal seen, size
        seen = number
        if isinstance(line, Fault):
            raise _TooLong(line.why)
        size += len(line)
        if size > MAX_ROW_BYTES:
            raise _Endless
        line = line.removeprefix(UTF8_BOM) if number == 1 else line
        return line.decode(errors="surrogateescape")

    # The limit belongs to the process; it is only ever raised.
    csv.field_size_limit(max(MAX_ROW_BYTES, csv.field_size_limit()))
    texts = starmap(text, enumerate(lines, first))
    reader = csv.reader(texts, delimiter=separator, strict=True)
    while True:
        number, size = seen + 1, 0
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:  # the reader continues with the next line
            upto = f"; the row goes to line {seen}" if seen > number else ""
            if isinstance(error, _Endless) or "unexpected end" in str(error):
                yield number, Unreadable(_UNCLOSED + upto)
                return
            yield number, Fault(_trouble(error) + upto)
            continue
        if cells:
            yield number, cells


_UNCLOSED = "a quote opens here that is never closed; a quote inside a quoted field is doubled"


def _trouble(error: csv.Error) -> str:
    """Say what is wrong with a row that `csv.reader` refuses, and what fixes it."""
    said = str(error)
    if isinstance(error, _TooLong):
        return said
    if "expected after" in said:
        return "text follows a closing quote; a quote inside a quoted field is doubled"
    if "new-line character" in said:
        return "a line ends with CR alone; save the file with LF or CRLF"
    return f"not CSV: {said}"


# ---- where rows end ----


@functools.cache
def _marks(separator: str) -> re.Pattern[bytes]:
    """Return what matches ends of rows, and as a whole what may hold newlines that end none."""
    quote = rb'"(?<![^,\n]")[^"]*(?:""[^"]*)*'  # a field that begins with one, and may continue
    closed = rb'(?:(")(?:[^,\r\n][^\n]*|\r+[^\r\n][^\n]*)?)?'  # text after it: a bad line
    bare = rb"\r+[^\r\n][^\n]*"  # a bad line too, in which no quote counts any more
    every = rb"\n|" + quote + closed + rb"|" + bare
    return re.compile(every.replace(b",", re.escape(separator.encode())))


def row_ends(data: bytes, separator: str | None) -> tuple[list[int], bool]:
    r"""Find the ends of rows in a stretch of text that begins with a row.

    It sees rows as Python's `csv` does, which continues with the line after a bad one. A quote
    counts where a field begins: one in the midst of text is text.

    Example:
        >>> row_ends(b'a,"b\nc"\nd', ",")
        ([8], False)
        >>> row_ends(b'5" by 6\n"b\n', ","), row_ends(b'"a\nb\n', None)
        (([8], True), ([3, 5], False))
    """
    if separator is None or b'"' not in data:
        return [mark.end() for mark in re.finditer(rb"\n", data)], False
    ends, opens = [], False
    for mark in _marks(separator).finditer(data):
        if mark[0] == b"\n":
            ends.append(mark.end())
        elif mark[0][:1] == b'"':
            opens = mark[1] is None
    return ends, opens
