"""What the answers of a model to test rows are worth."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .fit_sets import Drawn, Table

BINS = 10
LEAST = 1e-7
"""What a probability counts as at least in the log loss: float32 knows few smaller near 1."""


@dataclass(frozen=True)
class Answers:
    """Probabilities of the test rows, and what they cost."""

    labels: tuple[str, ...]
    """Of the columns; none of scored pairs."""
    values: np.ndarray
    """Probabilities, or the one output of scored pairs. Shape: (N, K) or (N,)"""
    cpu_seconds: float
    """Of the processor, to learn; answering is not counted."""
    chosen: list[tuple[str, ...]] | None = None
    """Several labels: those that the model answers."""
    way: str = ""
    """How the engine learnt, where it chooses."""
    own: dict[str, float] = field(default_factory=dict)
    """What the engine itself says that it reaches."""


def judge(answers: Answers, drawn: Drawn, table: Table) -> dict[str, float]:
    """Score the answers to a table.

    Args:
        answers: one row for each of `drawn.test`.
        drawn: the rows.
        table: tells which scores are meant.

    Returns:
        By kind: "spearman"; "map" and "mrr"; "micro_f1"; or "accuracy", "macro_f1", "ece",
        "log_loss" and, of a rare class, "recall_of_rare", of a positive one "f1_of_positive".
    """
    if table.kind == "scored":
        return {"spearman": spearman(answers.values, [label for _, label in drawn.test])}
    if table.kind == "ranked":
        return ranking(one_score(answers, table), drawn)
    if table.kind == "several":
        assert answers.chosen is not None
        return {"micro_f1": micro_f1(answers.chosen, [label for _, label in drawn.test])}
    wanted = np.array([answers.labels.index(str(label)) for _, label in drawn.test])
    found = {
        "accuracy": float((answers.values.argmax(1) == wanted).mean()),
        "macro_f1": macro_f1(answers.values.argmax(1), wanted),
        "ece": ece(answers.values, wanted),
        "log_loss": log_loss(answers.values, wanted),
    }
    if table.kind == "rare":
        learnt = [label for _, label in drawn.learn]
        rare = answers.labels.index(min(answers.labels, key=learnt.count))
        found["recall_of_rare"] = float((answers.values.argmax(1) == rare)[wanted == rare].mean())
    if table.positive:
        at = answers.labels.index(table.positive)
        found["f1_of_positive"] = f1_of(answers.values.argmax(1) == at, wanted == at)
    return found


def one_score(answers: Answers, table: Table) -> np.ndarray:
    """What ranks the rows: the one output, or the probability of the positive label. Shape: (N,)"""
    if answers.values.ndim == 1:
        return answers.values
    found: np.ndarray = answers.values[:, answers.labels.index(table.positive)]
    return found


def ranking(values: np.ndarray, drawn: Drawn, right: str = "right") -> dict[str, float]:
    """Mean average precision and mean reciprocal rank of the right second sentences.

    The rows of a first sentence are one ranking; those with right rows alone, or none, are left
    out.
    """
    from sklearn.metrics import average_precision_score

    groups: dict[str, list[int]] = defaultdict(list)
    for row, (text, _) in enumerate(drawn.test):
        groups[text[0]].append(row)
    wanted = np.array([label == right for _, label in drawn.test])
    precisions, reciprocals = [], []
    for rows in groups.values():
        if wanted[rows].any() and not wanted[rows].all():
            precisions.append(average_precision_score(wanted[rows], values[rows]))
            order = wanted[rows][np.argsort(-values[rows], kind="stable")]
            reciprocals.append(1 / (1 + order.argmax()))
    return {"map": float(np.mean(precisions)), "mrr": float(np.mean(reciprocals))}


def f1_of(found: np.ndarray, wanted: np.ndarray) -> float:
    """F1 of one class, given where it is answered and where it is right."""
    from sklearn.metrics import f1_score

    return float(f1_score(wanted, found, zero_division=0))


def ece(probabilities: np.ndarray, wanted: np.ndarray) -> float:
    """Expected calibration error: how far the top score is from how often it is right.

    Ten bins of the same width; each counts by its rows.

    Args:
        probabilities: shape (N, K).
        wanted: the right columns. Shape: (N,)
    """
    top, right = probabilities.max(1), probabilities.argmax(1) == wanted
    bins = np.minimum((top * BINS).astype(int), BINS - 1)
    gaps = [abs((right[bins == b] - top[bins == b]).sum()) for b in range(BINS)]
    return float(sum(gaps) / len(top))


def log_loss(probabilities: np.ndarray, wanted: np.ndarray) -> float:
    """Mean of -ln of the right label's probability."""
    right = probabilities[np.arange(len(wanted)), wanted]
    return float(-np.log(np.maximum(right, LEAST)).mean())


def macro_f1(found: np.ndarray, wanted: np.ndarray) -> float:
    """Mean over the classes of F1."""
    from sklearn.metrics import f1_score

    return float(f1_score(wanted, found, average="macro", zero_division=0))


def micro_f1(found: list[tuple[str, ...]], wanted: list[Any]) -> float:
    """F1 of all (row, label) together; a label outside the training counts as missed."""
    both = sum(len(set(f) & set(w)) for f, w in zip(found, wanted, strict=True))
    total = sum(len(set(f)) + len(set(w)) for f, w in zip(found, wanted, strict=True))
    return 2 * both / total if total else 1.0


def spearman(found: np.ndarray, wanted: list[Any]) -> float:
    """Correlation of the ranks; 0 where all outputs are the same."""
    from scipy.stats import spearmanr

    value = float(spearmanr(found, wanted).statistic) if np.ptp(found) else 0.0
    return 0.0 if np.isnan(value) else value
