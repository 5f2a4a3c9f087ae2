"""Attention that learns in bfloat16: short sequences of many lengths multiply in float32."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from roberta_hub.model.attention import one_row_attention, packed_attention
from roberta_hub.model.packing import PackedBatch, pack_sequences

WIDTH, HEADS = 32, 2
RAGGED = (64, 41, 30, 30, 17, 9, 3)
FEW = (64, 64, 30, 30)


class Products(TorchDispatchMode):
    """Notes the precisions of batched products."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[torch.dtype] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.bmm.default:
            self.seen.add(args[0].dtype)
        return func(*args, **(kwargs or {}))


def batch_of(lengths: tuple[int, ...]) -> PackedBatch:
    return pack_sequences([torch.ones(n, dtype=torch.long) for n in lengths], padding_idx=1)


def learnt(
    batch: PackedBatch, dtype: torch.dtype, *, dropout: float = 0.0, one: bool = False
) -> tuple[list[Tensor], set[torch.dtype]]:
    """Return the mixed values and all gradients, and the precisions of the products."""
    torch.manual_seed(1)
    rows = len(batch.ids)
    q, k, v = (
        torch.randn(len(batch.lengths) if one and first else rows, WIDTH).to(dtype)
        for first in (True, False, False)
    )
    for x in (q, k, v):
        x.requires_grad_()
    attend = one_row_attention if one else packed_attention
    with Products() as products:
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            mixed = attend(q, k, v, batch=batch, num_heads=HEADS, dropout=dropout)
        (mixed.float() * torch.linspace(-1, 1, mixed.numel()).view_as(mixed)).sum().backward()
    assert mixed.dtype == dtype
    return [mixed, *(x.grad for x in (q, k, v) if x.grad is not None)], products.seen


@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize("lengths", [RAGGED, FEW])
def test_bfloat16_is_near_float32(lengths: tuple[int, ...], one: bool) -> None:
    batch = batch_of(lengths)
    wanted, _ = learnt(batch, torch.float32, one=one)
    found, _ = learnt(batch, torch.bfloat16, one=one)
    assert len(found) == len(wanted) == 4
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a.float(), b, rtol=0.05, atol=0.03)


def test_only_few_shapes_are_compiled() -> None:
    _, ragged = learnt(batch_of(RAGGED), torch.bfloat16, dropout=0.1)
    _, few = learnt(batch_of(FEW), torch.bfloat16, dropout=0.1)
    _, long = learnt(batch_of(tuple(n + 64 for n in RAGGED)), torch.bfloat16, dropout=0.1)
    assert ragged == {torch.float32}
    assert few == {torch.bfloat16}
    assert long == {torch.bfloat16}


def test_nothing_changes_where_nothing_is_learnt() -> None:
    q, k, v = torch.randn(3, sum(RAGGED), WIDTH, dtype=torch.bfloat16)
    with Products() as products, torch.no_grad():
        mixed = packed_attention(q, k, v, batch=batch_of(RAGGED), num_heads=HEADS, dropout=0.1)
    assert mixed.dtype == torch.bfloat16
    assert products.seen == {torch.bfloat16}
