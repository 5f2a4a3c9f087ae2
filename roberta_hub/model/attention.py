"""Self-attention on packed and on padded batches.

The packed form computes nothing on padding. The padded form is the reference in tests and the one
that graph export traces, since its shapes do not depend on the data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.model.dropout import FairseqDropout, drop_weights, probability_of
from roberta_hub.model.packing import PackedBatch

Attend = Callable[..., Tensor]
"""(query, key, value, *, num_heads, dropout) -> mixed values, all of one shape (*, C)."""
FEW_RUNS, SHORT_TOKENS = 4, 64
"""In training on a CPU, attention stays in bfloat16 for up to `FEW_RUNS` runs in a batch and for
sequences longer than `SHORT_TOKENS`; otherwise see `_attend_of`."""


def packed_attention(
    query: Tensor, key: Tensor, value: Tensor, *, batch: PackedBatch, num_heads: int, dropout: float
) -> Tensor:
    """Attention within each sequence of a packed batch.

    On a CPU, neighbours of equal length share a call. A GPU takes all sequences in one, by a kernel
    for ragged batches if it has one for the dtype.

    Shapes: query, key, value and the result (N, C).
    """
    if _has_ragged_kernel(query, num_heads, dropout):
        return _ragged(query, key, value, batch, num_heads=num_heads, dropout=dropout)
    if len(batch.runs) == 1:
        return _attend(query, key, value, batch.runs[0], num_heads=num_heads, dropout=dropout)
    if on_gpu(query) and batch.runs:
        return _padded_once(query, key, value, batch, num_heads=num_heads, dropout=dropout)
    sizes = [count * length for count, length in batch.runs]
    pieces = zip(batch.runs, *(torch.split(x, sizes) for x in (query, key, value)), strict=True)
    mixed = [
        _attend_of(batch, q, length)(q, k, v, (count, length), num_heads=num_heads, dropout=dropout)
        for (count, length), q, k, v in pieces
    ]
    # Only padding: keep it in the graph, so that every parameter gets a gradient.
    return torch.cat(mixed) if mixed else query + key + value


def one_row_attention(
    query: Tensor, key: Tensor, value: Tensor, *, batch: PackedBatch, num_heads: int, dropout: float
) -> Tensor:
    """`packed_attention` for one token of each sequence, for a head that reads only one.

    Shapes: query and the result (B, C); key and value (N, C).
    """
    if _has_ragged_kernel(query, num_heads, dropout):
        return _ragged(query, key, value, batch, num_heads=num_heads, dropout=dropout)
    if on_gpu(query):
        return _padded_once(query, key, value, batch, num_heads=num_heads, dropout=dropout)
    mixed, sequence, row = [], 0, 0
    for count, length in batch.runs:
        sequences, rows = slice(sequence, sequence + count), slice(row, row + count * length)
        mixed.append(
            _attend_of(batch, query, length)(
                query[sequences],
                key[rows],
                value[rows],
                (count, 1),
                num_heads=num_heads,
                dropout=dropout,
                keys=length,
            )
        )
        sequence, row = sequences.stop, rows.stop
    return torch.cat(mixed)


def some_rows_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    batch: PackedBatch,
    rows: Tensor,
    num_heads: int,
    dropout: float,
) -> Tensor:
    """`packed_attention` for some tokens, any number of each sequence.

    Other rows get zero queries, whose result is dropped; attention is cheap compared with the
    projections.

    Shapes: query and the result (M, C); distinct rows (M,); key and value (N, C).
    """
    every = query.new_zeros(key.shape).index_copy(0, rows, query)
    mixed = packed_attention(every, key, value, batch=batch, num_heads=num_heads, dropout=dropout)
    return mixed[rows]


class _Bounds(NamedTuple):
    """Where sequences begin and end, in rows of queries and of keys."""

    queries: Tensor
    """Shape: (B + 1,), int32"""
    keys: Tensor
    """Shape: (B + 1,), int32"""
    longest_queries: int
    longest_keys: int


def _ragged(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    batch: PackedBatch,
    *,
    num_heads: int,
    dropout: float,
) -> Tensor:
    """Run all sequences in one call of a GPU's kernel for ragged batches.

    Shapes: query and the result (N, C), or (B, C) for one token of each sequence; key and value (N,
    C).
    """
    keys, longest = batch.bounds, max(batch.lengths)
    if query.size(0) == key.size(0):
        bounds = _Bounds(keys, keys, longest, longest)
    else:
        one_each = torch.arange(len(keys), dtype=torch.int32, device=query.device)
        bounds = _Bounds(one_each, keys, 1, longest)
    q, k, v = (x.view(len(x), num_heads, -1) for x in (query, key, value))  # (N, H, D)
    mixed = _flash(q, k, v, bounds, dropout) if dropout else _efficient(q, k, v, bounds)
    return mixed.reshape(len(query), -1)


def _flash(q: Tensor, k: Tensor, v: Tensor, bounds: _Bounds, dropout: float) -> Tensor:
    """FlashAttention (Dao 2023), which takes float16 and bfloat16.

    Shapes: q, k, v and the result (N, H, D).
    """
    mixed: Tensor = torch.ops.aten._flash_attention_forward(
        q,
        k,
        v,
        *bounds,
        dropout,
        False,  # not causal
        False,  # no copy of the mask
    )[0]
    return mixed


def _efficient(q: Tensor, k: Tensor, v: Tensor, bounds: _Bounds) -> Tensor:
    """Memory-efficient attention (Rabe and Staats 2021), which takes float32 too, without dropout.

    With dropout torch's kernel draws other masks in the backward pass than in the forward pass, for
    which it takes the longest sequence of keys as 0 (pytorch/pytorch#115590).

    Shapes: those of `_flash`.
    """
    mixed: Tensor = torch.ops.aten._efficient_attention_forward(
        q.unsqueeze(0),
        k.unsqueeze(0),
        v.unsqueeze(0),
        None,  # no bias
        *bounds,
        0.0,  # no dropout
        0,  # no mask but the sequences' bounds
        compute_log_sumexp=torch.is_grad_enabled(),  # for the backward pass
    )[0].squeeze(0)
    return mixed


def _padded_once(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    batch: PackedBatch,
    *,
    num_heads: int,
    dropout: float,
) -> Tensor:
    """Run all sequences in one call on padded rows: on a GPU a call costs more than padding.

    Shapes: those of `_ragged`.
    """
    real = batch.unpack(torch.ones_like(batch.ids, dtype=torch.bool))  # (B, T)
    keys, values = batch.unpack(key), batch.unpack(value)  # (B, T, C)
    if query.size(0) == key.size(0):
        queries = batch.unpack(query)
        mixed = padded_attention(
            queries, keys, values, real=real, num_heads=num_heads, dropout=dropout
        ).flatten(0, 1)
        return mixed if batch.slots is None else mixed[batch.slots]
    return _attend(
        query,
        keys,
        values,
        (real.size(0), 1),
        mask=real[:, None, None],  # (B, 1, 1, T)
        num_heads=num_heads,
        dropout=dropout,
        keys=real.size(1),
    )


def on_gpu(x: Tensor) -> bool:
    """Whether a tensor is on a GPU, where a call costs more than padding."""
    return x.is_cuda


def _has_ragged_kernel(query: Tensor, num_heads: int, dropout: float) -> bool:
    """Whether a kernel for ragged batches takes this dtype and size of heads, with this dropout."""
    size = query.size(-1) // num_heads
    half = query.dtype in (torch.float16, torch.bfloat16)
    if not query.is_cuda or len(query) == 0 or not _has_kernels(query.device):
        return False
    if dropout:  # FlashAttention; above 192 some GPUs have no backward pass
        return half and dropout < 1 and size % 8 == 0 and size <= 192
    # Memory-efficient attention, which reads 16 bytes at once.
    fits = size * query.element_size() % 16 == 0 and size <= 256
    return fits and (half or query.dtype == torch.float32)


@lru_cache(maxsize=8)
def _has_kernels(device: torch.device) -> bool:
    """Whether this torch and GPU (NVIDIA, Ampere or later) have the kernels."""
    names = ("_flash_attention_forward", "_efficient_attention_forward")
    there = all(hasattr(torch.ops.aten, name) for name in names) and torch.version.hip is None
    return there and torch.cuda.get_device_capability(device) >= (8, 0)


def padded_attention(
    query: Tensor, key: Tensor, value: Tensor, *, real: Tensor, num_heads: int, dropout: float
) -> Tensor:
    """Attention over a padded batch, with padding masked as keys.

    A row of padding only attends to its padding: finite numbers that the caller zeroes.

    Shapes: query, key, value and the result (B, T, C); real, true at real tokens, (B, T).
    """
    keys = real | ~real.any(1, keepdim=True)  # (B, T)
    shape = (query.size(0), query.size(1))
    # (B, 1, T, T), a view: ONNX Runtime's kernel of opset 23 does not broadcast (B, 1, 1, T).
    mask = keys[:, None, None].expand(-1, 1, query.size(1), -1)
    return _attend(query, key, value, shape, mask=mask, num_heads=num_heads, dropout=dropout)


def time_first_attention(
    query: Tensor, key: Tensor, value: Tensor, *, real: Tensor, num_heads: int, dropout: float
) -> Tensor:
    """`padded_attention` in fairseq's layout, where a row of padding attends to nothing.

    Shapes: query, key, value and the result (T, B, C); real, true at real tokens, (B, T).
    """
    query, key, value = (x.transpose(0, 1).contiguous() for x in (query, key, value))
    mixed = padded_attention(query, key, value, real=real, num_heads=num_heads, dropout=dropout)
    return (mixed * real.any(1)[:, None, None]).transpose(0, 1)


def plain_attention(
    query: Tensor, key: Tensor, value: Tensor, *, num_heads: int, dropout: float, kept: list[Tensor]
) -> Tensor:
    """Attention of one sequence that also returns its weights in `kept`.

    Shapes: query, key, value and the result (T, C). `kept` gets (H, T, T), whose row t has
    the weights of token t over all tokens; rows sum to 1 (Vaswani et al. 2017, equation 1).
    """
    q, k, v = (x.view(len(x), num_heads, -1).transpose(0, 1) for x in (query, key, value))
    weights = (q @ k.transpose(1, 2) * q.size(-1) ** -0.5).softmax(-1)  # (H, T, T)
    kept.append(weights)
    return drop_weights(weights, v, dropout).transpose(0, 1).reshape(query.shape)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    shape: tuple[int, int],
    *,
    num_heads: int,
    dropout: float,
    mask: Tensor | None = None,
    keys: int | None = None,
) -> Tensor:
    """Attention of padded sequences, each of T queries and T keys, or `keys` keys.

    Shapes: query (B * T, C) or (B, T, C); key and value alike, with `keys` rows per sequence if
    given.
    """
    b, t = shape
    size = query.size(-1) // num_heads
    q = query.reshape(b, t, num_heads, size).transpose(1, 2)  # (B, H, T, D)
    k, v = (
        x.reshape(b, t if keys is None else keys, num_heads, size).transpose(1, 2)
        for x in (key, value)
    )
    if mask is None and _plain_is_faster(q, dropout):
        weights = (q * q.size(-1) ** -0.5 @ k.transpose(-1, -2)).softmax(-1)  # (B, H, T, T)
        mixed = drop_weights(weights, v, dropout)
    else:
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    return mixed.transpose(1, 2).reshape(query.shape)


def _attend_of(batch: PackedBatch, query: Tensor, length: int) -> Callable[..., Tensor]:
    """Attention function for a run of sequences of this length.

    In bfloat16 oneDNN compiles code for half a millisecond per new shape. For short sequences of
    many lengths that takes longer than the products in float32.
    """
    compiled = query.dtype == torch.bfloat16 and query.device.type == "cpu" and query.requires_grad
    many = len(batch.runs) > FEW_RUNS and length <= SHORT_TOKENS
    return _attend_in_float32 if compiled and many else _attend


def _attend_in_float32(
    query: Tensor, key: Tensor, value: Tensor, shape: tuple[int, int], **rest: Any
) -> Tensor:
    with torch.autocast(query.device.type, enabled=False):
        mixed = _attend(query.float(), key.float(), value.float(), shape, **rest)
    return mixed.to(query.dtype)


def _plain_is_faster(q: Tensor, dropout: float) -> bool:
    """Whether plain products are faster than torch's function.

    On a CPU torch 2.13 has no fused kernel with dropout. In bfloat16 the backward pass of its fused
    kernel takes three times as long.
    """
    if dropout and q.device.type == "cpu":
        return True
    training = q.requires_grad and q.size(2) <= 512  # longer ones would need much memory for scores
    return training and q.dtype == torch.bfloat16 and q.device.type == "cpu"


class MultiheadSelfAttention(nn.Module):
    """Multi-head self-attention (Vaswani et al. 2017, 3.2.2) with fairseq's parameter names."""

    dropout = probability_of("dropout_module")

    def __init__(self, embed_dim: int, num_heads: int, *, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout_module = FairseqDropout(dropout)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: Tensor, attend: Attend, rows: Tensor | None = None) -> Tensor:
        """Attend over the rows of x: (*, C) -> (*, C); with `rows`, for those only: (B, C)."""
        mixed = attend(
            self.q_proj(x if rows is None else x[rows]),
            self.k_proj(x),
            self.v_proj(x),
            num_heads=self.num_heads,
            # As in fairseq by its own mode: `.train()` of `dropout_module` alone changes nothing.
            dropout=self.dropout_module.p if self.training else 0.0,
        )
        out: Tensor = self.out_proj(mixed)
        return out
