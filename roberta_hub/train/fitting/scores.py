"""Holds what answers are worth on rows that were not learnt, and writes it."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from roberta_hub.errors import Remedy, sentence
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.fitting.measures import Bin, Interval
from roberta_hub.train.fitting.split import counted

How = Literal["held out", "cross-validated"]
"""How the judged rows were kept from being learnt: by a share or table of their own, or in turn."""
SHOWN = 8
"""Classes of a confusion table; with more the most frequent confusions are listed."""


@dataclass(frozen=True)
class Mistake:
    """A judged row that the model answers wrongly."""

    text: Text
    where: str
    wanted: str
    answered: str
    score: float
    """Probability of the answer; of a regression how far it is off."""


@dataclass(frozen=True)
class Recall:
    """How many of a class's rows are found."""

    found: int
    count: int
    """Judged rows of the class."""

    @property
    def share(self) -> float:
        """The recall: 0 to 1."""
        return self.found / self.count


@dataclass(frozen=True)
class Scores:
    """What a model reaches on the judged rows, which it has not learnt."""

    task: str
    how: How
    count: int
    """Judged rows."""
    numbers: dict[str, float]
    """Accuracy, macro-F1, log loss and ECE; of several labels micro-F1, the share of rows that are
    all right, and ECE; of a regression the mean error, Pearson's and Spearman's correlation. The
    first is the one to look at."""
    interval: Interval
    """Where the first number lies by 95 %."""
    simplest: float
    """The first number of the simplest guess."""
    guess: str
    """That guess in words: the most frequent label, or the mean."""
    conclusions: tuple[str, ...]
    """What the numbers mean, in words; whether the model is better than the guess comes first."""
    recalls: dict[str, Recall]
    """Of each class, lowest first, where the largest has three times the rows of the smallest."""
    remedy: Remedy | None
    """What helps where a rare class is seldom found."""
    confusion: dict[tuple[str, str], int]
    """Rows by (right class, answer); empty of a regression. Of several labels by (label, "right",
    "missed" or "wrong")."""
    bins: tuple[Bin, ...]
    """How often answers of about one probability are right; of several labels, how often a label of
    about one probability is there; empty of a regression."""
    mistakes: list[Mistake]
    """The surest wrong answers, surest first."""
    optimism: float = 0.0
    """What the best of several ways gains by luck; the first number and its interval are without
    it."""

    def summary(self) -> str:
        """Write all of it for a terminal of 80 columns, with what to say in Python."""
        return self._summary(self.remedy.python if self.remedy else "")

    def in_shell(self) -> str:
        """Write all of it as a user of the command knows it."""
        return self._summary(self.remedy.in_shell if self.remedy else "")

    def _summary(self, remedy: str) -> str:
        lines = [*_wrapped(self.headline()), *_wrapped(self.details())]
        for i, said in enumerate(self.conclusions):
            last = i == len(self.conclusions) - 1
            lines += _wrapped(sentence(said, None, remedy if last else ""))
        if self.recalls:
            lines += ["", *_recalls(self.recalls)]
        if table := self.table():
            lines += ["", *table]
        if self.mistakes:
            lines += ["", "largest errors:" if self.task == "regression" else "surest mistakes:"]
            for wrong in self.mistakes:
                lines.append(f"  {_answer(wrong, self.task)}")
                lines.append(f"    {_short(wrong.text)}")
        return "\n".join(lines)

    def headline(self) -> str:
        """Write the first number with its interval, beside that of the simplest guess."""
        name, value = next(iter(self.numbers.items()))
        rows = f"on {counted(self.count)} held out"
        if self.how == "cross-validated":
            rows = f"cross-validated on {counted(self.count)}"
        low, high = self.interval
        if self.task == "regression":
            between = f"(95 %: {low:.3g} to {high:.3g})"
            return f"{name} {value:.3g} {rows} {between}; {self.guess}: {self.simplest:.3g}"
        between = f"(95 %: {100 * low:.0f} to {100 * high:.0f})"
        simplest = f"{self.guess}: {100 * self.simplest:.1f} %"
        return f"{name} {100 * value:.1f} % {rows} {between}; {simplest}"

    def details(self) -> str:
        """Write the other numbers, and what the first is corrected for."""
        (_, *more) = self.numbers.items()
        lines = [f"{name} {value:.3g}" for name, value in more]
        if self.optimism:
            points = f"{self.optimism:.3g}"
            if self.task != "regression":
                points = f"{100 * self.optimism:.1f} points"
            lines.append(f"{points} taken off for the choice among ways")
        return ", ".join(lines)

    def table(self) -> list[str]:
        """Write the confusions: a table, or the most frequent ones of many classes."""
        if self.task == "multi_label":
            return _of_labels(self.confusion)
        names = sorted({name for pair in self.confusion for name in pair})
        if len(names) <= SHOWN:
            return _square(names, self.confusion)
        wrong = Counter({pair: n for pair, n in self.confusion.items() if pair[0] != pair[1]})
        lines = [f"  {a[:30]} taken for {b[:30]}: {n}" for (a, b), n in wrong.most_common(10)]
        return ["most often confused:", *lines] if lines else []


# ---- as text ----


def _square(names: Sequence[str], confusion: dict[tuple[str, str], int]) -> list[str]:
    """Write a table with a row for each right class and a column for each answer."""
    if not names:
        return []
    widths = [max(min(len(name), 12), 6) for name in names]
    left = max(min(max(map(len, names)), 20), len("right"))
    header = "  ".join(f"{name[:12]:>{w}}" for name, w in zip(names, widths, strict=True))
    lines = [f"  {'right':<{left}}  answered", f"  {'':<{left}}  {header}"]
    for right in names:
        cells = (f"{confusion.get((right, a), 0):>{w}}" for a, w in zip(names, widths, strict=True))
        lines.append(f"  {right[:20]:<{left}}  {'  '.join(cells)}")
    return lines


def _of_labels(confusion: dict[tuple[str, str], int]) -> list[str]:
    names = sorted({name for name, _ in confusion})
    kinds = ("right", "missed", "wrong")
    lines = [f"  {'':<20}  {'  '.join(f'{kind:>6}' for kind in kinds)}"]
    for name in names[:20]:
        cells = "  ".join(f"{confusion.get((name, kind), 0):>6}" for kind in kinds)
        lines.append(f"  {name[:20]:<20}  {cells}")
    return lines


def _answer(wrong: Mistake, task: str) -> str:
    sure = f"off by {wrong.score:.3g}" if task == "regression" else f"{wrong.score:.2f} sure"
    return f"{wrong.where}: {wrong.answered[:20]} ({sure}), right is {wrong.wanted[:20]}"


def _short(text: Text, width: int = 74) -> str:
    parts = (text,) if isinstance(text, str) else text
    line = " ".join(" | ".join(parts).split())
    return line if len(line) <= width else line[: width - 3] + "..."


def _recalls(recalls: dict[str, Recall]) -> list[str]:
    """Write a line for each class, the lowest recall first."""
    lines = ["found of each class (recall):"]
    for name, recall in list(recalls.items())[:SHOWN]:
        lines.append(f"  {recall.share:5.2f}  {name[:40]} ({recall.found} of {recall.count})")
    if len(recalls) > SHOWN:
        lines.append(f"  and {len(recalls) - SHOWN} more classes, found more often")
    return lines


def _wrapped(line: str) -> list[str]:
    whole = line.replace(" %", "\u00a0%")  # a number and its sign stay together
    found = textwrap.wrap(whole, 80, break_on_hyphens=False, break_long_words=False)
    return [part.replace("\u00a0%", " %") for part in found]
