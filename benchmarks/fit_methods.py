"""What each of `fit`'s methods is worth: the same rows learnt with it and without it.

    python benchmarks/fit_methods.py                      # an hour of one core
    python benchmarks/fit_methods.py --sets trec --seed 2

Eight rows a class, from roberta.tiny. Each set is a process of its own with one thread, and is kept
in `runs/fit_methods`: a run that is stopped resumes where it was. Nothing is chosen here, so that
each set judges what the others, or none of them, chose. Needs `../shared/data` or
$ROBERTA_HUB_SHARED. Writes `benchmarks/results/fit_methods.{md,json}`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}

import numpy as np  # noqa: E402
import torch  # noqa: E402
from lib import report  # noqa: E402
from lib.fit_engines import by_regression, by_training, ours, regression  # noqa: E402
from lib.fit_scores import Answers, ece  # noqa: E402
from lib.fit_sets import REPORTED, TUNING, Drawn, Table  # noqa: E402
from lib.other_sets import OTHERS  # noqa: E402

from roberta_hub.train.fitting import learning, method_selection  # noqa: E402
from roberta_hub.train.fitting.calibration import fit_temperature  # noqa: E402
from roberta_hub.train.fitting.learner import Learner  # noqa: E402

MODEL, SIZE, TESTED = "roberta.tiny", 8, 600
RUNS = ROOT / "runs/fit_methods"
TABLES = {**REPORTED, **TUNING, **OTHERS}
SETS = (
    *("trec", "mr", "sst5", "subj", "emotion", "hate", "irony", "offensive"),
    *("sst2", "banking10", "moods", "premises", "speakers"),
)
OFF = {
    "no words of the labels": (learning._Table, "_words", lambda table: None),
    "the head begins at random": (Learner, "set_head", lambda learner, layer, scale: None),
    "the whole regression to begin at": (learning, "START_SCALE", 1.0),
    "the embeddings learn too": (learning, "learns_embeddings", lambda rows: True),
}
"""What is put in the place of a method where a whole model is trained."""


@contextmanager
def replaced(place: Any, name: str, other: Any) -> Iterator[None]:
    """Put something in the place of an attribute, for a while."""
    kept = getattr(place, name)
    setattr(place, name, other)
    try:
        yield
    finally:
        setattr(place, name, kept)


def accuracy(answers: Answers, drawn: Drawn) -> float:
    """Percent of the test rows that are right."""
    return 100 * float((answers.values.argmax(1) == _wanted(answers, drawn)).mean())


def _wanted(answers: Answers, drawn: Drawn) -> np.ndarray:
    return np.array([answers.labels.index(str(label)) for _, label in drawn.test])


def tempered(answers: Answers, factor: float) -> Answers:
    """Divide the logits by a further temperature."""
    logits = torch.tensor(answers.values).clamp(min=1e-9).log() / factor
    return Answers(answers.labels, logits.softmax(-1).numpy(), answers.cpu_seconds)


def chosen(drawn: Drawn, table: Table, seed: int) -> dict[str, Any]:
    """Fit as users do, and note what choice, temperature and score were made of."""
    kept: dict[str, Any] = {"raw": {}}
    best, optimism = method_selection.best_method, method_selection.selection_optimism
    answered = method_selection.MethodSelector._answered

    def note_best(found: Any, learner: Any) -> Any:
        rows = method_selection.common_rows(found)
        kept["found"], kept["learner"] = found, learner
        kept["scores"] = [method_selection.measure_of(one, rows, learner) for one in found]
        kept["taken"] = best(found, learner)
        return kept["taken"]

    def note_logits(self: Any, way: Any, folds: Any, logits: Any) -> Any:
        kept["raw"][way.name] = logits.clone()
        return answered(self, way, folds, logits)

    def note_optimism(found: Any, learner: Any) -> float:
        kept["optimism"] = optimism(found, learner)
        return float(kept["optimism"])

    with (
        replaced(learning, "best_method", note_best),
        replaced(method_selection.MethodSelector, "_answered", note_logits),
        replaced(learning, "selection_optimism", note_optimism),
    ):
        answers = ours(drawn, table, MODEL, seed)
    out: dict[str, Any] = {
        "fit": accuracy(answers, drawn),
        "way": answers.way,
        "ece": ece(answers.values, _wanted(answers, drawn)),
        "seconds": answers.cpu_seconds,
        "optimism": 100 * kept.get("optimism", 0.0),
    }
    if "taken" in kept:
        taken, learner = kept["taken"], kept["learner"]
        out["cross-validated"] = [100 * score for score in kept["scores"]]
        targets = learner.encoded.targets[taken.rows]
        plain = fit_temperature(
            kept["raw"][taken.way.name],
            targets,
            learner.kind,
            1.0,
            learner.encoded.weights[taken.rows],
        )
        for name, value in (("prior at 1", plain), ("no temperature", 1.0)):
            other = tempered(answers, value / taken.temperature)
            out[f"ece, {name}"] = ece(other.values, _wanted(other, drawn))
    return out


def cell(given: tuple[str, int]) -> dict[str, Any]:
    """Learn a draw of a set in every way."""
    name, seed = given
    torch.set_num_threads(1)
    table = TABLES[name]
    drawn = table.draw(SIZE, seed)
    step = max(1, len(drawn.test) // TESTED)
    drawn = Drawn(drawn.learn, drawn.test[::step])
    out = {"set": name, "seed": seed, "rows": len(drawn.learn), "tested": len(drawn.test)}
    out |= chosen(drawn, table, seed)
    out["LogisticRegression"] = accuracy(regression(drawn, table, MODEL, seed), drawn)
    out["regression"] = accuracy(by_regression(drawn, table, MODEL, seed), drawn)
    out["training"] = accuracy(by_training(drawn, table, MODEL, seed), drawn)
    for way, patch in OFF.items():
        with replaced(*patch):
            answers = by_training(drawn, table, MODEL, seed)
            out[way] = accuracy(answers, drawn)
    return out


def measured(name: str, seed: int) -> dict[str, Any]:
    """Measure a cell in a process of its own, or read what is kept."""
    path = RUNS / f"{name}_{seed}.json"
    if not path.is_file():
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as alone:
            found = alone.submit(cell, (name, seed)).result()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found) + "\n", encoding="utf-8")
        print(json.dumps(found), flush=True)
    return dict(json.loads(path.read_text(encoding="utf-8")))


def scattered(values: list[float]) -> str:
    """A mean with its standard error."""
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{mean(values):+.1f} ± {error:.1f}"


def _difference(title: str, found: list[dict[str, Any]], one: str, other: str) -> str:
    points = {row["set"]: row[one] - row[other] for row in found}
    more = [f"{name} {value:+.1f}" for name, value in points.items() if value >= 1]
    less = [f"{name} {value:+.1f}" for name, value in points.items() if value <= -1]
    told = [scattered([*points.values()]), ", ".join(more) or "none", ", ".join(less) or "none"]
    return f"| {title} | {' | '.join(told)} |"


def page(found: list[dict[str, Any]]) -> str:
    """The page of results."""
    told = [row for row in found if "cross-validated" in row]
    by_best = [
        {**row, "best": row["regression" if first > last else "training"]}
        for row in told
        for first, last in [row["cross-validated"][:2]]
    ]
    off = [
        _difference("the labels' words", found, "training", "no words of the labels"),
        _difference("a regression to begin at", found, "training", "the head begins at random"),
        _difference("three tenths of it", found, "training", "the whole regression to begin at"),
        _difference("embeddings that stay", found, "training", "the embeddings learn too"),
        _difference("training, beside `fit`'s own regression", found, "training", "regression"),
        _difference("the choice, beside training always", found, "fit", "training"),
        _difference("the choice, beside the better score alone", by_best, "fit", "best"),
        _difference("all, beside LogisticRegression(C=10)", found, "fit", "LogisticRegression"),
    ]
    eces = [
        f"| {name} | {mean(row[key] for row in told):.3f} |"
        for name, key in (
            ("a temperature with its prior, as `fit` has it", "ece"),
            ("a temperature whose prior is 1", "ece, prior at 1"),
            ("no temperature", "ece, no temperature"),
        )
    ]
    best = [max(row["cross-validated"]) for row in told]
    high = [score - row["fit"] for score, row in zip(best, told, strict=True)]
    fair = [score - row["optimism"] for score, row in zip(high, told, strict=True)]
    return "\n".join(
        [
            "# What each method of `fit` is worth",
            "",
            f"Eight rows a class, {MODEL}, one draw of {len(found)} sets, at most about {TESTED} "
            "test rows of each. Points of accuracy with the method, less those without it, and the "
            "sets that gain or lose a point; ± is the standard error over the sets.",
            "",
            "| method | points | gain | lose |",
            "|---|--:|---|---|",
            *off,
            "",
            f"ECE of `fit`'s answers to the test rows, mean of {len(told)} sets:",
            "",
            "| | ECE |",
            "|---|--:|",
            *eces,
            "",
            "The cross-validated score of the best way, less its accuracy on the test rows: "
            f"{scattered(high)}; with what `fit` takes off for luck: {scattered(fair)}.",
        ]
    )


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    found = [measured(name, given.seed) for name in given.sets]
    about = report.about("torch", "scikit-learn")
    report.write("fit_methods", page(found), {"about": about, "cells": found})


if __name__ == "__main__":
    main()
