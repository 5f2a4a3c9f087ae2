"""Which columns of a table hold the texts, and which the labels: the named, or the only ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from roberta_hub.arguments import shown
from roberta_hub.errors import InputError, InputTypeError, Remedy
from roberta_hub.rows.tables import Table, unknown_column
from roberta_hub.rows.values import blank

NAMED = "text"
"""The column that verbs take where none is named."""
LABELS = (
    "label",
    "labels",
    "class",
    "category",
    "sentiment",
    "target",
    "stars",
    "rating",
    "topic",
    "intent",
    "emotion",
    "score",
    "y",
)
"""Names by which a column of labels is known, in any case."""
TEXTS = (
    "text",
    "sentence",
    "review",
    "comment",
    "message",
    "content",
    "body",
    "tweet",
    "document",
)
"""Names by which a column of texts is known, in any case."""
PAIRS = (
    ("sentence1", "sentence2"),
    ("sentence", "sentence2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "answer"),
    ("question", "passage"),
    ("query", "document"),
)
"""Names by which two columns of texts are known to be pairs, in any case."""
_LOOK = 100
"""Rows by which a column shows whether it is prose."""


def text_columns(
    names: Sequence[Any], wanted: tuple[str, ...], what: str = "the table"
) -> tuple[Any, ...]:
    """Tell which columns hold the texts of a verb: the named ones, `text`, or the only one.

    Args:
        names: of the table's columns.
        wanted: names that the caller gave; none: it gave none.
        what: an error calls the table.

    Raises:
        UnknownNameError: no such column; the message lists all.
        InputError: none was named, and several could be meant.
    """
    listed = ", ".join(map(str, names)) or "none"
    for name in wanted:
        if name not in names:
            raise unknown_column(what, name, names, f"Its columns: {listed}")
    if wanted:
        return wanted
    if NAMED in names:
        return (NAMED,)
    if len(names) == 1:
        return (names[0],)
    raise InputError(
        f"{what}: which column holds the texts? The columns are {listed}",
        remedy=Remedy("pass text=NAME", "say --column NAME"),
    )


def check_clash(names: Sequence[str], answers: Sequence[str], remedy: Remedy) -> None:
    """Refuse answers whose column would take the name of another.

    Args:
        names: of the table's columns.
        answers: names of the columns with answers.
        remedy: what the message advises.

    Raises:
        InputError: a name comes twice.
    """
    if twice := [name for name in answers if name in names]:
        raise InputError(
            f"the table has a column {shown(twice[0])} already, and the answers would too",
            remedy=remedy,
        )


# ---- of a table to learn from ----


def find_columns(table: Table, text: Any = None, label: Any = None) -> tuple[tuple[str, ...], str]:
    """Find the column of texts, or the two of pairs, and the column of labels.

    A column is the one that the caller names; else the one that has a name of `PAIRS`, `TEXTS` or
    `LABELS`; else the only one that can be it. A column of prose, whose values mostly have several
    words, can be text; any other can be the labels. Two columns of prose are pairs.

    Args:
        table: with a header.
        text: a name, or two; None: not said.
        label: a name; None: not said.

    Returns:
        (names of the texts' columns, name of the labels').

    Raises:
        UnknownNameError: a named column that is not there.
        InputError: no column can be it, or several; the message lists all, with two rows.

    Example:
        >>> rows = [{"review": "A fine film.", "Stars": "5"}]
        >>> find_columns(Table("x.csv", ["review", "Stars"], lambda: enumerate(rows)))
        (('review',), 'Stars')
    """
    texts = _given(table, text)
    if label is not None:
        table.check(label)
        if label in texts:
            raise InputError(f"{table.name}: column {label!r} cannot be both text and label")
    if not table.columns:
        raise InputError(f"{table.name}: is empty")
    label = label or _known(table, LABELS, "labels", "label", without=texts)
    texts = texts or _known_texts(table, label)
    if texts and label:
        return texts, label
    prose = _prose(table)
    if not texts:
        found = [name for name in table.columns if name in prose and name != label]
        if len(found) not in (1, 2):
            raise _unclear(table, "texts", "text", found)
        texts = tuple(found)
    if label is None:
        others = [name for name in table.columns if name not in texts]
        found = others if len(others) == 1 else [name for name in others if name not in prose]
        if len(found) != 1:
            raise _unclear(table, "labels", "label", found)
        label = found[0]
    return texts, label


def _given(table: Table, text: Any) -> tuple[str, ...]:
    names = () if text is None else (text,) if isinstance(text, str) else text
    if not isinstance(names, (list, tuple)) or len(names) > 2:
        raise InputTypeError(f"text is {shown(text)}; give the name of a column, or a list of two")
    for name in names:
        table.check(name)
    if len(set(names)) < len(names):
        raise InputError(f"text is {shown(text)}; a pair is two different columns")
    return tuple(names)


def _known(
    table: Table, names: Sequence[str], what: str, argument: str, without: Iterable[str | None]
) -> str | None:
    found = [c for c in table.columns if c.casefold() in names and c not in without]
    if len(found) > 1:
        raise _unclear(table, what, argument, found)
    return found[0] if found else None


def _known_texts(table: Table, label: str | None) -> tuple[str, ...]:
    by_name = {column.casefold(): column for column in table.columns if column != label}
    for pair in PAIRS:
        if all(name in by_name for name in pair):
            return tuple(by_name[name] for name in pair)
    one = _known(table, TEXTS, "texts", "text", without=(label,))
    return (one,) if one else ()


def _prose(table: Table) -> set[str]:
    """Tell which columns are prose: half of their values or more have several words."""
    rows = [row.values for row in islice(table.rows(), _LOOK)]
    found = set()
    for column in table.columns:
        values = [row[column] for row in rows if not blank(row.get(column))]
        several = sum(isinstance(value, str) and len(value.split()) > 1 for value in values)
        if values and 2 * several >= len(values):
            found.add(column)
    return found


def _unclear(table: Table, what: str, argument: str, found: Sequence[str]) -> InputError:
    why = f"{', '.join(found)} could each hold" if found else "no column is known to hold"
    return InputError(
        f"{table.name}: {why} the {what}. {table.listed()}",
        remedy=Remedy(f"say which with {argument}=...", f"say which with --{argument}"),
    )
