"""fairseq's model.pt, safely, both ways: every era from 2019 to 0.12 in, 0.12's plain form out."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub.checkpoint.contents import (
    EMBEDDING,
    LAYER,
    LM_WEIGHT,
    VERSION,
    Checkpoint,
    expand,
    own,
    replacing,
)
from roberta_hub.checkpoint.unpickle import load_pickle, plain
from roberta_hub.checkpoint.upgrade import count_layers, is_post_norm_era, upgrade
from roberta_hub.config import BASE, LARGE, RobertaConfig
from roberta_hub.errors import CheckpointError, InputError, UnknownNameError

FIELDS = {
    "encoder_embed_dim": "embed_dim",
    "encoder_ffn_embed_dim": "ffn_dim",
    "encoder_layers": "num_layers",
    "encoder_attention_heads": "num_heads",
    "max_positions": "max_positions",
    "activation_fn": "activation_fn",
    "pooler_activation_fn": "pooler_activation_fn",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
    "pooler_dropout": "pooler_dropout",
    "encoder_layerdrop": "layerdrop",
    "encoder_normalize_before": "normalize_before",
    "layernorm_embedding": "layernorm_embedding",
    "untie_weights_roberta": "untie_weights",
    "spectral_norm_classification_head": "spectral_norm_heads",
    "quant_noise_pq": "quant_noise_pq",
}
"""fairseq's argument -> ours, one row a field, used both ways."""

_ARCHITECTURES = {
    "roberta": BASE,
    "roberta_base": BASE,
    "roberta_large": LARGE,
    "roberta_prenorm": RobertaConfig(normalize_before=True, layernorm_embedding=False),
    "xlm": RobertaConfig(num_layers=16, embed_dim=1280, ffn_dim=5120, num_heads=16),
}
_UNSUPPORTED = {
    "adaptive_input": False,
    "no_token_positional_embeddings": False,
    "encoder_learned_pos": True,
    "no_scale_embedding": True,
}
"""Switches that no RoBERTa was published with, and the value that RoBERTa has."""
_FRESH_HISTORY = {
    "criterion_name": "MaskedLmLoss",
    "optimizer_name": "FairseqAdam",
    "lr_scheduler_state": {"best": None},
    "num_updates": 0,
}
_FRESH_ITERATOR = {"version": 2, "epoch": 1, "iterations_in_epoch": 0, "shuffle": True}
"""What fairseq's trainer wants to find in order to train on from a file, at the very beginning."""
_OTHER_ARGUMENTS = ("encoder_layers_to_keep", "data", "task", "arch", "user_dir", "bpe")


def read_fairseq(
    path: Path, overrides: Mapping[str, object] | None = None, dtype: torch.dtype | None = None
) -> Checkpoint:
    """Read a file that fairseq wrote.

    Args:
        path: a model.pt of any era (table in the README).
        overrides: fairseq arguments that replace the file's, by name.
        dtype: of the weights; None widens half precision to float32.

    Raises:
        CheckpointError: missing, damaged, unsafe, or not a RoBERTa.
        UnknownNameError: an override that fairseq's RoBERTa does not have.
    """
    overrides = dict(overrides or {})
    _check_overrides(overrides)
    state = load_pickle(path)
    arguments = _arguments(state, path)
    raw = _tensors(state, path)
    del state  # optimizer state and the rest go at once
    keep = _layers_to_keep(
        overrides.get("encoder_layers_to_keep", arguments.get("encoder_layers_to_keep"))
    )
    era_is_post_norm = is_post_norm_era(raw)
    weights = upgrade(raw, source=str(path), layers_to_keep=keep)
    del raw
    if era_is_post_norm:
        arguments["encoder_normalize_before"] = False
    config = _config(arguments | overrides, weights, overrides, path)
    config = _settle_lm_head(config, weights, path)
    weights[VERSION] = torch.tensor([3.0])
    labels = arguments.get("roberta_hub_labels")
    return Checkpoint(
        config=config,
        weights=own(weights, dtype),
        source=str(path),
        labels={str(k): tuple(map(str, v)) for k, v in labels.items()}
        if isinstance(labels, dict)
        else {},
        task=str(arguments.get("roberta_hub_task") or arguments.get("task") or "masked_lm"),
        init_token=_integer(arguments.get("init_token")),
    )


def _check_overrides(overrides: Mapping[str, object]) -> None:
    known = [*FIELDS, *_UNSUPPORTED, *_OTHER_ARGUMENTS]
    for name in overrides:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            hint = (
                f"did you mean {' or '.join(near)}?"
                if near
                else f"there are {', '.join(sorted(known))}"
            )
            raise UnknownNameError(f"no checkpoint argument {name!r} to override; {hint}")


def override_config(config: RobertaConfig, overrides: Mapping[str, object]) -> RobertaConfig:
    """A configuration with some of fairseq's arguments replaced, for a model without a file."""
    _check_overrides(overrides)
    values = {
        FIELDS[name]: _typed(name, value, getattr(config, FIELDS[name]))
        for name, value in overrides.items()
        if name in FIELDS
    }
    keep = _layers_to_keep(overrides.get("encoder_layers_to_keep"))
    if keep is not None:
        values["num_layers"] = len(set(keep))
    return dataclasses.replace(config, **values)  # type: ignore[arg-type]


def _arguments(state: Any, path: Path) -> dict[str, Any]:
    """The arguments of either form, `args` or `cfg`, as one flat dict of plain values."""
    if not isinstance(state, dict) or not isinstance(state.get("model"), Mapping):
        found = (
            f"keys {sorted(map(str, state))[:8]}"
            if isinstance(state, dict)
            else type(state).__name__
        )
        hint = ""
        if isinstance(state, dict) and any(str(key).startswith("roberta.") for key in state):
            hint = (
                "; this looks like a Hugging Face state dict: give its directory, with config.json"
            )
        raise CheckpointError(
            f"{path}: no fairseq checkpoint: expected a dict with 'model', found {found}{hint}"
        )
    flat: dict[str, Any] = {}
    if state.get("args") is not None:
        flat = _as_dict(plain(state["args"]))
    elif state.get("cfg") is not None:
        cfg = _as_dict(plain(state["cfg"]))
        for group in ("bpe", "task", "model"):
            part = cfg.get(group)
            name = part.get("_name") if isinstance(part, dict) else part
            flat |= _as_dict(part)
            if isinstance(name, str):
                flat["arch" if group == "model" else group] = name
    for ours in ("roberta_hub_labels", "roberta_hub_task"):  # what fairseq's file has no place for
        flat[ours] = plain(state.get(ours))
    return flat


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _tensors(state: dict[str, Any], path: Path) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for name, tensor in state["model"].items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise CheckpointError(
                f"{path}: model[{str(name)[:80]!r}] is a {type(tensor).__name__}, not a tensor"
            )
        if (
            tensor.is_sparse
            or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes()
        ):
            raise CheckpointError(
                f"{path}: tensor {name[:80]!r} claims more elements than are stored"
            )
        weights[name] = tensor
    return weights


def _layers_to_keep(value: object) -> list[int] | None:
    if value is None or value == "":
        return None
    parts = value.split(",") if isinstance(value, str) else value
    try:
        return [int(part) for part in parts]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise InputError(
            f"encoder_layers_to_keep is {value!r}; write layer numbers as '0,2,4'"
        ) from None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _config(
    arguments: dict[str, Any], weights: dict[str, Tensor], overrides: dict[str, object], path: Path
) -> RobertaConfig:
    """The architecture: sizes from the tensors, the rest from the arguments, else from `arch`."""
    for name, value in _UNSUPPORTED.items():
        if arguments.get(name) not in (None, value):
            raise CheckpointError(
                f"{path}: {name}={arguments[name]!r} is not supported, RoBERTa has {value}"
            )
    arch = str(arguments.get("arch") or "")
    preset = _ARCHITECTURES.get(arch, BASE)
    values: dict[str, Any] = {ours: getattr(preset, ours) for ours in FIELDS.values()}
    for theirs, ours in FIELDS.items():
        if arguments.get(theirs) is not None:
            values[ours] = _typed(theirs, arguments[theirs], values[ours])
    sizes = _sizes(weights, path)
    if "encoder_attention_heads" not in arguments and (
        not arch or preset.embed_dim != sizes["embed_dim"]
    ):
        values["num_heads"] = max(1, sizes["embed_dim"] // 64)  # as in every published size
    if not arguments.keys() & (FIELDS.keys() - overrides.keys()):  # a file of weights alone
        values["layernorm_embedding"] = (
            "encoder.sentence_encoder.layernorm_embedding.weight" in weights
        )
        values["normalize_before"] = "encoder.sentence_encoder.layer_norm.weight" in weights
    asked = {FIELDS[name] for name in overrides if name in FIELDS}
    values |= {name: size for name, size in sizes.items() if name not in asked}
    try:
        return RobertaConfig(**values)
    except InputError as error:
        raise CheckpointError(f"{path}: {error}") from None


def _typed(name: str, value: object, like: object) -> object:
    """A configuration value of the type that its field has, from the looser ones that files hold."""
    if isinstance(like, bool):
        if isinstance(value, (bool, int)):
            return bool(value)
    elif isinstance(like, float):
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    elif isinstance(value, type(like)) and not isinstance(value, bool):
        return value
    raise InputError(f"argument {name}={value!r} should be a {type(like).__name__}")


def _sizes(weights: dict[str, Tensor], path: Path) -> dict[str, int]:
    """What the tensors themselves say; a file's arguments may omit or misstate it."""
    positions = weights.get("encoder.sentence_encoder.embed_positions.weight")
    embedding, fc1 = weights.get(EMBEDDING), weights.get(f"{LAYER}0.fc1.weight")
    if embedding is None or positions is None or embedding.dim() != 2 or positions.dim() != 2:
        raise CheckpointError(
            f"{path}: no RoBERTa encoder in this file: {EMBEDDING} or embed_positions is missing; "
            f"it holds {sorted(weights)[:5]}"
        )
    if positions.size(0) < 3:
        raise CheckpointError(
            f"{path}: the position table has {positions.size(0)} rows, fewer than 3"
        )
    layers = count_layers(weights)
    sizes = {"vocab_size": embedding.size(0), "embed_dim": embedding.size(1)}
    sizes |= {"max_positions": positions.size(0) - 2, "num_layers": layers}
    return sizes | ({"ffn_dim": fc1.size(0)} if fc1 is not None and fc1.dim() == 2 else {})


def _settle_lm_head(config: RobertaConfig, weights: dict[str, Tensor], path: Path) -> RobertaConfig:
    """Tie the output matrix where it is tied; a data2vec encoder has no head at all."""
    if not any(key.startswith("encoder.lm_head.") for key in weights):
        return dataclasses.replace(config, lm_head=False)
    if config.untie_weights:
        return config
    output = weights.pop(LM_WEIGHT, None)
    same = output is None or output.data_ptr() == weights[EMBEDDING].data_ptr()
    if output is not None and not same and not torch.equal(output, weights[EMBEDDING]):
        raise CheckpointError(
            f"{path}: the output matrix differs from the token embedding that it should be tied to; "
            "pass untie_weights_roberta=True if this model was trained untied"
        )
    return config


def write_fairseq(checkpoint: Checkpoint, directory: Path) -> None:
    """Write model.pt and dict.txt so that stock fairseq 0.12.2 loads them and trains on.

    The configuration is written as plain dicts: no class at all is pickled, so the file loads under
    torch's `weights_only` default, which fairseq's own files do not.

    Raises:
        CheckpointError: a configuration that fairseq cannot express.
    """
    config, weights = expand(checkpoint.config, checkpoint.weights)
    if config.layer_norm_eps != 1e-5:
        raise CheckpointError(
            f"fairseq knows only LayerNorm eps 1e-5, this model has {config.layer_norm_eps}; "
            "save as 'huggingface' or 'roberta_hub' instead"
        )
    if not config.lm_head:
        raise CheckpointError(
            "fairseq's RoBERTa always has a language-model head and this model has none; "
            "save as 'huggingface' or 'roberta_hub' instead"
        )
    if not config.untie_weights:
        weights.setdefault(LM_WEIGHT, weights[EMBEDDING])
    weights[VERSION] = torch.tensor([3.0])
    state: dict[str, Any] = {
        "args": None,
        "cfg": _cfg(checkpoint, config),
        "model": {name: tensor.detach().cpu() for name, tensor in weights.items()},
        "criterion": None,
        "optimizer_history": [_FRESH_HISTORY],
        "task_state": {},
        "extra_state": {"train_iterator": _FRESH_ITERATOR},
        "roberta_hub_task": checkpoint.task,
        "roberta_hub_labels": {head: list(names) for head, names in checkpoint.labels.items()},
    }
    directory.mkdir(parents=True, exist_ok=True)
    with replacing(directory / "model.pt") as file:
        torch.save(state, file)
    if checkpoint.dictionary is not None:
        _write(directory / "dict.txt", checkpoint.dictionary)
    if checkpoint.label_dictionary is not None:
        _write(directory / "label" / "dict.txt", checkpoint.label_dictionary)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write_bytes(data)


def _cfg(checkpoint: Checkpoint, config: RobertaConfig) -> dict[str, Any]:
    """The configuration, complete: fairseq's users can override only what is there."""
    arch = "roberta_prenorm" if config.normalize_before else "roberta_base"
    model: dict[str, Any] = {theirs: getattr(config, ours) for theirs, ours in FIELDS.items()}
    model |= {
        "_name": arch,
        "arch": arch,
        "encoder_layers_to_keep": None,
        "load_checkpoint_heads": True,  # else fairseq drops the heads with a warning
        "quant_noise_pq_block_size": 8,
        "quant_noise_scalar": 0.0,
        "no_token_positional_embeddings": False,
        "encoder_learned_pos": True,
        "no_scale_embedding": True,
        "adaptive_input": False,
    }
    # Also for classifiers: fairseq's sentence_prediction task has no mask_idx and so no fill_mask.
    task = {"_name": "masked_lm", "data": ".", "tokens_per_sample": config.max_positions}
    criterion = {"_name": "masked_lm"}
    return {"model": model, "task": task, "bpe": {"_name": "gpt2"}, "criterion": criterion}


def data_directory(model_directory: Path, data_name_or_path: str) -> Path:
    """Where dict.txt is: a name beginning with "." is taken from the model's directory, as in fairseq."""
    if data_name_or_path.startswith("."):
        return Path(os.path.normpath(model_directory / data_name_or_path))
    return Path(data_name_or_path)


def read_dictionaries(
    model_directory: Path, data_name_or_path: str = "."
) -> tuple[bytes | None, bytes | None]:
    """(dict.txt, label/dict.txt) as bytes, from the data directory or beside the model; None where absent."""
    data = data_directory(model_directory, data_name_or_path)
    places = [data / "dict.txt", data / "input0" / "dict.txt", model_directory / "dict.txt"]
    labels = [data / "label" / "dict.txt", model_directory / "label" / "dict.txt"]
    return _first_file(places), _first_file(labels)


def _first_file(places: list[Path]) -> bytes | None:
    for place in places:
        if place.is_file():
            return place.read_bytes()
    return None
