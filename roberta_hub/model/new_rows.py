"""Gives a model rows for new ids: in its embedding table, and in the LM head's output."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from roberta_hub.model.roberta import Roberta

STD = 0.02
"""Standard deviation of the noise around the mean: all matrices start from N(0, 0.02) (Devlin et
al. 2019)."""


def add_rows(model: Roberta, start: int, end: int) -> None:
    """Give the ids from `start` to `end`, exclusive, new rows; the tables grow where they must.

    A new row is the mean of the rows before `start` and noise of its own id, so that a new word's
    logit is that of an average one and no two words are alike; a new bias is the mean of the
    others. Rows that the table had beyond the vocabulary are replaced. The parameters are new
    ones: an optimizer knows the old.

    Example:
        >>> from roberta_hub.config import RobertaConfig
        >>> sizes = dict(vocab_size=50, embed_dim=8, ffn_dim=16, num_layers=1, num_heads=2)
        >>> model = Roberta(RobertaConfig(**sizes))
        >>> add_rows(model, 50, 53)
        >>> model.config.vocab_size, model.encoder.lm_head.bias.shape
        (53, torch.Size([53]))
    """
    table, head = model.transformer.embed_tokens, model.encoder.lm_head
    pad = model.config.padding_idx
    table.weight = _grown(table.weight, start, end, pad)
    table.num_embeddings = len(table.weight)
    if head is not None:
        if model.config.untie_weights:
            head.weight = _grown(head.weight, start, end, pad)
        head.bias = _grown(head.bias, start, end, pad)
    model.tie_weights()
    model.config = replace(model.config, vocab_size=len(table.weight))
    model.transformer.vocab_size = len(table.weight)


def _grown(old: Tensor, start: int, end: int, pad: int) -> nn.Parameter:
    """Return a table with new rows, or a bias with new values: (V, *) -> (max(V, end), *)."""
    known = old.detach()
    counted = torch.arange(start, device=known.device).ne(pad)
    mean = known[:start][counted].float().mean(0)
    rows = torch.stack([mean + _noise(i, mean) for i in range(start, end)])
    parts = [known[:start], rows.to(known.dtype), known[end:]]
    return nn.Parameter(torch.cat(parts), requires_grad=old.requires_grad)


def _noise(number: int, like: Tensor) -> Tensor:
    """Noise of an id, the same on every machine; a bias has none."""
    if not like.dim():
        return torch.zeros_like(like)
    generator = torch.Generator().manual_seed(number)
    return STD * torch.randn(like.shape, generator=generator).to(like.device)
