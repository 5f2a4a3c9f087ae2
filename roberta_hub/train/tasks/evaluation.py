"""Asks a model on a held-out set: logits, labels and losses."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch import Tensor

from roberta_hub.inference.batching import batch_tokens_of, batches
from roberta_hub.inference.mode import evaluating
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.train.tasks.features import roberta_of
from roberta_hub.train.tasks.finetuning import Encoded, Objective
from roberta_hub.train.tasks.training_task import Batch


def run_examples(
    interface: RobertaHubInterface, objective: Objective, examples: Encoded
) -> Iterator[tuple[list[int], Tensor, Batch]]:
    """Run all examples in eval mode without gradients: (indices, logits on the CPU, batch)."""
    roberta = roberta_of(interface)
    device = next(roberta.parameters()).device
    with evaluating(roberta):
        for indices in batches(examples.lengths(), batch_tokens_of(device)):
            batch = examples.batch(indices, roberta.config.padding_idx)
            yield indices, objective.logits(roberta, batch.to(device)).float().cpu(), batch


def outputs_of(
    interface: RobertaHubInterface, objective: Objective, examples: Encoded
) -> list[Tensor]:
    """Compute the rows of outputs of each example, one a sequence."""
    found: dict[int, Tensor] = {}
    for indices, rows, _ in run_examples(interface, objective, examples):
        parts = rows.split([len(examples.sequences[i]) for i in indices])  # type: ignore[no-untyped-call]
        found |= zip(indices, parts, strict=True)
    return [found[i] for i in range(len(examples.sequences))]


def gather_outputs(
    interface: RobertaHubInterface, objective: Objective, examples: Encoded
) -> tuple[list[Tensor], list[Tensor], float]:
    """Gather logits and labels of each batch, and average the loss over all targets."""
    logits, labels, total, count = [], [], 0.0, 0
    for _, values, batch in run_examples(interface, objective, examples):
        logits.append(values)
        labels.append(batch.targets["labels"])
        total += float(objective.loss(values, batch).total)
        count += batch.count
    return logits, labels, total / max(count, 1)


def chance_loss(classes: int) -> float | None:
    """Compute the loss of guessing among so many classes, ln K."""
    return math.log(classes) if classes > 1 else None
