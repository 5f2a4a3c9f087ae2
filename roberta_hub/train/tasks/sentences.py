"""Builds the tasks on whole texts: classification, regression, multi-label classification."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.config import Inputs
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
from roberta_hub.measures.numbers import correlations
from roberta_hub.model.roberta import Roberta
from roberta_hub.rows.values import float32_in
from roberta_hub.train.data.data_bins import (
    LABELS,
    LabelledIds,
    class_names,
    find_splits,
    read_labelled,
)
from roberta_hub.train.data.labels import label_ids, label_names
from roberta_hub.train.data.sentences import GLUE_LAYOUTS, LabelledText, read_sentences
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.encoding import encode, shorten
from roberta_hub.train.tasks.evaluation import chance_loss, gather_outputs
from roberta_hub.train.tasks.features import head_logits
from roberta_hub.train.tasks.finetuning import Encoded, FineTuning, Targets
from roberta_hub.train.tasks.options import metric_of, options_of, train_path
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
        """Sum the loss over texts, or over texts and labels, in float32.

        This is fairseq's `sentence_prediction`.
        """
        logits, labels = logits.float(), batch.targets["labels"]
        if self.kind == "regression":
            return Loss(F.mse_loss(logits[:, 0], labels, reduction="sum"))
        if self.kind == "multi_label":
            return Loss(F.binary_cross_entropy_with_logits(logits, labels, reduction="sum"))
        total = F.cross_entropy(logits, labels, reduction="sum")
        likeliest = labels.argmax(-1) if labels.is_floating_point() else labels
        return Loss(total, {"correct": logits.detach().argmax(-1).eq(likeliest).sum()})


def classification(config: Config, interface: RobertaHubInterface) -> FineTuning:
    """Build a task with one label for each text or pair: GLUE's and others.

    Where a column tells how likely each class is, the head learns that and not the column of
    labels (Hinton et al. 2015). The held-out set needs its labels alone.
    """
    train, held_out = _train(config, interface), _valid(config, interface)
    if train[0].probabilities is not None and config.data.labels is None:
        raise InputError("data.columns.probabilities needs data.labels: the order of the classes")
    glue = GLUE_LAYOUTS.get(config.data.format or "")
    given = glue.labels if glue else None
    if splits := find_splits(train_path(config), "train"):
        given = class_names(splits[0].folder)
        take_classes(interface, config.task.head, given, splits[0].folder / LABELS / "dict.txt")
    names = label_names(config, [e.labels[0] for e in train], given, least=2)
    task = classification_of(config, interface, names, train, held_out)
    return task.of_data(train, held_out)


def classification_of(
    config: Config,
    interface: RobertaHubInterface,
    names: tuple[str, ...],
    train: Sequence[Labelled],
    held_out: Sequence[Labelled] | None = None,
) -> FineTuning:
    """Build the task of examples that are read already, with these classes."""
    inputs = _inputs(train)
    names = make_head(interface, config, len(names), names, inputs=inputs, learns="single_label")
    objective = SentenceObjective(config.task.head, "classification")

    def prepare(examples: Sequence[Labelled]) -> Encoded:
        labels = torch.tensor([label_ids(e.labels, names, e.where)[0] for e in examples])
        if examples[0].probabilities is not None:
            labels = _likely(examples, names)
        return _encoded(config, interface, examples, labels, per=1)

    valid = prepare(held_out) if held_out else None

    def measure(model: RobertaHubInterface) -> dict[str, float]:
        assert valid is not None
        logits, targets, loss = gather_outputs(model, objective, valid)
        answered = likeliest(torch.cat(logits))
        labels = torch.cat([t["labels"] for t in targets])
        numbers = class_measures(answered, labels)
        macro = numbers.pop("f1_macro")
        # Of two classes the second is the one to find, as in MRPC and QQP.
        f1 = f1_of(answered, labels) if len(names) == 2 else macro
        return {**numbers, "f1": f1, "loss": loss}

    default = "mcc" if config.data.format == "cola" else "accuracy"
    return FineTuning(
        interface,
        objective,
        prepare(train),
        measure if valid is not None else None,
        metric=metric_of(config, default, METRICS),
        # Doubts may leave no loss below chance: their entropy is the least there can be.
        chance=None if train[0].probabilities is not None else chance_loss(len(names)),
    )


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


def regression(config: Config, interface: RobertaHubInterface) -> FineTuning:
    """Build a task with a number for each text or pair: STS-B, with 0..5 as 0..1 like fairseq."""
    train, held_out = _train(config, interface), _valid(config, interface)
    return regression_of(config, interface, train, held_out).of_data(train, held_out)


def regression_of(
    config: Config,
    interface: RobertaHubInterface,
    train: Sequence[Labelled],
    held_out: Sequence[Labelled] | None = None,
) -> FineTuning:
    """Build the task of examples that are read already."""
    make_head(interface, config, 1, None, inputs=_inputs(train), learns="regression")
    objective = SentenceObjective(config.task.head, "regression")

    def prepare(examples: Sequence[Labelled]) -> Encoded:
        return _encoded(config, interface, examples, _values(config, examples), per=1)

    valid = prepare(held_out) if held_out else None

    def measure(model: RobertaHubInterface) -> dict[str, float]:
        assert valid is not None
        logits, targets, loss = gather_outputs(model, objective, valid)
        answered, wanted = torch.cat(logits)[:, 0], torch.cat([t["labels"] for t in targets])
        return {**correlations(answered, wanted), "loss": loss}

    return FineTuning(
        interface,
        objective,
        prepare(train),
        measure if valid is not None else None,
        metric=metric_of(config, "pearson", ("pearson", "spearman", "loss")),
    )


def _values(config: Config, examples: Sequence[Labelled]) -> Tensor:
    glue = GLUE_LAYOUTS.get(config.data.format or "")
    values = []
    for example in examples:
        if (value := float32_in(example.labels[0])) is None:
            raise InputError(f"{example.where}: label {example.labels[0][:40]!r} is no number")
        # The numbers of fairseq's files are divided already.
        scaled = glue is not None and isinstance(example, LabelledText)
        values.append(value / glue.scale if glue is not None and scaled else value)
    return torch.tensor(values)


def multi_label(config: Config, interface: RobertaHubInterface) -> FineTuning:
    """Build a task with any number of labels for each text.

    `classify` then gives each label its probability, and in `labels` those of at least 0.5.
    """
    separator = options_of(config).separator
    train = _train(config, interface, separator)
    held_out = _valid(config, interface, separator)
    names = label_names(config, [label for e in train for label in e.labels])
    task = multi_label_of(config, interface, names, train, held_out)
    return task.of_data(train, held_out)


def multi_label_of(
    config: Config,
    interface: RobertaHubInterface,
    names: tuple[str, ...],
    train: Sequence[Labelled],
    held_out: Sequence[Labelled] | None = None,
) -> FineTuning:
    """Build the task of examples that are read already, with these labels."""
    inputs = _inputs(train)
    names = make_head(interface, config, len(names), names, inputs=inputs, learns="multi_label")
    objective = SentenceObjective(config.task.head, "multi_label")

    def prepare(examples: Sequence[Labelled]) -> Encoded:
        table = torch.zeros(len(examples), len(names))
        for row, example in zip(table, examples, strict=True):
            row[label_ids(example.labels, names, example.where)] = 1.0
        return _encoded(config, interface, examples, table, per=len(names))

    valid = prepare(held_out) if held_out else None

    def measure(model: RobertaHubInterface) -> dict[str, float]:
        assert valid is not None
        logits, targets, loss = gather_outputs(model, objective, valid)
        answered = over_half(torch.cat(logits))
        wanted = torch.cat([t["labels"] for t in targets]).long()
        return {
            "f1": f1_of(answered, wanted),
            "accuracy": accuracy(answered, wanted),
            "exact": float(answered.eq(wanted).all(-1).double().mean()),
            "loss": loss,
        }

    return FineTuning(
        interface,
        objective,
        prepare(train),
        measure if valid is not None else None,
        metric=metric_of(config, "f1", ("f1", "accuracy", "exact", "loss")),
        chance=math.log(2),
    )


def _train(
    config: Config, interface: RobertaHubInterface, separator: str | None = None
) -> Sequence[Labelled]:
    data, path = config.data, train_path(config)
    if "probabilities" in data.columns and config.task.name != "classification":
        raise InputError(
            f"task {config.task.name} has no use for data.columns.probabilities; classification has"
        )
    if "probabilities" in data.columns and data.format in GLUE_LAYOUTS:
        raise InputError(
            f"data.format={data.format} has no columns with names, and data.columns.probabilities "
            "wants one; write the examples as a table"
        )
    found = _binarized(config, interface, path, "train")
    if found is None:
        found = read_sentences(path, data.format, data.columns, separator=separator)
    return found[: data.limit]


def _valid(
    config: Config, interface: RobertaHubInterface, separator: str | None = None
) -> Sequence[Labelled] | None:
    data = config.data
    if data.valid is None:
        return None
    if (found := _binarized(config, interface, data.valid, "valid")) is not None:
        return found
    columns = {role: name for role, name in data.columns.items() if role != "probabilities"}
    return read_sentences(data.valid, data.format, columns, separator=separator)


def _binarized(
    config: Config, interface: RobertaHubInterface, path: str, name: str
) -> Sequence[Labelled] | None:
    """Read what fairseq-preprocess wrote; None where the path names something else."""
    splits = find_splits(path, name)
    if not splits:
        return None
    if len(splits) > 1:
        raise InputError(f"data.{name} names {len(splits)} folders; this task reads one")
    if config.task.name == "multi_label":
        raise InputError(
            f"{path}: fairseq's sets have one label for each text, and task multi_label learns "
            "many; write the examples as a table"
        )
    if config.data.columns:
        raise InputError(f"{path}: fairseq's sets have no columns; leave data.columns out")
    return read_labelled(splits[0], interface.tokenizer, numbers=config.task.name == "regression")


def _inputs(examples: Sequence[Labelled]) -> Inputs:
    """Tell whether the examples are texts or pairs; all rows of a table are of one kind."""
    first = examples[0]
    if isinstance(first, LabelledIds):
        return "one" if len(first.ids) == 1 else "pair"
    return "one" if isinstance(first.text, str) else "pair"


def _encoded(
    config: Config,
    interface: RobertaHubInterface,
    examples: Sequence[Labelled],
    labels: Tensor,
    per: int,
) -> Encoded:
    """Encode examples; each has a row of `labels`, which counts as `per` targets."""
    where, options = [e.where for e in examples], options_of(config)
    joined = [_joined(e.ids, interface) for e in examples if isinstance(e, LabelledIds)]
    if joined:
        ids = shorten(interface, joined, where, options)
    else:
        texts = [e.text for e in examples if isinstance(e, LabelledText)]
        ids = encode(interface, texts, where, options)

    def targets(indices: Sequence[int]) -> tuple[Targets, int]:
        return {"labels": labels[list(indices)]}, per * len(indices)

    return Encoded([(own,) for own in ids], targets)


def _joined(texts: Sequence[Sequence[int]], interface: RobertaHubInterface) -> Tensor:
    """Join texts that end in `</s>` as the tokenizer does: `<s> A </s> </s> B </s>`."""
    layout = interface.tokenizer.layout
    between = [layout.eos] * (layout.separators - 1)
    found = [layout.bos, *texts[0]]
    for text in texts[1:]:
        found += [*between, *text]
    return torch.tensor(found)
