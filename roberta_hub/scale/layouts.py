"""Tells which columns the files of a source have, and refuses files that differ."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roberta_hub.arguments import shown
from roberta_hub.errors import InputError
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.frames import chosen, is_utf8
from roberta_hub.scale.sources import Source, opened_file, unreadable
from roberta_hub.tables import MAX_FIELD, csv_trouble

LOOK = 1000
"""Objects of a JSONL file that say which columns there are, and of which type."""


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
        fields = plain_schema(parquet_schema(source, path))
    elif source.format == "csv":
        header, separator = csv_header(source, path)
        fields = arrow().schema([(name, arrow().string()) for name in header])
    else:
        looked = (_first_objects(source, file.path) for file in source.files)
        rows = next(filter(None, looked), [])
        empty = dict.fromkeys((*text, *(keep or ())))  # of no rows the caller alone knows columns
        fields = _json_fields(rows or [empty])
        header = tuple(fields.names) if keep is None else ()
    _check_twice(fields.names, (*text, *(fields.names if keep is None else keep)), path)
    named = chosen(fields.names, text, path)
    kept = fields.names if keep is None else chosen(fields.names, tuple(keep), path) if keep else ()
    if source.format == "parquet":
        check_text(fields, named, path)
    layout = arrow().schema([fields.field(name) for name in kept])
    return Layout(named, layout, header, separator)


def parquet_schema(source: Source, path: str) -> Any:
    """Read the Arrow schema of a Parquet file."""
    try:
        with opened_file(source, path) as handle:
            return arrow().parquet.ParquetFile(handle).schema_arrow
    except Exception as error:  # Arrow's errors have no common class but OSError and ValueError
        raise unreadable(path, error) from None


def plain_schema(schema: Any) -> Any:
    """Return a schema with one type for each kind of text, and without notes.

    pandas, polars and Daft write the same text as string, large_string, string_view or dictionary.
    """
    pa = arrow()

    def plain(kind: Any) -> Any:
        if pa.types.is_dictionary(kind):
            return plain(kind.value_type)
        if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return pa.string()
        if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
            return pa.binary()
        return kind

    return pa.schema([(field.name, plain(field.type)) for field in schema])


def check_text(fields: Any, names: Sequence[str], path: str) -> None:
    """Refuse columns that hold something else than text.

    Args:
        fields: what `plain_schema` gave.
        names: of the columns with the texts.
        path: of the file, for the message.
    """
    pa = arrow()
    for name in names:
        kind = fields.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_null(kind)):
            raise InputError(f"{path}: the column {shown(name)} holds {kind}, not texts")


def check_file(fields: Any, layout: Layout, path: str) -> None:
    """Refuse a Parquet file whose columns differ from those of the first.

    Args:
        fields: what `plain_schema` gave of it.
        layout: what is read of each file.
        path: of the file, for the message.
    """
    names = chosen(fields.names, (*layout.text, *layout.keep.names), path)
    _check_twice(fields.names, names, path)
    check_text(fields, layout.text, path)
    for field in layout.keep:
        if (kind := fields.field(field.name).type) != field.type:
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
        chosen(names, layout.text, path)


def _head(source: Source, path: str) -> bytes:
    """Read the begin of a text file, which is refused where it is UTF-16."""
    try:
        with opened_file(source, path) as handle:
            head = bytes(handle.read(MAX_FIELD))
    except OSError as error:
        raise unreadable(path, error) from None
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path}: not UTF-8 but UTF-16; convert it: iconv -f UTF-16 -t UTF-8")
    return head


def csv_header(source: Source, path: str) -> tuple[tuple[str, ...], str]:
    """Read a CSV's header: its columns, and what separates them.

    Raises:
        InputError: no header, or a name comes twice.
    """
    head = _head(source, path)
    try:
        text = head.decode("utf-8-sig", errors="surrogateescape")
        bare = re.sub(r'"[^"]*"', "", text.partition("\n")[0])
        separator = next((sign for sign in ",;\t" if sign in bare), ",")
        lines = io.StringIO(text, newline="\n")  # nothing else ends a line
        names = next(csv.reader(lines, delimiter=separator, strict=True), [])
    except csv.Error as error:
        raise InputError(f"{path}:1: {csv_trouble(error)}") from None
    if not names or len(set(names)) < len(names):
        what = "no header" if not names else "two columns of the same name in the header"
        raise InputError(f"{path}:1: {what}")
    if not all(map(is_utf8, names)):
        raise InputError(f"{path}:1: not UTF-8; convert the file")
    return tuple(names), separator


def _first_objects(source: Source, path: str) -> list[dict[str, Any]]:
    """Read the first objects of a JSONL file; lines that are none are said when they are read."""
    lines = _head(source, path).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    rows = []
    for line in lines[:LOOK]:
        with contextlib.suppress(ValueError, RecursionError):
            rows.append(json.loads(line))
    return [row for row in rows if isinstance(row, dict)]


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


def json_text(value: object) -> str:
    """Write a value of a column of texts: a str as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
