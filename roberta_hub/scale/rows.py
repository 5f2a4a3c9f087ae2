"""Reads the rows of a unit, batch by batch; what is wrong with a row is found at that row."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from roberta_hub.arguments import shown
from roberta_hub.errors import InputError
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.frames import Fault, Row, is_utf8, rows_of
from roberta_hub.scale.layouts import Layout, json_text, plain_schema
from roberta_hub.scale.sources import Source, changed, opened_file, unreadable
from roberta_hub.scale.units import BLOCK, MAX_ROW, Unit
from roberta_hub.tables import csv_trouble

BATCH = 4096
"""Rows that a model is asked about together: enough to sort by length, few enough for memory."""


@dataclass(frozen=True)
class Rows:
    """Some rows that follow each other."""

    kept: Any
    """pyarrow Table of the columns to keep."""
    texts: list[Row]
    numbers: Sequence[int]
    """Row or line of each in its file, from 1."""


def read_unit(source: Source, layout: Layout, unit: Unit) -> Iterator[Rows]:
    """Read a unit.

    Args:
        source: the files.
        layout: what is read of them.
        unit: a part of one file.

    Yields:
        At most `BATCH` rows at a time, all but the last time `BATCH`.

    Raises:
        InputError: the file is another than when it was planned, or cannot be read.
    """
    info = source.system.get_file_info(unit.file)
    if (info.size, changed(info)) != (unit.size, unit.changed):
        raise InputError(f"{unit.file}: not the file that was planned: it was changed or removed")
    reader = {"parquet": _parquet, "jsonl": _jsonl, "csv": _csv}[source.format]
    try:
        with opened_file(source, unit.file) as handle:
            yield from reader(handle, layout, unit)
    except InputError:
        raise
    except arrow().ArrowInvalid as error:
        raise unreadable(unit.file, error) from None


# ---- Parquet ----


def _parquet(handle: Any, layout: Layout, unit: Unit) -> Iterator[Rows]:
    pa = arrow()
    file = pa.parquet.ParquetFile(handle)
    number = unit.first
    for table in _tables(file, layout, unit):
        texts = rows_of([_values(table.column(name)) for name in layout.text], layout.text)
        kept = table.select(layout.keep.names)  # whose cast would forget the rows of no columns
        kept = kept.cast(layout.keep) if layout.keep.names else kept
        yield Rows(kept, texts, range(number, number + len(table)))
        number += len(table)


def _values(column: Any) -> list[Any]:
    """Return a column of texts as Python's own values; as bytes what is not UTF-8."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:  # Parquet's readers believe what a file says
        found = column.cast(arrow().binary()).to_pylist()
        texts = [None if raw is None else raw.decode(errors="surrogateescape") for raw in found]
        pairs = zip(texts, found, strict=True)
        return [text if text is None or is_utf8(text) else raw for text, raw in pairs]


def _tables(file: Any, layout: Layout, unit: Unit) -> Iterator[Any]:
    """Read rows start to stop of a file as tables of `BATCH` rows."""
    pa = arrow()
    groups: list[int] = []
    skip = row = 0
    for k in range(file.metadata.num_row_groups):
        end = row + file.metadata.row_group(k).num_rows
        if row < unit.stop and end > unit.start:
            skip = skip if groups else unit.start - row
            groups.append(k)
        row = end
    names = list(dict.fromkeys([*layout.text, *layout.keep.names]))
    plain = plain_schema(pa.schema([file.schema_arrow.field(name) for name in names]))
    left, held = unit.stop - unit.start, plain.empty_table()
    batches = file.iter_batches(BATCH, groups, names, use_threads=False) if groups else ()
    for batch in batches:
        part = pa.Table.from_batches([batch]).select(names)
        gone = min(skip, len(part))
        part, skip = part.slice(gone, left), skip - gone
        left -= len(part)
        held = pa.concat_tables([held, part.cast(plain)])
        while len(held) >= BATCH:
            yield held.slice(0, BATCH)
            held = held.slice(BATCH)
        if not left:
            break
    if len(held):
        yield held


# ---- text ----


def lines_of(handle: Any, unit: Unit) -> Iterator[bytes]:
    """Read the lines of a stretch of a file, with their ends, in little memory.

    Of a line that is longer than `MAX_ROW` one byte more comes, which shows it.
    """
    handle.seek(unit.start)
    left, rest = unit.stop - unit.start, b""
    while left and (block := handle.read(min(BLOCK, left))):
        left -= len(block)
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            yield (line + b"\n")[: MAX_ROW + 1]
        rest = rest[: MAX_ROW + 1]
    if rest:
        yield rest


Values = dict[str, Any] | Fault
"""The values of a row by column, or what is wrong with it."""


def _batches(rows: Iterable[tuple[int, Values]], layout: Layout) -> Iterator[Rows]:
    """Put numbered rows together, `BATCH` at a time."""
    pa = arrow()
    rows = iter(rows)
    while batch := list(islice(rows, BATCH)):
        faults: dict[int, Fault] = {}
        columns = []
        for field in layout.keep:
            column = []
            for i, (_, values) in enumerate(batch):
                value = None if isinstance(values, Fault) else values.get(field.name)
                fitting = _fitting(value, str(field.type), field.name)
                if isinstance(fitting, Fault):
                    faults.setdefault(i, fitting)
                    fitting = None
                column.append(fitting)
            columns.append(pa.array(column, field.type))
        kept = pa.Table.from_arrays(columns, schema=layout.keep) if columns else _bare(len(batch))
        texts = [
            values if isinstance(values, Fault) else faults.get(i) or _texts(values, layout.text)
            for i, (_, values) in enumerate(batch)
        ]
        yield Rows(kept, texts, [number for number, _ in batch])


def _bare(rows: int) -> Any:
    """Return a table of no columns that has so many rows."""
    return arrow().table({"": arrow().nulls(rows)}).select([])


def _texts(values: dict[str, Any], names: tuple[str, ...]) -> Row:
    return rows_of([[values.get(name)] for name in names], names)[0]


def _fitting(value: Any, kind: str, name: str) -> Any:
    """Return a value as its column takes it, or what is wrong with it."""
    if value is None:
        return None
    if kind == "string":
        text = json_text(value)
        return text if is_utf8(text) else Fault(f"the column {shown(name)} holds no UTF-8")
    fits = {
        "bool": type(value) is bool,
        "int64": type(value) is int and -(2**63) <= value < 2**63,
        "double": type(value) is float or (type(value) is int and _is_double(value)),
    }[kind]
    if fits:
        return value
    return Fault(
        f"the column {shown(name)} holds {shown(value)}, and {kind} in the first rows; drop it "
        "from keep, or write all its values as text"
    )


def _is_double(value: int) -> bool:
    """Tell whether a float holds a whole number as it is."""
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _jsonl(handle: Any, layout: Layout, unit: Unit) -> Iterator[Rows]:
    known = frozenset(layout.header)
    numbered = enumerate(lines_of(handle, unit), unit.first)
    rows = ((number, _object(line, known)) for number, line in numbered if line.strip())
    return _batches(rows, layout)


def _object(line: bytes, known: frozenset[str]) -> Values:
    if len(line) > MAX_ROW:
        return Fault(f"a line of more than {MAX_ROW:,} bytes")
    try:
        values = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        return Fault(f"not JSON: {error}; a JSONL file has an object a line")
    if not isinstance(values, dict):
        return Fault(f"a JSON {type(values).__name__}, not an object")
    if known and (new := next((name for name in values if name not in known), None)) is not None:
        return Fault(
            f"a column {shown(new)} that the first rows have not; name the columns to keep"
        )
    return values


def _csv(handle: Any, layout: Layout, unit: Unit) -> Iterator[Rows]:
    csv.field_size_limit(max(MAX_ROW, csv.field_size_limit()))  # no row of a plan has more
    lines = (line.decode(errors="surrogateescape") for line in lines_of(handle, unit))
    return _batches(_records(lines, layout, unit), layout)


def _records(lines: Iterator[str], layout: Layout, unit: Unit) -> Iterator[tuple[int, Values]]:
    reader = csv.reader(lines, delimiter=layout.separator, strict=True)
    while True:
        number = unit.first + reader.line_num
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:  # the reader goes on with the next line, as the cuts do
            last = unit.first + reader.line_num - 1
            upto = f"; the row goes to line {last}" if last > number else ""
            yield number, Fault(csv_trouble(error) + upto)
            continue
        if cells:
            yield number, _named(cells, layout.header)


def _named(cells: list[str], header: tuple[str, ...]) -> Values:
    if len(cells) != len(header):
        return Fault(
            f"{len(cells)} fields, the header has {len(header)}; a text with a separator or a "
            "newline in it needs quotes"
        )
    if not all(map(is_utf8, cells)):
        return Fault("not UTF-8; convert the file")
    return dict(zip(header, cells, strict=True))
