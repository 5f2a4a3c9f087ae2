"""Shows a small table of numbers, each on a shade: which class was taken for which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roberta_hub.show.colours import BLUE, CAPTION_OPACITY, MAX_OPACITY, Colour, css
from roberta_hub.show.markup import Html, element, harmless
from roberta_hub.show.sheet import LINE_HEIGHT, SMALL_SIZE, TEXT_SIZE, Sheet
from roberta_hub.show.terminal_text import TERMINAL_COLUMNS, cut
from roberta_hub.terminal import width_of

_LEFT, _LEAST, _MOST = 20, 4, 12
"""Columns of a terminal: most of a row's name; least and most of a number."""
_TABLE = "border-collapse:separate;border-spacing:2px;border:0;background:none;margin:.2em 0"
_CELL = "padding:.15em .5em;border:0;background:none;text-align:right"
_NUMBER = f"{_CELL};font-variant-numeric:tabular-nums;border-radius:2px"
_NAME = f"{_CELL};opacity:{CAPTION_OPACITY};font-size:.85em;overflow-wrap:anywhere"


@dataclass(frozen=True)
class Cell:
    """One number."""

    value: str
    """As it is written."""
    shade: float = 0.0
    """How strong its tint is, 0 to 1."""
    colour: Colour = BLUE


@dataclass(frozen=True)
class ShadedTable:
    """Rows of numbers under the names of their columns."""

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    """Name and cells of each."""
    left: str = ""
    """What the names of the rows are."""
    above: str = ""
    """What the names of the columns are."""

    def html(self) -> Html:
        """Build a table."""
        names = [element("td", name, style=_NAME) for name in self.columns]
        head = f"{self.left} ↓  {self.above} →" if self.above else ""
        rows = [element("tr", element("td", head, style=_NAME), *names)]
        for name, cells in self.rows:
            shaded = [element("td", cell.value, style=_NUMBER + _tint(cell)) for cell in cells]
            rows.append(element("tr", element("td", name, style=_NAME), *shaded))
        return element("table", *rows, style=_TABLE)

    def lines(self) -> list[str]:
        """Write at most 80 columns a line; of too many columns the first."""
        left = min(
            max(_width(name) for name in (self.left, *(name for name, _ in self.rows))), _LEFT
        )
        room = (TERMINAL_COLUMNS - 2 - left) // max(len(self.columns), 1) - 2
        width = max(min(room, _MOST), _LEAST)
        fitting = (TERMINAL_COLUMNS - 2 - left) // (width + 2)
        widths = []
        for i, name in enumerate(self.columns[:fitting]):
            longest = max(_width(text) for text in (name, *(own[i].value for _, own in self.rows)))
            widths.append(max(min(longest, width), min(6, width)))
        above = cut(self.above, TERMINAL_COLUMNS - left - 4)
        lines = [f"  {_padded(self.left, left)}  {above}".rstrip()] if above else []
        lines.append(_line("", left, self.columns, widths))
        for name, cells in self.rows:
            lines.append(_line(name, left, [cell.value for cell in cells], widths))
        return lines

    def draw(self, sheet: Sheet) -> None:
        """Draw a row a line; of too many columns the first."""
        names = [sheet.cut(name, 140, SMALL_SIZE) for name, _ in self.rows]
        start = sheet.left + max([sheet.width_of(name, SMALL_SIZE) for name in names] + [40.0]) + 8
        width = min((sheet.right - start) / max(len(self.columns), 1), 70.0)
        height = TEXT_SIZE * LINE_HEIGHT + 4
        if self.above:
            sheet.text(sheet.left, self.left, SMALL_SIZE, quiet=True)
            sheet.text(start, self.above, SMALL_SIZE, quiet=True)
            sheet.down(SMALL_SIZE * LINE_HEIGHT)
        for i, name in enumerate(self.columns):
            x = start + (i + 1) * width - 6
            sheet.text(
                x, sheet.cut(name, width - 8, SMALL_SIZE), SMALL_SIZE, align="right", quiet=True
            )
        sheet.down(SMALL_SIZE * LINE_HEIGHT + 1)
        for name, (_, cells) in zip(names, self.rows, strict=True):
            sheet.text(start - 8, name, SMALL_SIZE, align="right", quiet=True, below=4)
            for i, cell in enumerate(cells):
                x = start + i * width
                if cell.shade > 0:
                    opacity = MAX_OPACITY * min(cell.shade, 1.0)
                    sheet.box(x + 1, width - 2, height - 2, cell.colour, opacity)
                value = sheet.cut(cell.value, width - 8)
                sheet.text(x + width - 6, value, align="right", below=2)
            sheet.down(height)
        sheet.down(2)


def _width(text: str) -> int:
    return width_of(harmless(text))


def _tint(cell: Cell) -> str:
    if cell.shade <= 0:
        return ""
    return f";background:{css(cell.colour, MAX_OPACITY * min(cell.shade, 1.0))}"


def _line(name: str, left: int, values: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        _padded(value, width, right=True) for value, width in zip(values, widths, strict=False)
    ]
    return "  " + "  ".join([_padded(name, left), *cells]).rstrip()


def _padded(text: str, width: int, *, right: bool = False) -> str:
    text = cut(text, width)
    space = " " * (width - width_of(text))
    return space + text if right else text + space
