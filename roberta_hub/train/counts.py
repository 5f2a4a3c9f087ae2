"""A start from counts: embeddings and output biases that already know which words are alike, and how frequent.

A masked LM spends its first hours on what counting gives in a minute. Embeddings are the singular vectors of
smoothed positive pointwise mutual information between a token and its neighbours (Levy, Goldberg and Dagan 2015,
sections 3.1-3.2), biases the logarithms of frequencies. Legend: V vocabulary, K context tokens, E embedding width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from roberta_hub.model.roberta import RobertaModel

CONTEXTS = 8192
"""K, the most frequent tokens; (V, K) counts are 1.6 GB for RoBERTa's vocabulary."""
WINDOW = 4
"""Neighbours on each side; one at distance d counts 1/d."""
SMOOTHING = 0.75
"""Power of the contexts' frequencies."""
EIGENVALUE = 0.5
"""Power of the singular values in the embedding."""
SCAN = 4_000_000
"""Tokens that are counted at once."""
STD = 0.05
"""Of the embedding's entries: random ones have 0.02, but these mean something, and positions not yet."""


def start_from_counts(model: RobertaModel, stream: Tensor, *, seed: int) -> None:
    """Set token embeddings and LM biases from a text's statistics; what the text lacks stays random.

    Args:
        model: with its other weights random; changed.
        stream: ids (`blocks.build`). Shape: (S,)
        seed: of the randomized decomposition.
    """
    embedding = model.encoder.sentence_encoder.embed_tokens.weight
    frequencies = _frequencies(stream, len(embedding))
    found = embed(stream, frequencies, embedding.size(1), seed=seed)
    known = found.ne(0).any(1)
    with torch.no_grad():
        embedding[known] = found[known].to(embedding)
        head = model.encoder.lm_head
        if head is not None:
            head.bias.copy_(((frequencies + 0.1) / (frequencies + 0.1).sum()).log())


def embed(stream: Tensor, frequencies: Tensor, width: int, *, seed: int) -> Tensor:
    """Embeddings from co-occurrences: (V, E), zeros for tokens that never occur.

    Args:
        stream: ids. Shape: (S,)
        frequencies: how often each id occurs. Shape: (V,)
        width: E.
        seed: of the randomized decomposition.

    Example:
        >>> text = torch.tensor([0, 2, 1, 3] * 50 + [4, 2, 5, 3] * 50)  # 0 and 4 have the same neighbours
        >>> near = torch.nn.functional.cosine_similarity
        >>> rows = embed(text, torch.bincount(text).float(), 3, seed=0)
        >>> bool(near(rows[0], rows[4], dim=0) > near(rows[0], rows[2], dim=0))
        True
    """
    size = len(frequencies)
    contexts = frequencies.argsort(descending=True)[: min(CONTEXTS, size)]
    column = torch.full((size,), -1)
    column[contexts] = torch.arange(len(contexts))
    counts = _cooccurrences(stream, column, size, len(contexts))
    rows = counts.sum(1, keepdim=True).clamp(min=1e-9)
    columns = counts.sum(0, keepdim=True).clamp(min=1e-9) ** SMOOTHING
    columns /= columns.sum()
    information = counts.div_(rows).div_(columns).log_().clamp_(min=0.0)  # log 0 is -inf, hence 0
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    extra = min(width + 16, *information.shape)
    left, values, _ = torch.svd_lowrank(information, q=extra, niter=3)
    torch.set_rng_state(state)
    found = left[:, :width] * values[:width] ** EIGENVALUE
    if found.size(1) < width:
        found = torch.nn.functional.pad(found, (0, width - found.size(1)))
    used = frequencies > 0
    return found * (STD / found[used].std()) * used.unsqueeze(1)


def _frequencies(stream: Tensor, size: int) -> Tensor:
    total = torch.zeros(size)
    for part in stream.split(SCAN):
        total += torch.bincount(part.long(), minlength=size)
    return total


def _cooccurrences(stream: Tensor, column: Tensor, size: int, width: int) -> Tensor:
    """How often a context stands near a token, nearer ones counting more: (V, K)."""
    counts = torch.zeros(size * width)
    for part in stream.split(SCAN):
        ids = part.long()
        places = column[ids]
        for distance in range(1, WINDOW + 1):
            for token, place in (
                (ids[distance:], places[:-distance]),
                (ids[:-distance], places[distance:]),
            ):
                real = place >= 0
                at = token[real] * width + place[real]
                counts.index_add_(0, at, torch.full((len(at),), 1.0 / distance))
    return counts.view(size, width)
