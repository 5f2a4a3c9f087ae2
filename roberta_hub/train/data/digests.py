"""Digests of what a run learns and is judged by, so that a resumed run detects changed data."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

DIGEST_BYTES = 16
"""Bytes of a digest."""
NOT_IN_DIGEST = "not in a digest"
"""Marks a field that only `fit` sets, which resumes no run: digests stay as 0.3.0 made them."""
ROWS_AT_ONCE = 1000
"""Examples that are digested together."""
DIGEST = "digest of the "
TRAINING_DATA, VALIDATION_DATA = f"{DIGEST}training data", f"{DIGEST}validation data"
"""What a state and an error call the two digests."""


def data_digests(train: Sequence[Any], held_out: Sequence[Any] | None) -> dict[str, str]:
    """Digest both sets of a task."""
    found = {TRAINING_DATA: examples_digest(train)}
    return found if not held_out else {**found, VALIDATION_DATA: examples_digest(held_out)}


def examples_digest(examples: Sequence[Any]) -> str:
    """Digest texts and labels in order: every field of the examples but where they were read.

    Example:
        >>> from roberta_hub.train.data.sentences import LabelledText
        >>> rows = [LabelledText("Good.", ("yes",), "a.csv:2"), LabelledText("Bad.", ("no",), "")]
        >>> moved = [dataclasses.replace(row, where="b.csv:7") for row in rows]
        >>> examples_digest(rows) == examples_digest(moved) != examples_digest(rows[::-1])
        True
    """
    fields = [f for f in dataclasses.fields(examples[0]) if NOT_IN_DIGEST not in f.metadata]
    names = [field.name for field in fields if field.name != "where"]
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for start in range(0, len(examples), ROWS_AT_ONCE):
        rows = examples[start : start + ROWS_AT_ONCE]
        for name in names:
            for part in _parts(list(map(attrgetter(name), rows))):
                found.update(part)
    return found.hexdigest()


def _parts(values: list[Any]) -> Iterator[bytes]:
    """Write the values of one field: texts end to end behind their lengths, all else as JSON.

    Texts are nearly all that there is, and JSON would take twice the time.
    """
    kinds = set(map(type, values))
    if kinds == {tuple} and set(map(type, chain.from_iterable(values))) == {str}:
        yield json.dumps(list(map(len, values))).encode()
        values, kinds = list(chain.from_iterable(values)), {str}
    if kinds == {str}:
        yield json.dumps(list(map(len, values))).encode()
        yield "".join(values).encode(errors="surrogatepass")
    else:
        yield json.dumps(values).encode()


def of_side_task(digests: Mapping[str, str], number: int) -> dict[str, str]:
    """Name the digests of a side task's data as such.

    Example:
        >>> of_side_task({TRAINING_DATA: "5f"}, 1)
        {'digest of the training data of side task 1': '5f'}
    """
    return {f"{name} of side task {number}": digest for name, digest in digests.items()}
