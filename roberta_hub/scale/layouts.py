"""Tells which columns the files of a source have, and refuses files that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from roberta_hub.arguments import shown
from roberta_hub.errors import InputError
from roberta_hub.rows.arrow import plain_schema
from roberta_hub.rows.columns import text_columns
from roberta_hub.rows.delimited import Header, csv_header
from roberta_hub.rows.lines import UTF16, Line, blocks, decoded, split_lines
from roberta_hub.rows.tables import json_rows
from roberta_hub.rows.values import Fault, is_utf8, sound
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.sources import Source, opened_file, unreadable

LOOK = 1000
"""Objects of a JSONL file that say which columns there are, and of which type."""
HEAD = 10_000_000
"""Bytes in which a header, or these objects, are looked for."""
BLOCK = 1 << 20
"""Of them, that are read at once: an object store answers each time after a while."""


@dataclass(frozen=True)
class Layout:
    """What is read of each file: the same for all."""

    text: tuple[str, ...]
    """Columns with the texts."""
    keep: Any
    """Schema of the columns that are written beside the answers."""
    header: tuple[str, ...] = ()
    """All columns of a CSV, in their order; of JSONL those that may come where all are kept."""
    separator: str = ","


def layout_of(source: Source, text: tuple[str, ...], keep: Sequence[str] | None) -> Layout:
    """Tell what is read of the files, by the first of them.

    Args:
        source: the files.
        text: columns with the texts; none: `text`, or the only one.
        keep: columns to write beside the answers; None: all.

    Raises:
        UnknownNameError: no such column.
        InputError: a column is no text, or a file cannot be read.
    """
    path = next((file.path for file in source.files if file.size), source.files[0].path)
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
        empty = dict.fromkeys((*text, *(keep or ())))  # of no rows the caller alone knows columns
        fields = _json_fields(rows or [empty])
        header = tuple(fields.names) if keep is None else ()
    _check_twice(fields.names, (*text, *(fields.names if keep is None else keep)), path)
    named = text_columns(fields.names, text, path)
    kept: Sequence[str] = fields.names
    if keep is not None:
        kept = text_columns(fields.names, tuple(keep), path) if keep else ()
    if source.format == "parquet":
        _check_text(fields, named, path)
    return Layout(named, arrow().schema([fields.field(name) for name in kept]), header, separator)


def _parquet_schema(source: Source, path: str) -> Any:
    try:
        with opened_file(source, path) as handle:
            return arrow().parquet.ParquetFile(handle).schema_arrow
    except Exception as error:  # Arrow's errors have no common class but OSError and ValueError
        raise unreadable(path, error) from None


def _check_text(fields: Any, names: Sequence[str], path: str) -> None:
    """Refuse columns that hold something else than text."""
    pa = arrow()
    for name in names:
        kind = fields.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_null(kind)):
            raise InputError(f"{path}: the column {shown(name)} holds {kind}, not texts")


def check_fields(schema: Any, layout: Layout, path: str) -> None:
    """Refuse a Parquet file whose columns differ from those of the first.

    Args:
        schema: of the file.
        layout: what is read of each file.
        path: of the file, for the message.
    """
    fields = plain_schema(schema)
    names = text_columns(fields.names, (*layout.text, *layout.keep.names), path)
    _check_twice(fields.names, names, path)
    _check_text(fields, layout.text, path)
    for field in layout.keep:
        kind = fields.field(field.name).type  # null: all is missing, as pandas writes it
        if kind != field.type and not arrow().types.is_null(kind):
            raise InputError(
                f"{path}: the column {shown(field.name)} holds {kind}, and {field.type} in the "
                "first file; the files of a source have the same columns"
            )


def _check_twice(names: Sequence[str], wanted: Sequence[str], path: str) -> None:
    """Refuse columns that cannot be told apart; Parquet has them where nobody looked."""
    if twice := [name for name in wanted if names.count(name) > 1]:
        raise InputError(
            f"{path}: two columns have the same name, {shown(twice[0])}; keep others, or rename one"
        )


def check_objects(source: Source, layout: Layout, path: str) -> None:
    """Refuse a JSONL file whose first objects all lack a column with the texts.

    A row without it has a null text, as writers leave nulls out; a file without it has another name
    for it.
    """
    rows = _first_objects(source, path)
    names = list(dict.fromkeys(name for row in rows for name in row))
    if names:
        text_columns(names, layout.text, path)


def header_of(source: Source, path: str) -> Header:
    """Read a CSV's header.

    Raises:
        InputError: no header, or a name comes twice.
    """
    try:
        with opened_file(source, path) as handle:
            header = csv_header(_lines(handle), path)
    except OSError as error:
        raise unreadable(path, error) from None
    if not header.columns:
        raise InputError(f"{path}:1: no header")
    return header


def _first_objects(source: Source, path: str) -> list[dict[str, Any]]:
    """Read the first objects of a JSONL file; lines that are none are said when they are read."""
    try:
        with opened_file(source, path) as handle:
            lines = _lines(handle)
            first = next(lines, b"")
            if isinstance(first, bytes) and first.startswith(UTF16):
                sound(decoded(first, 1), f"{path}:1")  # which says so
            rows = islice(json_rows(chain([first], lines)), LOOK)
            return [values for _, values in rows if not isinstance(values, Fault)]
    except OSError as error:
        raise unreadable(path, error) from None


def _lines(handle: Any) -> Iterator[Line]:
    return chain.from_iterable(split_lines(blocks(handle.read, BLOCK, HEAD)))


def _json_fields(rows: Sequence[dict[str, Any]]) -> Any:
    """Tell a type for each key: of Arrow where all values have one, else JSON as a string."""
    pa = arrow()
    names = dict.fromkeys(name for row in rows for name in row if is_utf8(name))

    def kind(name: str) -> Any:
        found = {type(row.get(name)) for row in rows} - {type(None)}
        if found == {int}:
            return pa.int64()
        if found and found <= {int, float}:
            return pa.float64()
        return pa.bool_() if found == {bool} else pa.string()

    return pa.schema([(name, kind(name)) for name in names])
