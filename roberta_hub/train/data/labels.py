"""Checks labels, and collects the classes of a training set.

A label ends up in the model's config.json, and people see it. So a label that cannot be written, or
is no class, is refused before the run begins.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from roberta_hub.errors import InputError
from roberta_hub.rows.formats import looks_missing, row_count
from roberta_hub.rows.labels import label_of
from roberta_hub.text.learnt import folded
from roberta_hub.train.reports import first_process, logger
from roberta_hub.train.settings import Config

CLASSES_SHOWN = 20
"""How many classes are listed with their counts."""


def group_alike(labels: Iterable[str]) -> list[list[str]]:
    """Group labels that differ only in case, blanks, or the spelling of a character or number.

    Example:
        >>> group_alike(["Good", "bad", "good", "GOOD", "1", "1.0"])
        [['1', '1.0'], ['GOOD', 'Good', 'good']]
    """
    groups: dict[str | float, list[str]] = {}
    for label in sorted(set(labels)):
        key: str | float = folded(label)
        with suppress(ValueError):
            key = key if math.isnan(float(key)) else float(key)
        groups.setdefault(key, []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def missing_note(counts: Mapping[str, int]) -> list[str]:
    """Note labels that look like a missing value.

    Example:
        >>> missing_note({"good": 7, "N/A": 2})
        ["2 rows with a label that looks missing ('N/A') are learnt as that class; empty the cell \
where there is none"]
    """
    missing = [label for label in counts if looks_missing(label)]
    if not missing:
        return []
    rows = sum(counts[label] for label in missing)
    listed = ", ".join(map(repr, missing))
    return [
        f"{row_count(rows)} with a label that looks missing ({listed}) "
        f"{'is' if rows == 1 else 'are'} learnt as that class; empty the cell where there is none"
    ]


RARE_SHARE = 0.1
"""A label with at most so large a share of another's rows is rare compared with it."""
SHORTEST_MISTYPED = 4
"""Characters of the shortest labels that are looked at for a typing error."""


def mistyped_notes(counts: Mapping[str, int]) -> list[str]:
    """Note rare labels that are one letter from a frequent one: left out, put in, changed, swapped.

    Example:
        >>> mistyped_notes({"positive": 40, "negative": 40, "postive": 1})
        ["label 'postive' (1) is one letter from 'positive' (40); if it is a typing error, write \
them alike"]
    """
    near: dict[str, list[str]] = {}
    names = [name for name in counts if len(name) >= SHORTEST_MISTYPED]
    for name in names:
        for part in _shorter(name):
            near.setdefault(part, []).append(name)
    found = []
    for name in names:
        others = {other for part in _shorter(name) for other in near[part]}
        likely = [
            other
            for other in others
            if counts[name] <= RARE_SHARE * counts[other] and _one_letter_apart(name, other)
        ]
        if likely:
            other = max(likely, key=lambda one: (counts[one], one))
            found.append(
                f"label {name!r} ({counts[name]:,}) is one letter from {other!r} "
                f"({counts[other]:,}); if it is a typing error, write them alike"
            )
    return found


def _shorter(name: str) -> set[str]:
    """Return a label, and what is left of it without one of its letters, in any case."""
    key = folded(name)
    return {key, *(key[:i] + key[i + 1 :] for i in range(len(key)))}


def _one_letter_apart(one: str, other: str) -> bool:
    a, b = folded(one), folded(other)
    start = _shared(a, b)
    a, b = a[start:], b[start:]
    end = _shared(a[::-1], b[::-1])
    a, b = a[: len(a) - end], b[: len(b) - end]
    swapped = len(a) == 2 and a == b[::-1]
    return (max(len(a), len(b)) == 1 or swapped) and (a + b).isalpha()  # label_1 is no label_2


def _shared(one: str, other: str) -> int:
    """Count the characters with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def label_names(
    config: Config, found: Sequence[str], given: Sequence[str] | None = None, *, least: int = 1
) -> tuple[str, ...]:
    """Name the classes: those of the configuration, else of the layout, else those found, sorted.

    The log says how often each occurs. Labels that look like one class give a warning.
    """
    counts = Counter(found)
    if config.data.labels is not None:
        given = [label_of(name, "data.labels") for name in config.data.labels]
    names = tuple(given) if given is not None else tuple(sorted(counts))
    if len(set(names)) != len(names):
        raise InputError(f"data.labels is {list(names)}; give different names")
    if len(names) < least:
        what = "data.labels is" if given is not None else "the labels of the training set are"
        raise InputError(f"{what} {list(names)}; this task needs at least {least}")
    if first_process():
        _report(counts, names)
    return names


def _report(counts: Mapping[str, int], names: Sequence[str]) -> None:
    ordered = sorted(counts, key=lambda name: -counts[name])
    more = f", and {len(counts) - CLASSES_SHOWN} more" if len(counts) > CLASSES_SHOWN else ""
    shown = ", ".join(f"{name} {counts[name]:,}" for name in ordered[:CLASSES_SHOWN])
    logger.info("labels of %s examples: %s%s", f"{sum(counts.values()):,}", shown, more)
    for note in missing_note(counts):
        warnings.warn(note, stacklevel=4)
    groups = group_alike({*counts, *names})
    if groups:
        listed = "; ".join(
            ", ".join(f"{name!r} ({counts.get(name, 0):,})" for name in group) for group in groups
        )
        warnings.warn(
            f"labels that differ in case or Unicode spelling only are different classes: {listed}; "
            "if they mean the same, write them alike",
            stacklevel=4,
        )


def label_ids(labels: Sequence[str], names: Sequence[str], where: str) -> list[int]:
    """Number the labels by their place in `names`; the error of an unknown one lists the names."""
    number: Mapping[str, int] = {name: i for i, name in enumerate(names)}
    for label in labels:
        if label not in number:
            shown = ", ".join(names[:20])
            raise InputError(f"{where}: label {label[:60]!r} is not among {shown}; see data.labels")
    return [number[label] for label in labels]
