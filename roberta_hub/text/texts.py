"""Turns whatever holds texts into a list of them, so that `texts` means the same to every verb."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NoReturn, TypeAlias

from roberta_hub.arguments import advise, kind_of, short_repr
from roberta_hub.errors import InputError, InputTypeError, Place
from roberta_hub.rows.frames import list_names, list_of
from roberta_hub.rows.values import is_missing
from roberta_hub.text.tokenizer import Text

Texts: TypeAlias = "Iterable[str | tuple[str, ...] | list[str]]"
"""Many texts, for type checkers; columns of pandas, polars and Arrow are such iterables too."""

_FILE = re.compile(r"\S{1,200}\.(?:csv|tsv|jsonl?|parquet|txt|xlsx?)", re.IGNORECASE)
"""What a lone text looks like that is the name of a file; whether there is one is not asked."""


def as_texts(value: object, name: str = "texts") -> tuple[list[Text], bool]:
    """Return the texts that a caller means, and whether it was one str, for one answer.

    Several are a sequence, an iterator, or a column of pandas, polars, Arrow, numpy or `datasets`,
    whose items are str, or pairs: a tuple of sentences, or a list of two. A tuple of str, which
    could be a pair or several texts, and everything else is refused: the message names the columns,
    the shape or the row.

    Example:
        >>> as_texts("one")
        (['one'], True)
        >>> as_texts(line for line in ["one", ["a", "pair"]])
        (['one', ('a', 'pair')], False)
    """
    if isinstance(value, str):
        return [_lone(value, name)], True
    items = _several(value, name)
    kinds = set(map(type, items))
    if kinds <= {str}:  # most lists: no Python for each text
        return items, False
    pairs = kinds == {tuple} and () not in items
    if pairs and set(map(type, chain.from_iterable(items))) == {str}:
        return items, False
    _refuse_missing(items, name)
    return [_text(item, name, i) for i, item in enumerate(items)], False


def as_single_texts(value: object, name: str, *, needs: str) -> tuple[list[str], bool]:
    """As `as_texts`, for verbs that take no pairs; `needs` says in an error what the verb takes."""
    if isinstance(value, str):
        return [_lone(value, name)], True
    items = _several(value, name)
    if set(map(type, items)) <= {str}:
        return items, False
    _refuse_missing(items, name)
    for i, item in enumerate(items):
        if not isinstance(item, str):
            raise InputTypeError(f"a {kind_of(item)}; {needs}", place=Place(name, i))
    return [_plain(item) for item in items], False


def as_strings(value: object, name: str, what: str) -> list[str]:
    """Return a list of labels or words (`what`), from any container; one str is refused.

    Example:
        >>> as_strings(("art", "sport"), "labels", "labels")
        ['art', 'sport']
    """
    if isinstance(value, str):
        raise InputError(f"{name} is {short_repr(value)}; pass a list of {what}")
    unordered = isinstance(value, (set, frozenset))  # of labels the order means nothing
    items = list(value) if unordered else list_of(value, name)  # type: ignore[call-overload]
    for i, item in enumerate(items):
        if not isinstance(item, str):
            raise InputTypeError(f"{name}[{i}] is a {kind_of(item)}; pass a list of {what}, as str")
    return [_plain(item) for item in items]


def empty_places(texts: Sequence[Text]) -> list[int]:
    """Find the texts that are empty or hold blanks alone, by their places.

    Example:
        >>> empty_places(["a", " ", ("", "b"), ("", "")])
        [1, 3]
    """
    return [
        i
        for i, text in enumerate(texts)
        if not (text if isinstance(text, str) else "".join(text)).strip()
    ]


def advise_of_empty(places: Sequence[int], name: str, answer: str) -> None:
    """Warn once where texts are empty or hold blanks alone: their `answer` says nothing of a text.

    The places are those of all texts of one call, by `empty_places`.
    """
    if places:
        others = f" and {len(places) - 1:,} more" if len(places) > 1 else ""
        is_are = "are" if len(places) > 1 else "is"
        advise(f"{name}[{places[0]}]{others} {is_are} empty; {answer} says nothing of a text")


def _lone(text: str, name: str) -> str:
    """Return one str as it is; one that reads as a file's name is answered, with a warning."""
    if _FILE.fullmatch(text):
        advise(
            f"{name} is {short_repr(text)}, a file's name, which is read as a text of its own; for "
            "what the file holds, open it and pass its lines or a column"
        )
    return _plain(text)


def _several(value: object, name: str) -> list[Any]:
    if isinstance(value, tuple) and value and all(isinstance(item, str) for item in value):
        inner = ", ".join(short_repr(item, 20) for item in value[:3])
        inner += ", ..." if len(value) > 3 else ""
        one = inner + "," if len(value) == 1 else inner
        raise InputTypeError(
            f"{name} is a tuple of {len(value)} str, which could be one input or several; pass "
            f"[({one})] for one of several sentences (a pair), or [{inner}] for single texts"
        )
    return list_of(value, name)


def _text(item: object, name: str, i: int) -> Text:
    if isinstance(item, str):
        return _plain(item)
    is_pair = isinstance(item, list) and len(item) == 2
    if is_pair or (isinstance(item, tuple) and item):
        for k, part in enumerate(item):  # type: ignore[arg-type, var-annotated]
            if not isinstance(part, str):
                _refuse_item(part, Place(name, i), f"its sentence {k} is ")
        return tuple(_plain(part) for part in item)  # type: ignore[attr-defined]
    _refuse_item(item, Place(name, i))


def _refuse_missing(items: list[Any], name: str) -> None:
    """Refuse missing texts, and name their places."""
    missing = [i for i, item in enumerate(items) if is_missing(item)]
    if not missing:
        return
    first, *others = (Place(name, i) for i in missing)
    said = ", ".join(map(str, others[:PLACES_SHOWN]))
    more = len(others) - PLACES_SHOWN
    also = f", and so {'are' if len(others) > 1 else 'is'} {said}" if others else ""
    also += f" and {more:,} more" if more > 0 else ""
    raise InputTypeError(f"missing (a {kind_of(items[missing[0]])}){also}; {_DROP}", place=first)


PLACES_SHOWN = 4
"""Missing texts that an error names after the first."""
_DROP = (
    "drop such rows, as dropna() does, or fill them with a text: fillna(''); "
    'roberta_hub.scale.Verb(..., errors="column") answers a table with None there'
)


def _refuse_item(item: object, place: Place, which: str = "") -> NoReturn:
    """Refuse one item, or one sentence of it, that is no text."""
    kind = kind_of(item)
    if is_missing(item):
        why = f"{which}missing (a {kind}); {_DROP}"
    elif isinstance(item, (bytes, bytearray)):
        why = f"{which}{kind}, not text; decode them"
    elif isinstance(item, Mapping):
        why = f"{which}a {kind} with the keys {list_names(item)}; pass the values of one key"
    elif isinstance(item, (list, tuple)) and not which:
        size = "an empty" if not item else "a"
        of = f" of {len(item)}" if item else ""
        why = f"{size} {kind}{of}; a pair is a list of two str, or a tuple of two or more"
    else:
        why = f"{which}a {kind}; a text is a str, or a tuple of them"
    raise InputTypeError(why, place=place)


def _plain(text: str) -> str:
    """Return a str of the built-in type: str() of an enum is another text."""
    return text if type(text) is str else str.__str__(text)
