"""Writes the page of `fit.py`: what issue 43 asks and what is reached, then every set."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import mean, stdev
from typing import Any

from . import report
from .fit_engines import FIXED, MODELS, SETFIT_ON
from .fit_runs import Key, Run, Runs
from .fit_sets import REPORTED, SHOTS

NAMES = {
    "lr": "regression on vectors",
    "as_is": "as it is",
    "setfit": "SetFit",
    "ours": "`fit`",
    "by_regression": "`fit`, by regression",
    "by_training": "`fit`, the whole model",
}
INTRODUCTION = (
    "`fit` beside what people would take instead: the same rows, the same starting weights and one "
    "thread for all. `python benchmarks/fit.py` measures it, `lib/fit_sets.py` draws the rows. "
    "Nothing was tuned on these sets: rates and priors come from others (`TUNING` there), which "
    "share no row with them. BANKING77 whole shares intents with two of those. STS-B was "
    "looked at while the rate for scored pairs was chosen, and, with one draw of its rows that is "
    "not among these, while it was chosen how cosines teach such pairs first.",
    "",
    "*Regression on vectors* is scikit-learn's `LogisticRegression(C=10)` on `embed` of the same "
    "model; balanced for several labels and rare classes, ridge for scored pairs. *SetFit* has its "
    "defaults. *As it is*: the model's own head for pairs, the cosine of its vectors for scored "
    "ones. Reviews are cut at 96 words, about 128 tokens, for every engine.",
    "",
    "Numbers are means over the seeds, which draw other rows; ± is their standard deviation, and "
    "without it there is one seed. What is asked is judged by the seeds that both engines have: "
    "*so far* where there are fewer than three. The scatter of a table is that of its seeds, at "
    "least the standard error for its number of test rows, for some sets have but 64 rows of an "
    "intent, the same for every seed. Seconds are the processor's, to learn, on "
    "machines that others used too; they are named at the end.",
    "",
)
ELSEWHERE = (
    "Spans beside spaCy: `python benchmarks/entities.py`. Labels by their names, with nothing "
    "learnt: [zero_shot](zero_shot.md)."
)
FEW = tuple(name for name, table in REPORTED.items() if table.kind == "one")
NOT_YET = "not measured"
NEAR = 2.0
"""Points of accuracy within which a choice is as good as the best way."""
SEEDS = 3
"""How many are asked for."""
Found = dict[Key, Run]
Cells = list[tuple[str, int]]
"""Sets and sizes."""
Asked = tuple[str, str]
"""What is reached, and whether that is what is asked: see `_met`."""


def page(runs: Runs) -> str:
    """Write the page of all that was measured."""
    found = runs.read()
    lines = [
        "# Your own model",
        "",
        *INTRODUCTION,
        "## What is asked",
        "",
        "| work | asked | model | reached | met |",
        "|---|---|---|---|---|",
    ]
    for work, asked, reached in ASKED:
        for model in MODELS:
            value, met = reached(found, model)
            lines.append(f"| {work} | {asked} | {model} | {value} | {met} |")
    for model in MODELS:
        lines += ["", f"## Few rows, {model}", "", *_few(found, model)]
    lines += ["", "## Several labels, rare classes, pairs", "", *_others(found)]
    lines += ["", ELSEWHERE]
    lines += ["", "## Large tables", "", *_large(found, runs.history())]
    lines += [""]
    for engine, places in runs.about().items():
        lines += [f"{NAMES[engine]}: {report.sentence(one)}\n" for one in places]
    return "\n".join(lines).rstrip() + "\n"


# ------------------------------------------------------------------- reading the runs


def values(
    found: Found, engine: str, model: str, name: str, size: int, score: str
) -> dict[int, float]:
    """One score of a table by seed; score may be "cpu_seconds"."""
    keys = [key for key in found if key[:4] == (engine, model, name, size)]
    return {
        key.seed: found[key].cpu_seconds if score == "cpu_seconds" else found[key].scores[score]
        for key in sorted(keys)
    }


def paired(
    found: Found,
    engines: tuple[str, str],
    model: str,
    cells: Cells,
    score: str,
) -> list[tuple[float, float]]:
    """The means of two engines over the seeds that both have, for each table and size."""
    both = []
    for name, size in cells:
        one, other = (values(found, e, model, name, size, score) for e in engines)
        seeds = one.keys() & other.keys()
        if seeds:
            both.append((mean(one[s] for s in seeds), mean(other[s] for s in seeds)))
    return both


def _met(value: bool, seeds: int) -> str:
    """Say whether it is met, or would be by what is measured so far: by fewer seeds than asked."""
    if seeds < SEEDS:
        return "so far" if value else "not so far"
    return "yes" if value else "**no**"


def _seeds(found: Found, engines: tuple[str, ...], model: str, cells: Cells, score: str) -> int:
    """How many seeds every engine has of every table."""
    return min(
        len(values(found, engine, model, name, size, score))
        for engine in engines
        for name, size in cells
    )


# ------------------------------------------------------------------- what is asked


def _few_rows(found: Found, model: str) -> Asked:
    cells = [(name, size) for name in FEW for size in SHOTS]
    both = paired(found, ("ours", "lr"), model, cells, "accuracy")
    if not both:
        return NOT_YET, ""
    gain = 100 * mean(a - b for a, b in both)
    below = []
    for name, size in cells:
        pair = paired(found, ("ours", "lr"), model, [(name, size)], "accuracy")
        scatter = max(
            _scatter(values(found, "lr", model, name, size, "accuracy")),
            _error(found, "lr", model, name, size),
        )
        if pair and pair[0][0] < pair[0][1] - scatter:
            below.append(f"{name} at {size}")
    said = f"{gain:+.1f} over {len(both)} of {len(cells)} tables"
    if below:
        said += f"; below by more than its scatter: {', '.join(below)}"
    seeds = _seeds(found, ("ours", "lr"), model, cells, "accuracy")
    return said, _met(gain >= 1.5 and not below, seeds)


def _error(found: Found, engine: str, model: str, name: str, size: int) -> float:
    """Compute the standard error of an accuracy for the number of test rows."""
    shares = values(found, engine, model, name, size, "accuracy")
    tested = [found[Key(engine, model, name, size, seed)].tested for seed in shares]
    if not tested:
        return 0.0
    share = mean(shares.values())
    return math.sqrt(share * (1 - share) / tested[0])


def _scatter(by_seed: dict[int, float]) -> float:
    return stdev(by_seed.values()) if len(by_seed) > 1 else 0.0


def _beside_setfit(found: Found, model: str) -> Asked:
    cells = [(name, 8) for name in SETFIT_ON]
    both = paired(found, ("ours", "setfit"), model, cells, "accuracy")
    if not both:
        return NOT_YET, ""
    a, b = (100 * mean(pair[i] for pair in both) for i in (0, 1))
    cost = paired(found, ("ours", "setfit"), model, cells, "cpu_seconds")
    seconds = " and ".join(f"{mean(pair[i] for pair in cost):.0f}" for i in (0, 1))
    said = f"{a:.1f} and {b:.1f} over {len(both)} sets, {seconds} s"
    return said, _met(a >= b, _seeds(found, ("ours", "setfit"), model, cells, "accuracy"))


def _choice(found: Found, model: str) -> Asked:
    """Compare what `fit` chooses with the better of its two ways, by the means of the seeds."""
    gaps, seeds = [], []
    for name in FEW:
        for size in SHOTS:
            own = values(found, "ours", model, name, size, "accuracy")
            fixed = [_fixed(found, way, model, name, size) for way in FIXED]
            shared = own.keys() & fixed[0].keys() & fixed[1].keys()
            if shared:
                best = max(mean(way[s] for s in shared) for way in fixed)
                gaps.append(100 * (best - mean(own[s] for s in shared)))
                seeds.append(len(shared))
    if not gaps:
        return NOT_YET, ""
    near = sum(gap <= NEAR for gap in gaps)
    said = f"on {near} of {len(gaps)} tables, at most {max(gaps):.1f} points below"
    return said, _met(near >= 0.8 * len(gaps), min(seeds))


def _fixed(found: Found, engine: str, model: str, name: str, size: int) -> dict[int, float]:
    """Accuracies of one way by seed; where `fit` took the way, they are its own."""
    by_seed = values(found, engine, model, name, size, "accuracy")
    for key, run in found.items():
        if key[:4] == ("ours", model, name, size) and run.way == FIXED[engine]:
            by_seed[key.seed] = run.scores["accuracy"]
    return by_seed


def _calibrated(size: int, most: float) -> Callable[[Found, str], Asked]:
    def reached(found: Found, model: str) -> Asked:
        cells = [(name, size) for name in FEW]
        both = paired(found, ("ours", "lr"), model, cells, "ece")
        if not both:
            return NOT_YET, ""
        a, b = (mean(pair[i] for pair in both) for i in (0, 1))
        seeds = _seeds(found, ("ours",), model, cells, "ece")
        return f"{a:.3f} (regression {b:.3f}) over {len(both)} sets", _met(a <= most, seeds)

    return reached


def _log_loss(found: Found, model: str) -> Asked:
    cells = [(name, size) for name in FEW for size in SHOTS]
    both = paired(found, ("ours", "lr"), model, cells, "log_loss")
    if not both:
        return NOT_YET, ""
    a, b = (mean(pair[i] for pair in both) for i in (0, 1))
    seeds = _seeds(found, ("ours", "lr"), model, cells, "log_loss")
    return f"{a:.3f} and {b:.3f} over {len(both)} tables", _met(a <= b, seeds)


def _least(name: str, size: int, score: str, least: float) -> Callable[[Found, str], Asked]:
    def reached(found: Found, model: str) -> Asked:
        ours, lr = (values(found, e, model, name, size, score) for e in ("ours", "lr"))
        if not ours:
            return NOT_YET, ""
        value = mean(ours.values())
        said = f"{value:.3f}" + (f" (regression {mean(lr.values()):.3f})" if lr else "")
        return said, _met(value >= least, len(ours))

    return reached


def _beside(
    other: str, name: str, size: int, score: str, judged: bool = True
) -> Callable[[Found, str], Asked]:
    def reached(found: Found, model: str) -> Asked:
        pair = paired(found, ("ours", other), model, [(name, size)], score)
        if not pair:
            own = values(found, "ours", model, name, size, score)
            return (f"{mean(own.values()):.3f}" if own else NOT_YET), ""
        a, b = pair[0]
        said, cells = f"{a:.3f} and {b:.3f}", [(name, size)]
        seeds = _seeds(found, ("ours", other), model, cells, score)
        return said, _met(round(a, 3) >= round(b, 3), seeds) if judged else ""

    return reached


ASKED: tuple[tuple[str, str, Callable[[Found, str], Asked]], ...] = (
    (
        "8, 16, 64 rows a class, seven sets, accuracy",
        "mean ≥ regression + 1.5, none below by more than its scatter",
        _few_rows,
    ),
    ("8 rows a class, four sets, accuracy", "≥ SetFit", _beside_setfit),
    (
        "what is chosen beside the better of its two ways",
        "≤ 2 points below on eight of ten tables",
        _choice,
    ),
    ("ECE, 8 rows a class", "≤ .08", _calibrated(8, 0.08)),
    ("ECE, 64 rows a class", "≤ .05", _calibrated(64, 0.05)),
    ("log loss, 8, 16, 64 rows a class", "≤ regression", _log_loss),
    ("NLU++, 200 rows, micro-F1", "≥ .74", _least("nlupp", 200, "micro_f1", 0.74)),
    ("NLU++, 600 rows, micro-F1", "≥ .82", _least("nlupp", 600, "micro_f1", 0.82)),
    (
        "SST-2 10:190, `balance=True`, macro-F1",
        "≥ balanced regression",
        _beside("lr", "sst2_rare", 10, "macro_f1"),
    ),
    (
        "SST-2 50:950, `balance=True`, macro-F1",
        "≥ balanced regression",
        _beside("lr", "sst2_rare", 50, "macro_f1"),
    ),
    (
        "pairs with MNLI's labels, 300 rows, accuracy",
        "≥ as it is",
        _beside("as_is", "mnli", 300, "accuracy"),
    ),
    ("STS-B, 500 rows, Spearman", "≥ as it is", _beside("as_is", "stsb", 500, "spearman")),
    (
        "STS-B, 100 rows, Spearman",
        "said",
        _beside("as_is", "stsb", 100, "spearman", judged=False),
    ),
)
"""Work, what is asked, and what tells how much of it is reached. Where two numbers stand, the first
is of `fit`."""


# ------------------------------------------------------------------- tables


def _few(found: Found, model: str) -> list[str]:
    engines = [e for e in ("ours", "lr", "setfit") if any(k[:2] == (e, model) for k in found)]
    names = [NAMES[engine] for engine in engines]
    heads = [*names, *(f"ECE, {n}" for n in names), *(f"log loss, {n}" for n in names)]
    heads += [f"s, {n}" for n in names]
    lines = [f"| set | rows a class | {' | '.join(heads)} |", f"|---|--:{'|--:' * len(heads)}|"]
    for name in FEW:
        for size in SHOTS:
            cells = []
            for score in ("accuracy", "ece", "log_loss", "cpu_seconds"):
                for engine in engines:
                    cells.append(cell(values(found, engine, model, name, size, score), score))
            if any(cells):
                lines.append(f"| {name} | {size} | {' | '.join(cells)} |")
    return lines


def cell(by_seed: dict[int, float], score: str) -> str:
    """Write the mean of the seeds, with their scatter; empty where there are none."""
    if not by_seed:
        return ""
    value = mean(by_seed.values())
    if score == "cpu_seconds":
        return f"{value:.1f}" if value < 10 else f"{value:.0f}"
    if score in ("ece", "log_loss"):
        return f"{value:.3f}"
    scatter = f" ± {100 * _scatter(by_seed):.1f}" if len(by_seed) > 1 else ""
    return f"{100 * value:.1f}{scatter}"


def _others(found: Found) -> list[str]:
    measured = {
        "nlupp": ("micro_f1",),
        "sst2_rare": ("macro_f1", "recall_of_rare"),
        "mnli": ("accuracy", "ece"),
        "stsb": ("spearman",),
    }
    engines = ("ours", "lr", "as_is")
    heads = [NAMES[e] for e in engines]
    lines = [
        f"| model | set | rows | score | {' | '.join(heads)} | s, {heads[0]} | s, {heads[1]} |",
        "|---|---|--:|---|--:|--:|--:|--:|--:|",
    ]
    for model in MODELS:
        for name, scores in measured.items():
            for size in REPORTED[name].sizes:
                shown = f"{size}:{19 * size}" if name == "sst2_rare" else str(size)
                for score in scores:
                    cells = [
                        cell(values(found, e, model, name, size, score), score) for e in engines
                    ]
                    cells += [
                        cell(values(found, e, model, name, size, "cpu_seconds"), "cpu_seconds")
                        for e in engines[:2]
                    ]
                    words = score.replace("_", " ")
                    lines.append(f"| {model} | {name} | {shown} | {words} | {' | '.join(cells)} |")
    return lines


def _large(found: Found, history: list[dict[str, Any]]) -> list[str]:
    lines = [
        "Version 0.2.0 learnt nine rows of ten with the command, on two threads; TF-IDF with "
        "logistic regression all of them. Whole reviews. 0.2.0's seconds are of another machine: "
        "400 reviews, 90 seconds there, took 0.2.0 113 seconds where the last rows were measured. "
        "Other versions stand there where `--sets sst2_whole imdb_whole` measured them.",
        "",
        "| version | model | set | rows | accuracy | TF-IDF | most frequent label | s |",
        "|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in history:
        lines.append(
            f"| {row['version']}, {row['date']} | {row['model']} | {row['set']} | {row['rows']:,} "
            f"| {100 * row['accuracy']:.1f} | {100 * row['tfidf']:.1f} "
            f"| {100 * row['most_frequent']:.1f} | {row['cpu_seconds']:,} |"
        )
    for key, run in found.items():
        if REPORTED[key.set].kind == "large":
            lines.append(
                f"| {NAMES[key.engine]} | {key.model} | {key.set} | {run.rows:,} "
                f"| {100 * run.scores['accuracy']:.1f} | | | {run.cpu_seconds:,.0f} |"
            )
    return lines
