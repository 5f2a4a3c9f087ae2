"""Whether a row with a weight of 2 is learnt as two rows are, where a whole model is trained.

    python benchmarks/weighted_rows.py        # a quarter of an hour of one core

Every row of a table has a weight of 1, 2 or 3. `fit` learns it by `weight=`, and learns the table
in which each row stands as often. Compared are the shares of the test rows to which two models give
the same answer: of the two ways with one seed, and of two seeds with one way. Needs
`../shared/data` or $ROBERTA_HUB_SHARED. Writes `benchmarks/results/weighted_rows.{md,json}`.
"""

from __future__ import annotations

import os
import sys
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}

import torch  # noqa: E402
from lib import report  # noqa: E402
from lib.fit_sets import REPORTED, Row  # noqa: E402
from lib.other_sets import OTHERS  # noqa: E402

import roberta_hub  # noqa: E402

SETS = {"sst2": REPORTED["sst2"], "trec": OTHERS["trec"]}
SIZE, TESTED, SEEDS = 8, 500, (1, 2, 3)
WAYS = ("weights", "repeated rows")
Answered = list[str]


def weighted(rows: list[Row], way: str) -> list[dict[str, Any]]:
    """Rows with weights of 1, 2 and 3 in turn, or as many copies of each."""
    found = [
        {"text": text, "label": str(label), "weight": 1 + place % 3}
        for place, (text, label) in enumerate(rows)
    ]
    if way == "weights":
        return found
    return [{**row, "weight": 1} for row in found for _ in range(row["weight"])]


def learnt(rows: list[dict[str, Any]], texts: list[Any], seed: int) -> tuple[Answered, str]:
    """What `fit` answers to the test rows, and how it learnt."""
    mine = roberta_hub.fit(
        rows, text="text", label="label", weight="weight", seed=seed, progress=False
    )
    answers = mine.classify(texts, truncate=True, progress=False)
    taken = mine.fitted.choice.taken if mine.fitted.choice else ""
    return [str(answer.label) for answer in answers], taken


def agreement(one: Answered, other: Answered) -> float:
    """Percent of the test rows that have the same answer."""
    return 100 * mean(a == b for a, b in zip(one, other, strict=True))


def measure(name: str) -> dict[str, Any]:
    """Learn a table in both ways with each seed."""
    drawn = SETS[name].draw(SIZE, 1)
    test = drawn.test[:: max(1, len(drawn.test) // TESTED)]
    texts, labels = [text for text, _ in test], [str(label) for _, label in test]
    answers, taken = {}, set()
    for way in WAYS:
        for seed in SEEDS:
            answers[way, seed], how = learnt(weighted(drawn.learn, way), texts, seed)
            taken.add(how)
            print(name, way, seed, f"{agreement(answers[way, seed], labels):.1f}", flush=True)
    return {
        "set": name,
        "rows": len(drawn.learn),
        "tested": len(test),
        "ways": sorted(taken),
        **{
            f"accuracy, {way}": [agreement(answers[way, seed], labels) for seed in SEEDS]
            for way in WAYS
        },
        "two ways, one seed": [agreement(*(answers[way, seed] for way in WAYS)) for seed in SEEDS],
        "one way, two seeds": [
            agreement(answers[way, one], answers[way, other])
            for way in WAYS
            for one, other in combinations(SEEDS, 2)
        ],
    }


def page(found: list[dict[str, Any]]) -> str:
    """The page of results."""
    lines = [
        "# Weights and repeated rows",
        "",
        "`python benchmarks/weighted_rows.py` makes this page. roberta.tiny learns "
        f"{SIZE} rows a class with weights of 1, 2 and 3, and the same rows once, twice and three "
        "times: three seeds of one draw. Percent of the test rows.",
        "",
        "| set | accuracy, weights | accuracy, repeated rows | same answer: two ways, one seed | "
        "same answer: one way, two seeds |",
        "|---|--:|--:|--:|--:|",
    ]
    for row in found:
        cells = [
            ", ".join(f"{value:.1f}" for value in row[key])
            for key in ("accuracy, weights", "accuracy, repeated rows")
        ]
        cells += [f"{mean(row[key]):.1f}" for key in ("two ways, one seed", "one way, two seeds")]
        lines.append(f"| {row['set']} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *NOTES])


NOTES = [
    "- A weight of 2 teaches what two rows do: models of both ways differ as two seeds of one way.",
    "- They are not the same bits: repeated rows fall into other batches.",
]
"""What the numbers say; written after they were seen."""


def main() -> None:
    """Measure everything, and write the page."""
    torch.set_num_threads(1)
    found = [measure(name) for name in SETS]
    report.write("weighted_rows", page(found), {"about": report.about("torch"), "cells": found})


if __name__ == "__main__":
    main()
