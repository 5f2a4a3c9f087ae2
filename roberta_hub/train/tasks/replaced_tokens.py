"""Trains a model to tell replaced tokens from original ones (ELECTRA, Clark et al. 2020)."""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.config import RobertaConfig
from roberta_hub.errors import InputError
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.tasks.features import hidden
from roberta_hub.train.tasks.masked_lm import masked_logits
from roberta_hub.train.tasks.objectives import Objectives
from roberta_hub.train.tasks.options import PretrainingOptions
from roberta_hub.train.tasks.training_task import Batch, Loss

REPLACED_HEAD = "replaced"
"""Name of the head that tells replaced tokens from original ones."""


class ReplacedTokens(nn.Module):
    """A model that learns which tokens a smaller masked LM, the generator, has replaced.

    The generator has the model's depth, a share of its width, and its token embeddings. The model
    itself loses its language-model head, which nothing would train.
    """

    METRICS = ("loss", "perplexity", "lm_loss", "recall", "precision")

    def __init__(
        self,
        roberta: Roberta,
        options: PretrainingOptions,
        seed: int,
        objectives: Objectives | None = None,
    ) -> None:
        super().__init__()
        _refuse_discriminator(roberta)
        self.roberta = roberta
        self.objectives = objectives
        self.weight = options.discriminator_weight
        torch.manual_seed(seed)
        if REPLACED_HEAD not in roberta.token_heads:
            roberta.register_token_head(REPLACED_HEAD, 2)
        self.generator = Roberta(_smaller(roberta, options.generator_size))
        shared = roberta.transformer.embed_tokens
        self.generator.transformer.embed_tokens = shared
        self.generator.tie_weights()
        roberta.encoder.lm_head = None
        roberta.config = dataclasses.replace(roberta.config, lm_head=False)

    def forward(self, batch: Batch) -> Loss:
        """Add the generator's loss over chosen tokens and the discriminator's over all tokens."""
        rows, wanted = batch.targets["rows"], batch.targets["ids"]
        logits = masked_logits(self.generator, batch).float()  # (M, V)
        lm = F.cross_entropy(logits, wanted, reduction="sum")
        with torch.no_grad():
            sample = _sample(logits, batch.targets["luck"])
            ids = batch.packed.ids.clone()
            ids[rows] = sample
            replaced = torch.zeros_like(ids)
            replaced[rows] = sample.ne(wanted).long()
        packed = dataclasses.replace(batch.packed, ids=ids)
        rebuilt = hidden(self.roberta, dataclasses.replace(batch, packed=packed))  # (N, C)
        verdicts = self.roberta.token_heads[REPLACED_HEAD](rebuilt).float()  # (N, 2)
        # A sum over all tokens, scaled to the chosen ones, as the loop divides by their number.
        share = len(rows) / max(len(ids), 1)
        found = F.cross_entropy(verdicts, replaced, reduction="sum") * share
        logs = {"lm_loss": lm.detach()}
        if not self.training:
            positive = verdicts.argmax(-1).eq(1)
            both = (positive & replaced.eq(1)).sum() * len(rows)
            logs["recall"] = both / replaced.sum().clamp(min=1)
            logs["precision"] = both / positive.sum().clamp(min=1)
        total = lm + self.weight * found
        if self.objectives is not None:
            seen = [rebuilt[rows] for rows in self.objectives.rows(batch)]
            added = self.objectives(self.roberta, batch, seen)
            total, logs = total + added.total, {**logs, **added.logs}
        return Loss(total, logs)


def _refuse_discriminator(roberta: Roberta) -> None:
    if roberta.replaced_head is not None:
        raise InputError(
            "this model is an ELECTRA discriminator, whose pre-training is not continued here: it "
            "would need the generator that it was trained with; fine-tune it, or begin "
            "replaced_tokens with a masked LM or random weights"
        )


def _sample(logits: Tensor, luck: Tensor) -> Tensor:
    """Draw a token from each distribution (M, V), by inversion at `luck` in 0..1: (M,)."""
    cumulative = logits.softmax(-1).cumsum(-1)
    at = (luck * cumulative[:, -1]).unsqueeze(1)
    return torch.searchsorted(cumulative, at).squeeze(1).clamp(max=logits.size(1) - 1)


def _smaller(roberta: Roberta, share: float) -> RobertaConfig:
    config = roberta.config
    if not 0.0 < share <= 1.0:
        raise InputError(f"task.options.generator_size is {share}, must lie between 0 and 1")
    heads = max(1, round(config.num_heads * share))
    width = heads * config.head_dim
    return dataclasses.replace(
        config,
        embed_dim=width,
        ffn_dim=max(1, round(config.ffn_dim * width / config.embed_dim)),
        num_heads=heads,
        embedding_dim=config.embedding_dim or config.embed_dim,
        untie_weights=False,
        lm_head=True,
    )
