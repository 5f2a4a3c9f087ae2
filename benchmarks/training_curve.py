"""Compares what is learnt by two checkouts of this repository, update by update, over three seeds.

    python benchmarks/training_curve.py --before ../older     # a checkout; a quarter of an hour
    python benchmarks/training_curve.py --before ../older --updates 20 --seeds 1    # a look

The weights that roberta.tiny began with (`tools/train_tiny.py prepare`, then `begin`) learn pairs
of `../shared/data` (or $ROBERTA_HUB_SHARED), 64 an update, with dropout; the same pairs in the same
order for both, in bfloat16 where the CPU has it. Dropout differs, so the curves are two draws: they
are the same if they differ no more than seeds do. Runs are kept in `runs/curves` by their commit,
and a run that is done is not done again. Writes `benchmarks/results/training_curve.{md,json}`.
"""

from __future__ import annotations

import argparse
import csv
import lzma
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
FOLDER, BEGIN = ROOT / "runs" / "curves", ROOT / "runs" / "tiny" / "begin"
PAIRS, HELD_OUT, PARTS = 64, 1000, 4


def prepare(updates: int) -> None:
    """Draw the pairs that are learnt, and those that are held out."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with lzma.open(SHARED / "data/nli/train.tsv.xz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    drawn = random.Random(0).sample(rows[1:], HELD_OUT + PAIRS * updates)
    for name, some in (("valid", drawn[:HELD_OUT]), ("train", drawn[HELD_OUT:])):
        lines = ["\t".join(row[:3]) for row in [rows[0], *some]]
        (FOLDER / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def run(name: str, checkout: Path, seed: int, updates: int, precision: str) -> dict[str, Any]:
    """Train by a checkout's own command; return the loss of every update, and what it answers."""
    output = FOLDER / f"{name}-{updates}-{seed}"
    if not (output / "valid.csv").is_file():
        shutil.rmtree(output, ignore_errors=True)
        settings = [
            "finetune=mnli",
            f"model={BEGIN}",
            "task.head=curve",
            f"data.train={FOLDER}/train.tsv",
            f"data.valid={FOLDER}/valid.tsv",
            "data.format=tsv",
            "data.columns={sentence: premise, sentence2: hypothesis, label: label}",
            "data.labels=[contradiction, neutral, entailment]",
            f"output={output}",
            f"seed={seed}",
            "optimizer.lr=1e-4",
            f"optimizer.warmup_updates={updates // 10}",
            f"optimizer.total_updates={updates}",
            f"batch.batch_size={PAIRS}",
            "batch.max_tokens=null",
            "batch.update_freq=1",
            f"loop.max_updates={updates}",
            "loop.max_epochs=null",
            "loop.save_every=100000",
            f"loop.precision={precision}",
            "loop.log_every=1",
            "loop.progress=false",
        ]
        command = [sys.executable, "-m", "roberta_hub", "train", *settings]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        if subprocess.run(command, env=environment, cwd=checkout).returncode:
            sys.exit(f"{name}, seed {seed}: training failed")
    with (output / "log.csv").open(encoding="utf-8") as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    with (output / "valid.csv").open(encoding="utf-8") as file:
        accuracy = float(list(csv.DictReader(file))[-1]["accuracy"])
    return {"losses": losses, "accuracy": accuracy}


def parts(losses: list[float]) -> list[float]:
    """Return the mean loss of each quarter of the updates."""
    size = max(1, len(losses) // PARTS)
    return [mean(losses[start : start + size]) for start in range(0, PARTS * size, size)]


def spread(values: list[float], digits: int) -> str:
    """Write a mean and a standard deviation."""
    off = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{off}"


def main() -> None:
    """Train, compare, and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="an older checkout")
    parser.add_argument("--updates", type=int, default=120)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
    from lib.report import about, write
    from training_step import commit

    from roberta_hub.model.kernels import lacks

    if not BEGIN.is_dir():
        sys.exit(f"{BEGIN} is not there: python tools/train_tiny.py prepare, then begin")
    precision = "no" if lacks("bfloat16") else "bf16"
    prepare(given.updates)
    checkouts = {"before": given.before.resolve(), "now": ROOT}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in checkouts}
    for seed in range(1, given.seeds + 1):
        for name, checkout in checkouts.items():
            which = commit(checkout).split(",")[0]
            found[name].append(run(which, checkout, seed, given.updates, precision))
    size = given.updates // PARTS
    head = " | ".join(f"{size * n + 1}-{size * (n + 1)}" for n in range(PARTS))
    lines = [f"| mean loss of updates | {head} | held-out pairs right |", "|---|" + "--:|" * 5]
    for name, runs in found.items():
        columns = [
            spread(list(part), 3) for part in zip(*(parts(r["losses"]) for r in runs), strict=True)
        ]
        right = spread([100 * r["accuracy"] for r in runs], 1)
        lines.append(f"| {name} | {' | '.join(columns)} | {right} % |")
    apart = [
        mean(a - b for a, b in zip(parts(one["losses"]), parts(other["losses"]), strict=True))
        for one, other in zip(found["now"], found["before"], strict=True)
    ]
    page = (
        "# What an update learns, beside an older commit\n\nThe weights that roberta.tiny began "
        f"with, {PAIRS} pairs an update, dropout 0.1, precision `{precision}`; means ± standard "
        f"deviations of {given.seeds} seeds. Before: {commit(given.before)}. Again: `python "
        "benchmarks/training_curve.py --before CHECKOUT`.\n\n"
        + "\n".join(lines)
        + "\n\nSeed by seed, now over before, mean difference of the loss: "
        + ", ".join(f"{value:+.3f}" for value in apart)
        + "."
    )
    print(page)
    write("training_curve", page, {"about": about("torch"), "runs": found})


if __name__ == "__main__":
    main()
