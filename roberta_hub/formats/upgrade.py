"""Renames the tensors of every fairseq era to today's names.

Rules have the numbers of the tests. U1-U9 are fairseq's own (`fairseq/models/roberta/model.py
upgrade_state_dict_named`, `checkpoint_utils.prune_state_dict`); U10-U13 fix what fairseq leaves
broken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch import Tensor

from roberta_hub.checkpoint.checkpoint import LAYER
from roberta_hub.errors import CheckpointError
from roberta_hub.model.layer import STALE

Weights = dict[str, Tensor]

_STALE = re.compile(rf"\.layers\.\d+\.({'|'.join(STALE)})$")
_LAYER_KEY = re.compile(re.escape(LAYER) + r"(\d{1,4})\.", re.ASCII)
_OLD_NORMS = {
    ".layer_norms.0.": ".self_attn_layer_norm.",
    ".layer_norms.1.": ".final_layer_norm.",
    ".emb_layer_norm.": ".layernorm_embedding.",
}


def upgrade(weights: Weights, *, source: str) -> Weights:
    """Rename, split and drop until the names are today's.

    `prune` (U9) comes after it; that order is U12.
    """
    weights = _rename(weights, source)  # U1, U2, U3
    weights = {name: tensor for name, tensor in weights.items() if not is_stale(name)}  # U10
    weights = _split_in_proj(weights, source)  # U4
    return _drop_data2vec(weights)  # U8


def is_stale(name: str) -> bool:
    """U10: whether a name belongs to 0.12's unused second copy of a layer.

    Training does not change that copy, so it must not be read.
    """
    return _STALE.search(name) is not None


def is_post_norm_era(weights: Weights) -> bool:
    """U13: tell by its names whether a file is of before February 2021, and so post-norm.

    `--encoder-normalize-before` was accepted and ignored then: v0.9.0's model.py is post-norm only.
    """
    return any(key.startswith("decoder.") or ".emb_layer_norm." in key for key in weights)


def _rename(weights: Weights, source: str) -> Weights:
    renamed: Weights = {}
    for old, tensor in weights.items():
        new = "encoder" + old[len("decoder") :] if old.startswith("decoder.") else old
        for before, after in _OLD_NORMS.items():
            new = new.replace(before, after)
        if new in renamed:
            raise CheckpointError(f"{source}: {old!r} and another tensor both upgrade to {new!r}")
        renamed[new] = tensor
    return renamed


def _split_in_proj(weights: Weights, source: str) -> Weights:
    """U4: one (3C, C) matrix of the attention becomes q, k and v."""
    split: Weights = {}
    for key, tensor in weights.items():
        match = re.fullmatch(r"(.*\.self_attn\.)in_proj_(weight|bias)", key)
        if match is None:
            split[key] = tensor
            continue
        rows = tensor.size(0) if tensor.dim() else 0
        if not rows or rows % 3:
            raise CheckpointError(f"{source}: {key} has {rows} rows, not a multiple of 3")
        for name, part in zip("qkv", tensor.chunk(3), strict=True):
            new = f"{match[1]}{name}_proj.{match[2]}"
            if new in weights:
                raise CheckpointError(
                    f"{source}: holds both {key!r} and {new!r}, which is its part"
                )
            split[new] = part
    return split


def _drop_data2vec(weights: Weights) -> Weights:
    """U8: leave out data2vec's teachers and regression head, which are no part of the encoder."""
    dropped = ("encoder.regression_head", "encoder._ema", "encoder.target_model.")
    return {key: tensor for key, tensor in weights.items() if not key.startswith(dropped)}


def prune(weights: Weights, keep: Sequence[int], source: str) -> Weights:
    """U9: keep some layers and renumber them."""
    numbers = {old: new for new, old in enumerate(sorted(set(keep)))}
    have = count_layers(weights)
    if not numbers or min(numbers) < 0 or max(numbers) >= have:
        raise CheckpointError(
            f"{source}: encoder_layers_to_keep={list(keep)}, the file has layers 0..{have - 1}"
        )
    pruned: Weights = {}
    for key, tensor in weights.items():
        match = _LAYER_KEY.match(key)
        if match is None:
            pruned[key] = tensor
        elif int(match[1]) in numbers:
            pruned[f"{LAYER}{numbers[int(match[1])]}.{key[match.end() :]}"] = tensor
    return pruned


def count_layers(weights: Weights) -> int:
    """Count the layers of a state dict with today's names."""
    found = (_LAYER_KEY.match(key) for key in weights)
    return max((int(match[1]) + 1 for match in found if match), default=0)
