"""Measures `roberta-hub fit` beside TF-IDF with logistic regression, on two sets of film reviews.

    python benchmarks/fit.py                       # 400 rows, 4,000 rows and all: an hour or more
    python benchmarks/fit.py --rows 400            # a few minutes
    python benchmarks/fit.py --model roberta.base

Each time a CSV with that many rows, drawn by a seed, goes through the command in a process of its
own, as a person would type it; a tenth of the rows is held out by it and not learnt. The baseline
is scikit-learn's TfidfVectorizer on words and pairs of words, then LogisticRegression; it learns
all rows, the held-out tenth too. Both answer the set's own test rows, which neither has seen:
SST-2's dev.tsv, and test.tsv of the counterfactual IMDB reviews. "Terrible." and "A joy to watch."
then go through `roberta-hub classify`.

The sets are those of `../shared/data/tasks` (or under $ROBERTA_HUB_SHARED). Writes
`benchmarks/results/fit.{md,json}`; what is measured again takes the place of what was there.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
SETS = {
    "imdb": ("imdb_counterfactual/train.tsv", "imdb_counterfactual/test.tsv"),
    "sst2": ("sst2/train.tsv", "sst2/dev.tsv"),
}
NAMES = {"0": "negative", "1": "positive", "Negative": "negative", "Positive": "positive"}
ASKED = {"Terrible.": "negative", "A joy to watch.": "positive"}
SEED = 1

Rows = list[tuple[str, str]]
"""(text, label) of each row."""


def rows_of(file: str) -> Rows:
    """Read a file of a set, in a seeded order; the labels get names."""
    from roberta_hub.train.fitting.examples import read_examples

    found = read_examples(SHARED / "data/tasks" / file)
    rows = [(str(e.text), NAMES[e.labels[0]]) for e in (*found.train, *found.valid)]
    random.Random(SEED).shuffle(rows)
    return rows


def command(*words: str, given: str = "") -> tuple[str, float, float]:
    """Run `roberta-hub`: (what it prints, seconds by the clock, CPU seconds)."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "roberta_hub", *words],
        input=given,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"roberta-hub {' '.join(words)}: {done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, seconds, cpu


def ours(learnt: Rows, test: Rows, model: str, work: Path) -> dict[str, Any]:
    """Make a classifier with the command, and ask it."""
    import roberta_hub

    with (work / "reviews.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *learnt])
    folder = str(work / "mine")
    _, seconds, cpu = command(
        "fit", str(work / "reviews.csv"), "--output", folder, "--model", model
    )
    answers, _, _ = command("classify", "-m", folder, given="\n".join(ASKED) + "\n")
    labels = [json.loads(line)["label"] for line in answers.splitlines()]
    mine = roberta_hub.load_model(folder)
    found = mine.classify([text for text, _ in test], truncate=True, progress=False)
    right = sum(a.label == label for a, (_, label) in zip(found, test, strict=True))
    return {
        "accuracy": right / len(test),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "answers": dict(zip(ASKED, labels, strict=True)),
    }


def baseline(learnt: Rows, test: Rows) -> dict[str, float]:
    """Fit TF-IDF with logistic regression, and ask it."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    began = time.perf_counter()
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    pipeline = make_pipeline(words, LogisticRegression(C=10, max_iter=1000))
    pipeline.fit(*zip(*learnt, strict=True))
    accuracy = pipeline.score(*zip(*test, strict=True))
    return {"accuracy": float(accuracy), "seconds": time.perf_counter() - began}


def page(numbers: dict[str, Any]) -> str:
    """Write the table."""
    lines = [
        "# Your own classifier",
        "",
        "`roberta-hub fit reviews.csv` beside TF-IDF with logistic regression (scikit-learn), "
        "accuracy on test rows that neither has seen. `python benchmarks/fit.py` says how.",
        "",
        "| model | set | rows | fit | TF-IDF | most frequent label | fit takes | CPU "
        '| "Terrible." | "A joy to watch." |',
        "|---|---|--:|--:|--:|--:|--:|--:|---|---|",
    ]
    for found in numbers["runs"].values():
        own, other = found["fit"], found["tfidf"]
        lines.append(
            f"| {found['model']} | {found['set']} | {found['rows']:,} "
            f"| {100 * own['accuracy']:.1f} | {100 * other['accuracy']:.1f} "
            f"| {100 * found['most_frequent']:.1f} | {own['seconds']:.0f} s "
            f"| {own['cpu_seconds']:.0f} s | {' | '.join(own['answers'].values())} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run what is asked, and write what is measured after each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", default=["400", "4000", "all"], metavar="N|all")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--model", default="roberta.tiny")
    given = parser.parse_args()
    from lib import report

    file = report.RESULTS / "fit.json"
    numbers = json.loads(file.read_text()) if file.exists() else {"runs": {}}
    for name in given.sets:
        learnt, test = map(rows_of, SETS[name])
        for asked in given.rows:
            some = learnt if asked == "all" else learnt[: int(asked)]
            if asked != "all" and len(some) < int(asked):
                continue  # the set has not so many
            common = max(NAMES.values(), key=[label for _, label in some].count)
            with tempfile.TemporaryDirectory() as work:
                found = {
                    "model": given.model,
                    "set": name,
                    "rows": len(some),
                    "fit": ours(some, test, given.model, Path(work)),
                    "tfidf": baseline(some, test),
                    "most_frequent": sum(label == common for _, label in test) / len(test),
                }
            numbers["runs"][f"{given.model} {name} {len(some)}"] = found
            print(page(numbers).splitlines()[-1], flush=True)
            numbers["about"] = report.about("torch", "scikit-learn")
            report.write("fit", page(numbers), numbers)


if __name__ == "__main__":
    main()
