"""Measures roberta.tiny's labels without training: by entailment, by meaning, and by both.

    python benchmarks/zero_shot.py                   # all sets, about seven minutes of one core
    python benchmarks/zero_shot.py --sets SST-2      # some, in the place of what was there

By entailment is what `zero_shot` computed in 0.2.0, and transformers' pipeline computes. The sets
are those of `lib/zero_shot_sets.py`: nine are reported; the others chose the constants that are
recorded with the model, and stand below, apart. For each way: accuracy, ECE (10 bins), log loss and
seconds of the processor, of one thread; where there are more labels than the ten of which `both`
asks entailment, also what it is when asked of all.

The data are those of `../shared/data` (or under $ROBERTA_HUB_SHARED), and our own in
`tests/data/zero_shot.json`. Writes `benchmarks/results/zero_shot.{md,json}`; everything but the
seconds is the same each time.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from lib import report  # noqa: E402
from lib.zero_shot_sets import CHOOSE, REPORT, Labelled  # noqa: E402

WAYS = ("entailment", "meaning", "both")
ALL = "both, all asked"
BINS = 10
LEAST = 1e-6
"""Least probability of the right label that the log loss counts."""


def scores_of(predictions: list[Any], wanted: list[str]) -> dict[str, float]:
    """Compute accuracy, ECE and log loss of predictions."""
    right = [p.label == label for p, label in zip(predictions, wanted, strict=True)]
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for prediction, hit in zip(predictions, right, strict=True):
        bins[min(BINS - 1, int(prediction.score * BINS))].append((prediction.score, hit))
    off = [abs(sum(score - hit for score, hit in own)) for own in bins]
    losses = [
        -math.log(max(LEAST, p.scores[label])) for p, label in zip(predictions, wanted, strict=True)
    ]
    return {
        "accuracy": round(sum(right) / len(right), 4),
        "ece": round(sum(off) / len(right), 4),
        "log_loss": round(sum(losses) / len(losses), 4),
    }


def measured(roberta: Any, drawn: Labelled, ways: Sequence[str]) -> dict[str, Any]:
    """Ask a set by each way; "both, all asked" only where that is another one."""
    from roberta_hub.inference import zero_shot

    found: dict[str, Any] = {"texts": len(drawn.texts), "labels": len(drawn.labels)}
    for way in ways:
        asked: Any = {"by": way.split(",")[0], "truncate": True, "progress": False}
        nearest = zero_shot.ENTAILMENT_LABELS
        if way == ALL:
            if len(drawn.labels) <= nearest:
                continue
            zero_shot.ENTAILMENT_LABELS = len(drawn.labels)
        before = time.process_time()
        predictions = roberta.zero_shot(drawn.texts, drawn.labels, **asked)
        seconds = time.process_time() - before
        zero_shot.ENTAILMENT_LABELS = nearest
        found[way] = {**scores_of(predictions, drawn.wanted), "cpu_seconds": round(seconds, 2)}
    return found


def table(found: dict[str, Any]) -> list[str]:
    """Write the rows of some sets, and their mean."""
    lines = [
        "| set | texts | labels | accuracy: entailment | meaning | both | ECE | | | log loss | | "
        "| CPU seconds | | |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, own in found.items():
        cells = [f"{100 * own[way]['accuracy']:.1f}" for way in WAYS]
        cells += [f"{own[way][what]:.2f}" for what in ("ece", "log_loss") for way in WAYS]
        cells += [f"{own[way]['cpu_seconds']:.1f}" for way in WAYS]
        lines.append(f"| {name} | {own['texts']} | {own['labels']} | {' | '.join(cells)} |")

    if not found:
        return lines

    def mean(what: str, way: str) -> float:
        return sum(own[way][what] for own in found.values()) / len(found)

    cells = [f"**{100 * mean('accuracy', way):.1f}**" for way in WAYS]
    cells += [f"{mean(what, way):.2f}" for what in ("ece", "log_loss") for way in WAYS]
    cells += [f"{mean('cpu_seconds', way):.1f}" for way in WAYS]
    return [*lines, f"| mean | | | {' | '.join(cells)} |"]


def page(numbers: dict[str, Any]) -> str:
    """Write both tables, and what they come to."""
    reported = {name: numbers["reported"][name] for name in REPORT if name in numbers["reported"]}
    chosen = {name: numbers["chosen_on"][name] for name in CHOOSE if name in numbers["chosen_on"]}
    lines = [
        "# Labels without training",
        "",
        f"`zero_shot` of roberta.tiny, {numbers['settings']}. Entailment is what 0.2.0 answered. "
        "Three columns each: by entailment, by meaning, by both. One thread. Again: "
        "`python benchmarks/zero_shot.py`.",
        "",
        *table(reported),
    ]
    better = [max(o["entailment"]["accuracy"], o["meaning"]["accuracy"]) for o in reported.values()]
    lines += [
        "",
        f"The mean of the better of entailment and meaning on each set: "
        f"{100 * sum(better) / max(1, len(better)):.1f}.",
        "",
    ]
    for name, own in reported.items():
        if whole := own.get(ALL):
            lines.append(
                f"- {name}: entailment asked of all {own['labels']} labels instead of the ten "
                f"nearest gives {100 * whole['accuracy']:.1f} (ECE {whole['ece']:.2f}, log loss "
                f"{whole['log_loss']:.2f}) in {whole['cpu_seconds']:.1f} s."
            )
    lines += [
        "",
        "## What chose the constants",
        "",
        "Weight, temperature, scale and the label's two forms were chosen on these, each kind of "
        "set counting alike: intents, topics, moods, others. Moods had to lose nothing.",
        "",
        *table(chosen),
        "",
        "Intents: BANKING77, groups that share none; the 27 of the second table together were a "
        "set too when the constants were chosen. NLU++: rows of one intent, put into words. "
        "Questions: XQuAD's, by what they ask for. Subject lines, headlines, reviews, feelings "
        "and requests are our own. Names: WNUT-17. Domains: first lines of the Schema-Guided "
        "Dialogues. Moods: sentences of Slate with a word of praise or blame. Articles: XQuAD's "
        "questions, by twelve titles. Wikipedia: paragraphs by eight kinds of things. Reviews of "
        "films are cut at the model's 512 tokens.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure what is asked, and write it after each set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = [*REPORT, *CHOOSE]
    parser.add_argument("--sets", nargs="+", default=every, choices=every)
    given = parser.parse_args()
    import torch

    import roberta_hub

    torch.set_num_threads(1)
    roberta = roberta_hub.load_model("roberta.tiny").eval()
    assert roberta.zero_shot_settings is not None
    file = report.RESULTS / "zero_shot.json"
    numbers = json.loads(file.read_text()) if file.exists() else {"reported": {}, "chosen_on": {}}
    numbers["settings"] = roberta.zero_shot_settings.summary()
    for name in given.sets:
        if name in REPORT:
            numbers["reported"][name] = measured(roberta, REPORT[name](), (*WAYS, ALL))
        else:
            numbers["chosen_on"][name] = measured(roberta, CHOOSE[name](), WAYS)
        numbers["about"] = report.about("torch")
        report.write("zero_shot", page(numbers), numbers)
        print(name, flush=True)


if __name__ == "__main__":
    main()
