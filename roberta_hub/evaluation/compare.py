"""Asks two models about the rows of a table: did the newer one get worse?"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from roberta_hub.arguments import one_of, path_text, short_repr
from roberta_hub.errors import InputError, Remedy, RobertaHubError
from roberta_hub.evaluation.comparison import Changed, Comparison, Slice, Verb
from roberta_hub.evaluation.labels import (
    Columns,
    Parts,
    about_shares,
    given_labels,
    may_refuse,
    out_of_scope,
    right_share,
    unknown_labels,
)
from roberta_hub.evaluation.tasks import check_finite, known_note
from roberta_hub.hub import load_model
from roberta_hub.inference.batching import deduplicate
from roberta_hub.inference.classify import Prediction
from roberta_hub.inference.embed import similarities
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.keywords import checked
from roberta_hub.measures.calibration import calibration_error, reliability_bins
from roberta_hub.model.finite_weights import check_weights
from roberta_hub.rows.columns import (
    LABEL_COLUMNS,
    find_columns,
    find_texts,
    given_texts,
)
from roberta_hub.rows.frames import list_of
from roberta_hub.rows.labels import KnownLabels, labelled_rows
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.rows.tables import Table, format_of, table_of
from roberta_hub.settings import REJECTED, Inputs, SentenceSettings
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.data.conll import is_conll
from roberta_hub.train.data.sentences import LabelledText

NEIGHBOURS = 10
"""Nearest texts of a text that are compared."""
_CHUNK = 1024
"""Texts whose neighbours are found together."""
_VERBS: tuple[Verb | None, ...] = (None, "classify", "embed")


@checked
def compare(
    old: RobertaHubInterface | str | os.PathLike[str],
    new: RobertaHubInterface | str | os.PathLike[str],
    table: Any,
    *,
    text: str | Sequence[str] | None = None,
    label: str | Sequence[str] | None = None,
    by: str | Sequence[str] = (),
    head: str | None = None,
    verb: Literal["classify", "embed"] | None = None,
    header: bool = True,
    truncate: bool = False,
) -> Comparison:
    """Compare a new model with an old one on the rows of a table.

    Models with a head are compared by their labels: how many flipped; and where the table has the
    right labels, how often each is right, whether the difference could be chance (McNemar's exact
    test), how well probabilities hold (ECE), and the surest new mistakes. Where a text may have
    several labels, an answer is right if all of them are. Where it has shares of classes, an answer
    is right in part, and the test counts whose answer has the larger share. Where a model may
    refuse (`fit(..., reject=)`), to refuse labels that it does not know is right. Other models are
    compared by vectors: how many of a text's nearest texts stayed. Rows without a text, or without
    a label where the others have one, are left out.

    Args:
        old: a model, or its name or path.
        new: another.
        table: a path to CSV, TSV, JSONL or Parquet; a data frame, a dict of columns, a list of
            dicts.
        text: column of the texts, or two columns for pairs; None: found by its name, or the only
            one of prose.
        label: column of the right labels, or several columns: of 0 and 1, one for each label; of
            shares of classes that add up to 1; or of the classes that several raters give. None:
            the one column with a name such as "label"; where there is none, answers are compared
            with each other alone.
        by: a column, or several, whose values are slices of the table that are judged by
            themselves.
        head: name of the head of both models; None: each model's own.
        verb: "classify" or "embed"; None: classify, where both models have a head for it, else
            embed.
        header: whether the first row of a CSV or TSV names the columns; False: their names are 1,
            2, ....
        truncate: cut texts that are too long; else they are an error that names the row.

    Returns:
        A `Comparison`: `worse`, `whole`, `slices`, `mistakes`; it prints as a report, and a
        notebook draws it.

    Raises:
        InputError: no row that can be compared; right labels that neither model knows; a head that
            answers with a number; a model with NaN among its weights or answers.
        UnknownNameError: a column or head that is not there.

    Example:
        >>> import roberta_hub
        >>> tiny = roberta_hub.load_model("roberta.tiny")
        >>> rows = {"text": ["A dog ran.", "Goal!", "It rains."], "kind": ["a", "b", "a"]}
        >>> found = roberta_hub.compare(tiny, tiny, rows, by="kind", verb="embed")
        >>> found.worse, found.changed, [part.name for part in found.slices]
        (False, 0.0, ['kind = a', 'kind = b'])
    """
    one_of("verb", verb, _VERBS)
    names = [_name_of("old", old), _name_of("new", new)]
    models = [_loaded(old), _loaded(new)]
    for name, model in zip(names, models, strict=True):
        check_weights(model.model, name)
    _refuse_words(table)
    source = table_of(table, header=header).kept()
    slices = [by] if isinstance(by, str) else list_of(by, "by")
    columns = _columns(source, text, label, slices)
    classifies = head is not None or all(model.model.classification_heads for model in models)
    if verb == "embed" or (verb is None and not classifies):
        return _by_vectors(names, models, _read(source, columns, slices, None), truncate)
    inputs: Inputs = "pair" if len(columns.texts) > 1 else "one"
    heads = [_head(name, model, head, inputs) for name, model in zip(names, models, strict=True)]
    known = _known(models, heads)
    refusing = [may_refuse(model, head) for model, head in zip(models, heads, strict=True)]
    rows = _read(source, columns, slices, known, refuses=any(refusing))
    scopes = [
        model.head_labels(head) if refuses else tuple(sorted(known.names))
        for model, head, refuses in zip(models, heads, refusing, strict=True)
    ]
    return _by_labels(names, models, heads, scopes, rows, truncate)


def _loaded(model: RobertaHubInterface | str | os.PathLike[str]) -> RobertaHubInterface:
    return model if isinstance(model, RobertaHubInterface) else load_model(model)


def _name_of(name: str, model: RobertaHubInterface | str | os.PathLike[str]) -> str:
    return model.source if isinstance(model, RobertaHubInterface) else path_text(name, model)


def _refuse_words(table: Any) -> None:
    """Refuse a file with a word and its tag a line: its answers are spans."""
    if isinstance(table, (str, os.PathLike)) and os.path.isfile(table):
        path = Path(table)
        if format_of(path) in (None, "tsv") and is_conll(path):
            raise InputError(
                f"{path}: a word and its tag a line; compare asks for labels of texts, not spans",
                remedy=Remedy(
                    "evaluate(model, path) measures each model's spans",
                    "`roberta-hub evaluate` measures each model's spans",
                ),
            )


# ---- rows ----


@dataclass(frozen=True)
class _Rows:
    table: str
    texts: list[Text]
    where: list[str]
    right: list[LabelledText] | None
    """The texts with their right labels; None: the table has none, or they are not asked for."""
    slices: dict[str, list[int]]
    """Numbers of the rows of each slice."""
    notes: tuple[str, ...]
    """What was left out."""


def _columns(table: Table, text: Any, label: Any, slices: Sequence[str]) -> Columns:
    """Find the columns of texts and of right labels, of which a table may have none."""
    for column in slices:
        table.check(column)
    label = _label_column(table, slices) if label is None else label
    if label is None:
        return Columns(given_texts(table, text) or find_texts(table, slices), ())
    return Columns(*find_columns(table, text, label))


def _known(models: Sequence[RobertaHubInterface], heads: Sequence[str]) -> KnownLabels:
    """Tell which labels both models' heads have, and whether one of them gives a text several."""
    both = list(zip(models, heads, strict=True))
    labels = {label for model, head in both for label in model.head_labels(head)}
    return KnownLabels(labels, any(model.kinds.get(head) == "multi_label" for model, head in both))


def _read(
    table: Table,
    columns: Columns,
    by: Sequence[str],
    known: KnownLabels | None,
    *,
    refuses: bool = False,
) -> _Rows:
    """Read the rows as `evaluate` does; without `known` no labels are asked for."""
    left = LeftOut()
    right: list[LabelledText] | None = None
    notes: list[str] = []
    if known is not None and columns.labels:
        found = known.rows(table, columns.texts, columns.labels, left)
        right = [LabelledText(t, own, row.where, shares=s) for row, t, own, s in found.rows]
        notes += found.notes
        notes += about_shares(right, found.held, columns)
        notes += _outside(table.name, right, known.names, refuses=refuses)
        rows = [(row, text) for row, text, _, _ in found.rows]
    else:
        rows = [(row, text) for row, text, _ in labelled_rows(table, columns.texts, (), left)]
    slices: dict[str, list[int]] = {}
    for i, (row, _) in enumerate(rows):
        for column in by:
            slices.setdefault(f"{column} = {row.values.get(column)}", []).append(i)
    left.check(rows, table.name)
    texts, where = [text for _, text in rows], [row.where for row, _ in rows]
    return _Rows(table.name, texts, where, right, slices, (*left.counted(), *notes))


def _outside(
    table: str, rows: Sequence[LabelledText], known: Collection[str], *, refuses: bool
) -> tuple[str, ...]:
    """Refuse labels that neither model can give; where one may refuse to answer, note them."""
    unknown = unknown_labels(rows, known)
    if not unknown:
        return ()
    if refuses and any(name in known for row in rows for name in row.amounts):
        return (out_of_scope(rows, unknown, "neither model knows"),)
    raise InputError(
        f"{table} has the label {short_repr(next(iter(unknown)))}, which neither model "
        f"knows; they have {', '.join(sorted(known))[:300]}"
    )


def _label_column(table: Table, slices_by: Sequence[str]) -> str | None:
    """The one column with a name that labels have; None: there is none."""
    known = [c for c in table.columns if c.casefold() in LABEL_COLUMNS and c not in slices_by]
    if len(known) > 1:
        raise InputError(
            f"{table.name}: {', '.join(known)} could each hold the right labels",
            remedy=Remedy("say which with label=NAME", "say which with --label NAME"),
        )
    return known[0] if known else None


# ---- labels ----


def _by_labels(
    names: Sequence[str],
    models: Sequence[RobertaHubInterface],
    heads: Sequence[str],
    scopes: Sequence[Sequence[str]],
    rows: _Rows,
    truncate: bool,
) -> Comparison:
    answers = []
    for name, model, head in zip(names, models, heads, strict=True):
        with _named(name):
            own = model.classify(rows.texts, head, truncate=truncate, progress=False)
            check_finite([sum(answer.scores.values()) for answer in own], rows.where)
        answers.append(own)
    old, new = answers
    given = [[given_labels(answer) for answer in answers] for answers in (old, new)]
    flipped = [a != b for a, b in zip(*given, strict=True)]
    parts = {"all rows": list(range(len(rows.texts))), **rows.slices}
    judged = None if rows.right is None else _Judged(rows.right, (old, new), scopes)
    slices = [_slice(name, own, judged, flipped) for name, own in parts.items()]
    changed = [
        Changed(
            rows.texts[i],
            rows.where[i],
            _written(given[0][i]),
            _written(given[1][i]),
            new[i].score,
            None if rows.right is None else _written({*rows.right[i].labels}),
        )
        for i in range(len(rows.texts))
        if flipped[i] and (judged is None or judged.shares[0][i] > judged.shares[1][i])
    ]
    return Comparison(
        names[0],
        names[1],
        rows.table,
        "classify",
        slices[0],
        tuple(slices[1:]),
        tuple(sorted(changed, key=lambda one: -one.score)),
        notes=(*rows.notes, *_known_by(names, models, rows)),
    )


def _head(name: str, model: RobertaHubInterface, head: str | None, inputs: Inputs) -> str:
    """Find the head that is compared, which gives labels."""
    own = model._heads.find(head, "classification", "compare", inputs=inputs)
    if len(model.head_labels(own)) < 2 or model.kinds.get(own) == "regression":
        raise InputError(
            f"head {own!r} of {short_repr(name)} gives a number, and compare takes labels",
            remedy=Remedy("verb='embed' compares vectors", "--verb embed compares vectors"),
        )
    return own


def _known_by(
    names: Sequence[str], models: Sequence[RobertaHubInterface], rows: _Rows
) -> tuple[str, ...]:
    """Note the rows that `fit` has taught one of the models."""
    both = zip(names, models, strict=True)
    return tuple(note for n, m in both for note in known_note(n, rows.texts, m.learnt))


def _written(labels: set[str]) -> str:
    return ", ".join(sorted(labels)) or "no label"


@dataclass(frozen=True)
class _Judged:
    """Rows with their right labels, and both models' answers."""

    rows: Sequence[LabelledText]
    answers: tuple[Sequence[Prediction], Sequence[Prediction]]
    scopes: Sequence[Sequence[str]]
    """Of each model the labels that are no reason to refuse."""

    @cached_property
    def shares(self) -> list[list[float]]:
        """How far each answer is right, of the old model and of the new one."""
        return [
            [right_share(row, answer, scope) for row, answer in zip(self.rows, own, strict=True)]
            for own, scope in zip(self.answers, self.scopes, strict=True)
        ]

    def of(self, rows: Sequence[int]) -> _Judged:
        """Return some of the rows."""
        old, new = ([own[i] for i in rows] for own in self.answers)
        return _Judged([self.rows[i] for i in rows], (old, new), self.scopes)

    def calibration(self) -> tuple[float | None, float | None]:
        """Compute the expected calibration errors."""
        old, new = (
            _calibration(own, self.rows, shares)
            for own, shares in zip(self.answers, self.shares, strict=True)
        )
        return old, new

    def measures(self) -> dict[str, tuple[float, float]]:
        """Compute `CLASS_MEASURES`, old and new; {} where a text may have several labels."""
        if any(not row.shares and len(row.labels) != 1 for row in self.rows):
            return {}
        parts = [
            (i, name, amount)
            for i, row in enumerate(self.rows)
            for name, amount in row.amounts.items()
        ]
        rights = [
            [{name if name in scope else REJECTED} for _, name, _ in parts] for scope in self.scopes
        ]
        old, new = ([given_labels(own[i]) for i, _, _ in parts] for own in self.answers)
        return _measures(rights[0], old, new, rights[1], [amount for _, _, amount in parts])


def _measures(
    right: Sequence[set[str]],
    old: Sequence[set[str]],
    new: Sequence[set[str]],
    right_of_new: Sequence[set[str]] | None = None,
    amounts: Sequence[float] | None = None,
) -> dict[str, tuple[float, float]]:
    """Compute `CLASS_MEASURES`, old and new; {} where a text may have several labels.

    What is right may be another class for the new model: what it does not know, it may refuse.
    """
    if any(len(labels) != 1 for labels in chain(right, old, new)):
        return {}
    amounts = [1] * len(right) if amounts is None else amounts
    then, now = (
        _class_numbers([*chain(*wanted)], [*chain(*given)], amounts)
        for wanted, given in ((right, old), (right_of_new or right, new))
    )
    return {key: (then[key], now[key]) for key in then}


def _class_numbers(
    wanted: Sequence[str], given: Sequence[str], amounts: Sequence[float]
) -> dict[str, float]:
    names = sorted({*wanted, *given} - {REJECTED})
    return Parts.named(wanted, given, amounts, names).measures()


def _calibration(
    answers: Sequence[Prediction], rows: Sequence[LabelledText], right: Sequence[float]
) -> float | None:
    """The expected calibration error of answers; of several labels that of each label of each.

    None: all are refused.
    """
    given = [i for i, answer in enumerate(answers) if not answer.rejected]
    scores, right = [answers[i].score for i in given], [right[i] for i in given]
    if any(answer.labels is not None for answer in answers):
        pairs = list(zip(answers, rows, strict=True))
        scores = [p for answer, _ in pairs for p in answer.scores.values()]
        right = [name in row.labels for answer, row in pairs for name in answer.scores]
    bins = reliability_bins(scores, right)
    return calibration_error(bins) if bins else None


def _slice(name: str, own: Sequence[int], judged: _Judged | None, flipped: Sequence[bool]) -> Slice:
    count = len(own)
    share = sum(flipped[i] for i in own) / count
    if judged is None:
        return Slice(name, count, share)
    part = judged.of(own)
    was, is_now = part.shares
    only_old = sum(a > b for a, b in zip(was, is_now, strict=True))
    only_new = sum(b > a for a, b in zip(was, is_now, strict=True))
    return Slice(
        name,
        count,
        share,
        (sum(was) / count, sum(is_now) / count),
        (only_old, only_new),
        mcnemar(only_old, only_new),
        part.calibration(),
        part.measures(),
    )


def mcnemar(only_old: int, only_new: int) -> float:
    """Probability of a difference as large as this by chance: McNemar's exact test, two-sided.

    Example:
        >>> mcnemar(0, 0), mcnemar(1, 8), round(mcnemar(0, 10), 4)
        (1.0, 0.0390625, 0.002)
    """
    count, less = only_old + only_new, min(only_old, only_new)
    if count <= 1000:
        tables = sum(math.comb(count, k) for k in range(less + 1))
        return float(min(1.0, 2 * tables / 2**count))
    logs = [
        math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        for k in range(less + 1)
    ]
    most = max(logs)
    total = most + math.log(sum(math.exp(log - most) for log in logs))
    return min(1.0, math.exp(total + math.log(2) * (1 - count)))


# ---- vectors ----


def _by_vectors(
    names: Sequence[str],
    models: Sequence[RobertaHubInterface],
    rows: _Rows,
    truncate: bool,
) -> Comparison:
    firsts, which = deduplicate(rows.texts)
    if len(firsts) < 3:
        raise InputError(f"{rows.table} has {len(firsts)} texts; neighbours need three at least")
    texts = [rows.texts[i] for i in firsts]
    near = []
    for name, model in zip(names, models, strict=True):
        with _named(name):
            vectors = model.embed(texts, truncate=truncate, progress=False)
            check_finite(vectors.abs().amax(1).tolist(), [rows.where[i] for i in firsts])
        settings = model.sentence or SentenceSettings()
        near.append(neighbours(vectors, settings.similarity))
    kept = [len({*a} & {*b}) / len(a) for a, b in zip(near[0], near[1], strict=True)]
    lost = [1 - kept[which[i]] for i in range(len(rows.texts))]
    parts = {"all rows": list(range(len(rows.texts))), **rows.slices}
    slices = [
        Slice(name, len(own), sum(lost[i] for i in own) / len(own)) for name, own in parts.items()
    ]
    changed = [
        Changed(
            texts[i],
            rows.where[firsts[i]],
            str(texts[near[0][i][0]]),
            str(texts[near[1][i][0]]),
            1 - kept[i],
            None,
        )
        for i in range(len(texts))
        if kept[i] < 1
    ]
    return Comparison(
        names[0],
        names[1],
        rows.table,
        "embed",
        slices[0],
        tuple(slices[1:]),
        tuple(sorted(changed, key=lambda one: -one.score)),
        notes=rows.notes,
    )


def neighbours(vectors: Tensor, similarity: str) -> list[list[int]]:
    """Numbers of the nearest other vectors of each vector, nearest first.

    Example:
        >>> neighbours(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), "cosine")
        [[1, 2], [0, 2], [1, 0]]
    """
    count = min(NEIGHBOURS, len(vectors) - 1)
    found: list[list[int]] = []
    for start in range(0, len(vectors), _CHUNK):
        chunk = similarities(vectors[start : start + _CHUNK], vectors, similarity)
        rows = torch.arange(len(chunk))
        chunk[rows, rows + start] = -math.inf
        found += chunk.topk(count).indices.tolist()
    return found


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Name the model in an error of one of the two."""
    try:
        yield
    except RobertaHubError as error:
        error.within(short_repr(name))
        raise
