"""Sets that published tables use, as `benchmarks/others.py` draws them: none of them is ours.

One label a text is `OTHERS`, by the words of their publishers where they have any; what is measured
otherwise is `MORE`. TweetEval, TREC and SST-5 are divided as published; the development rows of
TweetEval and SST-5 are not used. MR and SUBJ are one file each: a fifth of each, drawn once, is the
test.

Example:
    >>> from lib.other_sets import OTHERS
    >>> drawn = OTHERS["trec"].draw(8, seed=1)  # doctest: +SKIP
    >>> len(drawn.learn), len(drawn.test), drawn.labels[:2]  # doctest: +SKIP
    (48, 500, ('abbreviation', 'description'))
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache

from . import fit_sets
from .answers import lines_of, table
from .fit_sets import Row, Table, apart, bank_questions, one, parted

IN_ALL = 1000
"""Rows in all, whatever their labels: what model2vec's table learns."""
FIFTH = {"mr": 2132, "subj": 2000}
"""Test rows of the sets of one file."""
NAMES = {
    "mr": ("negative", "positive"),
    "subj": ("subjective", "objective"),
    "sst5": ("very negative", "negative", "neutral", "positive", "very positive"),
    "trec": ("description", "entity", "abbreviation", "human", "location", "numeric value"),
}
"""Labels by their numbers in the files. TREC's are the coarse classes of Li and Roth 2002."""
TWEETS = ("emotion", "hate", "irony", "offensive")


def _rows(file: str) -> list[Row]:
    """Read a text and its label from each line of a file of `data/others`."""
    cells = [
        line.rsplit("\t", 1) for line in lines_of(fit_sets.SHARED / f"data/others/{file}.tsv.xz")
    ]
    return [(text.strip(), label) for text, label in cells]


def _tweets(name: str) -> Callable[[], tuple[list[Row], list[Row]]]:
    @cache
    def parts() -> tuple[list[Row], list[Row]]:
        learn, test = (
            [
                (text, str(label).replace("_", " ").replace("-", " "))
                for text, label in _rows(f"tweeteval/{name}.{part}")
            ]
            for part in ("train", "test")
        )
        return learn, test

    return parts


def _sentences(name: str) -> Callable[[], tuple[list[Row], list[Row]]]:
    def read(file: str) -> list[Row]:
        return [(text, NAMES[name][int(str(n))]) for text, n in _rows(f"sentences/{file}")]

    @cache
    def parts() -> tuple[list[Row], list[Row]]:
        if name in FIFTH:
            return apart(read(name), FIFTH[name])
        return read(f"{name}.train"), read(f"{name}.test")

    return parts


def sized(
    name: str,
    parts: Callable[[], tuple[list[Row], list[Row]]],
    sizes: tuple[int, ...],
    positive: str = "",
) -> Table:
    """Make a table of 8 and 64 rows a class, maybe of 1,000 in all, and whole, by its last size."""
    few, drawn = one(name, parts), parted(name, "one", (IN_ALL,), parts)

    def rows(size: int, seed: int) -> tuple[list[Row], list[Row]]:
        if size == sizes[-1]:
            return parts()
        return (drawn if size == IN_ALL else few).rows(size, seed)

    return Table(name, "one", sizes, rows, positive)


def _answer_sentences(size: int, seed: int) -> tuple[list[Row], list[Row]]:
    """Pairs of a question and a sentence that is its answer or not; the development questions."""

    def read(part: str) -> list[Row]:
        path = fit_sets.SHARED / f"data/others/answer_sentences/wang.{part}.csv.xz"
        return [
            ((row["qtext"], row["atext"]), ("wrong", "right")[int(row["label"])])
            for row in csv.DictReader(lines_of(path))
        ]

    return read("train"), read("dev")


def _similar(name: str, part: str) -> Table:
    """One part of a year's pairs, with people's scores; nothing is learnt."""

    def rows(size: int, seed: int) -> tuple[list[Row], list[Row]]:
        cells = table(fit_sets.SHARED / f"data/others/sts/{name}.tsv.xz")
        return [], [((a, b), float(score)) for a, b, score, of in cells if of == part]

    return Table(f"{name} {part}", "scored", (0,), rows)


OTHERS = {
    each.name: each
    for each in (
        sized("emotion", _tweets("emotion"), (8, 64, 3257)),
        sized("hate", _tweets("hate"), (8, 64, 9000)),
        sized("irony", _tweets("irony"), (8, 64, 2862), positive="irony"),
        sized("offensive", _tweets("offensive"), (8, 64, 11916)),
        sized("trec", _sentences("trec"), (8, 64, IN_ALL, 5452)),
        sized("subj", _sentences("subj"), (8, 64, IN_ALL, 8000)),
        sized("mr", _sentences("mr"), (8, 64, IN_ALL, 8530)),
        sized("sst5", _sentences("sst5"), (8, 64, IN_ALL, 8544)),
    )
}
"""Tables of one label a text. The last size is the whole set."""
PARTS = {
    "sts2012": ("MSRpar", "OnWN", "SMTeuroparl", "SMTnews"),
    "sts2014": ("OnWN", "deft-forum", "deft-news", "headlines", "images", "tweet-news"),
    "sts2015": ("answers-forums", "answers-students", "belief", "headlines", "images"),
}
MORE = {
    each.name: each
    for each in (
        Table(
            "banking77",
            "one",
            (10003,),
            lambda size, seed: (bank_questions("train"), bank_questions("test")),
        ),
        Table("wang", "ranked", (4718,), _answer_sentences, positive="right"),
        *(_similar(name, part) for name, parts in PARTS.items() for part in parts),
    )
}
"""BANKING77 with all its rows; Wang's answers to questions; each part of a year's similarities."""
TABLES = {**OTHERS, **MORE}
