"""Writes what an engine answered to test rows as one short str, and reads it again.

A class is one character, the number of its label in the sorted labels from "0" on; a score of a
pair has four decimals.
"""

from __future__ import annotations

import numpy as np

from .fit_scores import Answers

FIRST = ord("0")


def written(answers: Answers) -> str:
    """Write the likeliest class of each row, or the score of each pair."""
    if answers.values.ndim == 1:
        return " ".join(f"{value:.4f}" for value in answers.values)
    return "".join(chr(FIRST + int(at)) for at in answers.values.argmax(1))


def classes(text: str) -> np.ndarray:
    """Read the numbers of classes. Shape: (N,)"""
    return np.array([ord(mark) - FIRST for mark in text])


def scores(text: str) -> np.ndarray:
    """Read the scores of pairs. Shape: (N,)"""
    return np.array([float(part) for part in text.split()])
