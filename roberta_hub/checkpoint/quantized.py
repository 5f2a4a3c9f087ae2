"""Names the program that quantized a file, by the names and dtypes of its tensors."""

from __future__ import annotations

from collections.abc import Container, Iterable

import torch

from roberta_hub.errors import CheckpointError, Remedy

FLOAT8 = tuple(
    getattr(torch, name)
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    if hasattr(torch, name)
)
"""Eight-bit floating point, which needs a scale."""
_MARKS = (
    ("bitsandbytes, in 4 bits", (".quant_state.bitsandbytes__nf4", ".weight.quant_map")),
    ("bitsandbytes, in 4 bits", (".quant_state.bitsandbytes__fp4", ".weight.absmax")),
    ("bitsandbytes, in 8 bits", (".SCB", ".weight_format")),
    ("fp8", (".weight_scale_inv",)),
    ("compressed-tensors", (".weight_packed", ".weight_zero_point", ".weight_scale")),
    ("quanto", (".weight._data", ".weight._scale")),
    ("HQQ", (".W_q",)),
)
"""Who quantizes, and how the names end of tensors that only such a file has."""


def check_not_quantized(names: Iterable[str], source: str) -> None:
    """Refuse a file whose weights are quantized, by the name of what quantized them.

    Example:
        >>> check_not_quantized(["bert.pooler.dense.weight"], "a file")
        >>> try:
        ...     check_not_quantized(["output.dense.qweight", "output.dense.g_idx"], "a file")
        ... except CheckpointError as error:
        ...     print(error.what.partition(";")[0])
        a file: the weights are quantized by GPTQ ('output.dense.qweight')
    """
    listed = list(names)
    for name in listed:
        who = _quantizer(name, listed)
        if who is not None:
            raise quantized(who, name, source)


def quantized(who: str, name: str, source: str) -> CheckpointError:
    """Make the error for weights that are quantized."""
    return CheckpointError(
        f"{source}: the weights are quantized by {who} ({name[:120]!r}); only plain float16, "
        "bfloat16, float32 and float64 weights are read",
        remedy=Remedy(
            "load the original, for which optimize('int8') is the way here, or write plain weights "
            "with transformers: model.dequantize(), then save_pretrained(folder)",
            "load the original, or write plain weights with transformers' model.dequantize()",
        ),
    )


def _quantizer(name: str, names: Container[str]) -> str | None:
    if name.endswith(".qweight"):
        return "GPTQ" if f"{name.removesuffix('qweight')}g_idx" in names else "AWQ"
    return next((who for who, ends in _MARKS if name.endswith(ends)), None)
