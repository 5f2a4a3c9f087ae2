"""Dropout from 16 random bits is torch's in distribution, gradient and generator."""

import pytest
import torch
import torch.nn.functional as F
from small_models import small_roberta

from roberta_hub.model.dropout import add_dropped, drop_weights, dropout, keep_mask, keep_scale


@pytest.mark.parametrize("p", [0.001, 0.1, 0.25, 0.5, 0.9])
def test_zeros_are_as_many_as_torch_draws_and_the_mean_stays(p):
    torch.manual_seed(0)
    x = torch.ones(1001, 999)
    theirs, ours = F.dropout(x, p), dropout(x, p)
    deviation = (p * (1 - p) / x.numel()) ** 0.5
    for found in (theirs, ours):
        assert abs(float(found.eq(0).double().mean()) - p) < 5 * deviation + 1 / 131_072
        assert abs(float(found.double().mean()) - 1) < 5 * deviation / (1 - p)
    assert len(ours.unique()) == 2
    assert abs(float(ours.max()) - 1 / (1 - p)) < 1e-4 / (1 - p)


def test_no_two_values_know_of_each_other():
    """Four values share a word of the generator; neighbours and rows must not correlate."""
    torch.manual_seed(1)
    x = torch.empty(1000, 1000)
    stays = keep_mask(x, 0.5).double() - 0.5
    again = keep_mask(x, 0.5).double() - 0.5
    for lag in (1, 2, 3, 4, 1000):
        flat = stays.flatten()
        assert abs(float((flat[lag:] * flat[:-lag]).mean())) < 5 * 0.25 / 1000
    assert abs(float((stays * again).mean())) < 5 * 0.25 / 1000
    assert float(stays.mean(0).abs().max()) < 0.1 and float(stays.mean(1).abs().max()) < 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_values_and_gradients_are_those_of_the_mask(dtype):
    torch.manual_seed(2)
    x = torch.randn(7, 5, dtype=dtype, requires_grad=True)
    base = torch.randn(7, 5, dtype=dtype, requires_grad=True)
    values = torch.randn(5, 3, dtype=dtype, requires_grad=True)
    ways = {
        "alone": (lambda: dropout(x, 0.3), lambda mask: x * mask),
        "added": (lambda: add_dropped(base, x, 0.3), lambda mask: base + x * mask),
        "weights": (lambda: drop_weights(x, values, 0.3), lambda mask: (x * mask) @ values),
    }
    for name, (way, twin) in ways.items():
        torch.manual_seed(3)
        found = way()
        torch.manual_seed(3)
        mask = keep_mask(x, 0.3).to(dtype) * keep_scale(0.3)
        wanted = twin(mask)
        tolerance = {"rtol": 3e-2, "atol": 3e-2} if dtype == torch.bfloat16 else {}
        torch.testing.assert_close(found, wanted, **tolerance, msg=name)
        assert found.dtype == dtype
        inputs = [x, base, values]
        gradient = torch.randn_like(found)
        ours = torch.autograd.grad(found, inputs, gradient, allow_unused=True)
        theirs = torch.autograd.grad(wanted, inputs, gradient, allow_unused=True)
        for a, b in zip(ours, theirs, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(a, b, **tolerance, msg=name)


def test_a_generator_set_back_draws_the_same_again():
    x = torch.randn(33, 3)
    torch.manual_seed(4)
    state = torch.get_rng_state()
    first, second = dropout(x, 0.1), dropout(x, 0.1)
    assert not torch.equal(first, second)
    torch.set_rng_state(state)
    assert torch.equal(dropout(x, 0.1), first) and torch.equal(dropout(x, 0.1), second)


def test_the_ends_are_torch_s():
    x = torch.tensor([[1.0, float("nan"), float("inf")]])
    assert dropout(x, 0.0) is x and dropout(x, 0.3, training=False) is x
    assert torch.equal(dropout(torch.ones(9), 1.0), torch.zeros(9))
    assert torch.equal(dropout(torch.ones(9), 1e-9), F.dropout(torch.ones(9), 1e-9))
    assert dropout(torch.ones(0, 4), 0.1).shape == (0, 4)
    assert dropout(torch.ones(()), 0.1).shape == ()
    assert dropout(torch.ones(4, 6).t(), 0.1).shape == (6, 4)
    dropped = [dropout(x, 0.5) for _ in range(20)]
    assert any(d.eq(0).all() for d in dropped)  # a dropped NaN is 0, not NaN


@pytest.mark.system
def test_attention_drops_weights_as_torch_does():
    """Means over many draws are the answer without dropout, and so is their scatter torch's."""
    from roberta_hub.model.attention import packed_attention
    from roberta_hub.model.packing import pack

    torch.manual_seed(5)
    q, k, v = torch.randn(3, 12, 8)
    batch = pack(torch.full((2, 6), 5), padding_idx=1)
    still = packed_attention(q, k, v, batch=batch, num_heads=2, dropout=0.0)

    def theirs():
        parts = [x.view(2, 6, 2, 4).transpose(1, 2) for x in (q, k, v)]
        mixed = F.scaled_dot_product_attention(*parts, dropout_p=0.2)
        return mixed.transpose(1, 2).reshape(12, 8)

    def ours():
        return packed_attention(q, k, v, batch=batch, num_heads=2, dropout=0.2)

    found = [torch.stack([way() for _ in range(4000)]) for way in (ours, theirs)]
    for draws in found:
        assert float((draws.mean(0) - still).abs().max()) < 0.05
    spreads = [draws.std(0) for draws in found]
    torch.testing.assert_close(*spreads, rtol=0.1, atol=0.01)


@pytest.mark.system
def test_a_model_in_training_mode_drops_about_as_it_did(monkeypatch):
    """The features' scatter over draws is what torch's own dropout gives."""
    roberta = small_roberta(dropout=0.2, attention_dropout=0.2, activation_dropout=0.2)
    roberta.model.train()
    ids = roberta.encode("Hello world, this is dropout.").unsqueeze(0)

    def scatter():
        torch.manual_seed(6)
        with torch.no_grad():
            draws = [roberta.model(ids, features_only=True)[0] for _ in range(300)]
        return torch.stack(draws).std(0).mean()

    ours = scatter()
    monkeypatch.setattr("roberta_hub.model.dropout._is_ours", lambda x, p: False)
    torch.testing.assert_close(ours, scatter(), rtol=0.05, atol=0.0)
