"""Attention on a GPU: one call of a kernel for ragged batches, for inference and for training.

Its numbers need a GPU; what it is asked for doesn't.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from roberta_hub.model import attention
from roberta_hub.model.attention import (
    one_row_attention,
    packed_attention,
    some_rows_attention,
)
from roberta_hub.model.packing import PackedBatch, pack_sequences

LENGTHS = (5, 3, 3, 9)
HEADS, WIDTH = 4, 64
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def ragged(device: str, lengths: tuple[int, ...] = LENGTHS) -> PackedBatch:
    ids = [torch.arange(n) + 4 for n in lengths]
    return pack_sequences(ids, padding_idx=1, device=torch.device(device))


class Asked(TorchDispatchMode):
    """Keeps the arguments of every call of the kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Any, ...]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.aten._efficient_attention_forward.default:
            self.found.append(args)
        return func(*args, **(kwargs or {}))


def test_what_the_kernel_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake tensors of a GPU that is not there run the real operator's checks of shape and type."""
    monkeypatch.setattr(attention, "_has_kernel", lambda device: True)
    batch = ragged("cpu")
    rows = sum(LENGTHS)
    assert batch.bounds.tolist() == [0, 5, 8, 11, 20]
    with FakeTensorMode(allow_non_fake_inputs=True), Asked() as calls:
        # The cached property, on the fake GPU.
        batch.__dict__["bounds"] = torch.empty(5, device="cuda", dtype=torch.int32)
        q, k, v = torch.empty(rows, 3 * WIDTH, device="cuda", dtype=torch.bfloat16).chunk(3, -1)
        found = packed_attention(q, k, v, batch=batch, num_heads=HEADS, dropout=0.1)
        assert (found.shape, found.dtype, found.device.type) == ((rows, WIDTH), q.dtype, "cuda")
        one = one_row_attention(q.narrow(0, 0, 4), k, v, batch=batch, num_heads=HEADS, dropout=0.0)
        assert one.shape == (len(LENGTHS), WIDTH)
    many, few = calls.found
    assert [tuple(x.shape) for x in many[:3]] == [(1, rows, HEADS, WIDTH // HEADS)] * 3
    assert many[4] is many[5] is few[5] is batch.bounds
    assert (many[3], *many[6:10]) == (None, 9, 9, 0.1, 0)
    assert few[6:10] == (1, 9, 0.0, 0)
    assert (few[4].dtype, few[4].shape) == (torch.int32, batch.bounds.shape)


@pytest.mark.parametrize("size", [6, 264])
def test_heads_that_the_kernel_does_not_take(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_has_kernel", lambda device: True)
    with FakeTensorMode():
        query = torch.empty(4, 2 * size, device="cuda", dtype=torch.bfloat16)
        assert not attention._has_ragged_kernel(query, 2)
        assert attention._has_ragged_kernel(query.new_empty(4, 32), 2)


@gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("lengths", [LENGTHS, (1,), (512, 1, 0, 37, 512)])
@pytest.mark.parametrize("size", [8, 16, 64, 128, 256])
def test_same_numbers_as_without_it(
    dtype: torch.dtype, lengths: tuple[int, ...], size: int
) -> None:
    """Values and gradients."""
    width, close = HEADS * size, {"atol": 1e-4, "rtol": 1e-4}
    if dtype != torch.float32:
        close = {"atol": 3e-2, "rtol": 3e-2}
    drawn = torch.randn(3, sum(lengths), width).to(dtype).double()
    wanted = [x.requires_grad_() for x in drawn.unbind()]
    exact = packed_attention(*wanted, batch=ragged("cpu", lengths), num_heads=HEADS, dropout=0.0)
    (exact**2).sum().backward()
    there = [x.detach().cuda().to(dtype).requires_grad_() for x in drawn.unbind()]
    batch = ragged("cuda", lengths)
    found = packed_attention(*there, batch=batch, num_heads=HEADS, dropout=0.0)
    (found.float() ** 2).sum().backward()
    torch.testing.assert_close(found.double().cpu(), exact, **close)
    for mine, theirs in zip(there, wanted, strict=True):
        assert mine.grad is not None and theirs.grad is not None
        torch.testing.assert_close(mine.grad.double().cpu(), theirs.grad, atol=0.1, rtol=0.05)
    rows = torch.tensor([0, sum(lengths) - 1][: sum(lengths)], device="cuda").unique()
    some = some_rows_attention(
        there[0][rows], *there[1:], batch=batch, rows=rows, num_heads=HEADS, dropout=0.0
    )
    torch.testing.assert_close(some.double().cpu(), exact[rows.cpu()], **close)
    if all(lengths):
        starts = batch.starts
        one = one_row_attention(
            there[0][starts], *there[1:], batch=batch, num_heads=HEADS, dropout=0.0
        )
        torch.testing.assert_close(one.double().cpu(), exact[starts.cpu()], **close)


@gpu
def test_dropout_hides_its_share_and_keeps_the_mean() -> None:
    """With values of one every row is the sum of its kept weights, over 1 - dropout."""
    lengths, batch = (512,) * 8, ragged("cuda", (512,) * 8)
    q, k = torch.randn(2, sum(lengths), WIDTH, device="cuda")
    v = torch.ones_like(q, requires_grad=True)
    found = packed_attention(q, k, v, batch=batch, num_heads=HEADS, dropout=0.25)
    assert abs(found.mean() - 1) < 0.01 and 0.005 < found.std() < 0.2
    found.sum().backward()
    assert v.grad is not None and abs(v.grad.mean() - 1) < 0.01
    again = packed_attention(q, k, v, batch=batch, num_heads=HEADS, dropout=0.25)
    assert not torch.equal(found, again)
    torch.manual_seed(5)
    one = packed_attention(q, k, v, batch=batch, num_heads=HEADS, dropout=0.25)
    torch.manual_seed(5)
    same = packed_attention(q, k, v, batch=batch, num_heads=HEADS, dropout=0.25)
    assert torch.equal(one, same)
