"""Translates between config.json and our configuration, by a family's table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from roberta_hub.arguments import brief
from roberta_hub.checkpoint.names.table import NameTable
from roberta_hub.config import RobertaConfig
from roberta_hub.errors import CheckpointError, Remedy
from roberta_hub.folder import Folder

_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_accurate": "gelu_new",
    "gelu_fast": "gelu_fast",
    "relu": "relu",
    "relu_squared": "relu2",
    "swish": "silu",
    **{
        name: name
        for name in ("tanh", "linear", "quick_gelu", "gelu_10", "mish", "hardswish", "laplace")
    },
    **{name: name for name in ("leaky_relu", "relu6", "sigmoid", "sqrtsoftplus")},
}
"""Our name of an activation function -> the one that is written."""
_READ_ACTIVATIONS = {theirs: ours for ours, theirs in _ACTIVATIONS.items()} | {
    "gelu_python": "gelu",
    "gelu_accurate": "gelu_accurate",
    "gelu_pytorch_tanh": "gelu_accurate",
    "gelu_python_tanh": "gelu_accurate",
    "swish": "swish",
}
"""Every name that transformers has for one without parameters of its own -> ours."""


def read_config(hf: Mapping[str, Any], table: NameTable, folder: Folder) -> RobertaConfig:
    """Read our configuration from the content of config.json."""
    check_only(hf, table.only, table, folder)
    _check_quantization(hf, folder)
    given = {**table.defaults, **_by_first_name(hf, table, folder)}
    name = _names(table)["activation_fn"]
    activation = given.get(name)
    if not isinstance(activation, str) or activation not in _READ_ACTIVATIONS:
        raise CheckpointError(
            f"{folder}: {name} {brief(activation)} is not supported; there are "
            f"{', '.join(_READ_ACTIVATIONS)}"
        )
    try:
        values: dict[str, Any] = {ours: given[name] for name, ours in table.fields.items()}
        values |= table.fixed
        values["activation_fn"] = _READ_ACTIVATIONS[activation]
        values["untie_weights"] = not values["untie_weights"]
        if not table.positions_from_zero:  # their table counts the rows that no token has
            values["max_positions"] -= values["padding_idx"] + 1
        if values["pooler_dropout"] is None:
            values["pooler_dropout"] = values["dropout"]
        if "embedding_dim" in values and "project_sum" not in table.fixed:
            if values["embedding_dim"] == values["embed_dim"] and not table.projects_equal:
                values["embedding_dim"] = None
            values["project_sum"] = values["embedding_dim"] is not None
        if values.get("num_segments", 0) > 1 and "separator_idx" not in values:
            values["separator_idx"] = _separator(
                hf, table, values["vocab_size"], values["padding_idx"]
            )
        return RobertaConfig(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder}/config.json: {type(error).__name__}: {error}") from None


def _check_quantization(hf: Mapping[str, Any], folder: Folder) -> None:
    """Refuse weights that a quantization library reads, or that transformers would quantize."""
    for name in ("quantization_config", "compression_config"):
        if (given := hf.get(name)) is None:
            continue
        method = given.get("quant_method") if isinstance(given, Mapping) else None
        raise CheckpointError(
            f"{name} in config.json is {brief(method or given)}: the weights are quantized, or "
            "transformers quantizes them when it loads them, and this version reads float weights",
            place=str(folder),
            remedy=Remedy(
                "load the model that was quantized; optimize('int8') makes it small here",
                "give the model that was quantized",
            ),
        )


def _by_first_name(hf: Mapping[str, Any], table: NameTable, folder: Folder) -> dict[str, Any]:
    """Return config.json's content with a field's second name replaced by its first."""
    found = dict(hf)
    for second, first in table.second_names.items():
        if second not in hf:
            continue
        if hf.get(first, hf[second]) != hf[second]:
            raise CheckpointError(
                f"config.json has {first} {brief(hf[first])} and {second} {brief(hf[second])}, "
                "which are two names of one number",
                place=str(folder),
            )
        found[first] = hf[second]
    return found


def check_only(
    hf: Mapping[str, Any], only: Mapping[str, object], table: NameTable, folder: Folder
) -> None:
    """Refuse a config.json that has another value than the one that makes our architecture."""
    for name, value in only.items():
        found = hf.get(name)
        if found is not None and found != value:
            raise CheckpointError(
                f"{folder}: {name} is {brief(found)}, and only {value!r} is read; decoders, "
                f"relative positions and groups of several layers are not {table.title}'s"
            )


def _separator(hf: Mapping[str, Any], table: NameTable, vocab_size: int, pad: int) -> int | None:
    """Return the id that ends a segment: the file's, else the family's, else one of the others.

    A vocabulary knows better (`fit_segments`). None: there is no other id than padding.
    """
    given = hf.get("sep_token_id")
    if given is not None:
        return given  # type: ignore[no-any-return]  # the configuration checks it
    usual = (*table.separators, 0, 1) if table.separators else ()
    return next((i for i in usual if i < vocab_size and i != pad), None)


def check_expressible(
    config: RobertaConfig, table: NameTable, head: tuple[int, int] | None
) -> None:
    """Refuse what the family lacks."""

    def differs(name: str) -> bool:
        value = getattr(config, name)
        return bool(value != table.fixed.get(name, value))

    known = table.fields.values()
    lm_activation = table.fixed.get("lm_activation_fn", config.activation_fn)
    norms = "pre-norm" if config.normalize_before else "post-norm"
    wide = config.embedding_dim in (None, config.embed_dim)
    problems = {
        f"{norms} layers": differs("normalize_before"),
        f"{'a' if config.layernorm_embedding else 'no'} LayerNorm on the embeddings": differs(
            "layernorm_embedding"
        ),
        "segments": bool(config.num_segments) and "num_segments" not in known,
        "a model without segments": not config.num_segments and "num_segments" in known,
        "a projected sum of embeddings": config.project_sum and "embedding_dim" not in known,
        "a factorized token embedding": config.embedding_dim is not None and not config.project_sum,
        "a sum of embeddings without a projection": table.projects_equal and not config.project_sum,
        "a projected sum as wide as the layers": (
            config.project_sum and wide and "embedding_dim" in known and not table.projects_equal
        ),
        "a quantization-noise linear": bool(config.quant_noise_pq),
        f"LayerNorm eps {config.layer_norm_eps}": differs("layer_norm_eps"),
        f"activation {config.activation_fn!r}": config.activation_fn not in _ACTIVATIONS,
        f"an LM head with {config.lm_activation!r}": (
            config.lm_head and config.lm_activation != lm_activation
        ),
        f"pooler activation {config.pooler_activation_fn!r}": (
            head is not None and differs("pooler_activation_fn")
        ),
        "a head of another inner width": head is not None and head[1] != config.embed_dim,
    }
    found = [what for what, present in problems.items() if present]
    if found:
        relative = config.num_segments or config.project_sum
        others = "'roberta_hub'" if relative else "'fairseq' or 'roberta_hub'"
        raise CheckpointError(
            f"Hugging Face's {table.model_type} cannot express {' and '.join(found)}; save as "
            f"{others}"
        )


def write_config(
    config: RobertaConfig, table: NameTable, dtype: torch.dtype, ends: tuple[int, int] | None
) -> dict[str, Any]:
    """Make the content of config.json for a model without a head of its own."""
    values: dict[str, Any] = {name: getattr(config, ours) for name, ours in table.fields.items()}
    names = _names(table)
    values[names["activation_fn"]] = _ACTIVATIONS.get(config.activation_fn, config.activation_fn)
    values[names["untie_weights"]] = not config.untie_weights
    if not table.positions_from_zero:
        values[names["max_positions"]] += config.padding_idx + 1
    if "embedding_dim" in names:
        values[names["embedding_dim"]] = config.embedding_dim or config.embed_dim
    if "num_unique_layers" in names:
        values[names["num_unique_layers"]] = config.num_unique_layers or config.num_layers
    if config.num_segments > 1:
        values["sep_token_id"] = config.separator_idx
    return {
        "architectures": [table.class_prefix + ("ForMaskedLM" if config.lm_head else "Model")],
        "model_type": table.model_type,
        **values,
        **({"type_vocab_size": 1} if table.folded else {}),
        **({"bos_token_id": ends[0], "eos_token_id": ends[1]} if ends else {}),
        "dtype": str(dtype).removeprefix("torch."),
    }


def _names(table: NameTable) -> dict[str, str]:
    """Our field -> config.json's."""
    return {ours: theirs for theirs, ours in table.fields.items()}
