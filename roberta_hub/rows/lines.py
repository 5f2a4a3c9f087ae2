"""Bytes → lines of text: of a file, plain or compressed, of a pipe, of a part of a file.

Only LF ends a line. Text is UTF-8, with or without a byte order mark; nothing else is guessed.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias

from roberta_hub.errors import InputError
from roberta_hub.rows.values import Fault, Unreadable, value_or_raise

MAX_ROW_BYTES = 100_000_000
"""Most bytes of a line, of a row and of a JSON document, unpacked, whatever holds it.

A quote that is never closed makes the rest of a file one row, a pipe may have no end of lines, and
a small `.gz` may be one huge line. The corpus text8 is a line of as many bytes, and SQuAD's JSON
has 42 million.
"""
BLOCK_BYTES = 1 << 14
"""Bytes of a file that are looked at together."""
PIPE_BYTES = 1 << 16
"""Bytes per read of a pipe, which holds as many."""
GZIP_MAGIC, XZ_MAGIC = b"\x1f\x8b", b"\xfd7zXZ\0"
"""First bytes of compressed files."""
PARQUET_BEGIN = b"PAR1\x15"
"""First bytes of a Parquet file: its magic, and the begin of a page's header."""
UNPACKING_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""Errors of a file that is cut off, damaged, or not what its name says."""
UTF8_BOM = b"\xef\xbb\xbf"
"""UTF-8's byte order mark."""
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
"""Those of UTF-16."""

Line: TypeAlias = "bytes | Fault"
"""A line with its end, which the last line may lack; or the fault of a line that is too long."""


def blocks(read: Callable[[int], bytes], size: int, left: int = sys.maxsize) -> Iterator[bytes]:
    """Read blocks up to the end."""
    while left > 0 and (block := read(min(size, left))):
        left -= len(block)
        yield block


def split_lines(blocks: Iterable[bytes]) -> Iterator[list[Line]]:
    r"""Cut blocks into lines, in memory for one line and one block.

    Example:
        >>> list(split_lines([b"a\nb", b"c\n", b"d"]))
        [[b'a\n'], [b'bc\n'], [], [b'd']]
    """
    limit = MAX_ROW_BYTES
    too_long = Unreadable(f"a line of more than {limit:,} bytes")
    begun: list[bytes] = []
    size, over = 0, False  # of what has begun; whether a line that was too long continues
    for block in blocks:
        *ended, rest = block.split(b"\n")
        found: list[Line] = []
        if ended and not over:
            size += len(ended[0]) + 1
            found.append(too_long if size > limit else b"".join((*begun, ended[0], b"\n")))
        if ended:
            found += [line + b"\n" if len(line) < limit else too_long for line in ended[1:]]
            begun, size, over = [], 0, False
        if rest and not over:
            begun.append(rest)
            size += len(rest)
            if size > limit:
                found.append(too_long)
                begun, over = [], True
        yield found
    if begun:
        yield [b"".join(begun)]


FileState: TypeAlias = tuple[int, int, int, int]
"""Device, number, size and last change of a file, by which one that was changed is known."""


def file_state(file: int | Path) -> FileState:
    """State of a file."""
    about = os.stat(file)
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


@contextmanager
def unchanged(path: Path, file: int | Path, begun: FileState | None = None) -> Iterator[None]:
    """Refuse a file that changes while the block reads it: its rows would be of two versions."""
    before = file_state(file)
    if begun is None or begun == before:
        yield
        if file_state(file) == before:
            return
    raise InputError(f"{path}: it changed while it was read; start again once nothing writes to it")


def raw_lines(path: Path, begun: FileState | None = None) -> Iterator[Line]:
    """Read the lines of a file, which is unpacked where its name ends with `.gz` or `.xz`."""
    check_file(path)
    try:
        with _open(path) as file, unchanged(path, file.fileno(), begun):
            yield from chain.from_iterable(split_lines(blocks(file.read, BLOCK_BYTES)))
    except UNPACKING_ERRORS as error:
        damaged = (
            "; damaged, or not what its name says" if path.suffix.lower() in (".gz", ".xz") else ""
        )
        raise InputError(f"{path}: cannot be read: {error}{damaged}") from None


class LineStream:
    """Lines of a pipe, one by one as they arrive."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """Read nothing yet."""
        self._blocks = split_lines(blocks(file.read1, PIPE_BYTES))  # type: ignore[attr-defined]
        self._ready: deque[Line] = deque()
        self._name = name

    def __iter__(self) -> Iterator[Line]:
        return self

    def __next__(self) -> Line:
        try:
            while not self._ready:
                self._ready.extend(next(self._blocks))
        except UNPACKING_ERRORS as error:
            raise InputError(f"{self._name}: cannot be read: {error}") from None
        return self._ready.popleft()

    def first(self) -> Line | None:
        """Look at the next line, and leave it; None: there is none."""
        for line in self:
            self._ready.appendleft(line)
            return line
        return None

    @property
    def waits(self) -> bool:
        """Whether the next line has not arrived yet."""
        return not self._ready


def unpacked(file: BinaryIO) -> BinaryIO:
    """Unpack gzip and xz, which a pipe shows by its first bytes."""
    pipe: Any = file if hasattr(file, "peek") else io.BufferedReader(file)
    begin = pipe.peek(len(XZ_MAGIC))
    if begin.startswith(GZIP_MAGIC):
        pipe = gzip.open(pipe)  # noqa: SIM115  # the caller reads it to its end
    elif begin.startswith(XZ_MAGIC):
        pipe = lzma.open(pipe)  # noqa: SIM115
    found: BinaryIO = pipe
    return found


def lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Read a UTF-8 file as (number from 1, line without its end); only "\n" ends a line."""
    for number, line in enumerate(raw_lines(path), 1):
        yield number, value_or_raise(decoded(line, number), f"{path}:{number}")


def document(path: Path) -> list[str]:
    """Read the lines of a UTF-8 file that is one value, as JSON is."""
    found: list[str] = []
    size = 0
    for number, line in enumerate(raw_lines(path), 1):
        size += 0 if isinstance(line, Fault) else len(line)
        if isinstance(line, Fault) or size > MAX_ROW_BYTES:
            raise InputError(
                f"{path}: more than {MAX_ROW_BYTES:,} bytes in one JSON value; write an object a "
                "line, as .jsonl, or several files"
            )
        found.append(value_or_raise(decoded(line, number), f"{path}:{number}"))
    return found


def decoded(line: Line, number: int) -> str | Fault:
    r"""Decode a line, without its end; the first also without a byte order mark.

    Example:
        >>> decoded("né\r\n".encode(), 1)
        'né'
        >>> decoded("né".encode("utf-16"), 1).why
        'not UTF-8 but UTF-16; save it as CSV UTF-8, or convert it: iconv -f UTF-16 -t UTF-8'
    """
    if isinstance(line, Fault):
        return line
    if number == 1 and line.startswith(PARQUET_BEGIN):  # which may be UTF-8 by chance
        return Unreadable(_guess_file_type(line))
    try:
        return (line.removeprefix(UTF8_BOM) if number == 1 else line).decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        kind = _guess_file_type(line) if number == 1 else ""
        return Unreadable(kind) if kind else Fault(_not_utf8(error))


def why_not_utf8(text: str) -> str:
    """Say which of the bytes that `surrogateescape` kept in a text are not UTF-8."""
    try:
        text.encode(errors="surrogateescape").decode()
    except UnicodeDecodeError as error:
        return _not_utf8(error)
    return ""


def _not_utf8(error: UnicodeDecodeError) -> str:
    return f"not UTF-8: {error}; convert the file, as iconv does"


def _guess_file_type(begin: bytes) -> str:
    """Say what a file is that is not UTF-8, by its first bytes."""
    if begin.startswith(UTF16_BOMS):
        way = "save it as CSV UTF-8, or convert it: iconv -f UTF-16 -t UTF-8"
        return f"not UTF-8 but UTF-16; {way}"
    kinds = {b"PK\x03\x04": "a zip or Excel file", b"PAR1": "a Parquet file", b"\x1f\x8b": "gzip"}
    kind = next((name for magic, name in kinds.items() if begin.startswith(magic)), None)
    return f"not UTF-8 but {kind}; its name says otherwise" if kind else ""


def check_file(path: Path) -> None:
    """Refuse a path where no file is."""
    if not os.path.isfile(path):  # which also answers for names that no file can have
        what = "a folder, not a file" if os.path.isdir(path) else "no such file"
        raise InputError(f"{str(path)[:300]}: {what}")


def _open(path: Path) -> IO[bytes]:
    ending = path.suffix.lower()
    if ending == ".xz":
        return lzma.open(path)
    if ending == ".gz":
        return gzip.open(path)  # type: ignore[return-value]
    return open(path, "rb")
