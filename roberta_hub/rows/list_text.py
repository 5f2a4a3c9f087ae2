"""Reads the list that a cell holds as text, as Python, numpy and JSON write one."""

from __future__ import annotations

import json
import re
from typing import Any

from roberta_hub.rows.values import number_in

MAX_LIST_CHARACTERS = 100_000
"""Characters of a text that is read as a list; a longer one stays a text."""
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_VALUE = rf"""(?:np\.\w+\()?({_QUOTED}|[^\s,:'"()\[\]{{}}]+)\)?"""
_ITEM = re.compile(rf"{_VALUE}(?:\s*:\s*{_VALUE})?(?:\s*,\s*|\s+|$)", re.DOTALL)
"""A value, or a key and its value, and what parts it from the next: a comma, or blanks in numpy."""
_CONSTANTS = {
    **dict.fromkeys(("True", "np.True_"), True),
    **dict.fromkeys(("False", "np.False_"), False),
    **dict.fromkeys(("None", "nan"), None),
}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00[01][0-9a-fA-F]{5}|.)", re.DOTALL)
_ESCAPED_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r"}


def parse_list(text: str) -> list[Any] | dict[str, Any] | None:
    r"""Read a text as a list, or as a dict; None: it is none.

    pandas writes lists, tuples, sets, dicts and arrays into a CSV as Python and numpy print them.
    Nothing is evaluated, and what has parts inside of parts is read from JSON only.

    Example:
        >>> parse_list("['a', 'b']"), parse_list("[]")
        (['a', 'b'], [])
        >>> parse_list("['a'\n 'b']"), parse_list('["a", 1]')
        (['a', 'b'], ['a', 1])
        >>> parse_list("{'a': True, 'b': 0.0}"), parse_list("('a',)"), parse_list("[a] and [b]")
        ({'a': True, 'b': 0.0}, ['a'], None)
    """
    text = text.strip()
    if len(text) > MAX_LIST_CHARACTERS:
        return None
    if text.startswith("frozenset(") and text.endswith(")"):
        text = text[len("frozenset(") : -1] or "()"
    text = "()" if text == "set()" else text
    ends = text[:1] + text[-1:]
    if ends not in ("[]", "()", "{}"):
        return None
    if ends != "()":
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return value if isinstance(value, (list, dict)) else None
    if ends == "()" and "," not in text and text[1:-1].strip():
        return None  # a tuple of one has a comma
    return _python(text[1:-1].strip(), keys=ends == "{}")


def _python(inside: str, *, keys: bool) -> list[Any] | dict[str, Any] | None:
    """Parse the items between the brackets."""
    found: list[tuple[str, str | None]] = []
    position = 0
    while position < len(inside):
        item = _ITEM.match(inside, position)
        if item is None:
            return None
        found.append((item[1], item[2]))
        position = item.end()
    try:
        names = [_value(name) for name, _ in found]
        values = [_value(value) for _, value in found if value is not None]
    except ValueError:
        return None
    if not values:
        return names
    if not keys or len(values) < len(names):
        return None
    return dict(zip(map(str, names), values, strict=True))


def _value(text: str) -> Any:
    """Read one value."""
    if text[0] in "'\"":
        return _ESCAPE.sub(_sign, text[1:-1])
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if re.fullmatch(r"[+-]?\d{1,300}", text):
        return int(text)
    number = number_in(text)
    if number is None:
        raise ValueError(text)
    return number


def _sign(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPED_CHARACTERS.get(code, code)
