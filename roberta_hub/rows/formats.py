"""What each format of rows says, and what a missing text is in it: one record for all readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from roberta_hub.arguments import kind_of, short_repr
from roberta_hub.rows.values import Fault, is_missing

LOOKS_MISSING = frozenset({"nan", "na", "n/a", "#n/a", "<na>", "null", "none", "nat"})
"""Words, in any case, that programs write for a missing value; in a text file they are words."""


@dataclass(frozen=True)
class Missing(Fault):
    """Placeholder for the texts of a row of which one is missing."""


RowTexts: TypeAlias = "str | tuple[str, ...] | Fault"
"""The text, or the texts, of a row; `Missing`: one of them is missing."""


@dataclass(frozen=True)
class RowFormat:
    """How a format says a row, a value, and that a text is missing."""

    name: str
    endings: tuple[str, ...]
    """Endings of files, in any case; `.gz` and `.xz` may follow, but for Parquet."""
    row: str
    """What a row is, in words."""
    values: str
    """What a value is, in words."""
    missing: str
    """What a missing text is, in words."""
    null: str
    """How a null answer is written, in words; "": the format is read alone."""
    has_null: bool
    """Whether the format can say that a value is missing; else a text of no character does."""

    def text(self, value: object, column: object) -> str | Fault:
        """Read a value as a text; `Missing`: it is none.

        Example:
            >>> CSV.text("NaN", "text"), JSONL.text("", "text")
            ('NaN', '')
            >>> CSV.text("", "text") == JSONL.text(float("nan"), "text")
            True
            >>> CSV.text("", "text")
            Missing(why="nothing in the column 'text'")
            >>> JSONL.text(5, "text").why
            "the column 'text' holds 5, a int, not a text"
        """
        if isinstance(value, str) and (value or self.has_null):
            return value if type(value) is str else str.__str__(value)  # str() of an enum differs
        if is_missing(value) or value == "":
            return Missing(f"nothing in the column {short_repr(column)}")
        what = f"{short_repr(value)}, a {kind_of(value)}, not a text"
        return Fault(f"the column {short_repr(column)} holds {what}")

    def texts(self, values: Sequence[Any], names: Sequence[object]) -> RowTexts:
        """Read the values of a row as its texts; the first fault, if one is at fault.

        Example:
            >>> CSV.texts(["Goal!", "Dull."], ["a", "b"]), CSV.texts(["Goal!", ""], ["a", "b"])
            (('Goal!', 'Dull.'), Missing(why="nothing in the column 'b'"))
        """
        found: list[str] = []
        missing: Missing | None = None
        for value, name in zip(values, names, strict=True):
            text = self.text(value, name)
            if isinstance(text, Missing):
                missing = missing or text
            elif isinstance(text, Fault):
                return text
            else:
                found.append(text)
        if missing is not None:
            return missing
        return tuple(found) if len(found) > 1 else found[0]

    def texts_of(self, values: Mapping[str, Any], names: Sequence[str]) -> RowTexts:
        """Read the texts of a row by the names of its columns.

        Example:
            >>> JSONL.texts_of({"id": 7}, ["text"]).why
            "no column 'text'; there are id"
        """
        for name in names:
            if name not in values:
                known = ", ".join(map(str, values))
                kind = Missing if self.has_null else Fault
                return kind(f"no column {short_repr(name)}; there are {known or 'none'}")
        return self.texts([values[name] for name in names], names)

    def texts_in(self, columns: Sequence[Sequence[Any]], names: Sequence[object]) -> list[RowTexts]:
        """Put the values of columns together to the texts of each row."""
        if self.has_null and len(columns) == 1 and set(map(type, columns[0])) <= {str}:
            return list(columns[0])
        return [self.texts(values, names) for values in zip(*columns, strict=True)]


CSV = RowFormat(
    name="csv",
    endings=("csv",),
    row="a record, over several lines where quotes hold line ends",
    values="text",
    missing="an empty cell, in quotes or not",
    null="an empty cell",
    has_null=False,
)
TSV = RowFormat(
    name="tsv",
    endings=("tsv",),
    row="a line; quotes are characters unless all are written as in a CSV",
    values="text",
    missing="an empty cell",
    null="an empty cell",
    has_null=False,
)
JSONL = RowFormat(
    name="jsonl",
    endings=("jsonl", "ndjson"),
    row="a line with an object; blank lines are none",
    values="JSON's types",
    missing="null, NaN, or no such key",
    null="null",
    has_null=True,
)
PARQUET = RowFormat(
    name="parquet",
    endings=("parquet", "pq"),
    row="a row",
    values="Arrow's types",
    missing="null",
    null="null",
    has_null=True,
)
LINES = RowFormat(
    name="lines",
    endings=("any other",),
    row="a line; a tab separates the texts of a pair",
    values="text",
    missing="a line of no character",
    null="",
    has_null=False,
)
FRAME = RowFormat(
    name="frame",
    endings=(),
    row="a row of pandas, polars or Arrow, of a dict of columns, or a dict of a list",
    values="Python's types",
    missing="None, any NaN, pandas' NA and NaT, Arrow's null",
    null="what the frame has for it",
    has_null=True,
)
ROW_FORMATS = {found.name: found for found in (CSV, TSV, JSONL, PARQUET, LINES, FRAME)}
"""Every format by its name."""


def looks_missing(text: str) -> bool:
    """Tell whether a text is blank, or a word that programs write for a missing value.

    Example:
        >>> [looks_missing(text) for text in ("NaN", "n/a", " ", "nana", "Nothing.")]
        [True, True, True, False, False]
    """
    return len(text) < 16 and (not text.strip() or text.strip().casefold() in LOOKS_MISSING)


def row_count(count: int) -> str:
    """Write a number of rows.

    Example:
        >>> row_count(1), row_count(2000)
        ('1 row', '2,000 rows')
    """
    return f"{count:,} row{'' if count == 1 else 's'}"
