"""Dropout (Srivastava et al. 2014); on a CPU with 16 random bits per value.

On a CPU torch draws 53 bits for each value sequentially, a fifth of a training step; 16 bits take a
sixth of that time. Probabilities are rounded to multiples of 1/65,536, and the kept values are
scaled by the rounded one, so means are preserved. (8 bits would round 0.1 to 0.1016 and 0.001 to
0.)
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.errors import InputError

_NUM_STEPS = 1 << 16


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """`F.dropout(x, p, training)`, with the same distribution and torch's generator.

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


class FairseqDropout(nn.Module):
    """Dropout as a module with a mode of its own, where fairseq has one of this name.

    `layer.dropout_module.p = 0.2` changes the probability. `.train()` turns it on in a model that
    is in eval mode otherwise: Monte Carlo dropout (Gal and Ghahramani 2016).

    Example:
        >>> drop = FairseqDropout(0.5).eval()
        >>> drop.active, drop.train().active
        (0.0, 0.5)
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    @property
    def active(self) -> float:
        """The probability that holds now: 0 in eval mode."""
        return self.p if self.training else 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Drop values: (*) -> (*)."""
        return dropout(x, self.active)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "apply_during_inference" and value:
            raise InputError(f"{name} is for fairseq's generators; .train() turns this dropout on")
        super().__setattr__(name, value)

    def extra_repr(self) -> str:
        """Return what `print` shows of it."""
        return f"p={self.p}"


def probability_of(name: str) -> property:
    """Make the attribute that reads and sets the probability of a module's `FairseqDropout`."""

    def read(owner: nn.Module) -> float:
        drop = getattr(owner, name)
        assert isinstance(drop, FairseqDropout)
        return drop.p

    def write(owner: nn.Module, p: float) -> None:
        getattr(owner, name).p = p

    return property(read, write)


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
