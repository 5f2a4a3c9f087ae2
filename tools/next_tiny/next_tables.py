"""Makes the tables that roberta.tiny learns from: pairs, moods, names and questions.

`train.py tables` calls it, on a CPU. No set that a page reports is read here: MNLI's, SNLI's
and RTE's development sets, SST-2, MR, tweets, XQuAD, BoolQ's development set and its passages,
wikigold's held-out documents, WNUT17's development and test set and part g of the Broad Twitter
Corpus only measure.
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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from draw_topics import held_out  # noqa: E402

SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
DATA = SHARED / "data"
TEXTS = (
    "enwiki_2021_core",
    "oanc_berlitz",
    "oanc_slate",
    "oanc_technical",
    "sgd_dialogues",
    "simplewiki_2022",
)
"""All text, about 100 M tokens."""
EVERY = 400
"""One document of Wikipedia in this many is held out, for the perplexity."""
DEMONSTRATION = (
    "Roberta is a heavily optimized version of BERT",
    "Roberta is not very optimized",
    "potatoes are awesome",
    "The first Star wars movie came out in",
    "Vikram samvat calendar is official in",
    "is the common currency of the European Union",
)
"""Sentences of the hub page, which no training set may hold."""
HELD_OUT_PAIRS = 2000
LABELS = ("contradiction", "neutral", "entailment")
MOODS = ("negative", "neutral", "positive")
KINDS = ("person", "organization", "location", "other")
TAGS = ("O", *(f"{place}-{kind}" for kind in KINDS for place in "BI"))
CHECKED = ("mnli", "snli", "wanli")
"""Sources of pairs that people wrote or checked one by one: the held-out ones are of these."""
SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z\"'])")
WORD = re.compile(r"[a-z]{3,}")
SURE = (0.5, 0.2)
"""VADER's compound and TextBlob's polarity must be at least so far from 0."""
SILVER = 60_000
"""Sentences of Wikipedia whose names spaCy marks."""
SPACY_KINDS = {
    "PERSON": "person",
    "ORG": "organization",
    **dict.fromkeys(("GPE", "LOC", "FAC"), "location"),
    **dict.fromkeys(("NORP", "WORK_OF_ART", "EVENT", "PRODUCT", "LANGUAGE", "LAW"), "other"),
}
GOLD_KINDS = {
    **dict.fromkeys(("PER", "person"), "person"),
    **dict.fromkeys(("ORG", "corporation", "group"), "organization"),
    **dict.fromkeys(("LOC", "location"), "location"),
    **dict.fromkeys(("MISC", "creative-work", "product"), "other"),
}
WIKIGOLD_EVERY = 5
"""Of wikigold's 145 documents those whose number, from 0, is a multiple of it are held out."""

Row = dict[str, Any]


def documents(name: str) -> Iterator[tuple[int, list[str]]]:
    """Read the lines of each document that may be trained on, with its number."""
    path, left_out = DATA / "pretrain" / f"{name}.txt.xz", held_out(name)
    with lzma.open(path, "rt", encoding="utf-8") as file:
        yield from learnable(name, file, left_out)


def learnable(
    name: str, lines: Iterable[str], left_out: set[int]
) -> Iterator[tuple[int, list[str]]]:
    """Cut lines into documents, without those that measure and the hub page's sentences.

    Args:
        name: of the file.
        lines: of it.
        left_out: numbers of documents that topics are drawn from.
    """
    found = (
        [line.rstrip("\n") for line in group if not any(d in line for d in DEMONSTRATION)]
        for blank, group in itertools.groupby(lines, key=lambda line: not line.strip())
        if not blank
    )
    number = 0  # of the documents that are not left out, as is_held_out counts
    for place, some in enumerate(found):
        if place in left_out:
            continue
        if not is_held_out(name, number):
            yield number, some
        number += 1


def is_held_out(name: str, number: int) -> bool:
    """Tell whether a document, by its place among those not left out, is there to measure on."""
    return "wiki" in name and number % EVERY == 0


def sentences(lines: Iterable[str], words: range = range(3, 41)) -> Iterator[str]:
    """Cut lines into sentences of a fitting length."""
    for line in lines:
        for sentence in SENTENCE.split(line.strip()):
            if len(sentence.split()) in words and "\t" not in sentence:
                yield sentence


def pairs() -> list[Row]:
    """Read premise, hypothesis and label of every pair; `valid` says which are held out."""
    with lzma.open(DATA / "nli/train.tsv.xz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    rows = [row for row in rows if not any(d in cell for cell in row for d in DEMONSTRATION)]
    random.Random(1).shuffle(rows)
    checked = [row for row in rows if row[3].startswith(CHECKED)]
    # Every pair of a premise lies on one side.
    left_out = {row[0] for row in random.Random(1).sample(checked, HELD_OUT_PAIRS)}
    return [
        {"a": a, "b": b, "label": LABELS.index(label), "source": source, "valid": a in left_out}
        for a, b, label, source in rows
    ]


def moods(share: float) -> list[Row]:
    """Make texts with a mood, and texts whose mood the teacher is asked for (label None)."""
    rows = [*reviews("train", valid=False), *reviews("dev", valid=True)]
    luck, vader, polarity = random.Random(2), *lexicons()
    asked = list(dict.fromkeys(text for row in rows for text in parts(row["text"])))
    for name, most in (
        ("oanc_slate", 90_000),
        ("oanc_berlitz", 10_000),
        ("oanc_technical", 15_000),
        ("sgd_dialogues", 25_000),
        ("simplewiki_2022", 30_000),
    ):
        of = itertools.chain.from_iterable(sentences(some) for _, some in documents(name))
        kept = list(dict.fromkeys(itertools.islice(of, int(400_000 * share) + 500)))
        asked += luck.sample(kept, min(len(kept), int(most * share) + 100))
    said = sorted({row[side] for row in pairs() for side in "ab" if not row["valid"]})
    asked += luck.sample(said, int(60_000 * share))
    for text in asked:
        compound, polar = vader(text), 0.0
        if compound == 0 or abs(compound) >= SURE[0]:
            polar = polarity(text)
        if compound == polar == 0:
            rows.append({"text": text, "label": 1, "kind": "none", "valid": False})
        elif abs(polar) >= SURE[1] and abs(compound) >= SURE[0] and compound * polar > 0:
            rows.append(
                {"text": text, "label": 2 * (compound > 0), "kind": "lexicon", "valid": False}
            )
        else:
            rows.append({"text": text, "label": None, "kind": "asked", "valid": False})
    rows += [{"text": text, "label": 1, "kind": "foreign", "valid": False} for text in foreign()]
    rows += [{"text": text, "label": 1, "kind": "code", "valid": False} for text in code(1500)]
    luck.shuffle(rows)
    return rows


def reviews(part: str, *, valid: bool) -> Iterator[Row]:
    """Read whole reviews, and the sentences in which a review and its revision differ.

    People turned each review into its opposite with few changes (Kaushik et al. 2020): what they
    changed is where the mood is.
    """
    path = DATA / f"tasks/imdb_counterfactual/{part}.tsv"
    with path.open(encoding="utf-8", newline="") as file:
        read = [(2 * (row[0] == "Positive"), row[1]) for row in csv.reader(file, delimiter="\t")][
            1:
        ]
    of: dict[str, list[int]] = defaultdict(list)
    for place, (_, text) in enumerate(read):
        for sentence in set(parts(text)):
            of[sentence].append(place)
    for label, text in read:
        clean = text.replace("<br />", " ")
        yield {"text": clean, "label": label, "kind": "review", "valid": valid}
        shared = Counter(
            other
            for sentence in set(parts(text))
            for other in of[sentence]
            if read[other][0] != label
        )
        if not shared:
            continue
        twin = set(parts(read[shared.most_common(1)[0][0]][1]))
        for sentence in parts(text):
            if sentence not in twin and len(sentence.split()) > 2:
                yield {"text": sentence, "label": label, "kind": "changed", "valid": valid}


def parts(text: str) -> list[str]:
    """Cut a review into sentences."""
    return [s.strip() for s in SENTENCE.split(text.replace("<br />", " ")) if 0 < len(s) < 400]


def lexicons() -> tuple[Any, Any]:
    """Return VADER's and TextBlob's judgement of a text, from -1 to 1 each."""
    from textblob import TextBlob
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    vader = SentimentIntensityAnalyzer()
    return (
        lambda text: vader.polarity_scores(text)["compound"],
        lambda text: TextBlob(text).sentiment.polarity,
    )


def foreign() -> Iterator[str]:
    """Read sentences of other languages: the examples of spaCy (MIT)."""
    import importlib
    import pkgutil

    import spacy.lang

    for module in pkgutil.iter_modules(spacy.lang.__path__):
        if module.ispkg and module.name != "en":
            try:
                found = importlib.import_module(f"spacy.lang.{module.name}.examples")
            except ImportError:
                continue
            yield from found.sentences


def code(count: int) -> list[str]:
    """Draw lines of Python's own library."""
    folder = Path(json.__file__).parents[2]
    lines = (
        line.strip()
        for path in sorted(folder.glob("*.py"))
        for line in path.read_text(encoding="utf-8", errors="ignore").splitlines()
    )
    kept = sorted({line for line in lines if re.search(r"[()=:]", line) and 15 < len(line) < 100})
    return random.Random(3).sample(kept, count)


def names(share: float, model: Path) -> list[Row]:
    """Read sentences whose names people marked, and mark others by spaCy (`silver`)."""
    rows = list(wikigold())
    tweets = [DATA / f"others/ner/btc/btc_{part}.conll.xz" for part in "abe"]
    for path in (DATA / "tasks/ner/wnut17/train.conll", *tweets):
        open_text = lzma.open if path.suffix == ".xz" else open
        with open_text(path, "rt", encoding="utf-8") as file:
            for words, tags in blocks(file):
                # The corpus calls every "@name" a person: those words have no label.
                own = ["" if w.startswith("@") else t for w, t in zip(words, tags, strict=True)]
                rows.append({"words": words, "tags": own, "kind": "tweet", "valid": False})
    return rows + silver(int(SILVER * share) + 200, model)


def wikigold() -> Iterator[Row]:
    """Read wikigold's sentences; every fifth document is held out."""
    text = (DATA / "tasks/ner/wikigold.conll.txt").read_text(encoding="utf-8")
    for number, document in enumerate(re.split(r"-DOCSTART-.*\n", text)):
        for words, tags in blocks(document.splitlines()):
            held = number % WIKIGOLD_EVERY == 0
            yield {"words": words, "tags": tags, "kind": "wikigold", "valid": held}


def blocks(lines: Iterable[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Read words and tags of each sentence; tags are ours."""
    for blank, group in itertools.groupby(lines, key=lambda line: not line.strip()):
        if not blank:
            cells = [re.split(r"[\t ]", line.strip("\n")) for line in group]
            yield [cell[0] for cell in cells], begun([cell[-1] for cell in cells], GOLD_KINDS)


def begun(tags: Sequence[str], kinds: dict[str, str]) -> list[str]:
    """Write tags as ours: "B-" where a name begins, also where the set writes "I-" alone."""
    found, before = [], ""
    for tag in tags:
        kind = kinds.get(tag[2:], "")
        continues = tag.startswith("I-") and before == kind
        found.append(f"{'I' if continues else 'B'}-{kind}" if kind else "O")
        before = kind
    return found


def silver(count: int, model: Path) -> list[Row]:
    """Mark the names in sentences of Wikipedia by spaCy's `en_core_web_md`."""
    import spacy

    tagger = spacy.load(model, disable=["tagger", "parser", "attribute_ruler", "lemmatizer"])
    texts: list[str] = []
    for name in ("simplewiki_2022", "enwiki_2021_core"):
        of = (s for _, some in documents(name) for s in sentences(some[:3], range(6, 36)))
        every = list(itertools.islice(of, 20 * count))
        texts += random.Random(4).sample(every, min(len(every), count // 2))
    rows = []
    for doc in tagger.pipe(texts, batch_size=256):
        words = [token for token in doc if not token.is_space]
        place = {token.i: number for number, token in enumerate(words)}
        tags = ["O"] * len(words)
        for span in doc.ents:
            inside = [place[token.i] for token in span if token.i in place]
            if inside and words[inside[0]].lower_ in ("the", "a", "an"):
                inside = inside[1:]
            if inside and words[inside[-1]].lower_ in ("'s", "’s"):
                inside = inside[:-1]
            if kind := SPACY_KINDS.get(span.label_):
                for i, number in enumerate(inside):
                    tags[number] = f"{'I' if i else 'B'}-{kind}"
        rows.append(
            {"words": [w.text for w in words], "tags": tags, "kind": "silver", "valid": False}
        )
    return rows


def questions() -> list[Row]:
    """Read BoolQ's training questions with their passages, without those of its development set."""
    dev = {passage for _, passage in _boolq("dev")}
    return [{"a": q, "b": passage} for q, passage in _boolq("train") if passage not in dev]


def _boolq(part: str) -> Iterator[tuple[str, str]]:
    read = json.loads((DATA / f"tasks/BoolQA_{part}.json").read_text(encoding="utf-8"))
    for row in read:
        found = re.match(r"question: (.*?)\npassage: (.*)", row["sentence"], re.S)
        if found:
            yield found[1].strip(), found[2].strip()


def write(name: str, rows: Sequence[Row], folder: Path) -> None:
    """Write a table of JSON lines, compressed."""
    new = folder / f"{name}.new"
    with lzma.open(new, "wt", encoding="utf-8", preset=0) as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    new.rename(folder / f"{name}.jsonl.xz")


def read(name: str, folder: Path) -> list[Row]:
    """Read a table that `write` wrote."""
    with lzma.open(folder / f"{name}.jsonl.xz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
