"""Refuses a damaged model where its answers would be taken for those of a bad one."""

from __future__ import annotations

from torch import nn

from roberta_hub.errors import InputError


def check_weights(model: nn.Module, name: str = "the model") -> None:
    """Refuse a model with NaN among its weights: it would be measured as one that knows nothing.

    Example:
        >>> check_weights(nn.Linear(2, 2))
    """
    for key, value in model.state_dict().items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise InputError(f"{name}'s weight {key} holds NaN or infinity; it is damaged")
