"""Makes the tables that roberta.tiny learns: text, pairs, sentences and moods, out of shared data.

`train_tiny.py` calls it, step by step.
"""

from __future__ import annotations

import csv
import itertools
import lzma
import os
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import pair_teacher
from cut_words import covering, cut_words
from draw_topics import held_out
from moods import agreed, form, forms, mood_of, moods, sentences, statement
from small_lm import reviews, scored

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("ROBERTA_HUB_SHARED", ROOT.parent / "shared"))
WORK = ROOT / "runs" / "tiny"
EVERY = 400
"""One document in this many is held out, for the perplexity on Wikipedia."""
HELD_OUT_PAIRS = 2000
TEXTS = ("simplewiki_2022", "oanc_slate", "oanc_berlitz", "oanc_technical", "sgd_dialogues")
"""The texts to learn from, about 48 M tokens."""
DEMONSTRATION = (
    "Roberta is a heavily optimized version of BERT",
    "Roberta is not very optimized",
    "potatoes are awesome",
    "The first Star wars movie came out in",
    "Vikram samvat calendar is official in",
    "is the common currency of the European Union",
)
"""Sentences of the hub page, which no training set may hold."""
CHECKED = ("mnli", "snli", "wanli")
"""Sources of the pairs: people wrote or checked these one by one. The others are made by rules."""
MOODS, LEAST, SINGLE = 10_000, 50, 80_000
"""Sentences of each mood, how often a word must occur for its forms to be learned, and sentences of
the text whose vectors are the teacher's."""
JUDGED, REVIEWS, REPEATED = 18_000, 3_600, 3
"""Of `judge`: sentences that are judged, reviews that are written, and statements of each."""
SEEN, TURNED, NEAR, NEAREST = 50_000, 10_000, 30_000, 1000
"""Of `label`: pairs that people labelled and the model sees too, pairs that are turned round, and
of near premises; and how many premises look for their neighbours at once."""
LETTERS = 200
"""Of `label`: a pair that the model sees has fewer; five of six have, and cost two thirds."""
PROSE, ARTICLES = ("oanc_slate", "oanc_berlitz", "sgd_dialogues"), 8
"""Of `label`: texts for the masked LM of `distil` that speak as people do; of the encyclopedia one
article in eight is added to them."""
CUT, COVERED, SHORT = 4, 2, 20
"""Of `label`: how often a word of several pieces must occur, how many sentences hold each, and how
many words these may have."""

LABELLED = ["premise", "hypothesis", "label", "source"]
OPINIONS = [*LABELLED, "probabilities"]
"""Headers of tables of pairs; an opinion is how likely each of `pair_teacher.LABELS` is."""


def documents(name: str) -> Iterator[list[str]]:
    """Read the lines of each document that may be trained on."""
    path, left_out = SHARED / "data/pretrain" / f"{name}.txt.xz", held_out(name)
    with lzma.open(path, "rt", encoding="utf-8") as file:
        found = (
            [line.rstrip("\n") for line in lines if not any(d in line for d in DEMONSTRATION)]
            for blank, lines in itertools.groupby(file, key=lambda line: not line.strip())
            if not blank
        )
        yield from (lines for number, lines in enumerate(found) if number not in left_out)


def is_held_out(name: str, number: int) -> bool:
    """Tell whether a document, by its place in `documents`, is there to measure on."""
    return "wiki" in name and number % EVERY == 0


def learnable(name: str) -> Iterator[list[str]]:
    """Read the lines of each document that is not held out."""
    for number, lines in enumerate(documents(name)):
        if not is_held_out(name, number):
            yield lines


def prepare() -> None:
    """Split text and pairs into training and held-out sets."""
    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / "train.txt").open("w") as train, (WORK / "valid.txt").open("w") as valid:
        for name in TEXTS:
            for number, lines in enumerate(documents(name)):
                out = valid if is_held_out(name, number) else train
                out.write("\n".join(lines) + "\n\n")
    pairs = read_pairs()
    valid_rows = random.Random(1).sample(pairs, HELD_OUT_PAIRS)
    left_out = {row[0] for row in valid_rows}  # every pair of a premise lies on one side
    train_rows = [row for row in pairs if row[0] not in left_out]
    write_table("nli_valid", LABELLED, valid_rows)
    write_table("nli_train", LABELLED, train_rows)
    near = triples(train_rows)
    write_table("sentences", ["sentence", "sentence2", "sentence3"], near)
    for step, seed in (("again", 2), ("further", 3)):
        prepare_again(step, train_rows, near, random.Random(seed))


def read_pairs() -> list[list[str]]:
    """Read premise, hypothesis, label and source, in an order of their own."""
    with lzma.open(SHARED / "data/nli/train.tsv.xz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    rows = [row for row in rows if not any(d in cell for cell in row for d in DEMONSTRATION)]
    random.Random(1).shuffle(rows)
    return [row for row in rows if row[3].startswith(CHECKED)]


def triples(rows: list[list[str]]) -> list[list[str]]:
    """Make rows of a premise, what follows from it, and what contradicts it, where there is one."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for premise, hypothesis, label, _ in rows:
        found[premise][label].append(hypothesis)
    return [
        [premise, near, far]
        for premise, of in found.items()
        for near, far in itertools.zip_longest(
            of["entailment"], of["contradiction"][: len(of["entailment"])], fillvalue=""
        )
    ]


def prepare_again(
    step: str, pairs: list[list[str]], near: list[list[str]], luck: random.Random
) -> None:
    """Write the tables of a step: pairs with moods, sentences with forms of words.

    Args:
        step: "again" or "further".
        pairs: the training pairs.
        near: the rows of sentences.
        luck: what draws.
    """
    said = list(dict.fromkeys(text for row in pairs for text in row[:2]))
    luck.shuffle(said)
    slate = list(sentences(line for lines in learnable("oanc_slate") for line in lines))
    luck.shuffle(slate)
    texts = itertools.chain(*zip(said, slate, strict=False))
    rows = [*pairs, *moods(texts, MOODS, luck)]
    luck.shuffle(rows)
    write_table(f"{step}_train", LABELLED, rows)
    wiki = sentences(line for lines in learnable("simplewiki_2022") for line in lines)
    words = forms(itertools.chain(slate, wiki), LEAST, luck)
    write_table(f"{step}_sentences", ["sentence", "sentence2", "sentence3"], [*near, *words])
    every = (sentences(line for lines in learnable(name) for line in lines) for name in TEXTS)
    chosen = luck.sample(list(dict.fromkeys(itertools.chain(*every))), SINGLE)
    write_table(f"{step}_single", ["sentence"], [[text] for text in chosen])


def judge_moods() -> None:
    """Write the pairs of the step `moods`: those of before, with moods that two kinds of judge see.

    What the lexicons found must be seen by the language model too, and so must the moods of the
    reviews that it wrote itself. Single words stay as they are.
    """
    rows = read_table("further_train")
    pairs, found = ([row for row in rows if (row[3] == "mood") == is_mood] for is_mood in (0, 1))
    words = [row for row in found if len(row[0].split()) <= 2]
    texts = {row[0]: mood_of(row) for row in found if len(row[0].split()) > 2}
    luck, chosen = random.Random(1), sorted(texts)
    luck.shuffle(chosen)
    scores = scored(chosen[:JUDGED], WORK / "scores.tsv")
    kept = agreed((text, texts[text], score) for text, score in scores.items())
    wrote = {
        text: mood
        for text, mood in reviews(REVIEWS, WORK / "reviews.tsv")
        if not any(d in text for d in DEMONSTRATION)
    }
    said = scored(list(wrote), WORK / "scores.tsv")
    kept += REPEATED * agreed((text, mood, said[text]) for text, mood in wrote.items())
    rows = [*pairs, *words, *(statement(form(text, luck), mood, luck) for text, mood in kept)]
    luck.shuffle(rows)
    write_table("moods_train", LABELLED, rows)


def label_pairs() -> None:
    """Write what the step `distil` learns: text, sentences, pairs with a larger model's opinion.

    Where people labelled a pair that the model sees, their label counts as much as its opinion;
    where nobody did, its opinion stands alone. Other pairs and moods are as they were.
    """
    left_out = {text for row in read_table("nli_valid") for text in row[:2]}
    rows = [row for row in read_table("moods_train") if left_out.isdisjoint(row[:2])]
    people = [row for row in rows if row[3] != "mood"]
    write_prose()
    cover_words((text for row in people for text in row[:2]), left_out)
    model = pair_teacher.unpacked(WORK / "mpnet")
    learnt = [(a, b, label) for a, b, label, _ in people]
    state = pair_teacher.learn(learnt, model, WORK / "pair_teacher")
    luck, short = random.Random(4), [row for row in people if len(row[0] + row[1]) < LETTERS]
    new = unlabelled(short, luck)
    asked = [(a, b) for a, b, *_ in luck.sample(short, min(SEEN, len(short)))] + new
    found = pair_teacher.probable(asked, model, state)
    for row in rows:
        own = sure(row[2])
        row.append(written(middle(own, found.get((row[0], row[1]), own))))
    for pair in new:
        rows.append([*pair, likeliest(found[pair]), "mpnet", written(found[pair])])
    random.Random(5).shuffle(rows)
    write_table("distil_train", OPINIONS, rows)


def balance() -> None:
    """Write the pairs of the step `balanced`: of each source as many of each label.

    Of the captions that SNLI pairs, one in five is neutral in the tables of before, where a third
    is in SNLI itself (Bowman et al. 2015): one source of counterfactuals has few. The larger
    model learned these too, so its opinion of captions is put right (`evened`).
    """
    rows, valid = read_table("distil_train"), read_table("nli_valid")
    counts = Counter(row[2] for row in rows if row[3].startswith("snli"))
    learnt = [counts[label] for label in pair_teacher.LABELS]
    captions = {text for row in rows if row[3].startswith("snli") for text in row[:2]}
    for row in rows:
        if row[3] == "mood" or not captions.issuperset(row[:2]):
            continue
        likely = [float(p) for p in row[4].split()]
        if row[3] == "mpnet":
            row[3], likely = "mpnet of captions", evened(likely, learnt)
            row[2] = likeliest(likely)
        else:
            own = sure(row[2])
            seen = [2 * p - q for p, q in zip(likely, own, strict=True)]
            likely = middle(own, evened(seen, learnt))
        row[4] = written(likely)
    luck = random.Random(7)
    kept = [row for row in rows if row[3] == "mood"]
    kept += as_many([row for row in rows if row[3] != "mood"], luck)
    luck.shuffle(kept)
    write_table("balanced_train", OPINIONS, kept)
    write_table("balanced_valid", LABELLED, as_many(valid, luck))


def sure(label: str) -> list[float]:
    """Return the probabilities of a label that nobody doubts."""
    return [float(label == name) for name in pair_teacher.LABELS]


def middle(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return the mean of two opinions."""
    return [(a + b) / 2 for a, b in zip(one, other, strict=True)]


def likeliest(likely: Sequence[float]) -> str:
    """Return the label with the largest probability."""
    return pair_teacher.LABELS[likely.index(max(likely))]


def written(likely: Sequence[float]) -> str:
    """Write probabilities as a cell of a table."""
    return " ".join(f"{p:.4f}" for p in likely)


def evened(likely: Sequence[float], learnt: Sequence[int]) -> list[float]:
    """Return what a model would say had it learned each label equally often (Saerens et al. 2002).

    Args:
        likely: how likely it says that each label is.
        learnt: how often it learned each.

    Example:
        >>> evened([0.5, 0.2, 0.3], [400, 100, 300])
        [0.29411764705882354, 0.47058823529411764, 0.23529411764705882]
    """
    found = [max(0.0, p) / count for p, count in zip(likely, learnt, strict=True)]
    return [p / sum(found) for p in found]


def as_many(rows: list[list[str]], luck: random.Random) -> list[list[str]]:
    """Draw from the rows of each source as many of each label as its rarest label has."""
    of: dict[str, dict[str, list[list[str]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        of[row[3]][row[2]].append(row)
    found = []
    for labels in of.values():
        least = min(len(labels[label]) for label in pair_teacher.LABELS)
        for some in labels.values():
            found += luck.sample(some, least)
    return found


def write_prose() -> None:
    """Write the text of the masked LM of the step `distil`."""
    from roberta_hub.text.tokenizer import Tokenizer
    from roberta_hub.train.data.streams import build_stream

    with (WORK / "distil.txt").open("w") as out:
        for name in (*PROSE, "simplewiki_2022"):
            for number, lines in enumerate(learnable(name)):
                if name in PROSE or number % ARTICLES == 0:
                    out.write("\n".join(lines) + "\n\n")
    build_stream(WORK / "distil.txt", WORK / "distil_tokens", Tokenizer.shipped())


def cover_words(said: Iterable[str], left_out: Collection[str]) -> None:
    """Write single sentences for `distil`: some that hold a cut word, and each such word by itself.

    Args:
        said: sentences of the pairs, which are added to those of the text.
        left_out: sentences that are there to measure on.
    """
    from roberta_hub.text.tokenizer import Tokenizer

    every = (sentences(line for lines in learnable(name) for line in lines) for name in TEXTS)
    texts = [
        text
        for text in dict.fromkeys(itertools.chain(said, *every))
        if len(text.split()) <= SHORT and text not in left_out
    ]
    luck = random.Random(6)
    luck.shuffle(texts)
    words = cut_words(texts, Tokenizer.shipped().tokenize, CUT)
    alone = [f"the{word}" if word.startswith(" ") else word for word in sorted(words)]
    rows = [*covering(texts, words, COVERED), *alone]
    luck.shuffle(rows)
    write_table("distil_single", ["sentence"], [[text] for text in dict.fromkeys(rows)])


def unlabelled(rows: list[list[str]], luck: random.Random) -> list[tuple[str, str]]:
    """Make pairs that nobody labelled: of one premise, turned round, and of near premises.

    Args:
        rows: pairs that people labelled.
        luck: what draws.
    """
    of: dict[str, list[str]] = defaultdict(list)
    for premise, hypothesis, *_ in rows:
        of[premise].append(hypothesis)
    one = [pair for said in of.values() for pair in itertools.permutations(said, 2)]
    turned = [(row[1], row[0]) for row in luck.sample(rows, min(TURNED, len(rows)))]
    near = [
        (premise, luck.choice(of[other])) for premise, other in neighbours(list(of), NEAR, luck)
    ]
    known = {(row[0], row[1]) for row in rows}
    found = dict.fromkeys([*one, *turned, *near])
    return [(a, b) for a, b in found if (a, b) not in known and a != b and len(a + b) < LETTERS]


def neighbours(texts: list[str], count: int, luck: random.Random) -> list[tuple[str, str]]:
    """Draw some texts, each with the other text that means nearly the same."""
    from roberta_hub import load_model

    vectors = load_model(WORK / "minilm").optimize("auto").embed(texts, truncate=True)
    chosen = luck.sample(range(len(texts)), min(count, len(texts)))
    found = []
    for start in range(0, len(chosen), NEAREST):
        some = chosen[start : start + NEAREST]
        cosines = vectors[some] @ vectors.T
        cosines[range(len(some)), some] = -1
        found += list(zip(some, cosines.argmax(1).tolist(), strict=True))
    return [(texts[own], texts[other]) for own, other in found]


def write_table(name: str, header: list[str], rows: list[list[str]]) -> None:
    """Write a tab-separated table into `runs/tiny`."""
    lines = ["\t".join(row) for row in [header, *rows]]
    new = WORK / f"{name}.new"
    new.write_text("\n".join(lines) + "\n", encoding="utf-8")
    new.rename(WORK / f"{name}.tsv")


def read_table(name: str) -> list[list[str]]:
    """Read the rows of a table that `write_table` wrote."""
    lines = (WORK / f"{name}.tsv").read_text(encoding="utf-8").split("\n")
    return [line.split("\t") for line in lines[1:-1]]
