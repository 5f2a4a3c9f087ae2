"""Computes what ten billion rows cost, from the committed table and assumptions with names."""

from __future__ import annotations

import json

from lib.report import RESULTS

ROWS = 10_000_000_000
UNIT_ROWS = 50_000
CPU_MACHINES = 100
CORES = 32
"""Of a CPU machine."""
SHARED_CORES = 0.6
"""What a core gives when all cores of a machine work, as a part of a core that works alone."""
CPU_PRICE = 1.3
"""Dollars an hour of such a machine."""
GPUS = 8
GPU_SPEED = 4e14
"""Products and sums a second of a GPU in bfloat16, at the share of its peak that is reached."""
GPU_PRICE = 3.0
"""Dollars an hour of a GPU with its part of a machine."""
TOKENS = 26
"""Of a row: a pair with its marks."""
LAYER_WEIGHTS = 6 * 12 * 384**2
"""Of the model in the box; a token takes two operations of each."""
IDLE = 0.05
"""Share of the time that is lost at the end, to starts and to machines that go."""
PLAN_BYTES, MANIFEST_BYTES = 45, 85
"""Of a unit in the plan and in the manifest."""


def estimate() -> str:
    """Say it in a table."""
    found = json.loads((RESULTS / "lake.json").read_text())["engines"]
    return table(found["processes"]["rows per CPU-s"], found["host"]["rows per CPU-s"])


def table(core: float, host: float) -> str:
    """Say it in a table.

    Args:
        core: rows a second of one core, by the engine.
        host: rows a second of one core that does all but the model.
    """
    machine = core * CORES * SHARED_CORES
    compute = GPU_SPEED / (2 * LAYER_WEIGHTS * TOKENS)
    gpu = min(compute, host)
    bound = "the Python of its one process" if gpu == host else "the GPU"
    units = ROWS // UNIT_ROWS
    lines = [
        f"| {ROWS:,} rows | rows/s each | rows/s | hours | dollars |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, count, rate, price in (
        (f"{CPU_MACHINES} machines of {CORES} cores", CPU_MACHINES, machine, CPU_PRICE),
        (f"{GPUS} GPUs", GPUS, gpu, GPU_PRICE),
    ):
        hours = ROWS / (count * rate) / 3600 / (1 - IDLE)
        cost = hours * count * price
        lines.append(f"| {name} | {rate:,.0f} | {count * rate:,.0f} | {hours:,.1f} | {cost:,.0f} |")
    lines += [
        "",
        f"A GPU could compute {compute:,.0f} rows a second; what bounds it is {bound}. The lake "
        f"has {units:,} units: a plan of {units * PLAN_BYTES / 1e6:.0f} MB, a manifest of "
        f"{units * MANIFEST_BYTES / 1e6:.0f} MB.",
    ]
    return "\n".join(lines)
