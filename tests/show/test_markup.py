"""No text becomes markup: every part of a display, over two hundred hostile strings."""

from __future__ import annotations

import re
import unicodedata
from typing import Any
from xml.etree.ElementTree import Element

import pytest
from hostile_strings import hostile_strings

from roberta_hub.show.bars import Bar, Bars
from roberta_hub.show.colours import (
    BLUE,
    CAPTION_OPACITY,
    COLOUR_CYCLE,
    GREY,
    MAX_OPACITY,
    contrast,
    css,
    over,
)
from roberta_hub.show.column_chart import COLUMN_LETTERS, ChartColumn, ColumnChart
from roberta_hub.show.display import Display
from roberta_hub.show.facts import Facts, Note
from roberta_hub.show.grid import Grid, Panel
from roberta_hub.show.marked_text import Mark, MarkedText
from roberta_hub.show.markup import ATTRIBUTES, TAGS, harmless
from roberta_hub.show.shaded_table import Cell, ShadedTable
from roberta_hub.show.sheet import Sheet
from roberta_hub.show.strip import Chip, Strip
from roberta_hub.terminal import width_of

html5lib = pytest.importorskip("html5lib", reason="no html5lib; pip install '.[test]'")

HOSTILE = hostile_strings()


def parsed(html: str) -> Element:
    """The tree of a display, whose HTML has no error and nothing but listed tags and attributes."""
    parser = html5lib.HTMLParser(
        tree=html5lib.getTreeBuilder("etree"), namespaceHTMLElements=False, strict=True
    )
    tree: Any = parser.parseFragment(html)
    for element in list(tree.iter())[1:]:
        assert element.tag in {*TAGS, "tbody"}, element.tag  # which HTML puts into every table
        assert ATTRIBUTES.issuperset(element.attrib), element.attrib
        assert not re.search(r"url|expression|@|\\|<", element.get("style", "")), element.attrib
        if "src" in element.attrib:
            assert re.fullmatch(r"data:image/png;base64,[A-Za-z0-9+/=]+", element.get("src"))
    return tree


def text_of(tree: Element) -> str:
    return "".join(tree.itertext())


def parts_with(text: str) -> list[Any]:
    """Every part, with a text in every place that takes one."""
    middle = len(text) // 2
    marks = [Mark(0, middle, 0.5, text, text), Mark(middle, len(text), -0.5, text)]
    weights = [[0.75, 0.25], [0.5, 0.5]]
    return [
        MarkedText(text, marks),
        MarkedText(text, [Mark(middle, len(text), note=text, tag=text, colour=GREY)]),
        Bars([Bar(text, text, 0.5, text), Bar(text, "1", None)]),
        Strip([Chip(text, text, 0, text), Chip(text, text)]),
        Grid([text, text], [Panel(text, weights)]),
        Grid([text, text], [Panel(text, weights)] * 2),
        Facts([(text, text)]),
        ColumnChart([ChartColumn(text, 0.5, 0.7, text), ChartColumn(text, 1.0, 0.2)], text),
        ShadedTable([text, "a"], [(text, [Cell(text), Cell("1", 0.5)])], left=text, above=text),
        Note(text),
    ]


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_parts_hold_text_as_text(first: int) -> None:
    assert len(set(HOSTILE)) == 200
    for text in HOSTILE[first : first + 25]:
        for part in parts_with(text):
            display = Display(text, [part], {"text": text})
            tree = parsed(display._repr_html_())
            shown = text_of(tree)
            assert shown.startswith(harmless(text)), text
            if not isinstance(part, (MarkedText, Grid)):  # marks divide a text; a map cuts tokens
                assert shown.count(harmless(text)) >= 2, text
            for line in str(display).splitlines():
                assert width_of(line) <= 80, line
                assert harmless(line) == line
            assert display.to_dict() == {"text": text}


def test_words_come_back_as_they_were() -> None:
    for text in HOSTILE:
        assert text_of(parsed(MarkedText(text, []).html().markup)) == harmless(text, "\n\t")
        marks = [Mark(i, i + 2, 0.3, "note") for i in range(0, len(text), 3)]
        assert text_of(parsed(MarkedText(text, marks).html().markup)) == harmless(text, "\n\t")


def test_nothing_is_obeyed_or_hidden() -> None:
    for code in range(0x11_0000):
        character = chr(code)
        kind = unicodedata.category(character)
        if kind in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(character) in (
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        ):
            assert re.fullmatch(r"\\(x..|u....|U.{8}|[tnr])", harmless(character)), code
        elif kind[0] in "LNPSM" or kind == "Zs":
            assert harmless(character) == character


PAGES = {
    "white": ((0, 0, 0), (255, 255, 255)),
    "black": ((255, 255, 255), (0, 0, 0)),
    "JupyterLab": ((33, 33, 33), (255, 255, 255)),
    "JupyterLab, dark": ((224, 224, 224), (17, 17, 17)),
    "VS Code, dark": ((212, 212, 212), (30, 30, 30)),
    "GitHub": ((31, 35, 40), (255, 255, 255)),
    "GitHub, dark": ((230, 237, 243), (13, 17, 23)),
}
"""Ink and paper."""


@pytest.mark.parametrize("page", PAGES)
def test_colours_can_be_read(page: str) -> None:
    ink, paper = PAGES[page]
    for colour in (*COLOUR_CYCLE, GREY):
        assert contrast(colour, paper) >= 2.7  # a bar
        for opacity in (0.3, MAX_OPACITY):
            assert contrast(over(ink, 1.0, paper), over(colour, opacity, paper)) >= 4.5, colour
    assert contrast(over(ink, CAPTION_OPACITY, paper), paper) >= 4.5


def test_bars_have_three_to_one_against_white_and_black() -> None:
    for colour in COLOUR_CYCLE:
        for paper in ((255, 255, 255), (0, 0, 0)):
            assert contrast(colour, paper) >= 3


def test_columns_are_as_high_as_their_shares() -> None:
    """What is filled, what is left and the mark add up to a whole column."""
    for share, mark in ((0.66, 0.96), (1.0, 0.4), (0.5, 0.5), (0.0, 0.0), (1.0, 1.0), (0.01, 0.0)):
        html = str(ColumnChart([ChartColumn("a", share, mark)], "").html())
        parts = re.findall(r"height:([\d.]+)em;background:([^\"]+)", html)
        assert sum(float(height) for height, _ in parts) == pytest.approx(COLUMN_LETTERS, abs=0.03)
        filled = sum(float(height) for height, colour in parts if colour == css(BLUE))
        assert filled == pytest.approx(share * COLUMN_LETTERS, abs=0.03 * COLUMN_LETTERS)
        below = [float(height) for height, _ in parts]
        at = [colour for _, colour in parts].index("currentColor")
        assert sum(below[at + 1 :]) == pytest.approx(
            mark * COLUMN_LETTERS, abs=0.03 * COLUMN_LETTERS
        )


def test_a_wide_table_fits_a_terminal() -> None:
    names = [f"a class with a name of some length {i}" for i in range(30)]
    table = ShadedTable(
        names, [(name, [Cell("1,234")] * 30) for name in names], "right", "answered"
    )
    assert len(table.lines()) == 32
    assert all(width_of(line) <= 80 for line in table.lines())


def test_marks_that_overlap_lose_no_text() -> None:
    words = MarkedText("abcdef", [Mark(0, 3), Mark(2, 4), Mark(1, 2), Mark(4, 4), Mark(5, 99)])
    assert text_of(parsed(words.html().markup)) == "abcdef"


class SheetOfNumbers(Sheet):
    """Keeps where each text that is aligned to the right begins."""

    def __init__(self) -> None:
        super().__init__()
        self.begins: dict[str, float] = {}

    def text(self, x: float, text: str, *args: Any, align: str = "left", **more: Any) -> None:
        if align == "right":
            self.begins[text] = x - self.width_of(text)
        super().text(x, text, *args, align=align, **more)


def test_the_widest_number_begins_at_the_edge_of_the_sheet() -> None:
    sheet = SheetOfNumbers()
    Bars([Bar("a", "9", 0.5), Bar("b", "1,000.25", 1.0)]).draw(sheet)
    assert sheet.begins["1,000.25"] == pytest.approx(sheet.left)
    assert sheet.begins["9"] > sheet.left


def test_a_level_that_is_no_number_draws_nothing_odd() -> None:
    bars = Bars([Bar("a", "nan", float("nan")), Bar("b", "9", 9.0), Bar("c", "-1", -1.0)])
    widths = re.findall(r"width:([\d.]+)%", bars.html().markup)
    assert widths == ["0", "100", "0"]
    assert [line.count("█") for line in bars.lines()] == [0, 16, 0]
