"""Takes the texts out of any table, and puts the answers beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roberta_hub.arguments import kind_of, shown
from roberta_hub.errors import InputError, InputTypeError, Remedy, UnknownNameError, near_names
from roberta_hub.scale.columns import arrow

NAMED = "text"
"""The column that is taken where none is named."""


@dataclass(frozen=True)
class Fault:
    """Stands for a row that no model is asked about."""

    why: str


Row = str | tuple[str, ...] | Fault | None
"""The text, or the texts, of a row; None: one of them is null, and so is the answer."""


def names_of(table: Any) -> list[str]:
    """Name the columns of a table: Arrow's, pandas', polars', or a dict of columns.

    Raises:
        InputTypeError: it is no table.

    Example:
        >>> names_of({"text": ["Goal!"], "id": [1]})
        ['text', 'id']
    """
    if isinstance(table, Mapping):
        return list(table)
    kind = type(table)
    if hasattr(kind, "column_names"):
        return list(table.column_names)
    if hasattr(kind, "schema") and hasattr(kind, "to_pylist"):  # an older RecordBatch
        return list(table.schema.names)
    if hasattr(kind, "collect") and hasattr(kind, "with_columns"):
        raise InputTypeError(f"the table is a {kind_of(table)}, which holds no rows; collect() it")
    if hasattr(kind, "with_columns") or hasattr(kind, "iloc"):
        return list(table.columns)
    raise InputTypeError(
        f"the table is a {kind_of(table)}; pass a table of pyarrow, pandas or polars, a dict of "
        "columns, or an iterator of such tables"
    )


def chosen(
    names: Sequence[str], wanted: tuple[str, ...], what: str = "the table"
) -> tuple[str, ...]:
    """Tell which columns hold the texts: the named ones, `text`, or the only one.

    Args:
        names: of the table's columns.
        wanted: names that the caller gave; none: it gave none.
        what: an error calls the table.

    Raises:
        UnknownNameError: no such column; the message lists all.
        InputError: none was named, and several could be meant.
    """
    listed = ", ".join(map(str, names)) or "none"
    for name in wanted:
        if name not in names:
            near = near_names(name, [n for n in names if isinstance(n, str)])
            hint = f"did you mean {near}? " if near else ""
            raise UnknownNameError(
                f"{what} has no column {shown(name)}; {hint}Its columns: {listed}"
            )
    if wanted:
        return wanted
    if NAMED in names:
        return (NAMED,)
    if len(names) == 1:
        return (names[0],)
    raise InputError(
        f"{what}: which column holds the texts? The columns are {listed}",
        remedy=Remedy("pass text=NAME", "say --column NAME"),
    )


def values_of(table: Any, name: str) -> list[Any]:
    """Return a column as Python's own values; what is missing is None."""
    column = table[name] if not hasattr(type(table), "to_pylist") else table.column(name)
    for method in ("to_pylist", "tolist", "to_list"):
        if callable(getattr(type(column), method, None)):
            values = getattr(column, method)()
            break
    else:
        values = list(column)
    return [None if _missing(value) else value for value in values]


def rows_of(columns: Sequence[Sequence[Any]], names: Sequence[str]) -> list[Row]:
    """Put the values of columns together to the texts of each row.

    Args:
        columns: values of one length.
        names: of the columns, for what is wrong with a row.

    Example:
        >>> rows_of([["a", "b", "c"], ["d", None, 5]], ["first", "second"])[:2]
        [('a', 'd'), None]
    """
    if len(columns) == 1 and set(map(type, columns[0])) <= {str, type(None)}:
        return list(columns[0])
    return [_row(values, names) for values in zip(*columns, strict=True)]


def _row(values: tuple[Any, ...], names: Sequence[str]) -> Row:
    for value, name in zip(values, names, strict=True):
        if not (value is None or isinstance(value, str)):
            what = f"{shown(value)}, a {kind_of(value)}, not a text"
            return Fault(f"the column {shown(name)} holds {what}")
    if None in values:
        return None
    texts = tuple(str.__str__(value) for value in values)
    return texts if len(texts) > 1 else texts[0]


def _missing(value: object) -> bool:
    """None, NaN, or pandas' NA and NaT."""
    if isinstance(value, str):
        return False
    kind = type(value).__name__
    return value is None or kind in ("NAType", "NaTType") or (kind == "float" and value != value)


def check_clash(names: Sequence[str], answers: Sequence[str], remedy: Remedy) -> None:
    """Refuse answers whose column would take the name of another.

    Args:
        names: of the table's columns.
        answers: names of the columns with answers.
        remedy: what the message advises.

    Raises:
        InputError: a name comes twice.
    """
    if twice := [name for name in answers if name in names]:
        raise InputError(
            f"the table has a column {shown(twice[0])} already, and the answers would too",
            remedy=remedy,
        )


def beside(table: Any, answers: Any) -> Any:
    """Return a table of the same kind with the columns of answers behind its own.

    Args:
        table: as in `names_of`.
        answers: a pyarrow Table with as many rows.
    """
    kind = type(table)
    if isinstance(table, Mapping):
        lists = all(isinstance(column, list) for column in table.values())
        return {**table, **{n: _plain(answers.column(n), lists) for n in answers.column_names}}
    if hasattr(kind, "schema") and hasattr(kind, "to_pylist"):
        return _arrow_beside(table, answers)
    if hasattr(kind, "with_columns"):
        import polars

        return table.hstack(polars.DataFrame(polars.from_arrow(answers)).get_columns())
    frame = answers.to_pandas()
    frame.index = table.index
    return table.assign(**{name: frame[name] for name in answers.column_names})


def _arrow_beside(table: Any, answers: Any) -> Any:
    pa = arrow()
    if isinstance(table, pa.Table):
        for name in answers.column_names:
            table = table.append_column(answers.schema.field(name), answers.column(name))
        return table
    columns = [*table.columns, *(_whole(answers.column(name)) for name in answers.column_names)]
    fields = [*table.schema, *answers.schema]
    return pa.RecordBatch.from_arrays(
        columns, schema=pa.schema(fields, metadata=table.schema.metadata)
    )


def _whole(column: Any) -> Any:
    """Return a chunked column as one array."""
    pa = arrow()
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _plain(column: Any, lists: bool) -> Any:
    """Return a column as a list, or as numpy's array; vectors make one of shape (n, C)."""
    if lists:
        return column.to_pylist()
    pa = arrow()
    if not pa.types.is_fixed_size_list(column.type):
        return _whole(column).to_numpy(zero_copy_only=False)
    import numpy

    kind = column.type.value_type.to_pandas_dtype()
    missing = [float("nan")] * column.type.list_size
    rows = [missing if row is None else row for row in column.to_pylist()]
    return numpy.array(rows, kind).reshape(len(rows), column.type.list_size)


def is_utf8(text: str) -> bool:
    """Tell whether a str can be written: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_stream(table: object) -> bool:
    """Tell whether this is an iterator of tables, as Spark's `mapInArrow` gives."""
    return isinstance(table, Iterator)
