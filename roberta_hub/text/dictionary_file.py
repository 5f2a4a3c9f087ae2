"""Reads and writes fairseq's dictionary file, which has one `symbol count` a line.

An error of reading names the line. A file is written whole or not at all.
"""

from __future__ import annotations

import io
import os
from collections.abc import Container, Iterator, Sequence
from typing import IO, TypeAlias

from roberta_hub import files
from roberta_hub.errors import VocabularyError

OVERWRITE = "#fairseq:overwrite"
"""Behind a count: the symbol is in the dictionary already and moves to this line's id."""
MAX_LINE = 65_536
"""Longest line, in characters."""
MAX_SYMBOLS = 2_000_000
"""Most symbols a dictionary may have."""
MAX_BYTES = 32 << 20
"""Largest file; RoBERTa's has 0.6 MB, a million words have 15."""

PathOrFile: TypeAlias = "str | os.PathLike[str] | IO[str] | IO[bytes]"


def source_name(f: PathOrFile) -> str:
    """Tell what to call a file in messages."""
    return (
        os.fspath(f) if isinstance(f, (str, os.PathLike)) else str(getattr(f, "name", "dictionary"))
    )


def read_bytes(f: PathOrFile, source: str) -> bytes:
    """Read a dictionary file whole, if it is not absurdly large."""
    if isinstance(f, (str, os.PathLike)):
        return files.read_bytes(f, MAX_BYTES, VocabularyError, "dictionary")
    data = f.read(MAX_BYTES + 1)
    if isinstance(data, str):
        data = data.encode(errors="surrogatepass")
    if len(data) > MAX_BYTES:
        raise VocabularyError(
            f"{source} is larger than {MAX_BYTES} bytes, the limit for a dictionary"
        )
    return data


def entries(data: bytes, source: str, present: Container[str]) -> Iterator[tuple[str, int, bool]]:
    """Symbol, count and overwrite flag of each line.

    `present` grows between the steps, which shows duplicates.
    """
    if data.startswith(b"\xef\xbb\xbf"):
        raise VocabularyError(
            f"{source} begins with a byte order mark; save it as UTF-8 without one"
        )
    try:
        # Universal newlines and nothing else: splitlines() would cut at U+2028 inside a symbol.
        lines = io.StringIO(data.decode(), newline=None)
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise VocabularyError(f"{source}, line {number}: not UTF-8 ({error.reason})") from None
    for number, line in enumerate(lines, start=1):
        where = f"{source}, line {number}"
        if len(line) > MAX_LINE:
            raise VocabularyError(f"{where}: {len(line)} characters, the limit is {MAX_LINE}")
        if number > MAX_SYMBOLS:
            raise VocabularyError(f"{where}: more than {MAX_SYMBOLS} symbols")
        symbol, count, overwrite = _entry(line, where)
        if symbol in present and not overwrite:
            raise VocabularyError(
                f"{where}: {symbol!r} again; `{OVERWRITE}` after the count permits it"
            )
        yield symbol, count, overwrite


def _entry(line: str, where: str) -> tuple[str, int, bool]:
    try:
        symbol, field = line.rstrip().rsplit(" ", 1)
        overwrite = field == OVERWRITE
        if overwrite:
            symbol, field = symbol.rsplit(" ", 1)
        return symbol, int(field), overwrite
    except ValueError:
        raise VocabularyError(f"{where}: {line[:80]!r} is not `symbol count`") from None


def file_of(symbols: Sequence[str], counts: Sequence[int], first: int) -> bytes:
    """Write the symbols from number `first` on as a file; the others are implied.

    Raises:
        VocabularyError: a symbol holds a line break, which the format cannot express.
    """
    seen = set(symbols[:first])
    lines = []
    for idx in range(first, len(symbols)):
        symbol = symbols[idx]
        if "\n" in symbol or "\r" in symbol:
            raise VocabularyError(f"symbol {idx}, {symbol!r}, holds a line break")
        flag = f" {OVERWRITE}" if symbol in seen else ""
        lines.append(f"{symbol} {counts[idx]}{flag}\n")
        seen.add(symbol)
    return "".join(lines).encode()
