"""`ROBERTA_HUB_TEST_CPU=avx2 pytest`: the tests run as on a CPU with AVX2 and nothing beyond it.

torch's libraries are told to hold back, in this process and in those that tests start. What no
variable lowers is answered here, in this process and in the forks of tests/forks.py: the CPU's
flags, whether torch has bfloat16, whether products of bytes add up, what the compiled part can do.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

LEVELS = {
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
}


def mask_as_told() -> None:
    """Mask what this process can ask about its CPU, if that is asked for, before torch is there."""
    level = os.environ.get("ROBERTA_HUB_TEST_CPU")
    if not level:
        return
    if level != "avx2":
        raise ValueError(f"$ROBERTA_HUB_TEST_CPU is {level!r}; choose avx2, or unset it")
    assert "torch" not in sys.modules
    os.environ.update(LEVELS)
    import torch

    from roberta_hub.model import compiled, int8, kernels

    known = kernels.cpu()
    masked = kernels.CPU(known.vendor, known.features & {"avx2"})
    kernels.cpu.cache_clear()
    kernels.cpu = _constant(masked)  # type: ignore[assignment]
    int8.is_exact = _constant(False)  # type: ignore[assignment]
    torch.ops.mkldnn._is_mkldnn_bf16_supported = _No(torch.ops.mkldnn._is_mkldnn_bf16_supported)
    real = compiled._Library

    def library(path: Path) -> compiled._Library:
        found = real(path)
        for level in ("avx_vnni", "avx512"):
            found.shapes.pop(level, None)
        return found

    compiled._Library = library  # type: ignore[assignment, misc]


class _No:
    """An operator of torch that answers no; its schema is there for who lists operators."""

    def __init__(self, operator: Any) -> None:
        self._operator = operator

    def __call__(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)


def _constant(value: object) -> object:
    """A function that answers this, with what `lru_cache` gives to functions."""

    def answer() -> object:
        return value

    answer.__wrapped__ = answer  # type: ignore[attr-defined]
    answer.cache_clear = lambda: None  # type: ignore[attr-defined]
    return answer
