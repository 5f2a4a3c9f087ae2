"""Measures a model on a held-out set: logits, losses, and the metrics of torchmetrics."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from roberta_hub.errors import MissingExtraError
from roberta_hub.extras import install
from roberta_hub.inference.batching import BATCH_TOKENS, batches
from roberta_hub.inference.mode import evaluating
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.train.tasks.features import roberta_of
from roberta_hub.train.tasks.finetuning import Encoded, Objective, Targets
from roberta_hub.train.tasks.training_task import Batch


def outputs(
    interface: RobertaHubInterface, objective: Objective, examples: Encoded
) -> Iterator[tuple[list[int], Tensor, Batch]]:
    """Run all examples in eval mode without gradients: (indices, logits on the CPU, batch)."""
    roberta = roberta_of(interface)
    device = next(roberta.parameters()).device
    budget = BATCH_TOKENS.get(device.type, BATCH_TOKENS["cuda"])
    with evaluating(roberta):
        for indices in batches(examples.lengths(), budget):
            batch = examples.batch(indices, roberta.config.padding_idx)
            yield indices, objective.logits(roberta, batch.to(device)).float().cpu(), batch


def gather(
    interface: RobertaHubInterface, objective: Objective, examples: Encoded
) -> tuple[list[Tensor], list[Targets], float]:
    """Gather logits and targets of each batch, and average the loss over all targets."""
    logits, targets, total, count = [], [], 0.0, 0
    for _, values, batch in outputs(interface, objective, examples):
        logits.append(values)
        targets.append(batch.targets)
        total += float(objective.loss(values, batch).total)
        count += batch.count
    return logits, targets, total / max(count, 1)


def chance_of(classes: int) -> float | None:
    """Compute the loss of guessing among so many classes, ln K."""
    return math.log(classes) if classes > 1 else None


def metrics() -> Any:
    """Import torchmetrics' functions."""
    try:
        import torchmetrics.functional
    except ImportError:
        raise MissingExtraError(f"evaluation needs torchmetrics: {install('train')}") from None
    return torchmetrics.functional
