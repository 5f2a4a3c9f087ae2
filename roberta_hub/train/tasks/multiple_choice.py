"""Builds the task of multiple choice: a score for each option, a softmax over an example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.inference.choose import ONE_SEPARATOR, OPTION_FIRST, encode_option
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.measures.classes import accuracy, likeliest
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.data.multiple_choice import ChoiceExample, read_choices
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.encoding import located, name_task, shorten
from roberta_hub.train.tasks.evaluation import chance_loss, gather_outputs
from roberta_hub.train.tasks.features import head_logits
from roberta_hub.train.tasks.finetuning import Encoded, FineTuning, Targets
from roberta_hub.train.tasks.options import metric_of, options_of, train_path
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
        places, examples = batch.targets["places"], len(batch.targets["labels"])
        width = len(batch.targets["width"])
        table = scores.new_full((examples * width,), -torch.inf)
        return table.index_copy(0, places, scores).view(examples, width)

    def loss(self, logits: Tensor, batch: Batch) -> Loss:
        """Sum the cross-entropy over options (fairseq `sentence_ranking`)."""
        logits, labels = logits.float(), batch.targets["labels"]
        total = F.cross_entropy(logits, labels, reduction="sum")
        return Loss(total, {"correct": logits.detach().argmax(-1).eq(labels).sum()})


def choice(config: Config, interface: RobertaHubInterface) -> FineTuning:
    """Build the task of choosing an option: RACE, CommonsenseQA, or a table."""
    data = config.data
    train = read_choices(train_path(config), data.format, data.columns)[: data.limit]
    held_out = read_choices(data.valid, data.format, data.columns) if data.valid else None
    make_head(interface, config, 1, None, inputs="pair")
    name_task(interface, CHOICE_LAYOUTS.get(config.data.format or "", "sentence_prediction"))
    objective = ChoiceObjective(config.task.head)
    valid = _prepare(config, interface, held_out) if held_out else None

    def measure(model: RobertaHubInterface) -> dict[str, float]:
        assert valid is not None
        logits, targets, loss = gather_outputs(model, objective, valid)
        answered = torch.cat([likeliest(part) for part in logits])
        labels = torch.cat([t["labels"] for t in targets])
        return {"accuracy": accuracy(answered, labels), "loss": loss}

    options = {len(example.options) for example in train}
    task = FineTuning(
        interface,
        objective,
        _prepare(config, interface, train),
        measure if valid is not None else None,
        metric=metric_of(config, "accuracy", ("accuracy", "loss")),
        chance=chance_loss(options.pop()) if len(options) == 1 else None,
    )
    return task.of_data(train, held_out)


def _prepare(
    config: Config, interface: RobertaHubInterface, examples: Sequence[ChoiceExample]
) -> Encoded:
    options, layout = options_of(config), CHOICE_LAYOUTS.get(config.data.format or "", "")
    ids, where = [], []
    for example in examples:
        for text in example.options:
            with located(example.where):
                own = encode_option(interface.tokenizer, example.context, text, layout)
            if layout == OPTION_FIRST:
                own = _short_option(own, options.max_option_length, interface.tokenizer.eos)
            ids.append(own)
            where.append(example.where)
    parts = iter(shorten(interface, ids, where, options))
    sequences = [tuple(next(parts) for _ in example.options) for example in examples]

    def targets(indices: Sequence[int]) -> tuple[Targets, int]:
        counts = [len(examples[i].options) for i in indices]
        width = max(counts)
        places = [row * width + k for row, count in enumerate(counts) for k in range(count)]
        labels = torch.tensor([examples[i].answer for i in indices])
        # Only its length counts: a shape is known without asking a device.
        return {
            "labels": labels,
            "places": torch.tensor(places),
            "width": torch.empty(width),
        }, len(labels)

    return Encoded(sequences, targets)


def _short_option(ids: Tensor, limit: int, eos: int) -> Tensor:
    """Cut the option of `<s> option </s> </s> article </s>`: `limit` tokens up to its `</s>`."""
    # fairseq's cut loses this `</s>`, ours a token of the option.
    end = int(ids.eq(eos).nonzero()[0])
    return ids if end < limit else torch.cat([ids[: limit - 1], ids[end:]])
