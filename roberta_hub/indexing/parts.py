"""Moves a lake of vectors into an index: all of its rows in one commit, once.

A kill may come at any time. The number of the first row is written beside the lake's parts before
the commit; rows from that number on are in the table after it, so the next call knows whether it
was made. The parts are removed once the table says which files it holds.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from roberta_hub.indexing.about import About
from roberta_hub.indexing.store import NUMBER, VECTOR, Store
from roberta_hub.scale import plan as plans
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.outputs import create, list_files, read_json_file
from roberta_hub.scale.plan import PLAN_FILE, Plan
from roberta_hub.scale.work import ROW_GROUP_ROWS, file_name

START_FILE = "_start.json"
"""File with the number of the first row that the parts have in the index."""


class Parts:
    """The folder of a lake whose rows an index takes."""

    def __init__(self, system: Any, folder: str) -> None:
        """Take a folder of a file system."""
        self._system, self._folder = system, folder

    def plan(self) -> Plan | None:
        """Read the plan of the lake; None: none was begun."""
        return plans.load(self._system, self._folder)

    def forget_taken(self, store: Store) -> None:
        """Remove the lake if the index holds all of its files; the plan goes last."""
        plan = self.plan()
        if plan is None or store.new_files(plan.files):
            return
        names = list_files(self._system, self._folder)
        for name in sorted(names, key=lambda name: name == PLAN_FILE):
            self._remove(name)
        with contextlib.suppress(OSError):  # a store has no folders
            self._system.delete_dir(self._folder)

    def _remove(self, name: str) -> None:
        self._system.delete_file(f"{self._folder}/{name}")

    def take(self, store: Store, about: About) -> None:
        """Add the rows to an index, unless a killed call has done so."""
        plan = self.plan()
        assert plan is not None  # the lake is whole
        start = json.dumps({"first": store.taken()["rows"]}).encode()
        create(self._system, f"{self._folder}/{START_FILE}", start)
        first = read_json_file(self._system, f"{self._folder}/{START_FILE}")["first"]
        if not store.holds(first):
            self._add(plan, store, about, first)
        rows = sum(unit.rows for unit in plan.units)
        store.note_taken(plan.files, first + rows)

    def _add(self, plan: Plan, store: Store, about: About, first: int) -> None:
        pa = arrow()
        parts = [f"{self._folder}/{file_name(plan.fingerprint, unit)}" for unit in plan.units]
        with self._system.open_input_file(parts[0]) as file:
            schema = pa.parquet.read_schema(file).remove_metadata()
        schema = schema.append(pa.field(NUMBER, pa.int64()))

        def batches() -> Iterator[Any]:
            number = first
            for part in parts:
                for rows in self._batches(part):
                    numbers = pa.array(range(number, number + len(rows)), pa.int64())
                    number += len(rows)
                    numbered = pa.record_batch([*rows.columns, numbers], schema=schema)
                    yield numbered.filter(rows.column(VECTOR).is_valid())

        store.take(about, schema, batches())

    def _batches(self, part: str) -> Iterator[Any]:
        with (
            self._system.open_input_file(part) as file,
            arrow().parquet.ParquetFile(file, page_checksum_verification=True) as rows,
        ):
            yield from rows.iter_batches(ROW_GROUP_ROWS, use_threads=False)
