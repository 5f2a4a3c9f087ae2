"""Tables that `fit` is measured on, and tables that its rates and priors are chosen on.

No row of a reported table stands in a tuning table. BANKING77 is cut into groups of intents that
share none: four groups are reported, two are for tuning. `banking77` alone has every intent, and so
shares some with the tuning groups; NLU++ speaks of a bank too ("I want a refund" is in both). SNLI
and WANLI have the labels of MNLI, with other texts.

The learning rows of a seed are nested: those of 8 rows a class are among those of 16. The test rows
are the same for every seed, but for sets of one file: STS-B, NLU++, and four of the tuning sets. No
learning row has a text of a test row.

Example:
    >>> from lib.fit_sets import REPORTED
    >>> drawn = REPORTED["sst2"].draw(8, seed=1)  # doctest: +SKIP
    >>> len(drawn.learn), len(drawn.test), drawn.labels  # doctest: +SKIP
    (16, 872, ('negative', 'positive'))
"""

from __future__ import annotations

import csv
import itertools
import json
import lzma
import os
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
TASKS = SHARED / "data/tasks"
SHOTS = (8, 16, 64)
"""Rows a class."""
WORDS = 96
"""Words of a review or a passage that are kept: about 128 tokens, for every engine alike."""
FREQUENT = 19
"""Rows of the frequent class for each of the rare one: 10:190 and 50:950."""
TEST = 500
"""Test rows of a set, where it has more and nothing else is said."""

Text = str | tuple[str, str]
Label = str | tuple[str, ...] | float
Row = tuple[Text, Label]


@dataclass(frozen=True)
class Drawn:
    """The rows of a table, as every engine gets them."""

    learn: list[Row]
    test: list[Row]

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the learnt labels, sorted; none of scored pairs."""
        found: set[str] = set()
        for _, label in self.learn:
            found |= {label} if isinstance(label, str) else set(_several(label))
        return tuple(sorted(found))


@dataclass(frozen=True)
class Table:
    """A table of some sizes."""

    name: str
    kind: str
    """What is learnt: "one" label a text, "rare", "several", "pairs", "scored", "ranked" or
    "large"."""
    sizes: tuple[int, ...]
    """Rows a class ("one"), of the rare class ("rare"), or of the whole table."""
    rows: Callable[[int, int], tuple[list[Row], list[Row]]]
    """(size, seed) -> rows to learn, rows to answer."""
    positive: str = ""
    """The label whose F1 is measured too; "": no one."""

    def draw(self, size: int, seed: int) -> Drawn:
        """Draw the learning rows, in an order of their own.

        Args:
            size: one of `sizes`.
            seed: another seed draws other rows.
        """
        learn, test = self.rows(size, seed)
        answered = {text for text, _ in test}
        learn = [row for row in learn if row[0] not in answered]  # a few stand in both files
        random.Random(f"{self.name} {size} {seed}").shuffle(learn)
        return Drawn(learn, test)


def _several(label: Label) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else ()


def _by_label(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[str(row[1])].append(row)
    return dict(sorted(groups.items()))


def _shuffled(rows: Iterable[Row], seed: int | str) -> list[Row]:
    rows = list(rows)
    random.Random(seed).shuffle(rows)
    return rows


def _of_each(rows: Iterable[Row], count: int, seed: int | str) -> list[Row]:
    """So many of each label, or as many as there are."""
    groups = _by_label(rows)
    return [row for label, of in groups.items() for row in _shuffled(of, f"{label} {seed}")[:count]]


def _capped(rows: list[Row], count: int) -> list[Row]:
    """Test rows: as many of each label, `count` at most, the same ones always."""
    return _of_each(rows, count // len(_by_label(rows)), "test")


def _cut(text: str) -> str:
    return " ".join(text.split()[:WORDS])


def apart(rows: Iterable[Row], count: int) -> tuple[list[Row], list[Row]]:
    """Rows to learn from, and `count` to test on, for sets of one file."""
    rows = _shuffled(rows, "apart")
    test = _capped(rows, count)
    held = {row[0] for row in test}
    return [row for row in rows if row[0] not in held], test


def one(name: str, parts: Callable[[], tuple[list[Row], list[Row]]]) -> Table:
    """A table of one label a text, of 8, 16 and 64 rows a class."""

    def rows(size: int, seed: int) -> tuple[list[Row], list[Row]]:
        learn, test = parts()
        return _of_each(learn, size, seed), test

    return Table(name, "one", SHOTS, rows)


def rare(name: str, label: str, parts: Callable[[], tuple[list[Row], list[Row]]]) -> Table:
    """A table of two classes of which one is rare; the test rows have both as they come.

    Args:
        name: of the table.
        label: the rare one.
        parts: rows to learn from, test rows.
    """

    def rows(size: int, seed: int) -> tuple[list[Row], list[Row]]:
        learn, test = parts()
        drawn = _of_each(learn, size * FREQUENT, seed)
        few = [row for row in drawn if row[1] == label][:size]
        return [row for row in drawn if row[1] != label] + few, test

    return Table(name, "rare", (10, 50), rows)


def whole(name: str, kind: str, sizes: tuple[int, ...], parts: Callable[[], list[Row]]) -> Table:
    """A table of one file: the first rows of a seeded order are learnt, the last are answered."""

    def rows(size: int, seed: int) -> tuple[list[Row], list[Row]]:
        found = _shuffled(parts(), f"{name} {seed}")
        count = len(found) - max(sizes) if kind == "scored" else 400
        return found[:size], found[max(sizes) :][:count]

    return Table(name, kind, sizes, rows)


def parted(
    name: str, kind: str, sizes: tuple[int, ...], parts: Callable[[], tuple[list[Row], list[Row]]]
) -> Table:
    """A table of two files, of which the first `size` rows of a seeded order are learnt."""

    def rows(size: int, seed: int) -> tuple[list[Row], list[Row]]:
        learn, test = parts()
        return _shuffled(learn, f"{name} {seed}")[:size], test

    return Table(name, kind, sizes, rows)


# ------------------------------------------------------------------- what is reported


def _cells(path: Path, delimiter: str = "\t") -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


@cache
def sst2() -> tuple[list[Row], list[Row]]:
    """Sentences of film reviews, and parts of sentences: train.tsv and dev.tsv."""
    names = {"0": "negative", "1": "positive"}

    def read(part: str) -> list[Row]:
        lines = (TASKS / f"sst2/{part}.tsv").read_text(encoding="utf-8").splitlines()[1:]
        cells = [line.rsplit("\t", 1) for line in lines]
        return [(text.strip(), names[label]) for text, label in cells]

    return read("train"), read("dev")


def _reviews(part: str, cut: bool) -> list[Row]:
    rows = _cells(TASKS / f"imdb_counterfactual/{part}.tsv")
    texts = [row["Text"].replace("<br />", " ") if cut else row["Text"] for row in rows]
    return [
        (_cut(text) if cut else text, row["Sentiment"].lower())
        for text, row in zip(texts, rows, strict=True)
    ]


@cache
def imdb() -> tuple[list[Row], list[Row]]:
    """Reviews as people wrote and rewrote them, the first 96 words of each."""
    return _reviews("train", True), _capped(_reviews("test", True), TEST)


@cache
def bank_questions(part: str) -> list[Row]:
    rows = _cells(TASKS / f"intents/banking77_{part}.csv", ",")
    return [(row["text"].strip(), row["category"].replace("_", " ")) for row in rows]


@cache
def intents() -> tuple[str, ...]:
    """The 77 intents, those with most rows first: groups of them share none.

    The frequent ones are hard to tell apart, and have 64 rows each. Groups by a seed are easy: a
    regression on 8 rows a class is right on 97 % of most.
    """
    counts = Counter(str(label) for _, label in bank_questions("train"))
    return tuple(sorted(counts, key=lambda name: (-counts[name], name)))


def banking(first: int, last: int) -> Callable[[], tuple[list[Row], list[Row]]]:
    """Questions to a bank whose intents stand from `first` to `last` in `intents()`.

    An intent has 35 to 187 rows to learn from: of all 77, some have fewer than 64.
    """

    @cache
    def parts() -> tuple[list[Row], list[Row]]:
        names = set(intents()[first:last])
        learn, test = (
            [r for r in bank_questions(part) if r[1] in names] for part in ("train", "test")
        )
        return learn, _capped(test, max(TEST, 10 * len(names)))

    return parts


@cache
def nlupp() -> list[Row]:
    """Sentences to a bank with 0 to 6 intents each."""
    lines = (TASKS / "intents/nlupp_banking.jsonl").read_text(encoding="utf-8").splitlines()
    rows = map(json.loads, lines)
    return [(row["text"], tuple(i.replace("_", " ") for i in row["intents"])) for row in rows]


@cache
def _pairs() -> dict[str, list[Row]]:
    """The pairs of each source of the training table."""
    found: dict[str, list[Row]] = defaultdict(list)
    for line in _lines(SHARED / "data/nli/train.tsv.xz"):
        premise, hypothesis, label, source = line.split("\t")
        found[source.split("_")[0]].append(((premise, hypothesis), label))
    return found


def _dev(name: str) -> list[Row]:
    cells = [line.split("\t") for line in _lines(SHARED / f"data/nli/{name}.tsv.xz")]
    return _shuffled((((c[0], c[1]), c[2]) for c in cells), "test")[:1000]


def _lines(path: Path) -> list[str]:
    """The lines of a table below its header."""
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\r\n") for line in file][1:]


@cache
def mnli() -> tuple[list[Row], list[Row]]:
    """MultiNLI's pairs: training rows, and 1,000 of dev-matched. roberta.tiny learnt the former."""
    return _pairs()["mnli"], _dev("mnli_dev_matched")


@cache
def stsb() -> list[Row]:
    """Pairs of sentences with a similarity from 0 to 5."""
    lines = (TASKS / "sts-b-test.csv").read_text(encoding="utf-8").splitlines()
    cells = [line.split("\t") for line in lines]
    return [((c[5], c[6]), float(c[4])) for c in cells]


def _large(name: str, parts: Callable[[], tuple[list[Row], list[Row]]]) -> Table:
    count = {"sst2_whole": 67349, "imdb_whole": 3414}[name]
    return Table(name, "large", (count,), lambda size, seed: parts())


REPORTED = {
    table.name: table
    for table in (
        one("sst2", sst2),
        one("imdb", imdb),
        one("banking10", banking(0, 10)),
        one("banking10b", banking(20, 30)),
        one("banking10c", banking(50, 60)),
        one("banking20", banking(30, 50)),
        one("banking77", banking(0, 77)),
        rare("sst2_rare", "negative", sst2),
        whole("nlupp", "several", (200, 600), nlupp),
        parted("mnli", "pairs", (300, 1500), mnli),
        whole("stsb", "scored", (100, 500), stsb),
        _large("sst2_whole", sst2),
        _large("imdb_whole", lambda: (_reviews("train", False), _reviews("test", False))),
    )
}
"""What stands in results/fit.md; nothing is tuned on it."""


# ------------------------------------------------------------------- what is tuned on

SENTENCE = re.compile(r"(?<=[a-z0-9)]{2}[.!?]) +(?=[A-Z\"'])")
SOURCES = {
    "magazine": "oanc_slate",
    "travel guide": "oanc_berlitz",
    "science and government": "oanc_technical",
    "dialogue": "sgd_dialogues",
    "encyclopedia": "simplewiki_2022",
}
MOODS = {
    "praise": "wonderful excellent brilliant delightful superb charming marvelous impressive "
    "admirable beautiful fascinating enjoyable elegant splendid",
    "blame": "terrible awful horrible dreadful boring lousy pathetic disgusting ridiculous stupid "
    "tedious disappointing dull miserable",
}
DOMAINS = {
    "restaurants": "restaurant|cuisine|table for",
    "hotels": "hotel|check in|star rating",
    "flights": "flight|airline|fly",
    "buses": "bus|buses",
    "movies": "movie|film|theater|theatre",
    "music": "song|music|album",
    "doctors": "doctor|dentist|therapist|dermatologist|psychologist",
    "rented cars": "rental car|rent a car|pick up the car|sedan|hatchback",
    "homes": "apartment|property|bedrooms|unfurnished",
    "banks": "account|transfer|balance",
    "hairdressers": "salon|haircut|stylist|hair",
}
"""What a dialogue is about -> words that its later lines have."""


def _documents(name: str, count: int) -> Iterator[list[str]]:
    """The first documents of a text, each a list of lines."""
    with lzma.open(SHARED / f"data/pretrain/{name}.txt.xz", "rt", encoding="utf-8") as file:
        groups = itertools.groupby(file, key=lambda line: not line.strip())
        found = ([line.strip() for line in lines] for blank, lines in groups if not blank)
        yield from itertools.islice(found, count)


def _sentences(lines: Iterable[str], least: int, most: int) -> list[str]:
    cut = itertools.chain.from_iterable(SENTENCE.split(line) for line in lines)
    return [text for text in cut if least <= len(text.split()) <= most]


@cache
def passages() -> tuple[list[Row], list[Row]]:
    """Sentences of 10 to 40 words; the label is the kind of text that they are from."""
    rows: list[Row] = []
    for label, name in SOURCES.items():
        lines = itertools.chain.from_iterable(_documents(name, 1000))
        found = _sentences(lines, 10, 40)
        rows += [(text, label) for text in random.Random(label).sample(found, 1500)]
    return apart(rows, TEST)


@cache
def speakers() -> tuple[list[Row], list[Row]]:
    """Lines of dialogues; the label says who speaks."""
    rows = [
        (line, ("customer", "assistant")[place % 2])
        for lines in _documents("sgd_dialogues", 1500)
        for place, line in enumerate(lines)
        if 5 <= len(line.split()) <= 40
    ]
    return apart(dict(rows).items(), TEST)


@cache
def domains() -> tuple[list[Row], list[Row]]:
    """What a customer says first; the label is what the rest of the dialogue is about."""
    rows = []
    for first, *others in _documents("sgd_dialogues", 14000):
        rest = " ".join(others).lower()
        found = Counter({k: len(re.findall(rf"\b(?:{v})\b", rest)) for k, v in DOMAINS.items()})
        (label, most), (_, second) = found.most_common(2)
        if most >= 2 and most > 3 * second and len(first.split()) >= 5:
            rows.append((first, label))
    return apart(dict(rows).items(), TEST)


@cache
def moods() -> tuple[list[Row], list[Row]]:
    """Sentences of a magazine with one word of praise or of blame, which they keep."""
    signs = {word: label for label, words in MOODS.items() for word in words.split()}
    rows = []
    for text in _sentences(itertools.chain.from_iterable(_documents("oanc_slate", 5000)), 5, 40):
        found = {signs[word] for word in re.findall(r"[a-z]+", text.lower()) if word in signs}
        if len(found) == 1:
            rows.append((text, found.pop()))
    return apart(dict(rows).items(), TEST)


@cache
def premises() -> tuple[list[Row], list[Row]]:
    """First sentences of pairs; the label is the collection that the pair is from."""
    names = {"snli": "pictures", "mnli": "genres", "wanli": "crowd", "conjnli": "wikipedia"}
    rows = [
        (text, label)
        for source, label in names.items()
        for text in sorted({row[0][0] for row in _pairs()[source]})
        if 5 <= len(text.split()) <= 40
    ]
    return apart(_of_each(dict(rows).items(), 1500, "premises"), TEST)


@cache
def kinds() -> tuple[list[Row], list[Row]]:
    """Paragraphs of Simple English Wikipedia with one of the labels of tools/draw_topics.py.

    The articles of its 400 paragraphs are left out.
    """
    sys.path.insert(0, str(ROOT / "tools"))
    import draw_topics

    held = draw_topics.held_out(draw_topics.SOURCE)
    rows = []
    for number, lines in enumerate(_documents(draw_topics.SOURCE, 40000)):
        kind = None if number in held else draw_topics.kind_of(lines[0])
        shown = next(draw_topics.parts(lines), None) if kind else None
        if kind and shown:
            rows.append((_cut(shown[1]), draw_topics.KIND[kind]))
    return apart(dict(rows).items(), TEST)


@cache
def boolq() -> tuple[list[Row], list[Row]]:
    """Pairs of a question and its passage; yes or no. Hard: small models are near chance."""
    found: list[list[Row]] = []
    for part in ("train", "dev"):
        rows = json.loads((TASKS / f"BoolQA_{part}.json").read_text(encoding="utf-8"))
        texts = [row["sentence"].removeprefix("question: ").split("\npassage: ") for row in rows]
        answers = ["yes" if row["label"] == "True" else "no" for row in rows]
        found.append(
            [((t[0], _cut(t[1])), a) for t, a in zip(texts, answers, strict=True) if len(t) == 2]
        )
    return found[0], _capped(found[1], TEST)


@cache
def questions() -> tuple[list[Row], list[Row]]:
    """BoolQ's questions with their passages as one text each."""
    learn, test = boolq()
    return _joined(learn), _joined(test)


def _joined(rows: list[Row]) -> list[Row]:
    return [(" ".join(text), label) for text, label in rows]


@cache
def entities() -> list[Row]:
    """Sentences of wikigold with the kinds of the entities in them; some have none."""
    names = {"PER": "person", "LOC": "place", "ORG": "organization", "MISC": "other name"}
    rows: list[Row] = []
    text = (TASKS / "ner/wikigold.conll.txt").read_text(encoding="utf-8")
    for block in text.split("\n\n"):
        words = [line.split() for line in block.splitlines() if line.strip()]
        if len(words) >= 5 and "-DOCSTART-" not in block:
            kinds = {names[tag.split("-")[-1]] for _, tag in words if tag != "O"}
            rows.append((" ".join(word for word, _ in words), tuple(sorted(kinds))))
    return rows


@cache
def joined() -> list[Row]:
    """One to three questions of the tuning groups of BANKING77 after another, with each intent."""
    luck = random.Random("joined")
    learn = [*banking(10, 20)()[0], *banking(60, 77)()[0]]
    rows: list[Row] = []
    for _ in range(2000):
        chosen = luck.sample(learn, luck.choice((1, 1, 2, 2, 3)))
        rows.append(
            (" ".join(str(t) for t, _ in chosen), tuple(sorted({str(i) for _, i in chosen})))
        )
    return rows


@cache
def snli() -> tuple[list[Row], list[Row]]:
    """SNLI's pairs. roberta.tiny learnt its training rows."""
    return _pairs()["snli"], _dev("snli_dev")


@cache
def wanli() -> tuple[list[Row], list[Row]]:
    """WANLI's pairs, all of which roberta.tiny learnt: its own head looks better than it is."""
    return apart(_pairs()["wanli"], 1000)


@cache
def nearness() -> list[Row]:
    """Two sentences: 2 if they follow one another, 1 if of one article, 0 if of two."""
    luck = random.Random("nearness")
    texts = [_sentences(lines, 5, 30) for lines in _documents("simplewiki_2022", 4000)]
    texts = [found for found in texts if len(found) >= 6][:1500]
    rows: list[Row] = []
    for found, others in zip(texts, texts[1:], strict=False):
        score = luck.choice((0, 1, 2))
        second = luck.choice(others) if score == 0 else found[(0, 5, 2)[score]]
        rows.append(((found[1] if score == 2 else found[0], second), float(score)))
    return rows


@cache
def follows() -> list[Row]:
    """SNLI's pairs: 1 where the second follows, 0 where it contradicts, 0.5 in between."""
    scores = {"entailment": 1.0, "neutral": 0.5, "contradiction": 0.0}
    return [(pair, scores[str(label)]) for pair, label in _of_each(_dev("snli_dev"), 333, "score")]


TUNING = {
    table.name: table
    for table in (
        one("passages", passages),
        one("speakers", speakers),
        one("domains", domains),
        one("moods", moods),
        one("premises", premises),
        one("kinds", kinds),
        one("questions", questions),
        one("banking10t", banking(10, 20)),
        one("banking17t", banking(60, 77)),
        rare("moods_rare", "blame", moods),
        rare("speakers_rare", "customer", speakers),
        whole("entities", "several", (200, 600), entities),
        whole("joined", "several", (200, 600), joined),
        parted("snli", "pairs", (300, 1500), snli),
        parted("wanli", "pairs", (300, 1500), wanli),
        parted("boolq", "pairs", (300, 1500), boolq),
        whole("nearness", "scored", (100, 500), nearness),
        whole("follows", "scored", (100, 500), follows),
    )
}
"""What rates, epochs, priors and weights may be chosen on."""
