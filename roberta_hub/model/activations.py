"""Finds activation functions by fairseq's names and Hugging Face's."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def _quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


def _gelu_10(x: Tensor) -> Tensor:
    return F.gelu(x).clip(-10, 10)


def _relu_squared(x: Tensor) -> Tensor:
    return F.relu(x).square()


def _laplace(x: Tensor) -> Tensor:
    return 0.5 * (1.0 + torch.erf((x - 0.707107) / (0.282095 * math.sqrt(2.0))))


def _sqrtsoftplus(x: Tensor) -> Tensor:
    return F.softplus(x).sqrt()


def _linear(x: Tensor) -> Tensor:
    return x


# Functions with names, not lambdas: a model is pickled with them, for another process say.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_accurate": _gelu_tanh,
    "gelu_fast": _gelu_tanh,
    "relu": F.relu,
    "relu_squared": _relu_squared,
    "tanh": torch.tanh,
    "linear": _linear,
    "swish": F.silu,
    # Those below are Hugging Face's alone.
    "quick_gelu": _quick_gelu,
    "gelu_10": _gelu_10,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "laplace": _laplace,
    "leaky_relu": F.leaky_relu,
    "relu6": F.relu6,
    "sigmoid": torch.sigmoid,
    "sqrtsoftplus": _sqrtsoftplus,
}
"""fairseq's names (`fairseq/utils.py get_activation_fn`), else Hugging Face's.

"gelu" is the exact, erf form."""


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """Return the activation function called `name`; InputError lists the names there are."""
    if name not in ACTIVATIONS:
        raise InputError(
            f"no activation function {short_repr(name)}; there are {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]
