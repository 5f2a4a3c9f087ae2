"""What `evaluate` measured: one record a task, and its report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

from roberta_hub.errors import UnknownNameError, close_names
from roberta_hub.measures.counts import count_text
from roberta_hub.measures.intervals import Interval
from roberta_hub.measures.refusals import CoveragePoint
from roberta_hub.rows.frames import pandas_frame
from roberta_hub.show.column_chart import ChartColumn, ColumnChart
from roberta_hub.show.facts import Facts, Note
from roberta_hub.show.markdown import code
from roberta_hub.show.report import Report, Reported, Section, facts, notes, said, table

Kind = Literal["labels", "scores", "search", "minimal_pairs", "answers", "spans"]
KINDS: tuple[Kind, ...] = ("labels", "scores", "search", "minimal_pairs", "answers", "spans")
GROUPS_SHOWN = 30
"""Groups that a report shows; `groups` has all."""
_CURVE = (
    "Filled: how many of the most certain answers are right. Line: how probable the model said "
    "that they are. Below: their share of all rows, and the least certainty among them"
)


@dataclass(frozen=True)
class Group:
    """A part of a task that is measured by itself: the rows of a label, a field of grammar."""

    of: str
    """What the parts are: "label", "field", "phenomenon"."""
    name: str
    rows: float
    """Rows, spans or pairs that belong to it; where rows have weights or shares, the sum of
    those."""
    numbers: dict[str, float]


@dataclass(frozen=True)
class Evaluation(Reported):
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
    curve: tuple[CoveragePoint, ...] = ()
    """What the most certain answers are worth, if the head may refuse the others."""

    @property
    def measure(self) -> str:
        """The name of the main measure."""
        return next(iter(self.numbers))

    def __getitem__(self, measure: str) -> float | None:
        """Return the number of a measure."""
        if not isinstance(measure, str) or measure not in self.numbers:
            near = close_names(measure, self.numbers) if isinstance(measure, str) else ""
            hint = f"did you mean {near}? " if near else ""
            raise UnknownNameError(
                f"{self.task} has no measure {measure!r}; {hint}it has {', '.join(self.numbers)}"
            )
        return self.numbers[measure]

    def report(self) -> Report:
        """Build what is shown, on every face."""
        left = len(self.groups) - GROUPS_SHOWN
        more = f"and {left} more groups"
        sections = [
            Section([self._headline()]),
            said(self._asked()),
            facts([(name, _number(value)) for name, value in self.numbers.items()], "measure"),
            *self._tables(),
            Section([f"  {more}"], [more], [Note(more)]) if left > 0 else Section(),
            self._curve(),
            notes(self.notes, markdown=str),
        ]
        heading = f"{code(self.model)} on {code(self.task)}"
        return Report(self._headline(), sections, heading)

    def __repr__(self) -> str:
        return str(self)

    def _headline(self) -> str:
        name = self.measure
        found = f"{self.model} on {self.task}: {name} {_number(self.numbers[name])}"
        return found + (f" (95 %: {_between(self.interval)})" if self.interval else "")

    def _asked(self) -> str:
        how = f", {self.how}" if self.how else ""
        return f"asked: {self.verb}{how}; {self.shape}, {self.rows:,} rows"

    def _tables(self) -> list[Section]:
        """The groups as tables, those of one kind together, each below a blank line."""
        shown = self.groups[:GROUPS_SHOWN]
        found = []
        for of in dict.fromkeys(group.of for group in shown):
            own = [group for group in shown if group.of == of]
            rows = [[g.name, count_text(g.rows), *map(_number, g.numbers.values())] for g in own]
            one = table([[of, "rows", *own[0].numbers], *rows])
            found.append(replace(one, text=["", *one.text]))
        return found

    def _curve(self) -> Section:
        """The accuracy of the most certain answers: a table, and a picture of it."""
        if not self.curve:
            return Section()
        rows = [
            [_percent(p.coverage), _number(p.accuracy), _number(p.certainty)] for p in self.curve
        ]
        shown = table([["answered", "accuracy", "least certainty"], *rows])
        columns = [
            ChartColumn(_percent(p.coverage), p.accuracy, p.score, f"{p.certainty:.2f}")
            for p in self.curve
        ]
        drawn = ColumnChart(columns, _CURVE)
        return replace(shown, text=["", *shown.text], parts=[drawn])

    def to_pandas(self) -> Any:
        """Return a data frame of pandas with one row: model, task, kind, rows, every measure.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return pandas_frame([self._row()])

    def _row(self) -> dict[str, Any]:
        about = {"model": self.model, "task": self.task, "kind": self.kind, "rows": self.rows}
        return about | {k: math.nan if v is None else v for k, v in self.numbers.items()}


@dataclass(frozen=True, repr=False)
class Evaluations(Reported, Sequence[Evaluation]):
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

    def report(self) -> Report:
        """Build what is shown, on every face."""
        rows = [[o.task, o.verb, f"{o.rows:,}", _listed(o)] for o in self.tasks]
        tasks = table([["task", "asked", "rows", "measures"], *rows], left=(0, 1, 3))
        shown = [(f"{one.task} ({one.rows:,})", _listed(one)) for one in self.tasks]
        headline = f"{self.tasks[0].model} on {len(self.tasks)} tasks"
        sections = [
            Section([headline]),
            replace(tasks, parts=[Facts(shown)]),
            notes([f"{one.task}: {note}" for one in self.tasks for note in one.notes]),
        ]
        return Report(headline, sections, code(self.tasks[0].model))

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain words and numbers, which `json.dumps` takes."""
        return {"tasks": [one.to_dict() for one in self.tasks]}

    def to_pandas(self) -> Any:
        """Return a data frame of pandas: a row a task, and a column a measure; NaN: it has none.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return pandas_frame([one._row() for one in self.tasks])


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _between(interval: Interval) -> str:
    return f"{interval[0]:.3f} to {interval[1]:.3f}"


def _listed(one: Evaluation) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in one.numbers.items())
