"""Measures the labels that a classification head gives to the rows of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import mul

import torch
from torch import Tensor

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, Remedy
from roberta_hub.evaluation.records import Evaluation, Group
from roberta_hub.evaluation.tasks import Asked, at_rows, check_finite
from roberta_hub.inference.classify import Prediction
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.measures.calibration import calibration_error, log_loss, reliability_bins
from roberta_hub.measures.classes import REFUSED, class_measures
from roberta_hub.measures.counts import (
    Counts,
    all_right,
    count_labels,
    f1,
    precision_recall_f1,
    whole,
)
from roberta_hub.measures.intervals import effective_rows, share_interval
from roberta_hub.measures.refusals import CoveragePoint, auroc, coverage_curve
from roberta_hub.rows.columns import find_columns, weight_column
from roberta_hub.rows.formats import row_count
from roberta_hub.rows.labels import (
    Held,
    KnownLabels,
    KnownRows,
    counted_weight,
    shares_words,
    top_class,
)
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.rows.tables import Table
from roberta_hub.settings import REJECTED
from roberta_hub.train.data.sentences import LabelledText

_LISTED = 10
"""Labels that an error lists."""
OF_LABELS = Remedy(
    "labels={'its label': \"the head's\"} says which is which",
    "--labels ITS=OURS,... says which is which",
)


@dataclass(frozen=True)
class Columns:
    """Which columns of a table hold the texts, and which the right answers."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join((*self.texts, *self.labels))


def columns_of(table: Table, asked: Asked) -> Columns:
    """Find the columns with the texts and with the right answers."""
    weights = () if asked.weight is None else (weight_column(table, asked.weight),)
    texts, labels = find_columns(table, asked.text, asked.label, weights)
    return Columns(texts, labels)


def labels(asked: Asked, table: Table, columns: Columns) -> Evaluation:
    """Measure a classification head on a table of texts with their right labels."""
    asked.takes("labels", "text", "label", "labels", "head", "weight")
    roberta = asked.roberta
    head = asked.head_of("classification", "pair" if len(columns.texts) > 1 else "one")
    known = roberta.head_labels(head)
    if len(known) == 1 or roberta.kinds.get(head) == "regression":
        raise InputError(
            f"head {head!r} gives a number, and {table.name} has labels",
            remedy=Remedy(
                "kind='scores' correlates it with numbers", "--kind scores correlates it with them"
            ),
        )
    names = KnownLabels({*known, *asked.labels}, roberta.kinds.get(head) == "multi_label")
    left = LeftOut()
    found = names.rows(table, columns.texts, columns.labels, left)
    several = names.several or found.held == "flags"
    rows = _weighted(found, asked, left)
    left.check(rows, table.name)
    refuses = not several and may_refuse(roberta, head)
    unknown = _check_known(rows, known, head, table.name, refuses=refuses)
    texts, where = [row.text for row in rows], [row.where for row in rows]
    with at_rows(where):
        answers = roberta.classify(
            texts, head, multi_label=True if several else None, **asked.options
        )
    check_finite([sum(answer.scores.values()) for answer in answers], where)
    measured = _several(rows, answers, known) if several else _one(rows, answers, known)
    numbers, groups, right = measured
    curve: tuple[CoveragePoint, ...] = ()
    if refuses:
        more, curve = _refusals(rows, answers, known)
        numbers = {**numbers, **more}
    what = "labelled pairs" if len(columns.texts) == 2 else "labelled texts"
    return Evaluation(
        model=asked.name,
        task=table.name,
        kind="labels",
        verb="classify",
        how=f"head {head}" + (", several labels" if several else ""),
        shape=f"{what} ({columns})",
        rows=len(rows),
        numbers=numbers,
        interval=share_interval(right, effective_rows([row.weight for row in rows])),
        groups=groups,
        notes=(
            *left.counted(),
            *found.notes,
            *about_shares(rows, found.held, columns),
            *asked.about_weight(),
            *unknown,
            *asked.known(texts),
        ),
        curve=curve,
    )


def _weighted(found: KnownRows, asked: Asked, left: LeftOut) -> list[LabelledText]:
    """Read the rows' weights, and call their labels as the head does."""
    rows = []
    for row, text, own, shares in found.rows:
        if weight := counted_weight(row, asked.weight, left):
            named = Counter[str]()
            for name, share in shares:
                named[asked.labels.get(name, name)] += share  # type: ignore[assignment]
            given = tuple(sorted(named.items())) if named else ()
            ours = (top_class(given),) if given else tuple(asked.labels.get(n, n) for n in own)
            given = given if len(given) > 1 else ()
            rows.append(LabelledText(text, ours, row.where, shares=given, weight=weight))
    return rows


def about_shares(rows: Sequence[LabelledText], held: Held, columns: Columns) -> tuple[str, ...]:
    """Note that labels are read as shares of classes, or as votes."""
    if held not in ("shares", "votes"):
        return ()
    several = sum(bool(row.shares) for row in rows)
    return (shares_words(held, ", ".join(columns.labels), several, len(rows), "counted"),)


# ---- labels that a head does not know ----


def may_refuse(roberta: RobertaHubInterface, head: str) -> bool:
    """Tell whether a head may refuse to answer; refuse one whose label would read as a refusal."""
    refuses = roberta._heads.reject_below(head) is not None
    if refuses and REJECTED in roberta.head_labels(head):
        raise InputError(
            f"head {head!r} has reject_below and a label {REJECTED!r}, which is what reports call "
            "a refused text; give the label another name in roberta.labels[head]"
        )
    return refuses


def unknown_labels(rows: Sequence[LabelledText], known: Collection[str]) -> Counter[str]:
    """Count the labels that are not known."""
    return Counter(name for row in rows for name in row.amounts if name not in known)


def out_of_scope(rows: Sequence[LabelledText], unknown: Counter[str], whom: str) -> str:
    """Say how many rows have labels that nobody could give: to refuse those is right."""
    outside = sum(not unknown.keys().isdisjoint(row.amounts) for row in rows)
    return f"{row_count(outside)} out of scope, with labels that {whom}: {_shown(unknown)}"


def _shown(unknown: Counter[str]) -> str:
    shown = [f"{short_repr(name)} ({count:,})" for name, count in unknown.items()]
    more = f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
    return ", ".join(shown[:_LISTED]) + more


def _check_known(
    rows: Sequence[LabelledText], known: Sequence[str], head: str, task: str, *, refuses: bool
) -> tuple[str, ...]:
    """Refuse labels that the head cannot give: its answers would all be wrong.

    Of a head that may refuse an answer a note says so, unless it knows none of them.
    """
    unknown = unknown_labels(rows, known)
    if not unknown:
        return ()
    if refuses and any(name in known for row in rows for name in row.amounts):
        return (out_of_scope(rows, unknown, "the head does not know"),)
    own = ", ".join(short_repr(name, 40) for name in known[: 2 * _LISTED])
    blank = "; -1 mostly means that nobody knows the label: leave those rows out"
    raise InputError(
        f"{task} has labels that head {head!r} does not know: {_shown(unknown)}; it knows {own}"
        + (", ..." if len(known) > 2 * _LISTED else "")
        + (blank if "-1" in unknown else ""),
        remedy=OF_LABELS,
    )


# ---- measures ----


def given_labels(answer: Prediction) -> set[str]:
    """Return the label of an answer, or that it is refused; of several labels all that apply."""
    return {answer.label or REJECTED} if answer.labels is None else {*answer.labels}


def right_share(row: LabelledText, answer: Prediction, scope: Collection[str]) -> float:
    """Tell how far an answer is right: 0 or 1, or the share that its class has of the row.

    To refuse labels out of scope is right, those that the head does not know.

    Example:
        >>> row = LabelledText("So so.", ("good",), "x.csv:2", shares=(("bad", 0.4), ("good", 0.6)))
        >>> answer = Prediction.of(["good", "bad"], [0.2, 0.8])
        >>> right_share(row, answer, ["good", "bad"])
        0.4
        >>> right_share(row, answer.refuse(0.1, below=0.5), ["bad"])
        0.6
    """
    shares = dict(row.shares) or dict.fromkeys(row.labels, 1.0)
    if answer.labels is not None or (not row.shares and len(row.labels) != 1):
        return float(given_labels(answer) == {*row.labels})
    if answer.label is None:
        return sum(share for name, share in shares.items() if name not in scope)
    return shares.get(answer.label, 0.0)


@dataclass(frozen=True)
class Parts:
    """Rows as parts of rows: one for each of a row's classes, with the answer to it."""

    wanted: Tensor
    """Numbers of classes, (n,)."""
    answered: Tensor
    amounts: Tensor | None
    """How much each part counts; None: each is a whole row."""
    names: dict[int, str]
    """The classes by their numbers; all labels out of scope are one."""

    @classmethod
    def of(cls, rows: Sequence[LabelledText], given: Sequence[str], scope: Sequence[str]) -> Parts:
        """Take rows apart; all labels out of scope are one class, which a refusal answers."""
        parts = [
            (label if label in scope else REJECTED, answer, amount)
            for row, answer in zip(rows, given, strict=True)
            for label, amount in row.amounts.items()
        ]
        wanted, answered, amounts = zip(*parts, strict=True)
        return cls.named(wanted, answered, amounts, scope)

    @classmethod
    def named(
        cls,
        wanted: Sequence[str],
        answered: Sequence[str],
        amounts: Sequence[float],
        names: Sequence[str],
    ) -> Parts:
        """Number the classes in the order of their names, and a refusal as one if it is wanted."""
        none = len(names) if REJECTED in wanted else REFUSED
        place = {REJECTED: none, **{name: i for i, name in enumerate(names)}}
        ours, theirs = (torch.tensor([place[n] for n in own]) for own in (wanted, answered))
        whole_rows = all(amount == 1 for amount in amounts)
        counted = None if whole_rows else torch.tensor(amounts, dtype=torch.float64)
        return cls(ours, theirs, counted, {none: REJECTED, **dict(enumerate(names))})

    def measures(self) -> dict[str, float]:
        """Compute the numbers of `CLASS_MEASURES`."""
        return class_measures(self.answered, self.wanted, self.amounts)

    def majority(self) -> float:
        """Return the share of the most frequent class."""
        sizes = self.wanted.bincount(self.amounts).double()
        return float(sizes.max() / sizes.sum())

    def counts(self) -> Counts:
        """Count what is right, missed and wrong of each class."""
        sets = [[{self.names[k]} for k in own.tolist()] for own in (self.wanted, self.answered)]
        weights = None if self.amounts is None else self.amounts.tolist()
        return count_labels(sets[0], sets[1], weights=weights)


Measured = tuple[dict[str, float | None], tuple[Group, ...], float]
"""Numbers, those of each label, and the share of rows that are right."""


def _one(
    rows: Sequence[LabelledText], found: Sequence[Prediction], known: Sequence[str]
) -> Measured:
    """Measure labels that exclude each other; to refuse what is out of scope is right."""
    parts = Parts.of(rows, [each.label or REJECTED for each in found], known)
    measures, counts = parts.measures(), parts.counts()
    given = [(row, each) for row, each in zip(rows, found, strict=True) if not each.rejected]
    bins = reliability_bins(
        [each.score for _, each in given],
        [right_share(row, each, known) for row, each in given],
        [row.weight for row, _ in given],
    )
    inside = [
        (each.scores[label], amount)
        for row, each in zip(rows, found, strict=True)
        for label, amount in row.amounts.items()
        if label in each.scores
    ]
    numbers: dict[str, float | None] = {
        **measures,
        "f1_micro": measures["accuracy"],
        "ece": calibration_error(bins) if bins else None,
        "log_loss": log_loss([p for p, _ in inside], [amount for _, amount in inside]),
        "majority": parts.majority(),
    }
    outside = REJECTED not in known and any(counts.of(REJECTED))
    groups = [*known, REJECTED] if outside else known
    return numbers, label_groups(counts, groups), measures["accuracy"]


def _refusals(
    rows: Sequence[LabelledText], found: Sequence[Prediction], known: Sequence[str]
) -> tuple[dict[str, float | None], tuple[CoveragePoint, ...]]:
    """Measure what a head refuses: of the texts with known labels, and of others."""
    weights = [row.weight for row in rows]
    own = [sum(n for label, n in row.amounts.items() if label in known) for row in rows]
    other = [sum(n for label, n in row.amounts.items() if label not in known) for row in rows]
    given = [not each.rejected for each in found]
    hits = [
        row.amounts.get(each.best, 0) / row.weight for row, each in zip(rows, found, strict=True)
    ]
    answered = sum(compress(weights, given))
    right = sum(map(mul, compress(hits, given), compress(weights, given)))
    numbers: dict[str, float | None] = {
        "coverage": sum(compress(own, given)) / sum(own),
        "accuracy_answered": right / answered if answered else None,
    }
    sure = [each.certainty or 0.0 for each in found]
    if any(other):
        kinds = [[(s, n) for s, n in zip(sure, part, strict=True) if n] for part in (own, other)]
        (inside, heavy), (outside, heavy_too) = (zip(*kind, strict=True) for kind in kinds)
        numbers["auroc_out_of_scope"] = auroc(inside, outside, (heavy, heavy_too))
    return numbers, coverage_curve(sure, hits, [each.score for each in found], weights)


def _several(
    rows: Sequence[LabelledText], found: Sequence[Prediction], known: Sequence[str]
) -> Measured:
    """Measure labels of which each row may have any number; `accuracy` is all of them right."""
    wanted, weights = [{*row.labels} for row in rows], [row.weight for row in rows]
    counts = count_labels(wanted, [{*(each.labels or ())} for each in found], weights=weights)
    groups = label_groups(counts, known)
    scores = [each.scores[label] for each in found for label in known]
    truth = [label in own for own in wanted for label in known]
    heavy = [weight for weight in weights for _ in known]
    each_f1 = [group.numbers["f1"] for group in groups if any(counts.of(group.name))]
    share = all_right(counts.rows[:, 1:], weights)
    likely = [p if yes else 1 - p for p, yes in zip(scores, truth, strict=True)]
    numbers: dict[str, float | None] = {
        "accuracy": share,
        "f1_micro": f1(*counts.totals()),
        "f1_macro": sum(each_f1) / len(each_f1) if each_f1 else 0.0,
        "ece": calibration_error(reliability_bins(scores, truth, heavy)),
        "log_loss": log_loss(likely, heavy),
    }
    return numbers, groups, share


def label_groups(counts: Counts, labels: Sequence[str]) -> tuple[Group, ...]:
    """Compute precision, recall and F1 of each label."""
    found = []
    for label in labels:
        right, missed, wrong = counts.of(label)
        numbers = precision_recall_f1(right, missed, wrong)
        found.append(Group("label", label, whole(round(right + missed, 6)), numbers))
    return tuple(found)
