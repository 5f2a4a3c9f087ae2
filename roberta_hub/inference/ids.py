"""Outputs of fairseq's methods on ids, with gradients and in the current mode."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.settings import HeadKind


def hidden_states(model: nn.Module, ids: Tensor, every_layer: bool) -> Tensor | list[Tensor]:
    """Compute the features of a batch, or the states of every layer, the embeddings first.

    Args:
        model: ours or fairseq's.
        ids: checked. Shape: (B, T)
        every_layer: False returns the last layer only.
    """
    x, extra = model(ids, features_only=True, return_all_hiddens=every_layer)
    if not every_layer:
        return x  # type: ignore[no-any-return]
    return [state.transpose(0, 1) for state in extra["inner_states"]]  # T x B x C -> B x T x C


def logits(model: nn.Module, ids: Tensor, head: str) -> Tensor:
    """Compute the outputs of a classification head: (B, T) -> (B, num_classes)."""
    values: Tensor = model(ids, features_only=True, classification_head_name=head)[0]
    return values


def log_probabilities(logits: Tensor, kind: HeadKind | None) -> Tensor:
    """Log-probabilities of logits, as fairseq's; log-sigmoid for multi-label heads."""
    return F.logsigmoid(logits) if kind == "multi_label" else F.log_softmax(logits, dim=-1)
