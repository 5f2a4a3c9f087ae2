"""Tells how fast a CPU computes in each dtype beside float32, from measured tables.

As in `kernels.py` no stopwatch runs: the same CPU always gets the same answer. What nobody measured
is not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Speeds:
    """What was measured on one kind of CPU, in tokens a second of ragged texts."""

    kind: str
    needs: frozenset[str]
    """Instruction sets, as `kernels.CPU` names them, that a CPU of this kind has."""
    times: Mapping[Literal["int8", "bfloat16"], float]
    """How many times as fast as float32; a dtype that was not measured is not here."""
    source: str
    """Where the measurement stands."""


TABLE = (
    Speeds(
        "CPU with AMX",
        frozenset({"amx_int8", "amx_bf16"}),
        # float32 1,391 tokens a second, bfloat16 2,507 to 4,928, int8 3,600 to 6,085: the least.
        {"int8": 2.5, "bfloat16": 1.8},
        "docs/speed.md",
    ),
    Speeds(
        "CPU with AVX512-VNNI and AVX512-BF16",
        frozenset({"avx512_vnni", "avx512_bf16"}),
        {"int8": 3.2, "bfloat16": 1.8},
        "benchmarks/results/speed_corpus_base_zen_4.md",
    ),
    Speeds(
        "CPU with AVX512-VNNI",
        frozenset({"avx512_vnni"}),
        # Of products on one thread, the least and the most that 16 to 1,024 rows gave.
        {"int8": 1.5, "bfloat16": 0.4},
        "benchmarks/results/kernels.md",
    ),
    Speeds("CPU that nobody measured", frozenset(), {}, ""),
)
"""The first kind that a CPU has all instruction sets of is its own."""


def speeds(there: frozenset[str]) -> Speeds:
    """Return what was measured on CPUs with these instruction sets.

    Args:
        there: those that oneDNN may use; see `kernels.usable`.

    Example:
        >>> zen4 = frozenset({"avx2", "avx512f", "avx512_vnni", "avx512_bf16"})
        >>> speeds(zen4).times
        {'int8': 3.2, 'bfloat16': 1.8}
    """
    return next(row for row in TABLE if row.needs <= there)
