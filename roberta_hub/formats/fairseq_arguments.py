"""Translates fairseq's arguments into our configuration, and ours into a file's."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping
from typing import Any

from torch import Tensor

from roberta_hub.arguments import advise, brief
from roberta_hub.checkpoint.checkpoint import EMBEDDING, LAYER
from roberta_hub.checkpoint.fetch.catalogue import config_of
from roberta_hub.checkpoint.fetch.records import MODELS
from roberta_hub.config import BASE, LARGE, RobertaConfig, fairseq_arguments
from roberta_hub.config import FAIRSEQ_FIELDS as FIELDS
from roberta_hub.errors import CheckpointError, InputError, Remedy, UnknownNameError, close_names
from roberta_hub.formats.upgrade import count_layers
from roberta_hub.other_names import LOADING

_ARCHITECTURES = {
    "roberta": BASE,
    "roberta_base": BASE,
    "roberta_large": LARGE,
    "roberta_prenorm": RobertaConfig(normalize_before=True, layernorm_embedding=False),
    "xlm": RobertaConfig(num_layers=16, embed_dim=1280, ffn_dim=5120, num_heads=16),
}
_PUBLISHED = {
    record.name: config_of(record)
    for record in MODELS
    if any(origin.kind == "fairseq" for origin in record.origins)
} | {
    "distilroberta": RobertaConfig(num_layers=6),
    "roberta-med-small": RobertaConfig(num_layers=6, embed_dim=512, ffn_dim=2048, num_heads=8),
    "fairseq's architecture xlm": _ARCHITECTURES["xlm"],
}
"""Models whose weights someone may have without their arguments, by name; those of one size have as
many heads."""
_EMBEDDING_NORM = "encoder.sentence_encoder.layernorm_embedding.weight"
_LAST_NORM = "encoder.sentence_encoder.layer_norm.weight"
"""Pre-norm models alone have it."""
_UNSUPPORTED = {
    "adaptive_input": False,
    "no_token_positional_embeddings": False,
    "encoder_learned_pos": True,
    "no_scale_embedding": True,
}
"""Switches that every published RoBERTa has at this value; another value is refused."""
_OTHER_ARGUMENTS = (
    "encoder_layers_to_keep",
    "arch",
    # These are handled elsewhere, or do not change what a loaded model computes.
    "data",
    "task",
    "bpe",
    "user_dir",
    "criterion",
    "cpu",
    "fp16",
    "tokens_per_sample",
    "load_checkpoint_heads",
    "quant_noise_pq_block_size",
    "quant_noise_scalar",
)


def flat_arguments(group: dict[str, Any]) -> dict[str, Any]:
    """Return data2vec's settings under the names that RoBERTa's have; others as they are.

    Example:
        >>> flat_arguments({"transformer": {"dropout": 0.1, "encoder": {"layers": 12}}})
        {'dropout': 0.1, 'encoder_layers': 12}
    """
    inner = group.get("transformer")
    if not isinstance(inner, dict):
        return group
    flat = {name: value for name, value in group.items() if name != "transformer"}
    flat |= {name: value for name, value in inner.items() if name not in ("encoder", "decoder")}
    encoder = inner.get("encoder")
    parts = encoder.items() if isinstance(encoder, dict) else ()
    return flat | {f"encoder_{name}": value for name, value in parts}


def check_overrides(overrides: Mapping[str, object], ours: Iterable[str] = ()) -> None:
    """Refuse names that fairseq's RoBERTa has no argument of."""
    known = [*FIELDS, *_UNSUPPORTED, *_OTHER_ARGUMENTS]
    for name in overrides:
        if name not in known:
            near = close_names(name, [*ours, *known])
            hint = f"did you mean {near}?" if near else ""
            listed = f"there are {', '.join([*ours, *sorted(known)])}"
            raise UnknownNameError(
                f"loading has no argument {name!r}; {LOADING.get(name) or hint or listed}"
            )


def override_config(config: RobertaConfig, overrides: Mapping[str, object]) -> RobertaConfig:
    """Replace some of fairseq's arguments in a configuration."""
    check_overrides(overrides)
    values = {
        FIELDS[name]: _typed(name, value, getattr(config, FIELDS[name]))
        for name, value in overrides.items()
        if name in FIELDS
    }
    keep = layers_to_keep(overrides.get("encoder_layers_to_keep"))
    if keep is not None:
        values["num_layers"] = len(set(keep))
    return dataclasses.replace(config, **values)  # type: ignore[arg-type]


def layers_to_keep(value: object) -> list[int] | None:
    """Read layer numbers as fairseq writes them, "0,2,4"; None: all layers."""
    if value is None or (isinstance(value, str) and not value):
        return None
    parts = value.split(",") if isinstance(value, str) else value
    try:
        return [int(part) for part in parts]  # type: ignore[attr-defined]
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"encoder_layers_to_keep is {brief(value)}; write layer numbers as '0,2,4'"
        ) from None


def with_published_heads(
    arguments: dict[str, Any],
    weights: dict[str, Tensor],
    overrides: Mapping[str, object],
    source: str,
) -> dict[str, Any]:
    """Return the arguments with the number of attention heads, which no tensor tells.

    Where nothing says it, sizes of a published model are taken for that model, with a warning.
    """
    heads, activation = "encoder_attention_heads", "activation_fn"
    if heads in arguments:
        return arguments
    sizes = _sizes(weights, source)
    arch = arguments.get("arch")
    preset = _ARCHITECTURES.get(arch) if isinstance(arch, str) else None
    if preset is not None and preset.embed_dim == sizes["embed_dim"]:
        return arguments
    taken = activation in arguments or activation in overrides
    if heads in overrides:
        if not taken:
            advise(
                f"{source} does not say its activation function; gelu is taken, as in all of "
                "fairseq's RoBERTa architectures",
                remedy=Remedy("activation_fn='relu' is another", ""),
            )
        return arguments
    name = next((name for name, own in _PUBLISHED.items() if _has_sizes(own, sizes)), None)
    if name is None:
        shown = (
            f"{sizes['num_layers']} layers of width {sizes['embed_dim']}"
            f" with {sizes['ffn_dim']} inside"
            if "ffn_dim" in sizes
            else f"width {sizes['embed_dim']}"
        )
        raise CheckpointError(
            f"{source} does not say its number of attention heads or its activation function, "
            f"which no tensor tells, and no published model has its sizes ({shown})",
            remedy=Remedy(
                f"say them: load_model(path, {heads}=8, {activation}='gelu')",
                "load it in Python, where load_model takes both, and save it",
            ),
        )
    own = _PUBLISHED[name]
    what = "" if taken else f", activation {own.activation_fn}"
    advise(
        f"{source} does not say its number of attention heads; its sizes are those of {name}, "
        f"whose it takes: {own.num_heads} heads{what}",
        remedy=Remedy(f"{heads}= and {activation}= say others", ""),
    )
    return {activation: own.activation_fn, **arguments, heads: own.num_heads}


def _has_sizes(config: RobertaConfig, sizes: Mapping[str, int]) -> bool:
    names = ("embed_dim", "ffn_dim", "num_layers")
    return all(getattr(config, name) == sizes.get(name) for name in names)


def read_config(
    arguments: dict[str, Any],
    weights: dict[str, Tensor],
    overrides: Mapping[str, object],
    source: str,
) -> RobertaConfig:
    """Read the architecture: sizes off the tensors, the rest from the arguments, or `arch`."""
    values = _stated(arguments, source)
    sizes = _sizes(weights, source)
    if not arguments.keys() & (FIELDS.keys() - overrides.keys()):  # a file of weights alone
        values["layernorm_embedding"] = _EMBEDDING_NORM in weights
        values["normalize_before"] = _LAST_NORM in weights
    if "encoder_normalize_before" not in arguments:  # the default hangs on an architecture's name
        values["normalize_before"] = values["normalize_before"] or _LAST_NORM in weights
    if values["normalize_before"] and "layernorm_embedding" not in arguments:
        values["layernorm_embedding"] = _EMBEDDING_NORM in weights
    asked = {FIELDS[name] for name in overrides if name in FIELDS}
    values |= {name: size for name, size in sizes.items() if name not in asked}
    try:
        return RobertaConfig(**values)
    except InputError as error:
        raise CheckpointError(f"{source}: {error}") from None


def config_of_arguments(arguments: Mapping[str, Any], vocab_size: int) -> RobertaConfig:
    """Return the architecture that arguments of fairseq's mean, without weights to look at.

    Example:
        >>> config_of_arguments({"arch": "roberta_large", "dropout": 0.2}, 1000).num_layers
        24
    """
    values = _stated(arguments, "args")
    return RobertaConfig(**{**values, "vocab_size": vocab_size})


def _stated(arguments: Mapping[str, Any], source: str) -> dict[str, Any]:
    """What arguments say, over what their `arch` says."""
    for name, value in _UNSUPPORTED.items():
        if arguments.get(name) not in (None, value):
            raise CheckpointError(
                f"{source}: {name}={brief(arguments[name])} is not supported, RoBERTa has {value}"
            )
    given = arguments.get("arch")
    arch = given if isinstance(given, str) else ""  # str() of shared parts could have no end
    preset = _ARCHITECTURES.get(arch, BASE)
    values: dict[str, Any] = {ours: getattr(preset, ours) for ours in FIELDS.values()}
    try:
        for theirs, ours in FIELDS.items():
            if arguments.get(theirs) is not None:
                values[ours] = _typed(theirs, arguments[theirs], values[ours])
    except InputError as error:
        remedy = Remedy("pass it with a right value to override", "")
        raise CheckpointError(f"{error}", place=source, remedy=remedy) from None
    return values


def _typed(name: str, value: object, like: object) -> object:
    """Convert a value of a file, where types are looser, to the type of its field."""
    if isinstance(like, bool):
        if isinstance(value, (bool, int)):
            return bool(value)
    elif isinstance(like, float):
        if isinstance(value, float) or (type(value) is int and abs(value) < 1 << 53):
            return float(value)
    elif isinstance(value, type(like)) and not isinstance(value, bool):
        return value
    raise InputError(f"argument {name}={brief(value)} should be a {type(like).__name__}")


def _sizes(weights: dict[str, Tensor], source: str) -> dict[str, int]:
    """Read sizes off the tensors; a file's arguments may omit or misstate them."""
    positions = weights.get("encoder.sentence_encoder.embed_positions.weight")
    embedding, fc1 = weights.get(EMBEDDING), weights.get(f"{LAYER}0.fc1.weight")
    if embedding is None or positions is None or embedding.dim() != 2 or positions.dim() != 2:
        raise CheckpointError(
            f"{source}: no RoBERTa encoder in this file: {EMBEDDING} or embed_positions is "
            f"missing; it holds {sorted(weights)[:5]}"
        )
    unused = RobertaConfig.padding_idx + 1  # positions count from there, in all that fairseq writes
    if positions.size(0) <= unused:
        raise CheckpointError(
            f"{source}: the position table has {positions.size(0)} rows, fewer than {unused + 1}"
        )
    layers = count_layers(weights)
    sizes = {"vocab_size": embedding.size(0), "embed_dim": embedding.size(1)}
    sizes |= {"max_positions": positions.size(0) - unused, "num_layers": layers}
    return sizes | ({"ffn_dim": fc1.size(0)} if fc1 is not None and fc1.dim() == 2 else {})


def fairseq_cfg(config: RobertaConfig, vocabulary: Container[str]) -> dict[str, Any]:
    """Make the configuration of a file of 0.12."""
    # Also for classifiers: fairseq's sentence_prediction task has no mask_idx and so no fill_mask.
    task = {"_name": "masked_lm", "data": ".", "tokens_per_sample": config.max_positions}
    criterion = {"_name": "masked_lm"}
    model = fairseq_arguments(config)
    return {"model": model, "task": task, "bpe": _bpe(vocabulary), "criterion": criterion}


def _bpe(vocabulary: Container[str]) -> dict[str, Any]:
    """Fairseq's `bpe` settings; its hub finds files of these names in the model's folder."""
    if "sentencepiece.bpe.model" in vocabulary:
        return {"_name": "sentencepiece", "sentencepiece_model": "sentencepiece.bpe.model"}
    if "vocab.json" in vocabulary:
        return {"_name": "hf_byte_bpe", "bpe_vocab": "vocab.json", "bpe_merges": "merges.txt"}
    tables = "https://dl.fbaipublicfiles.com/fairseq/gpt2_bpe"
    return {
        "_name": "gpt2",
        "gpt2_encoder_json": f"{tables}/encoder.json",
        "gpt2_vocab_bpe": f"{tables}/vocab.bpe",
    }
