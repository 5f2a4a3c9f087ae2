"""Makes a table of what holds one: a path, a data frame, a dict of columns, a list of dicts.

Frames are known by what they offer, never by their class, so that none of their packages is
imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roberta_hub.arguments import kind_of, shown
from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.tables import Table, open_table
from roberta_hub.text.texts import many

_TAKES = (
    "give a path to a CSV, TSV, JSONL or Parquet file, a data frame of pandas, polars or Arrow, "
    "a dict of columns or a list of dicts"
)


def table_of(value: Any, name: str = "table") -> Table:
    """Return the table that a caller means.

    Args:
        value: a path; a data frame of pandas, polars, Arrow or `datasets`; a dict whose values are
            columns of equal length; a list of dicts.
        name: what errors call it where it is no file.

    Raises:
        InputTypeError: something else; the message says what can be given.
        InputError: columns of different lengths, or a file that cannot be read.

    Example:
        >>> table = table_of({"text": ["Fine.", "Dull."], "label": [1, 0]})
        >>> [row.where for row in table.rows()]
        ['table:1', 'table:2']
    """
    if isinstance(value, (str, os.PathLike)):
        return open_table(value)
    if isinstance(value, Mapping):
        return _of_columns({key: value[key] for key in value}, name)
    # An Arrow table's `columns` are the data, so its names come first.
    names = getattr(value, "column_names", None)
    names = getattr(value, "columns", None) if names is None else names
    if names is not None and hasattr(type(value), "__getitem__"):
        try:
            return _of_columns({key: value[key] for key in list(names)}, name)
        except (TypeError, KeyError, IndexError, ValueError) as error:
            if isinstance(error, (InputError, InputTypeError)):
                raise
            raise InputTypeError(
                f"{name} is a {kind_of(value)} whose columns cannot be read ({shown(str(error))}); "
                f"{_TAKES}"
            ) from None
    if names is not None and hasattr(value, "collect"):
        raise InputTypeError(f"{name} is a {kind_of(value)}; pass {name}.collect()")
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return _of_rows(value, name)
    raise InputTypeError(f"{name} is a {kind_of(value)}; {_TAKES}")


def _of_columns(columns: Mapping[Any, Any], name: str) -> Table:
    values = {}
    for key, column in columns.items():
        if not isinstance(key, str):
            raise InputTypeError(f"{name} has a column {shown(key)}; names of columns are str")
        if isinstance(column, str):
            raise InputTypeError(f"{name}[{shown(key)}] is one str, not a column; {_TAKES}")
        values[key] = many(column, f"{name}[{key!r}]")
    sizes = {key: len(column) for key, column in values.items()}
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{shown(key)} {size:,}" for key, size in sizes.items())
        raise InputError(f"{name} has columns of different lengths: {said}")

    def read() -> Iterator[tuple[int, dict[str, Any]]]:
        for number, row in enumerate(zip(*values.values(), strict=True), 1):
            yield number, dict(zip(values, row, strict=True))

    return Table(name, list(values), read)


def _of_rows(rows: Sequence[Any], name: str) -> Table:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise InputTypeError(f"{name}:{number} is a {kind_of(row)}, not a dict; {_TAKES}")
        if odd := [key for key in row if not isinstance(key, str)]:
            raise InputTypeError(f"{name}:{number} has a key {shown(odd[0])}; keys are str")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return Table(name, columns, lambda: ((i, dict(row)) for i, row in enumerate(rows, 1)))
