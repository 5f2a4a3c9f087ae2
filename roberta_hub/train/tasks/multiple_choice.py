"""The task of multiple choice: a score for each option, a softmax over an example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.inference.choose import ONE_SEPARATOR, OPTION_FIRST, encode_option
from roberta_hub.measures.classes import accuracy, likeliest
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.data.multiple_choice import ChoiceExample, read_choices
from roberta_hub.train.tasks.encoding import located, name_task, shorten
from roberta_hub.train.tasks.evaluation import chance_loss
from roberta_hub.train.tasks.features import head_logits, table_of, table_places
from roberta_hub.train.tasks.finetuning import Encoded, Targets
from roberta_hub.train.tasks.record import ExampleSet, TaskRecord, always, on_outputs, rows_of
from roberta_hub.train.tasks.trained_head import make_head
from roberta_hub.train.tasks.training_task import Batch, Loss

CHOICE_LAYOUTS = {"race": OPTION_FIRST, "commonsense_qa": ONE_SEPARATOR}


@dataclass(frozen=True)
class ChoiceObjective:
    """A classification head with one output, on every option."""

    head: str

    def logits(self, roberta: Roberta, batch: Batch) -> Tensor:
        """Score the options: (B, most options), minus infinity where an example has fewer."""
        scores = head_logits(roberta, batch, self.head)[:, 0]  # (options of all,)
        return table_of(scores, batch.targets)

    def loss(self, logits: Tensor, batch: Batch) -> Loss:
        """Sum the cross-entropy over options (fairseq `sentence_ranking`)."""
        logits, labels = logits.float(), batch.targets["labels"]
        total = F.cross_entropy(logits, labels, reduction="sum")
        return Loss(total, {"correct": logits.detach().argmax(-1).eq(labels).sum()})


Choices: TypeAlias = ExampleSet[ChoiceExample]


def _make_head(train: Choices) -> str:
    """Make the head; return the layout of its inputs."""
    config, interface = train.settings.config, train.interface
    make_head(interface, config, 1, None, inputs="pair")
    layout = CHOICE_LAYOUTS.get(config.data.format or "", "sentence_prediction")
    name_task(interface, layout)
    return layout


def _encode_options(own: Choices, layout: str) -> Encoded:
    options, examples = own.settings.options, own.rows
    ids, where = [], []
    for example in examples:
        for text in example.options:
            with located(example.where):
                row = encode_option(own.interface.tokenizer, example.context, text, layout)
            if layout == OPTION_FIRST:
                row = _short_option(row, options.max_option_length, own.interface.tokenizer.eos)
            ids.append(row)
            where.append(example.where)
    parts = iter(shorten(own.interface, ids, where, options))
    sequences = [tuple(next(parts) for _ in example.options) for example in examples]

    def targets(indices: Sequence[int]) -> tuple[Targets, int]:
        labels = torch.tensor([examples[i].answer for i in indices])
        counts = [len(examples[i].options) for i in indices]
        return {"labels": labels, **table_places(counts)}, len(labels)

    return Encoded(sequences, targets)


def _short_option(ids: Tensor, limit: int, eos: int) -> Tensor:
    """Cut the option of `<s> option </s> </s> article </s>`: `limit` tokens up to its `</s>`."""
    # fairseq's cut loses this `</s>`, ours a token of the option.
    end = int(ids.eq(eos).nonzero()[0])
    return ids if end < limit else torch.cat([ids[: limit - 1], ids[end:]])


def _measure(logits: list[Tensor], labels: list[Tensor]) -> dict[str, float]:
    answered = torch.cat([likeliest(part) for part in logits])
    return {"accuracy": accuracy(answered, torch.cat(labels))}


def _chance(train: Choices, layout: str, encoded: Encoded) -> float | None:
    options = {len(example.options) for example in train.rows}
    return chance_loss(options.pop()) if len(options) == 1 else None


CHOICE = TaskRecord(
    read=rows_of(read_choices),
    head=_make_head,
    loss=lambda settings, layout: ChoiceObjective(settings.config.task.head),
    encode=_encode_options,
    measures=on_outputs(_encode_options, _measure),
    metrics=always("accuracy", "loss"),
    chance=_chance,
)
"""One of several options: RACE, CommonsenseQA, or a table."""
