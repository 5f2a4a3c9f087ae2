"""The learning rate of a model's width: one rule for `fit` and for the recipes of fine-tuning."""

from __future__ import annotations

BASE_WIDTH = 768
"""Width of a base model, for which published rates are made."""
MAX_RATE = 1e-3
"""The highest peak that the rule gives."""


def rate_for(width: int, base: float = 2e-5, of: int = BASE_WIDTH) -> float:
    """Choose the peak of a learning rate: more for narrower models, by the third power.

    Example:
        >>> [rate_for(width) for width in (128, 256, 384, 768, 1024)]
        [0.001, 0.00054, 0.00016, 2e-05, 8.4e-06]
    """
    return float(f"{min(MAX_RATE, base * (of / width) ** 3):.2g}")


def scale_rate(rate: float, width: int, of: int = BASE_WIDTH) -> float:
    """Scale a published rate to a narrower model; wider ones keep it exactly.

    Example:
        >>> [scale_rate(3e-5, width) for width in (128, 384, 768, 1024)]
        [0.001, 0.00024, 3e-05, 3e-05]
    """
    return rate if width >= of else max(rate, rate_for(width, rate, of))
