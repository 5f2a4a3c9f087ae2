"""Attention weights are those that the fast path mixes by, and transformers' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import assert_close, small_model, small_roberta

from roberta_hub.model.packing import pack_sequences

IDS = torch.tensor([0, 14, 9, 27, 3, 51, 8, 2])
FORMS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"normalize_before": True},
    "shared layers": {"num_unique_layers": 1},
    "factorized": {"embedding_dim": 8},
    "segments": {"num_segments": 2, "separator_idx": 3},
}


@pytest.mark.parametrize("form", FORMS)
def test_layers_mix_by_these_weights(form: str) -> None:
    """Recomputed from them, the output of each attention is that of the packed path."""
    encoder = small_model(**FORMS[form]).eval().transformer
    batch = pack_sequences([IDS], padding_idx=1)
    with torch.no_grad():
        weights = encoder.attention_weights(IDS)  # (L, H, T, T)
        states = list(encoder.packed(batch))
        assert weights.shape == (3, 4, 8, 8)
        assert_close(weights.sum(-1), torch.ones(3, 4, 8))
        assert bool((weights > 0).all())
        for i, own in enumerate(weights):
            layer = encoder.layers[i // (3 // len(encoder.layers))]
            x = states[i]
            inner = layer.self_attn_layer_norm(x) if layer.normalize_before else x
            value = layer.self_attn.v_proj(inner).view(8, 4, -1).transpose(0, 1)  # (H, T, D)
            mixed = (own @ value).transpose(0, 1).flatten(1)  # (T, C)
            x = x + layer.self_attn.out_proj(mixed)
            if layer.normalize_before:
                x = x + layer.fc2(layer.activation_fn(layer.fc1(layer.final_layer_norm(x))))
            else:
                x = layer.self_attn_layer_norm(x)
                x = layer.final_layer_norm(x + layer.fc2(layer.activation_fn(layer.fc1(x))))
            assert_close(x, states[i + 1])


def test_a_prepared_model_has_the_same_weights() -> None:
    roberta = small_roberta(num_layers=2)
    before = roberta.attention("Hello world!", 2, 1).to_dict()
    roberta.optimize()
    assert roberta.attention("Hello world!", 2, 1).to_dict() == before


@pytest.mark.system
def test_transformers_has_the_same_weights(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    roberta = small_roberta(num_layers=2)
    roberta.save(tmp_path, format="huggingface")
    peer = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    ids = roberta.encode("The dog ran home.", "A pair")
    with torch.no_grad():
        theirs = peer(ids[None], output_attentions=True).attentions  # L times (1, H, T, T)
        ours = roberta.model.transformer.attention_weights(ids)
    for own, other in zip(ours, theirs, strict=True):
        assert_close(own, other[0])
