"""Time and memory as work grows: texts, tokens a text, tokens a batch.

A straight line where it should be.

    python benchmarks/growth.py                # about three minutes on two cores

A base encoder of four layers with random weights, `features(..., pooling="cls")` on texts of random
words. Texts: time should be proportional and the peak of memory flat. Tokens a text, at the same
number of tokens in all: attention adds a part that grows with length. Tokens a batch: flat, as no
batch pays for padding. Writes `benchmarks/results/growth.{md,json,png}`.
"""

from __future__ import annotations

import dataclasses
import random
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lib.report import RESULTS, about, write
from lib.timing import by_turns

import roberta_hub
from roberta_hub import RobertaHubInterface, RobertaModel

WORDS = [
    "time",
    "year",
    "people",
    "way",
    "day",
    "man",
    "thing",
    "woman",
    "life",
    "child",
    "world",
    "school",
    "state",
    "family",
    "student",
    "group",
]


def model() -> RobertaHubInterface:
    """Four layers of the base shape."""
    torch.manual_seed(0)
    known = roberta_hub.load_model("roberta.tiny")
    base = roberta_hub.RobertaConfig()
    config = dataclasses.replace(base, num_layers=4)
    return RobertaHubInterface(config, known.task, RobertaModel(config)).eval().optimize()


def texts(count: int, words: int, seed: int = 0) -> list[str]:
    """Different texts of that many one-token words."""
    draw = random.Random(seed)
    return [f"{i} " + " ".join(draw.choices(WORDS, k=words)) for i in range(count)]


def peak() -> float:
    """The most memory this process has held since `reset`, in MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1000


def reset() -> None:
    """Begin to count anew."""
    Path("/proc/self/clear_refs").write_text("5")


def measure(roberta: RobertaHubInterface) -> dict[str, list[tuple[int, float, float]]]:
    """(size, seconds, peak MB) along each axis."""
    ways: dict[str, dict[int, tuple[list[str], dict[str, Any]]]] = {
        "texts": {n: (texts(n, 30), {}) for n in (100, 200, 400, 800, 1600)},
        "words a text, 6,000 in all": {
            n: (texts(6000 // n, n), {}) for n in (10, 30, 100, 200, 400)
        },
        "tokens a batch": {
            n: (texts(400, 30), {"batch_tokens": n}) for n in (128, 256, 512, 1024, 2048, 4096)
        },
    }
    found: dict[str, list[tuple[int, float, float]]] = {}
    for axis, points in ways.items():
        found[axis] = []
        for size, (own, options) in points.items():
            reset()
            run = partial(roberta.features, own, pooling="cls", progress=False, **options)
            samples = by_turns({"run": run}, 3)
            found[axis].append((size, samples["run"].median, peak()))
            print(axis, found[axis][-1], flush=True)
    return found


def plot(found: dict[str, list[tuple[int, float, float]]]) -> None:
    """Three panels; in the first the straight line through the last point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    for axis, (name, points) in zip(axes, found.items(), strict=True):
        sizes, seconds, memory = zip(*points, strict=True)
        if name == "texts":
            axis.plot([0, sizes[-1]], [0, seconds[-1]], color="0.8", label="proportional")
        axis.plot(sizes, seconds, "o-", color="tab:red", label="seconds")
        axis.set(xlabel=name, ylim=(0, 1.2 * max(seconds)))
        twin = axis.twinx()
        twin.plot(sizes, memory, "s--", color="tab:blue", label="peak MB")
        twin.set_ylim(0, 1.3 * max(memory))
        axis.spines["top"].set_visible(False)
        twin.spines["top"].set_visible(False)
    axes[0].set_ylabel("seconds", color="tab:red")
    twin.set_ylabel("peak memory, MB", color="tab:blue")
    figure.savefig(RESULTS / "growth.png", dpi=150)


def main() -> None:
    """Measure, plot, and write the result."""
    found = measure(model())
    lines = []
    for name, points in found.items():
        lines += [f"## {name}", "", "| | seconds | peak MB |", "|--:|--:|--:|"]
        lines += [
            f"| {size:,} | {seconds:.2f} | {memory:,.0f} |" for size, seconds, memory in points
        ]
        lines += [""]
    page = (
        "# Growth\n\nFour layers of the base shape. Again: `python benchmarks/growth.py`.\n\n"
        + "\n".join(lines)
    )
    print(page)
    write("growth", page, {"about": about("torch"), "points": found})
    plot(found)


if __name__ == "__main__":
    main()
