"""Reads the rows of a unit, batch by batch; a faulty row is a `Fault` in its place."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from lzma import LZMAError
from typing import Any

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError
from roberta_hub.rows.arrow import column_value, column_values, parquet_tables
from roberta_hub.rows.delimited import Header, RowValues, delimited_rows
from roberta_hub.rows.formats import PARQUET, ROW_FORMATS, RowFormat, RowTexts
from roberta_hub.rows.lines import blocks, split_lines
from roberta_hub.rows.tables import json_rows
from roberta_hub.rows.values import Fault
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.source_schema import SourceSchema
from roberta_hub.scale.sources import (
    LakeSource,
    changed,
    opened_file,
    partition_values,
    unreadable,
)
from roberta_hub.scale.units import SCAN_BYTES, WorkUnit

BATCH_ROWS = 4096
"""Rows per call of the model: enough to sort by length, few enough for memory."""


@dataclass(frozen=True)
class RowBatch:
    """Consecutive rows of a unit."""

    kept: Any
    """pyarrow Table of the columns to keep."""
    texts: list[RowTexts]
    numbers: Sequence[int]
    """Row or line of each in its file, from 1."""


def read_unit(
    source: LakeSource, source_schema: SourceSchema, unit: WorkUnit
) -> Iterator[RowBatch]:
    """Read a unit."""
    _check_unchanged(source, unit)
    try:
        with opened_file(source, unit.file) as handle:
            if source.format == "parquet":
                yield from _parquet(handle, source, source_schema, unit)
            else:
                rows = _text_rows(source.format, handle, source_schema, unit)
                named = partition_values(source, unit.file)
                yield from _batches(rows, source_schema, ROW_FORMATS[source.format], named)
    except InputError:
        raise
    except (arrow().ArrowInvalid, gzip.BadGzipFile, EOFError, LZMAError, zlib.error) as error:
        _check_unchanged(source, unit)
        raise unreadable(unit.file, error) from None
    _check_unchanged(source, unit)


def _check_unchanged(source: LakeSource, unit: WorkUnit) -> None:
    """Refuse a file that is not as it was when the units were planned.

    It is asked before and after the reading: rows of two versions make no unit.
    """
    info = source.system.get_file_info(unit.file)
    if (info.size, changed(info)) != (unit.size, unit.changed):
        raise InputError(f"{unit.file}: not the file that was planned: it was changed or removed")


def _parquet(
    handle: Any, source: LakeSource, source_schema: SourceSchema, unit: WorkUnit
) -> Iterator[RowBatch]:
    file = arrow().parquet.ParquetFile(handle)
    wanted = dict.fromkeys([*source_schema.text, *source_schema.keep.names])
    names = [name for name in wanted if name in file.schema_arrow.names]
    named = partition_values(source, unit.file)
    number = unit.first
    for table in parquet_tables(file, unit.file, names, unit.start, unit.stop, BATCH_ROWS):
        columns = [column_values(table.column(name)) for name in source_schema.text]
        kept = table.select([])  # which knows its rows; a cast without columns would lose them
        for field in source_schema.keep:
            column = (
                table.column(field.name).cast(field.type)
                if field.name in names
                else _constant(named.get(field.name), field.type, len(table))
            )
            kept = kept.append_column(field, column)
        numbers = range(number, number + len(table))
        yield RowBatch(kept, PARQUET.texts_in(columns, source_schema.text), numbers)
        number += len(table)


def _constant(value: str | None, kind: Any, rows: int) -> Any:
    """Return a column that has one value in all rows: a folder's, or null."""
    pa = arrow()
    if value is None:
        return pa.nulls(rows, kind)
    return pa.repeat(pa.scalar(int(value) if pa.types.is_int64(kind) else value, kind), rows)


def _text_rows(
    format: str, handle: Any, source_schema: SourceSchema, unit: WorkUnit
) -> Iterator[tuple[int, RowValues]]:
    """Stream the rows of a byte range of a CSV or JSONL file."""
    handle.seek(unit.start)
    stretch = blocks(handle.read, SCAN_BYTES, unit.stop - unit.start)
    lines = chain.from_iterable(split_lines(stretch))
    if format == "csv":
        header = Header(source_schema.header, source_schema.separator, lines=0)
        return delimited_rows(lines, header, unit.first)
    known = frozenset(source_schema.header)
    return (
        (number, _check_columns(values, known)) for number, values in json_rows(lines, unit.first)
    )


def _check_columns(values: RowValues, known: frozenset[str]) -> RowValues:
    """Return a row; a Fault if it has a column that the first rows lack."""
    if not known or isinstance(values, Fault):
        return values
    new = next((name for name in values if name not in known), None)
    if new is None:
        return values
    return Fault(
        f"a column {short_repr(new)} that the first rows have not; name the columns to keep"
    )


def _batches(
    rows: Iterable[tuple[int, RowValues]],
    source_schema: SourceSchema,
    format: RowFormat,
    named: Mapping[str, str | None],
) -> Iterator[RowBatch]:
    """Group numbered rows into batches of `BATCH_ROWS`, with the values that folders name."""
    pa = arrow()
    rows = iter(rows)
    while batch := list(islice(rows, BATCH_ROWS)):
        faults: dict[int, Fault] = {}
        columns = []
        for field in source_schema.keep:
            if field.name in named:
                columns.append(_constant(named[field.name], field.type, len(batch)))
                continue
            column = []
            for i, (_, values) in enumerate(batch):
                value = None if isinstance(values, Fault) else values.get(field.name)
                fitting = column_value(value, str(field.type), field.name)
                if isinstance(fitting, Fault):
                    faults.setdefault(i, fitting)
                    fitting = None
                column.append(fitting)
            columns.append(pa.array(column, field.type))
        kept = (
            pa.Table.from_arrays(columns, schema=source_schema.keep)
            if columns
            else _table_without_columns(len(batch))
        )
        texts = [
            values
            if isinstance(values, Fault)
            else faults.get(i) or format.texts_of(values, source_schema.text)
            for i, (_, values) in enumerate(batch)
        ]
        yield RowBatch(kept, texts, [number for number, _ in batch])


def _table_without_columns(rows: int) -> Any:
    """Return a table with this many rows and no columns."""
    return arrow().table({"": arrow().nulls(rows)}).select([])
