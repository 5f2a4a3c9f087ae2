"""Fits text into the columns of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roberta_hub.show.markup import harmless
from roberta_hub.terminal import width_of

TERMINAL_COLUMNS = 80
"""Columns of a terminal; no line of a display is wider."""


def cut(text: str, width: int) -> str:
    """Cut a text that is wider than some columns, and mark the cut.

    Example:
        >>> cut("epiphany", 5)
        'epip…'
    """
    text = harmless(text)
    if width_of(text) <= width:
        return text
    kept, room = "", width - 1
    for character in text:
        room -= width_of(character)
        if room < 0:
            break
        kept += character
    return kept + "…"


def wrapped(text: str, width: int) -> list[str]:
    """Break a text into lines of some columns, at spaces where there are any.

    Example:
        >>> wrapped("a small epiphany", 7)
        ['a small', 'epiphan', 'y']
    """
    words: list[str] = []
    for word in harmless(text).split(" "):
        start, used = 0, 0
        for i, character in enumerate(word):
            if used + width_of(character) > width:
                words.append(word[start:i])
                start, used = i, 0
            used += width_of(character)
        words.append(word[start:])
    widths = [width_of(word) + 1 for word in words]
    return [" ".join(words[i] for i in row) for row in rows_of(widths, width + 1)]


def rows_of(widths: Sequence[float], room: float) -> Iterator[range]:
    """Put things of some widths into rows of at most `room`, in order; a wider one has its own row.

    Example:
        >>> list(rows_of([3, 4, 5, 20], room=8))
        [range(0, 2), range(2, 3), range(3, 4)]
    """
    start, used = 0, 0.0
    for i, width in enumerate(widths):
        if i > start and used + width > room:
            yield range(start, i)
            start, used = i, 0.0
        used += width
    if start < len(widths):
        yield range(start, len(widths))
