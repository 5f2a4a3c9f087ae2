"""The regression on vectors that stay: the same as scikit-learn's, and chosen by unseen rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_models import assert_close
from torch import Tensor

from roberta_hub.settings import HeadKind
from roberta_hub.train.fitting.regression import (
    FEW_ROWS_STRENGTH,
    FEW_ROWS_TRUST,
    LABEL_WORD_TRUSTS,
    ROW_STRENGTHS,
    Regression,
    losses,
    regression,
    solve,
)

KINDS: tuple[HeadKind, ...] = ("single_label", "multi_label", "regression")


def rows_of(kind: HeadKind, count: int = 60, outputs: int = 3, seed: int = 0) -> Any:
    """Vectors of mean norm 1 and targets that they tell, but for some noise."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, 6, generator=generator).double() / 6**0.5
    told = features @ torch.randn(6, outputs, generator=generator).double() * 3
    told += torch.randn(count, outputs, generator=generator).double()
    if kind == "single_label":
        return features, torch.eye(outputs).double()[told.argmax(1)]
    return features, (told > 0.7).double() if kind == "multi_label" else told


def total(features: Tensor, targets: Tensor, kind: HeadKind, layer: Any, prior: Tensor) -> Tensor:
    """What is minimized, divided by the strength 10."""
    fit = losses(features @ layer[0].t() + layer[1], targets, kind).sum()
    return fit + (layer[0] - prior).square().sum() / 20


@pytest.mark.parametrize("strength", [1.0, 10.0, 300.0])
@pytest.mark.parametrize("outputs", [2, 3])
def test_classes_are_those_of_scikit_learn(strength: float, outputs: int) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    features, targets = rows_of("single_label", outputs=outputs)
    layer = solve(features, targets, "single_label", strength)
    # Of two classes it has one weight, the difference of our two: half as much is held.
    peer = linear.LogisticRegression(
        C=strength if outputs > 2 else 2 * strength, tol=1e-9, max_iter=5000
    ).fit(features.numpy(), targets.argmax(1).numpy())
    wanted = torch.from_numpy(peer.predict_proba(features.numpy()))
    assert_close(layer(features).softmax(1), wanted, 1e-4)
    if outputs == 3:
        assert_close(layer.weight, torch.from_numpy(peer.coef_), 1e-4)


@pytest.mark.parametrize("strength", [1.0, 100.0])
def test_several_labels_are_a_regression_each(strength: float) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    features, targets = rows_of("multi_label")
    layer = solve(features, targets, "multi_label", strength)
    for k in range(3):
        peer = linear.LogisticRegression(C=strength, tol=1e-9, max_iter=5000)
        peer.fit(features.numpy(), targets[:, k].numpy())
        wanted = torch.from_numpy(peer.predict_proba(features.numpy())[:, 1])
        assert_close(layer(features)[:, k].sigmoid(), wanted, 1e-4)
        assert_close(layer.weight[k], torch.from_numpy(peer.coef_[0]), 1e-4)


@pytest.mark.parametrize("strength", [0.1, 10.0])
def test_numbers_are_ridge(strength: float) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    features, targets = rows_of("regression", outputs=1)
    layer = solve(features, targets + 5, "regression", strength)
    peer = linear.Ridge(alpha=1 / (2 * strength)).fit(features.numpy(), targets.numpy() + 5)
    assert_close(layer.weight[0], torch.from_numpy(peer.coef_).flatten(), 1e-9)
    assert_close(layer.bias, torch.from_numpy(peer.intercept_), 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_layer_is_the_least_also_with_a_prior(kind: HeadKind) -> None:
    features, targets = rows_of(kind)
    prior = torch.randn(3, 6, generator=torch.Generator().manual_seed(1)).double()
    layer = solve(features, targets, kind, 10.0, prior)
    point = [layer.weight.clone().requires_grad_(), layer.bias.clone().requires_grad_()]
    for slope in torch.autograd.grad(total(features, targets, kind, point, prior), point):
        assert float(slope.abs().max()) < 1e-4
    assert float((layer.weight - solve(features, targets, kind, 10.0).weight).abs().max()) > 1e-3
    assert_close(solve(features, targets, kind, 1e-9, prior).weight, prior)


@pytest.mark.parametrize("kind", KINDS)
def test_where_the_search_starts_does_not_matter(kind: HeadKind) -> None:
    features, targets = rows_of(kind)
    plain = solve(features, targets, kind, 30.0)
    begun = solve(features, targets, kind, 30.0, start=solve(features, targets, kind, 300.0))
    assert_close(begun.weight, plain.weight, 1e-4)


def test_a_solution_is_found_where_no_gradients_are_kept() -> None:
    features, targets = rows_of("single_label")
    with torch.no_grad():
        layer = solve(features, targets, "single_label", 10.0)
    assert not layer.weight.requires_grad
    assert_close(layer.weight, solve(features, targets, "single_label", 10.0).weight)


FOLDS = [list(range(k, 60, 5)) for k in range(5)]


@pytest.fixture
def choosing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty rows are enough to choose."""
    monkeypatch.setattr("roberta_hub.train.fitting.regression.MIN_ROWS_TO_CHOOSE", 60)


def chosen(kind: HeadKind, features: Tensor, targets: Tensor, **more: Any) -> Regression:
    return regression(features, targets, kind, FOLDS, **more)


@pytest.mark.system
@pytest.mark.parametrize("kind", KINDS)
def test_no_row_is_answered_by_what_it_taught(kind: HeadKind) -> None:
    features, targets = rows_of(kind)
    found = chosen(kind, features, targets)
    for fold in FOLDS:
        kept = [i for i in range(60) if i not in fold]
        layer = solve(features[kept], targets[kept], kind, found.settings.strength)
        assert_close(found.unseen[fold], layer(features[fold]), 1e-4)
    assert_close(found.layer.weight, solve(features, targets, kind, found.settings.strength).weight)


@pytest.mark.system
@pytest.mark.parametrize("kind", KINDS)
def test_another_label_of_a_row_changes_the_answers_to_others_alone(
    kind: HeadKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roberta_hub.train.fitting.regression.ROW_STRENGTHS", (30.0,))
    features, targets = rows_of(kind)
    other = targets.clone()
    other[5] = targets[5].roll(1) + (kind == "regression")
    if kind == "multi_label":
        other[5] = targets[5]
        other[5, 0] = 1 - targets[5, 0]
    before, after = chosen(kind, features, targets), chosen(kind, features, other)
    moved = (before.unseen - after.unseen).abs().amax(1)
    own = FOLDS[0]
    assert float(moved[own].max()) < 1e-4
    assert float(moved[[i for i in range(60) if i not in own]].min()) > 1e-4


def test_few_rows_of_classes_choose_nothing() -> None:
    features, targets = rows_of("single_label")
    found = chosen("single_label", features, targets)
    assert (found.settings.strength, found.settings.trust) == (FEW_ROWS_STRENGTH, 0.0)
    words = torch.eye(3, 6).double()
    found = chosen("single_label", features, targets, words=words)
    assert (found.settings.strength, found.settings.trust) == (FEW_ROWS_STRENGTH, FEW_ROWS_TRUST)
    layer = solve(features, targets, "single_label", 10.0, FEW_ROWS_TRUST * words)
    assert_close(found.layer.weight, layer.weight)
    left = chosen("multi_label", features, targets, words=words)  # each label has its own rows
    assert left.settings.strength in ROW_STRENGTHS


def test_settings_have_the_least_loss_on_unseen_rows(choosing: None) -> None:
    features, targets = rows_of("single_label")
    targets = targets[torch.randperm(60, generator=torch.Generator().manual_seed(0))]
    assert chosen("single_label", features, targets).settings.strength == min(ROW_STRENGTHS)
    clear = torch.eye(3).double()[torch.arange(60) % 3]
    sharp = torch.cat([clear, torch.zeros(60, 3).double()], 1)
    assert chosen("single_label", sharp, clear).settings.strength == max(ROW_STRENGTHS)


@pytest.mark.system
def test_words_are_trusted_where_they_help(choosing: None) -> None:
    """Few rows of many classes: a hint of each class's direction is worth more than they are."""
    generator = torch.Generator().manual_seed(3)
    centres = torch.nn.functional.normalize(torch.randn(6, 12, generator=generator).double())
    classes = torch.arange(60) % 6
    features = centres[classes] + 0.4 * torch.randn(60, 12, generator=generator).double()
    features /= features.norm(dim=1).mean()
    targets = torch.eye(6).double()[classes]
    plain = chosen("single_label", features, targets)
    helped = chosen("single_label", features, targets, words=centres)
    misled = chosen("single_label", features, targets, words=centres.roll(1, 0))
    assert plain.settings.trust == 0.0 == misled.settings.trust
    assert helped.settings.trust in LABEL_WORD_TRUSTS[1:]
    before, after = (losses(f.unseen, targets, "single_label").mean() for f in (plain, helped))
    assert float(after) < float(before)


def test_losses() -> None:
    logits = torch.tensor([[2.0, -1.0, 0.5]]).double()
    shares = torch.tensor([[0.25, 0.75, 0.0]]).double()
    wanted = torch.nn.functional.cross_entropy(logits, shares)
    assert_close(losses(logits, shares, "single_label")[0], wanted)
    flags = torch.tensor([[1.0, 0.0, 1.0]]).double()
    chances = logits.sigmoid()
    wanted = -(flags * chances.log() + (1 - flags) * (1 - chances).log()).sum()
    assert_close(losses(logits, flags, "multi_label")[0], wanted)
    assert losses(logits, flags, "regression").tolist() == [1.0 + 1.0 + 0.25]
