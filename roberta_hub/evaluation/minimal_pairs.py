"""Measures which sentence of a minimal pair a model finds more natural, as BLiMP does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roberta_hub.errors import InputError
from roberta_hub.evaluation.records import Evaluation, Group
from roberta_hub.evaluation.tasks import Asked, at_rows, check_finite
from roberta_hub.measures.intervals import share_interval
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.rows.tables import Table
from roberta_hub.rows.values import is_blank

SENTENCES = (("sentence_good", "sentence_bad"), ("good", "bad"))
"""Names of the columns of the right and the wrong sentence."""
GROUPS = {
    "field": ("field",),
    "phenomenon": ("linguistics_term", "phenomenon"),
    "paradigm": ("uid", "paradigm"),
}
"""What pairs are grouped by, and the names of such columns in BLiMP and others, in any case."""


def sentence_columns(columns: Sequence[str]) -> tuple[str, str] | None:
    """Name the columns of the two sentences; None: a table has none.

    Example:
        >>> sentence_columns(["good", "bad", "field"]), sentence_columns(["text", "label"])
        (('good', 'bad'), None)
    """
    return next((pair for pair in SENTENCES if {*pair} <= {*columns}), None)


@dataclass(frozen=True)
class _Pairs:
    texts: list[str]
    """The right sentence of each pair, and behind it the wrong one."""
    where: list[str]
    groups: list[dict[str, str]]


def minimal_pairs(asked: Asked, tables: Sequence[Table], name: str) -> Evaluation:
    """Measure how often the right sentence of a pair scores higher."""
    asked.takes("minimal_pairs")
    pairs, left = _Pairs([], [], []), LeftOut()
    for table in tables:
        _read(table, pairs, left)
    left.check(pairs.where, name)
    with at_rows(pairs.where):
        scores = asked.roberta.score(pairs.texts, **asked.options)
    check_finite(scores, pairs.where)
    good, bad = scores[::2], scores[1::2]
    right = [a > b for a, b in zip(good, bad, strict=True)]
    share = sum(right) / len(right)
    equal = sum(a == b for a, b in zip(good, bad, strict=True))
    notes = left.counted() + (
        (f"pairs that score alike, and are wrong: {equal:,}",) if equal else ()
    )
    return Evaluation(
        model=asked.name,
        task=name,
        kind="minimal_pairs",
        verb="score",
        how="of a pair the sentence that scores higher",
        shape="minimal pairs" + (f" in {len(tables)} files" if len(tables) > 1 else ""),
        rows=len(right),
        numbers={"accuracy": share},
        interval=share_interval(share, len(right)),
        groups=_grouped(pairs.groups, right),
        notes=notes,
    )


def _read(table: Table, pairs: _Pairs, left: LeftOut) -> None:
    columns = sentence_columns(table.columns)
    if columns is None:
        known = " or ".join(" and ".join(pair) for pair in SENTENCES)
        raise InputError(f"{table.name}: has no columns {known}. {table.listed()}")
    by_name = {column.casefold(): column for column in table.columns}
    named = {
        of: next((by_name[name] for name in names if name in by_name), None)
        for of, names in GROUPS.items()
    }
    for row in table.rows():
        texts = left.text(row, columns)
        if texts is None:
            continue
        pairs.texts.extend(texts)
        pairs.where.extend((row.where, row.where))
        values = {of: row.values.get(column) for of, column in named.items() if column}
        pairs.groups.append({of: str(v) for of, v in values.items() if not is_blank(v)})


def _grouped(groups: Sequence[dict[str, str]], right: Sequence[bool]) -> tuple[Group, ...]:
    """Accuracy of each field, phenomenon and paradigm, by name."""
    members: dict[tuple[str, str], list[bool]] = {}
    for own, is_right in zip(groups, right, strict=True):
        for of, name in own.items():
            members.setdefault((of, name), []).append(is_right)
    order = list(GROUPS)
    return tuple(
        Group(of, name, len(own), {"accuracy": sum(own) / len(own)})
        for (of, name), own in sorted(
            members.items(), key=lambda item: (order.index(item[0][0]), item[0][1])
        )
    )
