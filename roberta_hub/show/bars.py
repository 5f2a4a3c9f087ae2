"""Shows rows of numbers with bars: probabilities, scores, candidate words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roberta_hub.show.colours import BLUE, CAPTION_OPACITY, GREY, Colour, css
from roberta_hub.show.markup import Html, element, harmless
from roberta_hub.show.sheet import LINE_HEIGHT, SMALL_SIZE, TEXT_SIZE, Sheet
from roberta_hub.show.terminal_text import TERMINAL_COLUMNS, cut
from roberta_hub.terminal import width_of

BAR_CHARACTERS = 16
"""Characters of a whole bar in a terminal."""
_NUMBERED, _LABELLED = 12, 24
"""Maximal widths of a number, and of a label that a note follows."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
_BAR_POINTS = 130.0
"""Points of a whole bar in a picture."""
_REST_OPACITY = 0.2
"""Opacity of what a bar lacks to be whole."""
_TABLE = "border-collapse:collapse;border:0;background:none;margin:.2em 0"
_CELL = "padding:.1em .5em;border:0;background:none;text-align:left;vertical-align:top"
_NUMBER = f"{_CELL};text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums"
_BAR = f"{_CELL};width:7em;min-width:5em"
_WHOLE = f"margin-top:.35em;border-radius:2px;background:{css(GREY, _REST_OPACITY)}"
_FILLED = "min-width:1px;height:.8em;border-radius:2px"
_LABEL = f"{_CELL};white-space:pre-wrap;overflow-wrap:anywhere"
_NOTE = f"font-size:.85em;opacity:{CAPTION_OPACITY}"


@dataclass(frozen=True)
class Bar:
    """One row: a number, its bar, what it belongs to, and a remark."""

    label: str
    value: str
    """The number as it is written."""
    share: float | None = None
    """Length of the bar, 0 to 1; None: no bar."""
    note: str = ""
    colour: Colour | None = None
    """Colour of its bar; None: that of all."""


@dataclass(frozen=True)
class Bars:
    """Rows below each other."""

    rows: Sequence[Bar]
    colour: Colour = BLUE

    def html(self) -> Html:
        """Build a table."""
        return element("table", *map(self._row, self.rows), style=_TABLE)

    def _row(self, row: Bar) -> Html:
        cells = [element("td", row.value, style=_NUMBER)]
        if self._has_bars:
            style = f"width:{100 * _share(row):.3g}%;{_FILLED};background:"
            style += css(row.colour or self.colour)
            whole = element("div", element("div", style=style), style=_WHOLE)
            cells.append(element("td", whole, style=_BAR))
        note = (element("span", "  " + row.note, style=_NOTE),) if row.note else ()
        return element("tr", *cells, element("td", row.label, *note, style=_LABEL))

    def lines(self) -> list[str]:
        """Write at most 80 columns a line."""
        values = [cut(row.value, _NUMBERED) for row in self.rows]
        width = max(map(width_of, values), default=0)
        labels = max((width_of(harmless(row.label)) for row in self.rows), default=0)
        found = []
        for row, value in zip(self.rows, values, strict=True):
            line = "  " + " " * (width - width_of(value)) + value
            if self._has_bars:
                line += "  " + _blocks(_share(row)).ljust(BAR_CHARACTERS)
            room = TERMINAL_COLUMNS - width_of(line) - 2
            label = cut(row.label, min(room, _LABELLED) if row.note else room)
            if row.note:
                label += " " * (min(labels, _LABELLED) - width_of(label)) + "  "
                label += cut(row.note, room - width_of(label))
            found.append(f"{line}  {label}".rstrip())
        return found

    def draw(self, sheet: Sheet) -> None:
        """Draw a row a line."""
        if not self.rows:
            return
        left = sheet.left + max(sheet.width_of(row.value) for row in self.rows)
        start = left + 8 + (_BAR_POINTS + 8 if self._has_bars else 0)
        labels = max(sheet.width_of(row.label) for row in self.rows)
        for row in self.rows:
            sheet.text(left, row.value, align="right")
            if self._has_bars:
                length = max(_share(row) * _BAR_POINTS, 0.5)
                sheet.box(left + 8, _BAR_POINTS, TEXT_SIZE, GREY, _REST_OPACITY, below=1.5)
                sheet.box(left + 8, length, TEXT_SIZE, row.colour or self.colour, below=1.5)
            room = sheet.right - start
            label = sheet.cut(row.label, room * 0.6 if row.note else room)
            sheet.text(start, label)
            if row.note:
                x = start + min(labels, room * 0.6) + 10
                note = sheet.cut(row.note, sheet.right - x, SMALL_SIZE)
                sheet.text(x, note, SMALL_SIZE, quiet=True, below=1.5)
            sheet.down(TEXT_SIZE * LINE_HEIGHT)

    @property
    def _has_bars(self) -> bool:
        return any(row.share is not None for row in self.rows)


def _share(row: Bar) -> float:
    share = row.share or 0.0
    return min(max(share, 0.0), 1.0) if share == share else 0.0  # not a number: none


def _blocks(share: float) -> str:
    eighths = round(share * BAR_CHARACTERS * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
