"""Replaces fairseq's arguments of a checkpoint of any format, where no tensor depends on them."""

from __future__ import annotations

from collections.abc import Mapping

from roberta_hub.checkpoint.checkpoint import PRUNING, Checkpoint
from roberta_hub.errors import InputError
from roberta_hub.formats.fairseq_arguments import layers_to_keep, override_config
from roberta_hub.formats.upgrade import prune

OVERRIDABLE_FIELDS = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "pooler_dropout",
    "encoder_layerdrop",
)
"""Arguments that change no tensor, so that a checkpoint of any format takes them."""


def override(checkpoint: Checkpoint, overrides: Mapping[str, object]) -> None:
    """Replace arguments of a checkpoint of any format, in place."""
    config = override_config(checkpoint.config, overrides)
    fixed = [name for name in overrides if name not in (*OVERRIDABLE_FIELDS, PRUNING)]
    if fixed:
        raise InputError(
            f"{', '.join(fixed)}: fixed by the weights or by the format of {checkpoint.source}, "
            f"which fairseq did not write; it takes {', '.join((*OVERRIDABLE_FIELDS, PRUNING))}"
        )
    keep = layers_to_keep(overrides.get(PRUNING))
    if keep is not None:
        if checkpoint.config.num_unique_layers is not None:
            raise InputError(
                f"{PRUNING}: the layers of {checkpoint.source} share their weights, none can go"
            )
        checkpoint.weights = prune(checkpoint.weights, keep, checkpoint.source)
    checkpoint.config = config
