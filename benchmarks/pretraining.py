"""Measures what pre-training is worth: roberta.tiny fine-tuned on MNLI, or from random weights.

    python benchmarks/pretraining.py             # three seeds, about an hour on two cores
    python benchmarks/pretraining.py --pairs 2000 --seeds 1

Both arms see the same pairs in the same order with the same settings, those of the step `mnli` of
`tools/train_tiny.py`, and are judged by their last weights on MNLI dev-matched. The pre-trained arm
begins at `runs/tiny/match/last`. Runs that are done are not done again. Writes
`benchmarks/results/pretraining.{md,json}`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
PAIRS = 60_000
EPOCHS = 2
ARMS = {
    "pre-trained": ["model=runs/tiny/match/last"],
    "random weights": ["model=roberta.tiny", "pretrained=false"],
}


def score(arm: str, seed: int, pairs: int, processes: int) -> float:
    """Train one arm with one seed; return its accuracy on MNLI dev-matched."""
    from lib.answers import entailment
    from train_tiny import learn

    import roberta_hub

    folder = ROOT / "runs" / "gate" / f"{arm.split()[0]}-{pairs}-{seed}"
    done = folder / "accuracy.json"
    if not done.is_file():
        settings = [*ARMS[arm], f"output={folder}", f"seed={seed}", f"data.limit={pairs}"]
        settings += [
            f"loop.max_epochs={EPOCHS}",
            "loop.max_updates=null",
            "optimizer.total_updates=null",
        ]
        settings += ["task.options.rehearse=null", "loop.evaluate_every=0", "data.valid=null"]
        settings += ["loop.find_unused_parameters=true"]
        if learn("mnli", processes, [*settings, "loop.progress=false"]):
            raise SystemExit(f"{arm}, seed {seed}: training failed")
        roberta = roberta_hub.load_model(folder / "last").eval()
        done.write_text(json.dumps(entailment(roberta, "mnli_dev_matched.tsv.xz").value))
    return float(json.loads(done.read_text()))


def main() -> None:
    """Train, compare, and write the result."""
    from lib.report import about, write

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    found: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for seed in range(1, options.seeds + 1):
        for arm in ARMS:
            found[arm].append(score(arm, seed, options.pairs, options.processes))
            print(f"{arm}, seed {seed}: {100 * found[arm][-1]:.1f} %", flush=True)
    gain = 100 * (mean(found["pre-trained"]) - mean(found["random weights"]))
    least = 100 * (min(found["pre-trained"]) - max(found["random weights"]))
    lines = ["| start | " + " | ".join(f"seed {s + 1}" for s in range(options.seeds)) + " | mean |"]
    lines += ["|---|" + "--:|" * (options.seeds + 1)]
    lines += [
        f"| {arm} | "
        + " | ".join(f"{100 * v:.1f} %" for v in values)
        + f" | {100 * mean(values):.1f} % |"
        for arm, values in found.items()
    ]
    page = (
        "# What pre-training is worth\n\nMNLI dev-matched accuracy of the same model after "
        "fine-tuning on the same "
        f"{options.pairs:,} pairs, {EPOCHS} epochs.\nAgain: `python benchmarks/pretraining.py`.\n\n"
        + "\n".join(lines)
        + f"\n\nGain: {gain:.1f} points in the mean, {least:.1f} between the worst pre-trained and "
        f"the best other. "
        "What `train/start.py` gives the first weights before any training counts as pre-training "
        "here.\n"
    )
    print(page)
    if options.seeds >= 3 and options.pairs == PAIRS:
        write("pretraining", page, {"about": about("torch"), "pairs": PAIRS, "accuracy": found})


if __name__ == "__main__":
    main()
