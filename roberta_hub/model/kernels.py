"""Chooses the kernel of a product by the CPU's instruction sets, from measured tables.

A stopwatch on a busy machine gives one answer today and another tomorrow. The rules here come from
tables that name the CPU they were measured on, so a machine always gets the same kernels, and
`$ROBERTA_HUB_MATRICES` pins them: "onednn", "mkl" or "plain" for torch's, "compiled" for layers in
the package's own code (compiled.py), with an error where that is not there.
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
PIN = "ROBERTA_HUB_MATRICES"
KERNELS: tuple[Kernel, ...] = ("onednn", "mkl", "plain")
PINS: tuple[Pin, ...] = (*KERNELS, "compiled")

ANY = sys.maxsize
"""As many rows as there are."""
COMPILED = {
    "AuthenticAMD": {"float32": ANY, "float16": 32, "int8": ANY, "bfloat16": ANY},
    "GenuineIntel": {"float32": 32, "float16": 32, "int8": 128, "bfloat16": 0},
}
"""Rows up to which a compiled layer is the faster, by what holds the weights: on a Zen 4
(benchmarks/results/compiled_zen_4.md) and on a Cascade Lake (compiled_cascade_lake.md). More rows
of weights that float16 holds are multiplied in float32. Of bfloat16 on Intel nobody measured it."""
SMALL = 4_000_000
"""Weights of a layer up to which few rows in float32 get a form of their own. Of a larger layer the
copy is large, and few rows wait for as many bytes in either form."""

FLOAT32: tuple[tuple[str, Kernel, str], ...] = (
    ("GenuineIntel", "mkl", "avx512f"),
    ("GenuineIntel", "onednn", "avx512f"),
    ("GenuineIntel", "mkl", "avx2"),
    ("AuthenticAMD", "onednn", "avx512f"),
    ("AuthenticAMD", "mkl", "avx2"),
)
"""Kernels of torch's that are faster than its plain products: on whose CPUs, and with what. The
first that fits is the fastest. Intel's are of a Cascade Lake (benchmarks/results/kernels.md), which
was told to hold back for "avx2"; AMD's of a Zen 4 (benchmarks/results/speed_profile.md) and of a
Zen 3 (docs/speed.md). With AVX2 alone oneDNN's is no faster than the plain one: a Zen 3 read a
corpus of base at 353 tokens a second with it, at 444 with the plain and at 461 with MKL's."""

INT8 = ("avx512_vnni", "avx_vnni", "amx_int8")
"""One of these multiplies 8-bit integers faster than float32. With avx512_vnni: on one core of a
Cascade Lake 1.5 to 2.3 times (benchmarks/results/kernels.md), on a Zen 4 3.2 times the texts
(benchmarks/results/speed_corpus_base_zen_4.md). Without, sums of pairs saturate."""
BFLOAT16 = ("avx512_bf16", "amx_bf16")
"""The same for bfloat16. Without them oneDNN imitates it, at 0.2 to 0.4 times float32's speed on
one core (benchmarks/results/kernels.md). With them it has 1.8 times float32's speed, on a Zen 4
(benchmarks/results/speed_corpus_base_zen_4.md) and at least on a Xeon with AMX (docs/speed.md)."""
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
"""What oneDNN may use under `$ONEDNN_MAX_CPU_ISA`; under a level that is not here, all there is."""
_MKL_LEVELS: dict[str, tuple[str, ...]] = {
    "SSE4_2": (),
    "AVX": (),
    "AVX2": ("avx2",),
    "AVX2_E1": ("avx2",),
}
"""The same for MKL and `$MKL_ENABLE_INSTRUCTIONS`."""


@dataclass(frozen=True)
class CPU:
    """The properties of a CPU that decide which kernel it gets."""

    vendor: str
    """As CPUID says it: "GenuineIntel", "AuthenticAMD"; "" where nothing tells."""
    features: frozenset[str]
    """Those of its instruction sets that are named in this module."""


@lru_cache(maxsize=1)
def cpu() -> CPU:
    """Return the CPU of this machine, as the system describes it, else as torch does."""
    known = {*_BASE, *INT8, *BFLOAT16}
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


def usable(machine: CPU, library: Kernel) -> frozenset[str]:
    """Return the instruction sets that a library uses; environment variables can lower them.

    Example:
        >>> zen4 = CPU("AuthenticAMD", frozenset({"avx2", "avx512f", "avx512_vnni"}))
        >>> sorted(usable(zen4, "onednn"))
        ['avx2', 'avx512_vnni', 'avx512f']
    """
    if library == "mkl":
        level = os.environ.get("MKL_ENABLE_INSTRUCTIONS", "")
        return machine.features & frozenset(_MKL_LEVELS.get(level.upper(), machine.features))
    level = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA", "")
    return machine.features & frozenset(_ONEDNN_LEVELS.get(level.upper(), machine.features))


def lacks(dtype: Literal["int8", "bfloat16"]) -> str | None:
    """Tell what this machine lacks for products in `dtype` that pay, in words; None if nothing."""
    wanted = INT8 if dtype == "int8" else BFLOAT16
    if not usable(cpu(), "onednn").isdisjoint(wanted):
        return None
    told = " as far as $ONEDNN_MAX_CPU_ISA lets it" if not cpu().features.isdisjoint(wanted) else ""
    return f"this CPU has none of {', '.join(wanted)}{told}"


def pinned() -> Pin | None:
    """Return what `$ROBERTA_HUB_MATRICES` names; InputError lists the choices."""
    value = os.environ.get(PIN, "").strip().lower()
    if not value:
        return None
    for pin in PINS:
        if value == pin:
            return pin
    raise InputError(f"${PIN} is {value!r}; choose {', '.join(PINS)}, or unset it")


def compiled_rows(held: str, there: frozenset[str]) -> int:
    """Return up to how many rows a layer runs in compiled code; 0 where it never does.

    On a CPU with AMX int8 never does: oneDNN multiplies in its tiles, and nobody measured both.
    Nor does a layer where `$ONEDNN_MAX_CPU_ISA` keeps oneDNN from AVX-512. Pinned, every layer does
    that can; more rows of float16 than the table says run in float32.

    Args:
        held: what holds the weights, of "float32", "float16", "int8" and "bfloat16".
        there: those of them that the compiled code computes with here; none where it was not built.

    Raises:
        InputError: the pin asks for compiled code, and there is none.

    Example:
        >>> compiled_rows("int8", frozenset())
        0
    """
    pin = pinned()
    if pin == "compiled" and not there:
        raise InputError(
            f"${PIN} is 'compiled', and the compiled part was not built here or finds no AVX-512 "
            "(roberta-hub doctor says which); choose another, or unset it"
        )
    if held not in there or pin not in (None, "compiled"):
        return 0
    if pin == "compiled":
        return ANY if held != "float16" else COMPILED["AuthenticAMD"][held]
    if held == "int8" and "amx_int8" in cpu().features:
        return 0
    if "avx512f" not in usable(cpu(), "onednn"):  # one variable lowers both
        return 0
    return COMPILED.get(cpu().vendor, {}).get(held, 0)


def float32_kernel(machine: CPU, there: frozenset[str]) -> Kernel:
    """Return the kernel for float32 products: the plain one where no other is known to be faster.

    Args:
        machine: the CPU.
        there: of "onednn" and "mkl", those that this torch was built with.

    Raises:
        InputError: the pin names no kernel, or one that this torch lacks.

    Example:
        >>> zen4 = CPU("AuthenticAMD", frozenset({"avx2", "avx512f"}))
        >>> float32_kernel(zen4, frozenset({"onednn", "mkl"}))
        'onednn'
    """
    pin = pinned()
    if pin is not None and pin != "compiled":
        if pin != "plain" and pin not in there:
            raise InputError(
                f"${PIN} is {pin!r}, and torch {torch.__version__} has no such matrices here; "
                f"choose {', '.join(k for k in KERNELS if k in there or k == 'plain')}"
            )
        return pin
    for vendor, kernel, needs in FLOAT32:
        if vendor == machine.vendor and kernel in there and needs in usable(machine, kernel):
            return kernel
    return "plain"


def knows_half(machine: CPU) -> bool:
    """Tell whether few rows are known to gain by float16 weights: with AVX-512, see `products`."""
    return "avx512f" in machine.features
