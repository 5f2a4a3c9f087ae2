"""Ranks texts by the words they share with a query, and joins rankings.

BM25 (Robertson et al. 1994) is bm25s's (Lù 2024), in Lucene's form with k1 = 1.5 and b = 0.75.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from roberta_hub.errors import MissingExtraError
from roberta_hub.extras import install
from roberta_hub.inference.tag import word_parts
from roberta_hub.text.tokenizer import Text

RANKED = 1000
"""Texts of a ranking that are joined with another's, as many as a run of TREC has."""
_K = 60
"""What Cormack, Clarke and Büttcher (2009) add to a rank, so that the first ranks differ less."""


def import_bm25s() -> Any:
    """Import bm25s."""
    try:
        import bm25s
    except ImportError as error:
        raise MissingExtraError(
            f"the words of a search need bm25s ({error}): {install('index')}"
        ) from None
    return bm25s


def words_of(text: Text) -> list[str]:
    """Split a text into words to compare: case and composition of letters do not count.

    A character of a script without spaces is a word; a pair's sentences are one text.

    Example:
        >>> words_of("Berlin-based, IN 2020!")
        ['berlin', 'based', 'in', '2020']
    """
    whole = text if isinstance(text, str) else " ".join(text)
    plain = unicodedata.normalize("NFC", whole).casefold()
    parts = (plain[start:end] for start, end in word_parts(plain))
    return [part for part in parts if part[0].isalnum()]


class WordIndex:
    """Words of a corpus, in memory."""

    def __init__(self, texts: Iterable[Text]) -> None:
        """Count the words of each text."""
        from bm25s.tokenization import Tokenized

        self._vocabulary: dict[str, int] = {}
        known = self._vocabulary
        ids = [[known.setdefault(word, len(known)) for word in words_of(text)] for text in texts]
        self._index = import_bm25s().BM25()
        if known:
            self._index.index(Tokenized(ids, known), create_empty_token=False, show_progress=False)

    def ranked(self, query: Text, most: int = RANKED) -> list[int]:
        """Rank the texts that share a word with a query, of equals the first."""
        known = self._vocabulary
        ids = [known[word] for word in words_of(query) if word in known]
        if not ids:
            return []
        scores = torch.from_numpy(self._index.get_scores_from_ids(ids))
        sharing = scores.nonzero()[:, 0]
        order = scores[sharing].argsort(descending=True, stable=True)[:most]
        found: list[int] = sharing[order].tolist()
        return found


def fused(rankings: Iterable[Sequence[int]], topk: int) -> list[tuple[int, float]]:
    """Join rankings by the sums of 1 / (60 + rank); of equal sums the lower index is first.

    Example:
        >>> [index for index, _ in fused([[5, 3, 8], [3, 8]], 2)]
        [3, 8]
    """
    sums: dict[int, float] = {}
    for ranking in rankings:
        for rank, index in enumerate(ranking, 1):
            sums[index] = sums.get(index, 0.0) + 1 / (_K + rank)
    return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))[:topk]
