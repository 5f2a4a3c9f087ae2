"""Hugging Face directories of RoBERTa, both ways: config.json and safetensors or .bin.

One flat table of names serves reading and writing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from roberta_hub.checkpoint.checkpoint import (
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
from roberta_hub.checkpoint.formats.huggingface_config import (
    check_expressible,
    read_config,
    write_config,
)
from roberta_hub.checkpoint.formats.huggingface_heads import (
    HEAD,
    SPAN_HEAD,
    TOKEN_HEAD,
    about_head,
    choice_name,
    chosen_head,
    read_heads,
)
from roberta_hub.checkpoint.formats.shards import WHOLE, read_weights
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
    converted: bool = False,
) -> Checkpoint:
    """Read a directory written by transformers: masked LM, bare encoder, or one with a head.

    Heads are those for sequence and token classification, question answering and multiple choice;
    the last is a classification head with one output, its dense layer being transformers' pooler.
    The single token-type row is added to the position rows, which is the same sum.

    Args:
        directory: holds config.json and the weights.
        dtype: of the weights; None widens half precision to float32.
        file: the weights; None: what lies there, whole or in shards.
        converted: of a pytorch_model.bin, keep a safetensors copy in our cache and read that the
            next time.

    Raises:
        CheckpointError: files missing or damaged, another architecture, unknown tensors.
    """
    hf = read_json(directory / "config.json")
    config = read_config(hf, directory)
    neutral = read_weights(directory, file, converted=converted)
    theirs = neutral.weights
    if not any(key.startswith("roberta.") for key in theirs):  # saved from a bare RobertaModel
        theirs = {f"roberta.{key}": theirs.pop(key) for key in list(theirs)}
    types = theirs.pop(_TOKEN_TYPES, None)
    if _DECODER_BIAS in theirs:  # what transformers adds; lm_head.bias is only its tied double
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
                "sequence or token classification, question answering or multiple choice"
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
            f"embeddings {tuple(positions.shape)}; the file is damaged or of another architecture"
        )
    # A clone: what is mapped is not written to.
    weights[_POSITIONS] = positions.clone()
    weights[_POSITIONS][config.padding_idx + 1 :] += types[0].to(positions.dtype)


def write_huggingface(
    checkpoint: Checkpoint,
    directory: Path,
    vocabulary: Mapping[str, bytes],
    head: str | None = None,
    *,
    ends: tuple[int, int],
) -> None:
    """Write config.json, model.safetensors and tokenizer files that transformers loads.

    A Hugging Face model has one classifier at most: with several heads, `head` chooses. `ends` are
    the ids of `<s>` and `</s>`.

    Raises:
        CheckpointError: a configuration that `model_type: roberta` cannot express.
    """
    config, weights = expand(checkpoint.config, checkpoint.weights)
    heads = checkpoint.heads()
    tokens, spans = checkpoint.token_heads(), checkpoint.span_heads()
    head = chosen_head([*heads, *tokens, *spans], head)
    check_expressible(config, heads.get(head or ""))
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
    about = write_config(config, weights[EMBEDDING].dtype, ends)
    about |= about_head(head, checkpoint)
    write_json(directory / "config.json", about)


def _fold_spectral_norm(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The matrix that a spectral-norm layer multiplies by in eval: W / (u W v)."""
    weights = dict(weights)
    raw, u, v = (weights.pop(f"{prefix}weight_{part}") for part in ("orig", "u", "v"))
    weights[f"{prefix}weight"] = raw / torch.dot(u, raw @ v)
    return weights
