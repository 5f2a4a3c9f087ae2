"""Judges `make bench-quick`: how many times as fast as its peers this package must stay."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

MARGIN, PEERS_MARGIN = 0.9, 0.8
"""A ratio may fall to this share of what was measured: fewer texts and rounds scatter more. Over a
corpus peers scatter by a sixth from run to run (ONNX Runtime in int8: 2,239 to 2,650 tokens a
second), where we scatter by a twentieth."""
MEASURED: dict[str, dict[str, float]] = {
    "AMD Zen 4": {
        # results/speed_corpus_base_zen_4.md: 583 texts in three rounds. transformers computes
        # padding too: over its sdpa 2.10 times as fast at 1.11 slots a token
        "corpus: transformers, a slot": 2.10 / 1.11,
        "corpus: ONNX Runtime": 1.39,
        "corpus: ONNX Runtime, int8": 1.50,
        "corpus: our float32, int8": 3.13,
        "corpus: our plain": 1.37,
        # results/speed_text_zen_4.md: medians of 15 rounds
        "16 tokens: our plain": 2.72,
        "48 tokens: our plain": 2.04,
        "16 tokens: ONNX Runtime": 1.13,
        "16 tokens: ONNX Runtime, int8": 1.20,
        "48 tokens: ONNX Runtime": 1.22,
        "48 tokens: ONNX Runtime, int8": 1.33,
    },
}
"""Kind of CPU -> what is compared -> how many times as fast we were; each with its source."""


def kind_of_cpu(cpuinfo: str) -> str | None:
    """The kind of CPU that decides these ratios, by what Linux tells of it; None: no known one."""
    told = dict(
        (part.strip() for part in line.split(":", 1))
        for line in cpuinfo.splitlines()
        if ":" in line
    )
    flags = set(told.get("flags", "").split())
    vendor, family = told.get("vendor_id"), told.get("cpu family")
    if vendor == "AuthenticAMD" and family == "25" and "avx512_vnni" in flags:
        return "AMD Zen 4"  # Zen 3 has the same number and no AVX-512
    if vendor == "GenuineIntel" and "amx_int8" in flags:
        return "Intel with AMX"
    if vendor == "GenuineIntel" and "avx512_vnni" in flags:
        return "Intel with AVX-512 VNNI"
    return None


def short_name(kind: str | None) -> str:
    """A kind of CPU as the end of a file's name."""
    names = {"AMD Zen 4": "zen_4", "Intel with AMX": "amx", "Intel with AVX-512 VNNI": "vnni"}
    return names.get(kind or "", "other")


def this_cpu() -> str | None:
    """The kind of CPU that this runs on."""
    path = Path("/proc/cpuinfo")
    known = path.is_file() and platform.machine() == "x86_64"
    return kind_of_cpu(path.read_text()) if known else None


def limits(kind: str | None) -> dict[str, float]:
    """What every ratio must reach on this kind of CPU; on one nobody measured, the least of all."""
    names = next(iter(MEASURED.values()))
    known = [MEASURED[kind]] if kind in MEASURED else list(MEASURED.values())
    found = {what: margin(what) * min(own[what] for own in known) for what in names}
    if kind not in MEASURED:  # `optimize` may gain nothing there, and is never slower
        found |= {what: margin(what) for what in names if what.endswith("our plain")}
    return found


def margin(what: str) -> float:
    """The share of what was measured that a ratio may fall to."""
    of_peers = what.startswith("corpus: ") and "our" not in what
    return PEERS_MARGIN if of_peers else MARGIN


def judge(
    found: Mapping[str, float | None], kind: str | None, missing: Mapping[str, str] | None = None
) -> tuple[list[str], list[str]]:
    """Hold the ratios against their limits.

    Args:
        found: what is compared -> how many times as fast; None, or not there: it did not run.
        kind: of CPU, as `kind_of_cpu` says.
        missing: engines that did not start, and what they said; each is a fault.

    Returns:
        (lines of a table, faults): a ratio below its limit is a fault, and so is one that is
        missing, for what did not run was not guarded.
    """
    lines: list[str] = []
    faults = [f"{name} did not start: {why}" for name, why in (missing or {}).items()]
    for what, least in limits(kind).items():
        ratio = found.get(what)
        if ratio is None:
            lines.append(f"{what:<31}  not measured   at least {least:.2f}")
            faults.append(
                f"{what}: a peer did not run, so nothing was guarded; `make .venv/.bench`"
            )
            continue
        slow = ratio < least
        lines.append(
            f"{what:<31}{ratio:14.2f}   at least {least:.2f}{'   TOO SLOW' if slow else ''}"
        )
        if slow:
            faults.append(f"{what}: {ratio:.2f} times as fast, and {least:.2f} is the least")
    if kind not in MEASURED:
        lines.append(
            f"No measurement of this CPU ({kind or 'of no known kind'}) is committed; the limits "
            f"are the least of all: {', '.join(MEASURED)}."
        )
    return lines, faults
