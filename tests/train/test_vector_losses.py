"""The losses of sentence vectors give the numbers and gradients of sentence-transformers' own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.model.packing import pack_sequences
from roberta_hub.settings import POOLINGS
from roberta_hub.train.tasks.vector_losses import (
    contrastive_loss,
    cosent_loss,
    cosine_matrix,
    false_negatives,
    pool_sequences,
    teacher_distance,
)

SCALE = 20.0


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def assert_same(
    ours: Callable[..., Tensor], theirs: Callable[..., Tensor], *inputs: Tensor
) -> None:
    """One value, and one gradient for each input."""
    found, wanted = (
        (value, *torch.autograd.grad(value, inputs))
        for inputs in [[own.detach().requires_grad_() for own in inputs]]
        for value in (ours(*inputs), theirs(*inputs))
    )
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
    assert any(float(part.abs().max()) > 1e-6 for part in found[1:])


def ours(a: Tensor, p: Tensor, *n: Tensor, symmetric: bool = False) -> Tensor:
    numbers = [torch.arange(len(part)) + 100 * i for i, part in enumerate((a, p, torch.cat(n)))]
    table = SCALE * cosine_matrix(a, torch.cat([p, *n]))
    table = table.masked_fill(false_negatives(*numbers), -torch.inf)
    return contrastive_loss(table, symmetric=symmetric) / len(a)


class Peers:
    """sentence-transformers' losses on vectors; none of them needs a model for that."""

    def __init__(self) -> None:
        self.losses: Any = pytest.importorskip("sentence_transformers.losses")

    def ranking(self, *vectors: Tensor) -> Tensor:
        loss = self.losses.MultipleNegativesRankingLoss(None, scale=SCALE)
        found: Tensor = loss.compute_loss_from_embeddings(list(vectors), None)
        return found

    def cached(self, *vectors: Tensor) -> Tensor:
        loss = self.losses.CachedMultipleNegativesRankingLoss([None], scale=SCALE)
        found: Tensor = loss.calculate_loss([list(v.split(3)) for v in vectors])
        return found

    def symmetric(self, *vectors: Tensor) -> Tensor:
        loss = self.losses.MultipleNegativesSymmetricRankingLoss(None, scale=SCALE)
        found: Tensor = loss.compute_loss_from_embeddings(list(vectors), None)
        return found

    def cosent(self, a: Tensor, b: Tensor, scores: Tensor) -> Tensor:
        loss = self.losses.CoSENTLoss(None, scale=SCALE)
        found: Tensor = loss.compute_loss_from_embeddings([a, b], scores)
        return found

    def distilled(self, vectors: Tensor, wanted: Tensor) -> Tensor:
        loss = self.losses.EmbedDistillLoss(None, distance_metric="cosine")
        found: Tensor = loss.compute_loss_from_embeddings([vectors], [wanted])
        return found


@pytest.fixture(scope="module")
def peers() -> Peers:
    return Peers()


def test_pairs_and_triples_are_contrasted_as_theirs(peers: Peers) -> None:
    a, p, n = drawn(8, 5, seed=1), drawn(8, 5, seed=2), drawn(8, 5, seed=3)
    for theirs in (peers.ranking, peers.cached):
        assert_same(lambda a, p: ours(a, p, p[:0]), theirs, a, p)
        assert_same(ours, theirs, a, p, n)


def test_both_ways_are_theirs(peers: Peers) -> None:
    a, p, n = drawn(8, 5, seed=1), drawn(8, 5, seed=2), drawn(8, 5, seed=3)
    assert_same(lambda a, p, n: ours(a, p, n, symmetric=True), peers.symmetric, a, p, n)


@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_the_order_of_scores_is_learnt_as_by_cosent(peers: Peers, levels: int) -> None:
    """Many scores are equal, and ask for no order."""
    scores = torch.randint(levels, (12,), generator=torch.Generator().manual_seed(4)).double()
    assert_same(
        lambda a, b: cosent_loss(torch.cosine_similarity(a, b), scores, SCALE),
        lambda a, b: peers.cosent(a, b, scores),
        drawn(12, 5, seed=1),
        drawn(12, 5, seed=2),
    )


def test_another_models_vectors_are_learnt_as_theirs(peers: Peers) -> None:
    wanted = drawn(9, 5, seed=2)
    assert_same(
        lambda v: teacher_distance(v, wanted),
        lambda v: peers.distilled(v, wanted),
        drawn(9, 5, seed=1),
    )


def test_scores_count_by_their_order_alone() -> None:
    found, scores = drawn(12, seed=1).tanh(), drawn(12, seed=2)
    for same in (5 * scores + 1, scores.exp(), scores.argsort().argsort().double()):
        torch.testing.assert_close(
            cosent_loss(found, scores, SCALE), cosent_loss(found, same, SCALE)
        )
    equal = torch.zeros(12, dtype=torch.float64)
    assert float(cosent_loss(found, equal, SCALE)) == 0.0
    sorted_scores = found.clone()
    assert (
        float(cosent_loss(found, sorted_scores, 1e4))
        < 1e-6
        < float(cosent_loss(found, -scores, SCALE))
    )


def test_vectors_of_another_width_have_the_same_cosines() -> None:
    vectors = drawn(6, 4, seed=1)
    turned = F.pad(3 * vectors, (2, 1))  # longer, and in more dimensions: no angle has changed
    assert float(teacher_distance(vectors, turned)) == pytest.approx(0, abs=1e-12)
    assert float(teacher_distance(vectors, drawn(6, 7, seed=3))) > 0.05


def test_equal_texts_are_no_negatives() -> None:
    """Every pair of row and candidate, by the definition."""
    generator = torch.Generator().manual_seed(0)
    for hard in (0, 3, 8):
        a, p, n = (torch.randint(7, (k,), generator=generator) for k in (8, 8, hard))
        found = false_negatives(a, p, n)
        assert found.shape == (8, 8 + hard)
        for i in range(8):
            for j in range(8):
                known = {int(a[i]), int(p[i])}
                wanted = i != j and (int(p[j]) in known or int(a[j]) == int(a[i]))
                assert bool(found[i, j]) is wanted
            for j in range(hard):
                assert bool(found[i, 8 + j]) is (int(n[j]) in known)


def test_a_doubled_row_finds_its_positive_as_before() -> None:
    """Its twin, which has the same cosine, would take half of the probability."""
    a = drawn(5, 4, seed=1)
    p = a + 0.3 * drawn(5, 4, seed=2)
    once = F.cross_entropy(SCALE * cosine_matrix(a, p), torch.arange(5), reduction="none")
    rows = torch.tensor([0, 1, 2, 3, 4, 2])
    table = SCALE * cosine_matrix(a[rows], p[rows])
    masked = table.masked_fill(false_negatives(rows, rows + 5, rows[:0]), -torch.inf)
    found = F.cross_entropy(masked, torch.arange(6), reduction="none")
    torch.testing.assert_close(found[[2, 5]], once[[2, 2]])
    assert float(F.cross_entropy(table, torch.arange(6), reduction="none")[2] - once[2]) > 0.1
    alone = masked[[2, 5]][:, [2, 5]]
    assert float(contrastive_loss(alone, symmetric=True)) == 0.0  # two equal rows teach nothing


@pytest.mark.parametrize("pooling", [*((name,) for name in POOLINGS), ("cls", "mean", "max")])
def test_pooling(pooling: tuple[str, ...]) -> None:
    lengths = (1, 4, 4, 2, 7)
    packed = pack_sequences([torch.arange(n) + 4 for n in lengths], padding_idx=1)
    rows = drawn(sum(lengths), 3).requires_grad_()
    by_hand: dict[str, Callable[[Tensor], Tensor]] = {
        "cls": lambda own: own[0],
        "max": lambda own: own.amax(0),
        "mean": lambda own: own.mean(0),
        "mean_sqrt_len": lambda own: own.sum(0) / math.sqrt(len(own)),
        "weighted_mean": lambda own: (
            (torch.arange(len(own)) + 1.0).double() @ own / sum(range(1, len(own) + 1))
        ),
        "last_token": lambda own: own[len(own) - 1],
        "pooler": lambda own: own[0].sin(),
    }
    wanted = [torch.cat([by_hand[name](own) for name in pooling]) for own in rows.split(lengths)]
    torch.testing.assert_close(
        pool_sequences(rows, packed, pooling, torch.sin), torch.stack(wanted)
    )
    assert torch.autograd.gradcheck(
        lambda rows: pool_sequences(rows, packed, pooling, torch.sin), rows
    )


def test_gradients() -> None:
    a, p, n = (drawn(4, 3, seed=seed).requires_grad_() for seed in (1, 2, 3))
    numbers = torch.tensor([0, 1, 2, 0]), torch.tensor([4, 5, 6, 7]), torch.tensor([8, 9, 4, 11])

    def loss(a: Tensor, p: Tensor, n: Tensor, symmetric: bool) -> Tensor:
        table = SCALE * cosine_matrix(a, torch.cat([p, n]))
        return contrastive_loss(
            table.masked_fill(false_negatives(*numbers), -torch.inf), symmetric=symmetric
        )

    assert torch.autograd.gradcheck(lambda *v: loss(*v, False), (a, p, n))
    assert torch.autograd.gradcheck(lambda *v: loss(*v, True), (a, p, n))
    scores = torch.tensor([1.0, 3.0, 3.0, 0.0])
    assert torch.autograd.gradcheck(
        lambda a, p: cosent_loss(torch.cosine_similarity(a, p), scores, SCALE), (a, p)
    )
    for width in (3, 5):
        assert torch.autograd.gradcheck(
            lambda a, w=width: teacher_distance(a, drawn(4, w, seed=9)), a
        )
