"""Evaluates answers on held-out rows, and compares them with the best constant answer."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from operator import mul
from typing import TypeVar

import torch

from roberta_hub.errors import Remedy
from roberta_hub.inference.classify import Prediction
from roberta_hub.measures.calibration import calibration_error, log_loss, reliability_bins
from roberta_hub.measures.classes import CLASS_MEASURES, class_measures
from roberta_hub.measures.counts import all_right, count_labels, count_text, f1, f1s
from roberta_hub.measures.intervals import (
    Interval,
    bootstrap_interval,
    effective_rows,
    paired_difference_interval,
    share_interval,
)
from roberta_hub.measures.numbers import median, pearson, spearman
from roberta_hub.train.data.sentences import LabelledText
from roberta_hub.train.fitting.scores import EvaluationKind, Mistake, Recall, Scores

Key = TypeVar("Key", bound=Hashable)
MISTAKES_KEPT = 5
"""How many of the surest mistakes are kept."""
IMBALANCE_RATIO = 3
"""Where the largest class has so many times the rows of the smallest, each has its recall."""
LABELS_LISTED = 4
"""Labels of a constant answer that are named."""
FEW_JUDGED_ROWS = 30
"""Fewer judged rows tell a model that is a little better from one that is not at most by luck."""
LOW_RECALL = 0.5
"""A rare class with a recall below this gets advice."""
_BALANCE = Remedy(
    "balance=True finds more of the rare ones, and takes more of the others for them",
    "--balance finds more of the rare ones, and takes more of the others for them",
)


def compute_scores(
    task: str,
    rows: Sequence[LabelledText],
    answers: Sequence[Prediction],
    learnt: Mapping[str, int],
    how: EvaluationKind = "held out",
    *,
    balanced: bool = False,
    optimism: float = 0.0,
) -> Scores:
    """Measure answers, and the constant answer that reaches most on the same rows.

    Example:
        >>> rows = [LabelledText("fine", ("good",), "1"), LabelledText("dull", ("bad",), "2")]
        >>> answers = [Prediction.of(["good", "bad"], [p, 1 - p]) for p in (0.9, 0.3)]
        >>> found = compute_scores("classification", rows, answers, {"good": 5, "bad": 4})
        >>> found.numbers["accuracy"], found.simplest, found.guess
        (1.0, 0.5, "always 'good'")
    """
    if task == "regression":
        return _regression(rows, [answer.score for answer in answers], how, optimism)
    if task == "multi_label":
        return _multi_label(rows, answers, learnt, how, optimism)
    return _classification(rows, answers, learnt, how, balanced, optimism)


def _classification(
    rows: Sequence[LabelledText],
    answers: Sequence[Prediction],
    learnt: Mapping[str, int],
    how: EvaluationKind,
    balanced: bool,
    optimism: float,
) -> Scores:
    # A row with shares of classes counts as parts of rows: a part for each of its classes.
    parts = [
        (label, answer, amount)
        for row, answer in zip(rows, answers, strict=True)
        for label, amount in row.amounts.items()
    ]
    amounts, weights = [amount for _, _, amount in parts], [row.weight for row in rows]
    effective = effective_rows(weights)
    confusion = _summed(((label, answer.best), amount) for label, answer, amount in parts)
    sizes = _summed((label, amount) for label, _, amount in parts)
    common = _best_constant(sizes, learnt)
    numbers = _class_numbers(parts)
    optimism = min(optimism, numbers["accuracy"])
    numbers["accuracy"] -= optimism
    difference = _over_constant(common, confusion, effective)
    shares = [
        row.amounts.get(answer.best, 0) / row.weight
        for row, answer in zip(rows, answers, strict=True)
    ]
    bins = reliability_bins([answer.score for answer in answers], shares, weights)
    given = [answer.scores.get(label, 0.0) for label, answer, _ in parts]
    recalls = _recalls_of(confusion)
    guess = f"always {common!r}"
    conclusions = [
        compare_with_guess(guess, _without(difference, optimism), effective, how),
        *_never_found(recalls),
    ]
    advice = None
    known = [n for n in learnt.values() if n]
    uneven = max(known) >= IMBALANCE_RATIO * min(known)
    if uneven and not balanced:
        advice = _rarest_missed(recalls, learnt)
    return Scores(
        task="classification",
        how=how,
        count=len(rows),
        numbers={
            **numbers,
            "log loss": log_loss(given, amounts),
            "ECE": calibration_error(bins),
        },
        interval=share_interval(numbers["accuracy"], effective),
        simplest=sizes[common] / sum(weights),
        guess=guess,
        conclusions=(*conclusions, *([advice] if advice else [])),
        recalls=recalls if uneven else {},
        remedy=_BALANCE if advice else None,
        confusion=confusion,
        bins=bins,
        mistakes=_most_confident(_mistakes(rows, answers)),
        optimism=optimism,
        counted=_counted(rows),
    )


def _mistakes(rows: Sequence[LabelledText], answers: Sequence[Prediction]) -> list[Mistake]:
    """List the answers that are not the class of their row, or have less than the largest share."""
    return [
        Mistake(row.text, row.where, row.labels[0], answer.best, answer.score)
        for row, answer in zip(rows, answers, strict=True)
        if row.amounts.get(answer.best, 0) < row.amounts[row.labels[0]]
    ]


def _over_constant(
    common: str, confusion: Mapping[tuple[str, str], float], effective: float
) -> Interval:
    """95 % interval of what the answers' accuracy is above that of one constant answer."""
    each = effective / sum(confusion.values())
    better = sum(n for (label, given), n in confusion.items() if label == given != common)
    worse = sum(n for (label, given), n in confusion.items() if label == common != given)
    return paired_difference_interval(better * each, worse * each, effective)


def _summed(parts: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    """Sum the amounts of each key; those of whole rows stay whole numbers."""
    found: dict[Key, float] = {}
    for key, amount in parts:
        found[key] = found.get(key, 0) + amount
    return found


def _counted(rows: Sequence[LabelledText]) -> tuple[str, ...]:
    """Say how rows count that are more or less than one row of one class."""
    weighted = any(row.weight != 1 for row in rows)
    shared = any(row.shares for row in rows)
    return ("each row counts by its weight",) * weighted + (
        "a row with shares counts as parts of its classes",
    ) * shared


def _class_numbers(parts: Sequence[tuple[str, Prediction, float]]) -> dict[str, float]:
    """Compute what every report tells of classes, by its title."""
    wanted, answered = [label for label, _, _ in parts], [answer.best for _, answer, _ in parts]
    place = {name: i for i, name in enumerate({*wanted, *answered})}
    given, right = (torch.tensor([place[name] for name in own]) for own in (answered, wanted))
    amounts = [amount for _, _, amount in parts]
    weights = None
    if any(amount != 1 for amount in amounts):
        weights = torch.tensor(amounts, dtype=torch.float64)
    found = class_measures(given, right, weights)
    return {CLASS_MEASURES[key].title: number for key, number in found.items()}


def _recalls_of(confusion: Mapping[tuple[str, str], float]) -> dict[str, Recall]:
    counts = _summed((wanted, count) for (wanted, _), count in confusion.items())
    found = {name: Recall(confusion.get((name, name), 0), n) for name, n in counts.items()}
    return dict(sorted(found.items(), key=lambda item: (item[1].share, item[0])))


def _multi_label(
    rows: Sequence[LabelledText],
    answers: Sequence[Prediction],
    learnt: Mapping[str, int],
    how: EvaluationKind,
    optimism: float,
) -> Scores:
    constant = _best_set(rows, learnt)
    labels, weights = [{*row.labels} for row in rows], [row.weight for row in rows]
    counts = count_labels(labels, [labels_of(answer) for answer in answers], weights=weights)
    simple = count_labels(labels, [{*constant}] * len(rows), weights=weights)
    wrong, sure, there, heavy = [], [], [], list[float]()
    for row, answer in zip(rows, answers, strict=True):
        wanted, given = set(row.labels), labels_of(answer)
        for name, p in answer.scores.items():
            sure.append(p)
            there.append(name in wanted)
            heavy.append(row.weight)
            if (name in given) != (name in wanted):
                said = (f"not {name}", name) if name in given else (name, f"not {name}")
                wrong.append(Mistake(row.text, row.where, *said, p if name in given else 1 - p))
    table = torch.cat([counts.rows, simple.rows], 1)
    bins, guess = reliability_bins(sure, there, heavy), f"always {_listed(constant)}"
    optimism = min(optimism, f1(*counts.totals()))
    between = bootstrap_interval(counts.rows, f1s)
    difference = bootstrap_interval(table, lambda means: f1s(means[:, :3]) - f1s(means[:, 3:]))
    recalls = {}
    for name in sorted({*chain.from_iterable(labels)}):
        right, missed, _ = counts.of(name)
        recalls[name] = Recall(right, right + missed)
    recalls = dict(sorted(recalls.items(), key=lambda item: (item[1].share, item[0])))
    sizes = [n for n in learnt.values() if n]
    return Scores(
        task="multi_label",
        how=how,
        count=len(rows),
        numbers={
            "micro-F1": f1(*counts.totals()) - optimism,
            "all labels right": all_right(counts.rows[:, 1:], weights),
            "ECE": calibration_error(bins),
        },
        interval=(max(between[0] - optimism, 0.0), max(between[1] - optimism, 0.0)),
        simplest=f1(*simple.totals()),
        guess=guess,
        conclusions=(
            compare_with_guess(guess, _without(difference, optimism), effective_rows(weights), how),
            *_never_found(recalls),
        ),
        recalls=recalls if max(sizes) >= IMBALANCE_RATIO * min(sizes) else {},
        remedy=None,
        confusion=dict(counts.labels),
        bins=bins,
        mistakes=_most_confident(wrong),
        optimism=optimism,
        counted=_counted(rows),
    )


def labels_of(answer: Prediction) -> set[str]:
    """Return the labels that an answer gives, where each has a probability of its own."""
    return set(answer.labels or ())


def _regression(
    rows: Sequence[LabelledText],
    values: Sequence[float],
    how: EvaluationKind,
    optimism: float,
) -> Scores:
    wanted, weights = [float(row.labels[0]) for row in rows], [row.weight for row in rows]
    middle = median(wanted, weights)  # no other constant has a smaller mean error
    wrong = [
        Mistake(row.text, row.where, f"{right:g}", f"{value:.3g}", abs(value - right))
        for row, right, value in zip(rows, wanted, values, strict=True)
    ]
    simple = [abs(value - middle) for value in wanted]
    each = zip(wrong, simple, weights, strict=True)
    table = torch.tensor([[w * m.score, w * s, w] for m, s, w in each])
    gain = bootstrap_interval(table, lambda means: (means[:, 1] - means[:, 0]) / means[:, 2])
    errors = sum(w * m.score for m, w in zip(wrong, weights, strict=True))
    numbers: dict[str, float | None] = {"mean error": errors / sum(weights) + optimism}
    for name, found in (
        ("Pearson", pearson(wanted, values, weights)),
        ("Spearman", spearman(wanted, values, weights)),
    ):
        if found is not None:
            numbers[name] = found
    guess = f"always the median, {middle:.3g}"
    return Scores(
        task="regression",
        how=how,
        count=len(rows),
        numbers=numbers,
        interval=_without(
            bootstrap_interval(table, lambda means: means[:, 0] / means[:, 2]), -optimism
        ),
        simplest=sum(map(mul, weights, simple)) / sum(weights),
        guess=guess,
        conclusions=(
            compare_with_guess(guess, _without(gain, optimism), effective_rows(weights), how),
        ),
        recalls={},
        remedy=None,
        confusion={},
        bins=(),
        mistakes=_most_confident(wrong),
        optimism=optimism,
        counted=_counted(rows),
    )


def _best_constant(counts: Mapping[str, float], learnt: Mapping[str, int]) -> str:
    """Find the class that is right most often where it is always answered."""
    return min(counts, key=lambda name: (-counts[name], -learnt.get(name, 0), name))


def _best_set(rows: Sequence[LabelledText], learnt: Mapping[str, int]) -> list[str]:
    """Find the labels that reach the highest micro-F1 where they are always answered.

    Of all sets of one size the most frequent labels reach most.
    """
    counts = _summed((name, row.weight) for row in rows for name in row.labels)
    names = sorted({*counts, *learnt}, key=lambda n: (-counts.get(n, 0), -learnt.get(n, 0), n))
    right, total = accumulate(counts.get(name, 0) for name in names), sum(counts.values())
    every = sum(row.weight for row in rows)
    scores = [2 * r / (k * every + total) for k, r in enumerate(right, 1)]
    return names[: scores.index(max(scores)) + 1]


def _listed(names: Sequence[str]) -> str:
    """Write the labels of a constant answer: "'a', 'b' and 'c'"."""
    shown = [repr(name) for name in names[:LABELS_LISTED]]
    if len(names) > LABELS_LISTED:
        shown.append(f"{len(names) - LABELS_LISTED} other labels")
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _without(interval: Interval, optimism: float) -> Interval:
    return interval[0] - optimism, interval[1] - optimism


def _most_confident(wrong: Sequence[Mistake]) -> list[Mistake]:
    return sorted(wrong, key=lambda mistake: -mistake.score)[:MISTAKES_KEPT]


# ---- in words ----


def compare_with_guess(guess: str, gain: Interval, count: float, how: EvaluationKind) -> str:
    """Write whether a model beats the best constant answer, or another baseline."""
    if gain[0] > 0 and how == "may be known":
        return f"better than {guess}, on rows that it may remember"
    if gain[0] > 0:
        return f"better than {guess}"
    if count < FEW_JUDGED_ROWS and gain[1] > 0:
        return f"too few rows to say whether it is better than {guess}"
    return f"not better than {guess}"


def _never_found(recalls: Mapping[str, Recall]) -> list[str]:
    """Say which classes no row of which was found."""
    lost = [(name, recall.count) for name, recall in recalls.items() if not recall.found]
    said = [f"no {name} was found (0 of {count_text(count)})" for name, count in lost[:3]]
    if len(lost) > 3:
        said.append(f"nor was any of {len(lost) - 3} other classes")
    return said


def _rarest_missed(recalls: Mapping[str, Recall], learnt: Mapping[str, int]) -> str | None:
    """Name the rare class that is found least, where that is seldom."""
    largest = max(learnt.values())
    for name, recall in recalls.items():  # lowest first
        if recall.share < LOW_RECALL and learnt.get(name, 0) * IMBALANCE_RATIO <= largest:
            return f"{name} is rare and seldom found ({recall.said()})"
    return None
