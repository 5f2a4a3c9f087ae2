"""A table whose first rows are kept: to look at them reads nothing again, and `fit` reads once."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from roberta_hub.errors import InputError
from roberta_hub.rows.tables import KEPT_ROWS, NumberedRows, Table
from roberta_hub.train.fitting.fit import read_labelled


def counted(rows: int, *, damaged: bool = False) -> tuple[Table, list[int]]:
    """A table, and how many rows were read each time."""
    reads: list[int] = []

    def read() -> NumberedRows:
        reads.append(0)
        own = len(reads) - 1
        for i in range(rows):
            reads[own] += 1
            yield i + 1, {"words": f"some words {i}", "kind": "ab"[i % 2]}
        if damaged:
            raise InputError("damaged", place="x")

    return Table("x", ["words", "kind"], read), reads


@pytest.mark.parametrize("rows", [0, 3, KEPT_ROWS - 1, KEPT_ROWS, KEPT_ROWS + 1, 2500])
def test_looks_and_the_first_reading_of_all_are_one(rows: int) -> None:
    table, reads = counted(rows)
    kept = table.kept()
    for look in (2, KEPT_ROWS, 5):
        assert len(list(islice(kept.begin(), look))) == min(look, rows)
    wanted = list(table.read())
    assert list(kept.read()) == wanted and sum(reads) == 2 * rows
    assert list(kept.read()) == wanted  # what is behind the kept rows is read again


def test_a_damaged_table_is_never_a_short_one() -> None:
    kept = counted(3, damaged=True)[0].kept()
    for _ in range(3):
        with pytest.raises(InputError, match="damaged"):
            list(kept.read())
        assert len(list(islice(kept.begin(), 3))) == 3


@pytest.mark.parametrize("given", [{}, {"label": "kind"}, {"task": "classification"}])
def test_fit_reads_a_table_once(given: dict[str, Any]) -> None:
    options = {"text": None, "label": None, "valid": None, "task": None, "seed": 1}
    table, reads = counted(2500)
    found = read_labelled(table, **{**options, "separator": None, "header": True, **given})
    assert len(found.train) + len(found.valid) == 2500 and reads == [2500]
