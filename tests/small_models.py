"""Small models of random weights, biases and norms too.

So none can be swapped or forgotten unseen.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from roberta_hub import RobertaConfig, RobertaHubInterface, RobertaModel
from roberta_hub.checkpoint.fetch import catalogue
from roberta_hub.text import Dictionary, Task

PAD = 1
PLAIN: dict[str, Any] = {
    "vocab_size": 60,
    "embed_dim": 16,
    "ffn_dim": 24,
    "num_layers": 3,
    "num_heads": 4,
    "max_positions": 20,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}


def randomise(model: nn.Module, seed: int = 0, std: float = 0.2) -> None:
    """Draw every parameter anew, the row of `<pad>` too.

    Norm weights lie around 1, all else around 0.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            neutral = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(neutral + std * torch.randn(parameter.shape, generator=generator))


def small_model(
    seed: int = 0, heads: Mapping[str, int] | None = None, **overrides: Any
) -> RobertaModel:
    """A model of 60 symbols and 20 positions, in train mode without dropout."""
    model = RobertaModel(RobertaConfig(**{**PLAIN, **overrides}))
    for name, classes in (heads or {}).items():
        model.register_classification_head(name, classes)
    randomise(model, seed)
    return model


def small_roberta(
    seed: int = 0,
    heads: Mapping[str, int] | None = None,
    labels: Mapping[str, tuple[str, ...]] | None = None,
    **overrides: Any,
) -> RobertaHubInterface:
    """An interface with RoBERTa's own vocabulary around a model of 48 positions, in eval mode."""
    sizes: dict[str, Any] = {"vocab_size": 50265, "embed_dim": 32, "max_positions": 48}
    model = small_model(seed, heads, **{**sizes, "dropout": 0.1, **overrides})
    task = Task(Dictionary.roberta())
    return RobertaHubInterface(model.config, task, model, labels=labels).eval()


def copied(roberta: RobertaHubInterface) -> RobertaHubInterface:
    """Copy a model for a test of its own; its BPE, large and never changed, is shared."""
    return copy.deepcopy(roberta, {id(roberta.bpe): roberta.bpe})


def take_any_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every name stand for a model of any size: small ones are served in their place."""
    models = [replace(record, unsure=catalogue.SHAPE_FIELDS) for record in catalogue.MODELS]
    monkeypatch.setattr(catalogue, "MODELS", tuple(models))


def assert_close(ours: Tensor, wanted: Tensor, tolerance: float = 1e-5) -> None:
    """Equal up to rounding; for values above 1, relative to the largest."""
    scale = max(1.0, float(wanted.detach().abs().max())) if wanted.numel() else 1.0
    torch.testing.assert_close(ours, wanted, atol=tolerance * scale, rtol=0)
