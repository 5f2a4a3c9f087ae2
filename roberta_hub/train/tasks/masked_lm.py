"""Trains a model to guess masked tokens (Devlin et al. 2019, section 3.1)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.errors import InputError
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.tasks.cross_entropy import linear_cross_entropy
from roberta_hub.train.tasks.features import hidden
from roberta_hub.train.tasks.objectives import Objectives, gather
from roberta_hub.train.tasks.training_task import Batch, Loss


class MaskedLM(nn.Module):
    """A model that learns to guess the chosen tokens; its loss is that of the LM head."""

    METRICS = ("loss", "perplexity", "top1", "top5")

    def __init__(self, roberta: Roberta, objectives: Objectives | None = None) -> None:
        super().__init__()
        require_lm_head(roberta)
        self.roberta = roberta
        self.objectives = objectives

    def forward(self, batch: Batch) -> Loss:
        """Sum the cross-entropy over the vocabulary of the chosen tokens, and other objectives'."""
        more, rows = self.objectives, batch.targets["rows"]
        if more is None:
            return self._words(hidden(self.roberta, batch, rows), batch)
        states, *others = gather(self.roberta, batch, [rows, *more.rows(batch)])
        words, added = self._words(states, batch), more(self.roberta, batch, others)
        logs = {"lm_loss": words.total.detach(), **words.logs, **added.logs}
        return Loss(words.total + added.total, logs)

    def _words(self, states: Tensor, batch: Batch) -> Loss:
        wanted = batch.targets["ids"]
        if torch.is_grad_enabled():
            return Loss(masked_loss(self.roberta, states, wanted))
        logits = self.roberta.encoder.output_layer(states).float()  # (M, V)
        return Loss(F.cross_entropy(logits, wanted, reduction="sum"), _hits(logits, wanted))


def masked_loss(roberta: Roberta, states: Tensor, wanted: Tensor) -> Tensor:
    """Sum the cross-entropy of the chosen tokens, without keeping logits.

    Args:
        roberta: the model.
        states: what it computes of the chosen tokens. Shape: (M, C)
        wanted: their ids. Shape: (M,)
    """
    head = roberta.encoder.lm_head
    assert head is not None  # require_lm_head
    rows = head.rows(states, roberta.encoder.factor())
    return linear_cross_entropy(rows, head.weight, head.bias, wanted)


def masked_logits(roberta: Roberta, batch: Batch) -> Tensor:
    """Compute the LM logits of the chosen tokens only: (M, V)."""
    return roberta.encoder.output_layer(hidden(roberta, batch, batch.targets["rows"]))


def _hits(logits: Tensor, wanted: Tensor) -> dict[str, Tensor]:
    """Count how often the wanted token is first, and among the first five."""
    top = logits.topk(5, dim=-1).indices.eq(wanted.unsqueeze(1))
    return {"top1": top[:, 0].sum(), "top5": top.any(1).sum()}


def require_lm_head(roberta: Roberta) -> None:
    """Refuse a model without a language-model head."""
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
