"""Recomputes layers in the backward pass: gradient checkpointing (Chen et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from roberta_hub.model.layer import TransformerLayer


@contextmanager
def recomputed_layers(module: nn.Module) -> Iterator[None]:
    """Let every encoder layer keep only its input inside the block: same numbers, less memory."""
    layers = [m for m in module.modules() if isinstance(m, TransformerLayer)]
    for layer in layers:
        # An attribute of the instance hides the class's method, so no model file needs to know.
        layer.forward = partial(_recomputed, layer.forward)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _recomputed(forward: Any, *args: Any) -> Any:
    return checkpoint(forward, *args, use_reentrant=False)
