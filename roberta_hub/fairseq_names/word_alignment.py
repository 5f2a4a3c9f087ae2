"""fairseq's `alignment_utils`: which pieces a word has, and features of words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.inference.words import english, pool, require_spacy
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.text.bpe import GPT2BPE


def align_bpe_to_words(
    roberta: RobertaHubInterface, bpe_tokens: Tensor, other_tokens: Sequence[str]
) -> list[list[int]]:
    """Find the pieces of each word, by bytes without whitespace at the edges.

    Args:
        roberta: whose ids these are.
        bpe_tokens: of `roberta.encode`. Shape: (T,)
        other_tokens: the words of the same text, in order; also spaCy's tokens.

    Returns:
        For each word the places of its pieces in `bpe_tokens`; a piece that two words share is in
        both, and a blank word has none.

    Raises:
        InputError: the words have other letters than the ids.

    Example:
        >>> from roberta_hub import load_model
        >>> roberta = load_model()
        >>> align_bpe_to_words(roberta, roberta.encode("You can’t."), ["You", "can", "’t", "."])
        [[1], [2], [3, 4, 5], [6]]
    """
    if bpe_tokens.dim() != 1 or not len(bpe_tokens) or bpe_tokens[0] != roberta.tokenizer.bos:
        raise InputError(
            f"bpe_tokens has shape {tuple(bpe_tokens.shape)}; pass what encode(text) gives, which "
            "begins with <s>"
        )
    words = [str(word).strip().encode() for word in other_tokens]  # spaCy's tokens too
    pieces = [b"", *(_ink(roberta, number) for number in bpe_tokens[1:].tolist())]
    if b"".join(pieces) != b"".join(words):
        raise InputError(
            f"the words have other letters than the ids: {b''.join(words).decode()[:60]!r} and "
            f"{b''.join(pieces).decode(errors='replace')[:60]!r}; pass the words of that text, "
            "spelled as there"
        )
    found: list[list[int]] = []
    extents = _extents(pieces)
    begin = 1
    for start, end in _extents(words):
        while begin < len(extents) and extents[begin][1] <= start:
            begin += 1
        own = []
        for place in range(begin, len(extents)):
            if extents[place][0] >= end:
                break
            if extents[place][0] < extents[place][1]:
                own.append(place)
        found.append(own)
    return found


def align_features_to_words(
    roberta: RobertaHubInterface, features: Tensor, alignment: Sequence[Sequence[int]]
) -> Tensor:
    """Add up the features of each word's pieces; a piece that words share is divided among them.

    Args:
        roberta: not needed; fairseq's first argument.
        features: of all pieces. Shape: (T, C)
        alignment: of `align_bpe_to_words`.

    Returns:
        `<s>`, the words, and the pieces behind the last word: (1 + words + rest, C)
    """
    if features.dim() != 2:
        raise InputError(
            f"features have shape {tuple(features.shape)}, must be (T, C): those of one text"
        )
    last = max((place for own in alignment for place in own), default=0)
    return torch.cat([pool(features, alignment)[:-1], features[last + 1 :]])


def spacy_nlp() -> Any:
    """Return spaCy's English, by rules alone."""
    return english(require_spacy("alignment_utils.spacy_nlp"))


def spacy_tokenizer() -> Any:
    """Return spaCy's English tokenizer."""
    return spacy_nlp().tokenizer


def _ink(roberta: RobertaHubInterface, number: int) -> bytes:
    """Bytes of a piece without whitespace at its edges; none of `<s>` and `</s>`."""
    if number in (roberta.tokenizer.bos, roberta.tokenizer.eos):
        return b""
    symbol = roberta.tokenizer.dictionary[number]
    engine = roberta.bpe
    whole = engine.symbol_bytes(symbol) if isinstance(engine, GPT2BPE) else None
    if whole is None:
        return str(engine.decode(symbol)).strip().encode()
    try:
        return whole.decode().strip().encode()
    except UnicodeDecodeError:  # a part of a character
        return whole.strip(b" \n\t\r")


def _extents(parts: Sequence[bytes]) -> list[tuple[int, int]]:
    return list(pairwise(accumulate(map(len, parts), initial=0)))
