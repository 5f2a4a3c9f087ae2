"""Schema of a source: the columns of its files, which all have the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError
from roberta_hub.rows.arrow import json_schema, plain_schema
from roberta_hub.rows.columns import text_columns
from roberta_hub.rows.delimited import Header, csv_header
from roberta_hub.rows.lines import (
    UNPACKING_ERRORS,
    UTF16_BOMS,
    Line,
    blocks,
    decoded,
    split_lines,
)
from roberta_hub.rows.tables import json_rows
from roberta_hub.rows.values import Fault, value_or_raise
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.sources import (
    LakeSource,
    is_empty,
    opened_file,
    unreadable,
)

SAMPLE_OBJECTS = 1000
"""Objects of a JSONL file from which columns and types are inferred."""
HEADER_BYTES = 10_000_000
"""Bytes that are searched for a header, or for these objects."""
BLOCK_BYTES = 1 << 20
"""Bytes per read: every request to an object store has a latency."""


@dataclass(frozen=True)
class SourceSchema:
    """Columns that are read of every file."""

    text: tuple[str, ...]
    """Names of the text columns."""
    keep: Any
    """Arrow schema of the columns that are copied to the answers."""
    header: tuple[str, ...] = ()
    """CSV: all columns, in order. JSONL: the allowed columns if all are kept."""
    separator: str = ","


def find_schema(
    source: LakeSource, text: tuple[str, ...], keep: Sequence[str] | None
) -> SourceSchema:
    """Find the schema of a source by its first file.

    Args:
        source: the files.
        text: columns with the texts; none: `text`, or the only one.
        keep: columns to copy to the answers; None: all.

    Raises:
        UnknownNameError: no such column.
        InputError: a column is no text, or a file cannot be read.
    """
    full = (file.path for file in source.files if not is_empty(source, file))
    path = next(full, source.files[0].path)
    header: tuple[str, ...] = ()
    separator = ","
    if source.format == "parquet":
        fields = plain_schema(_parquet_schema(source, path))
    elif source.format == "csv":
        found = header_of(source, path)
        header, separator = found.columns, found.separator
        fields = arrow().schema([(name, arrow().string()) for name in header])
    else:
        looked = (_first_objects(source, file.path) for file in source.files)
        rows = next(filter(None, looked), [])
        empty = dict.fromkeys((*text, *(keep or ())))  # without rows only the caller names columns
        fields = json_schema(rows or [empty])
        header = tuple(fields.names) if keep is None else ()
    _check_duplicates(fields.names, (*text, *(fields.names if keep is None else keep)), path)
    named = text_columns(fields.names, text, path)
    kept: Sequence[str] = fields.names
    if keep is not None:
        kept = text_columns(fields.names, tuple(keep), path) if keep else ()
    if source.format == "parquet":
        _check_text(fields, named, path)
    return SourceSchema(
        named, arrow().schema([fields.field(name) for name in kept]), header, separator
    )


def _parquet_schema(source: LakeSource, path: str) -> Any:
    try:
        with opened_file(source, path) as handle:
            return arrow().parquet.ParquetFile(handle).schema_arrow
    except Exception as error:  # Arrow's errors have no common class but OSError and ValueError
        raise unreadable(path, error) from None


def _check_text(fields: Any, names: Sequence[str], path: str) -> None:
    """Refuse text columns of another type."""
    pa = arrow()
    for name in names:
        kind = fields.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_null(kind)):
            raise InputError(f"{path}: the column {short_repr(name)} holds {kind}, not texts")


def check_fields(schema: Any, source_schema: SourceSchema, path: str) -> None:
    """Refuse a Parquet file whose columns differ from those of the first.

    Args:
        schema: of the file.
        source_schema: of the source.
        path: of the file, for the message.
    """
    fields = plain_schema(schema)
    names = text_columns(fields.names, (*source_schema.text, *source_schema.keep.names), path)
    _check_duplicates(fields.names, names, path)
    _check_text(fields, source_schema.text, path)
    for field in source_schema.keep:
        kind = fields.field(field.name).type  # null: pandas writes a column of missing values so
        if kind != field.type and not arrow().types.is_null(kind):
            raise InputError(
                f"{path}: the column {short_repr(field.name)} holds {kind}, and {field.type} in "
                "the first file; the files of a source have the same columns"
            )


def _check_duplicates(names: Sequence[str], wanted: Sequence[str], path: str) -> None:
    """Refuse two columns of the same name, which Parquet allows."""
    if twice := [name for name in wanted if names.count(name) > 1]:
        raise InputError(
            f"{path}: two columns have the same name, {short_repr(twice[0])}; keep others, or "
            "rename one"
        )


def check_objects(source: LakeSource, source_schema: SourceSchema, path: str) -> None:
    """Refuse a JSONL file whose first objects all lack a column with the texts.

    A row without it has a null text, since writers leave nulls out; a file without it names it
    otherwise.
    """
    rows = _first_objects(source, path)
    names = list(dict.fromkeys(name for row in rows for name in row))
    if names:
        text_columns(names, source_schema.text, path)


def header_of(source: LakeSource, path: str) -> Header:
    """Read a CSV's header.

    Raises:
        InputError: no header, or a name comes twice.
    """
    try:
        with opened_file(source, path) as handle:
            header = csv_header(_lines(handle), path)
    except UNPACKING_ERRORS as error:
        raise unreadable(path, error) from None
    if not header.columns:
        raise InputError(f"{path}:1: no header")
    return header


def _first_objects(source: LakeSource, path: str) -> list[dict[str, Any]]:
    """Read the first objects of a JSONL file; faulty lines are reported by `read_unit`."""
    try:
        with opened_file(source, path) as handle:
            lines = _lines(handle)
            first = next(lines, b"")
            if isinstance(first, bytes) and first.startswith(UTF16_BOMS):
                value_or_raise(decoded(first, 1), f"{path}:1")  # raises
            rows = islice(json_rows(chain([first], lines)), SAMPLE_OBJECTS)
            return [values for _, values in rows if not isinstance(values, Fault)]
    except UNPACKING_ERRORS as error:
        raise unreadable(path, error) from None


def _lines(handle: Any) -> Iterator[Line]:
    return chain.from_iterable(split_lines(blocks(handle.read, BLOCK_BYTES, HEADER_BYTES)))
