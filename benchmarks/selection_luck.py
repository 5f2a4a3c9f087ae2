"""How much the best of several ways gains by luck, and what `fit` takes off its score for it.

    python benchmarks/selection_luck.py       # a minute of one core

Ways with known true accuracies answer the same rows; a part of what makes a row hard is common to
all of them. The true luck is what the chosen way reaches on these rows above its true accuracy,
less the mean of that over the ways, which is the rows' own. Writes
`benchmarks/results/selection_luck.{md,json}`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from statistics import NormalDist, mean
from types import SimpleNamespace
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from lib.report import about, write  # noqa: E402

from roberta_hub.train.fitting.method_selection import (  # noqa: E402
    MethodAnswers,
    selection_optimism,
    untrained_answers,
)

ACCURACY = 0.8
COMMON = 0.7
"""Share of the variance of a row's difficulty that all ways have in common."""


def draw(ways: int, rows: int, spread: float, generator: torch.Generator) -> tuple[Any, Any]:
    """True accuracies (ways,), and who answers what rightly (ways, rows)."""
    true = (ACCURACY + spread * torch.randn(ways, generator=generator)).clamp(0.5, 0.98)
    bars = torch.tensor([NormalDist().inv_cdf(float(one)) for one in true])
    shared = COMMON**0.5 * torch.randn(rows, generator=generator)
    own = (1 - COMMON) ** 0.5 * torch.randn(ways, rows, generator=generator)
    return true, shared + own < bars[:, None]


def lucks(right: torch.Tensor, true: torch.Tensor) -> tuple[float, float]:
    """The true luck of the best way on these rows, and `fit`'s estimate of it."""
    ways, rows = right.shape
    wanted = torch.nn.functional.one_hot(torch.zeros(rows, dtype=torch.long), 2).double()
    learner: Any = SimpleNamespace(
        kind="single_label", shares=None, encoded=SimpleNamespace(targets=wanted)
    )
    found: list[MethodAnswers] = [
        untrained_answers(
            str(way), range(rows), torch.where(right[way, :, None], wanted, 1 - wanted)
        )
        for way in range(ways)
    ]
    gains = right.double().mean(1) - true
    best = int(right.double().mean(1).argmax())
    return float(gains[best] - gains.mean()), selection_optimism(found, learner)


def measure(draws: int) -> list[dict[str, float]]:
    """Points of accuracy, by the number of ways, of rows, and how far the ways differ."""
    generator, found = torch.Generator().manual_seed(1), []
    for ways, rows, spread in itertools.product((2, 4, 8), (16, 64, 200), (0.0, 0.05)):
        pairs = []
        for _ in range(draws):
            true, right = draw(ways, rows, spread, generator)
            pairs.append(lucks(right, true))
        real, taken = (100 * mean(column) for column in zip(*pairs, strict=True))
        found.append(
            {"ways": ways, "rows": rows, "spread": 100 * spread, "true": real, "taken": taken}
        )
    return found


def page(found: dict[str, Any]) -> str:
    """The table."""
    lines = ["# What the best of several ways gains by luck", ""]
    lines += [f"Points of accuracy, means of {found['draws']} drawn tables.", ""]
    lines += ["| ways | rows | they differ by (sd) | true luck | `fit` takes off |"]
    lines += ["|--:|--:|--:|--:|--:|"]
    lines += [
        f"| {one['ways']} | {one['rows']} | {one['spread']:.0f} | {one['true']:.1f} | "
        f"{one['taken']:.1f} |"
        for one in found["luck"]
    ]
    alike, apart = (
        sum(one["taken"] for one in kind) / sum(one["true"] for one in kind)
        for kind in (
            [one for one in found["luck"] if not one["spread"]],
            [one for one in found["luck"] if one["spread"]],
        )
    )
    lines += [
        "",
        f"Taken off: {100 * alike:.0f} % of the luck where the ways are equally good, and",
    ]
    lines += [f"{100 * apart:.0f} % where they differ."]
    return "\n".join(lines)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=150)
    draws = parser.parse_args().draws
    found = {"about": about("roberta-hub", "torch"), "draws": draws, "luck": measure(draws)}
    print(page(found))
    write("selection_luck", page(found), found)


if __name__ == "__main__":
    main()
