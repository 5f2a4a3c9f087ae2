"""Runs a batch through the encoder, for every task."""

from __future__ import annotations

from torch import Tensor

from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.heads import pooling_of
from roberta_hub.model.roberta import Roberta, require_roberta
from roberta_hub.train.tasks.training_task import Batch


def roberta_of(interface: RobertaHubInterface) -> Roberta:
    """Return the interface's model, which must be ours."""
    return require_roberta(interface.model, "training changes")


def hidden(roberta: Roberta, batch: Batch, rows: Tensor | None = None) -> Tensor:
    """Compute the features of a batch's tokens, (N, C), or of some, (M, C).

    Args:
        roberta: the model.
        batch: its sequences are packed.
        rows: of the tokens that are wanted, no two alike; None: all. Shape: (M,)
    """
    return roberta.features(batch.packed, rows)


def head_vectors(roberta: Roberta, batch: Batch, head: str) -> Tensor:
    """Compute what a classification head reads of each sequence: (B, C).

    It is the first token's features, or the mean of all tokens', as the head pools.

    Args:
        roberta: the model.
        batch: its sequences are packed.
        head: the head's name.
    """
    if pooling_of(roberta.classification_heads[head]) == "mean":
        return batch.packed.mean_rows(hidden(roberta, batch))
    return hidden(roberta, batch, batch.packed.starts)


def head_logits(roberta: Roberta, batch: Batch, head: str) -> Tensor:
    """Compute a classification head's logits of each sequence: (B, K).

    Args:
        roberta: the model.
        batch: its sequences are packed.
        head: the head's name.
    """
    vectors = head_vectors(roberta, batch, head)
    logits: Tensor = roberta.classification_heads[head](vectors.unsqueeze(1))
    return logits
