"""Reads the texts of a command line: its arguments, a file, a column of a table, standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from roberta_hub.arguments import shown
from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.rows.lines import blocks, decoded, lines, split_lines
from roberta_hub.rows.tables import Row, Table, format_of, json_row, open_table
from roberta_hub.rows.values import sound
from roberta_hub.shell.grammar import Asked
from roberta_hub.verbs.question import Parts

STDIN = "standard input"
CHUNK = 1 << 16
"""Bytes of standard input that are asked for at once; a pipe holds so many."""
NO_LINES = (".json", ".xlsx", ".xls", ".ods")
"""Endings of tables that are not read; each of their lines would pass for a text."""
FIRST, MOST = 32, 512
"""Texts of the first window, and of the largest: each is twice as large as the one before it."""
CHARACTERS = 1_000_000
"""Characters at which a window ends all the same."""

Texts = tuple[str, ...]


@dataclass(frozen=True)
class Item:
    """An input: one text, a pair, or a text with options."""

    texts: Texts
    where: str
    """For messages: "reviews.csv:12"."""


def checked(item: Item, parts: Parts) -> Item:
    """Return an input that has as many texts as the verb takes."""
    count = len(item.texts)
    if parts.least <= count <= parts.most:
        return item
    raise InputError(f"{item.where}: {parts.refusal(count)}")


def windows(items: Iterator[Item | None], most: int = MOST) -> Iterator[list[Item]]:
    """Put inputs together to windows, which are answered one after the other.

    The first is small, so that something is soon to be seen.

    Args:
        items: inputs; None ends a window: no more are there yet.
        most: inputs of the largest window.
    """
    window: list[Item] = []
    size, characters = min(FIRST, most), 0
    for item in items:
        if item is not None:
            window.append(item)
            characters += sum(map(len, item.texts))
        if window and (item is None or len(window) == size or characters > CHARACTERS):
            yield window
            window, characters, size = [], 0, min(2 * size, most)
    if window:
        yield window


def items(asked: Asked, parts: Parts) -> Iterator[Item | None]:
    """Return the inputs that a command line names, one by one; None: more are still to come.

    Args:
        asked: what was given.
        parts: how many texts an input has.

    Raises:
        InputError: an input that cannot be read, or that has another number of texts.
    """
    _check(asked, parts)
    if asked.texts or asked.pairs:
        return iter(_arguments(asked, parts))
    return from_file(asked.source or "-", asked.columns, parts)


def from_file(source: str, columns: Sequence[str], parts: Parts) -> Iterator[Item | None]:
    """Read a file, or standard input.

    Args:
        source: a path, or "-".
        columns: of a table; none: the only one, or the one called text.
        parts: how many texts an input has.
    """
    if source == "-":
        if sys.stdin is None:
            raise click.UsageError("no texts: give some as arguments, -i FILE, or standard input")
        if sys.stdin.isatty():
            click.echo("reading texts from the terminal, one a line; Ctrl-D ends them", err=True)
        return _stream(sys.stdin.buffer, STDIN, _line(STDIN, columns, parts))
    path = Path(source)
    if format_of(path) is not None or path.suffix.lower() in NO_LINES:
        return _table(open_table(path), columns, parts)
    if path.exists() and not path.is_file() and not path.is_dir():  # <(command) of a shell
        file = open(path, "rb")  # noqa: SIM115  # read to its end by what is returned
        return _stream(file, source, _line(source, columns, parts))
    if columns:
        raise click.UsageError(
            f"--column names a column, and {source} is no table: its name ends in none of .csv, "
            ".tsv, .jsonl, .parquet"
        )
    line = _line(source, columns, parts)
    return (line(text, number) for number, text in lines(path))


def _check(asked: Asked, parts: Parts) -> None:
    """Refuse a command line that names its texts in two ways, or a file as if it were a text."""
    named = [name for name in asked.texts if _is_file(name)]
    if asked.texts and len(named) == len(asked.texts):
        raise click.UsageError(
            f"{shown(named[0])} is a file, and arguments are texts; -i {named[0]} reads it"
        )
    if asked.truncate and asked.stride is not None:
        raise click.UsageError("--truncate and --stride exclude each other; choose one")
    given = {"texts": asked.texts, "--pair": asked.pairs, "-i": asked.source}
    ways = [name for name, value in given.items() if value]
    if len(ways) > 1:
        raise click.UsageError(f"give {' or '.join(ways)}, not both")
    if asked.columns and (asked.texts or asked.pairs):
        raise click.UsageError("--column is for a table: give -i FILE, or JSONL on standard input")
    for names, count in ((asked.columns, len(asked.columns)), (asked.texts, 1), (asked.pairs, 2)):
        if names and not parts.least <= count <= parts.most:
            raise click.UsageError(parts.refusal(count))


def _is_file(name: str) -> bool:
    try:
        return os.path.isfile(name)
    except ValueError:  # a NUL
        return False


def _arguments(asked: Asked, parts: Parts) -> list[Item]:
    several = [(text,) for text in asked.texts] or asked.pairs
    return [Item(texts, f"argument {number}") for number, texts in enumerate(several, 1)]


# ---- lines ----

Line = Callable[[str, int], Item | None]
"""From a line and its number, counted from 1, to an input; None: to none."""


def _line(name: str, columns: Sequence[str], parts: Parts) -> Line:
    """Make what reads a line: a text, texts with tabs between them, or a JSON object.

    Every line has as many texts as the first one.
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
        return checked(Item(texts, where), parts)

    return read


def _object(text: str, name: str, number: int, columns: Sequence[str], parts: Parts) -> Item | None:
    if number == 1 and not text.lstrip().startswith("{"):
        raise click.UsageError(
            f"--column takes JSONL from {name}, an object a line, and the first line is "
            f"{shown(text)}; give a CSV by its name: -i FILE"
        )
    if not text.strip():
        return None
    return checked(_item(json_row(text, number, name), columns), parts)


def _stream(file: BinaryIO, name: str, line: Line) -> Iterator[Item | None]:
    """Read lines as they come; None where what has come is read, and more may follow."""
    number = 0
    for found in split_lines(blocks(file.read1, CHUNK)):  # type: ignore[attr-defined]
        for raw in found:
            number += 1
            yield line(sound(decoded(raw, number), f"{name}:{number}"), number)
        yield None


# ---- tables ----


def _table(table: Table, columns: Sequence[str], parts: Parts) -> Iterator[Item]:
    columns = columns or _found(table, parts)
    try:
        chosen = [table.check(column) for column in columns]
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from None
    return (checked(_item(row, chosen), parts) for row in table.rows())


def _found(table: Table, parts: Parts) -> Sequence[str]:
    """Return the columns with the texts where there is no doubt which they are."""
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


def _item(row: Row, columns: Sequence[str]) -> Item:
    return Item(tuple(row.text(column) for column in columns), row.where)
