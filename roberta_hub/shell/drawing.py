"""Draws answers in a terminal: aligned columns, and bars for numbers between 0 and 1."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from typing import TextIO

from roberta_hub.terminal import clean, width_of
from roberta_hub.verbs.question import Cell, Cells, Share

BAR_WIDTH = 20
"""Width of a full bar in characters; half of it in a narrow terminal."""
NARROW_COLUMNS = 70
MAX_TEXT_WIDTH = 60
"""Most characters of a text in a line with its answer."""
MIN_COLUMN_WIDTH = 12
"""Least width of the widest column."""
COLUMN_GAP = "  "
_EIGHTHS = " ▏▎▍▌▋▊▉"


class Page:
    """Text output to a terminal, with its width, encoding and colours."""

    def __init__(self, stream: TextIO) -> None:
        """Detect the properties of a stream."""
        self._stream = stream
        self._columns = max(20, shutil.get_terminal_size((80, 24)).columns)
        self._encoding = stream.encoding or "ascii"
        self._fine = _can_write(self._encoding, _EIGHTHS + "█…")
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._colours = stream.isatty() and not plain
        self._widths: list[int] = []
        self._empty = True

    def block(self, texts: Sequence[str], rows: Sequence[Cells]) -> None:
        """Write the texts of an input and, below them, its answers."""
        if not self._empty:
            self._write("")
        for text in texts:
            self._write(self._bold(self._cut(self._written(text), self._columns)))
        self._widths = []
        for line in self._laid_out(rows, self._columns - len(COLUMN_GAP)):
            self._write(COLUMN_GAP + line)

    def lines(self, titles: Sequence[str], rows: Sequence[Cells], texts: int = 1) -> None:
        """Write a line for each input, and titles above the first one."""
        titled = self._empty
        lines = self._laid_out([titles, *rows] if titled else rows, self._columns, texts)
        for number, line in enumerate(lines):
            self._write(self._bold(line) if titled and not number else line)

    def flush(self) -> None:
        """Show what was written."""
        self._stream.flush()

    def _write(self, line: str) -> None:
        line = line.rstrip()
        if self._colours:
            line = re.sub(f"[█{_EIGHTHS[1:]}]+", "\x1b[36m\\g<0>\x1b[0m", line)
        self._stream.write(line + "\n")
        self._empty = False

    def _bold(self, line: str) -> str:
        return f"\x1b[1m{line.rstrip()}\x1b[0m" if self._colours else line

    def _laid_out(self, rows: Sequence[Cells], room: int, texts: int = 0) -> list[str]:
        """Format rows as lines.

        Columns are as wide as their widest cell, earlier rows included. Texts take the rest of the
        line; without any, the widest column shrinks.
        """
        cells = [list(map(self._written, row)) for row in rows]
        if not cells:
            return []
        widths = [max(map(width_of, column)) for column in zip(*cells, strict=True)]
        widths = list(map(max, widths, self._widths)) if self._widths else widths
        self._widths = list(widths)
        widest = range(texts) or [max(range(len(widths)), key=lambda i: widths[i])]
        spare = room - len(COLUMN_GAP) * (len(widths) - 1)
        spare -= sum(width for i, width in enumerate(widths) if i not in widest)
        for i in widest:
            most = MAX_TEXT_WIDTH // texts if texts else widths[i]
            widths[i] = max(MIN_COLUMN_WIDTH, min(most, spare // len(widest)))
        numbers = [not isinstance(cell, (str, Share)) for cell in rows[-1]]
        return [
            COLUMN_GAP.join(
                self._padded(cell, width, right=number)
                for cell, width, number in zip(row, widths, numbers, strict=True)
            )
            for row in cells
        ]

    def _written(self, cell: Cell) -> str:
        if isinstance(cell, Share):
            return f"{float(cell):.2f}{COLUMN_GAP}{self._bar(float(cell))}"
        if isinstance(cell, str):
            return clean(cell).encode(self._encoding, "backslashreplace").decode(self._encoding)
        return f"{cell:,}" if isinstance(cell, int) else f"{cell:.3f}"

    def _bar(self, share: float) -> str:
        length = BAR_WIDTH if self._columns >= NARROW_COLUMNS else BAR_WIDTH // 2
        eighths = round(min(max(share, 0), 1) * length * 8)
        if not self._fine:
            return ("#" * round(eighths / 8)).ljust(length)
        return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()).ljust(length)

    def _padded(self, cell: str, width: int, *, right: bool) -> str:
        cell = self._cut(cell, width)
        space = " " * (width - width_of(cell))
        return space + cell if right else cell + space

    def _cut(self, text: str, width: int) -> str:
        """Truncate a text to a width, with an ellipsis."""
        if width_of(text) <= width:
            return text
        mark = "…" if self._fine else "..."
        kept, room = "", width - len(mark)
        for character in text:
            room -= width_of(character)
            if room < 0:
                break
            kept += character
        return kept + mark


def _can_write(encoding: str, characters: str) -> bool:
    try:
        characters.encode(encoding)
    except UnicodeError:
        return False
    return True
