"""Parquet and Arrow: tables of so many rows, columns as Python's own values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from roberta_hub.errors import MissingExtraError
from roberta_hub.extras import install
from roberta_hub.rows.values import is_utf8


def import_arrow(what: str) -> Any:
    """Import pyarrow with its Parquet.

    Args:
        what: needs it, for the error.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(f"{what} needs pyarrow ({error}): {install('tables')}") from None
    return pyarrow


def plain_schema(schema: Any) -> Any:
    """Return a schema with one type for each kind of text, and without notes.

    pandas, polars and Daft write the same text as string, large_string, string_view or dictionary.
    """
    import pyarrow as pa

    def plain(kind: Any) -> Any:
        if pa.types.is_dictionary(kind):
            return plain(kind.value_type)
        if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return pa.string()
        if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
            return pa.binary()
        return kind

    return pa.schema([(field.name, plain(field.type)) for field in schema])


def parquet_tables(
    file: Any, names: Sequence[str], start: int, stop: int, size: int
) -> Iterator[Any]:
    """Read rows of a Parquet file, a few at a time.

    Args:
        file: pyarrow's ParquetFile.
        names: of the columns.
        start: the first row, from 0.
        stop: one past the last.
        size: rows of a table; the last has what is left.

    Yields:
        pyarrow Tables with the columns as `plain_schema` has them.
    """
    import pyarrow as pa

    groups: list[int] = []
    skip = row = 0
    for k in range(file.metadata.num_row_groups):
        end = row + file.metadata.row_group(k).num_rows
        if row < stop and end > start:
            skip = skip if groups else start - row
            groups.append(k)
        row = end
    plain = plain_schema(pa.schema([file.schema_arrow.field(name) for name in names]))
    left, held = stop - start, plain.empty_table()
    batches = file.iter_batches(size, groups, list(names), use_threads=False) if groups else ()
    for batch in batches:
        part = pa.Table.from_batches([batch]).select(list(names))
        gone = min(skip, len(part))
        part, skip = part.slice(gone, left), skip - gone
        left -= len(part)
        held = pa.concat_tables([held, part.cast(plain)])
        while len(held) >= size:
            yield held.slice(0, size)
            held = held.slice(size)
        if not left:
            break
    if len(held):
        yield held


def column_values(column: Any) -> list[Any]:
    """Return a column as Python's own values; as bytes what is not UTF-8.

    Args:
        column: of an Arrow table.
    """
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:  # Parquet's readers believe what a file says
        import pyarrow as pa

        found = column.cast(pa.binary()).to_pylist()
        texts = [None if raw is None else raw.decode(errors="surrogateescape") for raw in found]
        pairs = zip(texts, found, strict=True)
        return [text if text is None or is_utf8(text) else raw for text, raw in pairs]
