"""Trains a model to guess masked tokens (Devlin et al. 2019, section 3.1)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.errors import InputError
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.tasks.cross_entropy import linear_cross_entropy
from roberta_hub.train.tasks.features import hidden
from roberta_hub.train.tasks.training_task import Batch, Loss


class MaskedLM(nn.Module):
    """A model that learns to guess the chosen tokens; its loss is that of the LM head."""

    METRICS = ("loss", "perplexity", "top1", "top5")

    def __init__(self, roberta: Roberta) -> None:
        super().__init__()
        _require_lm_head(roberta)
        self.roberta = roberta

    def forward(self, batch: Batch) -> Loss:
        """Sum the cross-entropy over the vocabulary of the chosen tokens."""
        wanted = batch.targets["ids"]
        if torch.is_grad_enabled():
            states = hidden(self.roberta, batch, batch.targets["rows"])
            return Loss(masked_loss(self.roberta, states, wanted))
        logits = masked_logits(self.roberta, batch).float()  # (M, V)
        return Loss(F.cross_entropy(logits, wanted, reduction="sum"), _hits(logits, wanted))


def masked_loss(roberta: Roberta, states: Tensor, wanted: Tensor) -> Tensor:
    """Sum the cross-entropy of the chosen tokens, without keeping logits.

    Args:
        roberta: the model.
        states: what it computes of the chosen tokens. Shape: (M, C)
        wanted: their ids. Shape: (M,)
    """
    head = roberta.encoder.lm_head
    assert head is not None  # _require_lm_head
    rows = head.rows(states, roberta.encoder.factor())
    return linear_cross_entropy(rows, head.weight, head.bias, wanted)


def masked_logits(roberta: Roberta, batch: Batch) -> Tensor:
    """Compute the LM logits of the chosen tokens only: (M, V)."""
    return roberta.encoder.output_layer(hidden(roberta, batch, batch.targets["rows"]))


def _hits(logits: Tensor, wanted: Tensor) -> dict[str, Tensor]:
    """Count how often the wanted token is first, and among the first five."""
    top = logits.topk(5, dim=-1).indices.eq(wanted.unsqueeze(1))
    return {"top1": top[:, 0].sum(), "top5": top.any(1).sum()}


def _require_lm_head(roberta: Roberta) -> None:
    if roberta.encoder.lm_head is not None:
        return
    if roberta.replaced_head is not None:
        raise InputError(
            "this model is an ELECTRA discriminator and has no language-model head to pre-train; "
            "begin with the generator of its size, or fine-tune the discriminator"
        )
    raise InputError(
        "this model has no language-model head to pre-train; begin with one that has "
        "(model=roberta.base), or with random weights (pretrained=false)"
    )
