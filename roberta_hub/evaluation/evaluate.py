"""Finds out what a task is, asks the model, and measures its answers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from roberta_hub.arguments import one_of, path_of, path_text, short_repr, text_of
from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.evaluation import answers, labels, minimal_pairs, retrieval, scores, spans
from roberta_hub.evaluation.records import KINDS, Evaluation, Evaluations, Kind
from roberta_hub.evaluation.tasks import Asked
from roberta_hub.hub import load_model
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.keywords import checked
from roberta_hub.model.finite_weights import check_weights
from roberta_hub.model.known_head import heads_of
from roberta_hub.rows.formats import FRAME
from roberta_hub.rows.labels import class_of, is_nan_word
from roberta_hub.rows.lines import check_file, lines
from roberta_hub.rows.tables import Table, format_of, table_of
from roberta_hub.rows.values import is_blank, number_in, to_python
from roberta_hub.train.data.questions import COLUMNS as QUESTION_COLUMNS
from roberta_hub.train.fitting.span_layouts import SpanTable, lone, open_source, span_table

SHAPES = (
    "a table of texts with labels, or of pairs with scores (CSV, TSV, JSONL, Parquet); a BEIR "
    "folder (corpus.jsonl, queries.jsonl, qrels/test.tsv); minimal pairs (JSONL with sentence_good "
    "and sentence_bad, or a folder of such); SQuAD's JSON; CoNLL's columns, or texts with spans"
)
"""What is read, in words."""


@checked
def evaluate(
    model: RobertaHubInterface | str | os.PathLike[str],
    task: Any,
    *,
    kind: Kind | None = None,
    text: str | Sequence[str] | None = None,
    label: str | Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    head: str | None = None,
    split: str | None = None,
    weight: str | None = None,
    header: bool = True,
    truncate: bool = False,
    stride: int | None = None,
    batch_tokens: int | None = None,
    progress: bool | None = None,
) -> Evaluation | Evaluations:
    """Measure a model's answers on one or several tasks with known right answers.

    `evaluate` recognizes the kind of task from the files, and the result names it:

    - "labels": a table of texts or pairs with labels, by `classify`: accuracy, F1, MCC, expected
      calibration error, log loss. Of a head that may refuse an answer (`fit(..., reject=)`) also
      coverage, the accuracy of what it answers, and their curve. Labels that such a head does not
      know are out of scope: to refuse them is right, and an AUROC tells how well it does. A row
      may have shares of classes, as `fit` learns them, {"good": 0.7, "bad": 0.3}: it counts as
      parts of rows, so that the answer "good" is 0.7 right.
    - "scores": a table of pairs with numbers, by the similarity of their vectors, or of texts by a
      regression head: Spearman's and Pearson's correlation.
    - "search": a folder in BEIR's layout, by `search`: nDCG, MRR, MAP, recall.
    - "minimal_pairs": BLiMP's, by `score`: how often the right sentence scores higher.
    - "answers": SQuAD 1.1 and 2.0, by `answer`: F1 and exact match.
    - "spans": CoNLL's columns, or texts with spans as `fit` takes them, by `tag`: F1, precision and
      recall of spans.

    Args:
        model: a model, or its name or path.
        task: a path; or a data frame, a dict of columns, a list of dicts; or a list of paths.
        kind: the kind of task; None: recognized from its files.
        text: column of the texts, or two columns for pairs; None: found by its name, or the only
            one of prose.
        label: column of the right answers, or several columns: of 0 and 1, one for each label; of
            shares of classes that add up to 1; or of the classes that several raters give. None:
            found by its name.
        labels: maps labels of the task to labels of the head: {"0": "negative"}.
        head: name of the head; None: the model's own, or the only one that is possible.
        split: split of a BEIR folder, which is its file in qrels; None: "test", or the only one.
        weight: column that says how much each row counts, of labels and scores. A row with a weight
            of 2 counts as two rows, and one with 0 is left out. None: all rows count the same.
        header: whether the first row of a CSV or TSV names the columns; False: their names are 1,
            2, ....
        truncate: cut texts that are too long; otherwise such a text is an error that names the row.
        stride: read texts that are too long in windows that overlap by this many tokens.
        batch_tokens: number of tokens in a batch.
        progress: show a progress bar; None: for long runs in a terminal or notebook.

    Returns:
        An `Evaluation` with `numbers`, `groups`, `rows` and `notes`; it prints as a report. For
        several tasks `Evaluations`, which print as one table.

    Raises:
        InputError: the layout of the task is unknown; the head does not know a label; or no row
            can be judged.
        UnknownNameError: there is no such column, head or split.
        MissingExtraError: a search needs pytrec-eval-terrier.

    Example:
        >>> import roberta_hub
        >>> pairs = {"good": ["The dogs run."], "bad": ["The dogs runs."]}
        >>> found = roberta_hub.evaluate("roberta.tiny", pairs)
        >>> found.kind, found["accuracy"]
        ('minimal_pairs', 1.0)
    """
    one_of("kind", kind, (None, *KINDS))
    for argument, value in (("head", head), ("split", split)):
        if value is not None:
            text_of(argument, value)
    tasks = _tasks(task)
    name = model.source if isinstance(model, RobertaHubInterface) else path_text("model", model)
    asked = Asked(
        roberta=model if isinstance(model, RobertaHubInterface) else load_model(model),
        name=name,
        text=text,
        label=label,
        labels=_check_labels(labels),
        head=head,
        split=split,
        weight=weight,
        header=header,
        options={
            "truncate": truncate,
            "stride": stride,
            "batch_tokens": batch_tokens,
            "progress": progress,
        },
        alone=tasks is None,
    )
    asked.roberta._runner(**asked.options)  # checks them
    check_weights(asked.roberta.model)
    if tasks is None:
        return _evaluate(asked, task, kind)
    return Evaluations(tuple(_evaluate(asked, each, kind) for each in tasks))


def _tasks(task: Any) -> list[Any] | None:
    """The tasks of a list of several; None: it is one."""
    if not isinstance(task, (list, tuple)) or any(isinstance(each, Mapping) for each in task):
        return None
    if not task:
        raise InputError(f"task is {short_repr(task)}, an empty list; give {SHAPES}")
    return list(task)


def _check_labels(value: object) -> Mapping[str, str]:
    if value is None:
        return {}
    if isinstance(value, Mapping) and all(
        isinstance(t, str) for pair in value.items() for t in pair
    ):
        return dict(value)
    raise InputTypeError(
        f"labels is {short_repr(value)}; give a dict from each label of the task to the head's, "
        "both str"
    )


def _evaluate(asked: Asked, task: Any, kind: Kind | None) -> Evaluation:
    if not isinstance(task, (str, os.PathLike)):
        return _of_table(asked, table_of(task, "task").kept(), kind)
    path = path_of("task", task)
    if os.path.isdir(path):
        return _of_folder(asked, path, kind)
    check_file(path)
    named = format_of(path)
    if (kind == "answers" and named is None) or (kind is None and _is_document(path)):
        return answers.answers(asked, path)
    source = _open(asked, path) if kind in (None, "spans") else None
    if isinstance(source, SpanTable):
        return spans.spans(asked, source)
    if source is None and named is None:
        raise _unknown(str(path))
    return _of_table(asked, source or table_of(path, header=asked.header).kept(), kind)


def _unknown(name: str) -> InputError:
    return InputError(f"{name[:300]} is of no shape that is read: give {SHAPES}")


def _is_document(path: Path) -> bool:
    """Tell whether a file is a JSON object, by its name and its begin: SQuAD's is."""
    names = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in (".gz", ".xz")]
    if names[-1:] != [".json"]:
        return False
    return next((text.strip() for _, text in lines(path) if text.strip()), "").startswith("{")


def _open(asked: Asked, source: Any) -> SpanTable | Table | None:
    """Open what may hold spans; None: the named columns hold something else, or it is no table."""
    text, label = lone(asked.text), lone(asked.label)
    if not all(name is None or isinstance(name, str) for name in (text, label)):
        return None  # a pair of texts, or several columns of labels
    if isinstance(source, Table):
        named = "table" if source.format is FRAME else source.name  # in memory, as `fit` calls it
        return span_table(replace(source, name=named), text, label)
    return open_source(source, text, label, header=asked.header)


def _of_folder(asked: Asked, folder: Path, kind: Kind | None) -> Evaluation:
    if kind == "search" or (kind is None and retrieval.is_search(folder)):
        return retrieval.search(asked, folder)
    tables = [table_of(path) for path in sorted(folder.glob("*.jsonl*")) if path.is_file()]
    paired = [t for t in tables if minimal_pairs.sentence_columns(t.columns) is not None]
    if tables and len(paired) == len(tables) and kind in (None, "minimal_pairs"):
        return minimal_pairs.minimal_pairs(asked, tables, str(folder))
    raise _unknown(str(folder))


def _of_table(asked: Asked, table: Table, kind: Kind | None) -> Evaluation:
    given = asked.text is not None or asked.label is not None
    if kind == "minimal_pairs" or (
        kind is None and not given and minimal_pairs.sentence_columns(table.columns)
    ):
        return minimal_pairs.minimal_pairs(asked, [table], table.name)
    asks = not given and {*table.columns} >= {*QUESTION_COLUMNS}
    if kind == "answers" or (kind is None and asks):
        return answers.answers(asked, table)
    marked = _open(asked, table) if kind in (None, "spans") else None
    if isinstance(marked, SpanTable):
        return spans.spans(asked, marked)
    if kind in ("search", "spans"):
        raise InputError(
            f"{table.name} is a table, and no task of the kind {kind!r}: give {SHAPES}"
        )
    found = labels.columns_of(table, asked)
    if kind == "labels" or (kind is None and asked.alone and asked.labels):
        return labels.labels(asked, table, found)
    regression = _regression_head(asked)
    if kind == "scores" or regression is not None or _are_scores(asked, table, found):
        return scores.scores(asked, table, found, regression)
    return labels.labels(asked, table, found)


def _regression_head(asked: Asked) -> str | None:
    """Name the head of regression that is asked: the named one, or the model's own."""
    roberta = asked.roberta
    heads = heads_of(roberta.model)
    name = asked.head if asked.head is not None else roberta.default_head
    if name is None and len(heads) == 1:
        name = next(iter(heads))
    if name is None or name not in heads:
        return None
    kind = roberta.kinds.get(name)
    return name if kind == "regression" or len(roberta.head_labels(name)) == 1 else None


def _are_scores(asked: Asked, table: Table, found: labels.Columns) -> bool:
    """Tell whether the right answers are numbers of pairs, and no names of a head's classes."""
    if len(found.texts) != 2 or len(found.labels) != 1 or asked.head is not None:
        return False
    values = [to_python(row.values.get(found.labels[0])) for row in table.rows()]
    values = [value for value in values if not (is_blank(value) or is_nan_word(value))]
    if not values or any(number_in(value) is None for value in values):
        return False
    heads = heads_of(asked.roberta.model)
    known = [{*asked.roberta.head_labels(name)} | {*asked.labels} for name in heads]
    return not any(all(class_of(v, table.name, own) in own for v in values) for own in known)
