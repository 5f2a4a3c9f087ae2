"""Attention on a GPU: one call for a batch, of a kernel for ragged ones or on padded rows.

The kernel's numbers need a GPU; what it is asked for doesn't, and padded rows run anywhere.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
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
        found = packed_attention(q, k, v, batch=batch, num_heads=HEADS, dropout=0.0)
        assert (found.shape, found.dtype, found.device.type) == ((rows, WIDTH), q.dtype, "cuda")
        one = one_row_attention(q.narrow(0, 0, 4), k, v, batch=batch, num_heads=HEADS, dropout=0.0)
        assert one.shape == (len(LENGTHS), WIDTH)
    many, few = calls.found
    assert [tuple(x.shape) for x in many[:3]] == [(1, rows, HEADS, WIDTH // HEADS)] * 3
    assert many[4] is many[5] is few[5] is batch.bounds
    assert (many[3], *many[6:10]) == (None, 9, 9, 0.0, 0)
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


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=gpu)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where padded rows are computed: on a GPU, or on a CPU that takes itself for one."""
    monkeypatch.setattr(attention, "on_gpu", lambda x: True)
    name: str = request.param
    return name


def of_every_kind(
    q: Tensor, k: Tensor, v: Tensor, batch: PackedBatch, rows: Tensor, dropout: float
) -> list[Tensor]:
    """What is computed of all tokens, of some, and of the first of each sequence."""
    how = {"batch": batch, "num_heads": HEADS, "dropout": dropout}
    found = [packed_attention(q, k, v, **how)]
    found.append(some_rows_attention(q[rows], k, v, rows=rows, **how))
    if all(batch.lengths):
        found.append(one_row_attention(q[batch.starts], k, v, **how))
    return found


@pytest.mark.parametrize("lengths", [LENGTHS, (1,), (4, 4), (70, 1, 37, 70), (6, 0, 9)])
def test_padded_rows_give_the_same_numbers(lengths: tuple[int, ...], device: str) -> None:
    drawn = torch.randn(3, sum(lengths), WIDTH, dtype=torch.double)
    rows = torch.tensor([sum(lengths) - 1, 0]).unique()
    wanted, there = (
        [x.detach().clone().requires_grad_() for x in drawn.to(where).unbind()]
        for where in ("cpu", device)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "on_gpu", lambda x: False)
        exact = of_every_kind(*wanted, ragged("cpu", lengths), rows, 0.0)
    found = of_every_kind(*there, ragged(device, lengths), rows.to(device), 0.0)
    assert len(found) == len(exact)
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one.cpu(), other)
    torch.stack([(x**2).sum() for x in exact]).sum().backward()
    torch.stack([(x**2).sum() for x in found]).sum().backward()
    for mine, other in zip(there, wanted, strict=True):
        assert mine.grad is not None
        torch.testing.assert_close(mine.grad.cpu(), other.grad)


@pytest.mark.parametrize("dropout", [0.0, 0.25])
@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.double])
def test_gradients_are_those_of_the_forward_pass(
    dtype: torch.dtype, kind: int, dropout: float, device: str
) -> None:
    """Under dropout too: torch's kernel for ragged batches has other masks in the backward pass."""
    batch, rows = ragged(device, (40, 3, 17, 9)), torch.tensor([1, 41, 60], device=device)
    drawn, step = torch.randn(2, 3, 69, WIDTH, device=device, dtype=dtype)
    scale = torch.randn(69, WIDTH, device=device, dtype=dtype)

    def loss(x: Tensor) -> Tensor:
        torch.manual_seed(5)
        found = of_every_kind(*x.unbind(), batch, rows, dropout)[kind]
        return (found * scale[: len(found)]).sum()

    x = drawn.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(x), x)
    with torch.no_grad():
        rise = loss(drawn + 1e-3 * step) - loss(drawn - 1e-3 * step)
    expected = (slope * step).sum() * 2e-3
    torch.testing.assert_close(rise, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("lengths", [(200,) * 8, (200, 150) * 4])
def test_dropout_hides_its_share_and_keeps_the_mean(lengths: tuple[int, ...], device: str) -> None:
    """With values of one every row is the sum of its kept weights, over 1 - dropout."""
    batch = ragged(device, lengths)
    q, k = torch.randn(2, sum(lengths), WIDTH, device=device)
    found = packed_attention(q, k, torch.ones_like(q), batch=batch, num_heads=HEADS, dropout=0.25)
    assert abs(found.mean() - 1) < 0.01 and 0.005 < found.std() < 0.2
