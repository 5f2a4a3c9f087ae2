"""Reads texts and pairs of texts with their labels: tables, and GLUE's own layouts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roberta_hub.errors import InputError
from roberta_hub.rows.labels import Shares, label_of, labels_of, probabilities_of
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.rows.lines import lines
from roberta_hub.rows.tables import FORMATS
from roberta_hub.text.tokenizer import Text
from roberta_hub.train.data.digests import NOT_IN_DIGEST
from roberta_hub.train.data.roles import (
    check_format,
    column_roles,
    nonempty,
    read_rows,
    text_in,
    warn_of,
)

SENTENCE_ROLES = ("sentence", "sentence2", "label", "probabilities")


@dataclass(frozen=True)
class LabelledText:
    """A text or a pair of texts, with its labels."""

    text: Text
    labels: tuple[str, ...]
    """One class, or one number; any number of classes where a text may have many."""
    where: str
    """File and line, for messages."""
    probabilities: tuple[float, ...] | None = None
    """How likely each class is, as another model sees it."""
    shares: Shares = field(default=(), metadata={NOT_IN_DIGEST: True})
    """How likely each class is, by its name, where `labels` holds the likeliest of them."""
    weight: float = field(default=1, metadata={NOT_IN_DIGEST: True})
    """How much the row counts; a weight of 2 counts as the row twice."""

    @property
    def amounts(self) -> dict[str, float]:
        """What the row counts of each of its labels: its weight, or its share of that.

        Example:
            >>> LabelledText("fine", ("pro",), "x", shares=(("con", 0.25), ("pro", 0.75))).amounts
            {'con': 0.25, 'pro': 0.75}
        """
        if self.shares:
            return {name: share * self.weight for name, share in self.shares}
        return dict.fromkeys(self.labels, self.weight)


@dataclass(frozen=True)
class GlueLayout:
    """Columns of a GLUE file, counted from 0 (fairseq `preprocess_GLUE_tasks.sh`)."""

    sentences: tuple[int, ...]
    label: int
    header: bool = True
    fields: int | None = None
    """Rows with another number of fields are left out, with a warning: QQP has some."""
    names: Mapping[str, str] | None = None
    """The file's label -> ours."""
    scale: float = 1.0
    """The labels of a regression are divided by it."""
    unlabelled: tuple[int, ...] | None = None
    """`sentences` of the test set, which has no labels; None: the same."""

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Class names in the order of the logits."""
        return None if self.names is None else tuple(self.names.values())


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


GLUE_LAYOUTS = {
    "mnli": GlueLayout((8, 9), -1, names=_same("contradiction", "neutral", "entailment")),
    "qnli": GlueLayout((1, 2), 3, names=_same("not_entailment", "entailment")),
    "qqp": GlueLayout(
        (3, 4), 5, fields=6, names={"0": "different", "1": "duplicate"}, unlabelled=(1, 2)
    ),
    "rte": GlueLayout((1, 2), 3, names=_same("not_entailment", "entailment")),
    "sst_2": GlueLayout((0,), 1, names={"0": "negative", "1": "positive"}, unlabelled=(1,)),
    "mrpc": GlueLayout((3, 4), 0, names={"0": "different", "1": "paraphrase"}),
    "cola": GlueLayout(
        (3,),
        1,
        header=False,
        names={"0": "unacceptable", "1": "acceptable"},
        unlabelled=(1,),
    ),
    "sts_b": GlueLayout((7, 8), 9, scale=5.0),
}
_GLUE_LABELS = {"label", "gold_label", "is_duplicate", "quality", "score"}
"""Columns of labels in the headers of GLUE's files."""


def read_sentences(
    path: str | Path,
    format: str | None = None,
    columns: Mapping[str, Any] | None = None,
    *,
    separator: str | None = None,
) -> list[LabelledText]:
    r"""Read texts or pairs with their labels.

    Rows without a text are left out, with a warning that counts them.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "train.tsv"
        >>> _ = path.write_text("text\tstars\nA \"good\" film.\tfive\n")
        >>> read_sentences(path, columns={"sentence": "text", "label": "stars"})[0].labels
        ('five',)
    """
    path = Path(path)
    if format in GLUE_LAYOUTS:
        return nonempty(list(_glue(path, GLUE_LAYOUTS[format])), path)
    check_format(format, (*FORMATS, *GLUE_LAYOUTS))
    named = column_roles(columns, SENTENCE_ROLES, {"sentence": "sentence", "label": "label"})
    found: list[LabelledText] = []
    left = LeftOut()
    for row in read_rows(path, format):
        if (
            not found
            and "sentence2" in row.values
            and not {"sentence", "sentence2"} & {*(columns or {})}
        ):
            named["sentence2"] = "sentence2"
        roles = [role for role in ("sentence", "sentence2") if role in named]
        text = text_in(row, [named[role] for role in roles], left)
        if text is None:
            continue
        labels = _labels(row.value(named["label"]), separator, row.where)
        likely = None
        if "probabilities" in named:
            likely = probabilities_of(row.value(named["probabilities"]), row.where)
        found.append(LabelledText(text, labels, row.where, likely))
    warn_of(left)
    return nonempty(found, path)


def _labels(value: Any, separator: str | None, where: str) -> tuple[str, ...]:
    if separator is not None:
        return labels_of(value, separator, where)
    if isinstance(value, list):
        raise InputError(f"{where}: a list of labels; the task multi_label learns those")
    return (label_of(value, where),)  # JSON has 1 and 1.0 and true, labels like any other


def is_unlabelled(path: Path) -> bool:
    """Whether a file is a test set of GLUE's, whose header names rows and no labels."""
    for _, text in lines(path):
        names = text.lower().split("\t")
        return names[0] in ("index", "id") and not _GLUE_LABELS & {*names}
    return False


def read_unlabelled(path: Path, layout: GlueLayout) -> list[LabelledText]:
    """Read the texts of a test set of GLUE's, which have no labels."""
    return nonempty(list(_unlabelled(path, layout.unlabelled or layout.sentences)), path)


def _unlabelled(path: Path, columns: tuple[int, ...]) -> Iterator[LabelledText]:
    for line, text in lines(path):
        if line > 1:
            yield LabelledText(
                _sentences(text.split("\t"), columns, f"{path}:{line}"), (), f"{path}:{line}"
            )


def _sentences(cells: list[str], columns: tuple[int, ...], where: str, label: int = 0) -> Text:
    """Return the text or the pair of a row."""
    if len(cells) <= max(*columns, label):
        raise InputError(f"{where}: {len(cells)} fields, the layout has more; is the format right?")
    texts = tuple(cells[i] for i in columns)
    return texts if len(texts) > 1 else texts[0]


def _glue(path: Path, layout: GlueLayout) -> Iterator[LabelledText]:
    if is_unlabelled(path):
        raise InputError(
            f"{path}: no labels, as GLUE's test sets have none; `roberta-hub preprocess --test` "
            "writes their texts, and data.valid takes the development set"
        )
    left_out = []
    for line, text in lines(path):
        if line == 1 and layout.header:
            continue
        cells, where = text.split("\t"), f"{path}:{line}"
        if layout.fields is not None and len(cells) != layout.fields:
            left_out.append(line)
            continue
        found = _sentences(cells, layout.sentences, where, layout.label)
        label = label_of(cells[layout.label], where)
        if layout.names is not None and label not in layout.names:
            raise InputError(f"{where}: label {label[:40]!r}; there are {', '.join(layout.names)}")
        name = layout.names[label] if layout.names else label
        yield LabelledText(found, (name,), where)
    if left_out:
        warnings.warn(
            f"{path}: left out {len(left_out)} rows that do not have {layout.fields} fields, as "
            f"fairseq does; the first is line {left_out[0]}",
            stacklevel=3,
        )
