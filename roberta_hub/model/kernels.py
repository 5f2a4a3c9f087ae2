"""Chooses matrix kernels by the CPU's instruction sets, from measured tables.

Timing at run time gives different results on a busy machine. The rules here come from tables that
name the CPU they were measured on, so a machine always gets the same kernels.
`$ROBERTA_HUB_MATRICES` overrides them: "onednn", "mkl" or "plain" for torch's, "compiled" for
compiled layers (compiled.py), or an error if those are not available.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import torch

from roberta_hub.errors import InputError

Kernel = Literal["onednn", "mkl", "plain"]
Pin = Literal["onednn", "mkl", "plain", "compiled"]
PIN_VARIABLE = "ROBERTA_HUB_MATRICES"
KERNELS: tuple[Kernel, ...] = ("onednn", "mkl", "plain")
PINS: tuple[Pin, ...] = (*KERNELS, "compiled")

ANY_ROWS = sys.maxsize
"""Any number of rows."""
COMPILED_ROWS = {
    ("AuthenticAMD", "avx512"): {
        "float32": ANY_ROWS,
        "float16": 32,
        "int8": ANY_ROWS,
        "bfloat16": ANY_ROWS,
    },
    ("GenuineIntel", "avx512"): {"float32": 32, "float16": 32, "int8": 128, "bfloat16": 0},
    ("AuthenticAMD", "avx2"): {
        "float32": ANY_ROWS,
        "float16": 16,
        "int8": ANY_ROWS,
        "bfloat16": 16,
    },
    ("AuthenticAMD", "avx_vnni"): {
        "float32": ANY_ROWS,
        "float16": 16,
        "int8": ANY_ROWS,
        "bfloat16": 16,
    },
    ("GenuineIntel", "avx2"): {"float32": 0, "float16": 0, "int8": ANY_ROWS, "bfloat16": 0},
    ("GenuineIntel", "avx_vnni"): {"float32": 0, "float16": 0, "int8": 128, "bfloat16": 0},
}
"""Up to this many rows a compiled layer is faster, by vendor, level and weight format: measured on
a Zen 4 (benchmarks/results/compiled_zen_4.md), also when pinned to AVX2
(docs/background/speed.md), and on a Cascade Lake (compiled_cascade_lake.md). For more rows,
float16 weights are multiplied in float32, and so are bfloat16 ones at AVX2, where that is storage
alone.
0: not measured; so is what is not listed. int8 of Intel's CPUs with AVX2 alone is not measured
either: nothing else computes it there."""
_LEVEL_FEATURES = {"avx2": "avx2", "avx_vnni": "avx2", "avx512": "avx512f"}
"""Instruction set that stands for a level of the compiled code."""
_OTHER_INT8 = {
    "avx2": {"avx_vnni", "amx_int8"},
    "avx_vnni": {"amx_int8"},
    "avx512": {"amx_int8"},
}
"""Instruction sets for int8 that oneDNN uses and a level of the compiled code does not."""
SMALL_LAYER_WEIGHTS = 4_000_000
"""Up to this many weights a layer gets a second float32 form for few rows. For larger layers the
copy saves nothing: both forms are memory-bound."""

FLOAT32_KERNELS: tuple[tuple[str, Kernel, str], ...] = (
    ("GenuineIntel", "mkl", "avx512f"),
    ("GenuineIntel", "onednn", "avx512f"),
    ("GenuineIntel", "mkl", "avx2"),
    ("AuthenticAMD", "onednn", "avx512f"),
    ("AuthenticAMD", "mkl", "avx2"),
)
"""(vendor, kernel, instruction set) of torch's kernels that are faster than its plain products, the
fastest first. Intel's are measured on a Cascade Lake (benchmarks/results/kernels.md), limited to
AVX2 for "avx2"; AMD's on a Zen 4 (benchmarks/results/speed_profile.md) and a Zen 3
(docs/background/speed.md). With AVX2 alone oneDNN's kernel is not faster than the plain one: on a
Zen 3, 353 tokens per second for a corpus of base; plain 444, MKL 461."""

INT8_FEATURES = ("avx512_vnni", "avx_vnni", "amx_int8")
"""Instruction sets with int8 products faster than float32. With avx512_vnni: 1.5 to 2.3 times on
one core of a Cascade Lake (benchmarks/results/kernels.md), 3.2 times the texts on a Zen 4
(benchmarks/results/speed_corpus_base_zen_4.md). Without them oneDNN's sums of pairs saturate, and
int8 runs in compiled layers alone."""
BFLOAT16_FEATURES = ("avx512_bf16", "amx_bf16")
"""The same for bfloat16. Without them oneDNN emulates it, at 0.2 to 0.4 times float32's speed on
one core (benchmarks/results/kernels.md). With them it has 1.8 times float32's speed on a Zen 4
(benchmarks/results/speed_corpus_base_zen_4.md) and at least that on a Xeon with AMX
(docs/background/speed.md)."""
_BASE = ("avx2", "avx512f")

_ONEDNN_LEVELS: dict[str, tuple[str, ...]] = {
    "SSE41": (),
    "AVX": (),
    "AVX2": ("avx2",),
    "AVX2_VNNI": ("avx2", "avx_vnni"),
    "AVX2_VNNI_2": ("avx2", "avx_vnni"),
    "AVX512_CORE": _BASE,
    "AVX512_CORE_VNNI": (*_BASE, "avx512_vnni"),
    "AVX512_CORE_BF16": (*_BASE, "avx512_vnni", "avx512_bf16"),
    "AVX512_CORE_FP16": (*_BASE, "avx512_vnni", "avx512_bf16", "avx_vnni"),
    "AVX10_1_512": (*_BASE, "avx512_vnni", "avx512_bf16", "avx_vnni"),
}
"""Instruction sets that `$ONEDNN_MAX_CPU_ISA` allows oneDNN; levels not listed allow all."""
_MKL_LEVELS: dict[str, tuple[str, ...]] = {
    "SSE4_2": (),
    "AVX": (),
    "AVX2": ("avx2",),
    "AVX2_E1": ("avx2",),
}
"""The same for MKL and `$MKL_ENABLE_INSTRUCTIONS`."""


@dataclass(frozen=True)
class CPU:
    """Properties of a CPU that determine its kernels."""

    vendor: str
    """From CPUID: "GenuineIntel" or "AuthenticAMD"; "" if unknown."""
    features: frozenset[str]
    """Its instruction sets, as far as this module names them."""


@lru_cache(maxsize=1)
def cpu() -> CPU:
    """CPU of this machine, as the system or else torch describes it."""
    known = {*_BASE, *INT8_FEATURES, *BFLOAT16_FEATURES}
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
        fields = dict(reversed([_field(line) for line in lines if ":" in line]))  # the first core's
        if "flags" in fields:
            return CPU(fields.get("vendor_id", ""), frozenset(known & set(fields["flags"].split())))
    tell = getattr(torch.cpu, "get_capabilities", dict)  # of torch 2.11
    found = {name for name, there in tell().items() if there is True}
    found |= {"avx512f"} if "avx512_f" in found else set()
    names = ("GenuineIntel", "AuthenticAMD")
    vendor = next((name for name in names if name in platform.processor()), "")
    return CPU(vendor, frozenset(known & found))


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def usable_features(machine: CPU, library: Kernel) -> frozenset[str]:
    """Instruction sets that a library uses; environment variables can restrict them.

    Example:
        >>> zen4 = CPU("AuthenticAMD", frozenset({"avx2", "avx512f", "avx512_vnni"}))
        >>> sorted(usable_features(zen4, "onednn"))
        ['avx2', 'avx512_vnni', 'avx512f']
    """
    if library == "mkl":
        level = os.environ.get("MKL_ENABLE_INSTRUCTIONS", "")
        return machine.features & frozenset(_MKL_LEVELS.get(level.upper(), machine.features))
    level = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA", "")
    return machine.features & frozenset(_ONEDNN_LEVELS.get(level.upper(), machine.features))


def missing_features(dtype: Literal["int8", "bfloat16"]) -> str | None:
    """Message about what this machine lacks for fast products in `dtype`; None if nothing."""
    wanted = INT8_FEATURES if dtype == "int8" else BFLOAT16_FEATURES
    if not usable_features(cpu(), "onednn").isdisjoint(wanted):
        return None
    told = " as far as $ONEDNN_MAX_CPU_ISA lets it" if not cpu().features.isdisjoint(wanted) else ""
    return f"this CPU has none of {', '.join(wanted)}{told}"


def pinned_kernel() -> Pin | None:
    """Kernel that `$ROBERTA_HUB_MATRICES` names, or None; InputError lists the choices."""
    value = os.environ.get(PIN_VARIABLE, "").strip().lower()
    if not value:
        return None
    for pin in PINS:
        if value == pin:
            return pin
    raise InputError(f"${PIN_VARIABLE} is {value!r}; choose {', '.join(PINS)}, or unset it")


def compiled_rows(weight_format: str, there: frozenset[str], level: str | None) -> int:
    """Maximum number of rows for which a layer runs in compiled code; 0 for never.

    Never for int8 where oneDNN has instructions that the level lacks (AMX's tiles, AVX-VNNI; the
    two were not compared), and never if `$ONEDNN_MAX_CPU_ISA` excludes the level's instructions.
    With the pin "compiled", always if supported; float16 weights still run in float32 for more rows
    than in the table.

    Example:
        >>> compiled_rows("int8", frozenset(), None)
        0
    """
    pin = pinned_kernel()
    if pin == "compiled" and not there:
        raise InputError(
            f"${PIN_VARIABLE} is 'compiled', and the compiled part was not built here or finds no "
            "AVX2 (roberta-hub doctor says which); choose another, or unset it"
        )
    if level is None or weight_format not in there or pin not in (None, "compiled"):
        return 0
    if pin == "compiled":
        few = COMPILED_ROWS["AuthenticAMD", level]["float16"]
        return few if weight_format == "float16" else ANY_ROWS
    if weight_format == "int8" and cpu().features & _OTHER_INT8[level]:
        return 0
    # One variable restricts both.
    if _LEVEL_FEATURES[level] not in usable_features(cpu(), "onednn"):
        return 0
    return COMPILED_ROWS.get((cpu().vendor, level), {}).get(weight_format, 0)


def float32_kernel(machine: CPU, there: frozenset[str]) -> Kernel:
    """Kernel of float32 products: the plain one unless another is known to be faster.

    Example:
        >>> zen4 = CPU("AuthenticAMD", frozenset({"avx2", "avx512f"}))
        >>> float32_kernel(zen4, frozenset({"onednn", "mkl"}))
        'onednn'
    """
    pin = pinned_kernel()
    if pin is not None and pin != "compiled":
        if pin != "plain" and pin not in there:
            raise InputError(
                f"${PIN_VARIABLE} is {pin!r}, and torch {torch.__version__} has no such matrices "
                f"here; choose {', '.join(k for k in KERNELS if k in there or k == 'plain')}"
            )
        return pin
    for vendor, kernel, needs in FLOAT32_KERNELS:
        if (
            vendor == machine.vendor
            and kernel in there
            and needs in usable_features(machine, kernel)
        ):
            return kernel
    return "plain"


def prefers_float16_weights(machine: CPU) -> bool:
    """Whether products of few rows are faster with float16 weights: with AVX-512."""
    return "avx512f" in machine.features
