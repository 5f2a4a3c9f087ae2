"""Fills docs/background/tables.md: what others.py measured, beside what others publish."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from .fit_engines import MODELS
from .fit_page import cell, values
from .fit_runs import Key, Run, Runs, place_of
from .other_engines import NO_MODEL, sizes_of
from .other_published import SENTENCES, SIMILARITIES, TWEETS, Published
from .other_sets import IN_ALL, OTHERS, PARTS, TABLES

NAMES = {
    "ours": "`fit`",
    "lr": "regression on vectors",
    "tfidf": "TF-IDF and regression",
    "setfit": "SetFit",
    "zero_shot": "`zero_shot`, no rows",
    "as_is": "cosine of `embed`, no rows",
}
COSINE = "cosine of TF-IDF, no rows"
TITLES = {
    "emotion": "emotion",
    "hate": "hate",
    "irony": "irony",
    "offensive": "offensive",
    "trec": "TREC",
    "subj": "SUBJ",
    "mr": "MR",
    "sst5": "SST-5",
    "banking77": "BANKING77",
    "sts2012": "STS 2012",
    "sts2014": "STS 2014",
    "sts2015": "STS 2015",
}
TWEET_SETS = ("emotion", "hate", "irony", "offensive")
SENTENCE_SETS = ("trec", "subj", "mr", "sst5")
NEAR = 0.5
"""Points within which two engines are even."""
Found = dict[Key, Run]
Cells = list[tuple[str, int]]


@dataclass(frozen=True)
class Column:
    """One score of a table: of a set, or the mean of its parts."""

    title: str
    of: str
    """What published rows call it."""
    sets: tuple[str, ...]
    score: str
    size: int
    """Rows; 0: nothing is learnt."""


def measure_of(name: str) -> str:
    """The score that the publishers of a set use."""
    if name == "irony":
        return "f1_of_positive"
    return "macro_f1" if name in TWEET_SETS else "accuracy"


def whole(name: str) -> int:
    """The size of a table that is the whole set."""
    return TABLES[name].sizes[-1]


def columns(sets: Sequence[str], size: int | None) -> list[Column]:
    """Columns of sets of classes; None: whole."""
    return [
        Column(TITLES[n], n, (n,), measure_of(n), whole(n) if size is None else size) for n in sets
    ]


def size_for(engine: str, column: Column) -> int:
    """The rows that an engine learns for a column; 0 where it learns nothing."""
    return 0 if list(sizes_of(engine, TABLES[column.sets[0]])) == [0] else column.size


class Measured:
    """What is measured, ready to be shown."""

    def __init__(self, runs: Runs) -> None:
        self.found = runs.read()
        self.about = {place_of(one): one for several in runs.about().values() for one in several}
        machines = dict.fromkeys(map(_machine, self.about.values()))
        self.letters = {name: chr(ord("A") + at) for at, name in enumerate(machines)}

    def engines(self) -> list[tuple[str, str]]:
        """Every engine with every model that it was measured with, ours first."""
        known = {(key.engine, key.model) for key in self.found}
        models = (*MODELS, NO_MODEL)
        return [(e, m) for e in NAMES for m in models if (e, m) in known]

    def scores(self, engine: str, model: str, column: Column) -> dict[int, float]:
        """A column of an engine by seed; nothing unless every part is there."""
        size = size_for(engine, column)
        parts = [values(self.found, engine, model, n, size, column.score) for n in column.sets]
        seeds = set.intersection(*map(set, parts))
        return {seed: mean(part[seed] for part in parts) for seed in sorted(seeds)}

    def runs(self, engine: str, model: str, column: Column) -> list[Run]:
        """The runs behind a column."""
        cells = {(engine, model, name, size_for(engine, column)) for name in column.sets}
        return [run for key, run in self.found.items() if key[:4] in cells]

    def by(self, runs: Iterable[Run]) -> str:
        """The versions and the CPUs that some runs are of, as two cells."""
        abouts = [self.about[place] for place in dict.fromkeys(run.place for run in runs)]
        numbers: dict[str, list[str]] = {}
        for about in abouts:
            for name, number in about["versions"].items():
                numbers.setdefault(name, []).append(number)
        versions = [f"{name} {' and '.join(dict.fromkeys(own))}" for name, own in numbers.items()]
        letters = sorted({self.letters[_machine(about)] for about in abouts})
        return f"{', '.join(versions)} | {', '.join(letters)}"

    def row(self, engine: str, model: str, columns: Sequence[Column], average: bool) -> str:
        """One line: an engine, its scores, their mean, seconds, versions and CPUs; "": nothing."""
        found = [self.scores(engine, model, column) for column in columns]
        if not any(found):
            return ""
        cells = [cell(one, column.score) for one, column in zip(found, columns, strict=True)]
        if average:
            means = [100 * mean(one.values()) for one in found if one]
            cells.append(f"{mean(means):.1f}" if len(means) == len(columns) else "")
        runs = [run for column in columns for run in self.runs(engine, model, column)]
        seconds = _seconds(runs)
        name = COSINE if engine == "tfidf" and not size_for(engine, columns[0]) else NAMES[engine]
        name += "" if model == NO_MODEL else f", {model}"
        return f"| {name} | {' | '.join(cells)} | {seconds} | {self.by(runs)} |"

    def table(
        self, columns: Sequence[Column], published: Sequence[Published] = (), average: bool = True
    ) -> list[str]:
        """Write what is measured here, then what is published."""
        heads = [column.title for column in columns] + ["mean"] * average
        lines = [
            f"| | {' | '.join(heads)} | CPU s | version | CPU |",
            f"|---|{'--:|' * (len(heads) + 1)}---|---|",
        ]
        rows = [self.row(engine, model, columns, average) for engine, model in self.engines()]
        rows += [_published(other, columns, average) for other in published]
        return [*lines, *filter(None, rows)]

    def machines(self) -> list[str]:
        """Write which CPU each letter is."""
        return [f"- {letter}: {machine}" for machine, letter in self.letters.items()]


def _machine(about: dict[str, Any]) -> str:
    return f"{about['machine']}, {about['instruction_sets']}"


def _seconds(runs: Sequence[Run]) -> str:
    """The seconds of all columns together, each the mean of its seeds."""
    by_table: dict[tuple[str, int], list[float]] = {}
    for run in runs:
        by_table.setdefault(run.key[2:4], []).append(run.cpu_seconds)
    total = sum(map(mean, by_table.values()))
    return f"{total:.1f}" if total < 10 else f"{total:,.0f}"


def _published(other: Published, columns: Sequence[Column], average: bool) -> str:
    cells = [f"{other.scores[c.of]:.1f}" if c.of in other.scores else "" for c in columns]
    if average:
        cells.append(f"{mean(other.scores.values()):.1f}" if all(cells) else "")
    said = f"published, not rerun: {other.source}"
    said += f"; {other.otherwise}" if other.otherwise else ""
    return f"| *{other.name}* | {' | '.join(cells)} | | {said} | |"


# ------------------------------------------------------------------- where fit loses


def against(measured: Measured, model: str, rival: str) -> list[tuple[str, float]]:
    """Points that `fit` has more than a rival on each table, over the seeds that both have."""
    found = []
    other = NO_MODEL if rival == "tfidf" else model
    for name in (*OTHERS, "banking77"):
        for size in TABLES[name].sizes:
            column = columns([name], size)[0]
            ours, theirs = (
                measured.scores("ours", model, column),
                measured.scores(rival, other, column),
            )
            if seeds := ours.keys() & theirs.keys():
                more = 100 * mean(ours[seed] - theirs[seed] for seed in seeds)
                rows = "whole" if size == whole(name) else f"{size:,}"
                found.append((f"{TITLES[name]} {rows}", more))
    return found


def losses(measured: Measured) -> list[str]:
    """Lines of a table: `fit` beside each rival, and the tables where it has fewer points."""
    lines = [
        "| `fit` from | beside | tables | mean difference | more | even | fewer | fewer on |",
        "|---|---|--:|--:|--:|--:|--:|---|",
    ]
    for model in MODELS:
        for rival in ("lr", "setfit", "tfidf"):
            found = against(measured, model, rival)
            if not found:
                continue
            lost = [(name, more) for name, more in found if more < -NEAR]
            won = sum(more > NEAR for _, more in found)
            named = ", ".join(f"{name} ({more:+.1f})" for name, more in lost)
            lines.append(
                f"| {model} | {NAMES[rival]} | {len(found)} | {mean(m for _, m in found):+.1f} "
                f"| {won} | {len(found) - won - len(lost)} | {len(lost)} | {named or 'none'} |"
            )
    return lines


# ------------------------------------------------------------------- the page

PART = re.compile(r"(<!-- measured: ([a-z0-9 ]+) -->\n).*?(<!-- end -->)", re.S)
"""A part of the page that is written here: a name, and what stands below it to the end."""


def filled(text: str, runs: Runs, entities: Sequence[str]) -> str:
    """Write the tables of all that was measured into a page, between the marks that name them.

    Args:
        text: the page as it is.
        runs: of `others.json`.
        entities: the lines about spans, of `entities.py`.
    """
    found = tables(Measured(runs), entities)

    def written(mark: re.Match[str]) -> str:
        return f"{mark[1]}\n{chr(10).join(found[mark[2]])}\n\n{mark[3]}"

    return PART.sub(written, text)


def tables(measured: Measured, entities: Sequence[str]) -> dict[str, list[str]]:
    """Every table by its name in the page."""
    similar = [
        Column(TITLES[n], n, tuple(f"{n} {part}" for part in parts), "spearman", 0)
        for n, parts in PARTS.items()
    ]
    answers = [Column(s.upper(), "wang", ("wang",), s, whole("wang")) for s in ("map", "mrr")]
    sentences = {size: columns(SENTENCE_SETS, size) for size in (8, 64, IN_ALL)}
    return {
        "losses": losses(measured),
        "tweets whole": measured.table(columns(TWEET_SETS, None), TWEETS),
        "tweets 64": measured.table(columns(TWEET_SETS, 64)),
        "tweets 8": measured.table(columns(TWEET_SETS, 8)),
        "sentences whole": measured.table(columns(SENTENCE_SETS, None), SENTENCES[0]),
        "sentences 1000": measured.table(sentences[IN_ALL], SENTENCES[IN_ALL]),
        "sentences 64": measured.table(sentences[64]),
        "sentences 8": measured.table(sentences[8]),
        "banking77": measured.table(columns(["banking77"], None), average=False),
        "wang": measured.table(answers, average=False),
        "similarity": measured.table(similar, SIMILARITIES),
        "names": list(entities),
        "machines": measured.machines(),
    }
