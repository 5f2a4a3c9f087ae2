"""Says how a model gives labels that nothing was trained on, and how sure it then may be."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal, get_args

from roberta_hub.arguments import one_of, shown
from roberta_hub.errors import InputError

Way = Literal["entailment", "meaning", "both"]
"""What `zero_shot` asks: a head for entailment, the nearest label's vector, or both."""
WAYS: tuple[Way, ...] = get_args(Way)


@dataclass(frozen=True, kw_only=True)
class ZeroShotSettings:
    """By which way a model labels best, and the constants that make its scores probabilities.

    The defaults are those of roberta.tiny's vectors, all-MiniLM-L6-v2's, and serve models of their
    kind that say nothing.

    Example:
        >>> ZeroShotSettings(by="both").weight
        90.0
        >>> ZeroShotSettings(by="luck")
        Traceback (most recent call last):
        ...
        roberta_hub.errors.InputError: by is 'luck'; choose 'entailment', 'meaning' or 'both'
    """

    by: Way = "entailment"
    """What `zero_shot` asks unless it is told."""
    scale: float = 19.0
    """By meaning alone, a cosine times this is a logit."""
    weight: float = 90.0
    """By both, a cosine is added to the logit of entailment, times this and the square of how far
    the labels lie from each other (1 less their mean cosine)."""
    temperature: float = 2.0
    """By both, the sum is divided by this."""
    middle: float = 0.2
    """With `multi_label`, the cosine at which a label is as likely right as wrong."""

    def __post_init__(self) -> None:
        one_of("by", self.by, WAYS)
        for name in ("scale", "weight", "temperature", "middle"):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not math.isfinite(value):
                raise InputError(f"{name} is {shown(value)}, must be a number")
            if name == "middle" and not -1 <= value <= 1:
                raise InputError(f"middle is {shown(value)}, must lie in -1..1, as cosines do")
            if name != "middle" and not 0 < value <= MOST:
                raise InputError(f"{name} is {shown(value)}, must be above 0 and at most {MOST}")
            object.__setattr__(self, name, float(value))

    def summary(self) -> str:
        """Say it in a line.

        Example:
            >>> ZeroShotSettings(by="both", weight=12).summary()
            'by entailment and meaning (weight 12)'
        """
        if self.by == "both":
            return f"by entailment and meaning (weight {self.weight:g})"
        return f"by {self.by}"

    def to_dict(self) -> dict[str, object]:
        """Plain values for a JSON file; `ZeroShotSettings(**d)` restores them."""
        return dataclasses.asdict(self)


MOST = 1000
"""Largest factor of a cosine, and largest temperature."""
