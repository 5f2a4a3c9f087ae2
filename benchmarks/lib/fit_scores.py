"""What the answers of a model to test rows are worth."""

from __future__ import annotations

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
        By kind: "spearman"; "micro_f1"; or "accuracy", "macro_f1", "ece", "log_loss" and, of a rare
        class, "recall_of_rare".
    """
    if table.kind == "scored":
        return {"spearman": spearman(answers.values, [label for _, label in drawn.test])}
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
    return found


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
