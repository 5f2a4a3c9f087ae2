"""Splits sequences of ids into words to mask or leave out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from roberta_hub.inference.tag import UNSPACED, treebank_words
from roberta_hub.text.layout import FIRST_PIECE
from roberta_hub.text.tokenizer import Tokenizer

_UNSPACED = re.compile(UNSPACED)
"""In scripts without spaces each piece counts as a word."""


@dataclass(frozen=True)
class WordSpan:
    """A word, without its punctuation."""

    sentence: int
    """Index of its sentence."""
    start: int
    """First character."""
    end: int
    """One past the last character."""
    columns: list[int]
    """Columns of its pieces in the ids of the whole sequence."""


def word_spans(tokenizer: Tokenizer, sentences: Sequence[str]) -> list[WordSpan]:
    """Split sentences into words, with columns of `tokenizer.encode(*sentences)`.

    Words that share a piece ("..." is one) are merged; whitespace is skipped.

    Example:
        >>> found = word_spans(Tokenizer.shipped(), ["A sudden epipheny"])
        >>> [(word.start, word.end, word.columns) for word in found]
        [(0, 1, [1]), (2, 8, [2]), (9, 17, [3, 4, 5])]
    """
    found: list[WordSpan] = []
    column = FIRST_PIECE
    for sentence, text in enumerate(sentences):
        pieces = tokenizer.offsets(text)
        word_at = [-1] * len(text)
        for number, (start, end) in enumerate(treebank_words(text)):
            word_at[start:end] = [number] * (end - start)
        here: list[WordSpan] = []
        for place, (start, end) in enumerate(pieces, column):
            while start < end and text[start].isspace():
                start += 1
            if start == end:
                continue  # empty, or only whitespace
            last = here[-1] if here else None
            if last is not None and (
                start < last.end or _continues(text, word_at, last.end, start)
            ):
                columns = [*last.columns, place]
                here[-1] = WordSpan(sentence, last.start, max(end, last.end), columns)
            else:
                here.append(WordSpan(sentence, start, end, [place]))
        found += here
        column += len(pieces) + tokenizer.layout.separators
    return found


def _continues(text: str, word_at: Sequence[int], end: int, start: int) -> bool:
    """Whether the piece at `start` continues the word that ends at `end`."""
    unspaced = _UNSPACED.match(text[start]) or _UNSPACED.match(text[end - 1])
    return word_at[start] == word_at[end - 1] and not unspaced
