"""Opens the output: a terminal, a pipe, or a file that is replaced at the end."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import click

from roberta_hub.errors import InputError, RobertaHubError
from roberta_hub.files import DISK_ERRORS, publishing
from roberta_hub.shell.binary import NpySink, ParquetSink
from roberta_hub.shell.formats import JsonlSink, Sink, TableSink, csv_sink, tsv_sink
from roberta_hub.shell.layout import Layout
from roberta_hub.shell.options import ANSWER_FORMATS, Request
from roberta_hub.verbs.question import AnswerFormat

SINKS: dict[str, Callable[..., Sink]] = {
    **{"table": TableSink, "jsonl": JsonlSink, "csv": csv_sink, "tsv": tsv_sink},
    **{"parquet": ParquetSink, "npy": NpySink},
}
FORMAT_OF_ENDING = {"ndjson": "jsonl", "pq": "parquet", "txt": "table"}
"""Formats of endings with another name."""
SEEKING_FORMATS = ("parquet", "npy")
"""Formats that a pipe cannot be written in from its first byte to its last."""
MAX_LINKS = 40
"""Links that lead from one path to another, as many as Linux follows."""


@contextlib.contextmanager
def open_sink(request: Request, layout: Layout) -> Iterator[Sink]:
    """Open the sink for the answers of a verb."""
    kind = format_of(request, layout.answer_format)
    if request.target in (None, "-"):
        sink = SINKS[kind](sys.stdout, layout)
        yield sink
        sink.close()
        return
    with _open_target(str(request.target), request.source, kind) as stream:
        sink = SINKS[kind](stream, layout)
        yield sink
        sink.close()


def format_of(request: Request, answer_format: AnswerFormat) -> str:
    """Format of the answers: as requested, else by the target."""
    kind = request.format or _default_format(request.target)
    has_vectors = not answer_format.sample.keys().isdisjoint(("vector", "vectors"))
    if kind in ("parquet", "npy") and request.target in (None, "-"):
        raise click.UsageError(f"{kind} is no text; give -o FILE")
    if kind == "npy" and "vector" not in answer_format.sample:
        why = "it holds one vector a text: --pooling mean" if has_vectors else "it is for vectors"
        raise click.UsageError(f".npy cannot hold what {request.verb} answers; {why}")
    if kind in ("csv", "tsv") and has_vectors:
        raise click.UsageError(f"{kind} has no cells for vectors; take jsonl, parquet or npy")
    return kind


def _default_format(target: str | None) -> str:
    number = 1 if target in (None, "-") else descriptor_of(str(target))
    if number is not None:
        shown = sys.stdout.isatty() if number == 1 else os.isatty(number)
        return "table" if shown else "jsonl"
    ending = Path(str(target)).suffix[1:].lower()
    kind = FORMAT_OF_ENDING.get(ending, ending)
    if kind not in ANSWER_FORMATS:
        raise click.UsageError(
            f"{target}: its name does not say the format; end it in .jsonl, .csv, .tsv, .parquet, "
            ".npy or .txt, or give --format"
        )
    return kind


def descriptor_of(target: str) -> int | None:
    """Tell which open file a path names: /dev/stdout, the /dev/fd/63 of `>(command)`; None: none.

    To replace such a path by a rename would replace the file behind it, and lose what others write
    to it.
    """
    path = os.path.abspath(target)
    for _ in range(MAX_LINKS):
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        found = re.fullmatch(r"/(?:dev|proc/(\d+)(?:/task/\d+)?)/fd/(\d+)", path)
        if found:
            return int(found[2]) if found[1] in (None, str(os.getpid())) else None
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except (OSError, ValueError):
            return None
    return None


@contextlib.contextmanager
def _open_target(target: str, source: str | None, kind: str) -> Iterator[io.TextIOWrapper]:
    """Open a temporary file that replaces the target; a pipe or a device directly."""
    path = Path(target)
    if path.is_dir():
        raise InputError(f"{path} is a folder; give a file for the answers")
    if source not in (None, "-") and path.exists() and os.path.samefile(str(source), path):
        raise InputError(f"{path} is read and cannot be written too; give another name for -o")
    if (number := descriptor_of(target)) is not None:
        with _open_descriptor(number, target, kind) as stream:
            yield stream
        return
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder, so no answers can be written there")
    given, path = path, Path(os.path.realpath(path))  # a link stays one
    if not path.parent.is_dir():
        raise InputError(f"{given} is a link to {path}, and there is no folder {path.parent}")
    special = path.exists() and not path.is_file()
    place = contextlib.nullcontext(path) if special else publishing(path)
    with (
        _errors_explained(path),
        place as new,
        open(new, "wb") as file,
        _text_stream(file) as stream,
    ):
        yield stream


@contextlib.contextmanager
def _errors_explained(path: Path) -> Iterator[None]:
    """Say of a file that cannot be written why, and what helps."""
    try:
        yield
    except OSError as error:
        if isinstance(error, RobertaHubError) or error.filename != str(path):
            raise
        what = f"{path} cannot be written: {error.strerror}"
        folder = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        if folder and path.is_file() and os.access(path, os.W_OK):
            what += (
                f". It is put into {path.parent} whole at the end, where nothing new may be made; "
                f"without -o, > {shlex.quote(str(path))} writes into the file that is there"
            )
        elif error.errno in DISK_ERRORS:
            kept = "the file that was there is as it was" if path.exists() else "nothing is left"
            what += f"; {kept}. Free some room, or give -o on another disk"
        raise InputError(what) from None


@contextlib.contextmanager
def _open_descriptor(number: int, target: str, kind: str) -> Iterator[io.TextIOWrapper]:
    """Write through an open file, after what was written to it; it stays open."""
    try:
        sys.stdout.flush()
        with contextlib.suppress(ImportError):
            import fcntl

            if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
                raise OSError(errno.EBADF, "it is closed, or open for reading alone")
        file = open(os.dup(number), "wb")  # noqa: SIM115  # closed below
    except OSError as error:
        raise InputError(f"{target}: no file is open there ({error.strerror})") from None
    with file:
        if kind not in SEEKING_FORMATS:
            with _text_stream(file) as stream:
                yield stream
            return
        with tempfile.TemporaryFile() as whole, _text_stream(whole) as stream:
            yield stream
            stream.flush()
            whole.seek(0)
            shutil.copyfileobj(whole, file)


def _text_stream(file: IO[bytes]) -> io.TextIOWrapper:
    return io.TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=True)
