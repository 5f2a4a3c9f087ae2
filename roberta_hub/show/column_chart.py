"""Reliability diagrams: columns of observed shares, with marks for the predicted ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roberta_hub.show.bars import Bar, Bars
from roberta_hub.show.colours import BLUE, CAPTION_OPACITY, GREY, css
from roberta_hub.show.facts import Note
from roberta_hub.show.markup import Html, element
from roberta_hub.show.sheet import LINE_HEIGHT, SMALL_SIZE, TEXT_SIZE, Sheet

COLUMN_LETTERS = 7.0
"""Height of a whole column, in letters."""
_MARK_HEIGHT = 0.025
"""Height of a mark, in columns."""
_POINTS, _WIDTH, _GAP = 110.0, 34.0, 8.0
"""Height, width and gap of columns in a picture."""
_REST_OPACITY = 0.2
"""Opacity of what a column lacks to be whole."""
_TABLE = "border-collapse:collapse;border:0;background:none;margin:.2em 0"
_CELL = "padding:.1em .25em;border:0;background:none;text-align:center;font-size:.85em"
_QUIET = f"{_CELL};opacity:{CAPTION_OPACITY};font-variant-numeric:tabular-nums"


@dataclass(frozen=True)
class ChartColumn:
    """One share, and what was claimed."""

    label: str
    share: float
    """How high it is filled, 0 to 1."""
    mark: float
    """What was claimed, 0 to 1."""
    note: str = ""


@dataclass(frozen=True)
class ColumnChart:
    """Columns side by side, with a legend below."""

    columns: Sequence[ChartColumn]
    legend: str

    def html(self) -> Html:
        """Build a table with a row of columns."""
        drawn = [element("td", _column(one), style=_CELL, title=_said(one)) for one in self.columns]
        labels = [element("td", one.label, style=_QUIET) for one in self.columns]
        notes = [element("td", one.note, style=_QUIET) for one in self.columns]
        rows = [element("tr", *cells) for cells in (drawn, labels, notes)]
        return element("div", element("table", *rows, style=_TABLE), Note(self.legend).html())

    def lines(self) -> list[str]:
        """Write a line for each column."""
        bars = [
            Bar(f"{one.share:.2f}", one.label, one.share, f"claimed {one.mark:.2f}, {one.note}")
            for one in self.columns
        ]
        return [*Bars(bars).lines(), *Note(self.legend).lines()]

    def draw(self, sheet: Sheet) -> None:
        """Draw the columns side by side."""
        sheet.down(4)
        for i, one in enumerate(self.columns):
            x = sheet.left + i * (_WIDTH + _GAP)
            middle = x + _WIDTH / 2
            share, mark = _within(one.share), _within(one.mark)
            sheet.box(x, _WIDTH, _POINTS, GREY, _REST_OPACITY)
            if share:
                sheet.box(x, _WIDTH, share * _POINTS, BLUE, below=(1 - share) * _POINTS)
            sheet.box(x - 2, _WIDTH + 4, 2, (0, 0, 0), below=(1 - mark) * _POINTS - 1)
            below = _POINTS + 4
            sheet.text(middle, one.label, SMALL_SIZE, align="center", below=below)
            sheet.text(
                middle,
                one.note,
                SMALL_SIZE,
                align="center",
                quiet=True,
                below=below + SMALL_SIZE * LINE_HEIGHT,
            )
        sheet.down(_POINTS + 2 * SMALL_SIZE * LINE_HEIGHT + TEXT_SIZE)
        Note(self.legend).draw(sheet)


def _column(one: ChartColumn) -> Html:
    """Stack what is left, what is filled and the mark, from the top down."""
    share, mark = _within(one.share), min(_within(one.mark), 1 - _MARK_HEIGHT)
    empty, filled, line = css(GREY, _REST_OPACITY), css(BLUE), "currentColor"
    high, low = max(share, mark + _MARK_HEIGHT), min(share, mark)
    parts = [(1 - high, empty)]
    if share > mark + _MARK_HEIGHT:
        parts += [(share - mark - _MARK_HEIGHT, filled), (_MARK_HEIGHT, line), (mark, filled)]
    else:
        parts += [(_MARK_HEIGHT, line), (mark - low, empty), (low, filled)]
    boxes = [
        element("div", style=f"height:{COLUMN_LETTERS * part:.2f}em;background:{colour}")
        for part, colour in parts
        if part > 0
    ]
    return element("div", *boxes, style="width:2.4em;margin:0 auto")


def _said(one: ChartColumn) -> str:
    return f"{one.label}: {one.share:.2f}, claimed {one.mark:.2f}, {one.note}"


def _within(share: float) -> float:
    return min(max(share, 0.0), 1.0) if share == share else 0.0  # not a number: none
