"""The features of some tokens, whose last layer computes them alone: as of all tokens, picked."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import assert_close, small_model
from test_family_forms import KINDS

from roberta_hub import RobertaModel
from roberta_hub.model.packing import PackedBatch, pack_sequences

LENGTHS = (7, 3, 3, 5)
ROWS = {"none": [], "some": [16, 0, 3, 4, 9], "all": list(range(18))}


def batch_of(model: RobertaModel, lengths: tuple[int, ...] = LENGTHS) -> PackedBatch:
    drawn = torch.Generator().manual_seed(2)
    ids = [torch.randint(3, 20, (n,), generator=drawn) for n in lengths]
    return pack_sequences(ids, padding_idx=model.config.padding_idx)


def learnt(model: RobertaModel, features: torch.Tensor) -> dict[str, torch.Tensor]:
    """Every parameter's gradient of a loss that tells rows and columns apart."""
    weights = torch.linspace(-1, 1, max(1, features.numel()))[: features.numel()]
    model.zero_grad()
    (features * weights.view_as(features)).sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("rows", [*ROWS, "first"])
@pytest.mark.parametrize("kind", ["RoBERTa", *KINDS])
def test_features_and_gradients(kind: str, rows: str) -> None:
    options: dict[str, Any] = {} if kind == "RoBERTa" else KINDS[kind]
    model = small_model(**{**options, "vocab_size": 60}).eval()
    batch = batch_of(model)
    chosen = batch.starts if rows == "first" else torch.tensor(ROWS[rows], dtype=torch.long)
    wanted = model.features(batch)[chosen]
    found = model.features(batch, chosen)
    assert found.shape == (len(chosen), model.config.embed_dim)
    assert_close(found, wanted)
    expected, got = learnt(model, wanted), learnt(model, found)
    assert got.keys() == expected.keys()  # DDP waits for every parameter's
    for name, gradient in expected.items():
        assert_close(got[name], gradient)


def test_only_these_rows_go_through_the_last_layer() -> None:
    model = small_model(vocab_size=60).eval()
    seen: list[int] = []
    for layer in model.transformer.layers:
        fc1: Any = layer.fc1
        fc1.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    batch = batch_of(model)
    model.features(batch, torch.tensor([0, 5, 17]))
    model.features(batch, batch.starts)
    depth = len(model.transformer.layers)
    assert seen == [*[18] * (depth - 1), 3, *[18] * (depth - 1), 4]


def test_a_dropped_last_layer_leaves_the_chosen_rows() -> None:
    model = small_model(vocab_size=60, layerdrop=1.0).train()
    batch = batch_of(model)
    first = model.transformer.embed(batch.ids, batch.positions)
    rows = torch.tensor([2, 8])
    assert_close(model.features(batch, rows), first[rows])


def test_starts_of_a_batch_with_an_empty_row() -> None:
    """There `starts` names one token twice, and each sequence has other than one row."""
    model = small_model(vocab_size=60).eval()
    batch = batch_of(model, (0, 4, 2))
    with torch.no_grad():
        assert_close(model.features(batch, batch.starts), model.features(batch)[batch.starts])
