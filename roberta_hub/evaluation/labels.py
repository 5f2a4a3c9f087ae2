"""Measures the labels that a classification head gives to the rows of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, Remedy
from roberta_hub.evaluation.records import Evaluation, Group
from roberta_hub.evaluation.tasks import Asked, at_rows, check_finite
from roberta_hub.inference.classify import Prediction
from roberta_hub.measures.calibration import calibration_error, log_loss, reliability_bins
from roberta_hub.measures.classes import REFUSED, class_measures
from roberta_hub.measures.counts import Counts, all_right, count_labels, f1, precision_recall_f1
from roberta_hub.measures.intervals import share_interval
from roberta_hub.measures.refusals import CoveragePoint, auroc, coverage_curve
from roberta_hub.rows.columns import find_columns
from roberta_hub.rows.formats import row_count
from roberta_hub.rows.labels import KnownLabels
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.rows.tables import Table
from roberta_hub.settings import REJECTED
from roberta_hub.text.tokenizer import Text

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
    texts, labels = find_columns(table, asked.text, asked.label)
    return Columns(texts, labels)


def labels(asked: Asked, table: Table, columns: Columns) -> Evaluation:
    """Measure a classification head on a table of texts with their right labels."""
    asked.takes("labels", "text", "label", "labels", "head")
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
    several = roberta.kinds.get(head) == "multi_label" or len(columns.labels) > 1
    names = KnownLabels({*known, *asked.labels}, several)
    rows, left = _Rows([], [], []), LeftOut()
    for row, text, own in names.rows(table, columns.texts, columns.labels, left):
        rows.texts.append(text)
        rows.where.append(row.where)
        rows.right.append(tuple(asked.labels.get(label, label) for label in own))
    left.check(rows.texts, table.name)
    refuses = not several and roberta._heads.reject_below(head) is not None
    unknown = _check_known(rows, known, head, table.name, refuses=refuses)
    with at_rows(rows.where):
        found = roberta.classify(
            rows.texts, head, multi_label=True if several else None, **asked.options
        )
    check_finite([sum(answer.scores.values()) for answer in found], rows.where)
    measured = _several(rows.right, found, known) if several else _one(rows.right, found, known)
    numbers, groups, right = measured
    curve: tuple[CoveragePoint, ...] = ()
    if refuses:
        more, curve = _refusals(rows.right, found, known)
        numbers = {**numbers, **more}
    what = "labelled pairs" if len(columns.texts) == 2 else "labelled texts"
    return Evaluation(
        model=asked.name,
        task=table.name,
        kind="labels",
        verb="classify",
        how=f"head {head}" + (", several labels" if several else ""),
        shape=f"{what} ({columns})",
        rows=len(rows.texts),
        numbers=numbers,
        interval=share_interval(right, len(rows.texts)),
        groups=groups,
        notes=(*left.counted(), *unknown, *asked.known(rows.texts)),
        curve=curve,
    )


@dataclass(frozen=True)
class _Rows:
    texts: list[Text]
    where: list[str]
    right: list[tuple[str, ...]]
    """The labels of each; one, unless several may apply."""


def _check_known(
    rows: _Rows, known: Sequence[str], head: str, task: str, *, refuses: bool
) -> tuple[str, ...]:
    """Refuse labels that the head cannot give: its answers would all be wrong.

    Of a head that may refuse an answer a note says so, unless it knows none of them.
    """
    counts = Counter(chain.from_iterable(rows.right))
    unknown = [label for label in counts if label not in known]
    if not unknown:
        return ()
    shown = ", ".join(f"{short_repr(name)} ({counts[name]:,})" for name in unknown[:_LISTED])
    more = f" and {len(unknown) - _LISTED} more" if len(unknown) > _LISTED else ""
    if refuses and len(unknown) < len(counts):
        outside = row_count(sum(counts[name] for name in unknown))
        return (f"{outside} out of scope, with labels that the head does not know: {shown}{more}",)
    own = ", ".join(short_repr(name, 40) for name in known[: 2 * _LISTED])
    blank = "; -1 mostly means that nobody knows the label: leave those rows out"
    raise InputError(
        f"{task} has labels that head {head!r} does not know: {shown}{more}; it knows {own}"
        + (", ..." if len(known) > 2 * _LISTED else "")
        + (blank if "-1" in unknown else ""),
        remedy=OF_LABELS,
    )


Measured = tuple[dict[str, float | None], tuple[Group, ...], float]
"""Numbers, those of each label, and the share of rows that are right."""


def _one(
    right: Sequence[tuple[str, ...]], found: Sequence[Prediction], known: Sequence[str]
) -> Measured:
    """Measure labels that exclude each other; to refuse what is out of scope is right."""
    place = {label: i for i, label in enumerate(known)}
    none = len(known) if any(label not in place for (label,) in right) else REFUSED
    wanted = torch.tensor([place.get(label, none) for (label,) in right])
    answered = torch.tensor([none if each.label is None else place[each.label] for each in found])
    hits = answered.eq(wanted).tolist()
    measures = class_measures(answered, wanted)
    given = [i for i, each in enumerate(found) if not each.rejected]
    inside = [i for i, (label,) in enumerate(right) if label in place]
    bins = reliability_bins([found[i].score for i in given], [hits[i] for i in given])
    numbers: dict[str, float | None] = {
        **measures,
        "f1_micro": measures["accuracy"],
        "ece": calibration_error(bins),
        "log_loss": log_loss([found[i].scores[right[i][0]] for i in inside]),
        "majority": int(wanted.bincount().max()) / len(right),
    }
    names = {none: REJECTED, **dict(enumerate(known))}
    sets = [[{names[k]} for k in own.tolist()] for own in (wanted, answered)]
    counts = count_labels(sets[0], sets[1])
    groups = [*known, REJECTED] if any(counts.of(REJECTED)) else known
    return numbers, label_groups(counts, groups), measures["accuracy"]


def _refusals(
    right: Sequence[tuple[str, ...]], found: Sequence[Prediction], known: Sequence[str]
) -> tuple[dict[str, float | None], tuple[CoveragePoint, ...]]:
    """Measure what a head refuses: of the texts with known labels, and of others."""
    inside = [label in known for (label,) in right]
    own, other = (
        [f for f, own in zip(found, inside, strict=True) if own is k] for k in (True, False)
    )
    given = [i for i, each in enumerate(found) if not each.rejected]
    hits = [each.best == label for each, (label,) in zip(found, right, strict=True)]
    numbers: dict[str, float | None] = {
        "coverage": sum(not each.rejected for each in own) / len(own),
        "accuracy_answered": sum(hits[i] for i in given) / len(given) if given else None,
    }
    sure = [each.certainty or 0.0 for each in found]
    if other:
        split = ([each.certainty or 0.0 for each in part] for part in (own, other))
        numbers["auroc_out_of_scope"] = auroc(*split)
    return numbers, coverage_curve(sure, hits, [each.score for each in found])


def _several(
    right: Sequence[tuple[str, ...]], found: Sequence[Prediction], known: Sequence[str]
) -> Measured:
    """Measure labels of which each row may have any number; `accuracy` is all of them right."""
    wanted = [{*own} for own in right]
    counts = count_labels(wanted, [{*(each.labels or ())} for each in found])
    groups = label_groups(counts, known)
    scores = [each.scores[label] for each in found for label in known]
    truth = [label in own for own in wanted for label in known]
    each_f1 = [group.numbers["f1"] for group in groups if any(counts.of(group.name))]
    share = all_right(counts.rows[:, 1:])
    numbers: dict[str, float | None] = {
        "accuracy": share,
        "f1_micro": f1(*counts.totals()),
        "f1_macro": sum(each_f1) / len(each_f1) if each_f1 else 0.0,
        "ece": calibration_error(reliability_bins(scores, truth)),
        "log_loss": log_loss([p if yes else 1 - p for p, yes in zip(scores, truth, strict=True)]),
    }
    return numbers, groups, share


def label_groups(counts: Counts, labels: Sequence[str]) -> tuple[Group, ...]:
    """Compute precision, recall and F1 of each label."""
    found = []
    for label in labels:
        right, missed, wrong = counts.of(label)
        numbers = precision_recall_f1(right, missed, wrong)
        found.append(Group("label", label, round(right + missed), numbers))
    return tuple(found)
