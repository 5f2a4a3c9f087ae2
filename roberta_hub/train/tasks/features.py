"""Runs a batch through the encoder, for every task."""

from __future__ import annotations

from torch import Tensor

from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.heads import pooling_of
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


def head_logits(roberta: Roberta, batch: Batch, head: str) -> Tensor:
    """Compute a classification head's logits of each sequence: (B, K).

    It reads the first token's features, or the mean of all tokens', as it pools.

    Args:
        roberta: the model.
        batch: its sequences are packed.
        head: the head's name.
    """
    module = roberta.classification_heads[head]
    if pooling_of(module) == "mean":
        vectors = batch.packed.mean_rows(hidden(roberta, batch))  # (B, C)
    else:
        vectors = hidden(roberta, batch, batch.packed.starts)
    logits: Tensor = module(vectors.unsqueeze(1))
    return logits
