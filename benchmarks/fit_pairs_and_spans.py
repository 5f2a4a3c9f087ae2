"""What two more of `fit`'s methods are worth: cosines of pairs, and tokens that are not seen.

    python benchmarks/fit_pairs_and_spans.py        # half an hour of one core; resumes

Before it learns scored pairs, `fit` trains the model on the cosines of its own vectors
(train/fitting/pair_cosines.py). Where it learns spans of short texts, an eighth of the tokens is
hidden (train/fitting/tagger.py). Each table is learnt with the method and without it, from
roberta.tiny, two draws each. Each cell is a process of its own with one thread, and is kept in
`runs/fit_pairs_and_spans`. Needs `../shared/data` or $ROBERTA_HUB_SHARED. Writes
`benchmarks/results/fit_pairs_and_spans.{md,json}`.
"""

from __future__ import annotations

import json
import os
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}

import torch  # noqa: E402
from entities import of_fit, rows_of  # noqa: E402
from fit_methods import MODEL, TABLES, replaced  # noqa: E402
from lib import report  # noqa: E402
from lib.fit_engines import ours  # noqa: E402
from lib.fit_scores import judge  # noqa: E402

from roberta_hub.train.fitting import learning, tagger  # noqa: E402

RUNS = ROOT / "runs/fit_pairs_and_spans"
SEEDS = (1, 2)
PAIRS = {"stsb": 100, "nearness": 100, "follows": 100}
"""Scored pairs, and how many are learnt: people's, and two made of others' labels."""
SPANS = (200, 600)
"""Rows of NLU++ that are learnt; the others are the test."""


def of_pairs(name: str, seed: int, used: bool) -> float:
    """Spearman of the test pairs, times 100."""
    table = TABLES[name]
    drawn = table.draw(PAIRS[name], seed)
    if used:
        found = ours(drawn, table, MODEL, seed)
    else:
        with replaced(learning._Table, "_compare", _only_the_cosine):
            found = ours(drawn, table, MODEL, seed)
    return 100 * judge(found, drawn, table)["spearman"]


def _only_the_cosine(table: Any) -> float:
    """Let the cosine stand beside the others in the choice, and teach nothing."""
    rows = table.examples.train
    cosines = torch.tensor(learning.pair_cosines(table.roberta, rows), dtype=torch.float64)
    name = learning.METHOD_COSINE
    table.untrained = learning.untrained_answers(name, table.train, cosines[:, None])
    return 0.0


def of_spans(rows: int, seed: int, used: bool) -> float:
    """F1 of the test's spans, times 100."""
    found = rows_of("intents/nlupp_banking.jsonl")
    random.Random(seed).shuffle(found)
    with replaced(tagger, "HIDDEN", tagger.HIDDEN if used else 0.0):
        return 100 * of_fit(found[:rows], found[600:], seed, MODEL)["f1"]


def cell(name: str, seed: int, used: bool) -> float:
    """Learn a table with a method or without it."""
    torch.set_num_threads(1)
    if name in PAIRS:
        return of_pairs(name, seed, used)
    return of_spans(int(name.split()[-1]), seed, used)


def measured(name: str, seed: int, used: bool) -> float:
    """Measure a cell in a process of its own, or read what is kept."""
    path = RUNS / f"{name}_{seed}_{'with' if used else 'without'}.json".replace(" ", "_")
    if not path.is_file():
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as alone:
            found = alone.submit(cell, name, seed, used).result()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found), encoding="utf-8")
        print(name, seed, used, f"{found:.1f}", flush=True)
    return float(json.loads(path.read_text(encoding="utf-8")))


def page(found: dict[str, list[tuple[float, float]]]) -> str:
    """The page of results."""
    lines = [
        "# Cosines of pairs, and hidden tokens",
        "",
        f"`python benchmarks/fit_pairs_and_spans.py` makes this page. `fit` from {MODEL} with a "
        "method and without it, two draws of each table: Spearman of scored pairs, F1 of spans, "
        "both times 100.",
        "",
        "| table | with | without | points |",
        "|---|--:|--:|--:|",
    ]
    for name, both in found.items():
        used, left = (", ".join(f"{pair[k]:.1f}" for pair in both) for k in (0, 1))
        lines.append(f"| {name} | {used} | {left} | {mean(a - b for a, b in both):+.1f} |")
    return "\n".join([*lines, "", *NOTES])


NOTES = [
    "- The cosines gain on STS-B, people's scores, and lose on scores made of labels of inference "
    "(follows). With two draws neither is sure. `nearness` is answered by the cosine itself.",
    "- Hidden tokens are worth nothing on NLU++. They stay for two other sets of short texts, on "
    "which they were chosen: 2 and 3 points of F1 (docs/background/decisions.md).",
]
"""What the numbers say; written after they were seen."""


def main() -> None:
    """Measure what is missing, and write the page."""
    tables = [*PAIRS, *(f"NLU++ slots, rows {rows}" for rows in SPANS)]
    found = {
        name: [(measured(name, seed, True), measured(name, seed, False)) for seed in SEEDS]
        for name in tables
    }
    about = report.about("torch")
    report.write("fit_pairs_and_spans", page(found), {"about": about, "points": found})


if __name__ == "__main__":
    main()
