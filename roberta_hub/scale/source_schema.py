"""Schema of a source: the columns of its files, and those that their folders name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError
from roberta_hub.rows.arrow import json_schema, plain_schema
from roberta_hub.rows.columns import PROSE_ROWS, find_text_column, text_columns
from roberta_hub.rows.delimited import Header, csv_header, delimited_rows
from roberta_hub.rows.formats import ROW_FORMATS
from roberta_hub.rows.lines import (
    UNPACKING_ERRORS,
    UTF16_BOMS,
    Line,
    blocks,
    decoded,
    split_lines,
)
from roberta_hub.rows.tables import Table, json_rows
from roberta_hub.rows.values import Fault, value_or_raise
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.sources import (
    LakeSource,
    is_empty,
    opened_file,
    partition_values,
    unreadable,
)
from roberta_hub.verbs.vectors import SAMPLE_TEXTS

FOOTER_READERS = 16
"""Threads that read footers: every request to an object store has a latency."""
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
"""A whole number that a column of int64 holds, as it is written."""
SAMPLE_FILES = 16
"""Files that a sample of texts is read from, at most."""
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
    """Arrow schema of the columns that are copied to the answers; null where a file lacks one."""
    header: tuple[str, ...] = ()
    """CSV: all columns, in order. JSONL: the allowed columns if all are kept."""
    separator: str = ","


def find_schema(
    source: LakeSource, text: tuple[str, ...], keep: Sequence[str] | None
) -> SourceSchema:
    """Find the schema of a source: by all files of Parquet, by the first of text."""
    full = (file.path for file in source.files if not is_empty(source, file))
    path = next(full, source.files[0].path)
    header: tuple[str, ...] = ()
    separator = ","
    if source.format == "parquet":
        fields = _joined(source, text, keep)
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
    if not text and fields.names:
        text = (find_text_column(_beginning(source, path, fields.names)),)
    named = text_columns(fields.names, text, path)
    if source.format == "parquet":
        _check_text(fields, named, path)
    folders = _partition_schema(source)
    names = [*fields.names, *(name for name in folders.names if name not in fields.names)]
    kept: Sequence[str] = names
    if keep is not None:
        kept = text_columns(names, tuple(keep), path) if keep else ()
    if both := [name for name in folders.names if name in fields.names and name in kept]:
        raise InputError(
            f"{path}: {short_repr(both[0])} is a column of the files, and a folder's name is "
            f"{both[0]}=...; keep others, or name the folder otherwise"
        )
    every = {field.name: field for field in (*folders, *fields)}
    return SourceSchema(named, arrow().schema([every[name] for name in kept]), header, separator)


def _beginning(source: LakeSource, path: str, names: Sequence[str]) -> Table:
    """Make a table of a file's first rows, by which a column shows whether it is prose."""
    return Table(path, list(names), lambda: enumerate(_first_rows(source, path), 1))


def sample_texts(source: LakeSource, text: Sequence[str]) -> list[Any]:
    """Read texts of a source, the same each time: the first rows of files all over it."""
    files = [file for file in source.files if not is_empty(source, file)]
    files = files[:: max(1, -(-len(files) // SAMPLE_FILES))]
    count = -(-SAMPLE_TEXTS // max(1, len(files)))
    rows = (row for file in files for row in _first_rows(source, file.path, count)[:count])
    found = [ROW_FORMATS[source.format].texts_of(row, text) for row in rows]
    return [texts for texts in found if isinstance(texts, (str, tuple))]


def _first_rows(source: LakeSource, path: str, count: int = PROSE_ROWS) -> list[dict[str, Any]]:
    if source.format == "jsonl":
        return _first_objects(source, path)
    header = header_of(source, path) if source.format == "csv" else None
    try:
        with opened_file(source, path) as handle:
            if header is None:
                batches = arrow().parquet.ParquetFile(handle).iter_batches(count)
                return next((batch.to_pylist() for batch in batches), [])
            lines = islice(_lines(handle), header.lines, None)
            rows = islice(delimited_rows(lines, header, header.lines + 1), count)
            return [values for _, values in rows if not isinstance(values, Fault)]
    except Exception as error:  # as in `_parquet_schema`
        raise unreadable(path, error) from None


def _joined(source: LakeSource, text: Sequence[str], keep: Sequence[str] | None) -> Any:
    """Join the schemas of all Parquet files: a column that one has is a column of the source."""
    with ThreadPoolExecutor(FOOTER_READERS) as pool:
        schemas = pool.map(lambda file: _parquet_schema(source, file.path), source.files)
        fields: list[Any] = []
        known: dict[str, tuple[int, str]] = {}  # where in `fields`, and of which file
        for file, schema in zip(source.files, schemas, strict=True):
            own = plain_schema(schema)
            for name in dict.fromkeys(own.names):
                found = [field for field in own if field.name == name]
                if name not in known:
                    known[name] = len(fields), file.path
                    fields += found
                elif arrow().types.is_null(fields[known[name][0]].type):
                    known[name] = known[name][0], file.path
                    fields[known[name][0]] = found[0]
                elif keep is None or name in (*keep, *text):
                    _check_type(fields[known[name][0]], found[0].type, known[name][1], file.path)
    return arrow().schema(fields)


def _check_type(field: Any, kind: Any, first: str, path: str) -> None:
    """Refuse a column whose type is another than that of an earlier file.

    A column of nulls has any type: pandas writes one of missing values so.
    """
    if kind != field.type and not arrow().types.is_null(kind):
        raise InputError(
            f"{path}: the column {short_repr(field.name)} holds {kind}, and {field.type} in "
            f"{first}; write one type, or name the columns to keep"
        )


def _partition_schema(source: LakeSource) -> Any:
    """Find the columns that folders name: whole numbers where all are, else text.

    Numbers with leading zeros are text, as they would lose them.
    """
    values: dict[str, set[str]] = {}
    for file in source.files:
        for name, value in partition_values(source, file.path).items():
            values.setdefault(name, set()).update(() if value is None else (value,))
    pa = arrow()

    def kind(found: set[str]) -> Any:
        return pa.int64() if found and all(map(_WHOLE.fullmatch, found)) else pa.string()

    return pa.schema([(name, kind(found)) for name, found in values.items()])


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
    """Refuse a Parquet file without a column of texts, or with another type than the source's."""
    fields = plain_schema(schema)
    names = text_columns(fields.names, source_schema.text, path)
    kept = [field for field in source_schema.keep if field.name in fields.names]
    _check_duplicates(fields.names, (*names, *(field.name for field in kept)), path)
    _check_text(fields, source_schema.text, path)
    for field in kept:
        _check_type(field, fields.field(field.name).type, "another file", path)


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
    """Read a CSV's header."""
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
