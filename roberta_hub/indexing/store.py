"""The table of an index, in LanceDB: one commit for all rows of a call, versions, search."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from roberta_hub.arguments import path_text, short_repr
from roberta_hub.errors import InputError, MissingExtraError, Remedy
from roberta_hub.extras import install
from roberta_hub.indexing import ENDING, is_index
from roberta_hub.indexing.about import About
from roberta_hub.rows.formats import PARQUET
from roberta_hub.rows.tables import NumberedRows, Table
from roberta_hub.scale.sources import SourceFile

if TYPE_CHECKING:
    from torch import Tensor

NUMBER = "_number"
"""Column with the number of each row, from 0, in the order they came."""
VECTOR = "vector"
TAKEN_KEY = b"roberta_hub"
"""Key of what was taken, in the metadata of the column with the numbers."""
INDEXED_ROWS = 50_000
"""Rows from which the vectors get an index of LanceDB's; fewer are all compared, which is exact."""
PROBES = 40
REFINE = 5
"""Partitions that a query looks into, and candidates per hit that are compared exactly."""
LONG = 200
"""Hits of a ranking so long that its end hardly counts: no more candidates than hits."""
SCANNED_ROWS = 4096
"""Rows that are read at once."""
ROUNDING = 1e-6
"""By which the cosine of two equal vectors may miss 1."""
_METRICS = {"cosine": "cosine", "dot": "dot", "euclidean": "l2"}
"""LanceDB's name of each similarity that it has."""


def lancedb() -> Any:
    """Import lancedb."""
    try:
        import lancedb
    except ImportError as error:
        raise MissingExtraError(f"an index needs lancedb ({error}): {install('index')}") from None
    return lancedb


class Store:
    """A table of vectors that says what they are."""

    def __init__(self, path: object) -> None:
        """Open the table if it exists."""
        self.path = path_text("the index", path).rstrip("/")
        if "://" not in self.path:
            self.path = os.path.abspath(os.path.expanduser(self.path))
        parent, _, name = self.path.rpartition("/")
        if not is_index(self.path) or name == ENDING:
            raise InputError(
                f"the index is {short_repr(self.path)}; give a name that ends in .lance"
            )
        self._base = lancedb().connect(parent or "/")
        self._name = PurePosixPath(name).stem
        self.table: Any = self._open()
        """LanceDB's; None: nothing was indexed yet."""

    def _open(self) -> Any:
        try:
            return self._base.open_table(self._name)
        except (ValueError, RuntimeError, OSError) as error:
            if "not found" in str(error):
                return None
            raise InputError(f"{self.path} cannot be opened: {str(error)[:300]}") from None

    def about(self) -> About | None:
        """What the vectors are; None: there are none."""
        return None if self.table is None else About.read(self.table.schema.metadata, self.path)

    def says(self) -> About:
        """What the vectors are, of an index that must exist."""
        if (about := self.about()) is None:
            raise InputError(
                f"{self.path}: no index there",
                remedy=Remedy("roberta_hub.index makes one", "`roberta-hub index` makes one"),
            )
        return about

    # ---- rows ----

    def as_table(self) -> Table:
        """Return the rows without their vectors, in their order."""
        import pyarrow as pa

        names = [name for name in self.columns() if name != NUMBER]
        kinds = self.table.schema
        schema = pa.schema([kinds.field(name) for name in names])
        return Table(self.path, names, lambda: self._rows_of(names), format=PARQUET, schema=schema)

    def _rows_of(self, names: Sequence[str]) -> NumberedRows:
        number = 0
        for batch in self._scan(names, SCANNED_ROWS):
            yield from enumerate(batch.to_pylist(), number + 1)
            number += len(batch)

    def texts(self) -> Iterator[str]:
        """Read the texts, in the order of the rows."""
        for batch in self._scan([self.says().text], SCANNED_ROWS):
            yield from batch.column(0).to_pylist()

    def vectors(self, rows: int) -> Iterator[tuple[list[int], Tensor]]:
        """Read the numbers and the vectors of so many rows at once, in the order of the rows."""
        import torch

        for batch in self._scan([NUMBER, VECTOR], rows):
            column = batch.column(VECTOR)
            flat = torch.from_numpy(column.flatten().to_numpy(zero_copy_only=False).copy())
            yield batch.column(NUMBER).to_pylist(), flat.float().reshape(len(batch), -1)

    def _scan(self, names: Sequence[str], rows: int) -> Iterator[Any]:
        yield from self.table.search().select(list(names)).to_batches(batch_size=rows)

    def taken(self) -> dict[str, Any]:
        """What was taken: `files`, with size and time of change of each, and how many `rows`."""
        about = {} if self.table is None else self.table.schema.field(NUMBER).metadata or {}
        found: dict[str, Any] = json.loads(about.get(TAKEN_KEY, b"{}"))
        return {"files": {}, "rows": 0, **found}

    def new_files(self, files: Sequence[SourceFile]) -> list[SourceFile]:
        """Files that were not taken, or have changed since."""
        taken = self.taken()["files"]
        return [file for file in files if taken.get(file.path) != [file.size, file.changed]]

    def note_taken(self, files: Sequence[SourceFile], rows: int) -> None:
        """Note that files were taken, and how many rows were numbered."""
        states = {file.path: [file.size, file.changed] for file in files}
        note = json.dumps({"files": self.taken()["files"] | states, "rows": rows})
        self.table.update_field_metadata({"path": NUMBER, "metadata": {TAKEN_KEY.decode(): note}})

    def holds(self, first: int) -> bool:
        """Whether rows from a number on are there: they come in one commit, all or none."""
        return self.table is not None and self.table.count_rows(f"{NUMBER} >= {first}") > 0

    def take(self, about: About, schema: Any, batches: Iterator[Any]) -> None:
        """Add rows in one commit; rows whose key is there are replaced."""
        import pyarrow as pa

        schema = schema.with_metadata(about.metadata())
        rows = pa.RecordBatchReader.from_batches(schema, batches)
        if self.table is None:
            self.table = self._base.create_table(self._name, data=rows, schema=schema)
            return
        if about.key is None:
            self.table.add(rows)
        else:
            ways = self.table.merge_insert(about.key)
            ways.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def rows(self) -> int:
        """Count the rows."""
        return int(self.table.count_rows())

    def check_columns(self, columns: Any) -> None:
        """Refuse rows with other columns than those that are there; an Arrow schema."""
        there = {field.name: field.type for field in self.table.schema}
        new = {field.name: field.type for field in columns}
        for name in dict.fromkeys([*there, *new]):
            if there.get(name) != new.get(name) and name not in (NUMBER, VECTOR):
                raise InputError(
                    f"{self.path}: the column {short_repr(name)} holds {there.get(name)}, and "
                    f"would hold {new.get(name)} for the rows to add; keep the same columns"
                )

    # ---- indices ----

    def build(self) -> None:
        """Build the indices of words and, of many rows, of vectors; take new rows into both."""
        from lancedb.index import FTS

        about = self.says()
        there = {name for index in self.table.list_indices() for name in index.columns}
        if about.text not in there and self.rows():
            self.table.create_index(
                about.text,
                config=FTS(base_tokenizer="icu/split", stem=False, remove_stop_words=False),
                replace=True,
            )
        if VECTOR not in there and self.rows() >= INDEXED_ROWS:
            self.table.create_index(VECTOR, config=_vector_index(about), replace=True)
        stale = (index.num_unindexed_rows or 0 for index in self.table.list_indices())
        if any(stale):
            self.table.optimize()

    def has_vector_index(self) -> bool:
        """Whether vectors have an index, and a search is no longer exact by itself."""
        return any(VECTOR in index.columns for index in self.table.list_indices())

    # ---- search ----

    def nearest(
        self,
        vector: Any,
        metric: str,
        topk: int,
        where: str | None,
        exact: bool,
        columns: Sequence[str],
    ) -> list[dict[str, Any]]:
        """Find the rows with the nearest vectors, the nearest first, with `_distance`."""
        found = self.table.search(vector, vector_column_name=VECTOR).distance_type(metric)
        found = found.limit(topk).select([*columns, "_distance"]).with_row_id(True)
        if exact:
            found = found.bypass_vector_index()
        else:
            found = found.nprobes(PROBES).refine_factor(REFINE if topk < LONG else 1)
        return self._rows(found, where)

    def sharing_words(
        self, query: str, column: str, topk: int, where: str | None
    ) -> list[dict[str, Any]]:
        """Rank the rows that share a word with a query by BM25, of equals the first, by number."""
        asked = lancedb().query.MatchQuery(query, column)  # a text, no syntax
        found = self.table.search(asked, query_type="fts").limit(topk)
        rows = self._rows(found.select([NUMBER, "_score"]).with_row_id(True), where)
        return sorted(rows, key=lambda row: (-row["_score"], row[NUMBER]))

    def fetched(self, places: Sequence[int]) -> list[dict[str, Any]]:
        """Fetch rows by what a search found as `_rowid`."""
        found = self.table.take_row_ids(list(places)).select(self.columns())
        rows: list[dict[str, Any]] = found.to_list()
        return rows

    def near(self, vectors: Tensor, least: float, count: int) -> list[list[tuple[int, float]]]:
        """Find the numbers of all rows whose cosine to each vector is not less, by the index.

        Where as many are near as were asked for, there may be more, and more are asked for.
        """
        found = self.table.search(list(vectors.numpy()), vector_column_name=VECTOR)
        found = found.distance_type("cosine").limit(count).select([NUMBER, "_distance"])
        near: list[list[tuple[int, float]]] = [[] for _ in vectors]
        for row in found.nprobes(PROBES).refine_factor(REFINE).to_list():
            if (cosine := 1.0 - row["_distance"]) >= least - ROUNDING:  # exact: it is refined
                near[row.get("query_index", 0)].append((row[NUMBER], cosine))
        for i, own in enumerate(near):
            if len(own) >= count < self.rows():
                near[i] = self.near(vectors[i : i + 1], least, 8 * count)[0]
        return near

    def columns(self) -> list[str]:
        """Name the columns but the vectors."""
        return [name for name in self.table.schema.names if name != VECTOR]

    def _rows(self, found: Any, where: str | None) -> list[dict[str, Any]]:
        try:
            rows: list[dict[str, Any]] = (found.where(where) if where else found).to_list()
            return rows
        except (ValueError, RuntimeError) as error:
            if not where:
                raise
            columns = ", ".join(name for name in self.columns() if name != NUMBER)
            raise InputError(
                f"where is {short_repr(where)}, which cannot be asked of {self.path}: "
                f"{' '.join(str(error).split())[:200]}. Its columns: {columns}"
            ) from None


def metric_of(similarity: str) -> Any:
    """LanceDB's name of a model's similarity."""
    if similarity not in _METRICS:
        raise InputError(
            f"the model compares vectors by {similarity}, which an index has not; it has "
            f"{', '.join(_METRICS)}: set roberta.sentence's similarity to one of them and save it"
        )
    return _METRICS[similarity]


def _vector_index(about: About) -> Any:
    from lancedb.index import IvfSq

    return IvfSq(distance_type=metric_of(about.similarity))


def score_of(metric: str, distance: float) -> float:
    """Similarity of two vectors by LanceDB's distance: the larger, the nearer.

    Example:
        >>> score_of("cosine", 0.25), score_of("l2", 4.0), score_of("dot", -1.0)
        (0.75, -2.0, 2.0)
    """
    return -float(max(distance, 0.0) ** 0.5) if metric == "l2" else 1.0 - distance
