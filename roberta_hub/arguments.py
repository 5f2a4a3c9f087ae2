"""Checks what a caller passes: whole numbers, switches, choices, texts, paths; and gives advice.

An error says what the argument is and what it can be. No other error than our own gets out,
whatever object was passed.
"""

from __future__ import annotations

import operator
import os
import reprlib
import sys
import warnings
from pathlib import Path
from typing import Any

from roberta_hub.errors import Advice, InputError, InputTypeError, Remedy


def kind_of(value: object) -> str:
    """Name a value's type, as its users know it."""
    return type(value).__name__


def short_repr(value: object, limit: int = 60) -> str:
    """Write a value for an error, on one line and cut to a limit.

    A value whose `repr` fails is shown as its type.

    Example:
        >>> short_repr("a" * 100, 10)
        "'aaaaaa..."
        >>> short_repr(10**5000)
        'a int'
    """
    try:
        text = repr(value[: 2 * limit]) if isinstance(value, (str, bytes)) else repr(value)
    except Exception:  # an object of the caller's, whose repr may do anything
        return f"a {kind_of(value)}"
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def brief(value: object) -> str:
    """Write a value for an error in a few dozen characters, however deep its parts are.

    This is for values from files, whose parts may share parts so often that `repr` has no end.

    Example:
        >>> brief([[1, 2], list(range(100))])
        '[[1, 2], [0, 1, 2, 3, 4, 5, ...]]'
    """
    try:
        return reprlib.repr(value)
    except Exception:  # a number of more digits than str() takes, say
        return f"a {kind_of(value)}"


def holds_text(value: object) -> bool:
    """Whether a list or tuple has a str in it, at any depth."""
    several = isinstance(value, (list, tuple))
    return several and any(isinstance(one, str) or holds_text(one) for one in value)  # type: ignore[attr-defined]


def whole_number(
    name: str, value: Any, low: int | None = None, high: int | None = None, *, hint: str = ""
) -> int:
    """Check for an int between two bounds, of Python or numpy; True is none.

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
            raise InputError(f"{name} is {short_repr(value)}{fits}")
        try:
            value = operator.index(value)
        except Exception:
            raise InputError(f"{name} is {short_repr(value)}{fits}") from None
    if (low is not None and value < low) or (high is not None and value > high):
        raise InputError(f"{name} is {short_repr(value)}{fits}")
    return int(value)


def switch(name: str, value: object) -> bool:
    """Check for True or False; 1 and 0 are taken too, but no str, since "no" would be true.

    Example:
        >>> switch("truncate", 1)
        True
    """
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if kind_of(value) in ("bool", "bool_"):  # numpy's
        return bool(value)
    raise InputTypeError(f"{name} is {short_repr(value)}; pass True or False")


def one_of(name: str, value: object, choices: tuple[str | None, ...]) -> None:
    """Refuse a value that is none of the choices.

    Example:
        >>> one_of("pooling", "max", (None, "cls", "mean"))
        Traceback (most recent call last):
        ...
        roberta_hub.errors.InputError: pooling is 'max'; choose None, 'cls' or 'mean'
    """
    if (value is None or isinstance(value, str)) and value in choices:
        return
    *most, last = (repr(choice) for choice in choices)
    raise InputError(f"{name} is {short_repr(value)}; choose {', '.join(most)} or {last}")


def text_of(name: str, value: object) -> str:
    """Check for a str.

    Example:
        >>> text_of("hypothesis", "It is {}.")
        'It is {}.'
    """
    if not isinstance(value, str):
        raise InputTypeError(f"{name} is a {kind_of(value)}, not a str")
    return str.__str__(value)  # code in C does not take numpy's str for one


def path_text(name: str, value: object) -> str:
    """Check for a name or a path: a str, or what `os.fspath` takes.

    Example:
        >>> path_text("directory", Path("runs"))
        'runs'
    """
    try:
        text = os.fspath(value)  # type: ignore[call-overload]
    except Exception:
        text = None
    if not isinstance(text, str):
        raise InputTypeError(f"{name} is {brief(value)}; give a str or a pathlib.Path")
    return text


def path_of(name: str, value: object) -> Path:
    """Check for a path that a file can have: a str, or what `os.fspath` takes.

    Example:
        >>> path_of("directory", "runs/1").name
        '1'
    """
    path = path_text(name, value)
    try:
        sound = bool(path) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:  # half a surrogate pair
        sound = False
    if not sound:
        raise InputError(f"{name} is {short_repr(path)}, which is no path")
    return Path(path)


def advise(message: str, remedy: Remedy | None = None) -> None:
    """Warn of what is allowed and seldom meant, at the caller's own line."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__")):
        frame, level = frame.f_back, level + 1
    warnings.warn(Advice(message, remedy), stacklevel=level)


def _is_ours(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == __name__.partition(".")[0]


def no_item(answer: object, key: object) -> InputTypeError:
    """Make the error for an answer that is read as a dict or a list.

    Example:
        >>> from types import SimpleNamespace
        >>> print(no_item(SimpleNamespace(text="Ada", score=0.9), "answer"))
        a SimpleNamespace has no item 'answer'; it has .text, .score, and to_dict()
    """
    kind = kind_of(answer)
    fields = ", ".join(f".{name}" for name in vars(answer) if name[0] != "_")
    few = "; one str in gives one answer out, and a list of texts a list" if key == 0 else ""
    return InputTypeError(
        f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind} has no item {short_repr(key)}; it has "
        f"{fields}, and to_dict(){few}"
    )
