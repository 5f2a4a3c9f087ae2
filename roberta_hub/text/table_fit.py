"""Checks whether a vocabulary and an embedding table belong together."""

from __future__ import annotations

from roberta_hub.errors import VocabularyError
from roberta_hub.text.dictionary import Dictionary


def check_table(dictionary: Dictionary, *, rows: int, padding_idx: int, source: str) -> None:
    """Refuse a table with fewer rows than the vocabulary has symbols, or with another padding.

    More rows are good: many tables are rounded up to a multiple of 64.

    Raises:
        VocabularyError: the two do not belong together.

    Example:
        >>> check_table(Dictionary.roberta(), rows=50304, padding_idx=1, source="model")
    """
    if len(dictionary) > rows:
        raise VocabularyError(
            f"{source}: the vocabulary has {len(dictionary)} pieces and the embedding table {rows} "
            "rows; put the vocabulary the model was trained with there"
        )
    if padding_idx != dictionary.pad():
        raise VocabularyError(
            f"{source}: the configuration's pad_token_id is {padding_idx}, which is "
            f"{dictionary[padding_idx]!r} in the vocabulary, and its padding "
            f"{dictionary.pad_word!r} is {dictionary.pad()}; correct whichever is wrong"
        )
