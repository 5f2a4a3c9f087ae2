"""The chunked loss and its plain twin: the same number, the same gradients."""

import pytest
import torch
import torch.nn.functional as F

from roberta_hub.train.tasks import cross_entropy
from roberta_hub.train.tasks.cross_entropy import linear_cross_entropy


def both(dtype, rows=37, words=101, width=16, scale=1.0):
    """(loss, gradients) of each."""
    generator = torch.Generator().manual_seed(0)
    found = []
    sizes = [(rows, width), (words, width), (words,)]
    drawn = [torch.randn(*size, generator=generator, dtype=torch.float64) for size in sizes]
    targets = torch.randint(words, (rows,), generator=generator)
    for function in (
        linear_cross_entropy,
        lambda x, w, b, t: F.cross_entropy(F.linear(x, w, b), t, reduction="sum"),
    ):
        leaves = [part.to(dtype).requires_grad_() for part in drawn]
        loss = function(*leaves, targets)
        (loss * scale).backward()
        found.append((loss.detach(), [leaf.grad for leaf in leaves]))
    return found


@pytest.mark.parametrize("elements", [1, 500, 101 * 37, 1 << 22])
def test_equal_to_the_plain_twin_however_it_is_cut(monkeypatch, elements):
    monkeypatch.setattr(cross_entropy, "LOGITS_PER_CHUNK", elements)
    (loss, gradients), (wanted, expected) = both(torch.float64, scale=0.3)
    assert torch.allclose(loss, wanted, atol=1e-12)
    for ours, theirs in zip(gradients, expected, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-12)


def test_float32():
    (loss, gradients), (wanted, expected) = both(torch.float32)
    assert torch.allclose(loss, wanted, rtol=1e-6)
    for ours, theirs in zip(gradients, expected, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_autocast_sums_in_float32():
    with torch.autocast("cpu", torch.bfloat16):
        (loss, gradients), (wanted, expected) = both(torch.float32)
    assert loss.dtype == torch.float32
    assert torch.allclose(loss, wanted.float(), rtol=1e-2)
    for ours, theirs in zip(gradients, expected, strict=True):
        assert ours.dtype == torch.float32
        assert F.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0) > 0.999


def test_nothing_to_guess():
    rows, weight = torch.zeros(0, 4, requires_grad=True), torch.ones(9, 4, requires_grad=True)
    loss = linear_cross_entropy(rows, weight, torch.zeros(9), torch.zeros(0, dtype=torch.long))
    loss.backward()
    assert float(loss) == 0.0 and weight.grad.eq(0).all() and rows.grad.shape == (0, 4)


def test_large_logits_do_not_overflow():
    rows = torch.tensor([[1e4, -1e4]])
    loss = linear_cross_entropy(rows, torch.eye(2), torch.zeros(2), torch.tensor([1]))
    assert float(loss) == pytest.approx(2e4)
