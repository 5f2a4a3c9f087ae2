"""The learning rate of a model's width: one rule for `fit` and for the recipes of fine-tuning."""

from __future__ import annotations

WIDTH = 768
"""Of a base model, for which published rates are made."""
MOST = 1e-3
"""The highest peak that the rule gives."""


def scaled(rate: float, width: int) -> float:
    """Scale the peak of a rate that suits a base model: narrower models learn at a higher one.

    It grows with the third power of what the width lacks. Models of width 768 and above keep theirs
    to the digit.

    Args:
        rate: for a width of 768.
        width: of the model's hidden states.

    Example:
        >>> [scaled(3e-5, width) for width in (128, 384, 768, 1024)]
        [0.001, 0.00024, 3e-05, 3e-05]
    """
    if width >= WIDTH:
        return rate
    return max(rate, float(f"{min(MOST, rate * (WIDTH / width) ** 3):.2g}"))
