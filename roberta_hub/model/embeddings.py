"""Embeddings, the input of the first layer: the sum of token, position and segment embeddings.

The sum has one of three forms:

- plain: all tables have width C (RoBERTa, XLM-R, BERT; Devlin et al. 2019, section 3);
- factorized tokens: the token table has width E, and its rows are projected to C before positions
  are added (Lan et al. 2020, section 3.1);
- projected sum: all tables and the LayerNorm have width E, and the normalized sum is projected to C
  (ALBERT, Lan et al. 2020, section 3.1; ELECTRA, Clark et al. 2020).

Positions start at row `padding_idx + 1` in every family. The table of a family that counts from 0
gets that many zero rows on load.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from roberta_hub.config import RobertaConfig
from roberta_hub.model.compiled import add_rows
from roberta_hub.model.dropout import dropout as drop
from roberta_hub.model.prepared import has_hooks, is_plain


class EmbeddingModules(NamedTuple):
    """The modules of the embedding step, under fairseq's names and in the order of its files."""

    embed_tokens: nn.Embedding
    """(V, C); (V, E) where tokens or the sum are factorized."""
    embed_projection: nn.Linear | None
    """E -> C: of the tokens, without a bias, or of the whole sum, with one."""
    embed_positions: nn.Embedding
    """(padding_idx + 1 + max_positions, C); width E where the sum is projected."""
    segment_embeddings: nn.Embedding | None
    """(num_segments, C); width E where the sum is projected."""
    layernorm_embedding: nn.LayerNorm | None
    """On the sum."""
    quant_noise: nn.Linear | None
    """C -> C, only in models that were trained with quantization noise."""


def embedding_modules(config: RobertaConfig) -> EmbeddingModules:
    """Build the embedding modules of a config, as torch initializes them."""
    c, e, width = config.embed_dim, config.embedding_dim or config.embed_dim, config.sum_dim
    rows = config.padding_idx + 1 + config.max_positions
    return EmbeddingModules(
        embed_tokens=nn.Embedding(config.vocab_size, e, config.padding_idx),
        embed_projection=(
            nn.Linear(e, c, bias=config.project_sum) if config.embedding_dim else None
        ),
        embed_positions=nn.Embedding(rows, width, config.padding_idx),
        segment_embeddings=(
            nn.Embedding(config.num_segments, width) if config.num_segments else None
        ),
        layernorm_embedding=(
            nn.LayerNorm(width, eps=config.layer_norm_eps) if config.layernorm_embedding else None
        ),
        quant_noise=nn.Linear(c, c, bias=False) if config.quant_noise_pq else None,
    )


def embed_tokens(modules: EmbeddingModules, ids: Tensor, *, project_sum: bool) -> Tensor:
    """Embeddings of the tokens alone, as they enter the sum.

    Shape: (*,) -> (*, C), or (*, E) where the sum is projected.
    """
    x: Tensor = modules.embed_tokens(ids)
    return x if modules.embed_projection is None or project_sum else modules.embed_projection(x)


def embed(
    modules: EmbeddingModules,
    tokens: Tensor,
    positions: Tensor,
    segments: Tensor | None,
    *,
    project_sum: bool,
    dropout: float,
) -> Tensor:
    """Sum of token, position and segment embeddings, normalized, with dropout: (*, C).

    Args:
        modules: of the embedding step.
        tokens: output of `embed_tokens`. Shape: (*, C), or (*, E) where the sum is projected
        positions: rows of the position table. Shape: (*,)
        segments: rows of the segment table, where there is one; None: all 0. Shape: (*,)
        project_sum: whether the projection is applied to the sum.
        dropout: probability, applied after the LayerNorm; 0: none.
    """
    x: Tensor = tokens + modules.embed_positions(positions)
    if modules.segment_embeddings is not None:
        x = x + modules.segment_embeddings(
            torch.zeros_like(positions) if segments is None else segments
        )
    if modules.layernorm_embedding is not None:
        x = modules.layernorm_embedding(x)
    x = drop(x, dropout)
    if project_sum and modules.embed_projection is not None:
        x = modules.embed_projection(x)  # (*, E) -> (*, C)
    if modules.quant_noise is not None:
        x = modules.quant_noise(x)
    return x


_FORWARDS: dict[type[nn.Module], object] = {
    kind: kind.forward for kind in (nn.Embedding, nn.LayerNorm)
}
"""The classes and forwards that `embed_compiled` replaces."""


def embed_compiled(
    modules: EmbeddingModules, tokens: Tensor, positions: Tensor, segments: Tensor | None
) -> Tensor | None:
    """Compute `embed` of packed rows in eval mode by compiled code: (N, C).

    Args:
        modules: of the embedding step.
        tokens: ids, (N,), or their embeddings, (N, C).
        positions: rows of the position table. Shape: (N,)
        segments: rows of the segment table, where there is one; None: all 0. Shape: (N,)
    """
    there = [module for module in modules if module is not None]
    if modules.embed_projection is not None or modules.quant_noise is not None or has_hooks(there):
        return None
    if not all(is_plain(module, _FORWARDS) for module in there):
        return None
    looked = [modules.embed_tokens, modules.embed_positions, modules.segment_embeddings]
    if any(table is not None and table.max_norm is not None for table in looked):
        return None  # max_norm renormalizes rows on lookup
    given = tokens.is_floating_point()
    rows = [(tokens, None) if given else (modules.embed_tokens.weight, tokens)]
    rows.append((modules.embed_positions.weight, positions))
    if modules.segment_embeddings is not None:
        none = torch.zeros_like(positions) if segments is None else segments
        rows.append((modules.segment_embeddings.weight, none))
    return add_rows(rows, modules.layernorm_embedding)


def packed_segments(ids: Tensor, positions: Tensor, *, padding_idx: int, separator: int) -> Tensor:
    """Segments of packed tokens: 0 up to a sequence's first separator, 1 after it.

    This equals the `token_type_ids` of BERT's tokenizer for a sentence and for a pair.

    Args:
        ids: tokens of all sequences, one sequence after another. Shape: (N,)
        positions: rows of the position table, which count from `padding_idx + 1` in each
            sequence. Shape: (N,)
        padding_idx: the id of padding.
        separator: the id that ends a segment.

    Returns:
        Shape: (N,)

    Example:
        >>> ids = torch.tensor([101, 7592, 102, 2088, 102, 101, 102])
        >>> packed_segments(ids, torch.tensor([1, 2, 3, 4, 5, 1, 2]), padding_idx=0, separator=102)
        tensor([0, 0, 0, 1, 1, 0, 0])
    """
    ends = ids.eq(separator).long()
    before = ends.cumsum(0) - ends  # separators before each token, from the batch's first one
    rows = torch.arange(len(ids), device=ids.device)
    firsts = rows - (positions - padding_idx - 1)  # row of the first token of the same sequence
    return (before - before[firsts]).clamp(max=1)


def padded_segments(ids: Tensor, real: Tensor, *, separator: int) -> Tensor:
    """`packed_segments` of a padded batch; padding has segment 0.

    Args:
        ids: tokens, padding anywhere. Shape: (B, T)
        real: true at tokens that are not padding. Shape: (B, T)
        separator: the id that ends a segment.

    Returns:
        Shape: (B, T)
    """
    ends = ids.eq(separator).long()
    return (ends.cumsum(1) - ends).clamp(max=1) * real
