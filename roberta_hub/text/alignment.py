"""Aligns words and pieces by their character extents in the text.

An extent is (start, end) in characters, the end exclusive. The space before a piece does not count:
`Ġday` overlaps the word `day` only. A piece that covers several words belongs to each of them; a
word split into several pieces has all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TypeAlias

from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.text.layout import FIRST_PIECE
from roberta_hub.text.tokenizer import Tokenizer

Extent: TypeAlias = tuple[int, int]


def align(
    tokenizer: Tokenizer, text: str, words: Sequence[str] | Sequence[Extent]
) -> list[list[int]]:
    """Return the positions of each word's pieces in `tokenizer.encode(text)`, where `<s>` is 0.

    Words are in the order of the text, or given by their extents. A whitespace-only word has the
    whitespace-only pieces that overlap it, often none. A word that does not follow the previous one
    raises InputError.

    Example:
        >>> align(Tokenizer.shipped(), "You can’t.", ["You", "can", "’t", "."])
        [[1], [2], [3, 4, 5], [6]]
    """
    pieces = tokenizer.offsets(text)
    found = overlapping(text, pieces, _extents(text, words))
    return [[FIRST_PIECE + i for i in own] for own in found]


def locate(text: str, words: Sequence[str]) -> list[Extent]:
    """Return the extents of words in a text, each after the previous one; gaps are skipped.

    Example:
        >>> locate("no, no", ["no", ",", "no"])
        [(0, 2), (2, 3), (4, 6)]
    """
    extents = []
    end = 0
    for number, word in enumerate(words):
        start = text.find(word, end)
        if start < 0:
            raise InputError(
                f"words[{number}], {word!r}, does not occur in the text after character {end}: "
                f"{text[end : end + 40]!r}; words must be spelled as in the text and in its order"
            )
        end = start + len(word)
        extents.append((start, end))
    return extents


def overlapping(text: str, pieces: Sequence[Extent], words: Sequence[Extent]) -> list[list[int]]:
    """For each word the indices of pieces that share a character with it, without leading blanks.

    The pieces' starts and ends never decrease; the words may be in any order.

    Example:
        >>> overlapping("a b", [(0, 1), (1, 3)], [(0, 1), (2, 3)])
        [[0], [1]]
    """
    blank = [character.isspace() for character in text]
    ink = [_first_ink(blank, piece) for piece in pieces]
    ends = [end for _, end in pieces]
    found = []
    for start, end in words:
        word_ink = _first_ink(blank, (start, end))
        near = range(bisect_right(ends, start), bisect_left(pieces, end, key=_start))
        if word_ink == end:
            found.append([i for i in near if ink[i] == ends[i]])
        else:
            # They overlap if the later of their first non-whitespace characters is in both.
            found.append([i for i in near if max(ink[i], word_ink) < min(ends[i], end)])
    return found


def split_at(words: Sequence[Extent], tokens: Sequence[Extent]) -> list[Extent]:
    """Make each token a word of its own; the rest of the words around it stays. Both are in order.

    Example:
        >>> split_at([(0, 3), (4, 9)], [(4, 6), (8, 9)])
        [(0, 3), (4, 6), (6, 8), (8, 9)]
    """
    tokens = [token for token in tokens if token[0] < token[1]]
    found = list(tokens)
    for start, end in words:
        for first, last in tokens:
            if first < end and last > start:
                found += [(start, first)] if start < first else []
                start = max(start, last)
        found += [(start, end)] if start < end else []
    return sorted(found)


def ink_of(text: str, extents: Sequence[Extent]) -> list[Extent]:
    """Return extents without the whitespace at their edges.

    Example:
        >>> ink_of("a b ", [(0, 1), (1, 3), (2, 4), (1, 2)])
        [(0, 1), (2, 3), (2, 3), (2, 2)]
    """
    blank = [character.isspace() for character in text]
    found = []
    for start, end in extents:
        first = _first_ink(blank, (start, end))
        found.append((first, next((i for i in range(end, first, -1) if not blank[i - 1]), end)))
    return found


def _start(extent: Extent) -> int:
    return extent[0]


def _first_ink(blank: Sequence[bool], extent: Extent) -> int:
    """First non-whitespace character of an extent; its end if there is none."""
    start, end = extent
    return next((i for i in range(start, end) if not blank[i]), end)


def _extents(text: str, words: Sequence[str] | Sequence[Extent]) -> list[Extent]:
    strings = [word for word in words if isinstance(word, str)]
    extents = [word for word in words if isinstance(word, tuple) and len(word) == 2]
    if len(strings) == len(words):
        return locate(text, strings)
    if len(extents) != len(words):
        raise InputTypeError("words are neither all str nor all (start, end) tuples")
    for number, (start, end) in enumerate(extents):
        if not 0 <= start <= end <= len(text):
            raise InputError(
                f"words[{number}] is {start, end}, outside the text of {len(text)} characters"
            )
    return extents
