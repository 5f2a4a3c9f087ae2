"""Opens what answers are written to: a terminal, a pipe, or a file that is replaced when done."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import click

from roberta_hub.errors import InputError
from roberta_hub.files import publishing
from roberta_hub.shell.binary import Npy, Parquet
from roberta_hub.shell.formats import Jsonl, Sink, Table, comma, tab
from roberta_hub.shell.grammar import FORMATS, Asked
from roberta_hub.verbs.question import Form

SINKS: dict[str, Callable[..., Sink]] = {
    **{"table": Table, "jsonl": Jsonl, "csv": comma, "tsv": tab},
    **{"parquet": Parquet, "npy": Npy},
}
ENDINGS = {"ndjson": "jsonl", "pq": "parquet", "txt": "table"}
"""Endings of names that stand for a format of another name."""


@contextlib.contextmanager
def opened(asked: Asked, form: Form) -> Iterator[Sink]:
    """Open what takes the answers of a verb.

    Args:
        asked: says where to and how.
        form: of the answers.

    Yields:
        What takes them. A file is in its place, whole, when this ends without an error.
    """
    kind = format_of(asked, form)
    blocks = bool(asked.texts or asked.pairs)
    if asked.target in (None, "-"):
        sink = SINKS[kind](sys.stdout, form, blocks=blocks)
        yield sink
        sink.close()
        return
    with _file(Path(str(asked.target)), asked.source) as stream:
        sink = SINKS[kind](stream, form, blocks=blocks)
        yield sink
        sink.close()


def format_of(asked: Asked, form: Form) -> str:
    """Tell the format of the answers: the one that was asked for, or that fits the place.

    Args:
        asked: says where to and how.
        form: of the answers.

    Raises:
        UsageError: the name of the file does not tell, or the format cannot hold the answers.
    """
    kind = asked.format or _fitting(asked.target)
    has_vectors = not form.sample.keys().isdisjoint(("vector", "vectors"))
    if kind in ("parquet", "npy") and asked.target in (None, "-"):
        raise click.UsageError(f"{kind} is no text; give -o FILE")
    if kind == "npy" and "vector" not in form.sample:
        why = "it holds one vector a text: --pooling mean" if has_vectors else "it is for vectors"
        raise click.UsageError(f".npy cannot hold what {asked.verb} answers; {why}")
    if kind in ("csv", "tsv") and has_vectors:
        raise click.UsageError(f"{kind} has no cells for vectors; take jsonl, parquet or npy")
    return kind


def _fitting(target: str | None) -> str:
    if target in (None, "-"):
        return "table" if sys.stdout.isatty() else "jsonl"
    ending = Path(str(target)).suffix[1:].lower()
    kind = ENDINGS.get(ending, ending)
    if kind not in FORMATS:
        raise click.UsageError(
            f"{target}: its name does not say the format; end it in .jsonl, .csv, .tsv, .parquet, "
            ".npy or .txt, or give --format"
        )
    return kind


@contextlib.contextmanager
def _file(path: Path, source: str | None) -> Iterator[io.TextIOWrapper]:
    """Open a file that is written beside and put in its place; a pipe or a device as it is."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give a file for the answers")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder, so no answers can be written there")
    if source not in (None, "-") and path.exists() and os.path.samefile(str(source), path):
        raise InputError(f"{path} is read and cannot be written too; give another name for -o")
    path = Path(os.path.realpath(path))  # a link stays one
    special = path.exists() and not path.is_file()
    place = contextlib.nullcontext(path) if special else publishing(path)
    with (
        terminable(),
        place as new,
        open(new, "wb") as file,
        io.TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=True) as stream,
    ):
        yield stream


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Have SIGTERM end the process as an exception does, so that no half of a file is left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
