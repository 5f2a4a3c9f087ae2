"""Parquet and Arrow: tables of so many rows, columns as Python's own values."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, MissingExtraError
from roberta_hub.extras import install
from roberta_hub.rows.lines import MAX_ROW_BYTES
from roberta_hub.rows.values import Fault, is_missing, is_utf8


def import_arrow(what: str) -> Any:
    """Import pyarrow with its Parquet."""
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


def saved_class_names(schema: Any) -> dict[str, Sequence[str]]:
    """Read the names of classes that `datasets` writes into a Parquet file; {}: there are none."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"][
            "features"
        ]
        return {
            column: feature["feature"]["names"]
            for column, feature in features.items()
            if isinstance(feature, dict) and "names" in feature.get("feature", {})
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


_NOTE = b"roberta_hub"
"""Key of our note on a column of vectors, in the schema."""


def vector_note(dtype: str, ranges: Any = None) -> dict[bytes, bytes] | None:
    """Write what a column's type does not say of its vectors; None: nothing."""
    if dtype in ("float32", "float16"):
        return None
    note = {"dtype": dtype} | ({} if ranges is None else {"ranges": ranges})
    return {_NOTE: json.dumps(note).encode()}


def stored_ranges(path: str) -> list[list[float]]:
    """Read the ranges of the int8 vectors of a Parquet file, or of a lake's folder."""
    parquet = import_arrow("Parquet").parquet
    if os.path.isdir(path):
        names = sorted(name for name in os.listdir(path) if name.endswith(".parquet"))
        path = os.path.join(path, *names[:1])
    try:
        fields = list(parquet.read_schema(path))
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        why = str(getattr(error, "strerror", None) or error)[:200]
        raise InputError(f"ranges is {short_repr(path)}, which is no Parquet file: {why}") from None
    for field in fields:
        try:
            found = json.loads((field.metadata or {}).get(_NOTE, b"{}"))["ranges"]
        except (ValueError, KeyError, TypeError):
            continue
        return list(found)
    raise InputError(
        f"ranges is {short_repr(path)}, whose columns have none: embed writes them beside int8 "
        "vectors"
    )


def parquet_tables(
    file: Any, name: object, names: Sequence[str], start: int, stop: int, size: int
) -> Iterator[Any]:
    """Read rows of a Parquet file, a few at a time."""
    import pyarrow as pa

    groups: list[int] = []
    skip = row = 0
    for k in range(file.metadata.num_row_groups):
        end = row + file.metadata.row_group(k).num_rows
        if row < stop and end > start:
            _check_size(file.metadata.row_group(k), name, names, row + 1)
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


def _check_size(group: Any, name: object, names: Sequence[str], first: int) -> None:
    """Refuse a row group of rows that have more than `MAX_ROW_BYTES` on average."""
    for k in range(group.num_columns):
        column = group.column(k)
        size = column.total_uncompressed_size // max(group.num_rows, 1)
        if size > MAX_ROW_BYTES and column.path_in_schema.partition(".")[0] in names:
            raise InputError(
                f"{name}: rows {first} to {first + group.num_rows - 1}: {size:,} bytes a row in "
                f"the column {short_repr(column.path_in_schema)}; the limit is {MAX_ROW_BYTES:,}"
            )


def column_values(column: Any) -> list[Any]:
    """Return a column as Python's own values; as bytes what is not UTF-8."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:  # Parquet's readers believe what a file says
        import pyarrow as pa

        found = column.cast(pa.binary()).to_pylist()
        texts = [None if raw is None else raw.decode(errors="surrogateescape") for raw in found]
        pairs = zip(texts, found, strict=True)
        return [text if text is None or is_utf8(text) else raw for text, raw in pairs]


def json_schema(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Infer a type for each key: an Arrow type that all values have, else JSON as a string."""
    import pyarrow as pa

    names = dict.fromkeys(name for row in rows for name in row if is_utf8(name))

    def kind(name: str) -> Any:
        found = {type(row.get(name)) for row in rows} - {type(None)}
        if found == {int}:
            return pa.int64()
        if found and found <= {int, float}:
            return pa.float64()
        return pa.bool_() if found == {bool} else pa.string()

    return pa.schema([(name, kind(name)) for name in names])


def column_value(value: Any, kind: str, name: str) -> Any:
    """Return a value in the type of its column, or a Fault."""
    if value is None or (kind == "string" and is_missing(value)):
        return None
    if kind == "string":
        text = _json_text(value)
        return text if is_utf8(text) else Fault(f"the column {short_repr(name)} holds no UTF-8")
    fits = {
        "bool": type(value) is bool,
        "int64": type(value) is int and -(2**63) <= value < 2**63,
        "double": type(value) is float or (type(value) is int and _is_double(value)),
    }[kind]
    if fits:
        return value
    return Fault(
        f"the column {short_repr(name)} holds {short_repr(value)}, and {kind} in the first rows; "
        "drop it from keep, or write all its values as text"
    )


def _is_double(value: int) -> bool:
    """Whether a float represents an integer exactly."""
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _json_text(value: object) -> str:
    """Text of a value: a str unchanged, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
