"""Refuses lists of zeros and ones, and notes what is unusual in dicts of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roberta_hub.arguments import short_repr
from roberta_hub.errors import Remedy
from roberta_hub.rows.formats import row_count
from roberta_hub.rows.labels import graded_words, labels_in, wrong_sums
from roberta_hub.rows.left_out import short_place
from roberta_hub.rows.tables import Row

Cell = tuple[Row, Any]
"""A row, and the value of its label."""


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
    notes = graded_words(dicts, label)
    if notes and (wrong := wrong_sums([value for _, value in dicts])):
        place, total = wrong[0]
        where = short_place(dicts[place][0].where)
        notes.append(
            f"most dicts of {label} add up to 1, as shares of one class do; "
            f"{row_count(len(wrong))} not, first {where}, whose sum is {total:.4g}"
        )
    known = dict.fromkeys(str(name) for _, value in dicts for name in value)
    had = {name for row, value in dicts for name in labels_in(value, row, label)}
    if never := [name for name in known if name.strip() not in had]:
        listed_names = ", ".join(never[:5]) + (", ..." if len(never) > 5 else "")
        notes.append(f"{len(never)} of the labels in no row, not learnt: {listed_names}")
    return notes
