"""Runs a batch through the encoder, for every task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.heads import pooling_of
from roberta_hub.model.roberta import Roberta, require_roberta
from roberta_hub.train.tasks.training_task import Batch


def roberta_of(interface: RobertaHubInterface) -> Roberta:
    """Return the interface's model, which must be ours."""
    return require_roberta(interface.model, "training changes")


def hidden(roberta: Roberta, batch: Batch, rows: Tensor | None = None) -> Tensor:
    """Compute the features of a batch's tokens, (N, C), or of some rows, no two alike: (M, C)."""
    return roberta.features(batch.packed, rows)


def head_vectors(roberta: Roberta, batch: Batch, head: str) -> Tensor:
    """Compute what a classification head pools of each sequence, first token or mean: (B, C)."""
    if pooling_of(roberta.classification_heads[head]) == "mean":
        return batch.packed.mean_rows(hidden(roberta, batch))
    return hidden(roberta, batch, batch.packed.starts)


def head_logits(roberta: Roberta, batch: Batch, head: str) -> Tensor:
    """Compute a classification head's logits of each sequence: (B, K)."""
    vectors = head_vectors(roberta, batch, head)
    logits: Tensor = roberta.classification_heads[head](vectors.unsqueeze(1))
    return logits


def table_places(counts: Sequence[int]) -> dict[str, Tensor]:
    """Make the targets by which `table_of` knows how many scores each example has.

    Example:
        >>> table_places([1, 2])["places"]
        tensor([0, 2, 3])
    """
    width = max(counts)
    places = [row * width + k for row, count in enumerate(counts) for k in range(count)]
    # Only the width's length counts: a shape is known without asking a device.
    return {"places": torch.tensor(places), "width": torch.empty(width)}


def table_of(scores: Tensor, targets: Mapping[str, Tensor]) -> Tensor:
    """Give each example its row of scores: (all,) -> (B, most), minus infinity for missing ones."""
    examples, width = len(targets["labels"]), len(targets["width"])
    table = scores.new_full((examples * width,), -torch.inf)
    return table.index_copy(0, targets["places"], scores).view(examples, width)
