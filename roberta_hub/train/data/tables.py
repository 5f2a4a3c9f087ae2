"""Reads tables of examples row by row: TSV, JSONL and Parquet, plain or compressed.

A row that cannot be read is an error with its file and line; nothing is guessed.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from roberta_hub.errors import InputError, MissingExtraError, RobertaHubError, UnknownNameError
from roberta_hub.train.limits import near

TABLES = ("tsv", "jsonl", "parquet")
"""What `rows` reads; `None` takes the one that the file's name ends with."""

Row = tuple[int, dict[str, Any]]
"""(line, value of each column)."""


def bad(path: Path, line: int | str, what: str) -> InputError:
    """Make the error of one row: its file, its line and what is wrong."""
    return InputError(f"{path}:{line}: {what}")


def rows(path: Path, format: str | None = None) -> Iterator[Row]:
    """Read the rows of a table as dicts, with their line numbers.

    Raises:
        InputError: no such file, not UTF-8, or a row that does not fit the header.
    """
    format = format or _format_of(path)
    if format == "tsv":
        yield from _tsv(path)
    elif format == "jsonl":
        for line, text in lines(path):
            if text.strip():
                yield line, json_object(text, path, line)
    elif format == "parquet":
        yield from _parquet(path)
    else:
        check_format(format, TABLES)


def check_format(format: str | None, known: Sequence[str]) -> None:
    """Refuse a format that is not known; the message lists those that are."""
    if format is not None and format not in known:
        raise UnknownNameError(f"data.format is {format!r}{near(format, known)}")


def _format_of(path: Path) -> str:
    suffixes = [suffix[1:] for suffix in path.suffixes if suffix not in (".gz", ".xz")]
    format = suffixes[-1] if suffixes else ""
    if format not in TABLES:
        raise InputError(
            f"{path}: its name does not say what it is; set data.format to {', '.join(TABLES)}, or "
            "to the layout of a published set"
        )
    return format


def _tsv(path: Path) -> Iterator[Row]:
    header: list[str] = []
    for line, text in lines(path):
        cells = text.split("\t")
        if line == 1:
            header = cells
            if len(set(header)) != len(header):
                raise bad(path, line, "two columns have the same name")
        elif len(cells) != len(header):
            raise bad(path, line, f"{len(cells)} fields, the header has {len(header)}")
        else:
            yield line, dict(zip(header, cells, strict=True))


def _parquet(path: Path) -> Iterator[Row]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            f"{path}: Parquet needs pyarrow: pip install 'roberta-hub[tables]'"
        ) from None
    check_file(path)
    try:
        table = pyarrow.parquet.ParquetFile(path)
        line = 0
        for batch in table.iter_batches():
            for row in batch.to_pylist():
                line += 1
                yield line, row
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: not a readable Parquet file: {str(error)[:200]}") from None


def lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Read a UTF-8 file as (number from 1, line without its end); only "\n" ends a line."""
    check_file(path)
    try:
        with _open(path) as file:
            for number, raw in enumerate(file, 1):
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise bad(path, number, f"not UTF-8: {error}; convert the file") from None
                yield number, text.rstrip("\r\n")
    except RobertaHubError:
        raise
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        damaged = "; damaged, or not what its name says" if path.suffix in (".gz", ".xz") else ""
        raise InputError(f"{path}: cannot be read: {error}{damaged}") from None


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".xz":
        return lzma.open(path)
    if path.suffix == ".gz":
        return gzip.open(path)  # type: ignore[return-value]
    return open(path, "rb")


def check_file(path: Path) -> None:
    """Refuse a path where no file is."""
    if not os.path.isfile(path):  # which also answers for names that no file can have
        raise InputError(f"{path}: no such file; name it with data.train=... or data.valid=...")


def json_object(text: str, path: Path, line: int | str) -> dict[str, Any]:
    """Read the JSON object that a line holds."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad(path, line, f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise bad(path, line, f"a JSON {type(value).__name__}, not an object")
    return value


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
