"""Reads the examples of a table, notes what is unusual about them, and holds some of them out."""

from __future__ import annotations

import math
import os
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from roberta_hub.arguments import one_of, short_repr, switch, whole_number
from roberta_hub.errors import InputError, Remedy
from roberta_hub.measures.intervals import effective_rows, share_interval
from roberta_hub.rows.columns import (
    HEADLESS_NOTE,
    find_columns,
    flag_columns,
    is_headless,
    shell_list,
    weight_column,
)
from roberta_hub.rows.formats import row_count
from roberta_hub.rows.labels import (
    LabelledRow,
    Reading,
    class_of,
    counted_weight,
    find_reading,
    labelled_rows,
    labels_in,
    likely_separator,
    scale_of,
    separator_of,
    separator_words,
    shares_words,
    top_class,
    weight_in,
)
from roberta_hub.rows.left_out import NO_LABEL, LeftOut, short_place
from roberta_hub.rows.tables import Row, Table, table_of
from roberta_hub.rows.values import number_in
from roberta_hub.terminal import clean
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.data.labels import group_alike, missing_note, mistyped_notes
from roberta_hub.train.data.sentences import LabelledText
from roberta_hub.train.fitting.multi_label import about_dicts, check_vectors
from roberta_hub.train.fitting.recipe import SMALL_TABLE_ROWS
from roberta_hub.train.fitting.split import drop_held_out, group_duplicates, split
from roberta_hub.train.limits import MAX_SEED

FIT_TASKS = ("classification", "regression", "multi_label")
FEW_TRAINING_ROWS = 100
"""With fewer rows to learn from the report says that they are few."""
CROSS_VALIDATED_ROWS = 200
"""With fewer rows none is held out, unless the caller says so: cross-validation judges."""
HELD_OUT_SHARE = 0.1
"""Share of rows that is held out of larger tables by default."""
DIFFERENT_SHARES = 0.05
"""Less of a class's share is no difference worth a note."""
SUMMARY_CLASSES = 12
"""Classes that the summary lists."""


@dataclass(frozen=True)
class Examples:
    """What a table holds to learn from and to be measured on."""

    source: str
    """What errors and reports call the table."""
    task: str
    """One of `FIT_TASKS`."""
    columns: tuple[str, ...]
    """Columns of the texts: one, or two for pairs."""
    label: str
    """Column of the labels; of several columns their names in a row."""
    train: list[LabelledText]
    valid: list[LabelledText]
    held_out: str
    """How `valid` was chosen, in words."""
    share: str | None = None
    """What `valid` makes the same choice: a share or a path; "": nothing was said; None: a table in
    memory."""
    of_the_table: bool = True
    """Whether the held-out rows are of the same table, so that the final model has them too."""
    in_memory: bool = False
    """Whether the table has no path, so that no command names it."""
    notes: list[str] = field(default_factory=list)
    """What is unusual about the rows, and what was done with them; a sentence each."""
    labels_from: tuple[str, ...] = ()
    """Column of the labels, or the columns that are a label each."""
    separator: str | None = None
    """Between the labels in a cell of text."""
    header: bool = True
    """Whether the first row of a CSV or TSV names the columns."""
    weight: str | None = None
    """Column of the rows' weights; None: each row counts the same."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, sorted; none of a regression."""
        found = {name for example in self.train for name in example.amounts}
        return () if self.task == "regression" else tuple(sorted(found))

    @property
    def to_learn(self) -> int:
        """Rows that the final model may be trained on: all but those of a table to measure on."""
        return len(self.train) + (len(self.valid) if self.of_the_table else 0)

    @property
    def learnt(self) -> list[LabelledText]:
        """The rows of the final training; a small table's own held-out rows are among them."""
        small = self.to_learn <= SMALL_TABLE_ROWS
        return [*self.train, *(self.valid if small and self.of_the_table else [])]

    def counts(self) -> Counter[str]:
        """Count the labels of all rows; of shares the likeliest class of each."""
        return Counter(name for e in (*self.train, *self.valid) for name in e.labels)

    def summary(self) -> str:
        """Write what is to be learned: task, rows, classes with their counts, what is unusual.

        It fits a terminal of 80 columns, but for names that do not.
        """
        total = len(self.train) + len(self.valid)
        what = "pairs of texts" if len(self.columns) == 2 else "texts"
        lines = [
            f"{clean(self.source)}: {total:,} {what} ({clean(', '.join(self.columns))}), "
            f"labels: {clean(self.label)}"
            + ("" if self.weight is None else f", weights: {clean(self.weight)}"),
            f"task: {self.task.replace('_', '-')}{self._spread()}",
        ]
        lines += [] if self.task == "regression" else count_bars(self.counts())
        lines += [wrap_note(note) for note in self.notes]
        lines.append(f"{len(self.train):,} to learn from, {len(self.valid):,} {self.held_out}")
        return "\n".join(lines)

    def _spread(self) -> str:
        if self.task != "regression":
            return f", {len(self.counts())} {'labels' if self.task == 'multi_label' else 'classes'}"
        values = [float(e.labels[0]) for e in (*self.train, *self.valid)]
        return f", numbers from {min(values):g} to {max(values):g}"


def count_bars(counts: Counter[str]) -> list[str]:
    """Draw a line for each label: its rows or spans, and a bar; the most frequent first."""
    ordered = counts.most_common()
    shown = ordered[:SUMMARY_CLASSES]
    width = min(max((len(name) for name, _ in shown), default=0), 40)
    lines = [
        f"  {clean(name[:40]):<{width}} {n:>8,}  {'█' * max(1, round(24 * n / ordered[0][1]))}"
        for name, n in shown
    ]
    more = len(ordered) - len(shown)
    return [*lines, f"  and {more} more"] if more else lines


def wrap_note(note: str) -> str:
    """Lay a note out for a terminal of 80 columns."""
    return textwrap.fill(clean(f"note: {note}"), 80, subsequent_indent="  ", break_on_hyphens=False)


def read_examples(
    table: Any,
    *,
    text: Any = None,
    label: Any = None,
    valid: Any = None,
    task: str | None = None,
    seed: int = 1,
    separator: Any = None,
    header: bool = True,
    weight: str | None = None,
    source: Table | None = None,
) -> Examples:
    """Read a table of texts and labels, and hold some rows out.

    Rows without a text or a label, or with a weight of 0, are left out. Texts that occur more than
    once stay on one side, so that no row that is held out was learnt. `notes` says how many rows
    both concerns.

    A text has several labels where its cell is a list, the text of a list as pandas writes it, or a
    dict of labels with truth values; where `label` names several columns of 0 and 1; and where
    `separator` parts the text of a cell. An empty list is none of them, and is learnt.

    A text has shares of several classes where a dict, or the cells of several columns, are
    fractions that add up to 1 in every row; and where several columns hold names of classes, which
    are votes. The task "classification" reads dicts and columns of 0 and 1 so, too.
    """
    one_of("task", task, (None, *FIT_TASKS, "tagging"))  # whose tables are read before
    seed, header = whole_number("seed", seed, 0, MAX_SEED), switch("header", header)
    share, separator = held_out_share(valid), separator_of(separator)
    source = source or table_of(table, header=header).kept()
    weights = () if weight is None else (weight_column(source, weight),)
    columns, labels = find_columns(source, text, label, weights)
    name = _joined(labels)
    notes: list[str] = []
    if is_headless(source):
        notes.append(f"{HEADLESS_NOTE}; header=False (in a shell --no-header) takes it as a row")
    if label is None:
        notes += _other_columns(source, columns)
    rows = _with_texts(source, columns, labels, notes)
    given, reading = task, find_reading(rows, name, labels, task, separator, notes)
    rows = _with_weights(_with_labels(rows, reading, notes), source.name, weight, notes)
    task, found = reading.task, _examples_of(source, rows, reading, (columns, name, weight), notes)
    _check(source.name, found, rows, task, name)
    if task == "multi_label":
        notes += about_dicts([(row, value) for row, _, value in rows], name)
    notes += [] if given else _about_shares(reading, found, name)
    notes += _about_labels(found, task)
    groups = group_duplicates(found, notes)
    if valid is None and len(groups) < 2:
        raise InputError(
            "all rows have the same text; there must be two different ones at least",
            place=source.name,
        )
    if valid is None and len(found) < CROSS_VALIDATED_ROWS:
        train, held_out = found, list[LabelledText]()
        words = "held out; scores are cross-validated"
    elif share is not None:
        train, held_out = split(found, groups, share, seed, task)
        words = share_words(share, seed, task)
    else:
        other = table_of(valid, "valid", header=header or _path(valid) is None)
        for column in (*columns, *labels):
            other.check(column)
        own = weight if weight in other.columns else None
        if weight is not None and own is None:
            notes.append(f"{other.name} has no column {weight!r}: its rows count the same")
        rows = _with_labels(_with_texts(other, columns, labels, notes), reading, notes)
        rows = _with_weights(rows, other.name, own, notes)
        held_out = _examples_of(other, rows, reading, (columns, name, own), notes)
        train = drop_held_out(found, held_out, other.name, notes)
        if task == "classification":
            notes += _about_class_shares(train, held_out, other.name)
        words = f"held out ({other.name})"
    _check_sides(source.name, train, held_out, task, crossed=not held_out and valid is None)
    if len(train) < FEW_TRAINING_ROWS:
        notes.append(f"{len(train)} rows are few to learn from; some hundreds make a better model")
    share_of = "" if valid is None else f"{share:g}" if share is not None else _path(valid)
    return Examples(
        source=source.name,
        task=task,
        columns=columns,
        label=name,
        train=train,
        valid=held_out,
        held_out=words,
        share=share_of,
        of_the_table=share is not None,
        in_memory=_path(table) is None,
        notes=notes,
        labels_from=labels,
        separator=separator,
        header=header,
        weight=weight,
    )


def _joined(labels: Sequence[str]) -> str:
    """Write the names of several columns for errors and reports."""
    return ", ".join(
        labels if len(labels) <= SUMMARY_CLASSES else (*labels[:SUMMARY_CLASSES], "...")
    )


def _other_columns(source: Table, columns: Sequence[str]) -> list[str]:
    """Note columns of 0 and 1, of which several may be labels."""
    flags = flag_columns(source, [name for name in source.columns if name not in columns])
    if len(flags) < 2:
        return []
    return [
        f"{_joined(flags)} hold 0 and 1; label={flags!r} (in a shell --label "
        f"{shell_list(flags)}) learns them as several labels"
    ]


def _path(table: Any) -> str | None:
    return os.fspath(table) if isinstance(table, (str, os.PathLike)) else None


def share_words(share: float, seed: int, task: str) -> str:
    """Say how rows were held out."""
    of = "each class" if task == "classification" else "the rows"
    return f"held out ({share:.3g} of {of}, seed {seed})"


def held_out_share(valid: Any) -> float | None:
    """Return the share to hold out; None where `valid` is a table."""
    if isinstance(valid, str) and number_in(valid) is not None and not os.path.exists(valid):
        valid = number_in(valid)
    if valid is None:
        return HELD_OUT_SHARE
    if isinstance(valid, (int, float)):
        if isinstance(valid, bool) or not 0 < valid < 1:
            raise InputError(
                f"valid is {short_repr(valid)}; give a share of the rows between 0 and 1, such as "
                "0.1, or a table"
            )
        return float(valid)
    return None


def _about_shares(reading: Reading, found: Sequence[LabelledText], label: str) -> list[str]:
    """Note that labels are shares of classes, and how many rows have several."""
    if reading.several not in ("shares", "votes"):
        return []
    count = sum(len(example.shares) > 1 for example in found)
    other = "; task='multi_label' (in a shell --task multi_label) takes 0.5 and more as a yes"
    said = shares_words(reading.several, label, count, len(found), "learnt and counted")
    return [said + other * (reading.several == "shares" and not reading.columns)]


def _with_texts(
    table: Table, columns: Sequence[str], labels: Sequence[str], notes: list[str]
) -> list[LabelledRow]:
    """Read the rows that have a text; note those that have none."""
    left = LeftOut(blank=True)
    found = list(labelled_rows(table, columns, labels, left))
    notes += left.sentences(short=True)
    return found


def _with_labels(
    rows: Sequence[LabelledRow], reading: Reading, notes: list[str]
) -> list[LabelledRow]:
    """Leave out the rows without a label, and open the lists in the others; note both."""
    found: list[LabelledRow] = []
    left, empty = LeftOut(), []
    for row, text, value in rows:
        missing = reading.is_empty(value)
        if missing and reading.empty and value is not None and not reading.columns:
            empty.append(row.where)
            found.append((row, text, []))
        elif missing:
            left.add(NO_LABEL, row.where)
        else:
            found.append((row, text, reading.opened(row, value)))
    notes += left.sentences(short=True)
    if empty:
        notes.append(
            f"{row_count(len(empty))} with an empty cell are learnt as texts without a label, "
            f"first {short_place(empty[0])}"
        )
    return found


def _with_weights(
    rows: Sequence[LabelledRow], table: str, weight: str | None, notes: list[str]
) -> list[LabelledRow]:
    """Leave out the rows with a weight of 0, and note them."""
    if weight is None:
        return list(rows)
    left = LeftOut()
    found = [labelled for labelled in rows if counted_weight(labelled[0], weight, left)]
    if rows and not found:
        raise InputError(f"{table}: {weight} is zero in every row; nothing to learn")
    notes += left.sentences(short=True)
    return found


def _examples_of(
    table: Table,
    rows: Sequence[LabelledRow],
    reading: Reading,
    about: tuple[Sequence[str], str, str | None],
    notes: list[str],
) -> list[LabelledText]:
    """Read rows by the names of their texts, labels and weights.

    Weights that are all below 1 are scaled to a mean of 1, which is noted.
    """
    columns, label, weight = about
    _check_rows(table, rows, columns, label)
    found = [_example(reading, *row, label, weight) for row in rows]
    scale = scale_of([example.weight for example in found])
    if math.isclose(scale, 1):
        return found
    notes.append(f"all weights are below 1: they are multiplied by {scale:.3g}, to a mean of 1")
    return [replace(example, weight=example.weight * scale) for example in found]


def _check_rows(
    table: Table, rows: Sequence[LabelledRow], columns: Sequence[str], label: str
) -> None:
    if not rows:
        raise InputError(
            f"{table.name}: no row has both a text ({', '.join(columns)}) and a label ({label}). "
            f"{table.listed()}"
        )


def _example(
    reading: Reading, row: Row, text: Text, value: Any, label: str, weight: str | None
) -> LabelledText:
    shares = reading.shares(row, value, label)
    labels = (top_class(shares),) if shares else _labels_in(reading.task, row, value, label)
    shares = shares if len(shares) > 1 else ()  # one class alone is a label like any other
    own = 1 if weight is None else weight_in(row, weight)
    return LabelledText(text, labels, row.where, shares=shares, weight=own)


def _labels_in(task: str, row: Row, value: Any, label: str) -> tuple[str, ...]:
    """Read the label of a row, or its labels."""
    if task == "multi_label":
        return labels_in(value, row, label)
    if task == "regression":
        number = number_in(value)
        if number is None:
            raise InputError(
                f"{row.where}: {label} is {short_repr(value)}, no number; if it is missing, empty "
                "the cell; task classification learns classes"
            )
        return (repr(number),)
    if isinstance(value, (list, Mapping)):
        what = "list" if isinstance(value, list) else "dict"
        raise InputError(f"{row.where}: {label} is a {what}; task multi_label learns those")
    return (class_of(value, row.where),)


def _check(
    name: str, found: Sequence[LabelledText], rows: Sequence[LabelledRow], task: str, label: str
) -> None:
    """Refuse labels that nothing can be learnt from."""
    different = {example.labels for example in found}
    if task == "regression" and len(different) < 2:
        raise InputError(f"{name}: {label} is {found[0].labels[0]} in every row; nothing to learn")
    names = {own for example in found for own in example.amounts}
    if task == "multi_label":
        check_vectors([(row, value) for row, _, value in rows], label)
    if task == "multi_label" and not names:
        raise InputError(f"{name}: no row has a label in {label}")
    if task != "classification":
        return
    if len(names) < 2:
        raise InputError(
            f"{name}: {label} is {short_repr(found[0].labels[0])} in every row; classes to tell "
            "apart must be at least two"
        )
    if len(names) > max(PLAUSIBLE_CLASSES, len(found) // 2):
        _check_numbers(name, rows, label)
        likely = likely_separator(value for _, _, value in rows)
        raise InputError(
            f"{label} has {len(names):,} different values in {len(found):,} rows, too many for "
            "classes" + (f"; {separator_words(label, likely)}" if likely else ""),
            place=name,
            remedy=Remedy(
                "label=... names another column, and task='regression' learns numbers",
                "--label names another column, and --task regression learns numbers",
            ),
        )


def _check_numbers(name: str, rows: Sequence[LabelledRow], label: str) -> None:
    """Refuse numbers among which a sign such as "-" stands for a missing one."""
    signs = [(row, value) for row, _, value in rows if number_in(value) is None]
    if not signs or 2 * len(signs) > len(rows) or len({str(v) for _, v in signs}) > MISSING_SIGNS:
        return
    listed = ", ".join(sorted({short_repr(value) for _, value in signs}))
    raise InputError(
        f"{label} holds numbers, and {listed} in {row_count(len(signs))}, first "
        f"{short_place(signs[0][0].where)}; if that means a missing number, empty the cells",
        place=name,
    )


MISSING_SIGNS = 3
"""Different words at most that stand for a missing number."""
PLAUSIBLE_CLASSES = 20
"""So many classes are never too many."""


def _about_labels(found: Sequence[LabelledText], task: str) -> list[str]:
    """Note labels that look like one or like none, and classes that have one row only."""
    if task == "regression":
        return []
    counts = Counter(name for example in found for name in example.amounts)
    notes = []
    for group in group_alike(counts):
        listed = ", ".join(f"{name!r} ({counts[name]:,})" for name in group)
        notes.append(f"labels that look alike are different classes: {listed}; write them alike")
    notes += missing_note(counts) + mistyped_notes(counts)
    single = [name for name, count in counts.items() if count == 1]
    if single:
        listed = ", ".join(single[:5]) + (", ..." if len(single) > 5 else "")
        notes.append(f"{len(single)} of the classes with one row only, hardly learnt: {listed}")
    return notes


def _about_class_shares(
    train: Sequence[LabelledText], held_out: Sequence[LabelledText], name: str
) -> list[str]:
    """Note the class whose share differs most between two tables, where chance does not explain it.

    Example:
        >>> rows = [LabelledText("x", (label,), "") for label in ["a"] * 100 + ["b"] * 100]
        >>> _about_class_shares(rows, rows[:120], "test.csv")[0].split("; ")[0]
        "the shares of classes differ: 'a' is 50 % of the rows to learn from and 83 % of test.csv"
        >>> _about_class_shares(rows, rows[60:140], "test.csv")
        []
    """
    learnt, asked = _class_shares(train), _class_shares(held_out)
    if not learnt or not asked:
        return []
    differences = {n: abs(learnt.get(n, 0) - asked.get(n, 0)) for n in sorted({*learnt, *asked})}
    label = max(differences, key=lambda name: round(differences[name], 9))
    was, now = learnt.get(label, 0.0), asked.get(label, 0.0)
    low, high = share_interval(was, effective_rows([e.weight for e in train]))
    least, most = share_interval(now, effective_rows([e.weight for e in held_out]))
    if abs(was - now) < DIFFERENT_SHARES or (low <= most and least <= high):
        return []
    return [
        f"the shares of classes differ: {short_repr(label)} is {100 * was:.0f} % of the rows to "
        f"learn from and {100 * now:.0f} % of {name}; answers lean to the shares that are learnt"
    ]


def _class_shares(rows: Sequence[LabelledText]) -> dict[str, float]:
    """Return how much of the rows each class is."""
    amounts = [(name, amount) for row in rows for name, amount in row.amounts.items()]
    total = sum(amount for _, amount in amounts)
    found = dict.fromkeys((name for name, _ in amounts), 0.0)
    for name, amount in amounts:
        found[name] += amount / total
    return found


def _check_sides(
    name: str,
    train: Sequence[LabelledText],
    held_out: Sequence[LabelledText],
    task: str,
    *,
    crossed: bool,
) -> None:
    if not train or not (held_out or crossed):
        raise InputError(
            f"{row_count(len(train))} to learn from and {len(held_out)} to hold out; there must be "
            "some of both",
            place=name,
            remedy=Remedy(
                "add rows, or give other ones with valid=...",
                "add rows, or give other ones with --valid",
            ),
        )
    known = {label for example in train for label in example.amounts}
    if not known or (len(known) < 2 and task != "multi_label"):
        what = "number" if task == "regression" else "class"
        left = f"only the {what} {known.pop()!r}" if known else "no label"
        raise InputError(
            f"{name}: {left} is left to learn from; add rows whose texts are not held out"
        )
    if task == "regression":
        return
    for example in held_out:
        for label in example.amounts:
            if label not in known:
                raise InputError(
                    f"{example.where}: label {label[:60]!r} is in no row to learn from; there are "
                    f"{', '.join(sorted(known)[:20])}"
                )
