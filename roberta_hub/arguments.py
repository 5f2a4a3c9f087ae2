"""What a caller passed as an argument: whole numbers, switches, choices, texts.

Each check says what the argument is, what it can be, and leaves no other error than our own.
"""

from __future__ import annotations

import operator
import os
import reprlib
from pathlib import Path
from typing import Any

from roberta_hub.errors import InputError, InputTypeError


def kind_of(value: object) -> str:
    """A value's type, by the name that its users know."""
    return type(value).__name__


def shown(value: object, limit: int = 60) -> str:
    """A value as an error shows it, however long it is, or if it cannot be shown at all.

    Example:
        >>> shown("a" * 100, 10)
        "'aaaaaa..."
        >>> shown(10**5000)
        'a int'
    """
    try:
        text = repr(value[: 2 * limit]) if isinstance(value, (str, bytes)) else repr(value)
    except Exception:  # an object of the caller's, whose repr may do anything
        return f"a {kind_of(value)}"
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def brief(value: object) -> str:
    """A value as an error shows it, in a few dozen characters however deep its parts are.

    For values out of files, whose parts may share parts so often that `repr` has no end.

    Example:
        >>> brief([[1, 2], list(range(100))])
        '[[1, 2], [0, 1, 2, 3, 4, 5, ...]]'
    """
    try:
        return reprlib.repr(value)
    except Exception:  # a number of more digits than str() takes, say
        return f"a {kind_of(value)}"


def whole_number(
    name: str, value: Any, low: int | None = None, high: int | None = None, *, hint: str = ""
) -> int:
    """An int between two bounds, of Python or numpy; True is none.

    Args:
        name: of the argument.
        value: what was passed.
        low: least.
        high: greatest.
        hint: what an error says it may be, instead of the bounds.

    Raises:
        InputError: of another type, or outside.

    Example:
        >>> whole_number("topk", 5, 1, 10)
        5
    """
    bounds = f"at least {low}" if high is None else f"in {low} to {high}"
    kind = "" if type(value) is int else "a whole number"
    limits = ", ".join(filter(None, [kind, "" if low is None else bounds]))
    fits = f"; {hint}" if hint else f", must be {limits}"
    if type(value) is not int:
        flag = isinstance(value, bool) or kind_of(value) == "bool"  # numpy's own
        if flag or (hasattr(type(value), "__array__") and getattr(value, "shape", None) != ()):
            raise InputError(f"{name} is {shown(value)}{fits}")
        try:
            value = operator.index(value)
        except Exception:
            raise InputError(f"{name} is {shown(value)}{fits}") from None
    if (low is not None and value < low) or (high is not None and value > high):
        raise InputError(f"{name} is {shown(value)}{fits}")
    return int(value)


def switch(name: str, value: object) -> bool:
    """True or False; 1 and 0 as well, and nothing else: "no" would be true.

    Raises:
        InputTypeError: something else.

    Example:
        >>> switch("truncate", 1)
        True
    """
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if kind_of(value) in ("bool", "bool_"):  # numpy's
        return bool(value)
    raise InputTypeError(f"{name} is {shown(value)}; pass True or False")


def one_of(name: str, value: object, choices: tuple[str | None, ...]) -> None:
    """Refuse what is none of some names.

    Raises:
        InputError: another value.

    Example:
        >>> one_of("pooling", "max", (None, "cls", "mean"))
        Traceback (most recent call last):
        ...
        roberta_hub.errors.InputError: pooling is 'max'; choose None, 'cls' or 'mean'
    """
    if (value is None or isinstance(value, str)) and value in choices:
        return
    *most, last = (repr(choice) for choice in choices)
    raise InputError(f"{name} is {shown(value)}; choose {', '.join(most)} or {last}")


def text_of(name: str, value: object) -> str:
    """A str.

    Raises:
        InputTypeError: something else.
    """
    if not isinstance(value, str):
        raise InputTypeError(f"{name} is a {kind_of(value)}, not a str")
    return str.__str__(value)  # numpy's own str is none for code in C


def path_text(name: str, value: object) -> str:
    """A name or a path as str, from a str or what `os.fspath` takes.

    Raises:
        InputTypeError: of another type, bytes too.
    """
    try:
        text = os.fspath(value)  # type: ignore[call-overload]
    except Exception:
        text = None
    if not isinstance(text, str):
        raise InputTypeError(f"{name} is {brief(value)}; give a str or a pathlib.Path")
    return text


def path_of(name: str, value: object) -> Path:
    """A path that a file can have, from a str or what `os.fspath` takes.

    Raises:
        InputTypeError: of another type, bytes too.
        InputError: empty, or a str that no file can be called.
    """
    path = path_text(name, value)
    try:
        sound = bool(path) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:  # half a surrogate pair
        sound = False
    if not sound:
        raise InputError(f"{name} is {shown(path)}, which is no path")
    return Path(path)
