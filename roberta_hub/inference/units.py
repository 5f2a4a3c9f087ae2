"""Cuts a sequence of ids into words that can be masked or left out, each with its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from roberta_hub.inference.tag import UNSPACED, words_of
from roberta_hub.text.layout import FIRST
from roberta_hub.text.tokenizer import Tokenizer

_UNSPACED = re.compile(UNSPACED)
"""Where words are written without spaces a piece is the nearest thing to a word."""


@dataclass(frozen=True)
class Unit:
    """A word, with its punctuation apart."""

    sentence: int
    """Which of the texts it stands in."""
    start: int
    """First character."""
    end: int
    """One past the last character."""
    columns: list[int]
    """Where its pieces stand in the ids of the whole sequence."""


def units_of(tokenizer: Tokenizer, sentences: Sequence[str]) -> list[Unit]:
    """Cut sentences into words, as `tokenizer.encode(*sentences)` lays them out.

    Words that share a piece ("..." is one) are one; whitespace belongs to none.

    Example:
        >>> found = units_of(Tokenizer.shipped(), ["A sudden epipheny"])
        >>> [(unit.start, unit.end, unit.columns) for unit in found]
        [(0, 1, [1]), (2, 8, [2]), (9, 17, [3, 4, 5])]
    """
    found: list[Unit] = []
    column = FIRST
    for sentence, text in enumerate(sentences):
        pieces = tokenizer.offsets(text)
        word_at = [-1] * len(text)
        for number, (start, end) in enumerate(words_of(text)):
            word_at[start:end] = [number] * (end - start)
        here: list[Unit] = []
        for place, (start, end) in enumerate(pieces, column):
            while start < end and text[start].isspace():
                start += 1
            if start == end:
                continue  # nothing but whitespace, or nothing at all
            last = here[-1] if here else None
            if last is not None and (start < last.end or _goes_on(text, word_at, last.end, start)):
                columns = [*last.columns, place]
                here[-1] = Unit(sentence, last.start, max(end, last.end), columns)
            else:
                here.append(Unit(sentence, start, end, [place]))
        found += here
        column += len(pieces) + tokenizer.layout.separators
    return found


def _goes_on(text: str, word_at: Sequence[int], end: int, start: int) -> bool:
    """Tell whether what begins at `start` belongs to the word that reaches to `end`."""
    unspaced = _UNSPACED.match(text[start]) or _UNSPACED.match(text[end - 1])
    return word_at[start] == word_at[end - 1] and not unspaced
