"""Every form of a relative's model is its plain twin: prepared, in 8 bits, padded, exported.

A large epsilon shows a norm that has one of its own: with 1e-12 and 1e-5 most numbers are equal.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import assert_close, small_model
from torch import Tensor

from roberta_hub import RobertaModel
from roberta_hub.model.matrices import Dtype, can_int8, has_operators
from roberta_hub.model.packing import pack_sequences

SEP = 2
PAIRS = {"padding_idx": 0, "num_segments": 2, "separator_idx": SEP}
KINDS: dict[str, dict[str, Any]] = {
    "BERT": PAIRS,
    "ALBERT": {**PAIRS, "embedding_dim": 8, "project_sum": True, "num_unique_layers": 1},
    "ELECTRA, wide": {**PAIRS, "embedding_dim": 24, "project_sum": True},
    "XL": {"normalize_before": True, "layernorm_embedding": False},
}
TEXTS = [[3, 5, SEP, 6, 7, 9, SEP], [3, 8, SEP]]


def model_of(kind: str, eps: float) -> tuple[RobertaModel, Tensor, Tensor]:
    """A model, padded ids and which of them are real."""
    model = small_model(**{**KINDS[kind], "layer_norm_eps": eps, "vocab_size": 60}).eval()
    pad = model.config.padding_idx
    ids = torch.tensor([row + [pad] * (7 - len(row)) for row in TEXTS])
    return model, ids, ids.ne(pad)


def logits(model: RobertaModel, ids: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = model(ids)[0]
    return found


@pytest.mark.parametrize("eps", [1e-12, 0.5])
@pytest.mark.parametrize("kind", KINDS)
def test_prepared_and_padded_forms(kind: str, eps: float) -> None:
    model, ids, real = model_of(kind, eps)
    wanted = logits(model, ids)[real]
    encoder, head = model.transformer, model.encoder.lm_head
    assert head is not None
    with torch.no_grad():
        padded = encoder.finish(encoder.padded(ids)[-1])
        assert_close(model.encoder.output_layer(padded)[real], wanted)
        last = encoder.packed(packed(model), rows=torch.tensor([0, 7]))
        for state in last:
            rows = state
        assert_close(model.encoder.output_layer(encoder.finish(rows)), wanted[[0, 7]])
        encoder.prepare(None)
        head.prepare(None)
        assert_close(logits(model, ids)[real], wanted)
        assert encoder.prepared is not None and encoder.prepared.form() is not None
        assert head.prepared is not None and head.prepared.form() is not None


def packed(model: RobertaModel) -> Any:
    rows = [torch.tensor(text) for text in TEXTS]
    return pack_sequences(rows, padding_idx=model.config.padding_idx)


@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_rounded_forms(kind: str, dtype: Dtype) -> None:
    if not (can_int8() if dtype == "int8" else has_operators("bfloat16")):
        pytest.skip(f"no {dtype} here")
    model, ids, real = model_of(kind, 0.5)
    with torch.no_grad():
        wanted = model(ids, features_only=True)[0][real]
        model.transformer.prepare(dtype)
        found = model(ids, features_only=True)[0][real]
    assert torch.cosine_similarity(found, wanted).min() > 0.999
    assert (found.norm(dim=1) / wanted.norm(dim=1) - 1).abs().max() < 0.02  # which 1e-5 would move


@pytest.mark.system
@pytest.mark.parametrize("kind", ["ALBERT", "XL"])
def test_exported_form(kind: str) -> None:
    model, ids, real = model_of(kind, 0.5)
    exported = torch.export.export(model, (ids,)).module()
    assert_close(exported(ids)[0][real], logits(model, ids)[real])


def test_a_head_begins_as_the_pooler() -> None:
    """As BERT's classifier does: its dense layer is the pooler, which was trained."""
    model, ids, _ = model_of("BERT", 1e-12)
    before = torch.get_rng_state()
    model.register_classification_head("plain", 2)
    model.add_pooler()
    assert model.pooler is not None
    model.register_classification_head("pooled", 2)
    model.register_classification_head("narrow", 2, inner_dim=4)
    heads: Any = model.classification_heads
    assert torch.equal(heads["pooled"].dense.weight, model.pooler.dense.weight)
    assert heads["pooled"].dense.weight is not model.pooler.dense.weight
    assert not torch.equal(heads["plain"].dense.weight, model.pooler.dense.weight)
    assert heads["narrow"].dense.out_features == 4
    features = model(ids, features_only=True)[0]
    assert model.pooler(features[:, 0]).shape == (2, 16)
    model.add_replaced_head()
    assert model.replaced_head is not None
    assert model.replaced_head(features).shape == ids.shape
    torch.set_rng_state(before)
