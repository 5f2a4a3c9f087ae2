"""Checkpoints in the form of every era that fairseq had."""

from __future__ import annotations

import copy
import shutil
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .fairseq_peer import Era, Peer, _meters, _quiet

_LATER_THAN_2019 = {
    "adaptive_input",
    "ema_decay",
    "encoder_layerdrop",
    "encoder_layers_to_keep",
    "encoder_learned_pos",
    "ffn_blocks_to_remove",
    "ffn_reg_scale_factor",
    "layernorm_embedding",
    "load_checkpoint_heads",
    "max_source_positions",
    "mha_heads_to_keep",
    "mha_reg_scale_factor",
    "min_params_to_wrap",
    "no_scale_embedding",
    "no_token_positional_embeddings",
    "quant_noise_pq",
    "quant_noise_pq_block_size",
    "quant_noise_scalar",
    "spectral_norm_classification_head",
    "stop_min_lr",
    "untie_weights_roberta",
}


def save_era(
    peer: Peer,
    directory: Path,
    era: Era = "plain",
    *,
    half: bool = False,
    name: str = "model.pt",
    **args: Any,
) -> Path:
    """Save as fairseq of an era did, dictionaries beside it.

    Args:
        peer: From `fairseq_model`.
        directory: Made if missing.
        era: "legacy" (≤ 0.9, as the published files): not a zip, `args`, fused in_proj, keys
            `decoder.` and `emb_layer_norm`, pickled meters. "args" (0.10): zip, `args`,
            `emb_layer_norm`. "cfg" (main, 2020-10 to 2021-03): a pickled DictConfig. "plain"
            (0.12): what `Trainer.state_dict` returns.
        half: Cast the weights to float16, as the published files have them.
        name: Of the file.
        **args: Values to put over the saved arguments.

    Returns:
        The path of the checkpoint.
    """
    from fairseq.dataclass.utils import omegaconf_no_object_check

    prenorm = peer.args.encoder_normalize_before
    if prenorm and era in ("legacy", "args"):
        raise ValueError(f"there was no pre-norm RoBERTa in the era {era!r}")
    state = _trainer_state(peer)
    weights = state["model"]
    if era != "plain":
        weights = _without_copies(weights)
    if era in ("legacy", "args") or (era == "cfg" and not prenorm):
        weights = _renamed(weights, {"layernorm_embedding": "emb_layer_norm"})
        weights = OrderedDict((k, v) for k, v in weights.items() if not k.endswith(".version"))
    if era == "legacy":
        weights = _renamed(_fused(weights), {"encoder.": "decoder."})
    if half:
        weights = OrderedDict((key, value.half()) for key, value in weights.items())
    state["model"] = weights

    if era == "plain":
        model = Namespace(**{**vars(peer.cfg.model), **args})
        state["cfg"] = {**state["cfg"], "model": model}
    elif era == "cfg":
        state["cfg"] = copy.deepcopy(peer.cfg)
        with omegaconf_no_object_check():  # as fairseq puts a Namespace into a DictConfig
            state["cfg"].model = Namespace(**{**vars(peer.cfg.model), **args})
    else:
        del state["cfg"], state["criterion"], state["task_state"]
        fields = dict(vars(peer.args))
        if era == "legacy":
            fields = {key: value for key, value in fields.items() if key not in _LATER_THAN_2019}
            fields |= {"min_lr": -1, "raw_text": False, "lazy_load": False}
        state["args"] = Namespace(**{**fields, **args})

    directory.mkdir(parents=True, exist_ok=True)
    for file in ("dict.txt", "input0/dict.txt", "label/dict.txt"):
        source, target = peer.data / file, directory / file
        if source.is_file() and not (target.exists() and target.samefile(source)):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    if era == "legacy":
        _save_2019(state, directory / name)
    else:
        torch.save(state, directory / name)
    return directory / name


def _trainer_state(peer: Peer) -> dict[str, Any]:
    """What fairseq 0.12.2's trainer would save now, the iterator's part of it included."""
    from fairseq import utils
    from fairseq.trainer import Trainer

    with _quiet():
        criterion = peer.task.build_criterion(peer.cfg.criterion)
        trainer = Trainer(peer.cfg, peer.task, peer.model, criterion)
        trainer.consolidate_optimizer()  # sets an attribute that state_dict() reads
        state: dict[str, Any] = utils.move_to_cpu(trainer.state_dict())
    iterator = {"version": 2, "epoch": 1, "iterations_in_epoch": 0, "shuffle": True}
    state["extra_state"].update(train_iterator=iterator, val_loss=None)
    return state


def _without_copies(weights: Mapping[str, Tensor]) -> OrderedDict[str, Tensor]:
    """Leave out the 8 BetterTransformer copies per layer, which came with 0.12."""
    copies = ("in_proj", "out_proj", "fc1", "fc2")
    endings = tuple(f".{copy}_{kind}" for copy in copies for kind in ("weight", "bias"))
    return OrderedDict((k, v) for k, v in weights.items() if not k.endswith(endings))


def _fused(weights: Mapping[str, Tensor]) -> OrderedDict[str, Tensor]:
    """`q_proj`, `k_proj`, `v_proj` as one `in_proj_weight` and `in_proj_bias`, in that order."""
    fused: OrderedDict[str, Tensor] = OrderedDict()
    for key, value in weights.items():
        stem, _, kind = key.rpartition(".")
        if stem.endswith("q_proj"):
            parts = [weights[f"{stem[:-6]}{letter}_proj.{kind}"] for letter in "qkv"]
            fused[f"{stem[:-6]}in_proj_{kind}"] = torch.cat(parts)
        elif not stem.endswith(("k_proj", "v_proj")):
            fused[key] = value
    return fused


def _renamed(weights: Mapping[str, Tensor], names: Mapping[str, str]) -> OrderedDict[str, Tensor]:
    renamed: OrderedDict[str, Tensor] = OrderedDict()
    for key, value in weights.items():
        for new, old in names.items():
            key = key.replace(new, old, 1)
        renamed[key] = value
    return renamed


def _save_2019(state: dict[str, Any], path: Path) -> None:
    """Save in the old file format, with the meters that a trainer of 2019 pickled whole."""
    from fairseq import meters

    average, time, stopwatch = kinds = _meters(meters)
    made: OrderedDict[str, Any] = OrderedDict(
        train_loss=_object(average, val=2.5, avg=2.75, sum=275.0, count=100),
        wps=_object(time, init=0, start=1.5, n=1000),
        train_wall=_object(stopwatch, sum=12.5, n=100, start_time=None),
    )
    state["extra_state"].pop("metrics", None)
    state["extra_state"]["train_meters"] = made
    homes = [kind.__module__ for kind in kinds]
    try:
        for kind in kinds:  # moved to fairseq.logging.meters in 2020
            kind.__module__ = "fairseq.meters"
        torch.save(state, path, _use_new_zipfile_serialization=False)
    finally:
        for kind, home in zip(kinds, homes, strict=True):
            kind.__module__ = home


def _object(kind: type, **attributes: Any) -> Any:
    """An object of a class whose attributes have changed since."""
    made: Any = object.__new__(kind)
    made.__dict__.update(attributes)
    return made
