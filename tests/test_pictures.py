"""No two texts of a picture meet, in whatever font a reader has."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from scripts import TOOLS, load_script

PICTURES = sorted((TOOLS.parent / "docs/images").glob("*.svg"))
WIDEST = 1.17
"""DejaVu Sans beside Helvetica, whose widths are ours, where a viewer leaves textLength out."""
SVG = "{http://www.w3.org/2000/svg}"


class Box(NamedTuple):
    left: float
    right: float
    top: float
    bottom: float
    name: str

    def meets(self, other: Box) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def holds(self, other: Box) -> bool:
        across = self.left <= other.left and other.right <= self.right
        return across and self.top <= other.top and other.bottom <= self.bottom


def box_of(text: ElementTree.Element) -> Box:
    x, y, size = (float(text.get(name, "")) for name in ("x", "y", "font-size"))
    length = float(text.get("textLength", "")) * (1 if text.get("font-family") else WIDEST)
    left = x - {"middle": length / 2, "end": length}.get(text.get("text-anchor", ""), 0)
    return Box(left, left + length, y - 0.75 * size, y + 0.2 * size, text.text or "")


def drawn(path: Path) -> tuple[list[Box], list[Box]]:
    """Its texts, and its rectangles that are no tint of a word."""
    root = ElementTree.parse(path).getroot()
    texts = [box_of(text) for text in root.iter(f"{SVG}text")]
    rows = [
        (*(float(shape.get(name, 0)) for name in ("x", "y", "width", "height")), shape)
        for shape in root.iter(f"{SVG}rect")
    ]
    shapes = [Box(x, x + w, y, y + h, "a shape") for x, y, w, h, _ in rows if h != 19]
    return texts, shapes


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_every_text_has_its_length(path: Path) -> None:
    width = load_script(TOOLS / "svg_text.py").width
    texts = list(ElementTree.parse(path).getroot().iter(f"{SVG}text"))
    assert texts
    for text in texts:
        bold, mono = (text.get(name) is not None for name in ("font-weight", "font-family"))
        wanted = width(text.text, float(text.get("font-size", "")), bold=bold, mono=mono)
        assert text.get("textLength") == f"{wanted:.1f}", text.text
        assert text.get("lengthAdjust") == "spacingAndGlyphs", text.text


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_no_text_meets_another_or_a_bar(path: Path) -> None:
    texts, shapes = drawn(path)
    right = float(ElementTree.parse(path).getroot().get("width", ""))
    for i, text in enumerate(texts):
        assert text.left >= 0 and text.right <= right, text.name
        assert [other.name for other in texts[:i] if text.meets(other)] == [], text.name
        crossed = [box for box in shapes if text.meets(box) and not box.holds(text)]
        assert crossed == [], text.name
