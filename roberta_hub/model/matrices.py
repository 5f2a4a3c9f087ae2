"""Prepares weight matrices for inference in float32, bfloat16 or int8.

The choice depends on the requested dtype, the machine and torch's operators. Prepared weights are
copies; the model keeps its own for training and saving.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.arguments import one_of
from roberta_hub.errors import InputError, Remedy
from roberta_hub.model import int8
from roberta_hub.model.compiled import (
    CompiledProduct,
    WeightFormat,
    chosen_level,
    level_of,
    supported_formats,
)
from roberta_hub.model.int8 import Int8
from roberta_hub.model.kernels import (
    ANY_ROWS,
    Kernel,
    compiled_rows,
    cpu,
    float32_kernel,
    missing_features,
    pinned_kernel,
    prefers_float16_weights,
)
from roberta_hub.model.products import (
    MKL,
    Activated,
    Activation,
    ByRows,
    HalfStored,
    Matrix,
    OneDNN,
    Plain,
)

Dtype = Literal["int8", "bfloat16"]


def prepare_matrix(
    weight: Tensor,
    bias: Tensor | None,
    dtype: Dtype | None,
    activation: Activation | None = None,
    *,
    few: bool = True,
) -> Matrix:
    """Prepare `activation(x @ weight.T + bias)`.

    Example:
        >>> weight, x = torch.randn(5, 8), torch.randn(3, 8)
        >>> torch.allclose(prepare_matrix(weight, None, None)(x), x @ weight.T, atol=1e-5)
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
    compiled = _compiled_product(weight, bias, dtype, activation, few)
    if compiled is not None:
        return compiled
    if dtype == "int8" and can_int8() and weight.size(1) % 4 == 0:  # see Int8.__call__
        return Int8(weight.float(), bias.float(), activation)
    if dtype == "bfloat16" and has_operators("bfloat16"):
        return OneDNN(weight.bfloat16(), bias.bfloat16(), activation)
    weight, bias = weight.float(), bias.float()
    many = _FLOAT32[float32_kernel_here()](weight, bias, activation)
    # Checkpoints stored in float16.
    if few and prefers_float16_weights(cpu()) and has_operators("half") and fits_float16(weight):
        return ByRows(HalfStored(weight, bias, activation), many)
    return many


def _compiled_product(
    weight: Tensor, bias: Tensor, dtype: Dtype | None, activation: Activation | None, few: bool
) -> Matrix | None:
    """The product in compiled code, where that is faster for any number of rows."""
    form = weight_format([weight], dtype)
    shorter = dtype is None and form != "float32"
    if form is None or compiled_rows_here("float32" if shorter else form) < ANY_ROWS:
        return None
    make = partial(CompiledProduct, weight, bias, gelu=activation is F.gelu)
    made: Matrix = make("float32" if shorter else form)
    if shorter and few:
        made = ByRows(make(form), made, compiled_rows_here(form))
    return made if activation in (None, F.gelu) else Activated(made, activation)


def compiled_rows_here(form: WeightFormat) -> int:
    """Up to this many rows compiled code is faster here; see `kernels.compiled_rows`."""
    return compiled_rows(form, supported_formats(), level_of(form))


def fits_float16(weight: Tensor) -> bool:
    """Whether all values are exactly representable in float16."""
    return torch.equal(weight.float(), weight.half().float())


def fits_bfloat16(weight: Tensor) -> bool:
    """Whether all values are exactly representable in bfloat16."""
    return torch.equal(weight.float(), weight.bfloat16().float())


def weight_format(weights: Sequence[Tensor], dtype: Dtype | None) -> WeightFormat | None:
    """Storage format for a compiled layer, or None if unsupported."""
    if any(weight.device.type != "cpu" for weight in weights):
        return None
    if dtype is None:
        if all(map(fits_float16, weights)):
            return "float16"
        # With AVX-512 rows would be rounded too.
        fits = chosen_level() != "avx512" and all(map(fits_bfloat16, weights))
        return "bfloat16" if fits else "float32"
    known = dtype in supported_formats()
    if dtype == "bfloat16":
        return "bfloat16" if known or has_operators("bfloat16") else None
    fits = all(weight.size(1) % 4 == 0 for weight in weights)  # see Int8.__call__
    return "int8" if known or (fits and can_int8()) else None


def prepare_norm(layer_norm: nn.LayerNorm) -> Callable[[Tensor], Tensor]:
    """Prepare a LayerNorm; on a CPU always in float32."""
    weight, bias = layer_norm.weight.detach(), layer_norm.bias.detach()
    if weight.device.type == "cpu":
        weight, bias = weight.float(), bias.float()
    shape, eps = layer_norm.normalized_shape, layer_norm.eps
    return lambda x: F.layer_norm(x.to(weight.dtype), shape, weight, bias, eps)


def check_dtype(dtype: str | None, device: torch.device) -> None:
    """Raise InputError for a dtype that this machine does not support or computes slowly."""
    pinned_kernel(), chosen_level()  # raise on an unknown name before any work
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
    if runs_compiled_alone(kind):
        return
    lacking = missing_features(kind)  # first, since torch does not name the instructions
    if lacking is None and not has_operators(kind):
        lacking = f"torch has no {dtype} matrix products here"
    if lacking is not None:
        raise InputError(f"{dtype} would be slower than float32: {lacking}", remedy=instead)
    if dtype == "int8" and not can_int8():
        lacking = "this CPU's products of bytes overflow, it has no VNNI"
        raise InputError(f"int8 would be less exact than float32: {lacking}", remedy=instead)


def runs_compiled_alone(dtype: Dtype) -> bool:
    """Whether products in a dtype are fast in compiled code here, and not on torch's operators."""
    if missing_features(dtype) is None or level_of(dtype) == "avx512":
        return False
    return compiled_rows_here(dtype) == ANY_ROWS


def has_operators(what: Literal["onednn", "mkl", "half", "int8", "bfloat16"]) -> bool:
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


MatrixClass = type[Plain] | type[OneDNN] | type[MKL] | type[HalfStored] | type[Int8]
_FLOAT32: dict[Kernel, MatrixClass] = {"onednn": OneDNN, "mkl": MKL, "plain": Plain}


def float32_kernel_here() -> Kernel:
    """Kernel of float32 products on this machine; see `kernels.float32_kernel`."""
    there = frozenset(library for library in ("onednn", "mkl") if has_operators(library))
    return float32_kernel(cpu(), there)


def can_int8() -> bool:
    """Whether int8 products are available and exact."""
    return has_operators("int8") and int8.is_exact()
