"""Measures a trained model on the rows that were held out, beside the simplest guess."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from roberta_hub.inference.classify import Prediction
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.fitting.examples import Examples
from roberta_hub.train.fitting.split import counted

MISTAKES = 5
"""How many of the surest mistakes are kept."""
SHOWN = 8
"""Classes of a confusion table; with more the most frequent confusions are listed."""


@dataclass(frozen=True)
class Mistake:
    """A held-out row that the model answers wrongly."""

    text: Text
    where: str
    wanted: str
    answered: str
    score: float
    """Probability of the answer; of a regression how far it is off."""


@dataclass(frozen=True)
class Scores:
    """What a model reaches on the held-out rows."""

    task: str
    count: int
    """Held-out rows."""
    numbers: dict[str, float]
    """Accuracy; of several labels F1 and the share of rows that are all right; of a regression the
    mean error and Pearson's correlation. The first is the one to look at."""
    simplest: float
    """The first number of the simplest guess."""
    guess: str
    """That guess in words: the most frequent label, or the mean."""
    confusion: dict[tuple[str, str], int]
    """Rows by (right class, answer); empty of a regression. Of several labels by (label, "right",
    "missed" or "wrong")."""
    mistakes: list[Mistake]
    """The surest wrong answers, surest first."""

    def summary(self) -> str:
        """Write the numbers, the confusions and the mistakes for a terminal of 80 columns."""
        lines = [self.headline()]
        if table := self.table():
            lines += ["", *table]
        if self.mistakes:
            lines += ["", "largest errors:" if self.task == "regression" else "surest mistakes:"]
            for wrong in self.mistakes:
                lines.append(f"  {_answer(wrong, self.task)}")
                lines.append(f"    {_short(wrong.text)}")
        return "\n".join(lines)

    def headline(self) -> str:
        """Write the first number beside that of the simplest guess."""
        (name, value), *more = self.numbers.items()
        others = "".join(f", {key} {number:.3g}" for key, number in more)
        rows = f"{counted(self.count)} held out"
        if self.task == "regression":
            return f"{name} {value:.3g}{others} on {rows}; {self.guess}: {self.simplest:.3g}"
        between = ""
        if name == "accuracy":
            low, high = _interval(value, self.count)
            between = f" (95 %: {100 * low:.0f} to {100 * high:.0f})"
        simplest = f"{self.guess}: {100 * self.simplest:.1f} %"
        return f"{name} {100 * value:.1f} %{others} on {rows}{between}; {simplest}"

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


def measure(roberta: RobertaHubInterface, examples: Examples) -> Scores:
    """Ask the model about every held-out row.

    Texts are cut at the model's limit, as `classify` cuts them; training may cut shorter.
    """
    texts = [example.text for example in examples.valid]
    several = examples.task == "multi_label"
    answers = roberta.classify(texts, truncate=True, multi_label=several, progress=False)
    if examples.task == "regression":
        return _regression(examples, [answer.score for answer in answers])
    if several:
        return _multi_label(examples, answers)
    return _classification(examples, answers)


def _classification(examples: Examples, answers: Sequence[Prediction]) -> Scores:
    valid = examples.valid
    confusion = Counter((e.labels[0], a.label) for e, a in zip(valid, answers, strict=True))
    common = Counter(e.labels[0] for e in examples.train).most_common(1)[0][0]
    wrong = [
        Mistake(e.text, e.where, e.labels[0], a.label, a.score)
        for e, a in zip(valid, answers, strict=True)
        if e.labels[0] != a.label
    ]
    return Scores(
        examples.task,
        len(valid),
        {"accuracy": sum(n for (a, b), n in confusion.items() if a == b) / len(valid)},
        sum(e.labels[0] == common for e in valid) / len(valid),
        f"always {common!r}",
        dict(confusion),
        _surest(wrong),
    )


def _multi_label(examples: Examples, answers: Sequence[Prediction]) -> Scores:
    valid, confusion, wrong = examples.valid, Counter[tuple[str, str]](), []
    exact = 0
    for example, answer in zip(valid, answers, strict=True):
        given = {name for name, score in answer.scores.items() if score >= 0.5}
        exact += given == set(example.labels)
        _count(confusion, set(example.labels), given)
        for name, score in answer.scores.items():
            if (name in given) != (name in example.labels):
                wanted, said = f"not {name}", name
                sure = score if name in given else 1 - score
                if name in example.labels:
                    wanted, said = name, f"not {name}"
                wrong.append(Mistake(example.text, example.where, wanted, said, sure))
    common = Counter(name for e in examples.train for name in e.labels).most_common(1)[0][0]
    simple = Counter[tuple[str, str]]()
    for example in valid:
        _count(simple, set(example.labels), {common})
    return Scores(
        examples.task,
        len(valid),
        {"F1": _f1(confusion), "all labels right": exact / len(valid)},
        _f1(simple),
        f"always {common!r}",
        dict(confusion),
        _surest(wrong),
    )


def _count(confusion: Counter[tuple[str, str]], wanted: set[str], given: set[str]) -> None:
    for kind, names in (
        ("right", wanted & given),
        ("missed", wanted - given),
        ("wrong", given - wanted),
    ):
        confusion.update((name, kind) for name in names)


def _f1(confusion: Counter[tuple[str, str]]) -> float:
    kinds = Counter[str]()
    for (_, kind), count in confusion.items():
        kinds[kind] += count
    return 2 * kinds["right"] / max(2 * kinds["right"] + kinds["missed"] + kinds["wrong"], 1)


def _regression(examples: Examples, values: Sequence[float]) -> Scores:
    wanted = [float(e.labels[0]) for e in examples.valid]
    learnt = [float(e.labels[0]) for e in examples.train]
    mean = sum(learnt) / len(learnt)
    wrong = [
        Mistake(e.text, e.where, f"{right:g}", f"{value:.3g}", abs(value - right))
        for e, right, value in zip(examples.valid, wanted, values, strict=True)
    ]
    numbers = {"mean error": sum(m.score for m in wrong) / len(wrong)}
    if (r := _pearson(wanted, values)) is not None:
        numbers["correlation"] = r
    return Scores(
        examples.task,
        len(wanted),
        numbers,
        sum(abs(value - mean) for value in wanted) / len(wanted),
        f"always the mean, {mean:.3g}",
        {},
        _surest(wrong),
    )


def _pearson(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Compute Pearson's correlation; None where one of both is constant."""
    one, other = (sum(values) / len(values) for values in (a, b))
    spread = math.sqrt(sum((x - one) ** 2 for x in a) * sum((y - other) ** 2 for y in b))
    if not spread:
        return None
    return sum((x - one) * (y - other) for x, y in zip(a, b, strict=True)) / spread


def _interval(share: float, count: int) -> tuple[float, float]:
    """Tell where the share of right answers lies by 95 %, from so many of them (Wilson 1927)."""
    square = 1.96**2 / count
    middle = (share + square / 2) / (1 + square)
    around = math.sqrt(square * (share * (1 - share) + square / 4)) / (1 + square)
    return middle - around, middle + around


def _surest(wrong: Sequence[Mistake]) -> list[Mistake]:
    return sorted(wrong, key=lambda mistake: -mistake.score)[:MISTAKES]


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
    return f"{wrong.where}: {wrong.answered[:30]} ({sure}), right is {wrong.wanted[:30]}"


def _short(text: Text, width: int = 74) -> str:
    parts = (text,) if isinstance(text, str) else text
    line = " ".join(" | ".join(parts).split())
    return line if len(line) <= width else line[: width - 3] + "..."
