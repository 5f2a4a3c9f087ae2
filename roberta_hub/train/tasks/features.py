"""Runs a batch through the encoder, for every task."""

from __future__ import annotations

from collections import deque

from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.tasks.training_task import Batch


def roberta_of(interface: RobertaHubInterface) -> Roberta:
    """Return the interface's model, which must be ours."""
    if not isinstance(interface.model, Roberta):
        raise InputError(
            "training needs a roberta_hub model; turn fairseq's into one with "
            "roberta_hub.fairseq_bridge.from_fairseq"
        )
    return interface.model


def hidden(roberta: Roberta, batch: Batch) -> Tensor:
    """Compute the features of a batch's tokens: (N, C)."""
    encoder = roberta.encoder.sentence_encoder
    states = deque(
        encoder.packed(batch.packed), maxlen=1
    )  # without gradients one layer's states are alive at a time
    return encoder.finish(states.pop())
