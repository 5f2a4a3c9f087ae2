"""Attention on a GPU: one call for a batch, of a kernel for ragged ones or on padded rows.

The kernels' numbers need a GPU; what they are asked for doesn't, and padded rows run anywhere.
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
KERNELS = (
    torch.ops.aten._efficient_attention_forward.default,
    torch.ops.aten._flash_attention_forward.default,
)
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def ragged(device: str, lengths: tuple[int, ...] = LENGTHS) -> PackedBatch:
    ids = [torch.arange(n) + 4 for n in lengths]
    return pack_sequences(ids, padding_idx=1, device=torch.device(device))


class Asked(TorchDispatchMode):
    """Keeps the arguments of every call of a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Any, ...]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in KERNELS:
            self.found.append(args)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_what_a_kernel_is_asked_for(dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake tensors of a GPU that is not there run the real operator's checks of shape and type."""
    monkeypatch.setattr(attention, "_has_kernels", lambda device: True)
    batch = ragged("cpu")
    rows, how = sum(LENGTHS), {"batch": batch, "num_heads": HEADS, "dropout": dropout}
    assert batch.bounds.tolist() == [0, 5, 8, 11, 20]
    with FakeTensorMode(allow_non_fake_inputs=True), Asked() as calls:
        # The cached property, on the fake GPU.
        batch.__dict__["bounds"] = torch.empty(5, device="cuda", dtype=torch.int32)
        q, k, v = torch.empty(rows, 3 * WIDTH, device="cuda", dtype=torch.bfloat16).chunk(3, -1)
        found = packed_attention(q, k, v, **how)
        assert (found.shape, found.dtype, found.device.type) == ((rows, WIDTH), q.dtype, "cuda")
        one = one_row_attention(q.narrow(0, 0, 4), k, v, **how)
        assert one.shape == (len(LENGTHS), WIDTH)
    many, few = calls.found
    bias = () if dropout else (None,)
    shape = (rows, HEADS, WIDTH // HEADS) if dropout else (1, rows, HEADS, WIDTH // HEADS)
    assert [tuple(x.shape) for x in many[:3]] == [shape] * 3
    queries, keys, *most = many[3 + len(bias) :]
    assert queries is keys is batch.bounds
    assert most[:4] == [9, 9, dropout, 0]
    queries, keys, *most = few[3 + len(bias) :]
    assert keys is batch.bounds and (queries.dtype, queries.shape) == (torch.int32, keys.shape)
    assert most[:4] == [1, 9, dropout, 0]


@pytest.mark.parametrize("size", [6, 264])
def test_heads_that_the_kernel_does_not_take(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_has_kernels", lambda device: True)
    with FakeTensorMode():
        query = torch.empty(4, 2 * size, device="cuda", dtype=torch.bfloat16)
        assert not attention._has_ragged_kernel(query, 2, 0.0)
        assert not attention._has_ragged_kernel(query, 2, 0.1)
        query = query.new_empty(4, 32)
        assert attention._has_ragged_kernel(query, 2, 0.0)
        assert attention._has_ragged_kernel(query, 2, 0.1)
        assert not attention._has_ragged_kernel(query, 2, 1.0)
        assert attention._has_ragged_kernel(query.float(), 2, 0.0)
        assert not attention._has_ragged_kernel(query.float(), 2, 0.1)


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


def exact(q: Tensor, k: Tensor, v: Tensor, kept: Tensor, batch: PackedBatch) -> Tensor:
    """Attention whose weights are kept where `kept` says so: (N, H, T) in double precision."""
    found = []
    for start, length in zip(batch.starts.tolist(), batch.lengths, strict=True):
        rows = slice(start, start + length)
        one, two, three = (x[rows].view(length, HEADS, -1).transpose(0, 1) for x in (q, k, v))
        weights = (one @ two.mT * one.size(-1) ** -0.5).softmax(-1)
        weights = weights * kept[rows, :, :length].transpose(0, 1)
        found.append((weights @ three).transpose(0, 1).reshape(length, -1))
    return torch.cat(found)


@pytest.mark.parametrize("dtype", [torch.double, torch.float32, torch.bfloat16, torch.float16])
def test_dropout_has_one_mask_in_both_passes(dtype: torch.dtype, device: str) -> None:
    """Values of one-hot rows show the kept weights; with them the gradients follow exactly."""
    lengths, size, dropout = (40, 3, 64, 17, 64, 9), 64, 0.25
    batch, rows = ragged(device, lengths), sum(lengths)
    q, k, v, slope = torch.randn(4, rows, HEADS * size, device=device).to(dtype)
    places = torch.cat([torch.arange(n, device=device) for n in lengths])
    hot = torch.nn.functional.one_hot(places, size).to(dtype).repeat(1, HEADS)

    def mixed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        torch.manual_seed(11)
        return packed_attention(q, k, v, batch=batch, num_heads=HEADS, dropout=dropout)

    kept = mixed(q, k, hot).view(rows, HEADS, size) != 0
    seen = torch.arange(size, device=device) < torch.tensor(
        [n for n in lengths for _ in range(n)], device=device
    ).view(-1, 1, 1)
    share = kept.sum() / (seen.sum() * HEADS)
    assert abs(share - (1 - dropout)) < 0.02 and not (kept & ~seen).any()
    given = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    found = mixed(*given)
    found.backward(slope)
    wanted = [x.detach().double().requires_grad_() for x in (q, k, v)]
    expected = exact(*wanted, kept.double() / (1 - dropout), batch)
    expected.backward(slope.double())
    close = {torch.double: 1e-9, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 4e-2}
    off = [(found - expected).norm() / expected.norm()]
    for mine, other in zip(given, wanted, strict=True):
        assert mine.grad is not None and other.grad is not None
        off.append((mine.grad - other.grad).norm() / other.grad.norm())
    assert max(off) < close[dtype]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lengths", [(200,) * 8, (200, 150) * 4])
def test_dropout_hides_its_share_and_keeps_the_mean(
    lengths: tuple[int, ...], dtype: torch.dtype, device: str
) -> None:
    """With values of one every row is the sum of its kept weights, over 1 - dropout."""
    batch = ragged(device, lengths)
    q, k = torch.randn(2, sum(lengths), WIDTH, device=device).to(dtype)
    found = packed_attention(q, k, torch.ones_like(q), batch=batch, num_heads=HEADS, dropout=0.25)
    found = found.float()
    assert abs(found.mean() - 1) < 0.01 and 0.005 < found.std() < 0.2
