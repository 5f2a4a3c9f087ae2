"""Tells what a column of labels looks like: lists and their texts, dicts, text with separators.

Where cells look as if they held several labels, a note can say what to type.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from roberta_hub.arguments import short_repr
from roberta_hub.errors import Remedy
from roberta_hub.rows.formats import row_count
from roberta_hub.rows.labels import LABEL_SEPARATORS, labels_in, odd_shares
from roberta_hub.rows.left_out import short_place
from roberta_hub.rows.list_text import parse_list
from roberta_hub.rows.tables import Row
from roberta_hub.rows.values import number_in, to_python

Cell = tuple[Row, Any]
"""A row, and the value of its label."""
LIST_CELLS_SHARE = 0.9
"""So large a share of the cells must be texts of lists, that all of them are read so."""
SEPARATOR_CELLS_SHARE = 0.1
"""So large a share of the cells must have a separator, that it is likely to be one."""

_DECIMAL = re.compile(r"[+-]?\d+(?:,\d+)?")
"""A number as German and French write it."""


# ---- a column ----


def holds_texts_of_lists(cells: Sequence[Cell], label: str, notes: list[str]) -> bool:
    """Tell whether the texts of a column are those of lists, as pandas writes them into a CSV."""
    texts = [(row, value) for row, value in cells if isinstance(value, str) and value.strip()]
    others = [(row, value) for row, value in texts if parse_list(value) is None]
    lists = len(texts) - len(others)
    if not lists:
        return False
    if not others:
        return True
    row, value = others[0]
    if lists >= LIST_CELLS_SHARE * len(texts):
        notes.append(
            f"{label} holds texts of lists; {row_count(len(others))} with another text are one "
            f"label each, first {short_place(row.where)} ({short_repr(value, 40)})"
        )
        return True
    if 2 * lists >= len(texts):
        raise row.error(
            f"{label} is {short_repr(value)}, and most other cells are texts of lists; write it as "
            "a "
            'list too, such as ["a", "b"]',
            Remedy(
                "task='classification' takes each cell as one label",
                "--task classification takes each cell as one label",
            ),
        )
    row, value = next((row, value) for row, value in texts if parse_list(value) is not None)
    notes.append(
        f"{row_count(lists)} with the text of a list are one label each, as {label} holds other "
        f"texts; first {short_place(row.where)} ({short_repr(value, 40)})"
    )
    return False


def check_vectors(cells: Sequence[Cell], label: str) -> None:
    """Refuse lists of as many zeros and ones as there are labels, which have no names."""
    lists = [value for _, value in cells if isinstance(value, list)]
    sizes = {len(value) for value in lists}
    if len(sizes) != 1 or sizes <= {0, 1} or len(lists) < len(cells):
        return
    binary = all(item in (0, 1) for value in lists for item in value if not _is_container(item))
    if binary and any(value.count(value[0]) > 1 for value in lists):
        row = cells[0][0]
        raise row.error(
            f"{label} is {short_repr(lists[0])}, a list of {sizes.pop()} zeros and ones, which has "
            "no names",
            Remedy(
                "give lists of names, or a column of 0 and 1 for each label with label=[...]",
                "give lists of names, or a column of 0 and 1 for each label with --label A,B",
            ),
        )


def _is_container(value: object) -> bool:
    return isinstance(value, (list, dict))


def about_dicts(cells: Sequence[Cell], label: str) -> list[str]:
    """Note numbers between yes and no, and labels that no row has."""
    dicts = [(row, value) for row, value in cells if isinstance(value, Mapping)]
    notes = []
    graded = [row for row, value in dicts if any(_is_graded(amount) for amount in value.values())]
    if graded:
        notes.append(
            f"{label} holds numbers other than 0 and 1 in {row_count(len(graded))}, first "
            f"{short_place(graded[0].where)}; 0.5 and more is a yes"
        )
    if graded and (odd := odd_shares([value for _, value in dicts])):
        place, total = odd[0]
        notes.append(
            f"most dicts of {label} add up to 1, as shares of one class do; "
            f"{row_count(len(odd))} not, first {short_place(dicts[place][0].where)}, whose sum is "
            f"{total:.4g}"
        )
    known = dict.fromkeys(str(name) for _, value in dicts for name in value)
    had = {name for row, value in dicts for name in labels_in(value, row, label)}
    if never := [name for name in known if name.strip() not in had]:
        listed_names = ", ".join(never[:5]) + (", ..." if len(never) > 5 else "")
        notes.append(f"{len(never)} of the labels in no row, not learnt: {listed_names}")
    return notes


def _is_graded(amount: Any) -> bool:
    number = number_in(to_python(amount))
    return number is not None and number not in (0, 1)


# ---- what cells look like ----


def likely_separator(values: Iterable[Any]) -> str | None:
    """Tell what looks like a separator of labels in cells of text; None: nothing does.

    Labels that are joined come again in other cells, alone or with others. So their parts are fewer
    than the different cells; the parts of names such as "New York, NY" are more.

    Example:
        >>> likely_separator(["art, sport", "sport", "sport, war", "art, war", "art"])
        ','
        >>> likely_separator(["New York, NY", "Austin, TX", "Dallas, TX", "Buffalo, NY"])
    """
    cells = Counter(v.strip() for v in values if isinstance(v, str) and v.strip())
    for separator in LABEL_SEPARATORS:
        joined = sum(count for cell, count in cells.items() if separator in cell)
        parts = {part.strip() for cell in cells for part in cell.split(separator)}
        decimal = separator == "," and all(map(_DECIMAL.fullmatch, cells))
        if (
            joined >= SEPARATOR_CELLS_SHARE * cells.total()
            and len(parts) < len(cells)
            and not decimal
        ):
            return separator
    return None


def separator_words(label: str, separator: str) -> str:
    """Say that cells look like several labels, and what to type."""
    return (
        f"{label} looks like several labels in a cell; separator={separator!r} (in a shell "
        f'--separator "{separator}") takes them apart'
    )
