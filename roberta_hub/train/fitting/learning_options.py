"""Holds the options of training on a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import get_args

from roberta_hub.arguments import one_of, short_repr, switch, whole_number
from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.settings import HeadPooling
from roberta_hub.train.limits import MAX_SEED

LIMITS = {
    "epochs": (1, 10_000),
    "batch_size": (1, 100_000),
    "max_length": (3, 1_000_000),  # one piece between <s> and </s>
    "trials": (1, 1_000),
}
"""Least and most of what may be said in whole numbers."""


@dataclass(frozen=True)
class LearningOptions:
    """How to learn, as far as the caller says it; None leaves a choice to `fit`.

    Example:
        >>> LearningOptions(epochs=3).minutes is None
        True
        >>> LearningOptions(learning_rate=0)
        Traceback (most recent call last):
        ...
        roberta_hub.errors.InputError: learning_rate is 0; give a number above 0 and below 1
    """

    epochs: int | None = None
    """How often each row is seen."""
    learning_rate: float | None = None
    """Peak of the learning rate. It is taken as it is, whatever the model's width."""
    batch_size: int | None = None
    """Rows of an update."""
    max_length: int | None = None
    """Most tokens of a text in training; the rest is cut."""
    minutes: float | None = None
    """Work of two cores that choosing and learning may take, counted and not measured."""
    balance: bool = False
    """Whether rare classes count as much as frequent ones."""
    pooling: HeadPooling | None = None
    """What the head reads; None: what the model was trained with."""
    trials: int | None = None
    """Rates and numbers of epochs to try by cross-validation."""
    reject: float | None = None
    """Share of texts with known classes that may be refused; None: none is."""
    seed: int = 1
    """Seed of new weights, the order of rows, dropout and what is held out."""

    def __post_init__(self) -> None:
        for name, (least, most) in LIMITS.items():
            if (value := getattr(self, name)) is not None:
                self._keep(name, whole_number(name, value, least, most))
        self._keep("seed", whole_number("seed", self.seed, 0, MAX_SEED))
        self._keep("learning_rate", _number("learning_rate", self.learning_rate, 1.0))
        self._keep("minutes", _number("minutes", self.minutes, math.inf))
        self._keep("reject", _number("reject", self.reject, 1.0))
        self._keep("balance", switch("balance", self.balance))
        if self.trials is not None and None not in (self.epochs, self.learning_rate):
            raise InputError("trials vary epochs and learning_rate; leave one of both to them")
        one_of("pooling", self.pooling, (None, *get_args(HeadPooling)))

    @property
    def says_how(self) -> bool:
        """Whether the caller says how the whole model is to learn."""
        return bool(self.epochs or self.learning_rate or self.batch_size)

    def _keep(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # numpy's numbers become Python's; it is frozen


def _number(name: str, value: object, below: float) -> float | None:
    """Check that an option is None, or a number above 0 and below a limit."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputTypeError(f"{name} is {short_repr(value)}; give a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 < number < below:
        limit = "" if below == math.inf else f" and below {below:g}"
        raise InputError(f"{name} is {short_repr(value)}; give a number above 0{limit}")
    return number
