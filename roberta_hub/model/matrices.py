"""Matrices prepared for inference: prepacked float32, int8 and bfloat16, on torch's own operators.

A `Matrix` is what `nn.Linear` computes, with the activation after it or the residual added to it,
on rows: (M, K) -> (M, N). The plain twin of each is `F.linear`. Matrices are copies: the weights
stay where they are, for training and saving.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.arguments import one_of
from roberta_hub.errors import InputError
from roberta_hub.model.kernels import Kernel, cpu, float32_kernel, lacks, pinned

Activation = Callable[[Tensor], Tensor]
Dtype = Literal["int8", "bfloat16"]


class Matrix(Protocol):
    """A prepared product."""

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """The product, (M, K) -> (M, N); plus `residual`, (M, N), where there is one."""
        ...


FEW = 16
"""Rows up to which a product waits for its weights: half as many bytes save a third of the time of
a text of 8 tokens, an eighth of 16 (Zen 4)."""
_PACKED_FOR = 512
"""Rows that a packing is made for; oneDNN's and MKL's serve any other number as well."""


def matrix(
    weight: Tensor, bias: Tensor | None, dtype: Dtype | None, activation: Activation | None = None
) -> Matrix:
    """Prepare `activation(x @ weight.T + bias)`.

    Args:
        weight: (N, K), of any floating dtype.
        bias: (N,)
        dtype: None for float32, in which a CPU also computes half-precision weights, and what it
            cannot do in another dtype: a model may come from a better machine.
        activation: applied to the result; the exact GELU is fused where that can be.

    Example:
        >>> weight, x = torch.randn(5, 8), torch.randn(3, 8)
        >>> torch.allclose(matrix(weight, None, None)(x), x @ weight.T, atol=1e-5)
        True
    """
    weight = weight.detach()
    if bias is None:
        bias = weight.new_zeros(len(weight))
    bias = bias.detach()
    if weight.device.type != "cpu":
        if dtype == "bfloat16":
            weight, bias = weight.bfloat16(), bias.bfloat16()
        return Plain(weight, bias, activation)
    if dtype == "int8" and can_int8() and weight.size(1) % 4 == 0:  # see Int8.__call__
        return Int8(weight.float(), bias.float(), activation)
    if dtype == "bfloat16" and available("bfloat16"):
        return OneDNN(weight.bfloat16(), bias.bfloat16(), activation)
    weight, bias = weight.float(), bias.float()
    many = _FLOAT32[float32_name()](weight, bias, activation)
    # True of checkpoints that were stored in float16.
    if available("half") and torch.equal(weight, weight.half().float()):
        return ByRows(HalfStored(weight, bias, activation), many)
    return many


def norm(layer_norm: nn.LayerNorm) -> Callable[[Tensor], Tensor]:
    """Prepare a LayerNorm: in float32 on a CPU, whatever its weights' dtype."""
    weight, bias = layer_norm.weight.detach(), layer_norm.bias.detach()
    if weight.device.type == "cpu":
        weight, bias = weight.float(), bias.float()
    shape, eps = layer_norm.normalized_shape, layer_norm.eps
    return lambda x: F.layer_norm(x.to(weight.dtype), shape, weight, bias, eps)


def check_dtype(dtype: str | None, device: torch.device) -> None:
    """Refuse a dtype that this machine cannot do, or has no instructions for."""
    pinned()  # a pin that names no kernel is said before any work
    one_of("dtype", dtype, (None, "int8", "bfloat16"))
    if dtype is None:
        return
    instead = "call optimize() without dtype"
    if device.type != "cpu":
        if dtype == "int8":
            raise InputError(f"int8 is for CPUs, the model is on {device}; {instead}")
        if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0):
            raise InputError(
                f"{torch.cuda.get_device_name(device)} has no bfloat16 units; {instead}"
            )
        return
    if not available("int8" if dtype == "int8" else "bfloat16"):
        raise InputError(f"torch has no {dtype} matrix products here; {instead}")
    lacking = lacks("int8" if dtype == "int8" else "bfloat16")
    if lacking is not None:
        raise InputError(f"{dtype} would be slower than float32: {lacking}; {instead}")
    if dtype == "int8" and not can_int8():
        raise InputError(f"this CPU's int8 products overflow, it has no VNNI; {instead}")


def available(what: Literal["onednn", "mkl", "half", "int8", "bfloat16"]) -> bool:
    """Whether this build of torch has the operators."""
    onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    if what == "mkl":
        return mkl and hasattr(torch.ops.mkl, "_mkl_linear")
    if what == "half":
        engine = torch.backends.quantized.engine in ("x86", "fbgemm")
        return engine and hasattr(torch.ops.quantized, "linear_dynamic_fp16")
    if what in ("onednn", "bfloat16"):
        there = onednn and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        return there and (what == "onednn" or torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return (
        onednn
        and hasattr(torch.ops.onednn, "qlinear_pointwise")
        and hasattr(torch.ops.quantized, "embedding_bag_byte_prepack")
    )


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
        return _finished(y, self.activation, residual)


class MKL:
    """Weights in MKL's own layout, the fastest float32 on Intel's CPUs."""

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None) -> None:
        self.weight = torch.ops.mkl._mkl_reorder_linear_weight(weight, _PACKED_FOR)
        # Of the plain weight the operator reads the sizes only, so no second copy is kept.
        self.shape = weight.new_empty(()).expand_as(weight)
        self.bias, self.activation = bias, _in_place(activation)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        # Packed for any number of rows; were it told another than x has, it would multiply `shape`.
        y: Tensor = torch.ops.mkl._mkl_linear(
            x.float(), self.weight, self.shape, self.bias, x.size(0)
        )
        return _finished(y, self.activation, residual)


class HalfStored:
    """Weights stored in float16 and computed in float32: the same numbers from half the bytes.

    Few rows wait for their weights, and gain by it; many do not.
    """

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None) -> None:
        self.weight = torch.ops.quantized.linear_prepack_fp16(weight, bias)
        self.activation = _in_place(activation)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        y: Tensor = torch.ops.quantized.linear_dynamic_fp16(x.float(), self.weight)
        return _finished(y, self.activation, residual)


class ByRows:
    """One form for up to `FEW` rows, another for more."""

    def __init__(self, few: Matrix, many: Matrix) -> None:
        self.few, self.many = few, many

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        return (self.few if x.size(0) <= FEW else self.many)(x, residual)


class Int8:
    """8-bit weights with a scale for each output, times 8-bit activations.

    Activations have a scale and an offset for each token. Every row of x is quantized by its own
    extremes, x ~ low + step * q with q in 0..255, so that a text's numbers do not depend on its
    neighbours. With W ~ scale * Q, q unsigned and Q signed as VNNI wants them:

        x @ W.T + b  ~  step * (scale * (q @ Q.T)) + low * (scale * Q.sum(1)) + b
    """

    def __init__(self, weight: Tensor, bias: Tensor, activation: Activation | None) -> None:
        self.scale = weight.abs().amax(1).clamp(min=1e-12) / 127  # (N,)
        rounded = (weight / self.scale.unsqueeze(1)).round().to(torch.int8)  # (N, K)
        # Of the rounded weights: the error then is x times the rounding, and x is around 0.
        self.sums = rounded.sum(1, dtype=torch.float32) * self.scale
        # The rows that `embedding_bag_byte_prepack` writes end in step and low, 8 bytes, which meet
        # zeros.
        self.weight = torch.ops.onednn.qlinear_prepack(F.pad(rounded, (0, 8)), None)
        self.zeros = torch.zeros(len(weight), dtype=torch.long)
        self.bias, self.activation = bias, _in_place(activation)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N)."""
        # Made for embedding tables, this operator quantizes rows in one vectorized pass. They end
        # in two float32, which can be read in place where K is a multiple of 4.
        rows = torch.ops.quantized.embedding_bag_byte_prepack(x.float())  # (M, K + 8) uint8
        widths = [x.size(1) // 4, 1, 1]
        _, step, low = rows.view(torch.float32).split_with_sizes(widths, 1)  # (M, 1) each
        y: Tensor = torch.ops.onednn.qlinear_pointwise(
            *(rows, 1.0, 0, self.weight, self.scale, self.zeros, None),
            *(1.0, 0, torch.float32, "none", [], "none"),
        )
        torch.addcmul(self.bias, y, step, out=y).addcmul_(low, self.sums)
        return _finished(y, self.activation, residual)


def _finished(y: Tensor, activation: Activation | None, residual: Tensor | None) -> Tensor:
    """The result of an operator, which nobody else has, with what was not fused into it."""
    if activation is not None:
        y = activation(y)
    if residual is None:
        return y
    return y.add_(residual) if y.dtype == residual.dtype else residual + y


def _in_place(activation: Activation | None) -> Activation | None:
    """One that may overwrite its argument: a second buffer of that size leaves the cache."""
    return torch.ops.aten.gelu_ if activation is F.gelu else activation


Kind = type[Plain] | type[OneDNN] | type[MKL] | type[HalfStored] | type[Int8]
_FLOAT32: dict[Kernel, Kind] = {"onednn": OneDNN, "mkl": MKL, "plain": Plain}


def float32_name() -> Kernel:
    """The kernel that float32 products take on this machine; see `kernels.float32_kernel`."""
    there = frozenset(library for library in ("onednn", "mkl") if available(library))
    return float32_kernel(cpu(), there)


def can_int8() -> bool:
    """Whether there are int8 products, and the largest of them add up."""
    return available("int8") and _int8_is_exact()


@lru_cache(maxsize=1)
def _int8_is_exact() -> bool:
    """Without VNNI, pairs of large products saturate 16 bits."""
    weight = torch.full((16, 64), 127, dtype=torch.int8)
    one, zero = torch.ones(16), torch.zeros(16, dtype=torch.long)
    rows = torch.full((16, 64), 255, dtype=torch.uint8)
    packed = torch.ops.onednn.qlinear_prepack(weight, None)
    y = torch.ops.onednn.qlinear_pointwise(
        rows, 1.0, 0, packed, one, zero, None, 1.0, 0, torch.float32, "none", [], "none"
    )
    return bool((y == 255.0 * 127 * 64).all())
