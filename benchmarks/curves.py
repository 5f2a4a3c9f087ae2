"""Draws how roberta.tiny learnt, step by step, from the logs of `tools/train_tiny.py`.

    python benchmarks/curves.py

Reads `runs/tiny/*/log.csv`, writes `benchmarks/results/tiny_curves.png`.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
LAST = "loop.max_updates="
SMOOTHED = 20
"""A point is the mean of this many lines of a log, ten updates each."""


def curve(step: str, updates: int, column: str, begin: float) -> tuple[list[float], list[float]]:
    """Millions of tokens read since the first step, and a column's running mean.

    Both go up to an update.
    """
    with (ROOT / "runs/tiny" / step / "log.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get(column) and row["tokens"]]
    rows = [row for row in rows if int(row["update"]) <= updates]
    seen, values = [], []
    for row in rows:
        begin += float(row["tokens"]) / 1e6
        seen.append(begin)
        values.append(float(row[column]))
    width = min(SMOOTHED, len(values))
    means = [sum(values[i : i + width]) / width for i in range(len(values) - width + 1)]
    return seen[width - 1 :], means


def main() -> None:
    """Draw both panels."""
    import matplotlib
    from train_tiny import STEPS

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    panels: Any
    figure, panels = plt.subplots(2, 1, figsize=(8, 5.5), sharex=True, layout="constrained")
    language, pairs = panels
    begin = 0.0
    for number, (step, settings) in enumerate(STEPS.items()):
        colour = f"C{number}"
        with_pairs = "finetune=mnli" in settings
        updates = next(int(s.partition("=")[2]) for s in settings if s.startswith(LAST))
        seen, loss = curve(step, updates, "lm_loss" if with_pairs else "loss", begin)
        language.plot(seen, loss, color=colour, label=step)
        if with_pairs:
            pairs.plot(*_percent(curve(step, updates, "correct", begin)), color=colour)
        begin = seen[-1]
    language.set_ylabel("loss of masked tokens")
    language.set_ylim(top=8)
    language.legend(frameon=False, ncols=6, fontsize=8)
    pairs.axhline(100 / 3, color="0.7", linewidth=1, linestyle="--")
    pairs.annotate("chance", (0, 100 / 3), xytext=(0, 3), textcoords="offset points", color="0.5")
    pairs.set_ylabel("pairs right, %, while trained on")
    pairs.set_xlabel("tokens read, millions")
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(ROOT / "benchmarks/results/tiny_curves.png", dpi=150)


def _percent(found: tuple[list[float], list[float]]) -> tuple[list[float], list[float]]:
    return found[0], [100 * value for value in found[1]]


if __name__ == "__main__":
    main()
