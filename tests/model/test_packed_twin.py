"""The packed encoder computes what its plain padded twin computes, and no more."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import PAD, assert_close, small_model
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from roberta_hub import RobertaModel, collate_tokens
from roberta_hub.model.packing import pack, pack_sequences

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "prenorm": {"normalize_before": True, "layernorm_embedding": False},
    "norms everywhere": {"normalize_before": True, "layernorm_embedding": True},
    "no embedding norm": {"layernorm_embedding": False},
    "factorized": {"embedding_dim": 8},
    "factorized, untied": {"embedding_dim": 8, "untie_weights": True},
    "shared layers": {"num_layers": 4, "num_unique_layers": 2},
    "untied": {"untie_weights": True},
    "quant noise": {"quant_noise_pq": 0.1},
    "layerdrop": {"num_layers": 6, "layerdrop": 0.5},
    "one head": {"num_heads": 1},
}
SEQUENCES = [[0, 5, 6, 7, 2], [0, 2], [0, 9, 9, 2], [0, 5, 6, 7, 2], [0, 33, 2]]


def padded(sequences: list[list[int]], left: bool = False) -> Tensor:
    return collate_tokens([torch.tensor(s) for s in sequences], left_pad=left)


BATCHES: dict[str, Tensor] = {
    "right": padded(SEQUENCES),
    "left": padded(SEQUENCES, left=True),
    "inner": torch.tensor([[0, 1, 5, 1, 2], [1, 0, 5, 2, 1], [0, 5, 6, 7, 2]]),
    "not padded": torch.tensor([[0, 5, 2], [0, 6, 2]]),
    "a row of padding": torch.tensor([[1, 1, 1], [0, 6, 2], [1, 1, 1], [0, 2, 1]]),
    "only padding": torch.full((2, 3), 1),
    "one token": torch.tensor([[0]]),
    "one row": torch.tensor([[0, 8, 9, 2]]),
    "no rows": torch.empty(0, 4, dtype=torch.long),
    "longest": torch.arange(2, 22).unsqueeze(0),
}


def through_packed(model: RobertaModel, tokens: Tensor) -> tuple[list[Tensor], Tensor]:
    features, extra = model(tokens, features_only=True, return_all_hiddens=True)
    assert extra["inner_states"] is not None
    return [state.transpose(0, 1) for state in extra["inner_states"]], features


def through_padded(model: RobertaModel, tokens: Tensor) -> tuple[list[Tensor], Tensor]:
    encoder = model.encoder.sentence_encoder
    states = encoder.padded(tokens)
    return states, encoder.finish(states[-1]) * tokens.ne(PAD).unsqueeze(-1)


def loss_of(model: RobertaModel, states: list[Tensor], features: Tensor, tokens: Tensor) -> Tensor:
    """One number in which every state and every logit of a real token weighs something else."""
    real = tokens.ne(PAD)
    logits = model.encoder.output_layer(features, masked_tokens=real)
    generator = torch.Generator().manual_seed(1)
    total = logits.new_zeros(())
    for x in [*(state[real] for state in states), logits]:
        total = total + (x * torch.randn(x.shape, generator=generator)).sum()
    return total


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(
    ("architecture", "training"),
    [*((name, True) for name in ARCHITECTURES), ("plain", False), ("layerdrop", False)],
)
def test_states_and_gradients(architecture: str, training: bool, batch: str) -> None:
    model = small_model(**ARCHITECTURES[architecture]).train(training)
    tokens = BATCHES[batch]
    results = []
    for run in (through_packed, through_padded):
        torch.manual_seed(4)  # for LayerDrop
        states, features = run(model, tokens)
        model.zero_grad()
        loss_of(model, states, features, tokens).backward()
        gradients = {name: p.grad for name, p in model.named_parameters()}
        results.append((states, features, gradients))
    (states, features, gradients), (states2, features2, gradients2) = results
    assert len(states) == len(states2)
    for ours, wanted in zip([*states, features], [*states2, features2], strict=True):
        assert ours.isfinite().all()
        assert not ours[tokens.eq(PAD)].any()
        assert_close(ours, wanted)
    for name, wanted in gradients2.items():
        ours = gradients[name]
        assert (ours is None) == (wanted is None), name
        if ours is not None and wanted is not None:
            assert ours.isfinite().all(), name
            assert_close(ours, wanted)


def test_layerdrop_leaves_out_whole_layers_in_training_only() -> None:
    model = small_model(num_layers=6, layerdrop=0.5)
    counts = []
    for seed in range(8):
        torch.manual_seed(seed)
        counts.append(len(through_packed(model, BATCHES["right"])[0]))
    assert min(counts) < 7 and len(set(counts)) > 1
    assert len(through_packed(model.eval(), BATCHES["right"])[0]) == 7


@pytest.mark.system
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_row_is_what_it_is_alone_wherever_its_padding_stands(data: st.DataObject) -> None:
    """Batch = singles, for every state of every token, and for the head's answer."""
    rows = data.draw(st.lists(st.lists(st.integers(2, 59), max_size=8), min_size=1, max_size=5))
    width = max(1, max(map(len, rows)), data.draw(st.integers(1, 10)))
    tokens = torch.full((len(rows), width), PAD)
    columns = []
    for row, ids in zip(tokens, rows, strict=True):
        places = data.draw(st.permutations(range(width)))[: len(ids)]
        columns.append(sorted(places))
        row[columns[-1]] = torch.tensor(ids, dtype=torch.long)
    model = small_model(heads={"topic": 2}).eval()
    with torch.no_grad():
        states, features = through_packed(model, tokens)
        answers = model(tokens, classification_head_name="topic")[0]
        assert answers.isfinite().all()
        for b, ids in enumerate(rows):
            if not ids:
                continue
            alone = torch.tensor([ids])
            for ours, wanted in zip(states, through_packed(model, alone)[0], strict=True):
                assert_close(ours[b, columns[b]], wanted[0])
            assert_close(features[b, columns[b]], model(alone, features_only=True)[0][0])
            assert_close(answers[b], model(alone, classification_head_name="topic")[0][0])


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_list_of_sequences_packs_as_their_padded_batch(count: int) -> None:
    sequences = [torch.tensor(s) for s in SEQUENCES[:count]]
    ours, wanted = (
        pack_sequences(sequences, padding_idx=PAD),
        pack(collate_tokens(sequences), padding_idx=PAD),
    )
    assert ours.ids.tolist() == wanted.ids.tolist()
    assert ours.positions.tolist() == wanted.positions.tolist()
    assert (ours.lengths, ours.shape) == (wanted.lengths, wanted.shape)
    numbered = torch.arange(float(len(ours.ids))).unsqueeze(1)
    assert torch.equal(ours.unpack(numbered), wanted.unpack(numbered))


def test_first_rows_of_empty_sequences_are_zeros() -> None:
    for tokens in (BATCHES["a row of padding"], BATCHES["only padding"], BATCHES["no rows"]):
        batch = pack(tokens, padding_idx=PAD)
        rows = torch.arange(1.0, 1.0 + len(batch.ids)).unsqueeze(1)
        firsts = batch.first_rows(rows)
        assert firsts.shape == (len(tokens), 1)
        for i, length in enumerate(batch.lengths):
            start = sum(batch.lengths[:i])
            assert firsts[i].item() == (start + 1 if length else 0)


def flops(model: RobertaModel, tokens: Tensor) -> int:
    # Of the math backend each matrix product is counted; fused kernels are not on every device.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        model(tokens, features_only=True)
    total: int = counter.get_total_flops()
    return total


@pytest.mark.parametrize("batch", ["right", "left", "inner", "a row of padding"])
def test_nothing_is_computed_on_padding(batch: str) -> None:
    model, tokens = small_model().eval(), BATCHES[batch]
    alone = [row[row.ne(PAD)].unsqueeze(0) for row in tokens]
    singles = sum(flops(model, row) for row in alone if row.numel())
    assert flops(model, tokens) == singles > 0
    full = flops(model, tokens.clamp(min=2))
    assert singles < full
