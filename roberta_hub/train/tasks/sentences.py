"""The tasks on whole texts: classification, regression, multi-label classification."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.measures.classes import (
    CLASS_MEASURES,
    accuracy,
    class_measures,
    f1_of,
    likeliest,
    over_half,
)
from roberta_hub.measures.counts import all_right
from roberta_hub.measures.numbers import correlations
from roberta_hub.model.roberta import Roberta
from roberta_hub.rows.values import float32_in
from roberta_hub.settings import Inputs
from roberta_hub.train.data.data_bins import (
    LABELS,
    LabelledIds,
    class_names,
    read_labelled,
)
from roberta_hub.train.data.labels import label_ids, label_names
from roberta_hub.train.data.sentences import GLUE_LAYOUTS, LabelledText, read_sentences
from roberta_hub.train.tasks.encoding import encode, shorten
from roberta_hub.train.tasks.evaluation import chance_loss
from roberta_hub.train.tasks.features import head_logits
from roberta_hub.train.tasks.finetuning import Encoded, labelled
from roberta_hub.train.tasks.options import Source
from roberta_hub.train.tasks.record import ExampleSet, Settings, TaskRecord, always, on_outputs
from roberta_hub.train.tasks.trained_head import make_head, take_classes
from roberta_hub.train.tasks.training_task import Batch, Loss

Labelled: TypeAlias = LabelledText | LabelledIds
"""An example of a table, or of fairseq's files."""


METRICS = (*(key for key in CLASS_MEASURES if key != "f1_macro"), "f1", "loss")
"""What evaluates classes; "f1" is the mean of the classes' F1, of two classes the second's."""


@dataclass(frozen=True)
class SentenceObjective:
    """A classification head on each sequence."""

    head: str
    kind: str
    """ "classification": cross-entropy; "regression": squared error; "multi_label": binary
    cross-entropies."""

    def logits(self, roberta: Roberta, batch: Batch) -> Tensor:
        """Compute the head's logits: (B, K)."""
        return head_logits(roberta, batch, self.head)

    def loss(self, logits: Tensor, batch: Batch) -> Loss:
        """Sum the loss over texts, or over texts and labels, in float32; each text has its weight.

        This is fairseq's `sentence_prediction`.
        """
        logits, labels = logits.float(), batch.targets["labels"]
        weights = batch.targets.get("weights")
        if self.kind == "regression":
            return Loss(_summed(F.mse_loss, logits[:, 0], labels, weights))
        if self.kind == "multi_label":
            return Loss(_summed(F.binary_cross_entropy_with_logits, logits, labels, weights))
        total = _summed(F.cross_entropy, logits, labels, weights)
        likeliest = labels.argmax(-1) if labels.is_floating_point() else labels
        return Loss(total, {"correct": logits.detach().argmax(-1).eq(likeliest).sum()})


def _summed(
    loss: Callable[..., Tensor], logits: Tensor, labels: Tensor, weights: Tensor | None
) -> Tensor:
    """Sum a loss over all that is in a batch, each text by its weight."""
    if weights is None:
        return loss(logits, labels, reduction="sum")
    each = loss(logits, labels, reduction="none")
    return (each.view(len(weights), -1) * weights.unsqueeze(1)).sum()


Texts: TypeAlias = ExampleSet[Labelled]
Names: TypeAlias = tuple[str, ...]
"""Classes in the order of the logits; a regression has none."""


def _objective(kind: str) -> Callable[[Settings, object], SentenceObjective]:
    return lambda settings, made: SentenceObjective(settings.config.task.head, kind)


# ---- one class ----


def _make_classes(train: Texts) -> Names:
    config, interface, rows = train.settings.config, train.interface, train.rows
    if rows[0].probabilities is not None and config.data.labels is None:
        raise InputError("data.columns.probabilities needs data.labels: the order of the classes")
    glue = GLUE_LAYOUTS.get(config.data.format or "")
    given = glue.labels if glue else None
    for split in train.settings.train.splits:
        given = class_names(split.folder)
        take_classes(interface, config.task.head, given, split.folder / LABELS / "dict.txt")
    names = label_names(config, [e.labels[0] for e in rows], given, least=2)
    inputs = _inputs(rows)
    return make_head(interface, config, len(names), names, inputs=inputs, learns="single_label")


def _encode_classes(own: Texts, names: Names) -> Encoded:
    labels = torch.tensor([label_ids(e.labels, names, e.where)[0] for e in own.rows])
    if own.rows[0].probabilities is not None:
        labels = _likely(own.rows, names)
    return _encoded(own, labels)


def _likely(examples: Sequence[Labelled], names: Sequence[str]) -> Tensor:
    """Return how likely each class is: (n, K), float32."""
    for example in examples:
        found = example.probabilities or ()
        if len(found) != len(names):
            raise InputError(
                f"{example.where}: {len(found)} probabilities for {len(names)} classes "
                f"({', '.join(names[:20])}); give one for each, in this order"
            )
    return torch.tensor([example.probabilities for example in examples])


def _measure_classes(logits: list[Tensor], labels: list[Tensor]) -> dict[str, float]:
    answered, wanted = likeliest(torch.cat(logits)), torch.cat(labels)
    numbers = class_measures(answered, wanted)
    macro = numbers.pop("f1_macro")
    # Of two classes the second is the one to find, as in MRPC and QQP.
    two = logits[0].size(-1) == 2
    return {**numbers, "f1": f1_of(answered, wanted) if two else macro}


def _class_metrics(settings: Settings, held_out: object) -> Sequence[str]:
    if settings.config.data.format != "cola":
        return METRICS
    return ("mcc", *(name for name in METRICS if name != "mcc"))


def _class_chance(train: Texts, names: Names, encoded: Encoded) -> float | None:
    # Doubts may leave no loss below chance: their entropy is the least there can be.
    return None if train.rows[0].probabilities is not None else chance_loss(len(names))


# ---- a number ----


def _make_number(train: Texts) -> Names:
    inputs, config = _inputs(train.rows), train.settings.config
    return make_head(train.interface, config, 1, None, inputs=inputs, learns="regression")


def _encode_numbers(own: Texts, names: Names) -> Encoded:
    """Read the numbers; those of STS-B, 0..5, become 0..1 as in fairseq."""
    glue = GLUE_LAYOUTS.get(own.settings.config.data.format or "")
    values = []
    for example in own.rows:
        if (value := float32_in(example.labels[0])) is None:
            raise InputError(f"{example.where}: label {example.labels[0][:40]!r} is no number")
        # The numbers of fairseq's files are divided already.
        scaled = glue is not None and isinstance(example, LabelledText)
        values.append(value / glue.scale if glue is not None and scaled else value)
    return _encoded(own, torch.tensor(values))


def _measure_numbers(logits: list[Tensor], labels: list[Tensor]) -> dict[str, float]:
    return correlations(torch.cat(logits)[:, 0], torch.cat(labels))


# ---- any number of classes ----


def _make_labels(train: Texts) -> Names:
    config, inputs = train.settings.config, _inputs(train.rows)
    names = label_names(config, [label for e in train.rows for label in e.labels])
    number = len(names)
    return make_head(train.interface, config, number, names, inputs=inputs, learns="multi_label")


def _encode_labels(own: Texts, names: Names) -> Encoded:
    table = torch.zeros(len(own.rows), len(names))
    for row, example in zip(table, own.rows, strict=True):
        row[label_ids(example.labels, names, example.where)] = 1.0
    return _encoded(own, table, per=len(names))


def _measure_labels(logits: list[Tensor], labels: list[Tensor]) -> dict[str, float]:
    answered, wanted = over_half(torch.cat(logits)), torch.cat(labels).long()
    return {
        "f1": f1_of(answered, wanted),
        "accuracy": accuracy(answered, wanted),
        "exact": all_right(answered.ne(wanted)),
    }


# ---- their examples ----


def _read(settings: Settings, interface: RobertaHubInterface, source: Source) -> Sequence[Labelled]:
    data, task = settings.config.data, settings.config.task.name
    if "probabilities" in data.columns and task != "classification":
        raise InputError(
            f"task {task} has no use for data.columns.probabilities; classification has"
        )
    if "probabilities" in data.columns and data.format in GLUE_LAYOUTS:
        raise InputError(
            f"data.format={data.format} has no columns with names, and data.columns.probabilities "
            "wants one; write the examples as a table"
        )
    if source.splits:
        return _binarized(settings, interface, source)
    unread = "probabilities" if source.name == "valid" else None
    columns = {role: name for role, name in data.columns.items() if role != unread}
    separator = settings.options.separator if task == "multi_label" else None
    return read_sentences(source.path, data.format, columns, separator=separator)


def _binarized(
    settings: Settings, interface: RobertaHubInterface, source: Source
) -> Sequence[Labelled]:
    """Read what fairseq-preprocess wrote."""
    if len(source.splits) > 1:
        raise InputError(
            f"data.{source.name} names {len(source.splits)} folders; this task reads one"
        )
    task = settings.config.task.name
    if task == "multi_label":
        raise InputError(
            f"{source.path}: fairseq's sets have one label for each text, and task multi_label "
            "learns many; write the examples as a table"
        )
    if settings.config.data.columns:
        raise InputError(f"{source.path}: fairseq's sets have no columns; leave data.columns out")
    return read_labelled(source.splits[0], interface.tokenizer, numbers=task == "regression")


def _inputs(examples: Sequence[Labelled]) -> Inputs:
    """Tell whether the examples are texts or pairs; all rows of a table are of one kind."""
    first = examples[0]
    if isinstance(first, LabelledIds):
        return "one" if len(first.ids) == 1 else "pair"
    return "one" if isinstance(first.text, str) else "pair"


def _encoded(own: Texts, labels: Tensor, per: int = 1) -> Encoded:
    """Encode examples; each has a row of `labels`, which counts as `per` targets."""
    where, options = [e.where for e in own.rows], own.settings.options
    joined = [_joined(e.ids, own.interface) for e in own.rows if isinstance(e, LabelledIds)]
    if joined:
        ids = shorten(own.interface, joined, where, options)
    else:
        texts = [e.text for e in own.rows if isinstance(e, LabelledText)]
        ids = encode(own.interface, texts, where, options)
    return labelled(ids, labels, per)


def _joined(texts: Sequence[Sequence[int]], interface: RobertaHubInterface) -> Tensor:
    """Join texts that end in `</s>` as the tokenizer does: `<s> A </s> </s> B </s>`."""
    layout = interface.tokenizer.layout
    between = [layout.eos] * (layout.separators - 1)
    found = [layout.bos, *texts[0]]
    for text in texts[1:]:
        found += [*between, *text]
    return torch.tensor(found)


# ---- the tasks ----

CLASSIFICATION = TaskRecord(
    read=_read,
    head=_make_classes,
    loss=_objective("classification"),
    encode=_encode_classes,
    measures=on_outputs(_encode_classes, _measure_classes),
    metrics=_class_metrics,
    chance=_class_chance,
)
"""One label for each text or pair: GLUE's and others.

Where a column tells how likely each class is, the head learns that and not the column of labels
(Hinton et al. 2015). The held-out set needs its labels alone."""
REGRESSION = TaskRecord(
    read=_read,
    head=_make_number,
    loss=_objective("regression"),
    encode=_encode_numbers,
    measures=on_outputs(_encode_numbers, _measure_numbers),
    metrics=always("pearson", "spearman", "loss"),
)
"""A number for each text or pair: STS-B and others."""
MULTI_LABEL = TaskRecord(
    read=_read,
    head=_make_labels,
    loss=_objective("multi_label"),
    encode=_encode_labels,
    measures=on_outputs(_encode_labels, _measure_labels),
    metrics=always("f1", "accuracy", "exact", "loss"),
    chance=lambda train, names, encoded: math.log(2),
)
"""Any number of labels for each text.

`classify` then gives each label its probability, and in `labels` those of at least 0.5."""
