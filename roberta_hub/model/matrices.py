"""Chooses the product that a layer's weights are prepared for: float32, bfloat16 or int8.

What is chosen depends on the dtype that was asked for, on the machine, and on torch's operators.
Prepared weights are copies: the model's own stay where they are, for training and saving.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.arguments import one_of
from roberta_hub.errors import InputError, Remedy
from roberta_hub.model import int8
from roberta_hub.model.compiled import Held
from roberta_hub.model.int8 import Int8
from roberta_hub.model.kernels import Kernel, cpu, float32_kernel, knows_half, lacks, pinned
from roberta_hub.model.products import (
    MKL,
    Activation,
    ByRows,
    HalfStored,
    Matrix,
    OneDNN,
    Plain,
)

Dtype = Literal["int8", "bfloat16"]


def matrix(
    weight: Tensor,
    bias: Tensor | None,
    dtype: Dtype | None,
    activation: Activation | None = None,
    *,
    few: bool = True,
) -> Matrix:
    """Prepare `activation(x @ weight.T + bias)`.

    Args:
        weight: (N, K), of any floating dtype.
        bias: (N,)
        dtype: None for float32, in which a CPU also computes half-precision weights, and what it
            cannot do in another dtype: a model may come from a better machine.
        activation: applied to the result; the exact GELU is fused where that can be.
        few: whether few rows may get a form of their own; False where they never come here.

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
    if few and knows_half(cpu()) and available("half") and holds_half(weight):
        return ByRows(HalfStored(weight, bias, activation), many)
    return many


def holds_half(weight: Tensor) -> bool:
    """Tell whether float16 holds every number of a matrix."""
    return torch.equal(weight.float(), weight.half().float())


def held(weights: Sequence[Tensor], dtype: Dtype | None) -> Held | None:
    """Tell what holds a layer's weights in compiled code; None where it cannot take them."""
    if any(weight.device.type != "cpu" for weight in weights):
        return None
    if dtype is None:
        return "float16" if all(map(holds_half, weights)) else "float32"
    if dtype == "bfloat16":
        return "bfloat16" if available("bfloat16") else None
    fits = all(weight.size(1) % 4 == 0 for weight in weights)  # else `matrix` computes in float32
    return "int8" if can_int8() and fits else None


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
    instead = Remedy("call optimize() without dtype")
    if device.type != "cpu":
        if dtype == "int8":
            raise InputError(f"int8 is for CPUs, the model is on {device}", remedy=instead)
        if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0):
            raise InputError(
                f"{torch.cuda.get_device_name(device)} has no bfloat16 units", remedy=instead
            )
        return
    kind: Dtype = "int8" if dtype == "int8" else "bfloat16"
    lacking = lacks(kind)  # before torch's answer, which names no instructions
    if lacking is None and not available(kind):
        lacking = f"torch has no {dtype} matrix products here"
    if lacking is not None:
        raise InputError(f"{dtype} would be slower than float32: {lacking}", remedy=instead)
    if dtype == "int8" and not can_int8():
        lacking = "this CPU's products of bytes overflow, it has no VNNI"
        raise InputError(f"int8 would be less exact than float32: {lacking}", remedy=instead)


def available(what: Literal["onednn", "mkl", "half", "int8", "bfloat16"]) -> bool:
    """Tell whether this build of torch has the operators."""
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


Kind = type[Plain] | type[OneDNN] | type[MKL] | type[HalfStored] | type[Int8]
_FLOAT32: dict[Kernel, Kind] = {"onednn": OneDNN, "mkl": MKL, "plain": Plain}


def float32_name() -> Kernel:
    """Name the kernel that float32 products take here; see `kernels.float32_kernel`."""
    there = frozenset(library for library in ("onednn", "mkl") if available(library))
    return float32_kernel(cpu(), there)


def can_int8() -> bool:
    """Tell whether there are int8 products, and the largest of them add up."""
    return available("int8") and int8.is_exact()
