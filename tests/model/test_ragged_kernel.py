"""Attention on a GPU in half precision: one call of a kernel for ragged batches.

Its numbers need a GPU; what it is asked for doesn't.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from roberta_hub.model import attention
from roberta_hub.model.attention import one_row_attention, packed_attention
from roberta_hub.model.packing import PackedBatch, pack_sequences

varlen = pytest.importorskip("torch.nn.attention.varlen")
LENGTHS = (5, 3, 3, 9)
HEADS, WIDTH = 4, 64


def ragged(device: str) -> PackedBatch:
    ids = [torch.arange(n) + 4 for n in LENGTHS]
    return pack_sequences(ids, padding_idx=1, device=torch.device(device))


def test_what_the_kernel_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake tensors of a GPU that is not there run the real operator's checks of shape and type."""
    asked, real = [], varlen.varlen_attn

    def kernel(*args: object) -> Tensor:
        asked.append(args)
        return real(*args)

    monkeypatch.setattr(attention, "_has_varlen", lambda device: True)
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", kernel)
    batch = ragged("cpu")
    rows = sum(LENGTHS)
    assert batch.bounds.tolist() == [0, 5, 8, 11, 20]
    with FakeTensorMode(allow_non_fake_inputs=True):
        q, k, v = torch.empty(rows, 3 * WIDTH, device="cuda", dtype=torch.bfloat16).chunk(3, -1)
        found = packed_attention(q, k, v, batch=batch, num_heads=HEADS, dropout=0.0)
        assert (found.shape, found.dtype, found.device.type) == ((rows, WIDTH), q.dtype, "cuda")
        one = one_row_attention(q.narrow(0, 0, 4), k, v, batch=batch, num_heads=HEADS, dropout=0.0)
        assert one.shape == (len(LENGTHS), WIDTH)
    assert [tuple(x.shape) for x in asked[0][:3]] == [(rows, HEADS, WIDTH // HEADS)] * 3
    assert asked[0][3:] == (batch.bounds, batch.bounds, 9, 9)
    assert asked[1][4:] == (batch.bounds, 1, 9)
    assert batch.bounds.dtype == asked[1][3].dtype == torch.int32
    assert asked[1][3].shape == batch.bounds.shape


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_same_numbers_as_without_it() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, sum(LENGTHS), WIDTH)
    wanted = packed_attention(q, k, v, batch=ragged("cpu"), num_heads=HEADS, dropout=0.0)
    batch = ragged("cuda")
    on_gpu = [x.cuda().bfloat16() for x in (q, k, v)]
    found = packed_attention(*on_gpu, batch=batch, num_heads=HEADS, dropout=0.0)
    torch.testing.assert_close(found.float().cpu(), wanted, atol=2e-2, rtol=2e-2)
    starts = batch.starts
    one = one_row_attention(
        on_gpu[0][starts], on_gpu[1], on_gpu[2], batch=batch, num_heads=HEADS, dropout=0.0
    )
    torch.testing.assert_close(one.float().cpu(), wanted[starts.cpu()], atol=2e-2, rtol=2e-2)
