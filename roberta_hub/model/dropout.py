"""Dropout (Srivastava et al. 2014); on a CPU with 16 random bits per value.

On a CPU torch draws 53 bits for each value sequentially, a fifth of a training step; 16 bits take a
sixth of that time. Probabilities are rounded to multiples of 1/65,536, and the kept values are
scaled by the rounded one, so means are preserved. (8 bits would round 0.1 to 0.1016 and 0.001 to
0.)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_NUM_STEPS = 1 << 16


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """`F.dropout(x, p, training)`, with the same distribution and torch's generator.

    Args:
        x: (*)
        p: probability of a zero.
        training: False: x as it is.

    Example:
        >>> sorted(set(dropout(torch.ones(1000), 0.5).tolist()))
        [0.0, 2.0]
    """
    if not training or not p or not _is_ours(x, p):
        return F.dropout(x, p, training)
    return torch.where(keep_mask(x, p), x, 0.0) * keep_scale(p)


def add_dropped(x: Tensor, change: Tensor, p: float, training: bool = True) -> Tensor:
    """`x + F.dropout(change, p, training)` a residual connection with one pass less.

    Shapes: x, change and the result (*).
    """
    if not training or not p or not _is_ours(change, p):
        return x + F.dropout(change, p, training)
    return torch.add(x, torch.where(keep_mask(change, p), change, 0.0), alpha=keep_scale(p))


def drop_weights(weights: Tensor, values: Tensor, p: float) -> Tensor:
    """`F.dropout(weights, p) @ values`, with the scale applied to the smaller factor.

    Shapes: weights (*, T, S), values (*, S, D), the result (*, T, D).
    """
    if not p or not _is_ours(weights, p):
        return F.dropout(weights, p) @ values
    return torch.where(keep_mask(weights, p), weights, 0.0) @ (values * keep_scale(p))


def keep_mask(x: Tensor, p: float) -> Tensor:
    """Random mask of the values to keep: bool, in the shape of x."""
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[: x.numel()]  # uniform in -32,768 .. 32,767
    return (bits >= _num_dropped(p) - _NUM_STEPS // 2).view(x.shape)


def keep_scale(p: float) -> float:
    """Factor of the kept values."""
    return _NUM_STEPS / (_NUM_STEPS - _num_dropped(p))


def _num_dropped(p: float) -> int:
    """Number of the 65,536 values that mean a zero."""
    return round(p * _NUM_STEPS)


def _is_ours(x: Tensor, p: float) -> bool:
    """Whether to draw here: on a CPU, for a p that 16 bits can express."""
    return x.device.type == "cpu" and 0 < _num_dropped(p) < _NUM_STEPS
