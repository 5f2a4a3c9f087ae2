"""Reads the texts of a command line: its arguments, a file, a column of a table, standard input."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import click

from roberta_hub.arguments import advise, short_repr
from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.indexing import is_index
from roberta_hub.rows.columns import find_text_column, shell_list, table_line
from roberta_hub.rows.formats import Missing
from roberta_hub.rows.lines import (
    UNPACKING_ERRORS,
    Line,
    LineStream,
    decoded,
    raw_lines,
    unpacked,
)
from roberta_hub.rows.tables import Table, format_of, open_table, parquet_table, stream_table
from roberta_hub.rows.values import Fault, Unreadable
from roberta_hub.shell.options import Request
from roberta_hub.verbs.question import Parts

STDIN = "standard input"
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
    """(): it is at fault."""
    where: str
    """Place for messages: "reviews.csv:12"."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of its row, by column; none for a line or an argument."""
    fault: Fault | None = None
    """Why there is nothing to ask; `Missing`: a text is missing."""


@dataclass(frozen=True)
class Source:
    """The inputs of a command line."""

    items: Iterator[Item | None]
    """None: the next is not available yet."""
    table: Table | None = None
    """Whose rows they are; None: they are lines or arguments."""
    columns: tuple[str, ...] = ()
    """The table's columns, those of the texts among them."""


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


def read_source(request: Request, parts: Parts) -> Source:
    """Open the inputs of a command line."""
    _check(request, parts)
    if request.texts or request.pairs:
        return Source(iter(_arguments(request, parts)))
    return open_source(request.source or "-", request.columns, parts, request.input_format)


def open_source(
    source: str, columns: Sequence[str], parts: Parts, format: str | None = None
) -> Source:
    """Open a file, or standard input."""
    if source == "-":
        if sys.stdin is None:
            raise click.UsageError("no texts: give some as arguments, -i FILE, or standard input")
        if sys.stdin.isatty():
            click.echo("reading texts from the terminal, one a line; Ctrl-D ends them", err=True)
        return _stream(sys.stdin.buffer, STDIN, columns, parts, format)
    if is_index(source):
        return _index_source(source, columns, parts, format)
    path = Path(source)
    if path.exists() and not path.is_file() and not path.is_dir():  # <(command) of a shell
        if format is None and not columns:
            format = format_of(path)
        file = open(path, "rb")  # noqa: SIM115  # the returned iterator reads it to its end
        return _stream(file, source, columns, parts, format)
    if format is None and (
        format_of(path) is not None or path.suffix.lower() in UNREADABLE_ENDINGS
    ):
        return _table_source(open_table(path), columns, parts)
    if format not in (None, "lines"):
        return _table_source(open_table(path, format), columns, parts)
    if columns:
        raise click.UsageError(
            f"--text names a column, and {source} is no table: its name ends in none of .csv, "
            ".tsv, .jsonl, .parquet; --input-format says what it is"
        )
    return Source(_lines(raw_lines(path), source, parts))


def _check(request: Request, parts: Parts) -> None:
    """Refuse texts from two sources, and a file given as a text."""
    check_words(request.texts)
    if request.truncate and request.stride is not None:
        raise click.UsageError("--truncate and --stride exclude each other; choose one")
    given = {"texts": request.texts, "--pair": request.pairs, "-i": request.source}
    ways = [name for name, value in given.items() if value]
    if len(ways) > 1:
        raise click.UsageError(f"give {' or '.join(ways)}, not both")
    if request.columns and (request.texts or request.pairs):
        raise click.UsageError("--text is for a table: give -i FILE, or JSONL on standard input")
    if request.input_format and (request.texts or request.pairs):
        raise click.UsageError("--input-format is for a file: give -i FILE, or standard input")
    for names, count in (
        (request.columns, len(request.columns)),
        (request.texts, 1),
        (request.pairs, 2),
    ):
        if names and not parts.least <= count <= parts.most:
            raise click.UsageError(parts.refusal(count))


def check_words(texts: Sequence[str], *, need_a_file: bool = False) -> None:
    """Refuse files given as texts; where there are texts too, note a file."""
    named = [text for text in texts if _is_file(text)]
    if not named:
        return
    said = f"{short_repr(named[0])} is a file, and arguments are texts; -i {named[0]} reads it"
    if need_a_file or len(named) == len(texts):
        raise click.UsageError(said)
    advise(said)


def _is_file(name: str) -> bool:
    try:
        return os.path.isfile(name)
    except ValueError:  # a NUL
        return False


def _arguments(request: Request, parts: Parts) -> list[Item]:
    several = [(text,) for text in request.texts] or request.pairs
    return [Item(texts, f"argument {number}") for number, texts in enumerate(several, 1)]


# ---- lines ----


def _lines(lines: Iterable[Line], name: str, parts: Parts) -> Iterator[Item | None]:
    """Yield a line as a text, or as texts separated by tabs; every line has as many as the first.

    Of a pipe None comes where the next line has not arrived yet.
    """
    count = 0
    first = ""
    for number, line in enumerate(lines, 1):
        text = decoded(line, number)
        where = f"{name}:{number}"
        if number == 1 and not isinstance(text, Fault):
            _note_header(text, name)
        if isinstance(text, Unreadable):
            raise InputError(_with_format(text.why, name), place=where)
        if isinstance(text, Fault):
            yield Item((), where, fault=text)
        elif not text:
            yield Item((), where, fault=Missing("an empty line"))
            count = count or (parts.least if number >= FIRST_WINDOW_TEXTS else 0)
        else:
            texts = tuple(text.split("\t")) if parts.most > 1 else (text,)
            if not count:
                count, first = len(check_count(Item(texts, where), parts).texts), where
            fault = _fault_of_texts(texts, count, first)
            yield Item((), where, fault=fault) if fault else Item(texts, where)
        if isinstance(lines, LineStream) and lines.waits:
            yield None


def _fault_of_texts(texts: Texts, count: int, first: str) -> Fault | None:
    """Say what is wrong with the texts of a line; None: nothing."""
    if len(texts) != count:
        return Fault(
            f"{len(texts)} texts with tabs between them, and {first or 'the lines before'} has "
            f"{count}; a tab separates the texts of a pair, so put spaces in its place "
            "(tr '\\t' ' '), or give a table with -i"
        )
    return None if all(texts) else Missing("nothing on one side of a tab")


def _note_header(text: str, name: str) -> None:
    """Say that the first line looks like the header of a table, where lines are texts."""
    found = table_line(text)
    if found is None:
        return
    format, column = found
    what = "an object of JSONL" if format == "jsonl" else f"the header of a {format.upper()}"
    source = "-" if name == STDIN else name
    advise(
        f"{name}:1 looks like {what}, and each line is taken as a text; "
        f"-i {source} --input-format {format} --text {shell_list([column])} reads a table"
        + (" from a pipe" if name == STDIN else "")
    )


def _with_format(why: str, name: str) -> str:
    """Add how a pipe says what it holds, where its first line is no text."""
    if name != STDIN or "name says otherwise" not in why:
        return why
    kind = "parquet --text NAME" if "Parquet" in why else "lines (csv, tsv, jsonl with --text NAME)"
    return why.partition("; its name")[0] + f"; -i - --input-format {kind} reads it"


# ---- pipes ----


def _stream(
    file: BinaryIO, name: str, columns: Sequence[str], parts: Parts, format: str | None
) -> Source:
    """Read a pipe as lines, or as the table that the command line says it is."""
    packed = file
    if format is not None:
        packed = unpacked(file)
    if format == "parquet":
        whole = tempfile.TemporaryFile()  # noqa: SIM115  # the table reads it to its end
        try:
            shutil.copyfileobj(packed, whole)
            whole.flush()
        except UNPACKING_ERRORS as error:
            raise InputError(f"{name}: cannot be read: {error}") from None
        return _table_source(parquet_table(whole, name), columns, parts)
    lines = LineStream(packed, name)
    if format in (None, "lines") and not columns:
        return Source(_lines(lines, name, parts))
    if format == "lines":
        raise click.UsageError("--text names a column, and lines have none")
    if format is None:
        lines = _checked_jsonl(lines, name)
    return _table_source(stream_table(lines, format or "jsonl", name), columns, parts, lines)


def _checked_jsonl(lines: LineStream, name: str) -> LineStream:
    """Refuse a pipe that holds no JSONL, where no format is named."""
    first = lines.first()
    text = decoded(first, 1) if first is not None else ""
    if isinstance(text, Unreadable):
        raise InputError(_with_format(text.why, name), place=f"{name}:1")
    if isinstance(text, str) and text.strip() and not text.lstrip().startswith("{"):
        raise click.UsageError(
            f"--text takes JSONL from {name}, an object a line, and the first line is "
            f"{short_repr(text)}; -i - --input-format csv reads a CSV, and so does its name: "
            "-i FILE"
        )
    return lines


# ---- tables ----


def _table_source(
    table: Table, columns: Sequence[str], parts: Parts, lines: LineStream | None = None
) -> Source:
    columns = columns or _find_columns(table, parts)
    try:
        known = table.columns or lines is None  # an empty pipe has no columns
        chosen = tuple(table.check(name) if known else name for name in columns)
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from None
    if chosen:
        check_count(Item(chosen, table.name), parts)
    return Source(_rows(table, chosen, lines), table, chosen)


def _index_source(source: str, columns: Sequence[str], parts: Parts, format: str | None) -> Source:
    """Open the rows of an index, which knows its texts."""
    from roberta_hub.indexing.store import Store

    if format is not None:
        raise click.UsageError(f"--input-format is for a file, and {source} is an index")
    store = Store(source)
    return _table_source(store.as_table(), columns or [store.says().text], parts)


def _rows(table: Table, columns: Sequence[str], lines: LineStream | None) -> Iterator[Item | None]:
    for number, values in table.read():
        where = f"{table.name}:{number}"
        if isinstance(values, Unreadable):
            raise InputError(values.why, place=where)
        if isinstance(values, Fault):
            yield Item((), where, fault=values)
        else:
            texts = table.format.texts_of(values, columns)
            if isinstance(texts, Fault):
                yield Item((), where, values, texts)
            else:
                yield Item((texts,) if isinstance(texts, str) else texts, where, values)
        if lines is not None and lines.waits:
            yield None


def _find_columns(table: Table, parts: Parts) -> Sequence[str]:
    """Return the text columns if they are unambiguous."""
    if not table.columns:  # an empty file
        return ()
    for names in ((parts.one,), parts.two):
        if parts.least <= len(names) <= parts.most and set(names) <= set(table.columns):
            return names
    if parts.least == 1:
        try:
            return (find_text_column(table),)
        except InputError as error:
            raise click.UsageError(error.in_shell()) from None
    wanted = parts.called(parts.least)
    example = "NAME" if len(wanted) == 1 else ",".join(wanted).upper()
    raise click.UsageError(
        f"{table.name}: which column has the {' and which the '.join(wanted)}? Say --text "
        f"{example}. {table.listed()}"
    )
