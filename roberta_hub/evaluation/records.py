"""What `evaluate` measured: one record a task, and the ways to read it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, Literal, overload

from roberta_hub.errors import UnknownNameError, close_names
from roberta_hub.measures.intervals import Interval
from roberta_hub.rows.frames import pandas_frame
from roberta_hub.show.display import Display, Part
from roberta_hub.show.facts import Facts, Note
from roberta_hub.show.markdown import code, inline
from roberta_hub.show.shaded_table import Cell, ShadedTable
from roberta_hub.show.sheet import Picture
from roberta_hub.terminal import width_of

Kind = Literal["labels", "scores", "search", "minimal_pairs", "answers", "spans"]
KINDS: tuple[Kind, ...] = ("labels", "scores", "search", "minimal_pairs", "answers", "spans")
GROUPS_SHOWN = 30
"""Groups that a report shows; `groups` has all."""


@dataclass(frozen=True)
class Group:
    """A part of a task that is measured by itself: the rows of a label, a field of grammar."""

    of: str
    """What the parts are: "label", "field", "phenomenon"."""
    name: str
    rows: int
    """Rows, spans or pairs that belong to it."""
    numbers: dict[str, float]


@dataclass(frozen=True)
class Evaluation:
    """How a model answers a task whose right answers are known.

    Example:
        >>> numbers = {"accuracy": 0.75, "mcc": 0.5}
        >>> found = Evaluation("mine", "moods.csv", "labels", "classify", "head mood",
        ...                    "labelled texts (text, label)", 400, numbers, (0.71, 0.79))
        >>> found["accuracy"]
        0.75
        >>> print(found)
        mine on moods.csv: accuracy 0.750 (95 %: 0.710 to 0.790)
        asked: classify, head mood; labelled texts (text, label), 400 rows
          accuracy  0.750
          mcc       0.500
    """

    model: str
    task: str
    """The file or folder."""
    kind: Kind
    verb: str
    """What was asked."""
    how: str
    """By which head, measure or rule."""
    shape: str
    """What the task was found to be, with its columns."""
    rows: int
    """Rows that count: texts, queries, pairs, questions or sentences."""
    numbers: dict[str, float | None]
    """By the names of the measures, the main one first; None: it does not exist here."""
    interval: Interval | None = None
    """95 % confidence interval of the first number; None: it is unknown."""
    groups: tuple[Group, ...] = ()
    notes: tuple[str, ...] = ()
    """What was left out, and what to know of the numbers."""

    @property
    def measure(self) -> str:
        """The name of the main measure."""
        return next(iter(self.numbers))

    def __getitem__(self, measure: str) -> float | None:
        """Return the number of a measure.

        Raises:
            UnknownNameError: it was not measured; the message lists what was.
        """
        if not isinstance(measure, str) or measure not in self.numbers:
            near = close_names(measure, self.numbers) if isinstance(measure, str) else ""
            hint = f"did you mean {near}? " if near else ""
            raise UnknownNameError(
                f"{self.task} has no measure {measure!r}; {hint}it has {', '.join(self.numbers)}"
            )
        return self.numbers[measure]

    def __str__(self) -> str:
        lines = [self._headline(), self._asked()]
        wide = max(map(len, self.numbers))
        lines += [f"  {name:{wide}}  {_number(value)}" for name, value in self.numbers.items()]
        for title, rows in self._tables():
            lines += ["", *(f"  {line}" for line in _columns([title, *rows]))]
        more = len(self.groups) - GROUPS_SHOWN
        lines += [f"  and {more} more groups"] if more > 0 else []
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        return str(self)

    def _headline(self) -> str:
        name = self.measure
        said = f"{self.model} on {self.task}: {name} {_number(self.numbers[name])}"
        return said + (f" (95 %: {_between(self.interval)})" if self.interval else "")

    def _asked(self) -> str:
        how = f", {self.how}" if self.how else ""
        return f"asked: {self.verb}{how}; {self.shape}, {self.rows:,} rows"

    def _tables(self) -> list[tuple[list[str], list[list[str]]]]:
        """The groups as tables, those of one kind together: head, rows."""
        shown = self.groups[:GROUPS_SHOWN]
        found = []
        for of in dict.fromkeys(group.of for group in shown):
            own = [group for group in shown if group.of == of]
            head = [of, "rows", *own[0].numbers]
            rows = [[g.name, f"{g.rows:,}", *map(_number, g.numbers.values())] for g in own]
            found.append((head, rows))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain words and numbers, which `json.dumps` takes."""
        return asdict(self)

    def to_pandas(self) -> Any:
        """Return a data frame of pandas with one row: model, task, kind, rows, every measure.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return pandas_frame([self._row()])

    def _row(self) -> dict[str, Any]:
        about = {"model": self.model, "task": self.task, "kind": self.kind, "rows": self.rows}
        return about | {k: math.nan if v is None else v for k, v in self.numbers.items()}

    def to_markdown(self) -> str:
        """Write a report for a page or a pull request."""
        lines = [f"## {code(self.model)} on {code(self.task)}", "", inline(self._asked()), ""]
        lines += ["| measure | |", "|---|--:|"]
        lines += [f"| {name} | {_number(value)} |" for name, value in self.numbers.items()]
        for head, rows in self._tables():
            lines += ["", f"| {' | '.join(head)} |", "|---" + "|--:" * (len(head) - 1) + "|"]
            lines += [f"| {' | '.join([code(row[0]), *row[1:]])} |" for row in rows]
        lines += ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join(lines)

    def png(self, path: str | PathLike[str] | None = None) -> Picture:
        """Draw what a notebook shows; see `Display.png`.

        Args:
            path: the file that the picture is written to; None: to none.
        """
        return self.display().png(path)

    def display(self) -> Display:
        """Return what a notebook draws."""
        parts: list[Part] = [Note(self._asked())]
        parts.append(Facts([(name, _number(value)) for name, value in self.numbers.items()]))
        for head, rows in self._tables():
            cells = [(row[0], [Cell(value) for value in row[1:]]) for row in rows]
            parts.append(ShadedTable(head[1:], cells, left=head[0]))
        parts += [Note(note) for note in self.notes]
        return Display(self._headline(), parts, self.to_dict())

    def _repr_html_(self) -> str:
        return self.display()._repr_html_()


@dataclass(frozen=True, repr=False)
class Evaluations(Sequence[Evaluation]):
    """Several tasks of one model; it prints as one table, a line a task."""

    tasks: tuple[Evaluation, ...]

    @overload
    def __getitem__(self, index: int) -> Evaluation: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Evaluation, ...]: ...
    def __getitem__(self, index: int | slice) -> Evaluation | tuple[Evaluation, ...]:
        """Return the task of a number."""
        return self.tasks[index]

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Evaluation]:
        return iter(self.tasks)

    def __str__(self) -> str:
        notes = [f"{one.task}: {note}" for one in self.tasks for note in one.notes]
        return "\n".join([self._headline(), *(f"  {line}" for line in self._lines()), *notes])

    def __repr__(self) -> str:
        return str(self)

    def _headline(self) -> str:
        return f"{self.tasks[0].model} on {len(self.tasks)} tasks"

    def _cells(self) -> list[list[str]]:
        head = ["task", "asked", "rows", "measures"]
        return [head, *([o.task, o.verb, f"{o.rows:,}", _listed(o)] for o in self.tasks)]

    def _lines(self) -> list[str]:
        first, *rows = self._cells()
        return _columns([first, *rows], left=(0, 1, 3))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain words and numbers, which `json.dumps` takes."""
        return {"tasks": [one.to_dict() for one in self.tasks]}

    def to_pandas(self) -> Any:
        """Return a data frame of pandas: a row a task, and a column a measure; NaN: it has none.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return pandas_frame([one._row() for one in self.tasks])

    def to_markdown(self) -> str:
        """Write a report for a page or a pull request."""
        head, *rows = self._cells()
        lines = [f"## {code(self.tasks[0].model)}", "", f"| {' | '.join(head)} |"]
        lines += ["|---|---|--:|---|"]
        return "\n".join([*lines, *(f"| {' | '.join([code(r[0]), *r[1:]])} |" for r in rows)])

    def png(self, path: str | PathLike[str] | None = None) -> Picture:
        """Draw what a notebook shows; see `Display.png`.

        Args:
            path: the file that the picture is written to; None: to none.
        """
        return self.display().png(path)

    def display(self) -> Display:
        """Return what a notebook draws."""
        facts = Facts([(f"{one.task} ({one.rows:,})", _listed(one)) for one in self.tasks])
        return Display(self._headline(), [facts], self.to_dict())

    def _repr_html_(self) -> str:
        return self.display()._repr_html_()


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _between(interval: Interval) -> str:
    return f"{interval[0]:.3f} to {interval[1]:.3f}"


def _listed(one: Evaluation) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in one.numbers.items())


def _columns(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Write cells under each other; those of the columns `left` from the left."""
    widths = [max(width_of(row[i]) for row in rows) for i in range(len(rows[0]))]

    def cell(i: int, text: str) -> str:
        blank = " " * (widths[i] - width_of(text))
        return text + blank if i in left else blank + text

    return ["  ".join(cell(i, text) for i, text in enumerate(row)).rstrip() for row in rows]
