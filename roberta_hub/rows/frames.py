"""Columns and data frames in memory: pandas, polars, Arrow.

Containers of other packages are known by what they offer (`tolist`, `to_pylist`, iteration), never
by their class, so that none of those packages is imported to read them.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal

from roberta_hub.arguments import advise, kind_of, short_repr
from roberta_hub.errors import InputTypeError, MissingExtraError

_TO_LIST_METHODS = ("to_pylist", "tolist", "to_list")
"""How Arrow's arrays; numpy's, pandas'; polars' columns become lists of Python's own values."""
_NAMES_SHOWN = 8
"""Columns and keys that an error lists."""
FrameKind = Literal["dict", "arrow", "polars", "pandas", "lazy", "other"]
"""Whose frame it is; "lazy": of polars, without rows yet; "other": it has columns all the same."""


def pandas_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return a data frame of pandas with a row for each of some records."""
    try:
        import pandas
    except ImportError:
        raise MissingExtraError("to_pandas needs pandas: pip install pandas") from None
    return pandas.DataFrame(rows)


# ---- one column ----


def list_of(value: Any, name: str) -> list[Any]:
    """Return the items of any container, whatever they are, as a new list."""
    if type(value) is list:
        return value.copy()
    _refuse_tables(value, name)
    kind = type(value)
    for method in _TO_LIST_METHODS:
        if callable(getattr(kind, method, None)):
            return list(getattr(value, method)())
    if hasattr(kind, "__array__") and not hasattr(kind, "__iter__"):
        return list(value.__array__().tolist())
    try:
        items = iter(value)
    except TypeError:
        raise InputTypeError(
            f"{name} is a {kind_of(value)}; pass one str, or a list of them"
        ) from None
    found = list(items)
    if not found and items is value:
        warn_if_exhausted(value, name)
    return found


def warn_if_exhausted(value: object, name: str) -> None:
    """Warn of an iterator that yields nothing: most often it was read before."""
    advise(
        f"{name} is a {kind_of(value)} that yields nothing; if it was read before, it is used up: "
        "create it again, or pass a list"
    )


def _refuse_tables(value: Any, name: str) -> None:
    """Refuse what iterates over something else than its texts, or in no order."""
    kind, what = type(value), f"{name} is a {kind_of(value)}"
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise InputTypeError(f"{what}, not text; decode it: {name}.decode()")
    if isinstance(value, os.PathLike):
        raise InputTypeError(
            f"{what}, {short_repr(os.fspath(value))}, not text; pass what the file holds, "
            f"{name}.read_text() or its .splitlines()"
        )
    if kind_of(value) == "Tensor":
        raise InputTypeError(
            f"{what}, not text; ids go to extract_features and predict, vectors to similarity and "
            "search"
        )
    if isinstance(value, Mapping):
        keys = list_names(value)
        raise InputTypeError(f"{what} with the keys {keys}; pass the values of one: {name}[...]")
    if isinstance(value, (set, frozenset)) or (
        isinstance(value, AbstractSet) and not hasattr(kind, "mapping")  # a dict's keys have order
    ):
        raise InputTypeError(f"{what}, which has no order; pass a list: sorted({name})")
    if isinstance(value, io.IOBase):
        raise InputTypeError(f"{what}, whose lines end in a newline; pass its read().splitlines()")
    if frame_kind(value) is not None:
        raise InputTypeError(
            f"{what} with the columns {_columns(value)}; pass one of them: {name}[...], or pairs: "
            "list(zip(first, second))"
        )
    if names := getattr(getattr(value, "dtype", None), "names", None):
        raise InputTypeError(
            f"{what} with the columns {list_names(names)}; pass one of them: {name}[...]"
        )
    shape = getattr(value, "shape", None) if hasattr(kind, "shape") else None
    if isinstance(shape, tuple) and len(shape) != 1:
        raise InputTypeError(
            f"{what} of shape {tuple(shape)}, not of one dimension; pass one column, {name}[:, 0], "
            f"or pairs: [tuple(row) for row in {name}]"
        )


def _columns(table: Any) -> str:
    names: tuple[Callable[[], Iterable[object]], ...] = (
        lambda: table.column_names,  # an Arrow table's `columns` are the data
        lambda: table.collect_schema().names(),  # a lazy frame of polars warns of its `columns`
        lambda: table.columns,
    )
    for found in names:
        try:
            return list_names(found())
        except Exception:  # the name of a column is a courtesy; some tables find them by computing
            continue
    return "that it has"


def list_names(names: Iterable[object]) -> str:
    """List the names of columns or keys for a message, the first of them."""
    listed = [short_repr(name, 40) for name in names]
    return (
        ", ".join(listed[:_NAMES_SHOWN]) + (", ..." if len(listed) > _NAMES_SHOWN else "")
        or "of none"
    )


# ---- frames ----


def frame_kind(value: object) -> FrameKind | None:
    """Tell whose frame a value is; None: it has no columns.

    Example:
        >>> frame_kind({"text": ["Goal!"]}), frame_kind(["Goal!"])
        ('dict', None)
    """
    kind = type(value)
    if isinstance(value, Mapping):
        return "dict"
    if hasattr(kind, "column_names"):
        return "arrow" if hasattr(kind, "schema") and hasattr(kind, "to_pylist") else "other"
    if not hasattr(kind, "columns"):
        return None
    if hasattr(kind, "with_columns"):
        return "lazy" if hasattr(kind, "collect") else "polars"
    return "pandas" if hasattr(kind, "iloc") else "other"


def column_names(frame: Any, name: str = "the table") -> list[Any] | None:
    """Return the names of a frame's columns; None: it is no frame.

    Example:
        >>> column_names({"text": ["Goal!"], "id": [1]})
        ['text', 'id']
    """
    kind = frame_kind(frame)
    if kind is None:
        return None
    if kind == "lazy":
        raise InputTypeError(f"{name} is a {kind_of(frame)}, which holds no rows; collect() it")
    if kind == "dict":
        return list(frame)
    # An Arrow table's `columns` are the data, so its names come first.
    return list(frame.column_names if hasattr(type(frame), "column_names") else frame.columns)


def class_names(frame: Any) -> dict[str, Sequence[str]]:
    """Return the names of classes in columns of lists, where a data set of `datasets` has them."""
    features = getattr(frame, "features", None)
    if not isinstance(features, Mapping):
        return {}
    names = {
        column: getattr(getattr(feature, "feature", None), "names", None)
        for column, feature in features.items()
    }
    return {column: own for column, own in names.items() if isinstance(own, list)}


def column_of(frame: Any, column: Any, name: str = "the table") -> list[Any]:
    """Return a column of a frame as Python's own values."""
    values = frame[column]
    if isinstance(values, str):
        raise InputTypeError(f"{name}[{short_repr(column)}] is one str, not a column of texts")
    return list_of(values, f"{name}[{column!r}]")


def is_stream(table: object) -> bool:
    """Tell whether this is an iterator of tables, as Spark's `mapInArrow` gives."""
    return isinstance(table, Iterator)


def append_columns(frame: Any, answers: Any) -> Any:
    """Return a frame of the same kind with columns appended."""
    kind = frame_kind(frame)
    if kind == "dict":
        lists = all(isinstance(column, list) for column in frame.values())
        return {**frame, **{n: _plain(answers.column(n), lists) for n in answers.column_names}}
    if kind == "arrow":
        return _arrow_append(frame, answers)
    if kind == "polars":
        import polars

        return frame.hstack(polars.DataFrame(polars.from_arrow(answers)).get_columns())
    found = answers.to_pandas()
    found.index = frame.index
    return frame.assign(**{name: found[name] for name in answers.column_names})


def _arrow_append(table: Any, answers: Any) -> Any:
    import pyarrow as pa

    if isinstance(table, pa.Table):
        for name in answers.column_names:
            table = table.append_column(answers.schema.field(name), answers.column(name))
        return table
    columns = [*table.columns, *(_combined(answers.column(name)) for name in answers.column_names)]
    fields = [*table.schema, *answers.schema]
    return pa.RecordBatch.from_arrays(
        columns, schema=pa.schema(fields, metadata=table.schema.metadata)
    )


def _plain(column: Any, lists: bool) -> Any:
    """Return a column as a list, or as numpy's array; vectors make one of shape (n, C)."""
    if lists:
        return column.to_pylist()
    import pyarrow as pa

    if not pa.types.is_fixed_size_list(column.type):
        return _combined(column).to_numpy(zero_copy_only=False)
    import numpy

    kind = column.type.value_type.to_pandas_dtype()
    hole = [float("nan")] * column.type.list_size
    rows = [hole if row is None else row for row in column.to_pylist()]
    return numpy.array(rows, kind).reshape(len(rows), column.type.list_size)


def _combined(column: Any) -> Any:
    """Return a chunked column as one array."""
    import pyarrow as pa

    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
