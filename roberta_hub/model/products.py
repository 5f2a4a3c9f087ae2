"""Floating-point matrix products on torch's prepacked operators.

Each class computes `activation(x @ weight.T + bias)`, optionally plus a residual, on rows (M, K) ->
(M, N). All are equivalent to `F.linear` and hold copies of the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

Activation = Callable[[Tensor], Tensor]


class Matrix(Protocol):
    """A prepared product."""

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Product, (M, K) -> (M, N), plus `residual`, (M, N), if given."""
        ...


FEW_ROWS_PER_PRODUCT = 16
"""Up to this many rows a product is memory-bound: weights in float16 save a third of the time of
a text of 8 tokens, an eighth of one of 16 (Zen 4)."""
_PACKED_ROWS = 512
"""Rows that weights are packed for; oneDNN's and MKL's packings work for any other number too."""


class Plain:
    """`F.linear`: the reference for all others, and the fallback without their operators."""

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None) -> None:
        self.weight, self.bias, self.activation = weight, bias, activation

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        y = F.linear(x.to(self.weight.dtype), self.weight, self.bias)
        y = y if self.activation is None else self.activation(y)
        return y if residual is None else residual + y


class OneDNN:
    """Weights in oneDNN's layout, float32 or bfloat16; the exact GELU or the residual is fused."""

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, _PACKED_ROWS)
        self.bias, self.dtype = bias, weight.dtype
        self.plain = activation is None
        self.fused = "gelu" if activation is F.gelu else "none"
        self.activation = None if activation is F.gelu else activation

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        x = x.to(self.dtype)
        product = torch.ops.mkldnn._linear_pointwise
        if residual is not None and residual.dtype == self.dtype and self.plain:
            return product.binary(x, residual, self.weight, self.bias, "add")  # type: ignore[no-any-return]
        y: Tensor = product(x, self.weight, self.bias, self.fused, [], "none")
        return apply_epilogue(y, self.activation, residual)


class MKL:
    """Weights in MKL's layout, the fastest float32 on Intel CPUs."""

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None) -> None:
        self.weight = torch.ops.mkl._mkl_reorder_linear_weight(weight, _PACKED_ROWS)
        # The operator reads only the sizes of the plain weight, so no second copy is kept.
        self.shape = weight.new_empty(()).expand_as(weight)
        self.bias, self.activation = bias, inplace_activation(activation)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        # With a row count other than x's the operator would multiply by `shape`.
        y: Tensor = torch.ops.mkl._mkl_linear(
            x.float(), self.weight, self.shape, self.bias, x.size(0)
        )
        return apply_epilogue(y, self.activation, residual)


class HalfStored:
    """Weights stored in float16, products in float32: the same numbers from half the bytes.

    Faster for few rows, whose products are memory-bound.
    """

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None) -> None:
        self.weight = torch.ops.quantized.linear_prepack_fp16(weight, bias)
        self.activation = inplace_activation(activation)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        y: Tensor = torch.ops.quantized.linear_dynamic_fp16(x.float(), self.weight)
        return apply_epilogue(y, self.activation, residual)


class ByRows:
    """One form for few rows, another for more."""

    def __init__(self, few: Matrix, many: Matrix, rows: int = FEW_ROWS_PER_PRODUCT) -> None:
        self.few, self.many, self.rows = few, many, rows

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        return (self.few if x.size(0) <= self.rows else self.many)(x, residual)


class Activated:
    """A product with an activation that it does not fuse."""

    def __init__(self, product: Matrix, activation: Activation) -> None:
        self.product, self.activation = product, inplace_activation(activation)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        return apply_epilogue(self.product(x), self.activation, residual)


def apply_epilogue(y: Tensor, activation: Activation | None, residual: Tensor | None) -> Tensor:
    """Apply the activation and add the residual where the operator fused neither."""
    if activation is not None:
        y = activation(y)
    if residual is None:
        return y
    return y.add_(residual) if y.dtype == residual.dtype else residual + y


def inplace_activation(activation: Activation | None) -> Activation | None:
    """In-place variant of the activation if there is one: a second buffer costs cache."""
    return torch.ops.aten.gelu_ if activation is F.gelu else activation
