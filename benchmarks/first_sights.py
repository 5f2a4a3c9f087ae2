"""What a number of rows costs when a product first meets it, in every kernel.

    python benchmarks/first_sights.py               # a minute on two cores
    python benchmarks/first_sights.py --counts 5    # whether it runs

oneDNN makes a primitive for each shape, and a ragged batch has another number of rows each time. A
layer's four products meet numbers of rows one after another, each new one three times at once: the
first time, less the faster of the other two, is what the first meeting costs. All layers of a model
share shapes, so a batch pays it once. Of base (12 layers of 768) and of small models (6 of 384), on
one thread, as batches run. Writes `benchmarks/results/first_sights_CPU.{md,json}`.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from statistics import median

import torch
from kernels import forms
from lib.guard import short_name, this_cpu
from lib.report import about, instruction_sets, write

from roberta_hub.model.kernels import missing_features
from roberta_hub.model.products import Matrix

MODELS = {"base": (768, 12), "6 x 384": (384, 6)}
"""Width and layers."""
LEAST = 80
"""Numbers of rows in a table."""
MOST_ROWS = 512
"""Tokens of a batch; see `inference/threads.py`."""


def products(form: Callable[..., Matrix], width: int) -> list[tuple[Matrix, int]]:
    """A layer's four, and what each takes."""
    found = []
    shapes = ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
    for number, (inputs, outputs) in enumerate(shapes):
        activation = torch.nn.functional.gelu if number == 2 else None
        weight = torch.randn(outputs, inputs) / inputs**0.5
        found.append((form(weight, torch.zeros(outputs), activation), inputs))
    return found


def seconds(work: list[tuple[Matrix, torch.Tensor]]) -> float:
    start = time.perf_counter()
    for multiply, x in work:
        multiply(x)
    return time.perf_counter() - start


def measure(form: Callable[..., Matrix], width: int, rows: list[int]) -> tuple[float, float]:
    """Medians over the numbers of rows: what the first meeting costs, and what the others take."""
    made = products(form, width)
    seconds([(multiply, torch.randn(7, inputs)) for multiply, inputs in made])
    extra, after = [], []
    for count in rows:
        work = [(multiply, torch.randn(count, inputs)) for multiply, inputs in made]
        first, *others = (seconds(work) for _ in range(3))
        extra.append(first - min(others))
        after.append(min(others))
    return median(extra), median(after)


def main() -> None:
    """Measure, print, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", type=int, default=LEAST, help="different numbers of rows")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = random.Random(0).sample(range(17, MOST_ROWS), given.counts)
    lines = ["| model | kernel | first meeting, ms | a layer after, ms | share of a batch |"]
    lines += ["|---|---|--:|--:|--:|"]
    numbers: dict[str, object] = {"about": about("torch"), "counts": given.counts}
    for model, (width, layers) in MODELS.items():
        for name, form in forms().items():
            if name == "bfloat16" and missing_features("bfloat16"):
                continue
            with torch.no_grad():
                extra, after = measure(form, width, rows)
            share = max(0.0, extra) / (layers * after + max(0.0, extra))
            numbers[f"{model}, {name}"] = {"first": extra, "layer": after, "share": share}
            cells = f"{1000 * extra:.2f} | {1000 * after:.2f} | {100 * share:.1f} %"
            lines.append(f"| {model} | {name} | {cells} |")
    page = (
        f"# First meetings of a number of rows\n\n{instruction_sets()}.\n"
        f"Medians over {given.counts} numbers of rows, none met before, of a layer's four products "
        "on one thread. Share: of the products of all layers of one batch.\n"
        "Again: `python benchmarks/first_sights.py`.\n\n" + "\n".join(lines)
    )
    print(page)
    if given.counts >= LEAST:
        write(f"first_sights_{short_name(this_cpu())}", page, numbers)


if __name__ == "__main__":
    main()
