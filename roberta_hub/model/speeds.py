"""Measured speed of int8 and bfloat16 relative to float32, by CPU.

As in `kernels.py` nothing is timed at run time, so the same CPU always gets the same answer.
Unmeasured dtypes are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Speeds:
    """Relative speeds of one kind of CPU, from tokens per second on texts of mixed length."""

    kind: str
    needs: frozenset[str]
    """Instruction sets of this kind of CPU, as in `kernels.CPU`."""
    times: Mapping[Literal["int8", "bfloat16"], float]
    """Speed relative to float32, for the measured dtypes."""
    source: str
    """File with the measurement; "": there is none."""


SPEED_TABLE = (
    Speeds(
        "CPU with AMX",
        frozenset({"amx_int8", "amx_bf16"}),
        # float32 1,391 tokens a second, bfloat16 2,507 to 4,928, int8 3,600 to 6,085: the least.
        {"int8": 2.5, "bfloat16": 1.8},
        "docs/background/speed.md",
    ),
    Speeds(
        "CPU with AVX512-VNNI and AVX512-BF16",
        frozenset({"avx512_vnni", "avx512_bf16"}),
        {"int8": 3.1, "bfloat16": 1.7},
        "benchmarks/results/speed_corpus_base_zen_4.md",
    ),
    Speeds(
        "CPU with AVX512-VNNI",
        frozenset({"avx512_vnni"}),
        # From products on one thread, 16 to 1,024 rows: the minimum and the maximum.
        {"int8": 1.5, "bfloat16": 0.4},
        "benchmarks/results/kernels.md",
    ),
    Speeds("CPU with AVX-VNNI", frozenset({"avx_vnni"}), {}, ""),
    Speeds("CPU with AVX-512 and no VNNI", frozenset({"avx512f"}), {}, ""),
    Speeds(
        "CPU with AVX2",
        frozenset({"avx2"}),
        {"int8": 2.0},  # a Zen 4 limited to AVX2
        "benchmarks/results/avx2_zen_4.md",
    ),
    Speeds("CPU without measurements", frozenset(), {}, ""),
)
"""The first kind whose instruction sets a CPU has."""


def measured_speeds(there: frozenset[str]) -> Speeds:
    """Measured speeds of a CPU with these instruction sets.

    Example:
        >>> zen4 = frozenset({"avx2", "avx512f", "avx512_vnni", "avx512_bf16"})
        >>> measured_speeds(zen4).times
        {'int8': 3.1, 'bfloat16': 1.7}
    """
    return next(row for row in SPEED_TABLE if row.needs <= there)
