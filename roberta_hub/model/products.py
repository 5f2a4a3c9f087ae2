"""Multiplies rows by weights in the layouts of torch's own operators, in floating point.

Each class computes `activation(x @ weight.T + bias)`, or adds a residual to the product, on rows
(M, K) -> (M, N). `F.linear` is the plain twin of all of them. They hold copies of the weights.
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
        """Return the product, (M, K) -> (M, N); plus `residual`, (M, N), where there is one."""
        ...


FEW = 16
"""Rows up to which a product waits for its weights: half as many bytes save a third of the time of
a text of 8 tokens, an eighth of 16 (Zen 4)."""
_PACKED_FOR = 512
"""Rows that a packing is made for; oneDNN's and MKL's serve any other number as well."""


class Plain:
    """`F.linear`: the twin of all others, and what runs where a build lacks their operators."""

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None) -> None:
        self.weight, self.bias, self.activation = weight, bias, activation

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        y = F.linear(x.to(self.weight.dtype), self.weight, self.bias)
        y = y if self.activation is None else self.activation(y)
        return y if residual is None else residual + y


class OneDNN:
    """Weights in oneDNN's own layout, float32 or bfloat16.

    The exact GELU or the residual costs no pass of its own.
    """

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, _PACKED_FOR)
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
        return finished(y, self.activation, residual)


class MKL:
    """Weights in MKL's own layout, the fastest float32 on Intel's CPUs."""

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None) -> None:
        self.weight = torch.ops.mkl._mkl_reorder_linear_weight(weight, _PACKED_FOR)
        # Of the plain weight the operator reads the sizes only, so no second copy is kept.
        self.shape = weight.new_empty(()).expand_as(weight)
        self.bias, self.activation = bias, in_place(activation)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        # Packed for any number of rows; were it told another than x has, it would multiply `shape`.
        y: Tensor = torch.ops.mkl._mkl_linear(
            x.float(), self.weight, self.shape, self.bias, x.size(0)
        )
        return finished(y, self.activation, residual)


class HalfStored:
    """Weights stored in float16 and computed in float32: the same numbers from half the bytes.

    Few rows wait for their weights, and gain by it; many do not.
    """

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None) -> None:
        self.weight = torch.ops.quantized.linear_prepack_fp16(weight, bias)
        self.activation = in_place(activation)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        y: Tensor = torch.ops.quantized.linear_dynamic_fp16(x.float(), self.weight)
        return finished(y, self.activation, residual)


class ByRows:
    """One form for up to `FEW` rows, another for more."""

    def __init__(self, few: Matrix, many: Matrix) -> None:
        self.few, self.many = few, many

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        return (self.few if x.size(0) <= FEW else self.many)(x, residual)


def finished(y: Tensor, activation: Activation | None, residual: Tensor | None) -> Tensor:
    """Add the activation and the residual that an operator did not fuse to its result."""
    if activation is not None:
        y = activation(y)
    if residual is None:
        return y
    return y.add_(residual) if y.dtype == residual.dtype else residual + y


def in_place(activation: Activation | None) -> Activation | None:
    """Return the activation that may overwrite its argument: a second buffer costs cache."""
    return torch.ops.aten.gelu_ if activation is F.gelu else activation
