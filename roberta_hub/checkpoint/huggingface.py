"""Hugging Face directories of RoBERTa, both ways: config.json and safetensors or .bin.

One flat table of names serves reading and writing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub.checkpoint.cache import cache_root
from roberta_hub.checkpoint.contents import (
    EMBEDDING,
    HEADS,
    LAYER,
    LM_WEIGHT,
    SPAN_HEADS,
    TOKEN_HEADS,
    VERSION,
    Checkpoint,
    Origin,
    expand,
    holds_all,
    own,
    write_files,
)
from roberta_hub.checkpoint.huggingface_config import (
    check_expressible,
    read_config,
    write_config,
)
from roberta_hub.checkpoint.store import read_json, read_safetensors, write_json, write_safetensors
from roberta_hub.checkpoint.twin import Neutral, through_twin
from roberta_hub.checkpoint.unpickle import is_mapped, load_pickle, tensors
from roberta_hub.config import RobertaConfig
from roberta_hub.errors import CheckpointError

HEAD = "sentence_classification_head"
"""What the one classifier of a Hugging Face model is called here; it has no name there."""
TOKEN_HEAD = "token_classification_head"
"""And that of a token classifier."""
SPAN_HEAD = "question_answering_head"
"""And that of a model for question answering."""

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
    directory: Path, dtype: torch.dtype | None = None, *, twin: bool = False
) -> Checkpoint:
    """Read a directory written by transformers: masked LM, bare encoder, or one with a head.

    Heads are those for sequence and token classification, question answering and multiple choice;
    the last is a classification head with one output, its dense layer being transformers' pooler.
    The single token-type row is added to the position rows, which is the same sum.

    Args:
        directory: holds config.json and the weights.
        dtype: of the weights; None widens half precision to float32.
        twin: of a pytorch_model.bin, keep a safetensors twin in our cache and read that the next
            time.

    Raises:
        CheckpointError: files missing or damaged, another architecture, unknown tensors.
    """
    hf = read_json(directory / "config.json")
    config = read_config(hf, directory)
    neutral = _read_weights(directory, twin=twin)
    theirs = neutral.weights
    if not any(key.startswith("roberta.") for key in theirs):  # saved from a bare RobertaModel
        theirs = {f"roberta.{key}": theirs.pop(key) for key in list(theirs)}
    types = theirs.pop(_TOKEN_TYPES, None)
    if _DECODER_BIAS in theirs:  # what transformers adds; lm_head.bias is only its tied twin
        theirs["lm_head.bias"] = theirs.pop(_DECODER_BIAS)
    if hf.get("architectures") == ["RobertaForMultipleChoice"]:
        theirs = {_choice_name(key): theirs.pop(key) for key in list(theirs)}
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
    source = str(directory)
    checkpoint = Checkpoint(config=config, weights=weights, source=source, finite=finite)
    if checkpoint.heads():
        checkpoint.labels = {HEAD: _labels(hf, checkpoint.heads()[HEAD][0])}
        checkpoint.task = "sentence_prediction"
    for head, count in checkpoint.token_heads().items():
        checkpoint.labels[head] = _labels(hf, count)
    return checkpoint


def _choice_name(key: str) -> str:
    for theirs, ours in (
        ("roberta.pooler.dense", "classifier.dense"),
        ("classifier", "classifier.out_proj"),
    ):
        if key in (f"{theirs}.weight", f"{theirs}.bias"):
            return key.replace(theirs, ours)
    return key


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


def _read_weights(directory: Path, *, twin: bool) -> Neutral:
    """All tensors under Hugging Face's names."""
    # What lies in our cache is replaced and never rewritten, so it may stay mapped.
    origin: Origin = "our file" if cache_root() in directory.parents else "file"
    index = directory / "model.safetensors.index.json"
    if (directory / "model.safetensors").is_file():
        return Neutral(read_safetensors(directory / "model.safetensors"), origin=origin)
    if index.is_file():
        shards = read_json(index).get("weight_map")
        if not isinstance(shards, dict):
            raise CheckpointError(f"{index}: has no 'weight_map'")
        weights: dict[str, Tensor] = {}
        for shard in sorted({str(name) for name in shards.values()}):
            if Path(shard).name != shard or len(shard) > 255:
                raise CheckpointError(f"{index}: shard {shard[:80]!r} is not a plain file name")
            weights |= read_safetensors(directory / shard)
        return Neutral(weights, origin=origin)
    pickled = directory / "pytorch_model.bin"
    if pickled.is_file():
        return through_twin(pickled, "bin", _read_bin) if twin else _read_bin(pickled)
    raise CheckpointError(
        f"{directory}: has config.json but neither model.safetensors nor pytorch_model.bin"
    )


def _read_bin(path: Path) -> Neutral:
    loaded = tensors(load_pickle(path), str(path), path.stat().st_size)
    return Neutral(loaded, origin="file" if is_mapped(path) else "memory")


def _labels(hf: dict[str, Any], num_classes: int) -> tuple[str, ...]:
    table = hf.get("id2label")
    table = table if isinstance(table, dict) else {}
    return tuple(str(table.get(str(i), f"LABEL_{i}")) for i in range(num_classes))


def write_huggingface(
    checkpoint: Checkpoint,
    directory: Path,
    vocabulary: Mapping[str, bytes],
    head: str | None = None,
    *,
    ends: tuple[int, int] = (0, 2),
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
    head = _chosen_head([*heads, *tokens, *spans], head)
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
    about |= _about_head(head, heads, tokens, spans, checkpoint.labels)
    write_json(directory / "config.json", about)


def _chosen_head(heads: Sequence[str], head: str | None) -> str | None:
    if head is None and len(heads) > 1:
        raise CheckpointError(
            f"a Hugging Face model holds one classifier and this one has {len(heads)}: "
            f"choose with save(..., head=...) among {', '.join(heads)}"
        )
    if head is not None and head not in heads:
        raise CheckpointError(f"no head {head!r} to save; there are {', '.join(heads) or 'none'}")
    return head or next(iter(heads), None)


def _fold_spectral_norm(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The matrix that a spectral-norm layer multiplies by in eval: W / (u W v)."""
    weights = dict(weights)
    raw, u, v = (weights.pop(f"{prefix}weight_{part}") for part in ("orig", "u", "v"))
    weights[f"{prefix}weight"] = raw / torch.dot(u, raw @ v)
    return weights


def _about_head(
    head: str | None,
    heads: Mapping[str, tuple[int, int]],
    tokens: Mapping[str, int],
    spans: Mapping[str, int],
    labels: Mapping[str, tuple[str, ...]],
) -> dict[str, Any]:
    """What config.json says of the head, in place of a model's without one."""
    if head is None:
        return {}
    if head in spans:
        return {"architectures": ["RobertaForQuestionAnswering"]}
    kind = "Token" if head in tokens else "Sequence"
    count = tokens[head] if head in tokens else heads[head][0]
    shown = labels.get(head, ())
    if len(shown) != count:
        shown = tuple(f"LABEL_{i}" for i in range(count))
    return {
        "architectures": [f"RobertaFor{kind}Classification"],
        "id2label": {str(i): label for i, label in enumerate(shown)},
        "label2id": {label: i for i, label in enumerate(shown)},
    }
