"""Those who answer the sets of `other_sets`: of `fit_engines`, and words without a model."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import fit_engines
from .fit_engines import MODELS, Engine, loaded, texts_of
from .fit_scores import Answers
from .fit_sets import Drawn, Table

NO_MODEL = "words"
"""What stands for the model of an engine that has none."""


def tfidf(drawn: Drawn, table: Table, model: str, seed: int) -> Answers:
    """scikit-learn's logistic regression (C=10) on TF-IDF of words and pairs of words.

    Two sentences are as near as the cosine of their TF-IDF says, where the words of all sentences
    to answer are counted and nothing is learnt.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    if table.kind in ("scored", "ranked"):
        sides = [[text[side] for text, _ in drawn.test] for side in (0, 1)]
        counted = TfidfVectorizer(sublinear_tf=True).fit([*sides[0], *sides[1]])
        u, v = map(counted.transform, sides)
        return Answers((), np.asarray(u.multiply(v).sum(1)).ravel(), 0.0)
    began = time.process_time()
    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))
    learnt = words.fit_transform(texts_of(drawn.learn))
    found = LogisticRegression(C=10, max_iter=1000).fit(learnt, [label for _, label in drawn.learn])
    seconds = time.process_time() - began
    values = found.predict_proba(words.transform(texts_of(drawn.test)))
    return Answers(drawn.labels, values, seconds)


def zero_shot(drawn: Drawn, table: Table, model: str, seed: int) -> Answers:
    """`zero_shot` with the names of the labels, by meaning alone where no head judges entailment.

    The seconds are of the answers.
    """
    by = None if loaded(model).labels else "meaning"
    began = time.process_time()
    found: Any = loaded(model).zero_shot(
        texts_of(drawn.test), list(drawn.labels), by=by, truncate=True, progress=False
    )
    seconds = time.process_time() - began
    values = np.array([[answer.scores[name] for name in drawn.labels] for answer in found])
    return Answers(drawn.labels, values, seconds)


ENGINES: dict[str, Engine] = {
    "tfidf": tfidf,
    "lr": fit_engines.regression,
    "as_is": fit_engines.as_it_is,
    "zero_shot": zero_shot,
    "setfit": fit_engines.setfit,
    "ours": fit_engines.ours,
}
PACKAGES = {
    **fit_engines.PACKAGES,
    "tfidf": ("scikit-learn",),
    "zero_shot": ("torch",),
}
"""Whose versions stand with the numbers."""
OWN = ("lr", "as_is", "zero_shot", "ours")
"""Engines that ask this package, whose version stands with them."""
FROZEN = ("lr", "as_is", "zero_shot")
"""Engines that ask a model as it is, so that one that is loaded serves all their cells."""
SETFIT_ON = ("trec", "subj", "mr", "sst5", "emotion", "hate", "irony", "offensive")
"""Sets that SetFit learns, at 8 rows a class."""


def models_of(engine: str) -> tuple[str, ...]:
    """The models that an engine begins with."""
    return (NO_MODEL,) if engine == "tfidf" else MODELS


def sizes_of(engine: str, table: Table) -> Iterable[int]:
    """The sizes that an engine is asked for; 0 where it learns nothing."""
    classes = table.kind == "one"
    if engine == "as_is" or (engine == "tfidf" and not classes):
        return () if classes else (0,)
    if engine == "zero_shot":
        return (0,) if classes else ()
    if engine == "setfit":
        return (8,) if table.name in SETFIT_ON else ()
    return () if table.kind == "scored" else table.sizes


def seeds_of(engine: str, table: Table, size: int, seeds: Iterable[int]) -> list[int]:
    """The seeds: the first alone where no rows are drawn."""
    found = list(seeds)
    return found[:1] if size in (0, table.sizes[-1]) else found
