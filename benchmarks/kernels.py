"""A layer's matrices in every kernel: what `roberta_hub/model/kernels.py` decides by.

    python benchmarks/kernels.py               # about two minutes on two cores

The layer's four products, one after another, on 16 to 1,024 rows and on one and two threads, as the
machine is, and in processes of their own with MKL or both libraries told to use no more than AVX2.
By turns; medians of the samples in which nobody else used the machine, of all where none was so.
Writes `benchmarks/results/kernels.{md,json}`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from lib.report import about, write
from lib.timing import by_turns

from roberta_hub.model import kernels
from roberta_hub.model import matrices as quantize
from roberta_hub.model.int8 import Int8
from roberta_hub.model.products import MKL, Matrix, OneDNN, Plain

ROWS = (16, 64, 256, 1024)
SHAPES = ((768, 2304, None), (768, 768, None), (768, 3072, F.gelu), (3072, 768, None))
"""(K, N, activation): query, key and value; attention's output; the feed-forward block's two."""
OPERATIONS = 2 * sum(k * n for k, n, _ in SHAPES)
SETTINGS: dict[str, dict[str, str]] = {
    "as it is": {},
    "MKL up to AVX2": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "both up to AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
}


def forms() -> dict[str, Callable[..., Matrix]]:
    """What can run here, whether it pays or not."""
    found: dict[str, Callable[..., Matrix]] = {"plain": Plain}
    if quantize.has_operators("onednn"):
        found["oneDNN"] = OneDNN
    if quantize.has_operators("mkl"):
        found["MKL"] = MKL
    if quantize.has_operators("int8"):
        found["int8"] = Int8
    if quantize.has_operators("bfloat16"):
        found["bfloat16"] = lambda w, b, a: OneDNN(w.bfloat16(), b.bfloat16(), a)
    return found


def layer(form: Callable[..., Matrix], rows: int) -> Callable[[], None]:
    """A call that does the layer's products, some times over where they are quick."""
    generator = torch.Generator().manual_seed(rows)
    work = []
    for inputs, outputs, activation in SHAPES:
        weight = torch.randn(outputs, inputs, generator=generator) / inputs**0.5
        run = form(weight, torch.zeros(outputs), activation)
        work.append((run, torch.randn(rows, inputs, generator=generator)))

    def call() -> None:
        for _ in range(128 // rows + 1):
            for run, x in work:
                run(x)

    return call


def measure(rounds: int) -> list[dict[str, object]]:
    """Giga-operations a second of every form, number of rows and number of threads."""
    found: list[dict[str, object]] = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for rows in ROWS:
            with torch.no_grad():
                ways = {name: layer(form, rows) for name, form in forms().items()}
                samples = by_turns(ways, rounds)
            work = OPERATIONS * rows * (128 // rows + 1) / 1e9
            speeds = {name: round(work / s.median, 1) for name, s in samples.items()}
            clean = min(len(s.clean) for s in samples.values())
            found.append({"threads": threads, "rows": rows, "clean": clean, **speeds})
    return found


def main() -> None:
    """Each setting in a process of its own: libraries read it when they start."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--here", action="store_true", help="measure in this process, print JSON")
    options = parser.parse_args()
    if options.here:
        print(
            json.dumps({"chosen": quantize.float32_kernel_here(), "table": measure(options.rounds)})
        )
        return
    machine = kernels.cpu()
    page = [
        "# Kernels",
        "",
        f"{machine.vendor}, {', '.join(sorted(machine.features))}. Giga-operations a second of the "
        f"four products of a layer of base; medians of {options.rounds} rounds by turns.",
        "`*`: what `optimize()` takes here. Again: `python benchmarks/kernels.py`.",
    ]
    numbers: dict[str, object] = {"about": about("torch"), "vendor": machine.vendor}
    numbers["features"] = sorted(machine.features)
    command = [sys.executable, __file__, "--here", "--rounds", str(options.rounds)]
    run = partial(subprocess.run, command, check=True, stdout=subprocess.PIPE, text=True)
    for name, setting in SETTINGS.items():
        found = json.loads(run(env={**os.environ, **setting}).stdout)
        numbers[name] = found
        names = [key for key in found["table"][0] if key not in ("threads", "rows", "clean")]
        heads = [f"{n}*" if n.lower() == found["chosen"] else n for n in names]
        page += ["", f"## {name[0].upper()}{name[1:]}", ""]
        page += [f"| threads | rows | {' | '.join(heads)} | clean rounds |"]
        page += ["|--:|--:|" + "--:|" * len(names) + "--:|"]
        for row in found["table"]:
            cells = [f"{row['threads']}", f"{row['rows']:,}", *(f"{row[n]:.0f}" for n in names)]
            page.append(f"| {' | '.join(cells)} | {row['clean']} |")
    write("kernels", "\n".join(page), numbers)
    print("\n".join(page))


if __name__ == "__main__":
    main()
