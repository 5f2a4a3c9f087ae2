"""Tells where the characters that a reader sees begin: Unicode's grapheme clusters (UAX 29).

"é" may be one code point or two (NFC, NFD), "कि" is a letter and a vowel sign, and a flag, a family
or a half form is several code points that a joiner (ZWJ, ZWNJ) holds together.
"""

from __future__ import annotations

import regex

_CLUSTER = regex.compile(r"\X")


def first_cluster(text: str, start: int, end: int) -> tuple[int, int]:
    r"""Return (start, end) of the grapheme cluster that begins at `start`, at most up to `end`.

    Example:
        >>> first_cluster("e\u0301s", 0, 3), first_cluster("👨\u200d👩!", 0, 4)
        ((0, 2), (0, 3))
    """
    match = _CLUSTER.match(text, start, end)
    return match.span() if match else (start, end)


def last_cluster(text: str, start: int, end: int) -> tuple[int, int]:
    r"""Return (start, end) of the last grapheme cluster of a part of a text that has one.

    Example:
        >>> last_cluster("se\u0301", 0, 3), last_cluster("no", 0, 2)
        ((1, 3), (1, 2))
    """
    if text[end - 1].isascii():
        return end - 1, end
    found: tuple[int, int] = [*_CLUSTER.finditer(text, start, end)][-1].span()
    return found


def cut_cluster(text: str, place: int) -> str | None:
    r"""Return the grapheme cluster that a place lies inside of; None: it lies between two.

    Example:
        >>> [cut_cluster("cafe\u0301", place) == "e\u0301" for place in (3, 4, 5)]
        [False, True, False]
    """
    if text.isascii() or not 0 < place < len(text):
        return None
    inside = (m for m in _CLUSTER.finditer(text) if m.start() < place < m.end())
    match = next(inside, None)
    return match[0] if match else None
