"""Reads what sentence vectors are trained on: pairs, triples, scored pairs, single sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roberta_hub.errors import InputError
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.rows.lines import lines
from roberta_hub.rows.tables import FORMATS, Row
from roberta_hub.rows.values import float32_in, is_blank
from roberta_hub.train.data.roles import (
    check_format,
    column_roles,
    nonempty,
    read_rows,
    text_in,
    warn_of,
)

PAIR_ROLES = ("sentence", "sentence2", "sentence3", "score")


@dataclass(frozen=True)
class PairExample:
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
) -> list[PairExample]:
    r"""Read pairs, triples, scored pairs or single sentences; all rows of a file are of one kind.

    Rows without a text are left out, with a warning that counts them.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "train.tsv"
        >>> _ = path.write_text("a\tb\nA dog runs.\tAn animal moves.\n")
        >>> read_pairs(path, columns={"sentence": "a", "sentence2": "b"})[0].texts
        ('A dog runs.', 'An animal moves.')
    """
    path = Path(path)
    check_format(format, (*FORMATS, "txt"))
    endings = [s.lower() for s in path.suffixes if s.lower() not in (".gz", ".xz")]
    if format is None and endings[-1:] == [".txt"]:
        format = "txt"
    named = column_roles(columns, PAIR_ROLES, {role: role for role in PAIR_ROLES})
    if format != "txt":
        found = list(_examples(read_rows(path, format), named, {"sentence", *(columns or {})}))
    else:
        found = [
            PairExample((text,), None, f"{path}:{n}") for n, text in lines(path) if text.strip()
        ]
    nonempty(found, path)
    if found[0].score is not None and len({pair.score for pair in found}) == 1:
        raise InputError(f"{path}: every score is {found[0].score:g}, which orders nothing")
    return found


def _examples(
    table: Iterator[Row], named: Mapping[str, Any], asked: set[str]
) -> Iterator[PairExample]:
    first: set[str] = set()
    left = LeftOut()
    for row in table:
        own = {role for role in PAIR_ROLES if role in asked or named[role] in row.values}
        first = first or own
        if added := (own - first) & {"sentence2", "score"}:
            raise row.error(f"column {named[added.pop()]!r} is not in the rows before")
        for role in ("sentence3", "score"):
            if role in own and "sentence2" not in first:
                raise row.error(
                    f"column {named[role]!r} without a second sentence; name its column with "
                    "data.columns.sentence2",
                )
        second = ("sentence", "sentence2") if "sentence2" in first else ("sentence",)
        if text_in(row, [named[role] for role in second], left) is None:
            continue
        texts = [_sentence(row, named[role]) for role in second]
        if "sentence3" in own and not is_blank(row.values.get(named["sentence3"])):
            texts.append(_sentence(row, named["sentence3"]))
        score = _score(row, named["score"]) if "score" in first else None
        _check(texts, score, row)
        yield PairExample(tuple(texts), score, row.where)
    warn_of(left)


def _sentence(row: Row, column: str) -> str:
    text = row.text(column)
    if is_blank(text):
        raise row.nothing(column)
    return text


def _score(row: Row, column: str) -> float:
    score = float32_in(value := row.value(column))
    if score is None:
        raise row.error(f"score {str(value)[:40]!r} is no number")
    return score


def _check(texts: list[str], score: float | None, row: Row) -> None:
    if len(texts) < 3:
        return
    if score is not None:
        raise row.error("a hard negative and a score; a scored row is a pair")
    if texts[2] in texts[:2]:
        which = "the sentence" if texts[2] == texts[0] else "its positive"
        raise row.error(f"the hard negative is {which} itself: {texts[2][:40]!r}")
