"""Reads rows as `data.format` says, and their columns' roles as `data.columns` says."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.rows.tables import FORMATS, Row, format_of, open_table
from roberta_hub.train.limits import suggestion

Example = TypeVar("Example")


def read_rows(path: Path, format: str | None = None) -> Iterator[Row]:
    """Read the rows of a table."""
    check_format(format, FORMATS)
    if format is None and format_of(path) is None:
        raise InputError(
            f"{path}: its name does not say what it is; set data.format to {', '.join(FORMATS)}, "
            "or to the layout of a published set"
        )
    yield from open_table(path, format).rows()


def check_format(format: str | None, known: Sequence[str]) -> None:
    """Refuse a format that is not known; the message lists those that are."""
    if format is not None and format not in known:
        raise UnknownNameError(f"data.format is {format!r}{suggestion(format, known)}")


def column_roles(
    columns: Mapping[str, Any] | None, known: Sequence[str], default: Mapping[str, str]
) -> dict[str, Any]:
    """Say which column plays which role; UnknownNameError for a role that does not exist."""
    for role in columns or {}:
        if role not in known:
            raise UnknownNameError(f"no role data.columns.{role}{suggestion(role, known)}")
    for role, column in (columns or {}).items():
        several = isinstance(column, (list, tuple)) and role == "options"
        if not all(isinstance(name, str) for name in (column if several else [column])):
            raise InputError(f"data.columns.{role} is {str(column)[:60]!r}, must name a column")
    return {**default, **(columns or {})}


def parse_digits(value: Any) -> int | None:
    """Read a whole number of up to six digits; None for anything else.

    Example:
        >>> parse_digits("12"), parse_digits(3), parse_digits("-1")
        (12, 3, None)
    """
    return int(value) if re.fullmatch(r"\d{1,6}", str(value)) else None


def text_in(row: Row, columns: Sequence[str], left: LeftOut) -> str | tuple[str, ...] | None:
    """Read the text of a row to learn from, or its pair; None: it is left out, which is counted.

    The first row must have all columns.
    """
    for column in columns:
        if not left.rows and column not in row.values:
            row.value(column)  # raises
    return left.text(row, columns)


def warn_of(left: LeftOut) -> None:
    """Warn once of the rows that were left out, and of texts that look missing."""
    for note in left.sentences():
        warnings.warn(note, stacklevel=3)


def nonempty(found: list[Example], path: Path | str) -> list[Example]:
    """Return the examples, or refuse a file that holds none."""
    if not found:
        raise InputError(f"{path}: holds no examples")
    return found
