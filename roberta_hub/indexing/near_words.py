"""Finds texts of nearly the same words: candidates by MinHash (Broder 1997), compared exactly."""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from roberta_hub.errors import MissingExtraError
from roberta_hub.extras import install
from roberta_hub.inference.word_index import words_of
from roberta_hub.text.learnt import folded

PERMUTATIONS = 128
"""Length of a MinHash; its standard error is .09 at most, and no pair is judged by it alone."""
RECALL = 0.99
"""Least probability that a pair at the threshold becomes a candidate."""
SHINGLE = 3
"""Words of a shingle."""


def shingles(text: str) -> frozenset[int]:
    """Hash each run of three words; of fewer words, all of them.

    Example:
        >>> len(shingles("A dog ran off.")), shingles("Goal!") == shingles("goal")
        (2, True)
        >>> len(shingles("我喜欢狗"))
        2
    """
    plain = folded(text)
    words = words_of(plain) or [plain]
    runs = (words[i : i + SHINGLE] for i in range(max(1, len(words) - SHINGLE + 1)))
    return frozenset(map(_hash, runs))


def _hash(words: list[str]) -> int:
    joined = "\0".join(words).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(joined, digest_size=4).digest(), "little")


def bands_of(threshold: float) -> tuple[int, int]:
    """Choose how many bands of how many hashes make candidates: the longest bands that will do.

    Two texts of a Jaccard similarity s share one of b bands of r hashes with probability
    1 - (1 - s^r)^b.

    Example:
        >>> bands_of(0.8), bands_of(0.5)
        ((21, 6), (42, 3))
    """
    ways = [(PERMUTATIONS // r, r) for r in range(1, PERMUTATIONS + 1)]
    return [(b, r) for b, r in ways if 1 - (1 - threshold**r) ** b >= RECALL or r == 1][-1]


class NearWords:
    """Kept texts, by the shingles of their words."""

    def __init__(self, texts: Iterable[tuple[int, str]], threshold: float) -> None:
        """Hash numbered texts: 4 bytes for a word, 8 for each band of a text."""
        import numpy as np

        self._threshold = threshold
        self._rows, self._hashes, self._ends = array("q"), array("I"), array("q", [0])
        count, width = bands_of(threshold)
        factors = np.random.default_rng(0).integers(1, 2**63, (count, width), dtype=np.uint64) | 1
        keys = array("Q")

        def sets() -> Iterable[list[int]]:
            for row, text in texts:
                self._rows.append(row)
                own = sorted(shingles(text))
                self._hashes.extend(own)
                self._ends.append(len(self._hashes))
                yield own

        make = _datasketch().MinHash.generator
        for found in make(sets(), num_perm=PERMUTATIONS, hashfunc=int):
            rows = found.hashvalues[: count * width].reshape(count, width).astype(np.uint64)
            keys.frombytes((rows * factors).sum(1, dtype=np.uint64).tobytes())
        self._buckets = _shared(np.frombuffer(keys, np.uint64).reshape(-1, count))
        self._kept: dict[tuple[int, int], list[int]] = defaultdict(list)

    def nearest(self, row: int) -> tuple[int, float] | None:
        """Find the kept text that is most similar to one, the first of equals; None: none is."""
        place = bisect_left(self._rows, row)
        found = {kept for bucket in self._of(place) for kept in self._kept.get(bucket, ())}
        best = max(((self._jaccard(place, kept), -kept) for kept in found), default=(0.0, 0))
        return (self._rows[-best[1]], best[0]) if best[0] >= self._threshold else None

    def keep(self, row: int) -> None:
        """Add a text to those kept."""
        place = bisect_left(self._rows, row)
        for bucket in self._of(place):
            self._kept[bucket].append(place)

    def _of(self, place: int) -> Iterable[tuple[int, int]]:
        return ((band, key) for band, key in enumerate(self._buckets[place].tolist()) if key >= 0)

    def _jaccard(self, a: int, b: int) -> float:
        left, right = self._set(a), self._set(b)
        both = len(left & right)
        return both / (len(left) + len(right) - both)

    def _set(self, place: int) -> set[int]:
        return set(self._hashes[self._ends[place] : self._ends[place + 1]])


def _shared(keys: Any) -> Any:
    """Number the keys of each band that several texts share, (n, b); -1: a text's alone."""
    import numpy as np

    found = np.empty(keys.shape, np.int32)
    for band in range(keys.shape[1]):
        _, numbers, counts = np.unique(keys[:, band], return_inverse=True, return_counts=True)
        found[:, band] = np.where(counts[numbers] > 1, numbers, -1)
    return found


def _datasketch() -> Any:
    try:
        import datasketch
    except ImportError as error:
        raise MissingExtraError(
            f"near-duplicates need datasketch ({error}): {install('index')}"
        ) from None
    return datasketch
