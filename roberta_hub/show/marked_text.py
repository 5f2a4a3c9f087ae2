"""Shows a text with some of its words marked: by strength, by what they are, or by both."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from roberta_hub.show.colours import BLUE, MAX_OPACITY, ORANGE, Colour, css
from roberta_hub.show.markup import Html, element, harmless
from roberta_hub.show.sheet import SMALL_SIZE, TEXT_SIZE, Sheet
from roberta_hub.show.terminal_text import TERMINAL_COLUMNS, rows_of
from roberta_hub.terminal import width_of

_HEIGHTS = " ▁▂▃▄▅▆▇█"
_HEIGHTS_AGAINST = " ░░░▒▒▒▓▓"
"""How strong a word is, in eighths, below it in a terminal; and how strong against."""
FAINT_LEVEL = 0.05
"""Levels below this are not underlined."""
_ROW_HEIGHT = 2.0
"""Height of a line in a picture, in sizes of its text."""
_TEXT = "white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.9;margin:.2em 0"
_MARK = "border-radius:3px;padding:.15em .2em"
_TAG = "font-size:.7em;font-weight:bold;padding-left:.5em"


@dataclass(frozen=True)
class Mark:
    """A stretch of a text that is marked."""

    start: int
    """First character."""
    end: int
    """One past the last character."""
    level: float = 1.0
    """How strong, -1 to 1; below 0 in the colour of what speaks against."""
    note: str = ""
    """Shown where the mouse rests on it."""
    tag: str = ""
    """A short label after it."""
    colour: Colour | None = None
    """Its own; None: that of all."""


class TextUnit(NamedTuple):
    """Characters without a space in them."""

    text: str
    mark: Mark | None = None
    """Label below."""
    is_tag: bool = False
    """Whether they are the mark's tag, and not of the text."""


Word = list[TextUnit]
"""Units without a space between them, which stay on a line."""


@dataclass(frozen=True)
class MarkedText:
    """A text with marks in order, none of which overlaps another."""

    text: str
    marks: Sequence[Mark]
    colour: Colour = ORANGE
    against: Colour = BLUE
    """Colour of levels below 0, which are also underlined with dots."""

    def html(self) -> Html:
        """Build a block of text."""
        parts = [self._marked(part, mark) if mark else part for part, mark in self._segments()]
        return element("div", *parts, keep="\n\t", dir="auto", style=_TEXT)

    def _marked(self, part: str, mark: Mark) -> Html:
        style = f"background:{css(self._colour(mark), _opacity(mark))};{_MARK}"
        if mark.level < -FAINT_LEVEL:
            style += ";border-bottom:2px dotted"
        tag = (element("span", mark.tag, style=_TAG),) if mark.tag else ()
        return element("span", part, *tag, keep="\n\t", style=style, title=mark.note)

    def lines(self) -> list[str]:
        """Write at most 80 columns a line; where words differ in strength, blocks show it below."""
        levels = any(mark.level != 1.0 for mark in self.marks)
        found = []
        for words in self._rows(TERMINAL_COLUMNS - 2, 1, width_of, "[", "]"):
            line, below = " ", " "
            for word in words:
                line, below = line + " ", below + " "
                for unit in word:
                    line += unit.text
                    below += (_block(unit.mark) if unit.mark else " ") * width_of(unit.text)
            found.append(line.rstrip())
            if levels:
                found.append(below.rstrip())
        return found

    def draw(self, sheet: Sheet) -> None:
        """Draw the text line by line."""
        space = sheet.width_of("a a") - sheet.width_of("aa")
        for words in self._rows(sheet.right - sheet.left, space, sheet.width_of):
            x = sheet.left
            boxes: list[tuple[Mark | None, float, float]] = []  # joined where a mark continues
            for word in words:
                for unit in word:
                    size = SMALL_SIZE if unit.is_tag else TEXT_SIZE
                    sheet.text(x, unit.text, size, bold=unit.is_tag, below=3)
                    end = x + sheet.width_of(unit.text, size, bold=unit.is_tag)
                    continues = boxes and boxes[-1][0] is unit.mark
                    boxes.append((unit.mark, boxes.pop()[1] if continues else x, end))
                    x = end
                x += space
            for mark, start, end in boxes:
                if mark is not None:
                    sheet.box(
                        start - 1,
                        end - start + 2,
                        TEXT_SIZE * 1.5,
                        self._colour(mark),
                        _opacity(mark),
                        below=1.5,
                        dotted=mark.level < -FAINT_LEVEL,
                    )
            sheet.down(TEXT_SIZE * _ROW_HEIGHT)

    def _rows(
        self,
        room: float,
        space: float,
        measure: Callable[[str], float],
        opening: str = "",
        closing: str = "",
    ) -> Iterator[list[Word]]:
        """Yield the words that fit on each line."""
        for paragraph in self._paragraphs(opening, closing):
            words = [part for word in paragraph for part in _broken(word, room, measure)]
            widths = [sum(measure(unit.text) for unit in word) + space for word in words]
            for row in rows_of(widths, room + space):
                yield [words[i] for i in row]

    def _segments(self) -> Iterator[tuple[str, Mark | None]]:
        """Yield the text in order, with the mark of each part."""
        end = 0
        for mark in self.marks:
            start = max(mark.start, end)
            if mark.end <= start:
                continue
            if start > end:
                yield self.text[end:start], None
            yield self.text[start : mark.end], mark
            end = mark.end
        if end < len(self.text):
            yield self.text[end:], None

    def _paragraphs(self, opening: str, closing: str) -> list[list[Word]]:
        """Cut the text into lines, these into words, and words where marks begin and end."""
        found: list[list[Word]] = [[[]]]
        for part, mark in self._segments():
            tagged = mark is not None and bool(mark.tag)
            before = opening if tagged else ""
            for run in re.findall(r"\n|[^\S\n]+|\S+", part):
                if run == "\n":
                    found.append([[]])
                elif run.isspace():
                    found[-1].append([])
                else:
                    found[-1][-1].append(TextUnit(before + harmless(run), mark))
                    before = ""
            if tagged and mark is not None:
                found[-1][-1].append(TextUnit(f" {harmless(mark.tag)}{closing}", mark, is_tag=True))
        return [[word for word in paragraph if word] for paragraph in found]

    def _colour(self, mark: Mark) -> Colour:
        return mark.colour or (self.against if mark.level < 0 else self.colour)


def _opacity(mark: Mark) -> float:
    return MAX_OPACITY * min(1.0, abs(mark.level))


def _block(mark: Mark) -> str:
    eighths = round(min(1.0, abs(mark.level)) * 8)
    return _HEIGHTS[eighths] if mark.level >= 0 else _HEIGHTS_AGAINST[eighths]


def _broken(word: Word, room: float, measure: Callable[[str], float]) -> Iterator[Word]:
    """Yield a word, or its parts where it is wider than a line."""
    if sum(measure(unit.text) for unit in word) <= room:
        yield word
        return
    part: Word = []
    used = 0.0
    for unit in word:
        for character in unit.text:
            width = measure(character)
            if part and used + width > room:
                yield part
                part, used = [], 0.0
            if part and part[-1][1:] == unit[1:]:
                part[-1] = unit._replace(text=part[-1].text + character)
            else:
                part.append(unit._replace(text=character))
            used += width
    yield part
