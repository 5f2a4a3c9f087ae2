"""Asks a model for the answers of the evaluation sets, and finds its surest mistakes.

The sets are those of `../shared/data` (or $ROBERTA_HUB_SHARED/data), which no training step reads.
"""

from __future__ import annotations

import csv
import lzma
import os
import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
WORDS_OF = 2000
"""Passages of which a word is masked."""


@dataclass(frozen=True)
class Mistake:
    """One wrong answer."""

    row: int
    """In the file, from 1, without its header; of masked words the number of the passage."""
    wanted: str
    given: str
    sure: float
    """The probability of what was given, or the distance of a similarity from people's."""
    text: str


@dataclass(frozen=True)
class Score:
    """What a model reaches in a set."""

    value: float
    chance: float | None
    """Of the most frequent label; None where there are no labels."""
    rows: int
    mistakes: list[Mistake]
    more: dict[str, float]


def lines_of(path: Path) -> list[str]:
    """Read a file of lines, compressed or not."""
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode("utf-8")
    return text.rstrip("\n").split("\n")


def table(path: Path) -> list[list[str]]:
    """Read the cells of a file whose cells have no quotes."""
    return list(csv.reader(lines_of(path), delimiter="\t", quoting=csv.QUOTE_NONE))


def judged(
    found: Sequence[tuple[str, float]], wanted: Sequence[str], texts: Sequence[str]
) -> Score:
    """Compare labels with the right ones."""
    wrong = [
        Mistake(row, w, label, sure, text)
        for row, ((label, sure), w, text) in enumerate(zip(found, wanted, texts, strict=True), 1)
        if label != w
    ]
    chance = max(map(wanted.count, set(wanted))) / len(wanted)
    return Score(1 - len(wrong) / len(wanted), chance, len(wanted), wrong, {})


def entailment(roberta: Any, name: str, limit: int | None = None) -> Score:
    """Pairs by `classify`; RTE's second label is "not_entailment"."""
    rows = table(SHARED / "data/nli" / name)[1:][:limit]
    wanted = [row[2] for row in rows]
    found = [
        (p.label, p.score) for p in roberta.classify([tuple(r[:2]) for r in rows], head="mnli")
    ]
    if "not_entailment" in wanted:
        found = [(p if p == "entailment" else "not_entailment", sure) for p, sure in found]
    return judged(found, wanted, [f"{row[0]} | {row[1]}" for row in rows])


def similar(roberta: Any, limit: int | None) -> Score:
    """STS-B's test pairs by `embed`: Spearman's correlation of cosines with people's scores."""
    import torch

    from roberta_hub.measures.numbers import correlations

    rows = table(SHARED / "data/tasks/sts-b-test.csv")[:limit]
    people = torch.tensor([float(row[4]) for row in rows])
    one, other = (roberta.embed([row[i] for row in rows]) for i in (5, 6))
    cosines = torch.cosine_similarity(one, other)
    off = (cosines * 5 - people).abs() / 5
    wrong = [
        Mistake(number, f"{wanted / 5:.2f}", f"{given:.2f}", far, f"{row[5]} | {row[6]}")
        for number, (row, wanted, given, far) in enumerate(
            zip(rows, people.tolist(), cosines.tolist(), off.tolist(), strict=True), 1
        )
    ]
    return Score(correlations(cosines, people)["spearman"], None, len(rows), wrong, {})


def labelled(roberta: Any, texts: list[str], wanted: list[str], labels: tuple[str, ...]) -> Score:
    """Judge texts by `zero_shot` with its own hypothesis."""
    found = [(p.label, p.score) for p in roberta.zero_shot(texts, labels)]
    return judged(found, wanted, texts)


def sentiment(roberta: Any, limit: int | None) -> Score:
    """Judge SST-2's dev sentences by two words."""
    rows = table(SHARED / "data/tasks/sst2/dev.tsv")[1:][:limit]
    names = ("negative", "positive")
    wanted = [names[int(label)] for _, label in rows]
    return labelled(roberta, [text.strip() for text, _ in rows], wanted, names)


def topics(roberta: Any, limit: int | None) -> Score:
    """Judge the paragraphs of `tools/draw_topics.py` by eight words."""
    sys.path.insert(0, str(ROOT / "tools"))
    import draw_topics

    if not draw_topics.OUT.is_file():
        draw_topics.write()
    rows = table(draw_topics.OUT)[1:]
    random.Random(0).shuffle(rows)
    texts, wanted = [row[0] for row in rows[:limit]], [row[1] for row in rows[:limit]]
    return labelled(roberta, texts, wanted, draw_topics.LABELS)


def masked_words(roberta: Any, limit: int | None = None) -> Score:
    """How often a masked lower-case word of prose is among the first five guesses.

    A random word of each passage of 8-200 words, whatever its length; one that the vocabulary cuts
    into pieces cannot be hit by one mask, and is a miss.
    """
    draw = random.Random(0)
    texts, wanted, rows = [], [], []
    for row, line in enumerate(lines_of(SHARED / "data/eval/books_dev.txt"), 1):
        words = list(re.finditer(r"(?<= )[a-z]+(?=[ ,.;:!?])", line))
        if 8 <= len(line.split()) <= 200 and words:
            word = draw.choice(words)
            texts.append(f"{line[: word.start()].rstrip()} <mask>{line[word.end() :]}")
            wanted.append(f" {word.group()}")
            rows.append(row)
    texts, wanted = texts[: limit or WORDS_OF], wanted[: limit or WORDS_OF]
    guesses = roberta.fill_mask(texts, topk=5, truncate=False)
    whole = sum(len(roberta.tokenize(word)) == 1 for word in wanted)
    top1 = [g[0][2] == w for g, w in zip(guesses, wanted, strict=True)]
    top5 = [w in [word for _, _, word in g] for g, w in zip(guesses, wanted, strict=True)]
    wrong = [
        Mistake(row, w.strip(), g[0][2].strip(), g[0][1], text)
        for row, w, g, text, hit in zip(rows, wanted, guesses, texts, top5, strict=False)
        if not hit
    ]
    more = {
        "passages": len(texts),
        "top1": sum(top1) / len(texts),
        "top5": sum(top5) / len(texts),
        "top5_of_whole_words": sum(top5) / max(1, whole),
    }
    return Score(more["top5"], None, len(texts), wrong, more)


def perplexity(roberta: Any, path: Path) -> float:
    """Of masked tokens, 15 % of each block of 128, always the same ones."""
    import tempfile

    from roberta_hub.train.config import BatchConfig, Config, DataConfig, TaskConfig
    from roberta_hub.train.tasks.build import build_task

    with tempfile.TemporaryDirectory() as folder:
        config = Config(
            output=folder,
            data=DataConfig(train=str(path), valid=str(path)),
            task=TaskConfig(name="masked_lm", options={"block_size": 128}),
            batch=BatchConfig(max_tokens=4096),
        )
        return build_task(config, roberta).evaluate()["perplexity"]


Ask = Callable[[Any, "int | None"], Score]
SETS: dict[str, tuple[str, str, Ask]] = {
    "mnli_dev_matched": (
        "MNLI dev-matched, `classify`",
        "classify",
        lambda roberta, limit: entailment(roberta, "mnli_dev_matched.tsv.xz", limit),
    ),
    "snli_dev": (
        "SNLI dev, `classify`",
        "classify",
        lambda roberta, limit: entailment(roberta, "snli_dev.tsv.xz", limit),
    ),
    "rte_dev": (
        "RTE dev, two labels, `classify`",
        "classify",
        lambda roberta, limit: entailment(roberta, "rte_dev.tsv", limit),
    ),
    "sts_b_test": ("STS-B test, `embed`, Spearman", "embed", similar),
    "books": ("masked lower-case word of books, in the top five", "fill_mask", masked_words),
    "sst2_dev": ('SST-2 dev, `zero_shot(["positive", "negative"])`', "zero_shot", sentiment),
    "topics": ("topics, 400 paragraphs, `zero_shot` of 8 labels", "zero_shot", topics),
}
"""What is asked: name -> what it is, which verb answers, and how it is asked."""
MAY_BE_SHOWN = {
    "mnli_dev_matched": "MultiNLI (Williams et al. 2018)",
    "snli_dev": "SNLI (Bowman et al. 2015), CC BY-SA 4.0",
    "topics": "Simple English Wikipedia, CC BY-SA 3.0",
}
"""Sets whose sentences may be printed, with whose they are; of the others only numbers are."""
