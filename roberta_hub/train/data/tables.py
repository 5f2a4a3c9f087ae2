"""Reads tables of examples for training: their rows, the roles of columns, values of a kind.

A row that cannot be read is an error with its file and line; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.tables import (
    FORMATS,
    bad,
    check_file,
    format_of,
    json_object,
    lines,
    open_table,
)
from roberta_hub.train.limits import near

__all__ = [
    "TABLES",
    "bad",
    "check_file",
    "check_format",
    "format_of",
    "json_object",
    "lines",
    "list_of",
    "nonempty",
    "number_of",
    "roles",
    "rows",
    "text_of",
    "value_of",
]
TABLES = FORMATS
"""What `rows` reads; `None` takes the one that the file's name ends with."""


def rows(path: Path, format: str | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the rows of a table as dicts, with their line numbers.

    Raises:
        InputError: no such file, not UTF-8, or a row that does not fit the header.
    """
    check_format(format, TABLES)
    if format is None and format_of(path) is None:
        raise InputError(
            f"{path}: its name does not say what it is; set data.format to {', '.join(TABLES)}, or "
            "to the layout of a published set"
        )
    yield from open_table(path, format).read()


def check_format(format: str | None, known: Sequence[str]) -> None:
    """Refuse a format that is not known; the message lists those that are."""
    if format is not None and format not in known:
        raise UnknownNameError(f"data.format is {format!r}{near(format, known)}")


def roles(
    columns: Mapping[str, Any] | None, known: Sequence[str], default: Mapping[str, str]
) -> dict[str, Any]:
    """Say which column plays which role; UnknownNameError for a role that does not exist."""
    for role in columns or {}:
        if role not in known:
            raise UnknownNameError(f"no role data.columns.{role}{near(role, known)}")
    for role, column in (columns or {}).items():
        several = isinstance(column, (list, tuple)) and role == "options"
        if not all(isinstance(name, str) for name in (column if several else [column])):
            raise InputError(f"data.columns.{role} is {str(column)[:60]!r}, must name a column")
    return {**default, **(columns or {})}


def value_of(row: Mapping[str, Any], column: Any, path: Path, line: int) -> Any:
    """Read a column's value; the error of a missing one lists the columns."""
    if column not in row:
        raise bad(path, line, f"no column {column!r}; there are {', '.join(map(str, row))}")
    value = row[column]
    if value is None:
        raise bad(path, line, f"column {column!r} is empty")
    return value


def text_of(row: Mapping[str, Any], column: Any, path: Path, line: int) -> str:
    """Read a column's text."""
    value = value_of(row, column, path, line)
    if not isinstance(value, str):
        raise bad(path, line, f"column {column!r} is a {type(value).__name__}, not text")
    return value


def number_of(value: Any) -> int | None:
    """Read a whole number of up to six digits; None for anything else.

    Example:
        >>> number_of("12"), number_of(3), number_of("-1")
        (12, 3, None)
    """
    return int(value) if re.fullmatch(r"\d{1,6}", str(value)) else None


def list_of(row: Mapping[str, Any], column: Any, path: Path, line: int) -> list[str]:
    """Read a column's list of texts, or the texts of several columns."""
    if isinstance(column, (list, tuple)):
        return [text_of(row, name, path, line) for name in column]
    value = value_of(row, column, path, line)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise bad(path, line, f"column {column!r} is no list of texts")
    return value


def nonempty(found: list[Any], path: Path) -> list[Any]:
    """Return the examples, or refuse a file that holds none."""
    if not found:
        raise InputError(f"{path}: holds no examples")
    return found
