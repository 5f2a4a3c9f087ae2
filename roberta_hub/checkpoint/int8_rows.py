"""Stores a matrix as int8 rows with one scale a row, and reads it back: value = int8 * scale.

In a file, matrix `NAME` is int8 (V, C) and `NAME_scale` is float32 or float16, (V,) or (V, 1). A
table of token embeddings then takes a quarter of its memory, and a row is off by at most half a
step, max|row| / 254.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from roberta_hub.checkpoint.tensors import TensorOrigin, give_back_pages, is_finite
from roberta_hub.errors import CheckpointError

SCALE = "_scale"
"""What the name of a matrix gets for the name of its scales."""
LARGEST = 127
"""The largest step; -128 is left out, so that rows are symmetric."""


def store_in_int8(weights: Mapping[str, Tensor], names: Iterable[str]) -> dict[str, Tensor]:
    """Return weights with some matrices as int8 rows and their scales, the largest value at 127.

    Example:
        >>> stored = store_in_int8({"table": torch.tensor([[1.0, -2.0], [0.0, 0.0]])}, ["table"])
        >>> stored["table"].tolist()
        [[64, -127], [0, 0]]
        >>> read_int8_rows(stored, None, "a file")["table"].tolist()
        [[1.0078740119934082, -2.0], [0.0, 0.0]]
    """
    stored = dict(weights)
    for name in names:
        matrix = stored[name].detach().float()  # (V, C)
        scale = matrix.abs().amax(1, keepdim=True) / LARGEST  # (V, 1)
        steps = matrix / scale.masked_fill(scale == 0, 1)  # a row of zeros stays one
        stored[name] = steps.round_().clamp_(-LARGEST, LARGEST).to(torch.int8)
        stored[name + SCALE] = scale
    return stored


def read_int8_rows(
    weights: dict[str, Tensor],
    dtype: torch.dtype | None,
    source: str,
    origin: TensorOrigin = "memory",
) -> dict[str, Tensor]:
    """Take the int8 matrices and their scales out of `weights`, and return their values."""
    found: dict[str, Tensor] = {}
    for name in [name for name, tensor in weights.items() if tensor.dtype == torch.int8]:
        rows, scale = weights.pop(name), weights.pop(name + SCALE, None)
        _check(rows, scale, name, source)
        assert scale is not None
        values = rows.float().mul_(scale.float().reshape(-1, 1))  # (V, C)
        found[name] = values.to(dtype or torch.float32)
        if origin != "memory":
            give_back_pages(rows)
    return found


def _check(rows: Tensor, scale: Tensor | None, name: str, source: str) -> None:
    """Refuse int8 rows without a scale for each, and scales that give no numbers."""
    what = f"{source}: {name[:100]} is stored in int8"
    if scale is None:
        raise CheckpointError(
            f"{what} and there is no {name[:100]}{SCALE}, by which its rows are multiplied; "
            "restore the file"
        )
    if rows.dim() != 2 or tuple(scale.shape) not in ((len(rows),), (len(rows), 1)):
        raise CheckpointError(
            f"{what} with shape {tuple(rows.shape)} and its scale has shape {tuple(scale.shape)}; "
            "they must be (V, C) and (V,) or (V, 1): restore the file"
        )
    if scale.dtype not in (torch.float16, torch.float32):
        raise CheckpointError(
            f"{what} and its scale is {scale.dtype}, must be float16 or float32; restore the file"
        )
    if not is_finite(scale.float() * (LARGEST + 1)):
        raise CheckpointError(
            f"{what} and its scale holds NaN, infinity or numbers too large for float32: the file "
            "is damaged or the training diverged; restore the file"
        )
