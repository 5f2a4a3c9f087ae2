"""Ranks texts without labels by how much their labels would teach.

It stays out of the package: see results/doubtful.md.
"""

from __future__ import annotations

import torch
from torch import Tensor


def uncertainty(probabilities: Tensor) -> Tensor:
    """Tell how unsure answers are, 0 to 1: 1 less the first probability's distance from the second.

    Args:
        probabilities: of each class. Shape: (N, K)
    """
    first = probabilities.topk(2, 1).values
    return 1 - (first[:, 0] - first[:, 1])


def most_useful(doubt: Tensor, pool: Tensor, learnt: Tensor, count: int) -> list[int]:
    """Choose texts that together stand for those that are unsure, the most useful first.

    A text is stood for as well as its nearest one with a label is near, by the cosine of their
    vectors. One after the other that text is chosen that adds most to the sum of this over all
    texts, each weighted by how unsure its answer is (facility location).

    Args:
        doubt: how unsure the answer to each text is. Shape: (M,)
        pool: their vectors. Shape: (M, C)
        learnt: vectors of the texts with labels. Shape: (N, C)
        count: texts to choose, at most M.
    """
    pool = torch.nn.functional.normalize(pool.float(), dim=1)
    learnt = torch.nn.functional.normalize(learnt.float(), dim=1)
    near = (pool @ pool.T).clamp(min=0)
    best = (pool @ learnt.T).amax(1).clamp(min=0)
    chosen: list[int] = []
    for _ in range(count):
        gains = doubt.float() @ (near - best[:, None]).clamp_(min=0)
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        best = torch.maximum(best, near[:, chosen[-1]])
    return chosen
