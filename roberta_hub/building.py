"""Builds the model of a checkpoint, with every tensor in its place."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TypeVar

import torch

from roberta_hub.checkpoint.checkpoint import (
    EMBEDDING,
    LM_WEIGHT,
    POOLER,
    REPLACED_HEAD,
    Checkpoint,
)
from roberta_hub.errors import CheckpointError, InputError, Remedy
from roberta_hub.model.roberta import Roberta
from roberta_hub.model.skeleton import shapes_only
from roberta_hub.settings import column

Model = TypeVar("Model", bound=Roberta)


def build(
    checkpoint: Checkpoint, kind: type[Model], *, strict: bool = True, empty: bool = False
) -> Model:
    """Build the model as shapes only and assign the weights, so that no second copy is ever made.

    Raises:
        CheckpointError: tensors are missing, too many, or of another shape.
    """
    if not checkpoint.weights:
        with shapes_only() if empty else nullcontext():
            model = kind(checkpoint.config)
            _add_parts(model, checkpoint)
            for head, labels in column(checkpoint.known_heads, "labels").items():
                model.register_classification_head(head, len(labels))
        return model
    try:
        with shapes_only():
            model = kind(checkpoint.config)
            for head, (num_classes, inner_dim) in checkpoint.heads().items():
                known = checkpoint.known(head)
                model.register_classification_head(
                    head,
                    num_classes,
                    inner_dim,
                    pooling=known.pooling,
                    normalize=known.normalize,
                )
            for head, num_classes in checkpoint.token_heads().items():
                model.register_token_head(head, num_classes)
            for head in checkpoint.span_heads():
                model.register_span_head(head)
            _add_parts(model, checkpoint)
    except InputError as error:  # an activation or a head that cannot be
        raise CheckpointError(f"{checkpoint.source}: {error}") from None
    weights = dict(checkpoint.weights)
    config = checkpoint.config
    if config.lm_head and not config.untie_weights and EMBEDDING in weights:
        weights[LM_WEIGHT] = weights[EMBEDDING]
    weights = _check_fit(model.state_dict(), weights, checkpoint.source, strict)
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    return model


def _add_parts(model: Roberta, checkpoint: Checkpoint) -> None:
    if checkpoint.has(POOLER):
        model.add_pooler()
    if checkpoint.has(REPLACED_HEAD):
        model.add_replaced_head()
    settings = checkpoint.sentence
    if settings is not None and settings.layers:
        shapes = {name: tuple(tensor.shape) for name, tensor in checkpoint.weights.items()}
        width = checkpoint.config.embed_dim * len(settings.pooling)
        model.add_sentence_layers(settings.layers, shapes, width)


def _check_fit(
    expected: Mapping[str, torch.Tensor],
    weights: dict[str, torch.Tensor],
    source: str,
    strict: bool,
) -> dict[str, torch.Tensor]:
    """Return every tensor where it belongs; the error says which do not fit, and why."""
    missing = [name for name in expected if name not in weights]
    unexpected = [name for name in weights if name not in expected]
    wrong = [
        name for name in expected if name in weights and expected[name].shape != weights[name].shape
    ]
    if missing:
        raise CheckpointError(
            f"{source}: {len(missing)} tensors are missing: {_some(missing)}; the file is "
            "incomplete, or of another architecture"
        )
    if wrong:
        name = wrong[0]
        raise CheckpointError(
            f"{source}: {name} has shape {tuple(weights[name].shape)}, the configuration wants "
            f"{tuple(expected[name].shape)} ({len(wrong)} tensors differ): "
            f"{_cause(name, expected[name].shape[:1] != weights[name].shape[:1])}"
        )
    counts = [name for name in expected if not weights[name].is_floating_point()]
    if counts:
        raise CheckpointError(
            f"{source}: {counts[0]} holds {weights[counts[0]].dtype}, not floating-point weights "
            f"({len(counts)} tensors); was the model quantized? load the original"
        )
    if unexpected and strict:
        raise CheckpointError(
            f"{source}: {len(unexpected)} tensors have no place in a RoBERTa: {_some(unexpected)}",
            remedy=Remedy("strict=False ignores them", ""),
        )
    if unexpected:
        warnings.warn(f"{source}: ignored {_some(unexpected)}", stacklevel=6)
    return {name: weights[name] for name in expected}


def _cause(name: str, rows_differ: bool) -> str:
    if rows_differ and name in (EMBEDDING, LM_WEIGHT, "encoder.lm_head.bias"):
        return "the vocabulary is of another size"
    if "embed_positions" in name:
        return "max_positions is not what the model was trained with"
    return "base and large mixed up, or an argument overridden that fixes a size"


def _some(names: list[str]) -> str:
    return ", ".join(name[:100] for name in names[:5]) + (", ..." if len(names) > 5 else "")
