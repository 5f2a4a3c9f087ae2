"""Computes cross-entropy over a large vocabulary, without keeping float32 logits.

Of M rows and V words, logits, their float32 copy, log-probabilities and two gradients are five (M,
V) tensors, and moving them takes as long as the products. Here one pass makes logits, loss and
gradient of a few rows at a time, and only the gradient is kept, in the precision of the products.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

LOGITS_PER_CHUNK = 1 << 22
"""Logits at once: 16 MB, about what a last-level cache holds."""


def linear_cross_entropy(rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """`F.cross_entropy(F.linear(rows, weight, bias), targets, reduction="sum")`, its plain twin.

    Under autocast the products are in its precision; the sums are in float32 (or float64, where
    rows are).

    Args:
        rows: (M, E)
        weight: (V, E)
        bias: (V,)
        targets: ids. Shape: (M,)

    Returns:
        The summed loss. Shape: ()

    Example:
        >>> rows, weight = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 2.0]])
        >>> linear_cross_entropy(rows, weight, torch.zeros(2), torch.tensor([0]))
        tensor(0.1269)
    """
    kind = rows.device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        rows, weight, bias = rows.to(dtype), weight.to(dtype), bias.to(dtype)
    loss: Tensor = _LinearCrossEntropy.apply(rows, weight, bias, targets)  # type: ignore[no-untyped-call]
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        wide = torch.float64 if rows.dtype == torch.float64 else torch.float32
        total = torch.zeros((), dtype=wide, device=rows.device)
        gradient = rows.new_empty(len(rows), len(weight))  # of the logits, (M, V)
        step = max(1, LOGITS_PER_CHUNK // len(weight))
        bias_gradient = torch.zeros(len(weight), dtype=wide, device=rows.device)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            wanted = targets[part].unsqueeze(1)
            shares = F.linear(rows[part], weight, bias).log_softmax(1, dtype=wide)
            total -= shares.gather(1, wanted).sum()
            shares.exp_()
            shares.scatter_add_(1, wanted, shares.new_full(wanted.shape, -1.0))
            bias_gradient += shares.sum(0)
            gradient[part] = shares
        ctx.save_for_backward(rows, weight, gradient, bias_gradient.to(bias.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        rows, weight, gradient, bias_gradient = ctx.saved_tensors
        scale = grad.to(rows.dtype)
        return (
            gradient @ weight * scale,
            gradient.t() @ (rows * scale),
            bias_gradient * scale,
            None,
        )
