"""Features of words instead of pieces, as a spaCy Doc."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol, cast, overload

import torch
from torch import Tensor

from roberta_hub.arguments import short_repr, text_of
from roberta_hub.errors import InputError, MissingExtraError
from roberta_hub.extras import install
from roberta_hub.text.alignment import align
from roberta_hub.text.texts import as_strings
from roberta_hub.text.tokenizer import Tokenizer

POOLINGS = ("sum", "mean", "first", "max")


class AlignedWord(Protocol):
    """Static type of a token of `AlignedDoc`: spaCy's Token with a Tensor as vector."""

    @property
    def i(self) -> int:
        """Index in the Doc; 0 is `<s>`."""

    @property
    def text(self) -> str:
        """The word."""

    @property
    def vector(self) -> Tensor:
        """The word's feature. Shape: (C,), or (L+1, C) with the states of every layer."""

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of spaCy's Token."""


class AlignedDoc(Protocol):
    """Static type of `aligned_doc`'s result: spaCy's Doc with Tensors as vectors.

    spaCy declares vectors as arrays.
    """

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[AlignedWord]: ...

    @overload
    def __getitem__(self, place: int, /) -> AlignedWord: ...
    @overload
    def __getitem__(self, places: slice, /) -> Any: ...

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of spaCy's Doc."""


def aligned_doc(
    extract: Callable[[Tensor, bool], Tensor | list[Tensor]],
    tokenizer: Tokenizer,
    sentence: str,
    return_all_hiddens: bool = False,
    *,
    words: Sequence[str] | None = None,
    pooling: str = "sum",
) -> AlignedDoc:
    """Return a spaCy Doc of `<s>`, words and `</s>`, whose `token.vector` is the word's feature."""
    sentence = text_of("sentence", sentence)
    _check_pooling(pooling)
    if words is not None:
        words = as_strings(words, "words", "words")
        if "" in words:
            raise InputError(f"words[{words.index('')}] is empty; leave it out")
    spacy = require_spacy("extract_features_aligned_to_words")
    ids = tokenizer.encode(sentence)
    # Before spaCy, which is slow: a text that is too long is refused here.
    states = extract(ids, return_all_hiddens)
    layers = [state[0] for state in states] if isinstance(states, list) else None
    features = states[0] if layers is None else torch.stack(layers, dim=1)  # (T, C), (T, L+1, C)
    if words is None:
        tokens = english(spacy)(sentence)
        words = [token.text for token in tokens]
        spaces = [bool(token.whitespace_) for token in tokens]
    else:
        spaces = [True] * len(words)
    alignment = align(tokenizer, sentence, words)
    first, last = (tokenizer.dictionary[i] for i in (tokenizer.bos, tokenizer.eos))
    vectors = pool(features, alignment, pooling)
    doc = spacy.tokens.Doc(
        english(spacy).vocab,
        words=[first, *words, last],
        spaces=[True, *spaces[:-1], *([True] if spaces else []), False],
    )
    doc.user_token_hooks["vector"] = lambda token: vectors[token.i]
    return cast(AlignedDoc, doc)


def pool(features: Tensor, alignment: Sequence[Sequence[int]], pooling: str = "sum") -> Tensor:
    """Pool the features of pieces to those of words; `<s>` stays first and `</s>` last.

    A piece that several words share is divided among them, so that with "sum", fairseq's way, the
    words add up to the pieces (`fairseq/models/roberta/alignment_utils.py`).

    Args:
        features: of `<s>`, the pieces, `</s>`. Shape: (T, *)
        alignment: for each word its rows of `features`; may be empty, which gives zeros.
        pooling: "sum", "mean", "first" or "max".
    """
    _check_pooling(pooling)
    shared = torch.zeros(len(features), dtype=features.dtype)
    for rows in alignment:
        shared[list(rows)] += 1
    shape = (-1, *([1] * (features.dim() - 1)))
    divided = features / shared.clamp(min=1).view(shape).to(features.device)
    pooled = [features[0]]
    for rows in alignment:
        own = (divided if pooling == "sum" else features)[list(rows)]
        if not rows:
            pooled.append(torch.zeros_like(features[0]))
        elif pooling in ("sum", "mean"):
            pooled.append(own.sum(0) if pooling == "sum" else own.mean(0))
        else:
            pooled.append(own[0] if pooling == "first" else own.amax(0))
    return torch.stack([*pooled, features[-1]])


def _check_pooling(pooling: object) -> None:
    if not isinstance(pooling, str) or pooling not in POOLINGS:
        raise InputError(f"pooling is {short_repr(pooling)}; choose {', '.join(POOLINGS)}")


def require_spacy(what: str) -> Any:
    """Return the spacy module; MissingExtraError names the extra."""
    try:
        import spacy
    except ImportError:
        raise MissingExtraError(f"{what} needs spaCy: {install('words')}") from None
    return spacy


@lru_cache(maxsize=1)
def english(spacy: Any) -> Any:
    """Return spaCy's English, one for all; `spacy` is the module."""
    return spacy.blank("en")  # rules only: no model is downloaded
