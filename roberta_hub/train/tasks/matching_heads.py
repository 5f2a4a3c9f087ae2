"""Gives a trained model heads that look for the same word, or a like one, elsewhere in the input.

A pair of sentences is compared by such heads, and text alone teaches them late to a small model.
Training changes them like all weights. Legend: C width of the model, D of a head, E rank of the
word directions, W and P rows of a head for words and for places.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.model.attention import MultiheadSelfAttention
from roberta_hub.model.roberta import Roberta

SAMPLE_TOKENS = 20_000
"""Tokens on which sizes are measured."""
MATCHING_LAYERS = 2
"""How many layers, from the first, get matching heads: the second half of each layer's."""
SAME_WORD_SCORE = 5.0
"""Attention score that a matching head gives to the same word, before the training."""
SAME_PLACE_SCORE = 8.0
"""Attention score that it takes off for the same place, and in part for neighbours: else a word
would find itself."""
CANCELLED_SHARE = 0.3
"""Share of a match that is subtracted from the word's own vector: words of both sentences fade."""


def matching_heads(model: Roberta, stream: Tensor, *, seed: int) -> None:
    """Set the second half of the heads in the first layers to find their own word elsewhere.

    Query and key read the same projection of the word, and projections of the place with opposite
    signs: like words raise the score, like places lower it. The principal directions of the
    embedding and of the positions tell words and places apart.

    Args:
        model: its weights change; its embeddings are trained, or set by `informed_start`.
        stream: ids of the training text, to measure the size of both parts. Shape: (S,)
        seed: of the random projections.
    """
    encoder = model.transformer
    heads = model.config.num_heads
    size = model.config.embed_dim // heads  # D
    places = size // 4
    if not places:
        raise InputError(f"matching heads need heads of 4 dimensions or more, these have {size}")
    random = torch.Generator().manual_seed(seed)
    ids = stream[:SAMPLE_TOKENS].long()
    with torch.no_grad():
        words = encoder.embed_tokens.weight[torch.unique(ids)].float()
        positions = encoder.embed_positions.weight[encoder.padding_idx + 1 :].float()
        if encoder.embed_projection is not None:
            projection = encoder.embed_projection.weight.float().t()  # (E, C)
            words = words @ projection
            if encoder.project_sum:
                positions = positions @ projection
        width = min(encoder.embed_tokens.embedding_dim, words.size(1) - places)
        alike = _principal(words, width)  # (E, C), fewer where E is near C
        near = _principal(positions - positions @ alike.t() @ alike, places)  # blind to words
        x = encoder.embed(
            ids, torch.arange(len(ids)) % model.max_positions() + encoder.padding_idx + 1
        ).float()
        x = x - x.mean(0)
        attentions = [m for m in encoder.layers.modules() if isinstance(m, MultiheadSelfAttention)]
        for attention in attentions[:MATCHING_LAYERS]:
            for head in range(heads // 2, heads):
                mixed = torch.randn(len(alike), size - places, generator=random)
                own = torch.linalg.qr(mixed)[0].t() @ alike  # (3D/4 at most, C)
                gains = [
                    _gain(x @ own.t(), SAME_WORD_SCORE, size),
                    _gain(x @ near.t(), SAME_PLACE_SCORE, size),
                ]
                _match(attention, head * size, own, near, gains)


def _gain(rows: Tensor, score: float, size: int) -> float:
    """Compute the factor of query and key that gives a row this score with itself."""
    return math.sqrt(score * math.sqrt(size) / float(rows.square().sum(1).mean()))


def _match(
    attention: MultiheadSelfAttention, first: int, own: Tensor, near: Tensor, gains: list[float]
) -> None:
    """Set the head whose rows begin at `first`: words `own` (W, C), places `near` (P, C)."""
    rows = slice(first, first + len(own) + len(near))
    word, place, none = gains[0] * own, gains[1] * near, torch.zeros_like(near)
    attention.q_proj.weight[rows] = torch.cat([word, place])
    attention.k_proj.weight[rows] = torch.cat([word, -place])
    attention.v_proj.weight[rows] = torch.cat([own, none])
    attention.out_proj.weight[:, rows] = torch.cat([-CANCELLED_SHARE * own, none]).t()
    for linear in (attention.q_proj, attention.k_proj, attention.v_proj):
        linear.bias[rows] = 0.0


def _principal(rows: Tensor, count: int) -> Tensor:
    """Compute the directions in which rows differ most: (N, C) -> (count, C)."""
    directions: Tensor = torch.linalg.svd(rows - rows.mean(0), full_matrices=False)[2]
    return directions[:count]
