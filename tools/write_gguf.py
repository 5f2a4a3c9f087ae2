"""Writes a BERT of sentence-transformers as a GGUF file, in float32 or in q8_0.

    python tools/write_gguf.py FOLDER model.gguf [q8_0]

For tests against llama.cpp, whose own converter is not on the package index. It wants
the package gguf.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
NORMAL, CONTROL = 1, 3
"""Kinds of tokens."""
KEPT = ("position", "token_type")
"""Tables that stay in float32."""


def write(folder: Path, path: Path, kind: str = "float32") -> None:
    """Write one; the vectors are means of the last layer's."""
    import gguf

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    _add_vocabulary(writer, folder, config["type_vocab_size"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config["num_hidden_layers"])
    for name, weight in load_file(folder / "model.safetensors").items():
        if "position_ids" in name or "pooler" in name:
            continue
        own = names.get_name(name.removeprefix("bert."), try_suffixes=(".weight", ".bias"))
        weight = weight.astype(np.float32)
        if kind == "q8_0" and weight.ndim == 2 and not any(word in name for word in KEPT):
            q8_0 = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(own, gguf.quants.quantize(weight, q8_0), raw_dtype=q8_0)
        else:
            writer.add_tensor(own, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_vocabulary(writer: Any, folder: Path, types: int) -> None:
    whole = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    ids: dict[str, int] = whole["model"]["vocab"]
    pieces = sorted(ids, key=lambda piece: ids[piece])
    writer.add_tokenizer_model("bert")
    writer.add_token_list([_as_llama_writes(piece) for piece in pieces])
    writer.add_token_types([CONTROL if piece in SPECIAL else NORMAL for piece in pieces])
    writer.add_token_type_count(types)
    writer.add_pad_token_id(ids["[PAD]"])
    writer.add_unk_token_id(ids["[UNK]"])
    writer.add_bos_token_id(ids["[CLS]"])
    writer.add_eos_token_id(ids["[SEP]"])
    writer.add_sep_token_id(ids["[SEP]"])
    writer.add_mask_token_id(ids["[MASK]"])


def _as_llama_writes(piece: str) -> str:
    """A word begins with a mark, and a piece that continues one has none."""
    if piece in SPECIAL or piece.startswith("[unused"):
        return piece
    return piece[2:] if piece.startswith("##") else "\u2581" + piece


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
