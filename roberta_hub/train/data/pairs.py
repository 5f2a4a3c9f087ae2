"""Reads what sentence vectors are learnt from: pairs, triples, scored pairs, single sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from roberta_hub.train.data.tables import (
    TABLES,
    bad,
    check_format,
    lines,
    nonempty,
    roles,
    rows,
    text_of,
    value_of,
)

PAIR_ROLES = ("sentence", "sentence2", "sentence3", "score")


@dataclass(frozen=True)
class Pair:
    """A sentence, and what belongs to it."""

    texts: tuple[str, ...]
    """The sentence; one of the same meaning, or one to compare it with; one of another meaning that
    is easily taken for it (a hard negative)."""
    score: float | None
    """How near the two are, on any scale; None: the second has the meaning of the first."""
    where: str
    """File and line, for messages."""


def read_pairs(
    path: str | Path, format: str | None = None, columns: Mapping[str, Any] | None = None
) -> list[Pair]:
    r"""Read pairs, triples, scored pairs or single sentences; all rows of a file are of one kind.

    Args:
        path: a file; `.gz` and `.xz` are unpacked on the fly.
        format: one of `TABLES`, or "txt": a sentence a line. None: by the file's name.
        columns: which column is `sentence`, and, where the table has them, `sentence2`,
            `sentence3`, which may be empty in some rows, and `score`; None: those names.

    Raises:
        InputError: a row that cannot be read, with its file and line.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "train.tsv"
        >>> _ = path.write_text("a\tb\nA dog runs.\tAn animal moves.\n")
        >>> read_pairs(path, columns={"sentence": "a", "sentence2": "b"})[0].texts
        ('A dog runs.', 'An animal moves.')
    """
    path = Path(path)
    check_format(format, (*TABLES, "txt"))
    if format is None and [s for s in path.suffixes if s not in (".gz", ".xz")][-1:] == [".txt"]:
        format = "txt"
    named = roles(columns, PAIR_ROLES, {role: role for role in PAIR_ROLES})
    if format != "txt":
        found = list(_rows(path, rows(path, format), named, {"sentence", *(columns or {})}))
    else:
        found = [Pair((text,), None, f"{path}:{n}") for n, text in lines(path) if text.strip()]
    nonempty(found, path)
    if found[0].score is not None and len({pair.score for pair in found}) == 1:
        raise bad(path, "all rows", f"every score is {found[0].score:g}, which orders nothing")
    return found


def _rows(
    path: Path,
    table: Iterator[tuple[int, dict[str, Any]]],
    named: Mapping[str, Any],
    asked: set[str],
) -> Iterator[Pair]:
    first: set[str] = set()
    for line, row in table:
        own = {role for role in PAIR_ROLES if role in asked or named[role] in row}
        first = first or own
        if odd := (own - first) & {"sentence2", "score"}:
            raise bad(path, line, f"column {named[odd.pop()]!r} is not in the rows before")
        for role in ("sentence3", "score"):
            if role in own and "sentence2" not in first:
                raise bad(
                    path,
                    line,
                    f"column {named[role]!r} without a second sentence; name its column with "
                    "data.columns.sentence2",
                )
        second = ("sentence", "sentence2") if "sentence2" in first else ("sentence",)
        texts = [_sentence(row, named[role], path, line) for role in second]
        hard = row.get(named["sentence3"])
        if "sentence3" in own and hard is not None and str(hard).strip():
            texts.append(_sentence(row, named["sentence3"], path, line))
        score = _score(row, named["score"], path, line) if "score" in first else None
        _check(texts, score, path, line)
        yield Pair(tuple(texts), score, f"{path}:{line}")


def _sentence(row: Mapping[str, Any], column: Any, path: Path, line: int) -> str:
    text = text_of(row, column, path, line)
    if not text.strip():
        raise bad(path, line, f"column {column!r} is empty")
    return text


def _score(row: Mapping[str, Any], column: Any, path: Path, line: int) -> float:
    value = value_of(row, column, path, line)
    try:
        score = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not abs(score) <= torch.finfo(torch.float32).max:  # NaN is not either
        raise bad(path, line, f"score {str(value)[:40]!r} is no number")
    return score


def _check(texts: list[str], score: float | None, path: Path, line: int) -> None:
    if len(texts) < 3:
        return
    if score is not None:
        raise bad(path, line, "a hard negative and a score; a scored row is a pair")
    if texts[2] in texts[:2]:
        which = "the sentence" if texts[2] == texts[0] else "its positive"
        raise bad(path, line, f"the hard negative is {which} itself: {texts[2][:40]!r}")
