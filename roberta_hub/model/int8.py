"""8-bit matrix products with oneDNN's operators."""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.model.products import Activation, apply_epilogue, inplace_activation


class Int8:
    """8-bit weights with a scale for each output, times 8-bit activations.

    Activations have a scale and an offset for each token. Every row of x is quantized by its own
    extremes, x ~ low + step * q with q in 0..255, so that a text's numbers do not depend on its
    neighbours. With W ~ scale * Q, q unsigned and Q signed as VNNI wants them:

        x @ W.T + b  ~  step * (scale * (q @ Q.T)) + low * (scale * Q.sum(1)) + b
    """

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None) -> None:
        self.scale, whole, self.sums = quantize(weight)
        # Rows written by `embedding_bag_byte_prepack` end in step and low, 8 bytes, which are
        # multiplied by zeros.
        self.weight = torch.ops.onednn.qlinear_prepack(F.pad(whole, (0, 8)), None)
        self.zeros = torch.zeros(len(weight), dtype=torch.long)
        self.bias, self.activation = bias, inplace_activation(activation)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        # An operator for embedding tables that quantizes rows in one vectorized pass. They end in
        # two float32, which can be read in place if K is a multiple of 4.
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
        return apply_epilogue(y, self.activation, residual)


def quantize(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Quantize a matrix, ~ scale * Q: scale (N,), Q (N, K) and the sums of scale * Q, (N,)."""
    scale = weight.abs().amax(1).clamp(min=1e-12) / 127
    whole = (weight / scale.unsqueeze(1)).round().to(torch.int8)
    # Sums of the rounded weights: the error is then x times the rounding, and x is around 0.
    return scale, whole, whole.sum(1, dtype=torch.float32) * scale


@lru_cache(maxsize=1)
def is_exact() -> bool:
    """Whether this CPU sums large products exactly; without VNNI pairs saturate 16 bits."""
    weight = torch.full((16, 64), 127, dtype=torch.int8)
    one, zero = torch.ones(16), torch.zeros(16, dtype=torch.long)
    rows = torch.full((16, 64), 255, dtype=torch.uint8)
    packed = torch.ops.onednn.qlinear_prepack(weight, None)
    y = torch.ops.onednn.qlinear_pointwise(
        rows, 1.0, 0, packed, one, zero, None, 1.0, 0, torch.float32, "none", [], "none"
    )
    return bool((y == 255.0 * 127 * 64).all())
