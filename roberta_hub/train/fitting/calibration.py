"""Calibrates probabilities: temperature scaling, and thresholds for multi-label heads.

Legend: n rows, K classes or labels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from roberta_hub.settings import HeadKind
from roberta_hub.train.fitting.regression import losses

LOG_TEMPERATURE_STD = 0.4
"""Standard deviation of the logarithm of the expected temperature: it holds that of few rows."""
SEARCH_STEPS = 100
SHARED_THRESHOLD_ROWS = 8.0
"""Rows' worth of all labels that each label's own threshold is held by."""


def fit_temperature(
    logits: Tensor,
    targets: Tensor,
    kind: HeadKind,
    usual: float = 1.0,
    weights: Tensor | None = None,
) -> float:
    """Fit the temperature that calibrates logits (Guo et al. 2017).

    The temperature is the likeliest one, given the rows and a log-normal prior. There is always one
    and no edge of a search: the loss of the rows is convex in its inverse.

    Args:
        logits: of rows that the weights have not seen. Shape: (n, K)
        targets: (n, K); see `losses`.
        kind: of the head; numbers have no temperature.
        usual: what is expected before a row is seen.
        weights: how much each row counts; None: all count as one row. Shape: (n,)

    Example:
        >>> sure, targets = torch.tensor([[5.0, -5.0]] * 40), torch.eye(2)[[0, 0, 0, 1] * 10]
        >>> fit_temperature(sure, targets, "single_label") > 2
        True
    """
    if kind == "regression":
        return 1.0
    logits, targets = logits.double(), targets.double()
    counted = targets.new_ones(len(targets)) if weights is None else weights.double()
    expected = math.log(usual)
    log_t = torch.full((), expected, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS([log_t], max_iter=SEARCH_STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        search.zero_grad()
        fit = (losses(logits / log_t.exp(), targets, kind) * counted).sum()
        total = fit + ((log_t - expected) / LOG_TEMPERATURE_STD).square() / 2
        total.backward()  # type: ignore[no-untyped-call]
        return total

    with torch.enable_grad():
        search.step(closure)  # type: ignore[no-untyped-call]
    return math.exp(float(log_t.detach()))


def cross_calibrated(
    logits: Tensor,
    targets: Tensor,
    kind: HeadKind,
    folds: Sequence[Sequence[int]],
    usual: float = 1.0,
    weights: Tensor | None = None,
) -> Tensor:
    """Divide the logits of each fold by the temperature of the others: (n, K) -> (n, K).

    So no row has a part in the temperature by which it is judged.

    Args:
        logits: of rows that the weights have not seen. Shape: (n, K)
        targets: (n, K).
        kind: of the head.
        folds: of the rows; every row is in one.
        usual: see `fit_temperature`.
        weights: see `fit_temperature`. Shape: (n,)
    """
    found = logits.clone()
    weights = targets.new_ones(len(targets)) if weights is None else weights
    for fold in folds:
        others = torch.ones(len(logits), dtype=torch.bool)
        others[list(fold)] = False
        own = logits[others], targets[others], kind, usual, weights[others]
        found[list(fold)] /= fit_temperature(*own)
    return found


def choose_thresholds(
    probabilities: Tensor, targets: Tensor, weights: Tensor | None = None
) -> tuple[float, ...]:
    """Choose from which probability on each label is given, for the largest micro-F1.

    A label with few rows would choose by chance. So each is judged together with some rows' worth
    of all labels.

    Args:
        probabilities: of rows that the weights have not seen. Shape: (n, K)
        targets: 1.0 where a row has a label. Shape: (n, K)
        weights: how much each row counts; None: all count as one row. Shape: (n,)

    Example:
        >>> probabilities = torch.tensor([[0.2], [0.3], [0.1]])
        >>> choose_thresholds(probabilities, torch.tensor([[1.0], [1.0], [0.0]]))
        (0.175,)
    """
    grid = torch.arange(1, 20, dtype=probabilities.dtype) / 20  # 0.05 ... 0.95
    right = targets.new_empty(len(grid), targets.shape[1])  # (thresholds, K)
    answered = torch.empty_like(right)
    counted = targets.new_ones(len(targets)) if weights is None else weights.to(targets)
    columns = zip(probabilities.unbind(1), targets.unbind(1), strict=True)
    for k, (own, has) in enumerate(columns):  # a label at a time, for the memory
        given = own.contiguous() >= grid.view(-1, 1)  # (thresholds, n)
        given = given * counted  # (thresholds, n)
        right[:, k], answered[:, k] = (given * has.contiguous()).sum(1), given.sum(1)
    wanted = counted @ targets
    share = SHARED_THRESHOLD_ROWS / max(float(counted.sum()), 1)
    numerator = 2 * (right + share * right.mean(1, keepdim=True))
    denominator = answered + wanted + share * (answered + wanted).mean(1, keepdim=True)
    found = numerator / denominator.clamp(min=1e-9)
    best = found.amax(0, keepdim=True) - found < 1e-9
    return tuple(_middle(grid.tolist(), own) for own in best.t().tolist())


def _middle(grid: list[float], best: list[bool]) -> float:
    """Middle of the longest run of equally good thresholds."""
    places = itertools.groupby(range(len(grid)), key=best.__getitem__)
    run = max((list(own) for good, own in places if good), key=len)
    return round((grid[run[0]] + grid[run[-1]]) / 2, 4)
