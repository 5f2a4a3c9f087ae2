"""Plans the updates of an epoch as fairseq 0.12.2 does, batch for batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from roberta_hub.errors import InputError, MissingExtraError
from roberta_hub.extras import install
from roberta_hub.train.data.batches import EpochPlan


def plan_as_fairseq(
    lengths: Sequence[int],
    max_tokens: int | None,
    *,
    seed: int,
    epoch: int,
    update_freq: int = 1,
    world: int = 1,
    batch_size: int | None = None,
    multiple: int = 1,
    by_length: bool = False,
) -> EpochPlan:
    """Plan every update of an epoch, in the order of fairseq's trainer with this seed.

    Example:
        >>> list(plan_as_fairseq([3, 5, 3, 4, 3], 8, seed=1, epoch=0, by_length=True))
        [[[1]], [[2, 3]], [[0, 4]]]
    """
    try:
        import numpy as np
    except ImportError:
        raise MissingExtraError(f"batch.order=fairseq needs numpy: {install('train')}") from None
    sizes = np.asarray(lengths, dtype=np.int64)
    if not sizes.any():
        raise InputError("there are no training examples; is the data file empty?")
    if max_tokens is None and batch_size is None:
        raise InputError("neither max_tokens nor batch_size is given; set one of them")
    shuffled = np.random.RandomState(seed).permutation(len(sizes))
    order = np.lexsort([shuffled, sizes] if by_length else [shuffled])
    order = order[sizes[order] > 0]
    ends = _cut(sizes[order].tolist(), max_tokens, batch_size, multiple)
    turn = list(range(len(ends)))
    np.random.RandomState(seed + epoch + 1).shuffle(turn)
    starts = torch.tensor([0, *ends[:-1]])[turn]
    stops = torch.tensor(ends)[turn]
    cuts = torch.tensor([*range(0, len(ends), update_freq), len(ends)])
    return EpochPlan(torch.from_numpy(order), starts, stops, cuts, _tensor(lengths), world)


def _tensor(lengths: Sequence[int]) -> Tensor:
    return torch.tensor(list(lengths), dtype=torch.long)


def _cut(
    sizes: Sequence[int], max_tokens: int | None, batch_size: int | None, multiple: int
) -> list[int]:
    """End micro-batches where fairseq's `batch_by_size` ends them.

    What has come is the batch, whose size is allowed, and the tail behind it. Together they become
    the batch once their size is allowed too. Where they are too much, the batch ends.
    """
    ends: list[int] = []
    start = end = 0  # of the batch; the tail goes from `end` on
    longest = tail = 0
    for place, size in enumerate(sizes):
        if max_tokens is not None and size > max_tokens:
            raise InputError(
                f"a training example has {size} tokens, over batch.max_tokens {max_tokens}; raise "
                "it"
            )
        tail = max(tail, size)
        both, count = max(longest, tail), place + 1 - start
        over = _over(count, both, max_tokens, batch_size)
        if over:
            if max_tokens is not None and tail * (place + 1 - end) > max_tokens:
                ends.append(end)
                start, end, tail = end, place, size
            ends.append(end)
            start, both = end, tail
        if over or count < multiple or count % multiple == 0:
            end, longest, tail = place + 1, both, 0
    if end > start:
        ends.append(end)
    if end < len(sizes):
        ends.append(len(sizes))
    return [place for place, before in zip(ends, [0, *ends], strict=False) if place > before]


def _over(count: int, longest: int, max_tokens: int | None, batch_size: int | None) -> bool:
    tokens = max_tokens is not None and count * longest > max_tokens
    return tokens or (batch_size is not None and count > batch_size)
