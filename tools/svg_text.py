"""Writes the texts of the pictures that are drawn here, each as wide in every font.

A reader's font is another than ours: DejaVu Sans is a sixth wider than Helvetica. So every text
says how long it is, by Helvetica's widths, and a browser fits its own letters in.
"""

from __future__ import annotations

from html import escape

SANS = "-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"
_WIDTHS = {
    **dict.fromkeys("ijl", 0.222),
    **dict.fromkeys(" !,./:;[\\]ftI", 0.278),
    **dict.fromkeys("()-`r", 0.333),
    **dict.fromkeys("ckszvxyJ", 0.5),
    **dict.fromkeys("ABEKPSVXY&", 0.667),
    **dict.fromkeys("CDHNRUw", 0.722),
    **dict.fromkeys("GOQ", 0.778),
    **dict.fromkeys("Mm", 0.833),
    **dict.fromkeys("W%↔→", 0.95),
}
"""Of Helvetica's letters, in parts of the size; the others have about `_OTHER`."""
_OTHER, _BOLD, _ROOM, _MONO = 0.57, 1.07, 1.05, 0.6
"""A bold letter and a letter of code, compared with these; and the room that wider fonts need."""


def width(words: str, size: float, *, bold: bool = False, mono: bool = False) -> float:
    """Measure a line of text.

    Example:
        >>> width("code", 10, mono=True), round(width("years", 10), 1)
        (24.0, 26.5)
    """
    if mono:
        return len(words) * size * _MONO
    letters = sum(_WIDTHS.get(letter, _OTHER) for letter in words)
    return letters * size * _ROOM * (_BOLD if bold else 1.0)


def text(
    x: float,
    y: float,
    words: str,
    size: float,
    colour: str,
    *,
    anchor: str = "start",
    bold: bool = False,
    mono: bool = False,
) -> str:
    """Write a line of text with its length.

    Args:
        x: where it starts, or ends, as `anchor` says.
        y: its baseline.
        words: the text.
        size: of the letters.
        colour: of the letters.
        anchor: "start", "middle" or "end".
        bold: whether it is bold.
        mono: whether it is code.
    """
    more = "" if anchor == "start" else f' text-anchor="{anchor}"'
    more += ' font-weight="600"' if bold else ""
    more += f' font-family="{escape(MONO)}" xml:space="preserve"' if mono else ""
    length = width(words, size, bold=bold, mono=mono)
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{colour}"{more} '
        f'textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs">{escape(words)}</text>'
    )
