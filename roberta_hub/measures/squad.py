"""Scores an answer to a question as SQuAD's own scripts do."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from roberta_hub.measures.counts import f1

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def squad_words(text: str) -> list[str]:
    """Cut an answer into words as SQuAD's scripts do: no case, punctuation or articles.

    Example:
        >>> squad_words("The U.S. of A."), squad_words("the")
        (['us', 'of'], [])
    """
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def squad_score(
    answered: str, answers: Sequence[str], *, unanswerable: bool
) -> tuple[float, float]:
    """Compute (exact match, F1) of an answer, each with the right answer that gives most.

    Example:
        >>> squad_score("the cat", ["cat", "a dog"], unanswerable=False)
        (1.0, 1.0)
        >>> squad_score("the", ["a"], unanswerable=True)
        (1.0, 1.0)
        >>> squad_score("the", ["a"], unanswerable=False)
        (1.0, 0.0)
    """
    found, right = squad_words(answered), [squad_words(text) for text in answers]
    if unanswerable:
        right = [words for words in right if words] or [[]]
    exact = max((float(found == words) for words in right), default=0.0)
    return exact, max((_overlap(found, words, unanswerable) for words in right), default=0.0)


def _overlap(found: list[str], right: list[str], unanswerable: bool) -> float:
    if unanswerable and not (found and right):
        return float(found == right)
    same = (Counter(found) & Counter(right)).total()
    return f1(same, len(right) - same, len(found) - same)
