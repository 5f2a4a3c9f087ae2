"""Shows names with their values, a line each, and lines of plain text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roberta_hub.show.colours import CAPTION_OPACITY
from roberta_hub.show.markup import Html, element, harmless
from roberta_hub.show.sheet import LINE_HEIGHT, SMALL_SIZE, TEXT_SIZE, Sheet
from roberta_hub.show.terminal_text import TERMINAL_COLUMNS, cut, rows_of, wrapped
from roberta_hub.terminal import width_of

_NAME_COLUMNS = 24
"""Most columns of a name."""
_TABLE = "border-collapse:collapse;border:0;background:none;margin:.2em 0"
_CELL = "padding:.1em 1em .1em 0;border:0;background:none;text-align:left;vertical-align:top"
_NAME = f"{_CELL};opacity:{CAPTION_OPACITY};white-space:nowrap"
_VALUE = f"{_CELL};overflow-wrap:anywhere"
_REMARK = f"font-size:.85em;opacity:{CAPTION_OPACITY};overflow-wrap:anywhere"


@dataclass(frozen=True)
class Facts:
    """Names and values."""

    rows: Sequence[tuple[str, str]]

    def html(self) -> Html:
        """Build a table."""
        rows = [
            element("tr", element("td", name, style=_NAME), element("td", value, style=_VALUE))
            for name, value in self.rows
        ]
        return element("table", *rows, style=_TABLE)

    def lines(self) -> list[str]:
        """Write at most 80 columns a line; a longer value continues below itself."""
        names = [cut(name, _NAME_COLUMNS) for name, _ in self.rows]
        width = max(map(width_of, names), default=0)
        found = []
        for name, (_, value) in zip(names, self.rows, strict=True):
            parts = wrapped(value, TERMINAL_COLUMNS - width - 4)
            space = " " * (width - width_of(name) + 2)
            found.append(f"  {name}{space}{parts[0]}".rstrip())
            found += [" " * (width + 4) + part for part in parts[1:]]
        return found

    def draw(self, sheet: Sheet) -> None:
        """Draw a row a line; a longer value continues below itself."""
        start = sheet.left + max((sheet.width_of(name) for name, _ in self.rows), default=0) + 14
        for name, value in self.rows:
            sheet.text(sheet.left, name, quiet=True)
            for line in _wrapped(value, sheet, sheet.right - start, TEXT_SIZE):
                sheet.text(start, line)
                sheet.down(TEXT_SIZE * LINE_HEIGHT)


@dataclass(frozen=True)
class Note:
    """A line of small text: a legend, a sum, or what was left out."""

    text: str

    def html(self) -> Html:
        """Build a block of text."""
        return element("div", self.text, style=_REMARK)

    def lines(self) -> list[str]:
        """Write at most 80 columns a line."""
        return [f"  {line}".rstrip() for line in wrapped(self.text, TERMINAL_COLUMNS - 2)]

    def draw(self, sheet: Sheet) -> None:
        """Draw it in grey."""
        for line in _wrapped(self.text, sheet, sheet.right - sheet.left, SMALL_SIZE):
            sheet.text(sheet.left, line, SMALL_SIZE, quiet=True)
            sheet.down(SMALL_SIZE * LINE_HEIGHT)


def _wrapped(text: str, sheet: Sheet, room: float, size: float) -> list[str]:
    words = [word for word in harmless(text).split(" ") if word]
    widths = [sheet.width_of(word + " ", size) for word in words]
    rows = [" ".join(words[i] for i in row) for row in rows_of(widths, room)]
    return [sheet.cut(row, room, size) for row in rows] or [""]
