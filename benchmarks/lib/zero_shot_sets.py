"""Sets of texts with labels in words: some choose the constants of `zero_shot`, others report.

No text and no label of a reported set stands in one that chose: BANKING77's intents are dealt into
groups, as for `fit`. `tests/data/zero_shot.json` was written by us, before anything was measured on
it.
"""

from __future__ import annotations

import json
import lzma
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lib.answers import ROOT, SHARED, lines_of, table
from lib.fit_sets import Row, banking, domains, moods

MOST = 300
"""Texts of a set, drawn by a seed."""
SEED = 43


@dataclass(frozen=True)
class Labelled:
    """Texts, each with one of some labels in words."""

    texts: list[str]
    wanted: list[str]
    labels: list[str]


def _drawn(rows: list[tuple[str, str]], most: int = MOST) -> Labelled:
    """Draw some rows; the labels are all that any row has, in order of the alphabet."""
    labels = sorted({label for _, label in rows})
    rows = sorted(set(rows))
    random.Random(SEED).shuffle(rows)
    texts, wanted = map(list, zip(*rows[:most], strict=True))
    return Labelled(texts, wanted, labels)


def _ours(name: str) -> Callable[[], Labelled]:
    def load() -> Labelled:
        own = json.loads((ROOT / "tests/data/zero_shot.json").read_text())[name]
        return _drawn([(text, label) for label, texts in own.items() for text in texts])

    return load


def _intents(*groups: tuple[int, int]) -> Callable[[], Labelled]:
    """BANKING77's test questions of some groups of intents; `fit` is tuned on the same groups."""

    def load() -> Labelled:
        parts = [banking(first, last)()[1] for first, last in groups]
        return _drawn([(str(text), str(name)) for part in parts for text, name in part])

    return load


def _tuned(
    parts: Callable[[], tuple[list[Row], list[Row]]], names: Mapping[str, str] | None = None
) -> Callable[[], Labelled]:
    """A table that `fit` is tuned on too, by its test rows."""

    def load() -> Labelled:
        rows = [(str(text), str(label)) for text, label in parts()[1]]
        return _drawn([(text, (names or {}).get(label, label)) for text, label in rows])

    return load


DESCRIBED = {
    "affirm": "yes",
    "deny": "no",
    "wrong_notworking_notshowing": "something does not work",
    "dont_know": "I don't know",
    "end_call": "goodbye",
    "change": "change something",
    "thank": "thanks",
    "transfer_payment_deposit": "transfer or payment",
    "handoff": "talk to a person",
    "make_open_apply_setup_get_activate": "open or activate",
    "cancel_close_leave_freeze": "cancel or close",
    "lost_stolen": "lost or stolen",
    "how_much": "how much",
    "greet": "greeting",
    "repeat": "repeat that",
    "appointment": "appointment",
    "refund": "refund",
    "loan": "loan",
    "overdraft": "overdraft",
    "withdrawal": "withdrawal",
}
"""NLU++'s intents that stand alone in seven rows or more, in words, as far as they can be."""


def _nlupp() -> Labelled:
    lines = lines_of(SHARED / "data/tasks/intents/nlupp_banking.jsonl")
    rows = [(row["text"], row["intents"]) for row in map(json.loads, lines)]
    return _drawn([(t, DESCRIBED[i[0]]) for t, i in rows if len(i) == 1 and i[0] in DESCRIBED])


def _sst2() -> Labelled:
    rows = table(SHARED / "data/tasks/sst2/dev.tsv")[1:]
    return _drawn(
        [(text.strip(), ("negative", "positive")[int(label)]) for text, label in rows], 872
    )


def _imdb() -> Labelled:
    rows = table(SHARED / "data/tasks/imdb_counterfactual/test.tsv")[1:]
    return _drawn([(text.replace("<br />", " "), label.lower()) for label, text in rows])


def _topics() -> Labelled:
    sys.path.insert(0, str(ROOT / "tools"))
    import draw_topics

    if not draw_topics.OUT.is_file():
        draw_topics.write()
    return _drawn([(row[0], row[1]) for row in table(draw_topics.OUT)[1:]], 400)


ASKS = {
    "person": r"who|whose|whom",
    "time": r"when|in what year|what year|in which year|on what date|what date",
    "place": r"where|in what (?:city|country|state)|what (?:city|country|state)",
    "number": r"how many|how much|what percentage|how old",
    "reason": r"why|for what reason|what caused",
}
"""What a question asks for, by how it begins."""


def _squad() -> Iterator[tuple[str, str]]:
    """Questions of XQuAD's English part, each with the title of its article."""
    read = json.loads((SHARED / "data/tasks/squad/xquad.en.json").read_text(encoding="utf-8"))
    for article in read["data"]:
        for paragraph in article["paragraphs"]:
            for row in paragraph["qas"]:
                yield row["question"].strip(), article["title"].replace("_", " ")


def _questions() -> Labelled:
    return _drawn(
        [
            (question, label)
            for question, _ in _squad()
            for label, begins in ASKS.items()
            if re.match(rf"(?:{begins})\b", question, re.I)
        ]
    )


def _articles() -> Labelled:
    """Questions that begin otherwise, and which of twelve articles they are about."""
    begins = re.compile(rf"(?:{'|'.join(ASKS.values())})\b", re.I)
    rows = [(q, title) for q, title in _squad() if not begins.match(q)]
    most = sorted(title for title, _ in Counter(t for _, t in rows).most_common(12))
    return _drawn([row for row in rows if row[1] in most])


def _documents(name: str) -> list[list[str]]:
    path = SHARED / f"data/pretrain/{name}.txt.xz"
    text = lzma.decompress(path.read_bytes()).decode("utf-8")
    return [part.split("\n") for part in text.split("\n\n")]


SORTS = {
    "religion": "god|goddess|religion|saint|bishop|monk|pope|priest|scripture|deity",
    "medicine": "disease|disorder|syndrome|infection|drug|medication|symptom|cancer"
    "|surgery|therapy",
    "language": "language|dialect|alphabet|writing system|grammatical case|noun|script",
    "food": "food|dish|cheese|beer|wine|bread|soup|drink|beverage|spice|fruit|dessert|sauce",
    "computing": "programming language|operating system|computer|software|algorithm|protocol"
    "|data structure|processor|file format|video game",
    "law": "court|law|crime|constitution|treaty|legal term|contract|tort|statute",
    "vehicles": "car|aircraft|airline|locomotive|ship|bicycle|train|railway|motorcycle|bus",
    "plants": "plant|tree|flower|genus of plants|grass|shrub|fern|herb|moss|crop",
}
"""What an article of Wikipedia is about, by the thing that its first sentence says it is."""


def _wikipedia() -> Labelled:
    """Second paragraphs of English Wikipedia; the first decides the label."""
    sort = {kind: label for label, kinds in SORTS.items() for kind in kinds.split("|")}
    is_a = re.compile(
        rf" (?:is|was|are|were) (?:an?|the|any) (?:[a-z\-]+ ){{0,3}}?({'|'.join(sort)})\b"
    )
    rows: dict[str, list[tuple[str, str]]] = {label: [] for label in SORTS}
    for paragraphs in _documents("enwiki_2021_core"):
        told = is_a.search(paragraphs[0].split(". ")[0])
        if told and len(paragraphs) > 1 and 30 <= len(paragraphs[1].split()) <= 100:
            rows[sort[told[1]]].append((paragraphs[1], sort[told[1]]))
    for own in rows.values():
        random.Random(SEED).shuffle(own)
    return _drawn([row for own in rows.values() for row in own[:30]], 240)


def _entities() -> Labelled:
    """Names of WNUT-17, and what kind of name each is."""
    kinds = {
        "person": "person",
        "location": "place",
        "corporation": "company",
        "group": "band or team",
        "creative-work": "film, book or song",
        "product": "product",
    }
    rows, words, kind = [], [], ""
    for name in ("train", "dev"):
        for line in lines_of(SHARED / f"data/tasks/ner/wnut17/{name}.conll"):
            word, _, tag = line.partition("\t")
            if not tag.startswith("I-"):
                if words:
                    rows.append((" ".join(words), kinds[kind]))
                words = []
            if tag[:2] in ("B-", "I-"):
                words, kind = [*words, word], tag[2:]
    return _drawn(rows)


CHOOSE: dict[str, Callable[[], Labelled]] = {
    "10 other intents": _intents((10, 20)),
    "17 other intents": _intents((60, 77)),
    "articles of questions": _articles,
    "Wikipedia": _wikipedia,
    "names": _entities,
    "domains": _tuned(domains),
    "moods": _tuned(moods, {"praise": "positive", "blame": "negative"}),
    "headlines": _ours("headlines"),
    "reviews": _ours("reviews"),
    "feelings": _ours("feelings"),
    "requests": _ours("requests"),
}
"""Sets that chose the constants; so did the 27 intents of the first two together."""
REPORT: dict[str, Callable[[], Labelled]] = {
    "ten intents": _intents((0, 10)),
    "ten more": _intents((50, 60)),
    "thirty intents": _intents((20, 50)),
    "NLU++": _nlupp,
    "SST-2": _sst2,
    "IMDB": _imdb,
    "topics": _topics,
    "questions": _questions,
    "subject lines": _ours("subject_lines"),
}
"""Sets that chose nothing."""
