"""Draws dropout (Srivastava et al. 2014); on a CPU from 16 random bits a value.

torch draws a number of 53 bits for each value on a CPU, one after another, which takes a fifth of a
training step. 16 bits take a sixth of that time. A probability is then a multiple of 1/65,536, and
the values that stay are scaled by exactly what it is, so a mean stays what it was. (8 bits would
make 0.1016 of 0.1, and nothing at all of 0.001.)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_STEPS = 1 << 16


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """`F.dropout(x, p, training)`, of the same distribution and torch's generator.

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
    return torch.where(kept(x, p), x, 0.0) * scale(p)


def add_dropped(x: Tensor, change: Tensor, p: float, training: bool = True) -> Tensor:
    """`x + F.dropout(change, p, training)` in one pass less: a residual connection.

    Shapes: x, change and the result (*).
    """
    if not training or not p or not _is_ours(change, p):
        return x + F.dropout(change, p, training)
    return torch.add(x, torch.where(kept(change, p), change, 0.0), alpha=scale(p))


def drop_weights(weights: Tensor, values: Tensor, p: float) -> Tensor:
    """`F.dropout(weights, p) @ values`, scaled where there are fewer numbers.

    Shapes: weights (*, T, S), values (*, S, D), the result (*, T, D).
    """
    if not p or not _is_ours(weights, p):
        return F.dropout(weights, p) @ values
    return torch.where(kept(weights, p), weights, 0.0) @ (values * scale(p))


def kept(x: Tensor, p: float) -> Tensor:
    """Draw which values stay: bool, in the shape of x."""
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[: x.numel()]  # uniform in -32,768 .. 32,767
    return (bits >= _dropped(p) - _STEPS // 2).view(x.shape)


def scale(p: float) -> float:
    """Tell what the values that stay are multiplied with."""
    return _STEPS / (_STEPS - _dropped(p))


def _dropped(p: float) -> int:
    """Tell how many of the 65,536 numbers mean a zero."""
    return round(p * _STEPS)


def _is_ours(x: Tensor, p: float) -> bool:
    """Tell whether to draw here: not on a GPU, nor of a p that 16 bits cannot hold."""
    return x.device.type == "cpu" and 0 < _dropped(p) < _STEPS
