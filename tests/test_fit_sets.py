"""The tables that `fit` is measured on: drawn by a seed, and apart from those it is tuned on."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from lib import fit_sets  # noqa: E402
from lib.fit_sets import REPORTED, TUNING, Text  # noqa: E402

FAST = ("sst2", "banking10", "banking20", "sst2_rare", "nlupp", "stsb")


@pytest.fixture(autouse=True)
def folder(shared: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(fit_sets, "SHARED", shared)
    monkeypatch.setattr(fit_sets, "TASKS", shared / "data/tasks")


@pytest.mark.parametrize("name", FAST)
def test_a_seed_draws_the_same_rows_and_fewer_are_among_more(name: str) -> None:
    table = REPORTED[name]
    few, more = (table.draw(size, 2) for size in table.sizes[:2])
    assert few == table.draw(table.sizes[0], 2)
    assert {t for t, _ in few.learn} < {t for t, _ in more.learn}
    assert few.learn != table.draw(table.sizes[0], 3).learn
    for drawn in (few, more):
        assert not {t for t, _ in drawn.learn} & {t for t, _ in drawn.test}


def test_as_many_rows_of_each_class_as_are_asked_for() -> None:
    assert set(counted("banking20", 8).values()) == {8}
    assert counted("sst2_rare", 10) == {"negative": 10, "positive": 190}
    assert counted("sst2_rare", 50) == {"negative": 50, "positive": 950}
    assert len(REPORTED["stsb"].draw(100, 1).test) == 879


def counted(name: str, size: int) -> Counter[Any]:
    return Counter(label for _, label in REPORTED[name].draw(size, 1).learn)


def test_groups_of_intents_share_none() -> None:
    reported = [labels_of(f"banking{n}", REPORTED) for n in ("10", "10b", "10c", "20")]
    tuning = [labels_of(f"banking{n}", TUNING) for n in ("10t", "17t")]
    together = [name for group in (*reported, *tuning) for name in group]
    assert len(together) == len(set(together)) == 77


def labels_of(name: str, tables: dict[str, fit_sets.Table]) -> tuple[str, ...]:
    return tables[name].draw(8, 1).labels


@pytest.mark.system
def test_no_row_of_a_reported_table_stands_in_a_tuning_table() -> None:
    """But short ones that two people said: "I want a refund". BANKING77 has every intent."""
    reported, tuning = set[Text](), set[Text]()
    for name, table in REPORTED.items():
        if name != "banking77":
            reported |= texts_of(table)
    for table in TUNING.values():
        tuning |= texts_of(table)
    assert len(tuning) > 10_000
    assert all(len(text) < 30 for text in reported & tuning) and len(reported & tuning) < 5


def texts_of(table: fit_sets.Table) -> set[Text]:
    drawn = [table.draw(max(table.sizes), seed) for seed in (1, 2, 3)]
    return {text for one in drawn for text, _ in (*one.learn, *one.test)}
