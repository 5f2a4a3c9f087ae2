"""The compiled sum is what the first layer reads, or leaves it to torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from compiled_layers import batch_of, compiled_sums
from small_models import assert_close, small_model
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from roberta_hub.model import compiled

pytestmark = pytest.mark.usefixtures("amd")


def test_a_sum_of_rows(built: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    tables = [torch.randn(50, 36, generator=generator) for _ in range(3)]
    ids = [torch.randint(50, (40,), generator=generator) for _ in range(3)]
    norm = nn.LayerNorm(36, eps=1e-5)
    nn.init.normal_(norm.weight)
    with torch.no_grad():
        for count in (1, 2, 3):
            wanted = sum(t[i] for t, i in zip(tables[:count], ids, strict=False))
            pairs: list[tuple[Tensor, Tensor | None]] = [*zip(tables[:count], ids, strict=False)]
            ours = compiled.add_rows(pairs, None)
            assert ours is not None
            assert torch.equal(ours, wanted)  # added in the same order
            normed = compiled.add_rows(pairs, norm)
            assert normed is not None
            assert_close(normed, norm(wanted), 2e-6)
        some = torch.stack(ids, dim=1)[:, 1].int()  # neither contiguous nor of torch's usual kind
        rows = compiled.add_rows([(wanted, None), (tables[0], some)], None)
        assert rows is not None
        assert torch.equal(rows, wanted + tables[0][ids[1]])


def test_a_sum_that_is_torch_s(built: Path) -> None:
    table, ids = torch.randn(5, 36), torch.tensor([0, 4])
    assert compiled.add_rows([(table, ids)], None) is not None
    assert compiled.add_rows([(table, torch.tensor([0, 5]))], None) is None
    assert compiled.add_rows([(table, torch.tensor([-1]))], None) is None
    assert compiled.add_rows([(table.double(), ids)], None) is None
    assert compiled.add_rows([(table.half(), ids)], None) is None
    assert compiled.add_rows([(table.t(), ids)], None) is None
    assert compiled.add_rows([(table, ids), (table[:, :9].contiguous(), ids)], None) is None
    assert compiled.add_rows([(table, ids), (table, ids[:1])], None) is None
    assert compiled.add_rows([(table, ids)], nn.LayerNorm(9)) is None
    bare = nn.LayerNorm(36, elementwise_affine=False)
    assert compiled.add_rows([(table, ids)], bare) is None
    assert compiled.add_rows([(table[:0], ids)], None) is None
    assert compiled.add_rows([(table.expand(5, 5, 36), ids)], None) is None
    assert compiled.add_rows([(table, ids.view(1, 2))], None) is None
    assert compiled.add_rows([(table, ids.to("meta"))], None) is None
    assert compiled.add_rows([(table.to_sparse(), ids)], None) is None

    class Other(Tensor):
        """Whose operators may mean something else."""

    assert compiled.add_rows([(table.as_subclass(Other), ids)], None) is None


EMBEDDINGS = [  # what a caller may do, and whether the compiled sum still stands in
    pytest.param(lambda e: None, True, id="nothing"),
    pytest.param(
        lambda e: e.embed_tokens.register_forward_hook(lambda *a: a[2] * 2), False, id="a hook"
    ),
    pytest.param(lambda e: setattr(e.embed_positions, "max_norm", 0.5), False, id="max_norm"),
    pytest.param(lambda e: e.double(), False, id="another dtype"),
    pytest.param(lambda e: e.embed_tokens.weight.data.mul_(2), True, id="other weights"),
    pytest.param(
        lambda e: setattr(e, "layernorm_embedding", nn.Identity()), False, id="another module"
    ),
    pytest.param(lambda e: weight_norm(e.embed_tokens), False, id="a parametrization"),
    pytest.param(lambda e: nn.Module.train(e, False), True, id="eval mode"),
]


@pytest.mark.parametrize(("change", "stands_in"), EMBEDDINGS)
def test_what_a_caller_does_to_embeddings(change: Any, stands_in: bool, built: Path) -> None:
    encoder = small_model().eval().encoder.sentence_encoder
    encoder.prepare(None)
    batch = batch_of((9, 4))
    with torch.no_grad(), compiled_sums() as found:
        next(encoder.packed(batch))
        change(encoder)
        ours = next(encoder.packed(batch))
        plain = encoder.embed(batch.ids, batch.positions)
    assert found == [True, stands_in]
    assert_close(ours.double(), plain.double(), 2e-6)


FAMILIES = [
    pytest.param({}, True, id="roberta"),
    pytest.param({"num_segments": 2, "separator_idx": 7}, True, id="segments"),
    pytest.param({"embedding_dim": 4}, False, id="factorized tokens"),
    pytest.param({"embedding_dim": 4, "project_sum": True}, False, id="projected sum"),
]


@pytest.mark.parametrize(("family", "stands_in"), FAMILIES)
def test_the_sum_of_each_family(family: dict[str, Any], stands_in: bool, built: Path) -> None:
    encoder = small_model(**family).eval().encoder.sentence_encoder
    encoder.prepare(None)
    tokens = torch.randint(5, 60, (2, 9))
    tokens[:, 4] = 7
    with torch.no_grad(), compiled_sums() as found:
        _, states, _ = encoder.encode(tokens, return_all_hiddens=True)
    assert found == [stands_in]
    with torch.no_grad():
        assert_close(states[0], encoder.padded(tokens)[0].flatten(0, 1), 2e-6)


def test_embeddings_that_a_caller_gives(built: Path) -> None:
    """They take the place of the table's rows; those of another dtype are torch's to refuse."""
    encoder = small_model().eval().encoder.sentence_encoder
    encoder.prepare(None)
    tokens = torch.randint(5, 60, (2, 9))
    given = torch.randn(2, 9, encoder.embed_tokens.weight.size(1))
    with torch.no_grad(), compiled_sums() as found:
        _, states, _ = encoder.encode(tokens, True, given)
        plain = encoder.padded(tokens, given)[0].flatten(0, 1)
        with pytest.raises(RuntimeError, match="dtype"):
            encoder.encode(tokens, True, given.double())
    assert found == [True, False]
    assert_close(states[0], plain, 2e-6)
