"""Counts the rows of a table that are left out, and why: one counter for all that read tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from roberta_hub.errors import InputError, Remedy
from roberta_hub.rows.formats import Missing, RowTexts, looks_missing, row_count
from roberta_hub.rows.tables import Row
from roberta_hub.rows.values import Fault, is_blank

NO_TEXT = "without a text"
NO_LABEL = "without a label"
NO_WEIGHT = "with a weight of 0"
"""Reasons for which rows are left out."""
PLACES = 3
"""Rows that a note names."""


@dataclass
class Count:
    """How many rows have one thing in common, and which come first."""

    rows: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)
    """(where, what exactly) of at most `PLACES`."""

    def add(self, where: object, exactly: str = "") -> None:
        """Count a row."""
        self.rows += 1
        if len(self.first) < PLACES:
            self.first.append((str(where), exactly))


class LeftOut:
    """Counts the rows that are left out by what is wrong with them, and those that look unusual.

    It keeps a few places a reason, so that it serves tables of any length.

    Example:
        >>> left = LeftOut()
        >>> left.add("without a label", "a/x.csv:7")
        >>> left.sentences(), left.counted()
        (['1 row without a label left out, first a/x.csv:7'], ('left out: 1 row without a label',))
    """

    def __init__(self, *, blank: bool = False) -> None:
        """Begin a table."""
        self.rows = 0
        """Whose texts were read."""
        self.reasons: dict[str, Count] = {}
        self.words = Count()
        """Rows with a text that `looks_missing`, which is taken as written."""
        self.trimmed = Count()
        """Spans with blanks at an edge, which are taken off."""
        self._blank = blank

    # ---- counting ----

    def add(self, reason: str, where: object, exactly: str = "") -> None:
        """Count a row that is left out."""
        self.reasons.setdefault(reason, Count()).add(where, exactly)

    def has(self, texts: RowTexts, where: object) -> bool:
        """Count the text of a row, or its pair; tell whether it is there."""
        self.rows += 1
        parts = (texts,) if isinstance(texts, str) else () if isinstance(texts, Fault) else texts
        if isinstance(texts, Missing) or (self._blank and parts and all(map(is_blank, parts))):
            self.add(NO_TEXT, where)
            return False
        if any(map(looks_missing, parts)):
            self.words.add(where)
        return True

    def text(
        self, row: Row, columns: Sequence[str], remedy: Remedy | None = None
    ) -> str | tuple[str, ...] | None:
        """Read the text of a row, or its pair; None: it is missing, which is counted."""
        texts = row.texts_of(columns)
        there = self.has(texts, row.where)
        if isinstance(texts, Fault):
            if there:
                raise row.error(texts.why, remedy)
            return None
        return texts if there else None

    # ---- what was counted ----

    @property
    def missing(self) -> int:
        """Rows without a text."""
        return self.reasons.get(NO_TEXT, Count()).rows

    def sentences(self, *, short: bool = False) -> list[str]:
        """Write a sentence for each reason, with its first row; one too on unusual texts."""
        found = [
            f"{row_count(count.rows)} {reason} left out, first {_place(count, short)}"
            for reason, count in self.reasons.items()
        ]
        return found + self.looking_missing(short=short)

    def looking_missing(self, *, short: bool = False) -> list[str]:
        """Write how many texts look missing; [] where none does."""
        count = self.words.rows
        if not count:
            return []
        looks, are = ("text looks", "is") if count == 1 else ("texts look", "are")
        return [
            f"{count:,} {looks} missing (NaN, null, blank) and {are} taken as written, "
            f"first {_place(self.words, short)}"
        ]

    def notes(self) -> list[str]:
        """Write a sentence for each reason, with its first rows and what is wrong in each.

        Example:
            >>> left = LeftOut()
            >>> left.add("a span outside the text", "a/x.jsonl:3", "[1, 9, 'PER'] of 5 characters")
            >>> left.notes()
            ["1 row not learnt, a span outside the text: x.jsonl:3 ([1, 9, 'PER'] of 5 characters)"]
        """
        found = []
        for reason, count in self.reasons.items():
            said = [
                f"{short_place(w)} ({why})" if why else short_place(w) for w, why in count.first
            ]
            more = f" and {count.rows - PLACES:,} more" if count.rows > PLACES else ""
            why = "no text" if reason == NO_TEXT else reason
            found.append(f"{row_count(count.rows)} not learnt, {why}: {', '.join(said)}{more}")
        if trimmed := self.trimmed.rows:
            found.append(
                f"{trimmed:,} span{'' if trimmed == 1 else 's'} with blanks at an edge, which are "
                f"taken off; first {_place(self.trimmed, short=True)}"
            )
        return found

    def counted(self) -> tuple[str, ...]:
        """Write how many were left out, and why: one note for all reasons, or none."""
        said = ", ".join(f"{row_count(c.rows)} {reason}" for reason, c in self.reasons.items())
        return (f"left out: {said}",) if said else ()

    def check(self, rows: Sequence[object], task: str) -> None:
        """Refuse a table of which nothing is left."""
        if not rows:
            raise InputError("; ".join((f"{task} has no rows to judge", *self.counted())))


def _place(count: Count, short: bool) -> str:
    where = count.first[0][0]
    return short_place(where) if short else where


def short_place(where: str) -> str:
    """Shorten a place for a note to the file's own name."""
    return os.path.basename(where)
