"""Learns a linear head on vectors that stay as they are: logistic and ridge regression.

Legend: n rows, D features, K outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.settings import HeadKind

ROW_STRENGTHS: tuple[float, ...] = (10.0, 30.0, 100.0, 300.0)
"""Weight of the rows relative to the prior, for features of mean norm 1 (scikit-learn's C)."""
LABEL_WORD_TRUSTS: tuple[float, ...] = (0.0, 3.0, 6.0, 12.0)
"""Lengths of the weights that a label's own words suggest; 0: they suggest nothing."""
FIRST_STRENGTH = 100.0
"""The strength with which the trust is chosen."""
MIN_ROWS_TO_CHOOSE = 200
"""Fewer rows of classes (counted by weight) cannot choose either. By constants the regression
is as good, and a training that starts there better (benchmarks/results/fit_elsewhere.md)."""
FEW_ROWS_STRENGTH = 10.0
FEW_ROWS_TRUST = 3.0
MAX_STEPS = 200


@dataclass(frozen=True)
class Linear:
    """Weights of a linear layer: logits = features @ weight.T + bias."""

    weight: Tensor
    """(K, D), float64."""
    bias: Tensor
    """(K,), float64."""

    def __call__(self, features: Tensor) -> Tensor:
        """Compute logits: (n, D) -> (n, K)."""
        return features @ self.weight.t() + self.bias


@dataclass(frozen=True)
class RegressionSettings:
    """Options of a regression."""

    strength: float
    trust: float = 0.0


@dataclass(frozen=True)
class Regression:
    """A linear head, and what it answers to rows that it had not learnt."""

    layer: Linear
    """Learnt on all rows."""
    settings: RegressionSettings
    """Those with the least loss on rows outside the training."""
    unseen: Tensor
    """Logits of each row by a layer that learnt the other folds. Shape: (n, K)"""


def losses(logits: Tensor, targets: Tensor, kind: HeadKind) -> Tensor:
    """Compute the loss of each row: (n, K), (n, K) -> (n,).

    Example:
        >>> losses(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]), "single_label")
        tensor([0.6931])
    """
    if kind == "single_label":
        return -(targets * logits.log_softmax(-1)).sum(-1)
    if kind == "multi_label":
        each = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        return each.sum(-1)
    return (logits - targets).square().sum(-1)


def solve(
    features: Tensor,
    targets: Tensor,
    kind: HeadKind,
    strength: float,
    prior: Tensor | None = None,
    start: Linear | None = None,
    weights: Tensor | None = None,
) -> Linear:
    """Find the layer that fits the rows and stays near its prior.

    It minimizes |W - prior|^2 / 2 + strength * sum of the rows' losses; the bias is free. A row
    with a weight of 2 counts as two rows do.

    Args:
        features: (n, D), float64.
        targets: (n, K), float64; see `losses`.
        kind: of the head.
        strength: how much the rows count.
        prior: weights before anything is learnt; None: zeros. Shape: (K, D)
        start: a layer to start the search at.
        weights: how much each row counts; None: all count as one row. Shape: (n,)

    Example:
        >>> features = torch.tensor([[-1.0], [1.0]]).double()
        >>> layer = solve(features, torch.eye(2).double(), "single_label", 10.0)
        >>> layer(features).argmax(1).tolist()
        [0, 1]
    """
    prior = features.new_zeros(targets.size(1), features.size(1)) if prior is None else prior
    counted = features.new_ones(len(features)) if weights is None else weights
    if kind == "regression":
        return _ridge(features, targets, strength, prior, counted)
    weight = (prior if start is None else start.weight).clone().requires_grad_()
    bias = (targets.new_zeros(targets.size(1)) if start is None else start.bias).clone()
    bias.requires_grad_()
    search = torch.optim.LBFGS(
        [weight, bias],
        max_iter=MAX_STEPS,
        tolerance_grad=1e-5,
        tolerance_change=1e-8,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        search.zero_grad()
        fit = (losses(features @ weight.t() + bias, targets, kind) * counted).sum()
        total = fit + (weight - prior).square().sum() / (2 * strength)
        total.backward()  # type: ignore[no-untyped-call]
        return total

    with torch.enable_grad():
        search.step(closure)  # type: ignore[no-untyped-call]
    return Linear(weight.detach(), bias.detach())


def _ridge(
    features: Tensor, targets: Tensor, strength: float, prior: Tensor, weights: Tensor
) -> Linear:
    """Solve for numbers: squared errors have their least in closed form."""
    each = (weights / weights.mean())[:, None]
    middle, level = (each * features).mean(0), (each * targets).mean(0)
    centred = features - middle
    counted = (weights[:, None] * centred).t()
    left = counted @ centred
    left.diagonal().add_(1 / (2 * strength))
    right = counted @ (targets - level - centred @ prior.t())
    weight = prior + torch.linalg.solve(left, right).t()
    return Linear(weight, level - weight @ middle)


def regression(
    features: Tensor,
    targets: Tensor,
    kind: HeadKind,
    folds: Sequence[Sequence[int]],
    words: Tensor | None = None,
    weights: Tensor | None = None,
) -> Regression:
    """Choose the strength, and the trust in the labels' own words, by cross-validation.

    Few rows of classes choose nothing.

    Args:
        features: (n, D), float64; of mean norm 1, about.
        targets: (n, K), float64; see `losses`.
        kind: of the head.
        folds: rows that are left out together; at least 2.
        words: directions that the labels' own words suggest; None: they suggest nothing. Shape:
            (K, D)
        weights: how much each row counts; see `solve`. Shape: (n,)

    Example:
        >>> features = torch.tensor([[-1.0], [-0.9], [0.9], [1.0]]).double()
        >>> targets = torch.eye(2).double().repeat_interleave(2, 0)
        >>> found = regression(features, targets, "single_label", [[0, 2], [1, 3]])
        >>> found.unseen.argmax(1).tolist()
        [0, 0, 1, 1]
    """
    weights = features.new_ones(len(features)) if weights is None else weights
    search = _Search(features, targets, kind, folds, words, weights)
    strengths, trusts = ROW_STRENGTHS, LABEL_WORD_TRUSTS
    if kind == "single_label" and float(weights.sum()) < MIN_ROWS_TO_CHOOSE:
        strengths, trusts = (FEW_ROWS_STRENGTH,), (FEW_ROWS_TRUST,)
    trusts = (0.0,) if words is None else trusts
    trust = search.best(RegressionSettings(FIRST_STRENGTH, trust) for trust in trusts).trust
    best = search.best(RegressionSettings(strength, trust) for strength in strengths)
    layer = solve(features, targets, kind, best.strength, search.prior(best), weights=weights)
    return Regression(layer, best, search.answers(best))


class _Search:
    """Tries settings, each once."""

    def __init__(
        self,
        features: Tensor,
        targets: Tensor,
        kind: HeadKind,
        folds: Sequence[Sequence[int]],
        words: Tensor | None,
        weights: Tensor,
    ) -> None:
        self.features, self.targets, self.kind = features, targets, kind
        self.words, self.weights = words, weights
        self.parts = [torch.tensor(sorted(fold)) for fold in folds]
        self.layers: list[Linear | None] = [None] * len(folds)  # where the next search starts
        self.unseen: dict[RegressionSettings, Tensor] = {}

    def prior(self, settings: RegressionSettings) -> Tensor | None:
        return None if self.words is None else settings.trust * self.words

    def loss(self, settings: RegressionSettings) -> float:
        """Compute the mean loss on rows outside the training."""
        each = losses(self.answers(settings), self.targets, self.kind)
        return float((each * self.weights).mean() / self.weights.mean())

    def answers(self, settings: RegressionSettings) -> Tensor:
        """Answer each row by what the other folds teach."""
        if settings not in self.unseen:
            self.unseen[settings] = self._answers(settings)
        return self.unseen[settings]

    def best(self, settings: Iterable[RegressionSettings]) -> RegressionSettings:
        """Return the settings with the least loss; one alone need not be tried."""
        tried = list(settings)
        return tried[0] if len(tried) == 1 else min(tried, key=self.loss)

    def _answers(self, settings: RegressionSettings) -> Tensor:
        found = torch.zeros_like(self.targets)
        for k, part in enumerate(self.parts):
            kept = torch.ones(len(self.targets), dtype=torch.bool)
            kept[part] = False
            self.layers[k] = layer = solve(
                self.features[kept],
                self.targets[kept],
                self.kind,
                settings.strength,
                self.prior(settings),
                self.layers[k],
                self.weights[kept],
            )
            found[part] = layer(self.features[part])
        return found
