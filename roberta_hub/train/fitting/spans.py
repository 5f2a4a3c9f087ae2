"""Checks labelled spans: which rows can be used, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError
from roberta_hub.rows.labels import label_of
from roberta_hub.rows.left_out import NO_TEXT, LeftOut
from roberta_hub.rows.values import Fault
from roberta_hub.text.graphemes import cut_cluster

Span = tuple[int, int, str]
"""(first character, one past the last, label)."""
STARTS = ("start", "start_offset", "start_char", "startIndex", "begin")
ENDS = ("end", "end_offset", "end_char", "endIndex")
NAMES = ("label", "labels", "entity_group", "entity", "slot", "type", "tag")
"""What a span's start, end and label are called, by one tool or another."""


@dataclass(frozen=True)
class Marked:
    """A row as a layout has it: a text and what it says of its spans, unchecked."""

    text: Any
    spans: Any
    """A list of spans; or the fault of the row."""
    where: str
    """File and line, for messages."""


@dataclass(frozen=True)
class Annotated:
    """A text with its labelled spans, in order, none over another."""

    text: str
    spans: tuple[Span, ...]
    where: str
    """File and line, for messages."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of its spans, each once and sorted."""
        return tuple(sorted({label for _, _, label in self.spans}))

    @property
    def amounts(self) -> dict[str, float]:
        """What the row counts of each label: all rows count the same."""
        return dict.fromkeys(self.labels, 1)


def checked(rows: Iterable[Marked], left: LeftOut) -> list[Annotated]:
    """Keep the rows whose text and spans can be used; a row without spans is one of none.

    Blanks at a span's edges are taken off. A row with one span that cannot be used is left out
    whole: what is not marked in it would be trained as no span.

    Example:
        >>> left = LeftOut()
        >>> good = Marked("Ada sings.", [[0, 4, "PER"]], "x:1")
        >>> backwards = Marked("Hm.", [[2, 1, "A"]], "x:2")
        >>> checked([good, backwards], left)
        [Annotated(text='Ada sings.', spans=((0, 3, 'PER'),), where='x:1')]
        >>> left.notes()[0]
        "1 row not learnt, a span that ends before it begins: x:2 ([2, 1, 'A'])"
    """
    found = []
    for row in rows:
        if isinstance(row.spans, Fault):
            left.add(row.spans.why, row.where)
        elif not isinstance(row.text, str) or not row.text.strip():
            left.add(NO_TEXT, row.where)
        else:
            trimmed: list[str] = []
            spans = _spans(row, trimmed)
            if isinstance(spans, _Unusable):
                left.add(spans.reason, row.where, spans.exactly)
            else:
                for where in trimmed:
                    left.trimmed.add(where)
                found.append(Annotated(row.text, spans, row.where))
    return found


@dataclass(frozen=True)
class _Unusable:
    reason: str
    exactly: str


def _spans(row: Marked, trimmed: list[str]) -> tuple[Span, ...] | _Unusable:
    """Read the spans of a row; the first unusable one is the row's fault."""
    places = places_of(row.text, row.spans)
    found: set[Span] = set()
    for item in places:
        span = _span(row.text, item, row.where)
        if isinstance(span, _Unusable):
            return span
        if span[:2] != (item.start, item.end):
            trimmed.append(row.where)
        found.add(span)
    ordered = sorted(found)
    for one, other in zip(ordered, ordered[1:], strict=False):
        if other[0] < one[1]:
            what = "two labels for one span" if one[:2] == other[:2] else "spans that overlap"
            return _Unusable(what, f"{_written(*one)} and {_written(*other)}")
    return tuple(ordered)


def _span(text: str, item: Place, where: str) -> Span | _Unusable:
    start, end = item.start, item.end
    exactly = _written(start, end, item.label)
    if start is None or end is None:
        return _Unusable("a span without a start and an end", short_repr(item.given, 80))
    if start > end:
        return _Unusable("a span that ends before it begins", exactly)
    if start < 0 or end > len(text):
        return _Unusable("a span outside the text", f"{exactly} of {len(text):,} characters")
    if start == end:
        return _Unusable("an empty span", exactly)
    inside = text[start:end]
    if not inside.strip():
        return _Unusable("a span of nothing but blanks", exactly)
    if item.text is not None and item.text.strip() != inside.strip():
        return _Unusable(
            "a span whose text is another",
            f"{exactly} is {short_repr(inside)}, not {short_repr(item.text)}",
        )
    if isinstance(item.label, (list, tuple)) and len(item.label) > 1:
        return _Unusable("two labels for one span", exactly)
    try:
        label = label_of(item.label, where)
    except InputError:
        return _Unusable("a span without a label", exactly)
    start += len(inside) - len(inside.lstrip())
    end = start + len(inside.strip())
    for place in (start, end):
        if (cut := cut_cluster(text, place)) is not None:
            return _Unusable("a span that cuts a character", f"{exactly} in {short_repr(cut)}")
    return start, end, label


@dataclass(frozen=True)
class Place:
    """What a span says of itself: its places, its label, and its text where that is given."""

    start: int | None
    end: int | None
    label: Any
    text: str | None
    given: Any
    """As it was read."""


def places_of(text: str, spans: Any) -> list[Place]:
    """Read spans as lists or as dicts; UTF-16 offsets are converted.

    Tools that run in a browser count an emoji as two. Where spans hold their own texts, and only
    such counting finds all of them, it is what the row means.

    Example:
        >>> span = {"start": 3, "end": 6, "labels": ["PER"], "text": "Ada"}
        >>> [found] = places_of("🙂 Ada", [span])
        >>> found.start, found.end, found.label
        (2, 5, 'PER')
    """
    found = [_place(item) for item in spans or ()]
    if not all(p.text is not None and p.start is not None and p.end is not None for p in found):
        return found
    if all(text[p.start : p.end] == p.text for p in found):
        return found
    units = text.encode("utf-16-le")

    def characters(unit: int) -> int:
        return len(units[: 2 * unit].decode("utf-16-le", errors="replace"))

    moved = [
        Place(characters(p.start or 0), characters(p.end or 0), p.label, p.text, p.given)
        for p in found
    ]
    fits = all(text[p.start : p.end] == p.text for p in moved)
    return moved if fits else found


def is_span(item: Any) -> bool:
    """Tell whether a value looks like a span: two whole numbers and a label.

    Example:
        >>> [is_span(item) for item in ([0, 3, "PER"], {"start": 0, "end": 3, "label": 1}, "PER")]
        [True, True, False]
    """
    if isinstance(item, Mapping):
        return all(any(k in item for k in keys) for keys in (STARTS, ENDS, NAMES))
    if not isinstance(item, (list, tuple)) or len(item) != 3:
        return False
    return None not in map(_whole, item[:2]) and isinstance(item[2], str)


def is_near_span(item: Any) -> bool:
    """Tell whether a value is meant for a span, and lacks a number or its label.

    Example:
        >>> [is_near_span(item) for item in (["0", "3", "PER"], [0, 3], "PER", [1])]
        [True, True, False, False]
    """
    if isinstance(item, Mapping):
        inner = [item.get(key) for key in ("entities", "spans")]
        keys = (*STARTS, *ENDS, "token_start", "startOffset")
        return any(key in item for key in keys) or any(isinstance(one, list) for one in inner)
    if not isinstance(item, (list, tuple)) or not item:
        return False
    if is_span(item[0]):
        return True
    numbers = [(isinstance(v, str) and v.isdecimal()) or _whole(v) is not None for v in item[:2]]
    return 2 <= len(item) <= 4 and all(numbers)


def _place(item: Any) -> Place:
    if isinstance(item, Mapping):
        start, end, label = (
            next((item[key] for key in keys if item.get(key) is not None), None)
            for keys in (STARTS, ENDS, NAMES)
        )
        if isinstance(label, (list, tuple)) and len(label) == 1:
            label = label[0]
        text = item.get("text")
        return Place(
            _whole(start), _whole(end), label, text if isinstance(text, str) else None, item
        )
    if isinstance(item, (list, tuple)) and len(item) == 3:
        return Place(_whole(item[0]), _whole(item[1]), item[2], None, item)
    return Place(None, None, None, None, item)


def _whole(value: Any) -> int | None:
    """Read a place; a frame with missing values makes 3.0 of 3."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    try:
        return int(value) if int(value) == value else None
    except OverflowError:
        return None


def _written(start: Any, end: Any, label: Any) -> str:
    return f"[{short_repr(start, 20)}, {short_repr(end, 20)}, {short_repr(label, 40)}]"
