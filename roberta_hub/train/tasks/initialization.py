"""Sets a model's first weights from the statistics of its training text.

From random weights a masked LM spends its first thousands of updates near the loss of word
frequencies, until attention finds the words next to a mask. On two CPU cores those are hours. A
minute of linear algebra replaces them (measured in MODEL_CARD.md): counting tells which words are
alike and how frequent they are, and neighbours matter.

- Embeddings are singular vectors of smoothed positive pointwise mutual information between a token
  and its neighbours (Levy, Goldberg and Dagan 2015, sections 3.1-3.2), output biases the logarithms
  of frequencies.
- Positions are sinusoids (Vaswani et al. 2017, section 3.5) in a subspace of their own. Query and
  key of most heads are rotations of that subspace, so that each head begins by looking at one
  offset (in the spirit of Trockman and Kolter 2023, "Mimetic initialization").

Training changes every weight. Legend: V vocabulary, K context tokens, E embedding width, C width of
the model, D of a head, T positions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from roberta_hub.model.attention import MultiheadSelfAttention
from roberta_hub.model.encoder import TransformerEncoder
from roberta_hub.model.roberta import Roberta

NUM_CONTEXTS = 8192
"""K, the most frequent tokens; (V, K) counts are 1.6 GB for RoBERTa's vocabulary."""
CONTEXT_WINDOW = 4
"""Neighbours on each side; one at distance d counts 1/d."""
CONTEXT_SMOOTHING = 0.75
"""Power of the contexts' frequencies."""
SINGULAR_VALUE_POWER = 0.5
"""Power of the singular values in the embedding."""
TOKENS_PER_COUNT = 4_000_000
"""Tokens that are counted at once."""
EMBEDDING_STD = 0.05
"""Standard deviation of an embedding's entries; random ones have 0.02."""
HEAD_OFFSETS = ((-1, 1, -2, 2), (-1, 1, -3, 3), (-1, 1))
"""Offsets that the first heads of the first, the second and any later layer look at; other heads
stay random."""
OFFSET_SCORE = 6.0
"""Attention score of the place that such a head looks at, before the training."""
SINUSOID_FREQUENCIES = (1.5, 0.02)
"""Radians a token of the fastest and the slowest sinusoid: periods of 4 and 314 tokens."""


def informed_start(model: Roberta, stream: Tensor, *, seed: int) -> None:
    """Set embeddings, positions and the first heads of a model from a text.

    Args:
        model: its weights change.
        stream: ids of the training text (`streams.build_stream`). Shape: (S,)
        seed: of the random parts.
    """
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    with torch.no_grad():
        _set_words(model, stream)
        _set_places(model.transformer, model.config.num_heads)
    torch.set_rng_state(state)


# ---- words ----


def _set_words(model: Roberta, stream: Tensor) -> None:
    """Set token embeddings and LM biases; tokens that the text lacks stay random."""
    embedding = model.transformer.embed_tokens.weight
    frequencies = torch.zeros(len(embedding))
    for part in stream.split(TOKENS_PER_COUNT):  # type: ignore[no-untyped-call]
        frequencies += torch.bincount(part.long(), minlength=len(embedding))
    found = cooccurrence_embeddings(stream, frequencies, embedding.size(1))
    known = found.ne(0).any(1)
    embedding[known] = found[known].to(embedding)
    if model.encoder.lm_head is not None:
        smoothed = frequencies + 0.1
        model.encoder.lm_head.bias.copy_((smoothed / smoothed.sum()).log())


def cooccurrence_embeddings(stream: Tensor, frequencies: Tensor, width: int) -> Tensor:
    """Compute embeddings from co-occurrences: (V, E), zeros for tokens that never occur.

    Args:
        stream: ids. Shape: (S,)
        frequencies: how often each id occurs. Shape: (V,)
        width: E.

    Example:
        >>> # 0 and 4 have the same neighbours
        >>> text = torch.tensor([0, 2, 6, 7, 8, 9, 1, 3, 4, 2, 6, 7, 8, 9, 5, 3] * 50)
        >>> near = torch.nn.functional.cosine_similarity
        >>> rows = cooccurrence_embeddings(text, torch.bincount(text).float(), 3)
        >>> bool(near(rows[0], rows[4], dim=0) > near(rows[0], rows[2], dim=0))
        True
    """
    size = len(frequencies)
    contexts = frequencies.argsort(descending=True)[: min(NUM_CONTEXTS, size)]
    column = torch.full((size,), -1)
    column[contexts] = torch.arange(len(contexts))
    counts = _cooccurrences(stream, column, size, len(contexts))
    rows = counts.sum(1, keepdim=True).clamp(min=1e-9)
    columns = counts.sum(0, keepdim=True).clamp(min=1e-9) ** CONTEXT_SMOOTHING
    columns /= columns.sum()
    information = counts.div_(rows).div_(columns).log_().clamp_(min=0.0)  # log 0 is -inf, hence 0
    left, values, _ = torch.svd_lowrank(information, q=min(width + 16, *information.shape), niter=3)
    found = left[:, :width] * values[:width] ** SINGULAR_VALUE_POWER
    found = nn.functional.pad(found, (0, width - found.size(1)))
    used = frequencies > 0
    return found * (EMBEDDING_STD / found[used].std()) * used.unsqueeze(1)


def _cooccurrences(stream: Tensor, column: Tensor, size: int, width: int) -> Tensor:
    """Count contexts near each token, weighted by 1/distance: (V, K)."""
    counts = torch.zeros(size * width)
    for part in stream.split(TOKENS_PER_COUNT):  # type: ignore[no-untyped-call]
        ids = part.long()
        places = column[ids]
        for distance in range(1, CONTEXT_WINDOW + 1):
            for token, place in (
                (ids[distance:], places[:-distance]),
                (ids[:-distance], places[distance:]),
            ):
                real = place >= 0
                at = token[real] * width + place[real]
                counts.index_add_(0, at, torch.full((len(at),), 1.0 / distance))
    return counts.view(size, width)


# ---- places ----


def _set_places(encoder: TransformerEncoder, num_heads: int) -> None:
    """Set positions in a subspace of one head's width, and heads that look at neighbours in it."""
    positions = encoder.embed_positions.weight
    width = positions.size(1)  # C, or E where the sum is projected
    attentions = [m for m in encoder.layers.modules() if isinstance(m, MultiheadSelfAttention)]
    size = attentions[0].q_proj.in_features // num_heads
    used = min(size, width)
    used -= used % 2  # D: sines and cosines come in pairs
    words = encoder.embed_tokens.embedding_dim
    basis = torch.linalg.qr(torch.randn(width, width))[0]
    projection = encoder.embed_projection
    subspace = seen = basis[:, -used:]  # (width, D), orthogonal to the words' where C >= E + D
    if projection is not None and encoder.project_sum:
        subspace, seen = _project_sum(projection, subspace)
    elif projection is not None and words <= width:
        projection.weight.copy_(basis[:, :words])
    fast, slow = map(math.log, SINUSOID_FREQUENCIES)
    frequencies = torch.linspace(fast, slow, used // 2).exp()
    places = (
        sinusoids(len(positions), frequencies) * EMBEDDING_STD * math.sqrt(words)
    )  # as long as words
    positions.copy_(places @ subspace.t())
    positions[encoder.padding_idx] = 0.0
    # After the LayerNorm words and places have norms of sqrt(width / 2), and scores are divided by
    # sqrt(C / H).
    gain = math.sqrt(OFFSET_SCORE * math.sqrt(size) / (width / 2))
    for number, attention in enumerate(attentions):
        for head, offset in enumerate(HEAD_OFFSETS[min(number, len(HEAD_OFFSETS) - 1)][:num_heads]):
            rows = slice(head * size, head * size + used)
            for weight, turn in ((attention.q_proj.weight, offset), (attention.k_proj.weight, 0)):
                own = gain * rotation(frequencies, turn) @ seen.t()  # (D, C)
                weight[rows] = own + 0.02 * torch.randn_like(own)


def _project_sum(projection: nn.Linear, subspace: Tensor) -> tuple[Tensor, Tensor]:
    """Let the projection of a sum of embeddings keep the lengths of what heads look at.

    Args:
        projection: E -> C; its weight changes.
        subspace: of the places, orthonormal. Shape: (E, D)
    """
    c, e = projection.weight.shape
    basis = torch.linalg.qr(torch.randn(max(c, e), max(c, e)))[0]
    projection.weight.copy_(basis[:, :e] if e <= c else basis[:, :c].t())
    if e > c:  # some directions are lost: positions use the others
        subspace = torch.linalg.qr(projection.weight.t() @ projection.weight @ subspace)[0]
    return subspace, projection.weight @ subspace


def sinusoids(count: int, frequencies: Tensor) -> Tensor:
    """Compute unit vectors for places 0..count-1: (T, D), sines then cosines."""
    angles = torch.arange(count).unsqueeze(1) * frequencies
    return torch.cat([angles.sin(), angles.cos()], 1) / math.sqrt(len(frequencies))


def rotation(frequencies: Tensor, offset: int) -> Tensor:
    """Compute the (D, D) that turns a place's sinusoids into those `offset` places further.

    Example:
        >>> frequencies = torch.tensor([1.0, 0.1])
        >>> places = sinusoids(5, frequencies)
        >>> torch.allclose(rotation(frequencies, 2) @ places[1], places[3])
        True
    """
    cosine, sine = (frequencies * offset).cos().diag(), (frequencies * offset).sin().diag()
    return torch.cat([torch.cat([cosine, sine], 1), torch.cat([-sine, cosine], 1)])
