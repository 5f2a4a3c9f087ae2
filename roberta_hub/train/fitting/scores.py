"""Holds what answers are worth on rows outside the training, and writes it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from roberta_hub.errors import Remedy, sentence
from roberta_hub.keywords import names_others
from roberta_hub.measures.calibration import Bin
from roberta_hub.measures.counts import count_text
from roberta_hub.measures.intervals import Interval
from roberta_hub.rows.formats import row_count
from roberta_hub.show.column_chart import ChartColumn, ColumnChart
from roberta_hub.show.facts import Facts, Note
from roberta_hub.show.report import Report, Section
from roberta_hub.show.terminal_text import cut
from roberta_hub.terminal import clean
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.fitting.confusions import confusion_display

EvaluationKind = Literal["held out", "cross-validated", "may be known"]
"""How the judged rows were kept out of the training: by a share or table of their own, or in turn;
or not at all, as the starting model may have been trained on them before."""
RECALLS_SHOWN = 8
"""Classes whose recall is listed, lowest first."""
_CLASSES = (
    "Filled: how many answers of that probability are right. Line: how probable the model said "
    "that they are. Below: the probability, and how many answers"
)
_SEVERAL = _CLASSES.replace("answers of that probability are right", "labels that probable apply")


def short_text(text: Text) -> str:
    """Write as much of a text as fits a line of a terminal."""
    parts = (text,) if isinstance(text, str) else text
    return cut(" ".join(" | ".join(parts).split()), 76)


@dataclass(frozen=True)
class Mistake:
    """A judged row that the model answers wrongly."""

    text: Text
    where: str
    wanted: str
    answered: str
    score: float
    """Probability of the answer; of a regression how far it is off."""

    def answer(self, task: str) -> str:
        """Write what was answered, how surely, and what is right."""
        sure = f"off by {self.score:.3g}" if task == "regression" else f"{self.score:.2f} sure"
        width = 28 if task == "tagging" else 20  # a label with its span
        return f"{cut(self.answered, width)} ({sure}), right is {cut(self.wanted, width)}"


@dataclass(frozen=True)
class Recall:
    """How many of a class's rows are found."""

    found: float
    count: float
    """Judged rows of the class; where rows have weights or shares, the sum of those."""

    @property
    def share(self) -> float:
        """The recall: 0 to 1."""
        return self.found / self.count

    def said(self) -> str:
        """Write how many are found of how many.

        Example:
            >>> Recall(1, 4).said()
            '1 of 4'
        """
        return f"{count_text(self.found)} of {count_text(self.count)}"


@names_others
@dataclass(frozen=True)
class Scores:
    """What a model reaches on the judged rows; `how` says how they were kept from it."""

    task: str
    how: EvaluationKind
    count: int
    """Judged rows."""
    numbers: dict[str, float | None]
    """`CLASS_MEASURES`, log loss and ECE; of several labels micro-F1, the share of rows that are
    all right, and ECE; of a regression the mean error, Pearson's and Spearman's correlation; of
    spans micro-F1, precision and recall. The first is the one to look at. None: the model refused
    to answer all judged rows, so that there is no number."""
    interval: Interval
    """95 % confidence interval of the first number."""
    simplest: float
    """The first number of the baseline."""
    guess: str
    """The baseline in words: the label, the set of labels or the number that reaches most where it
    is always answered; of spans those of the training, looked up."""
    conclusions: tuple[str, ...]
    """What the numbers mean, in words; the first says whether the model beats the baseline."""
    recalls: dict[str, Recall]
    """Recall of each class, lowest first, if the largest has three times the smallest's rows."""
    remedy: Remedy | None
    """What helps where a rare class is seldom found."""
    confusion: dict[tuple[str, str], float]
    """Rows by (right class, answer); empty of a regression. Of several labels, and of spans, by
    (label, "right", "missed" or "wrong"). Where rows have weights or shares, sums of those."""
    bins: tuple[Bin, ...]
    """How often answers of about one probability are right; of several labels, how often a label of
    about one probability is there; empty of a regression."""
    mistakes: list[Mistake]
    """The surest wrong answers, surest first."""
    optimism: float = 0.0
    """What the best of several ways gains by luck; the first number and its interval are without
    it."""
    counted: tuple[str, ...] = ()
    """How rows count where they have weights or shares of classes; empty where each counts as one
    row of one class."""

    def summary(self) -> str:
        """Write all of it for a terminal of 80 columns, with what to say in Python."""
        return self._summary(self.remedy.python if self.remedy else "")

    def in_shell(self) -> str:
        """Write all of it as a user of the command knows it."""
        return self._summary(self.remedy.in_shell if self.remedy else "")

    def _summary(self, remedy: str) -> str:
        return str(Report("", [*self.claims(remedy), *self.evidence()]))

    def claims(self, remedy: str) -> list[Section]:
        """Say the numbers and what they mean."""
        lines = [*filter(None, (self.headline(), self.details())), *self.conclusions]
        texts = [*lines[:-1], sentence(lines[-1], None, remedy)]
        return [
            Section([*map(clean, _wrapped(text))], parts=[Note(line)])
            for text, line in zip(texts, lines, strict=True)
        ]

    def evidence(self) -> list[Section]:
        """Show the recalls, how far probabilities hold, the confusions and the mistakes."""
        confusions = confusion_display(self.task, self.confusion)
        table = [clean(line) for part in confusions for line in part.lines()]
        return [
            Section(["", *map(clean, _recalls(self.recalls))] if self.recalls else []),
            Section(parts=[_reliability(self)] if self.bins else []),
            Section(["", *table] if table else [], parts=confusions),
            rows_with_texts(
                "largest errors:" if self.task == "regression" else "surest mistakes:",
                [(wrong.where, wrong.answer(self.task), wrong.text) for wrong in self.mistakes],
            ),
        ]

    def headline(self) -> str:
        """Write the first number with its interval and the baseline's."""
        name, value = next(iter(self.numbers.items()))
        if value is None:
            return f"{name} unknown: no judged row was answered"
        rows = f"on {row_count(self.count)} held out"
        if self.how == "cross-validated":
            rows = f"cross-validated on {row_count(self.count)}"
        if self.how == "may be known":
            rows = f"on {row_count(self.count)} that the model may know"
        low, high = self.interval
        if self.task == "regression":
            between = f"(95 %: {low:.3g} to {high:.3g})"
            return f"{name} {value:.3g} {rows} {between}; {self.guess}: {self.simplest:.3g}"
        between = f"(95 %: {100 * low:.0f} to {100 * high:.0f})"
        simplest = f"{self.guess}: {100 * self.simplest:.1f} %"
        return f"{name} {100 * value:.1f} % {rows} {between}; {simplest}"

    def details(self) -> str:
        """Write the other numbers, and what the first is corrected for."""
        ((first, value), *more) = self.numbers.items()
        lines = [f"{name} {number:.3g}" for name, number in more if number is not None]
        lines += self.counted
        if self.optimism and value is not None:
            measured, points = f"{value - self.optimism:.3g}", f"{self.optimism:.3g}"
            if self.task != "regression":
                measured = f"{100 * (value + self.optimism):.1f} %"
                points = f"{100 * self.optimism:.1f} points"
            why = "the same rows chose the way"
            lines.append(f"{first} is {measured} as measured, less {points} because {why}")
        return ", ".join(lines)


def rows_with_texts(title: str, rows: Sequence[tuple[str, str, Text]]) -> Section:
    """List rows of a table, each with its text."""
    if not rows:
        return Section()
    found = [(where, what, short_text(text)) for where, what, text in rows]
    lines = [line for where, what, text in found for line in (f"  {where}: {what}", f"    {text}")]
    facts = Facts([(where, f"{what}: {text}") for where, what, text in found])
    return Section(["", title, *map(clean, lines)], parts=[Note(title), facts])


def _reliability(scores: Scores) -> ColumnChart:
    """Draw how often answers of about one probability are right (Guo et al. 2017, figure 1)."""
    columns = [
        ChartColumn(f"{one.low:.1f}–{one.high:.1f}", one.right, one.score, count_text(one.count))
        for one in scores.bins
    ]
    return ColumnChart(columns, _SEVERAL if scores.task == "multi_label" else _CLASSES)


def _recalls(recalls: dict[str, Recall]) -> list[str]:
    """Write a line for each class, the lowest recall first."""
    lines = ["found of each class (recall):"]
    for name, recall in list(recalls.items())[:RECALLS_SHOWN]:
        lines.append(f"  {recall.share:5.2f}  {name[:40]} ({recall.said()})")
    if len(recalls) > RECALLS_SHOWN:
        lines.append(f"  and {len(recalls) - RECALLS_SHOWN} more classes, found more often")
    return lines


def _wrapped(line: str) -> list[str]:
    whole = line.replace(" %", "\u00a0%")  # a number and its sign stay together
    found = textwrap.wrap(whole, 80, break_on_hyphens=False, break_long_words=False)
    return [part.replace("\u00a0%", " %") for part in found]
