"""Reads table cells as text, number or missing value, the same way for all callers.

Values of other packages are known by what they offer, so that none of those packages is imported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from numbers import Number
from typing import Any, TypeVar

from roberta_hub.errors import InputError

T = TypeVar("T")

_MISSING_TYPES = ("NoneType", "NAType", "NaTType", "MaskedConstant")
"""Types whose only value says that there is none: of Python, pandas and numpy."""
_TIME_TYPES = ("datetime64", "timedelta64")
"""numpy's types that have a "not a time"."""


@dataclass(frozen=True)
class Fault:
    """Placeholder for a row or value that cannot be read."""

    why: str


class Unreadable(Fault):
    """Fault after which nothing of a source can be read.

    Its end is not found within the limit, or the whole file is something else.
    """


def value_or_raise(value: T | Fault, where: str) -> T:
    """Return what could be read."""
    if isinstance(value, Fault):
        raise InputError(value.why, place=where)
    return value


def to_python(value: Any) -> Any:
    """Return what a cell holds as Python's own value: numpy's scalars and arrays, sets, tuples.

    Example:
        >>> to_python({"b", "a"}), to_python((1, 2)), to_python("a, b")
        (['a', 'b'], [1, 2], 'a, b')
    """
    if isinstance(value, str):
        return value
    if hasattr(type(value), "tolist"):
        value = value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return list(value) if isinstance(value, tuple) else value


def is_missing(value: object) -> bool:
    """Whether a cell is missing: None, any NaN, pandas' NA and NaT, Arrow's null.

    A str is never missing, whatever it says: "", " " and "nan" are texts.

    Example:
        >>> [is_missing(value) for value in (None, float("nan"), Decimal("nan"), "nan", "", 0, [])]
        [True, True, True, False, False, False, False]
    """
    if isinstance(value, str):
        return False
    kind = type(value)
    if kind.__name__ in _MISSING_TYPES:
        return True
    if isinstance(value, Decimal):  # a signalling NaN raises where it is compared
        return value.is_nan()
    if isinstance(value, Number) or kind.__name__ in _TIME_TYPES:
        return bool(value != value)
    return hasattr(kind, "as_py") and getattr(value, "is_valid", True) is False  # Arrow's scalars


def is_blank(value: object) -> bool:
    """Tell whether a cell holds nothing to train on: it is missing, or white space.

    Example:
        >>> [is_blank(value) for value in (None, float("nan"), " ", 0, [])]
        [True, True, True, False, False]
    """
    return not value.strip() if isinstance(value, str) else is_missing(value)


def number_in(value: Any) -> float | None:
    """Read a cell as a finite number; None where it is none.

    Example:
        >>> number_in(" 2.5 "), number_in(3), number_in("nan"), number_in(True)
        (2.5, 3.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal)):
        return None
    if isinstance(value, str) and "_" in value:  # Python's own way of writing numbers
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


FLOAT32_MAX = 3.4028234663852886e38


def float32_in(value: Any) -> float | None:
    """Read a cell as a number that float32 holds; None where it is none.

    Example:
        >>> float32_in("2.5"), float32_in(1e39), float32_in("nan")
        (2.5, None, None)
    """
    number = number_in(value)
    return None if number is None or abs(number) > FLOAT32_MAX else number


FLAG_WORDS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
"""Words that say yes or no, in any case."""


def flag_in(value: Any) -> bool | None:
    """Read a cell as yes or no; None where it is neither.

    Example:
        >>> flag_in(True), flag_in("No"), flag_in(1.0), flag_in("0.0"), flag_in("maybe")
        (True, False, True, False, None)
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().casefold() in FLAG_WORDS:
        return FLAG_WORDS[value.strip().casefold()]
    number = number_in(value)
    return bool(number) if number in (0, 1) else None


def is_utf8(text: str) -> bool:
    """Tell whether a str can be written: half of a surrogate pair cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
