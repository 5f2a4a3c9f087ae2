"""Hugging Face's config.json of a RoBERTa ↔ our configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from roberta_hub.arguments import brief
from roberta_hub.config import RobertaConfig
from roberta_hub.errors import CheckpointError

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
    **{name: name for name in ("leaky_relu", "relu6", "sigmoid")},
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


def read_config(hf: Mapping[str, Any], directory: Path) -> RobertaConfig:
    """Our configuration out of Hugging Face's.

    Raises:
        CheckpointError: another architecture, or a value that is missing or cannot be.
    """
    kind = hf.get("model_type")
    if kind != "roberta":
        raise CheckpointError(f"{directory}: model_type is {brief(kind)}, this reads 'roberta'")
    if hf.get("is_decoder") or hf.get("position_embedding_type", "absolute") != "absolute":
        raise CheckpointError(f"{directory}: decoders and relative positions are not RoBERTa's")
    activation = hf.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation not in _READ_ACTIVATIONS:
        raise CheckpointError(
            f"{directory}: hidden_act {brief(activation)} is not supported; there are "
            f"{', '.join(_READ_ACTIVATIONS)}"
        )
    padding = hf.get("pad_token_id", 1)
    dropout = hf.get("hidden_dropout_prob", 0.1)
    pooler = hf.get("classifier_dropout")
    try:
        return RobertaConfig(
            vocab_size=hf["vocab_size"],
            padding_idx=padding,
            max_positions=hf["max_position_embeddings"] - padding - 1,
            embed_dim=hf["hidden_size"],
            ffn_dim=hf["intermediate_size"],
            num_layers=hf["num_hidden_layers"],
            num_heads=hf["num_attention_heads"],
            activation_fn=_READ_ACTIVATIONS[activation],
            lm_activation_fn="gelu",
            dropout=dropout,
            attention_dropout=hf.get("attention_probs_dropout_prob", 0.1),
            pooler_dropout=dropout if pooler is None else pooler,
            layer_norm_eps=hf.get("layer_norm_eps", 1e-12),
            untie_weights=not hf.get("tie_word_embeddings", True),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{directory}/config.json: {type(error).__name__}: {error}") from None


def check_expressible(config: RobertaConfig, head: tuple[int, int] | None) -> None:
    """Refuse what `model_type: roberta` lacks.

    Args:
        config: of the model.
        head: (num_classes, inner_dim) of the classification head to save; None: there is none.

    Raises:
        CheckpointError: all that cannot be expressed, in one message.
    """
    problems = {
        "pre-norm layers": config.normalize_before,
        "no LayerNorm on the embeddings": not config.layernorm_embedding,
        "a quantization-noise linear": bool(config.quant_noise_pq),
        f"activation {config.activation_fn!r}": config.activation_fn not in _ACTIVATIONS,
        # HF's LM head is always gelu.
        f"an LM head with {config.lm_activation!r}": config.lm_head
        and config.lm_activation != "gelu",
        f"pooler activation {config.pooler_activation_fn!r}": head
        and config.pooler_activation_fn != "tanh",
        "a head of another inner width": head and head[1] != config.embed_dim,
    }
    found = [what for what, present in problems.items() if present]
    if found:
        raise CheckpointError(
            f"Hugging Face's roberta cannot express {' and '.join(found)}; save as 'fairseq' or "
            "'roberta_hub'"
        )


def write_config(
    config: RobertaConfig, dtype: torch.dtype, ends: tuple[int, int]
) -> dict[str, Any]:
    """config.json of a model without a head of its own; `ends` are the ids of `<s>` and `</s>`."""
    return {
        "architectures": ["RobertaForMaskedLM" if config.lm_head else "RobertaModel"],
        "model_type": "roberta",
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_positions + config.padding_idx + 1,
        "hidden_size": config.embed_dim,
        "intermediate_size": config.ffn_dim,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "hidden_act": _ACTIVATIONS[config.activation_fn],
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "classifier_dropout": config.pooler_dropout,
        "layer_norm_eps": config.layer_norm_eps,
        "type_vocab_size": 1,
        "tie_word_embeddings": not config.untie_weights,
        "bos_token_id": ends[0],
        "pad_token_id": config.padding_idx,
        "eos_token_id": ends[1],
        "dtype": str(dtype).removeprefix("torch."),
    }
