"""Pieces ↔ words, by where they lie in the bytes of the text; what the words look like once decoded plays no part.

Spans are half-open (start, end). The space in front of a piece does not count: `Ġday` overlaps the word `day` and not what
lies before it. A piece that covers several words belongs to each; a word cut into several pieces has them all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeAlias

from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.text.tokenizer import Tokenizer

Span: TypeAlias = tuple[int, int]


def align(
    tokenizer: Tokenizer, text: str, words: Sequence[str] | Sequence[Span]
) -> list[list[int]]:
    """Find the pieces of each word.

    Args:
        tokenizer: cuts the text into pieces.
        text: one sentence.
        words: words in the order of the text, or their spans in characters.

    Returns:
        For each word the positions of its pieces in `tokenizer.encode(text)`, where `<s>` is 0 and the first piece 1. A
        whitespace-only word has the whitespace-only pieces that overlap it, often none.

    Raises:
        InputError: a word is not in the text behind the one before it, or a span lies outside the text.

    Example:
        >>> align(Tokenizer.shipped(), "You can’t.", ["You", "can", "’t", "."])
        [[1], [2], [3, 4, 5], [6]]
    """
    spans = _character_spans(text, words)
    to_byte = list(accumulate((len(character.encode()) for character in text), initial=0))
    word_bytes = [(to_byte[start], to_byte[end]) for start, end in spans]
    pieces = overlapping(text, tokenizer.byte_spans(text), word_bytes)
    return [[1 + piece for piece in word] for word in pieces]


def locate(text: str, words: Sequence[str]) -> list[Span]:
    """Find words in a text, each behind the one before; what lies between them is skipped.

    Returns:
        The span of each word in characters.

    Raises:
        InputError: a word does not follow.

    Example:
        >>> locate("no, no", ["no", ",", "no"])
        [(0, 2), (2, 3), (4, 6)]
    """
    spans = []
    end = 0
    for number, word in enumerate(words):
        start = text.find(word, end)
        if start < 0:
            raise InputError(
                f"words[{number}], {word!r}, does not occur in the text behind character {end}: "
                f"{text[end : end + 40]!r}; words must be spelled as in the text and in its order"
            )
        end = start + len(word)
        spans.append((start, end))
    return spans


def overlapping(text: str, pieces: Sequence[Span], words: Sequence[Span]) -> list[list[int]]:
    """For each word the indices of the pieces that share a byte with it, whitespace at the ends of both left out.

    Args:
        text: what the spans lie in.
        pieces: byte spans in ascending order, without overlap.
        words: byte spans in any order.

    Example:
        >>> overlapping("a b", [(0, 1), (1, 3)], [(0, 1), (2, 3)])
        [[0], [1]]
    """
    blank = [character.isspace() for character in text for _ in character.encode()]
    bare = [_strip(blank, piece) for piece in pieces]
    ends = [end for _, end in pieces]
    found = []
    for word in words:
        start, end = _strip(blank, word)
        is_blank = start == end
        if is_blank:
            start, end = word
        mine = []
        for i in range(bisect_right(ends, start), len(pieces)):
            if pieces[i][0] >= end:
                break
            left, right = bare[i]
            if left == right if is_blank else max(left, start) < min(right, end):
                mine.append(i)
        found.append(mine)
    return found


def _strip(blank: Sequence[bool], span: Span) -> Span:
    """The span without the whitespace at its ends; empty if there is nothing else."""
    start, end = span
    while start < end and blank[start]:
        start += 1
    while start < end and blank[end - 1]:
        end -= 1
    return start, end


def _character_spans(text: str, words: Sequence[str] | Sequence[Span]) -> list[Span]:
    strings = [word for word in words if isinstance(word, str)]
    spans = [word for word in words if isinstance(word, tuple) and len(word) == 2]
    if len(strings) == len(words):
        return locate(text, strings)
    if len(spans) != len(words):
        raise InputTypeError("words are neither all str nor all (start, end) tuples")
    for number, (start, end) in enumerate(spans):
        if not 0 <= start <= end <= len(text):
            raise InputError(
                f"words[{number}] is {start, end}, outside the text of {len(text)} characters"
            )
    return spans
