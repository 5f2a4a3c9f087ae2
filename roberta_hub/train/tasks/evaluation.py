"""Asks a model on a held-out set: logits, targets and losses."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch import Tensor

from roberta_hub.inference.batching import batch_tokens_of, batches
from roberta_hub.inference.mode import evaluating
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.train.tasks.features import roberta_of
from roberta_hub.train.tasks.finetuning import Encoded, Objective, Targets
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


def gather_outputs(
    interface: RobertaHubInterface, objective: Objective, examples: Encoded
) -> tuple[list[Tensor], list[Targets], float]:
    """Gather logits and targets of each batch, and average the loss over all targets."""
    logits, targets, total, count = [], [], 0.0, 0
    for _, values, batch in run_examples(interface, objective, examples):
        logits.append(values)
        targets.append(batch.targets)
        total += float(objective.loss(values, batch).total)
        count += batch.count
    return logits, targets, total / max(count, 1)


def chance_loss(classes: int) -> float | None:
    """Compute the loss of guessing among so many classes, ln K."""
    return math.log(classes) if classes > 1 else None
