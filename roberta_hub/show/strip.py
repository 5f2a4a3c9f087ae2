"""Shows the pieces of a text side by side, each with its id below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roberta_hub.show.colours import CAPTION_OPACITY, COLOUR_CYCLE, GREY, Colour, css
from roberta_hub.show.markup import Html, element
from roberta_hub.show.sheet import LINE_HEIGHT, SMALL_SIZE, Sheet
from roberta_hub.show.terminal_text import TERMINAL_COLUMNS, cut, rows_of
from roberta_hub.terminal import width_of

_TINT_OPACITY = 0.3
_STRIP = "margin:.2em 0;line-height:1.3"
_CHIP = "display:inline-block;border-radius:3px;padding:.15em .35em;margin:.1em;text-align:center"
_PIECE = "font-family:monospace;white-space:pre-wrap;overflow-wrap:anywhere"
_BELOW = f"font-size:.75em;opacity:{CAPTION_OPACITY}"
_KEY = "neighbours of one colour are one word, signs apart; grey ones belong to no word"
_PIECE_COLUMNS = 40
"""Columns of a piece in a terminal."""


@dataclass(frozen=True)
class Chip:
    """One piece."""

    text: str
    below: str
    """Text below the piece."""
    word: int | None = None
    """Which word it belongs to; neighbours of other words have other colours. None: to none."""
    note: str = ""
    """Shown where the mouse rests on it."""


@dataclass(frozen=True)
class Strip:
    """Pieces in order."""

    chips: Sequence[Chip]

    def html(self) -> Html:
        """Build a row of boxes, which breaks where the page ends."""
        boxes = element("div", *map(_chip, self.chips), style=_STRIP)
        return element("div", boxes, element("div", _KEY, style=_BELOW))

    def lines(self) -> list[str]:
        """Write at most 80 columns a line: pieces, and their ids below."""
        cells = [
            (cut(chip.text, _PIECE_COLUMNS), cut(chip.below, _PIECE_COLUMNS)) for chip in self.chips
        ]
        widths = [max(map(width_of, cell)) + 1 for cell in cells]
        found = []
        for row in rows_of(widths, TERMINAL_COLUMNS - 1):
            for which in (0, 1):
                line = "".join(
                    cells[i][which] + " " * (widths[i] - width_of(cells[i][which])) for i in row
                )
                found.append(f"  {line}".rstrip())
        return found

    def draw(self, sheet: Sheet) -> None:
        """Draw boxes, which break where the sheet ends."""
        room = sheet.right - sheet.left
        texts = [sheet.cut(chip.text, room - 10) for chip in self.chips]
        widths = [
            max(sheet.width_of(text), sheet.width_of(chip.below, SMALL_SIZE)) + 10
            for text, chip in zip(texts, self.chips, strict=True)
        ]
        for row in rows_of(widths, room + 3):
            x = sheet.left
            for i in row:
                middle = x + (widths[i] - 3) / 2
                sheet.box(x, widths[i] - 3, 29, _colour(self.chips[i]), _TINT_OPACITY)
                sheet.text(middle, texts[i], align="center", below=3)
                below = self.chips[i].below
                sheet.text(middle, below, SMALL_SIZE, align="center", quiet=True, below=16)
                x += widths[i]
            sheet.down(33)
        sheet.text(sheet.left, _KEY, SMALL_SIZE, quiet=True)
        sheet.down(SMALL_SIZE * LINE_HEIGHT)


def _chip(chip: Chip) -> Html:
    return element(
        "div",
        element("div", chip.text, style=_PIECE),
        element("div", chip.below, style=_BELOW),
        style=f"{_CHIP};background:{css(_colour(chip), _TINT_OPACITY)}",
        title=chip.note,
    )


def _colour(chip: Chip) -> Colour:
    return GREY if chip.word is None else COLOUR_CYCLE[chip.word % len(COLOUR_CYCLE)]
