"""Hugging Face directories of RoBERTa, both ways: config.json and safetensors or .bin.

One flat table of names serves reading and writing.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub.checkpoint.contents import (
    EMBEDDING,
    HEADS,
    LAYER,
    LM_WEIGHT,
    SPAN_HEADS,
    TOKEN_HEADS,
    VERSION,
    Checkpoint,
    expand,
    holds_all,
    own,
    write_files,
)
from roberta_hub.checkpoint.huggingface_heads import (
    HEAD,
    SPAN_HEAD,
    TOKEN_HEAD,
    about_head,
    choice_name,
    chosen_head,
    read_heads,
)
from roberta_hub.checkpoint.shards import WHOLE, read_weights
from roberta_hub.checkpoint.store import read_json, write_json, write_safetensors
from roberta_hub.config import RobertaConfig
from roberta_hub.errors import CheckpointError

_TOP = {
    "encoder.sentence_encoder.embed_tokens": "roberta.embeddings.word_embeddings",
    "encoder.sentence_encoder.embed_positions": "roberta.embeddings.position_embeddings",
    "encoder.sentence_encoder.layernorm_embedding": "roberta.embeddings.LayerNorm",
    "encoder.lm_head.dense": "lm_head.dense",
    "encoder.lm_head.layer_norm": "lm_head.layer_norm",
}
_LAYER = {
    "self_attn.q_proj": "attention.self.query",
    "self_attn.k_proj": "attention.self.key",
    "self_attn.v_proj": "attention.self.value",
    "self_attn.out_proj": "attention.output.dense",
    "self_attn_layer_norm": "attention.output.LayerNorm",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "final_layer_norm": "output.LayerNorm",
}
_POSITIONS = "encoder.sentence_encoder.embed_positions.weight"
_TOKEN_TYPES = "roberta.embeddings.token_type_embeddings.weight"
_DECODER_BIAS = "lm_head.decoder.bias"
_IGNORED = (
    "roberta.embeddings.position_ids",
    "roberta.embeddings.token_type_ids",
    "roberta.pooler.",
)
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_accurate": "gelu_new",
    "relu": "relu",
    "relu_squared": "relu2",
}
_READ_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_accurate",
    "gelu_pytorch_tanh": "gelu_accurate",
    "gelu_fast": "gelu_accurate",
    "relu": "relu",
    "relu2": "relu_squared",
    "silu": "swish",
    "swish": "swish",
}


def names(num_layers: int, head: str | None = None) -> dict[str, str]:
    """Name table: fairseq's -> Hugging Face's, for a model of this many layers.

    `head` is the name of the one head, of whichever kind; None: the names that reading gives.

    Example:
        >>> names(1)["encoder.sentence_encoder.layers.0.fc1.weight"]
        'roberta.encoder.layer.0.intermediate.dense.weight'
    """
    modules = dict(_TOP)
    for i in range(num_layers):
        modules |= {f"{LAYER}{i}.{a}": f"roberta.encoder.layer.{i}.{b}" for a, b in _LAYER.items()}
    modules |= {
        f"{HEADS}{head or HEAD}.dense": "classifier.dense",
        f"{HEADS}{head or HEAD}.out_proj": "classifier.out_proj",
        f"{TOKEN_HEADS}{head or TOKEN_HEAD}.out_proj": "classifier",
        f"{SPAN_HEADS}{head or SPAN_HEAD}.out_proj": "qa_outputs",
    }
    table = {f"{a}.{p}": f"{b}.{p}" for a, b in modules.items() for p in ("weight", "bias")}
    table |= {LM_WEIGHT: "lm_head.decoder.weight", "encoder.lm_head.bias": "lm_head.bias"}
    return {
        a: b
        for a, b in table.items()
        if not a.endswith(("embed_tokens.bias", "embed_positions.bias"))
    }


def read_huggingface(
    directory: Path,
    dtype: torch.dtype | None = None,
    *,
    file: Path | None = None,
    twin: bool = False,
) -> Checkpoint:
    """Read a directory written by transformers: masked LM, bare encoder, or one with a head.

    Heads are those for sequence and token classification, question answering and multiple choice;
    the last is a classification head with one output, its dense layer being transformers' pooler.
    The single token-type row is added to the position rows, which is the same sum.

    Args:
        directory: holds config.json and the weights.
        dtype: of the weights; None widens half precision to float32.
        file: the weights; None: what lies there, whole or in shards.
        twin: of a pytorch_model.bin, keep a safetensors twin in our cache and read that the next
            time.

    Raises:
        CheckpointError: files missing or damaged, another architecture, unknown tensors.
    """
    hf = read_json(directory / "config.json")
    config = _read_config(hf, directory)
    neutral = read_weights(directory, file, twin=twin)
    theirs = neutral.weights
    if not any(key.startswith("roberta.") for key in theirs):  # saved from a bare RobertaModel
        theirs = {f"roberta.{key}": theirs.pop(key) for key in list(theirs)}
    types = theirs.pop(_TOKEN_TYPES, None)
    if _DECODER_BIAS in theirs:  # what transformers adds; lm_head.bias is only its tied twin
        theirs["lm_head.bias"] = theirs.pop(_DECODER_BIAS)
    if hf.get("architectures") == ["RobertaForMultipleChoice"]:
        theirs = {choice_name(key): theirs.pop(key) for key in list(theirs)}
    back = {b: a for a, b in names(config.num_layers).items()}
    weights: dict[str, Tensor] = {}
    for key in list(theirs):
        tensor = theirs.pop(key)
        name = back.get(
            key.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
                "LayerNorm.beta", "LayerNorm.bias"
            )
        )
        if name is not None:
            weights[name] = tensor
        elif not key.startswith(_IGNORED):
            raise CheckpointError(
                f"{directory}: tensor {key[:120]!r} has no place in a RoBERTa for masked LM, "
                f"sequence or "
                "token classification, question answering or multiple choice"
            )
    config = dataclasses.replace(
        config, lm_head=any(k.startswith("encoder.lm_head.") for k in weights)
    )
    if not config.untie_weights:
        weights.pop(LM_WEIGHT, None)
    # Without a row of token types, which is added below.
    finite = neutral.finite and types is None and holds_all(weights, dtype)
    weights = own(weights, dtype, neutral.origin)
    if types is not None and _POSITIONS in weights:
        _fold_token_types(weights, types, config, str(directory))
    weights[VERSION] = torch.tensor([3.0])
    source = str(directory if file is None or file.name in WHOLE else file)
    checkpoint = Checkpoint(config=config, weights=weights, source=source, finite=finite)
    read_heads(hf, checkpoint)
    return checkpoint


def _fold_token_types(
    weights: dict[str, Tensor], types: Tensor, config: RobertaConfig, source: str
) -> None:
    positions = weights[_POSITIONS]
    if types.dim() != 2 or not len(types) or types.shape[1:] != positions.shape[1:]:
        raise CheckpointError(
            f"{source}: token-type embeddings have shape {tuple(types.shape)} and position "
            f"embeddings "
            f"{tuple(positions.shape)}; the file is damaged or of another architecture"
        )
    # A clone: what is mapped is not written to.
    weights[_POSITIONS] = positions.clone()
    weights[_POSITIONS][config.padding_idx + 1 :] += types[0].to(positions.dtype)


def _read_config(hf: dict[str, Any], directory: Path) -> RobertaConfig:
    kind = hf.get("model_type")
    if kind != "roberta":
        raise CheckpointError(
            f"{directory}: model_type is {reprlib.repr(kind)}, this reads 'roberta'"
        )
    if hf.get("is_decoder") or hf.get("position_embedding_type", "absolute") != "absolute":
        raise CheckpointError(f"{directory}: decoders and relative positions are not RoBERTa's")
    activation = hf.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation not in _READ_ACTIVATIONS:
        raise CheckpointError(
            f"{directory}: hidden_act {reprlib.repr(activation)} is not supported"
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
            dropout=dropout,
            attention_dropout=hf.get("attention_probs_dropout_prob", 0.1),
            pooler_dropout=dropout if pooler is None else pooler,
            layer_norm_eps=hf.get("layer_norm_eps", 1e-12),
            untie_weights=not hf.get("tie_word_embeddings", True),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{directory}/config.json: {type(error).__name__}: {error}") from None


def write_huggingface(
    checkpoint: Checkpoint,
    directory: Path,
    vocabulary: Mapping[str, bytes],
    head: str | None = None,
) -> None:
    """Write config.json, model.safetensors and tokenizer files that transformers loads.

    A Hugging Face model has one classifier at most: with several heads, `head` chooses.

    Raises:
        CheckpointError: a configuration that `model_type: roberta` cannot express.
    """
    config, weights = expand(checkpoint.config, checkpoint.weights)
    heads = checkpoint.heads()
    tokens, spans = checkpoint.token_heads(), checkpoint.span_heads()
    head = chosen_head([*heads, *tokens, *spans], head)
    _check_expressible(config, heads.get(head or ""))
    if head in heads and config.spectral_norm_heads:
        weights = _fold_spectral_norm(weights, f"{HEADS}{head}.out_proj.")
    table = names(config.num_layers, head)
    theirs = {table[name]: tensor for name, tensor in weights.items() if name in table}
    theirs[_TOKEN_TYPES] = torch.zeros(1, config.embed_dim, dtype=weights[EMBEDDING].dtype)
    if config.untie_weights and config.lm_head:
        theirs[_DECODER_BIAS] = theirs["lm_head.bias"]
    else:
        theirs.pop("lm_head.decoder.weight", None)
    directory.mkdir(parents=True, exist_ok=True)
    write_safetensors(directory / "model.safetensors", theirs, {"format": "pt"})
    write_files(directory, vocabulary)
    about = _write_config(config, weights[EMBEDDING].dtype)
    about |= about_head(head, checkpoint)
    write_json(directory / "config.json", about)


def _check_expressible(config: RobertaConfig, head: tuple[int, int] | None) -> None:
    """Refuse what `model_type: roberta` lacks; `head` is a head's (num_classes, inner_dim)."""
    problems = {
        "pre-norm layers": config.normalize_before,
        "no LayerNorm on the embeddings": not config.layernorm_embedding,
        "a quantization-noise linear": bool(config.quant_noise_pq),
        f"activation {config.activation_fn!r}": config.activation_fn not in _ACTIVATIONS,
        # HF's LM head is always gelu.
        f"an LM head with {config.activation_fn!r}": config.lm_head
        and config.activation_fn != "gelu",
        f"pooler activation {config.pooler_activation_fn!r}": head
        and config.pooler_activation_fn != "tanh",
        "a head of another inner width": head and head[1] != config.embed_dim,
    }
    found = [what for what, present in problems.items() if present]
    if found:
        raise CheckpointError(
            f"Hugging Face's roberta cannot express {' and '.join(found)}; save as 'fairseq' or "
            f"'roberta_hub'"
        )


def _fold_spectral_norm(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The matrix that a spectral-norm layer multiplies by in eval: W / (u W v)."""
    weights = dict(weights)
    raw, u, v = (weights.pop(f"{prefix}weight_{part}") for part in ("orig", "u", "v"))
    weights[f"{prefix}weight"] = raw / torch.dot(u, raw @ v)
    return weights


def _write_config(config: RobertaConfig, dtype: torch.dtype) -> dict[str, Any]:
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
        "bos_token_id": 0,
        "pad_token_id": config.padding_idx,
        "eos_token_id": 2,
        "dtype": str(dtype).removeprefix("torch."),
    }
