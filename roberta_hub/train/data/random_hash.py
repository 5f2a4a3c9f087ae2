"""Draws random numbers as hashes of their coordinates: run, epoch, sequence, token, purpose."""

from __future__ import annotations

import torch
from torch import Tensor


def uniform(seed: int, epoch: int, indices: Tensor, places: Tensor, purpose: int) -> Tensor:
    """Draw numbers in [0, 1), each a hash of its coordinates.

    The hash is SplitMix64's finalizer (Steele et al. 2014).

    Args:
        seed: of the run.
        epoch: counted from 0.
        indices: of sequences. Shape: (N,)
        places: in the sequence. Shape: (N,)
        purpose: what the number decides; each decision has a number of its own.

    Example:
        >>> index, place = torch.tensor([7]), torch.tensor([0])
        >>> uniform(1, 0, index, place, 0) == uniform(1, 0, index, place, 0)
        tensor([True])
    """
    state = torch.tensor(seed)
    for part in (torch.tensor(purpose), torch.tensor(epoch), indices.long(), places.long()):
        state = _hash(state * _ODD + part + _STEP)
    return ((state >> 11) & ((1 << 53) - 1)).double() / (1 << 53)


_STEP, _ODD = -7046029254386353131, 6364136223846793005  # 0x9E3779B97F4A7C15, signed; Knuth's MMIX


def _hash(x: Tensor) -> Tensor:
    """Mix 64 bits well; int64 products wrap around."""
    x = (x ^ _right(x, 30)) * -4658895280553007687  # 0xBF58476D1CE4E5B9
    x = (x ^ _right(x, 27)) * -7723592293110705685  # 0x94D049BB133111EB
    return x ^ _right(x, 31)


def _right(x: Tensor, bits: int) -> Tensor:
    """Shift to the right and fill with zeros."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
