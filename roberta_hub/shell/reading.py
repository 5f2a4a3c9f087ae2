"""Reads the texts of a command line: its arguments, a file, a column of a table, standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.rows.lines import blocks, decoded, lines, split_lines
from roberta_hub.rows.tables import Row, Table, format_of, json_row, open_table
from roberta_hub.rows.values import value_or_raise
from roberta_hub.shell.options import Request
from roberta_hub.verbs.question import Parts

STDIN = "standard input"
CHUNK_BYTES = 1 << 16
"""Bytes per read of standard input, the size of a pipe."""
UNREADABLE_ENDINGS = (".json", ".xlsx", ".xls", ".ods")
"""Endings of files that are not read: each of their lines would be taken for a text."""
FIRST_WINDOW_TEXTS, MAX_WINDOW_TEXTS = 32, 512
"""Texts of the first and of the largest window; the size doubles from one to the next."""
MAX_WINDOW_CHARACTERS = 1_000_000
"""Characters at which a window ends."""

Texts = tuple[str, ...]


@dataclass(frozen=True)
class Item:
    """An input: one text, a pair, or a text with options."""

    texts: Texts
    where: str
    """Place for messages: "reviews.csv:12"."""


def check_count(item: Item, parts: Parts) -> Item:
    """Return an input, if it has as many texts as the verb takes."""
    count = len(item.texts)
    if parts.least <= count <= parts.most:
        return item
    raise InputError(f"{item.where}: {parts.refusal(count)}")


def group_in_windows(
    items: Iterator[Item | None], most: int = MAX_WINDOW_TEXTS
) -> Iterator[list[Item]]:
    """Group inputs in windows, which are answered one after the other.

    The first is small, so that the first answers come soon.

    Args:
        items: inputs; None ends a window, since no more are available yet.
        most: inputs of the largest window.
    """
    window: list[Item] = []
    size, characters = min(FIRST_WINDOW_TEXTS, most), 0
    for item in items:
        if item is not None:
            window.append(item)
            characters += sum(map(len, item.texts))
        if window and (item is None or len(window) == size or characters > MAX_WINDOW_CHARACTERS):
            yield window
            window, characters, size = [], 0, min(2 * size, most)
    if window:
        yield window


def read_items(request: Request, parts: Parts) -> Iterator[Item | None]:
    """Yield the inputs of a command line; None if the next is not available yet.

    Args:
        request: of the command line.
        parts: how many texts an input has.

    Raises:
        InputError: an input that cannot be read, or with a wrong number of texts.
    """
    _check(request, parts)
    if request.texts or request.pairs:
        return iter(_arguments(request, parts))
    return from_file(request.source or "-", request.columns, parts)


def from_file(source: str, columns: Sequence[str], parts: Parts) -> Iterator[Item | None]:
    """Read a file, or standard input.

    Args:
        source: a path, or "-".
        columns: of a table; (): the only one, or the one called text.
        parts: how many texts an input has.
    """
    if source == "-":
        if sys.stdin is None:
            raise click.UsageError("no texts: give some as arguments, -i FILE, or standard input")
        if sys.stdin.isatty():
            click.echo("reading texts from the terminal, one a line; Ctrl-D ends them", err=True)
        return _stream_lines(sys.stdin.buffer, STDIN, _line_reader(STDIN, columns, parts))
    path = Path(source)
    if format_of(path) is not None or path.suffix.lower() in UNREADABLE_ENDINGS:
        return _table(open_table(path), columns, parts)
    if path.exists() and not path.is_file() and not path.is_dir():  # <(command) of a shell
        file = open(path, "rb")  # noqa: SIM115  # the returned iterator reads it to its end
        return _stream_lines(file, source, _line_reader(source, columns, parts))
    if columns:
        raise click.UsageError(
            f"--column names a column, and {source} is no table: its name ends in none of .csv, "
            ".tsv, .jsonl, .parquet"
        )
    line = _line_reader(source, columns, parts)
    return (line(text, number) for number, text in lines(path))


def _check(request: Request, parts: Parts) -> None:
    """Refuse texts from two sources, and a file given as a text."""
    named = [name for name in request.texts if _is_file(name)]
    if request.texts and len(named) == len(request.texts):
        raise click.UsageError(
            f"{short_repr(named[0])} is a file, and arguments are texts; -i {named[0]} reads it"
        )
    if request.truncate and request.stride is not None:
        raise click.UsageError("--truncate and --stride exclude each other; choose one")
    given = {"texts": request.texts, "--pair": request.pairs, "-i": request.source}
    ways = [name for name, value in given.items() if value]
    if len(ways) > 1:
        raise click.UsageError(f"give {' or '.join(ways)}, not both")
    if request.columns and (request.texts or request.pairs):
        raise click.UsageError("--column is for a table: give -i FILE, or JSONL on standard input")
    for names, count in (
        (request.columns, len(request.columns)),
        (request.texts, 1),
        (request.pairs, 2),
    ):
        if names and not parts.least <= count <= parts.most:
            raise click.UsageError(parts.refusal(count))


def _is_file(name: str) -> bool:
    try:
        return os.path.isfile(name)
    except ValueError:  # a NUL
        return False


def _arguments(request: Request, parts: Parts) -> list[Item]:
    several = [(text,) for text in request.texts] or request.pairs
    return [Item(texts, f"argument {number}") for number, texts in enumerate(several, 1)]


# ---- lines ----

LineReader = Callable[[str, int], Item | None]
"""From a line and its number, from 1, to an input; None: a blank line."""


def _line_reader(name: str, columns: Sequence[str], parts: Parts) -> LineReader:
    """Make a reader of lines: a text, texts separated by tabs, or a JSON object.

    Every line has as many texts as the first.
    """
    if columns:
        return lambda text, number: _object(text, name, number, columns, parts)
    first: list[tuple[int, str]] = []

    def read(text: str, number: int) -> Item:
        where = f"{name}:{number}"
        texts = tuple(text.split("\t")) if parts.most > 1 else (text,)
        first[:] = first or [(len(texts), where)]
        if len(texts) != first[0][0]:
            raise InputError(
                f"{where}: {len(texts)} texts with tabs between them, and {first[0][1]} has "
                f"{first[0][0]}; a tab separates the texts of a pair, so put spaces in its place "
                "(tr '\\t' ' '), or give a table with -i"
            )
        return check_count(Item(texts, where), parts)

    return read


def _object(text: str, name: str, number: int, columns: Sequence[str], parts: Parts) -> Item | None:
    if number == 1 and not text.lstrip().startswith("{"):
        raise click.UsageError(
            f"--column takes JSONL from {name}, an object a line, and the first line is "
            f"{short_repr(text)}; give a CSV by its name: -i FILE"
        )
    if not text.strip():
        return None
    return check_count(_item_of_row(json_row(text, number, name), columns), parts)


def _stream_lines(file: BinaryIO, name: str, line: LineReader) -> Iterator[Item | None]:
    """Yield inputs as lines arrive; None when no more is available yet."""
    number = 0
    for found in split_lines(blocks(file.read1, CHUNK_BYTES)):  # type: ignore[attr-defined]
        for raw in found:
            number += 1
            yield line(value_or_raise(decoded(raw, number), f"{name}:{number}"), number)
        yield None


# ---- tables ----


def _table(table: Table, columns: Sequence[str], parts: Parts) -> Iterator[Item]:
    columns = columns or _find_columns(table, parts)
    try:
        chosen = [table.check(column) for column in columns]
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from None
    return (check_count(_item_of_row(row, chosen), parts) for row in table.rows())


def _find_columns(table: Table, parts: Parts) -> Sequence[str]:
    """Return the text columns if they are unambiguous."""
    if len(table.columns) == 1 == parts.least:
        return table.columns
    for names in ((parts.one,), parts.two):
        if parts.least <= len(names) <= parts.most and set(names) <= set(table.columns):
            return names
    wanted = parts.called(parts.least)
    example = "NAME" if len(wanted) == 1 else ",".join(wanted).upper()
    raise click.UsageError(
        f"{table.name}: which column has the {' and which the '.join(wanted)}? Say --column "
        f"{example}. {table.listed()}"
    )


def _item_of_row(row: Row, columns: Sequence[str]) -> Item:
    return Item(tuple(row.text(column) for column in columns), row.where)
