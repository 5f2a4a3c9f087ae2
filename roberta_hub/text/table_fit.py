"""Checks that vocabulary, embedding table and tokenizer match."""

from __future__ import annotations

from roberta_hub.errors import VocabularyError
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.missing import NoVocabulary
from roberta_hub.text.pieces import SubwordTokenizer

INSPECTED_SYMBOLS = 100
"""Symbols inspected to see whether a dictionary is GPT-2's BPE."""


def check_table(dictionary: Dictionary, *, rows: int, padding_idx: int, source: str) -> None:
    """Refuse a table with fewer rows than the vocabulary has symbols, or with another padding.

    More rows are fine: many tables are rounded up to a multiple of 64.

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


def engine_for(dictionary: Dictionary, bpe: SubwordTokenizer | None) -> SubwordTokenizer:
    """The given tokenizer, else GPT-2's BPE if the dictionary has its numbers.

    A dictionary of other units, of speech or of molecules, say, has none: ids work, texts do not.

    Example:
        >>> engine_for(Dictionary.roberta(), None) is GPT2BPE.shipped()
        True
    """
    if bpe is not None:
        return bpe
    first = [
        symbol
        for symbol in dictionary.symbols[:INSPECTED_SYMBOLS]
        if not symbol.startswith(("<", "made"))
    ]
    if 2 * sum(symbol.isdigit() for symbol in first) < len(first):
        return NoVocabulary("this model", (), first[:3])
    return GPT2BPE.shipped()
