"""Multiplies 8-bit weights by 8-bit rows, with oneDNN's operators."""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.model.products import Activation, finished, in_place


class Int8:
    """8-bit weights with a scale for each output, times 8-bit activations.

    Activations have a scale and an offset for each token. Every row of x is quantized by its own
    extremes, x ~ low + step * q with q in 0..255, so that a text's numbers do not depend on its
    neighbours. With W ~ scale * Q, q unsigned and Q signed as VNNI wants them:

        x @ W.T + b  ~  step * (scale * (q @ Q.T)) + low * (scale * Q.sum(1)) + b
    """

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None) -> None:
        self.scale, whole, self.sums = rounded(weight)
        # The rows that `embedding_bag_byte_prepack` writes end in step and low, 8 bytes, which meet
        # zeros.
        self.weight = torch.ops.onednn.qlinear_prepack(F.pad(whole, (0, 8)), None)
        self.zeros = torch.zeros(len(weight), dtype=torch.long)
        self.bias, self.activation = bias, in_place(activation)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        # Made for embedding tables, this operator quantizes rows in one vectorized pass. They end
        # in two float32, which can be read in place where K is a multiple of 4.
        rows = torch.ops.quantized.embedding_bag_byte_prepack(x.float())  # (M, K + 8) uint8
        widths = [x.size(1) // 4, 1, 1]
        _, step, low = rows.view(torch.float32).split_with_sizes(widths, 1)  # (M, 1) each
        y: Tensor = torch.ops.onednn.qlinear_pointwise(
            rows,
            1.0,
            0,
            self.weight,
            self.scale,
            self.zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "none",
        )
        torch.addcmul(self.bias, y, step, out=y).addcmul_(low, self.sums)
        return finished(y, self.activation, residual)


def rounded(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Round a matrix, ~ scale * Q: scale (N,), Q (N, K) and the sums of scale * Q, (N,)."""
    scale = weight.abs().amax(1).clamp(min=1e-12) / 127
    whole = (weight / scale.unsqueeze(1)).round().to(torch.int8)
    # Of the rounded weights: the error then is x times the rounding, and x is around 0.
    return scale, whole, whole.sum(1, dtype=torch.float32) * scale


@lru_cache(maxsize=1)
def is_exact() -> bool:
    """Tell whether this CPU adds large products up; without VNNI pairs saturate 16 bits."""
    weight = torch.full((16, 64), 127, dtype=torch.int8)
    one, zero = torch.ones(16), torch.zeros(16, dtype=torch.long)
    rows = torch.full((16, 64), 255, dtype=torch.uint8)
    packed = torch.ops.onednn.qlinear_prepack(weight, None)
    y = torch.ops.onednn.qlinear_pointwise(
        rows, 1.0, 0, packed, one, zero, None, 1.0, 0, torch.float32, "none", [], "none"
    )
    return bool((y == 255.0 * 127 * 64).all())
