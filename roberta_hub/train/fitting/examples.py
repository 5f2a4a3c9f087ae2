"""Reads the examples of a table, says what is odd about them, and holds some of them out."""

from __future__ import annotations

import math
import os
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from roberta_hub.arguments import one_of, shown, whole_number
from roberta_hub.errors import InputError, Remedy
from roberta_hub.rows.columns import find_columns
from roberta_hub.rows.tables import Row, Table, table_of
from roberta_hub.rows.values import Fault, blank, number_in, text_in
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.data.labels import alike, label_of, labels_of
from roberta_hub.train.data.sentences import Sentences
from roberta_hub.train.fitting.split import counted, doubles, near, split, without
from roberta_hub.train.limits import MAX_SEED

TASKS = ("classification", "regression", "multi_label")
MAX_CLASSES = 20
"""Whole numbers with more different values than this are no classes but a quantity."""
FEW = 100
"""With fewer rows to learn from the report says that they are few."""
SHOWN = 12
"""Classes that the summary lists."""


@dataclass(frozen=True)
class Examples:
    """What a table holds to learn from and to be measured on."""

    source: str
    """What errors and reports call the table."""
    task: str
    """One of `TASKS`."""
    columns: tuple[str, ...]
    """Of the texts: one, or two for pairs."""
    label: str
    """Column of the labels."""
    train: list[Sentences]
    valid: list[Sentences]
    held_out: str
    """How `valid` was chosen, in words."""
    share: str | None = None
    """What `valid` makes the same choice: a share or a path; None: a table in memory."""
    in_memory: bool = False
    """Whether the table has no path, so that no command names it."""
    notes: list[str] = field(default_factory=list)
    """What is odd about the rows, and what was done with them; a sentence each."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, sorted; none of a regression."""
        found = {name for example in self.train for name in example.labels}
        return () if self.task == "regression" else tuple(sorted(found))

    def counts(self) -> Counter[str]:
        """Count the labels of all rows."""
        return Counter(name for e in (*self.train, *self.valid) for name in e.labels)

    def summary(self) -> str:
        """Write what is to be learnt: task, rows, classes with their counts, what is odd.

        It fits a terminal of 80 columns, but for names that do not.
        """
        total = len(self.train) + len(self.valid)
        what = "pairs of texts" if len(self.columns) == 2 else "texts"
        lines = [
            f"{self.source}: {total:,} {what} ({', '.join(self.columns)}), labels: {self.label}",
            f"task: {self.task.replace('_', '-')}{self._spread()}",
        ]
        counts = self.counts().most_common() if self.task != "regression" else []
        width = max((len(name) for name, _ in counts[:SHOWN]), default=0)
        for name, count in counts[:SHOWN]:
            bar = "█" * max(1, round(24 * count / counts[0][1]))
            lines.append(f"  {name[:40]:<{min(width, 40)}} {count:>8,}  {bar}")
        if len(counts) > SHOWN:
            lines.append(f"  and {len(counts) - SHOWN} more")
        lines += [wrapped(note) for note in self.notes]
        lines.append(f"{len(self.train):,} to learn from, {len(self.valid):,} {self.held_out}")
        return "\n".join(lines)

    def _spread(self) -> str:
        if self.task != "regression":
            return f", {len(self.counts())} {'labels' if self.task == 'multi_label' else 'classes'}"
        values = [float(e.labels[0]) for e in (*self.train, *self.valid)]
        return f", numbers from {min(values):g} to {max(values):g}"


def wrapped(note: str) -> str:
    """Lay a note out for a terminal of 80 columns."""
    return textwrap.fill(f"note: {note}", 80, subsequent_indent="  ", break_on_hyphens=False)


def read_examples(
    table: Any,
    *,
    text: Any = None,
    label: Any = None,
    valid: Any = 0.1,
    task: str | None = None,
    seed: int = 1,
) -> Examples:
    """Read a table of texts and labels, and hold some rows out.

    Rows without a text or a label are left out. Texts that occur more than once stay on one side,
    so that no row that is held out was learnt. `notes` says how many rows both concerns.

    Args:
        table: see `table_of`.
        text: see `find_columns`.
        label: see `find_columns`.
        valid: the share of rows to hold out, the same of each class; or a table with the same
            columns.
        task: one of `TASKS`; None: see `find_task`.
        seed: decides which rows are held out.

    Raises:
        RobertaHubError: a table, a column or a row that cannot be used.
    """
    one_of("task", task, (None, *TASKS))
    seed = whole_number("seed", seed, 0, MAX_SEED)
    share = _share(valid)
    source = table_of(table)
    columns, label = find_columns(source, text, label)
    notes: list[str] = []
    asked = task
    rows = _usable(source, columns, label, asked, notes)
    task = task or find_task([value for _, _, value in rows])
    found = [_example(task, *row, label) for row in rows]
    _check(source.name, found, task, label)
    notes += _about_labels(found, task)
    groups = doubles(found, notes)
    if share is not None:
        train, held_out = split(found, groups, share, seed, task)
        words = f"held out ({share:.3g} of each class, seed {seed})"
        if task != "classification":
            words = f"held out ({share:.3g} of the rows, seed {seed})"
    else:
        other = table_of(valid, "valid")
        for column in (*columns, label):
            other.check(column)
        rows = _usable(other, columns, label, asked, notes)
        held_out = [_example(task, *row, label) for row in rows]
        train = without(found, held_out, other.name, notes)
        words = f"held out ({other.name})"
    _check_sides(source.name, train, held_out, task)
    if len(train) < FEW:
        notes.append(f"{len(train)} rows are few to learn from; some hundreds make a better model")
    share_of = f"{share:g}" if share is not None else _path(valid)
    return Examples(
        source=source.name,
        task=task,
        columns=columns,
        label=label,
        train=train,
        valid=held_out,
        held_out=words,
        share=share_of,
        in_memory=_path(table) is None,
        notes=notes,
    )


def _path(table: Any) -> str | None:
    return os.fspath(table) if isinstance(table, (str, os.PathLike)) else None


def _share(valid: Any) -> float | None:
    """Return the share to hold out; None where `valid` is a table."""
    if isinstance(valid, str) and number_in(valid) is not None and not os.path.exists(valid):
        valid = number_in(valid)
    if isinstance(valid, (int, float)) or valid is None:
        if isinstance(valid, bool) or valid is None or not 0 < valid < 1:
            raise InputError(
                f"valid is {shown(valid)}; give a share of the rows between 0 and 1, such as 0.1, "
                "or a table"
            )
        return float(valid)
    return None


Usable = tuple[Row, Text, Any]
"""(row, its text or pair, the value of its label)."""


def _usable(
    table: Table, columns: Sequence[str], label: str, task: str | None, notes: list[str]
) -> list[Usable]:
    """Read the rows that have a text and a label; note those that have not."""
    found: list[Usable] = []
    without: dict[str, list[str]] = {"text": [], "label": []}
    for row in table.rows():
        texts = [_text(row, column) for column in columns]
        value = row.values.get(label)
        if hasattr(type(value), "tolist"):  # numpy's scalars, and arrays of several labels
            value = value.tolist()  # type: ignore[union-attr]
        if not any(text.strip() for text in texts):
            without["text"].append(row.where)
        elif blank(value) and not (task == "multi_label" and value is not None):
            # Of several labels an empty cell is none of them, and pandas makes NaN of such a cell.
            without["label"].append(row.where)
        else:
            found.append((row, texts[0] if len(texts) == 1 else tuple(texts), value))
    if task is None:
        found = _without_nan(found, without["label"])
    for what, places in without.items():
        if places:
            notes.append(
                f"{counted(len(places))} without a {what} left out, first {near(places[0])}"
            )
    if not found:
        raise InputError(
            f"{table.name}: no row has both a text ({', '.join(columns)}) and a label ({label}). "
            f"{table.listed()}"
        )
    return found


def _without_nan(rows: list[Usable], places: list[str]) -> list[Usable]:
    """Leave out the rows whose label is "nan" as text, where every other label is a number."""
    named = [isinstance(v, str) and v.strip().casefold() == "nan" for _, _, v in rows]
    rest = [row for row, odd in zip(rows, named, strict=True) if not odd]
    if not rest or len(rest) == len(rows) or None in (number_in(value) for _, _, value in rest):
        return rows
    places += [row.where for (row, _, _), odd in zip(rows, named, strict=True) if odd]
    return rest


def _text(row: Row, column: str) -> str:
    value = row.values.get(column)
    text = "" if blank(value) else text_in(value, column)
    if isinstance(text, Fault):
        raise row.error(
            text.why,
            Remedy(
                "text=... names the column of the texts", "--text names the column of the texts"
            ),
        )
    return text or ""


def _is_infinite(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and math.isinf(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def find_task(values: Sequence[Any]) -> str:
    """Tell what labels ask to learn.

    Lists are several labels for a text. Whole numbers with at most 20 different values are classes;
    other numbers are a quantity, for a regression. Everything else is classes.

    Args:
        values: of the labels' column, none of them missing.

    Example:
        >>> find_task(["1", "5"]), find_task([0.5, 1]), find_task(["a", "b"]), find_task([["a"]])
        ('classification', 'regression', 'classification', 'multi_label')
    """
    if any(isinstance(value, (list, tuple)) for value in values):
        return "multi_label"
    numbers = [number_in(value) for value in values]
    if not numbers or None in numbers:
        # An infinite number among numbers is no class; reading it as a quantity says which it is.
        odd = [v for v, number in zip(values, numbers, strict=True) if number is None]
        quantity = len(odd) < len(values) and all(map(_is_infinite, odd))
        return "regression" if quantity else "classification"
    whole = all(number == int(number) for number in numbers if number is not None)
    return "classification" if whole and len(set(numbers)) <= MAX_CLASSES else "regression"


def _example(task: str, row: Row, text: Text, value: Any, label: str) -> Sentences:
    if task == "multi_label":
        labels = labels_of("" if blank(value) else _listed(value), ",", row.where)
        return Sentences(text, tuple(dict.fromkeys(labels)), row.where)
    if task == "regression":
        number = number_in(value)
        if number is None:
            raise InputError(
                f"{row.where}: {label} is {shown(value)}, no number; task classification learns "
                "classes"
            )
        return Sentences(text, (repr(number),), row.where)
    if isinstance(value, (list, tuple)):
        raise InputError(f"{row.where}: {label} is a list; task multi_label learns those")
    if isinstance(value, float) and value.is_integer():  # pandas: whole numbers beside NaN
        value = int(value)
    return Sentences(text, (label_of(value, row.where),), row.where)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _check(name: str, found: Sequence[Sentences], task: str, label: str) -> None:
    """Refuse labels that nothing can be learnt from."""
    different = {example.labels for example in found}
    if task == "regression" and len(different) < 2:
        raise InputError(f"{name}: {label} is {found[0].labels[0]} in every row; nothing to learn")
    names = {own for labels in different for own in labels}
    if task == "multi_label" and not names:
        raise InputError(f"{name}: no row has a label in {label}")
    if task != "classification":
        return
    if len(names) < 2:
        raise InputError(
            f"{name}: {label} is {shown(found[0].labels[0])} in every row; classes to tell apart "
            "must be at least two"
        )
    if len(names) > max(MANY, len(found) // 2):
        raise InputError(
            f"{label} has {len(names):,} different values in {len(found):,} rows, too many for "
            "classes",
            place=name,
            remedy=Remedy(
                "label=... names another column, and task='regression' learns numbers",
                "--label names another column, and --task regression learns numbers",
            ),
        )


MANY = 20
"""So many classes are never too many."""


def _about_labels(found: Sequence[Sentences], task: str) -> list[str]:
    """Note labels that look like one, and classes that have one row only."""
    if task == "regression":
        return []
    counts = Counter(name for example in found for name in example.labels)
    notes = []
    for group in alike(counts):
        listed = ", ".join(f"{name!r} ({counts[name]:,})" for name in group)
        notes.append(f"labels that look alike are different classes: {listed}; write them alike")
    single = [name for name, count in counts.items() if count == 1]
    if single:
        listed = ", ".join(single[:5]) + (", ..." if len(single) > 5 else "")
        notes.append(f"{len(single)} of the classes with one row only, hardly learnt: {listed}")
    return notes


def _check_sides(
    name: str, train: Sequence[Sentences], held_out: Sequence[Sentences], task: str
) -> None:
    if not train or not held_out:
        raise InputError(
            f"{counted(len(train))} to learn from and {len(held_out)} to hold out; there must be "
            "some of both",
            place=name,
            remedy=Remedy(
                "add rows, or give other ones with valid=...",
                "add rows, or give other ones with --valid",
            ),
        )
    if task == "regression":
        return
    known = {label for example in train for label in example.labels}
    if task == "classification" and len(known) < 2:
        raise InputError(f"{name}: only the class {known.pop()!r} is left to learn from; add rows")
    for example in held_out:
        for label in example.labels:
            if label not in known:
                raise InputError(
                    f"{example.where}: label {label[:60]!r} is in no row to learn from; there are "
                    f"{', '.join(sorted(known)[:20])}"
                )
