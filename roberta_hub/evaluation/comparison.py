"""What `compare` found: the record, and its report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from roberta_hub.measures.classes import CLASS_MEASURES
from roberta_hub.show.markdown import code
from roberta_hub.show.report import Report, Reported, Section, listed, notes, said, table
from roberta_hub.show.shaded_table import Cell
from roberta_hub.text.tokenizer import Text

Verb = Literal["classify", "embed"]
LEVEL = 0.05
"""A difference less probable than this is not taken for chance."""
SHOWN = 5
"""Rows of each kind that a report shows."""


@dataclass(frozen=True)
class Slice:
    """The rows of a table that have one value in a column, or all of them."""

    name: str
    """"language = de", or "all rows"."""
    rows: int
    changed: float
    """Share of the labels that flipped, or of the neighbours that were lost."""
    accuracy: tuple[float, float] | None = None
    """Share of right answers, old and new; None: right labels are unknown."""
    only: tuple[int, int] | None = None
    """Rows that only the old model answers rightly, and only the new one; of rows with shares of
    classes, those where its answer has the larger share."""
    chance: float | None = None
    """McNemar's p: how probable such a difference is by chance."""
    calibration: tuple[float | None, float | None] | None = None
    """Expected calibration error, old and new; None of a model that refused to answer all rows."""
    measures: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The numbers of `CLASS_MEASURES`, old and new, where each text has one label."""


@dataclass(frozen=True)
class Changed:
    """A row whose answer changed."""

    text: Text
    where: str
    """File and line, or table and row."""
    old: str
    """The label, or the nearest text."""
    new: str
    score: float
    """Probability of the new label; or the share of neighbours that were lost."""
    right: str | None
    """The right label, where it is known: the old one."""


@dataclass(frozen=True)
class Comparison(Reported):
    """How a new model answers, compared with an old one.

    Example:
        >>> whole = Slice("all rows", 400, 0.05, (0.91, 0.88), (14, 2), 0.0042, (0.02, 0.05))
        >>> found = Comparison("v1", "v2", "mails.csv", "classify", whole, (), ())
        >>> found.worse
        True
        >>> print(found)
        v2 is worse than v1 on mails.csv: 91.0 % right became 88.0 % (p 0.0042)
                    rows  flipped  right, old     new       p  ECE, old    new
          all rows   400    5.0 %      91.0 %  88.0 %  0.0042     0.020  0.050
    """

    old: str
    new: str
    table: str
    verb: Verb
    whole: Slice
    """All rows."""
    slices: tuple[Slice, ...]
    """By the columns that were asked for."""
    mistakes: tuple[Changed, ...]
    """Rows that the old model answers rightly and the new one does not, the surest first; without
    right labels, all rows that flipped; of vectors, rows whose neighbours changed most."""
    notes: tuple[str, ...] = ()
    """What was left out, and which rows a model knows."""

    @property
    def changed(self) -> float:
        """Share of the labels that flipped, or of the neighbours that were lost."""
        return self.whole.changed

    @property
    def worse_slices(self) -> tuple[Slice, ...]:
        """Slices where the new model is worse, and not by chance.

        Each slice is a test of its own, so that p is multiplied by how many are left (Holm 1979).
        """
        judged = [one for one in self.slices if one.chance is not None]
        found = []
        ordered = sorted(judged, key=lambda one: one.chance or 0.0)
        for left, one in zip(range(len(ordered), 0, -1), ordered, strict=True):
            if (one.chance or 0.0) * left >= LEVEL:
                break
            if _is_worse(one):
                found.append(one)
        return tuple(found)

    @property
    def worse(self) -> bool:
        """Whether the new model is worse, on all rows or on a slice, and not by chance."""
        chance = self.whole.chance
        by_chance = chance is None or chance >= LEVEL
        return (not by_chance and _is_worse(self.whole)) or bool(self.worse_slices)

    def report(self) -> Report:
        """Build what is shown, on every face."""
        shown = [(one.where, _change(self.verb, one)) for one in self.mistakes[:SHOWN]]
        sections = [
            said(self._headline(), self._headline()),
            table(_cells(self.verb, [self.whole, *self.slices])),
            self._measured(),
            listed(self._shown_as(), shown),
            notes(self.notes),
        ]
        heading = f"{code(self.new)} compared with {code(self.old)}"
        title = f"{self.new} compared with {self.old}"
        return Report(title, sections, heading, exit=int(self.worse))

    def _headline(self) -> str:
        whole = self.whole
        if self.verb == "embed":
            return (
                f"{self.new} compared with {self.old} on {self.table}: "
                f"{_percent(whole.changed)} of the nearest texts are others"
            )
        if whole.accuracy is None or whole.chance is None:
            return (
                f"{self.new} compared with {self.old} on {self.table}: "
                f"{_percent(whole.changed)} of the labels flipped"
            )
        if self.worse:
            word = "worse than"
            if whole.chance >= LEVEL or not _is_worse(whole):
                word = f"worse on {', '.join(s.name for s in self.worse_slices)} than"
        elif whole.chance < LEVEL:
            word = "better than"
        else:
            word = "not known to be worse or better than"
        old, new = whole.accuracy
        became = f"{_percent(old)} right became {_percent(new)} (p {whole.chance:.2g})"
        return f"{self.new} is {word} {self.old} on {self.table}: {became}"

    def _measured(self) -> Section:
        """The measures of classes but the accuracy, which the headline says."""
        found = ", ".join(
            f"{CLASS_MEASURES[key].title} {old:.3f} became {new:.3f}"
            for key, (old, new) in self.whole.measures.items()
            if key != "accuracy"
        )
        return said(found, found) if found else Section()

    def _shown_as(self) -> str:
        if self.verb == "embed":
            return "texts whose neighbours changed most:"
        return "surest new mistakes:" if self.whole.accuracy else "surest labels that flipped:"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain words and numbers, which `json.dumps` takes."""
        more = {"worse": self.worse, "worse_slices": [one.name for one in self.worse_slices]}
        return super().to_dict() | more


def _is_worse(one: Slice) -> bool:
    return one.only is not None and one.only[0] > one.only[1]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _cells(verb: Verb, slices: list[Slice]) -> list[list[str | Cell]]:
    """The head and the rows of the table of slices."""
    judged = slices[0].accuracy is not None
    more = ["right, old", "new", "p", "ECE, old", "new"] if judged else []
    found: list[list[str | Cell]] = [
        ["", "rows", "flipped" if verb == "classify" else "others", *more]
    ]
    for one in slices:
        changed = Cell(_percent(one.changed), one.changed)
        found.append([one.name, f"{one.rows:,}", changed, *(_judged(one) if judged else [])])
    return found


def _judged(one: Slice) -> list[str]:
    """The cells of a slice whose right labels are known."""
    assert one.accuracy is not None and one.chance is not None and one.calibration is not None
    errors = ["none" if error is None else f"{error:.3f}" for error in one.calibration]
    return [*map(_percent, one.accuracy), f"{one.chance:.2g}", *errors]


def _change(verb: Verb, one: Changed) -> str:
    text = one.text if isinstance(one.text, str) else " | ".join(one.text)
    shown = repr(text if len(text) <= 60 else text[:57] + "...")
    if verb == "embed":
        lost = _percent(one.score)
        return f"{shown}: {lost} others; nearest was {one.old[:40]!r}, is {one.new[:40]!r}"
    return f"{shown}: {one.old!r} became {one.new!r} ({one.score:.2f})"
