"""Writes results into `results/`, each with its date, machine and versions."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results"


def about(*packages: str) -> dict[str, Any]:
    """Date, machine and versions."""
    return {
        "date": str(date.today()),
        "instruction_sets": instruction_sets(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}",
        "versions": {name: version(name) for name in packages},
    }


def own_version() -> str:
    """The version of this package, and its commit where it is known."""
    import roberta_hub

    asked = ["git", "-C", str(RESULTS), "rev-parse", "--short", "HEAD"]
    found = subprocess.run(asked, capture_output=True, text=True)
    commit = f" at {found.stdout.strip()}" if found.returncode == 0 else ""
    return f"{roberta_hub.__version__}{commit}"


def instruction_sets() -> str:
    """The CPU's maker, those of its instruction sets that matter here, and what lowers them."""
    from roberta_hub.model.kernels import cpu

    found = [cpu().vendor, *sorted(cpu().features)]
    lowering = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
    found += [f"{name}={os.environ[name]}" for name in lowering if os.environ.get(name)]
    return " ".join(filter(None, found)) or f"{platform.machine()} without any that is known"


def sentence(found: dict[str, Any]) -> str:
    """The same in one line."""
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    sets = f" ({found['instruction_sets']})" if "instruction_sets" in found else ""
    return f"{found['date']}, {found['machine']}{sets}; {versions}."


def write(name: str, page: str, numbers: dict[str, Any]) -> None:
    """Write a page and its numbers; `numbers["about"]` stands below the page."""
    RESULTS.mkdir(exist_ok=True)
    text = f"{page.rstrip()}\n\n{sentence(numbers['about'])}\n"
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    (RESULTS / f"{name}.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
