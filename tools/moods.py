"""Makes tables that teach a model what a mood is, and that a word keeps its sense in every form.

Two lexicons, VADER's and TextBlob's, judge sentences of the training text and of the pairs; where
both are sure and agree, the sentence becomes a premise, and "This example is positive." a
hypothesis that follows from it or contradicts it (distant supervision; Go et al. 2009). Later a
small language model (small_lm.py) must see the same mood, and writes reviews besides. Of the
first 8,000 rows of six words or more of SST-2's training set, which no step reads, both are sure of
29 % and right on 86 % of these (at 0.3 and 0.2; see SURE). Both moods, and both labels of each
hypothesis, are equally frequent: a model of pairs alone calls 94 % of reviews "positive".
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from statistics import median

MOODS = (
    ("negative", "positive"),
    ("bad", "good"),
    ("terrible", "great"),
    ("awful", "wonderful"),
    ("poor", "excellent"),
    ("sad", "happy"),
    ("unpleasant", "pleasant"),
    ("disappointing", "satisfying"),
)
"""Words for the two moods; the first pair is drawn as often as all others together."""
HYPOTHESES = (
    "This example is {}.",
    "This example is {}.",
    "This text is {}.",
    "It is {}.",
    "The sentiment is {}.",
    "The review is {}.",
    "This is {}.",
    "The author's opinion is {}.",
)
"""Hypotheses; the verb's own is drawn twice as often as another."""
WORDS = range(3, 41)
"""How many words a sentence may have."""
SURE = (0.5, 0.2)
"""VADER's compound and TextBlob's polarity must be at least so far from 0."""
SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z\"'])")
WORD = re.compile(r"[a-z]{3,}")

Judge = Callable[[str], float]


def judge() -> Judge:
    """Return what says how positive a text is, from -1 to 1: 0 where neither lexicon sees a mood.

    NaN where they are not sure, or disagree.
    """
    from textblob import TextBlob
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    vader = SentimentIntensityAnalyzer()

    def score(text: str) -> float:
        first = vader.polarity_scores(text)["compound"]
        if 0 < abs(first) < SURE[0]:
            return math.nan
        second = TextBlob(text).sentiment.polarity
        sure = (abs(second) >= SURE[1] and first * second > 0) or first == second == 0
        return float(first) if sure else math.nan

    return score


def lexicon_words() -> list[tuple[str, float]]:
    """Return VADER's words of a clear mood, with how positive each is."""
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    rows = SentimentIntensityAnalyzer().lexicon.items()
    return [(word, mean) for word, mean in sorted(rows) if WORD.fullmatch(word) and abs(mean) > 1.2]


def sentences(lines: Iterable[str]) -> Iterator[str]:
    """Cut lines into sentences of a fitting length."""
    for line in lines:
        for sentence in SENTENCE.split(line.strip()):
            if len(sentence.split()) in WORDS and "\t" not in sentence:
                yield sentence


def form(text: str, luck: random.Random) -> str:
    """Write a text in lower case, or without the sign at its end, or as it is."""
    draw = luck.random()
    if draw < 0.3:
        text = text.lower()
    return text.rstrip(".") if luck.random() < 0.3 else text


def moods(texts: Iterable[str], count: int, luck: random.Random) -> list[list[str]]:
    """Make rows of premise, hypothesis, label and source.

    Args:
        texts: sentences, in an order of their own.
        count: sentences that are taken of each mood, and of none.
        luck: what draws.
    """
    score, found = judge(), Counter[float]()
    rows = []
    for text in texts:
        mood = score(text)
        sign = mood and math.copysign(1, mood)
        if math.isnan(mood) or found[sign] == count:
            continue
        found[sign] += 1
        rows.append(statement(form(text, luck), sign, luck))
        if found.total() == 3 * count:
            break
    for word, mood in lexicon_words():
        for written in (f"{word.capitalize()}.", luck.choice([word, f"{word}!", word.upper()])):
            rows.append(statement(written, math.copysign(1, mood), luck))
    return rows


def statement(premise: str, mood: float, luck: random.Random) -> list[str]:
    """Make one row of a text whose mood is 1, -1 or 0.

    Half of the hypotheses follow and half contradict, or none does either where there is no mood.
    """
    pair = MOODS[0] if luck.random() < 0.5 else luck.choice(MOODS[1:])
    follows = luck.random() < 0.5
    hypothesis = luck.choice(HYPOTHESES).format(pair[(mood > 0) == follows])
    label = "neutral" if mood == 0 else "entailment" if follows else "contradiction"
    return [premise, hypothesis, label, "mood"]


def mood_of(row: list[str]) -> float:
    """Tell the mood of the text of a row that `statement` made: 1, -1 or 0."""
    _, hypothesis, label, _ = row
    if label == "neutral":
        return 0.0
    word = hypothesis.rstrip(".").split()[-1]
    return 1.0 if any(word == good for _, good in MOODS) == (label == "entailment") else -1.0


def agreed(judged: Iterable[tuple[str, float, float]]) -> list[tuple[str, float]]:
    """Keep the texts whose mood another judge sees too: (text, mood).

    What lies between the two moods is taken from the judge's own scores: the middle between the
    medians of both moods. A tenth of the way to a median must be left; a text without a mood must
    lie nearer to the middle than both medians do.

    Args:
        judged: text, mood (1, -1 or 0) and the other judge's score, the higher the more positive.
    """
    rows = list(judged)
    low, high = (median(score for _, mood, score in rows if mood == m) for m in (-1, 1))
    middle, half = (low + high) / 2, (high - low) / 2
    found = []
    for text, mood, score in rows:
        away = (score - middle) / half
        if abs(away) < 1 if mood == 0 else mood * away > 0.1:
            found.append((text, mood))
    return found


def forms(texts: Iterable[str], least: int, luck: random.Random) -> list[list[str]]:
    """Make rows of a word or a few, and the same in another form.

    Args:
        texts: sentences.
        least: how often a word must occur in them.
        luck: what draws.
    """
    counts, phrases = Counter[str](), []
    for text in texts:
        words = text.split()
        counts.update(word for word in words if WORD.fullmatch(word))
        if luck.random() < 0.02:
            phrases.append(" ".join(words[: luck.randint(2, 5)]).rstrip(",;:"))
    rows = []
    for word in sorted(word for word, n in counts.items() if n >= least):
        rows.append([f"{word.capitalize()}{luck.choice(['.', '.', '!', ''])}", word, ""])
    for phrase in phrases:
        other = luck.choice([phrase.lower(), phrase.upper(), f"{phrase.lower()}."])
        rows.append([phrase, other, ""])
    return rows
