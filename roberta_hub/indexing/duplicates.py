"""Finds texts that are there twice, or nearly so: groups, of each of which one is kept."""

from __future__ import annotations

import os
import time
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from roberta_hub.arguments import one_of, short_repr
from roberta_hub.errors import InputError, InputTypeError, Remedy
from roberta_hub.indexing import is_index
from roberta_hub.indexing.store import Store
from roberta_hub.rows.formats import row_count
from roberta_hub.show.report import Report, Reported, said
from roberta_hub.text.learnt import key_hash
from roberta_hub.text.texts import as_texts

if TYPE_CHECKING:
    from roberta_hub.text.texts import Texts

By = Literal["words", "vectors"]
THRESHOLDS = {"words": 0.8, "vectors": 0.95}
"""Least similarity of duplicates, unless the caller says otherwise."""
ALL_COMPARED = 1_000_000
"""Vectors from which a vector index finds those that are near: fewer are all compared, which is
exact, and was faster (60,000 rows: see benchmarks/results/index.md)."""
MISSING = -1
"""In place of a number: a row without a text."""
HASH_BYTES = 16
"""Bytes of a text's hash: two of a billion texts have the same by chance once in 10^20 cases."""


class Near(Protocol):
    """Kept texts, and which of them is near to another. Rows come in order."""

    def nearest(self, row: int) -> tuple[int, float] | None:
        """Find the most similar kept row, and its similarity; None: none is near."""

    def keep(self, row: int) -> None:
        """Add a row to those kept."""


@dataclass(frozen=True)
class Duplicates(Reported):
    """Groups of texts that are nearly the same. The first text of each group is kept."""

    rows: int
    by: str
    """"words": similarity is the Jaccard index of their runs of three words. "vectors": the
    cosine."""
    threshold: float
    group: array[int] = field(repr=False)
    """For each text the number of the one that is kept of its group: its own, if it is kept."""
    similarity: array[float] = field(repr=False)
    """For each text its similarity to that one; 1.0 if they are equal but for case, white space
    and Unicode form. A text that is equal to an earlier one has the similarity of that."""
    equal: int
    """Texts that are equal to a kept one."""
    near: int
    """Texts that are near to a kept one."""
    seconds: float

    @property
    def kept(self) -> list[int]:
        """Numbers of the texts that are kept."""
        return [row for row, group in enumerate(self.group) if row == group]

    def report(self) -> Report:
        """Build what is shown, on every face."""
        kept = self.rows - self.equal - self.near
        text = f"{row_count(self.rows)}, {kept:,} kept; {self.equal:,} equal to one of them, "
        text += f"{self.near:,} near to one by {self.by} (at least {self.threshold:g}); "
        text += f"in {self.seconds:,.0f} s"
        return Report("Duplicates", [said(text)])

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain words and numbers, which `json.dumps` takes."""
        return {**super().to_dict(), "group": list(self.group), "similarity": list(self.similarity)}


def duplicates(
    texts: Texts | str | os.PathLike[str],
    *,
    by: By = "words",
    threshold: float | None = None,
) -> Duplicates:
    """Find texts that are there twice, or nearly so.

    Texts are read in order. The first is kept. A text that is equal to one that is kept, but for
    case, white space and Unicode form, or at least as similar as the threshold, is a duplicate of
    it, of several that of the most similar; any other text is kept. So no two texts that are kept
    are duplicates, and each duplicate is near to the one that stays for it.

    By words, candidates come from MinHash, which finds a pair at the threshold with probability
    .99, and are compared exactly. By vectors, a table of fewer than a million rows compares all; a
    larger one takes its vector index.

    Args:
        texts: texts, also a generator; or the path of an index, which ends in .lance.
        by: "words": the share of runs of three words that two texts have in common. "vectors":
            the cosine of their vectors, which an index has.
        threshold: least similarity, above 0 to 1. None: 0.8 by words, 0.95 by vectors.

    Returns:
        The group of each text, and its similarity to the one that is kept.

    Raises:
        InputError: the threshold is no such number; or texts without an index by vectors.
        InputTypeError: texts is one str that names no index.
        MissingExtraError: datasketch, or for an index lancedb, is not installed.

    Example:
        >>> found = duplicates(["A dog ran off.", "a dog  ran off.", "Goal!"])
        >>> found.kept, list(found.group), found.equal
        ([0, 2], [0, 0, 2], 1)
    """
    one_of("by", by, tuple(THRESHOLDS))
    if isinstance(texts, (str, os.PathLike)):
        if not is_index(texts):
            raise InputTypeError(
                f"texts is {short_repr(texts)}, one text; pass several, or the path of an index, "
                "which ends in .lance. `roberta-hub duplicates -i FILE` reads a file"
            )
        store = Store(texts)
        return find_duplicates(store.texts(), by, threshold, store)
    own: Any = texts if isinstance(texts, Iterator) else as_texts(texts, "texts")[0]
    return find_duplicates(own, by, threshold)


def find_duplicates(
    texts: Iterable[str | None], by: By, threshold: float | None, store: Store | None = None
) -> Duplicates:
    """Find the groups of texts; one that is missing is alone."""
    began = time.monotonic()
    least = _threshold(by, threshold)
    if by == "vectors" and store is None:
        raise InputError(
            "by vectors, duplicates are found in an index, which has them",
            remedy=Remedy(
                "make one with roberta_hub.index(...), and pass its path",
                "make one: roberta-hub index FILE -o texts.lance; and give -i texts.lance",
            ),
        )
    firsts = array("q")
    near = _near(_distinct(texts, firsts), least, store if by == "vectors" else None)
    group, similarity, equal = array("q"), array("f"), 0
    for row, first in enumerate(firsts):
        if first not in (row, MISSING):
            equal += 1
            found = group[first], similarity[first]
        else:
            found = _kept_for(row, near) if first == row else (row, 1.0)
        group.append(found[0])
        similarity.append(found[1])
    kept = sum(row == own for row, own in enumerate(group))
    seconds = time.monotonic() - began
    rows = len(group)
    return Duplicates(rows, by, least, group, similarity, equal, rows - kept - equal, seconds)


def _kept_for(row: int, near: Near) -> tuple[int, float]:
    """Find the kept row that stays for a row; keep it where there is none."""
    found = near.nearest(row)
    if found is None:
        near.keep(row)
    return found or (row, 1.0)


def _near(distinct: Iterator[tuple[int, str]], least: float, store: Store | None) -> Near:
    if store is None:
        from roberta_hub.indexing.near_words import NearWords  # takes datasketch

        return NearWords(distinct, least)
    from roberta_hub.indexing.near_vectors import AllVectors, IndexedVectors

    deque(distinct, maxlen=0)  # all are read: equal texts are known
    by_index = store.rows() >= ALL_COMPARED and store.has_vector_index()
    by_index = by_index and store.says().similarity == "cosine"
    return IndexedVectors(store, least) if by_index else AllVectors(store, least)


def _distinct(texts: Iterable[str | None], firsts: array[int]) -> Iterator[tuple[int, str]]:
    """Yield each text that is equal to none before, and note of each the first it is equal to."""
    seen: dict[bytes, int] = {}
    for row, text in enumerate(texts):
        first = MISSING if text is None else seen.setdefault(key_hash(text, HASH_BYTES), row)
        firsts.append(first)
        if text is not None and first == row:
            yield row, text


def _threshold(by: By, threshold: float | None) -> float:
    if threshold is None:
        return THRESHOLDS[by]
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)):
        raise InputError(f"threshold is {short_repr(threshold)}; it is a number above 0, up to 1")
    if not 0 < threshold <= 1:
        raise InputError(f"threshold is {short_repr(threshold)}; it is above 0, and 1 at most")
    return float(threshold)
