"""Finds texts of nearly the same vectors in an index: all compared, or by the vector index."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.indexing.store import Store

BLOCK_ROWS = 256
"""Vectors that are compared with others at once: 1 GB of cosines with a million."""
CANDIDATES = 32
"""Neighbours that a vector index is first asked for; where all are near, for more."""


class AllVectors:
    """Kept vectors of an index, in memory, each compared with each."""

    def __init__(self, store: Store, threshold: float) -> None:
        """Read the vectors of a table, in its order."""
        self._threshold = threshold
        self._blocks = store.vectors(BLOCK_ROWS)
        width = store.says().width
        self._start, self._block = 0, torch.empty(0, width)
        self._kept = torch.empty(store.rows(), width)
        self._rows: list[int] = []
        """Row of each kept vector."""
        self._best: tuple[Tensor, Tensor]
        """For each row of the block the nearest of those kept before it: cosine and place."""
        self._before = 0

    def nearest(self, row: int) -> tuple[int, float] | None:
        """Find the kept vector that is nearest to one, the first of equals; None: none is near."""
        while row >= self._start + len(self._block):
            self._next()
        i = row - self._start
        found = [(float(scores[i]), int(places[i])) for scores, places in [self._best]]
        if len(self._rows) > self._before:
            own = self._kept[self._before : len(self._rows)] @ self._block[i]
            found.append((float(own.max()), self._before + int(own.argmax())))
        score, place = max(found, key=lambda each: each[0])
        return (self._rows[place], min(score, 1.0)) if score >= self._threshold else None

    def keep(self, row: int) -> None:
        """Add a vector to those kept."""
        self._kept[len(self._rows)] = self._block[row - self._start]
        self._rows.append(row)

    def _next(self) -> None:
        self._start += len(self._block)
        self._block = F.normalize(next(self._blocks)[1], dim=-1)
        self._before = len(self._rows)
        if not self._before:
            self._best = torch.full((len(self._block),), -2.0), torch.zeros(len(self._block)).long()
            return
        best = (self._block @ self._kept[: self._before].T).max(dim=1)
        self._best = best.values, best.indices


class IndexedVectors:
    """Kept vectors of an index, found by its vector index."""

    def __init__(self, store: Store, threshold: float) -> None:
        """Read the vectors of a table, in its order."""
        self._store, self._threshold = store, threshold
        self._blocks = store.vectors(BLOCK_ROWS)
        self._start = 0
        self._numbers: list[int] = []
        """Number of each row of the block."""
        self._near: list[list[tuple[int, float]]] = []
        self._kept: dict[int, int] = {}
        """Row of each kept number."""

    def nearest(self, row: int) -> tuple[int, float] | None:
        """Find the kept vector that is nearest to one, the first of equals; None: none is near."""
        while row >= self._start + len(self._numbers):
            self._next()
        near = [
            (score, -self._kept[number])
            for number, score in self._near[row - self._start]
            if number in self._kept
        ]
        score, kept = max(near, default=(0.0, 0))
        return (-kept, score) if near else None

    def keep(self, row: int) -> None:
        """Add a vector to those kept."""
        self._kept[self._numbers[row - self._start]] = row

    def _next(self) -> None:
        self._start += len(self._numbers)
        self._numbers, vectors = next(self._blocks)
        self._near = self._store.near(vectors, self._threshold, CANDIDATES)
