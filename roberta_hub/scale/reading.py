"""Reads the rows of a unit, batch by batch; what is wrong with a row is found at that row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from roberta_hub.arguments import shown
from roberta_hub.errors import InputError
from roberta_hub.rows.arrow import column_values, parquet_tables
from roberta_hub.rows.delimited import Header, Values, delimited_rows
from roberta_hub.rows.lines import blocks, split_lines
from roberta_hub.rows.tables import json_rows
from roberta_hub.rows.values import Fault, RowTexts, is_utf8, missing, texts_in
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.layouts import Layout
from roberta_hub.scale.sources import Source, changed, opened_file, unreadable
from roberta_hub.scale.units import BLOCK, Unit

BATCH = 4096
"""Rows that a model is asked about together: enough to sort by length, few enough for memory."""


@dataclass(frozen=True)
class Batch:
    """Some rows that follow each other."""

    kept: Any
    """pyarrow Table of the columns to keep."""
    texts: list[RowTexts]
    numbers: Sequence[int]
    """Row or line of each in its file, from 1."""


def read_unit(source: Source, layout: Layout, unit: Unit) -> Iterator[Batch]:
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
    try:
        with opened_file(source, unit.file) as handle:
            if source.format == "parquet":
                yield from _parquet(handle, layout, unit)
            else:
                yield from _batches(_text_rows(source.format, handle, layout, unit), layout)
    except InputError:
        raise
    except arrow().ArrowInvalid as error:
        raise unreadable(unit.file, error) from None


def _parquet(handle: Any, layout: Layout, unit: Unit) -> Iterator[Batch]:
    file = arrow().parquet.ParquetFile(handle)
    names = list(dict.fromkeys([*layout.text, *layout.keep.names]))
    number = unit.first
    for table in parquet_tables(file, names, unit.start, unit.stop, BATCH):
        columns = [column_values(table.column(name)) for name in layout.text]
        kept = table.select(layout.keep.names)  # whose cast would forget the rows of no columns
        kept = kept.cast(layout.keep) if layout.keep.names else kept
        numbers = range(number, number + len(table))
        yield Batch(kept, texts_in(columns, layout.text), numbers)
        number += len(table)


def _text_rows(
    format: str, handle: Any, layout: Layout, unit: Unit
) -> Iterator[tuple[int, Values]]:
    """Read the rows of a stretch of a CSV or JSONL, in little memory."""
    handle.seek(unit.start)
    stretch = blocks(handle.read, BLOCK, unit.stop - unit.start)
    lines = chain.from_iterable(split_lines(stretch))
    if format == "csv":
        header = Header(layout.header, layout.separator, lines=0)
        return delimited_rows(lines, header, unit.first)
    known = frozenset(layout.header)
    return ((number, _known(values, known)) for number, values in json_rows(lines, unit.first))


def _known(values: Values, known: frozenset[str]) -> Values:
    """Return a row, or that it has a column which the first rows have not."""
    if not known or isinstance(values, Fault):
        return values
    new = next((name for name in values if name not in known), None)
    if new is None:
        return values
    return Fault(f"a column {shown(new)} that the first rows have not; name the columns to keep")


def _batches(rows: Iterable[tuple[int, Values]], layout: Layout) -> Iterator[Batch]:
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
        yield Batch(kept, texts, [number for number, _ in batch])


def _bare(rows: int) -> Any:
    """Return a table of no columns that has so many rows."""
    return arrow().table({"": arrow().nulls(rows)}).select([])


def _texts(values: dict[str, Any], names: tuple[str, ...]) -> RowTexts:
    return texts_in([[values.get(name)] for name in names], names)[0]


def _fitting(value: Any, kind: str, name: str) -> Any:
    """Return a value as its column takes it, or what is wrong with it."""
    if value is None or (kind == "string" and missing(value)):
        return None
    if kind == "string":
        text = _json_text(value)
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


def _json_text(value: object) -> str:
    """Write a value of a column of texts: a str as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
