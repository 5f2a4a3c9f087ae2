"""Runs a batch through the encoder, for every task."""

from __future__ import annotations

from torch import Tensor

from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.roberta import Roberta, own_model
from roberta_hub.train.tasks.training_task import Batch


def roberta_of(interface: RobertaHubInterface) -> Roberta:
    """Return the interface's model, which must be ours."""
    return own_model(interface.model, "training changes")


def hidden(roberta: Roberta, batch: Batch, rows: Tensor | None = None) -> Tensor:
    """Compute the features of a batch's tokens, (N, C), or of some, (M, C).

    Args:
        roberta: the model.
        batch: its sequences are packed.
        rows: of the tokens that are wanted, no two alike; None: all. Shape: (M,)
    """
    return roberta.features(batch.packed, rows)


def first_hidden(roberta: Roberta, batch: Batch) -> Tensor:
    """Compute the features of each sequence's first token: (B, C)."""
    return hidden(roberta, batch, batch.packed.starts)
