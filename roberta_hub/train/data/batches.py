"""Plans which examples make an update: a random order, cut by a token budget, dealt to processes.

Packed batches have no padding, so only the budget matters. Examples of like length still go
together, because neighbours of equal length share one attention call: they are drawn at random into
a pool, sorted there, and the batches of the epoch are shuffled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from typing import TypeVar

import torch

from roberta_hub.errors import InputError

Item = TypeVar("Item")
Update = list[list[int]]
"""The micro-batches of one step of the optimizer: indices of examples, longest first in each."""
WINDOW = 64
"""Micro-batches (with `batch_size`: updates) of a pool, the examples that are sorted by length
together."""
POOLS = 4
"""Pools an epoch has at least where `batch_size` is given, so that few data are not all sorted."""


def plan(
    lengths: Sequence[int],
    max_tokens: int | None,
    *,
    seed: int,
    epoch: int,
    update_freq: int = 1,
    world: int = 1,
    batch_size: int | None = None,
) -> list[Update]:
    """Plan every update of an epoch; each example comes once.

    An update is `update_freq` micro-batches of at most `max_tokens` tokens; or, with `batch_size`,
    that many times `update_freq` examples, in more micro-batches where the budget asks for it. What
    is in an update does not depend on the number of processes: where
    `update_freq` is no multiple of `world`, the update is cut into more, smaller micro-batches.

    Examples are drawn into pools at random, and sorted by length there: without `batch_size` the
    lengths of a micro-batch are alike, with it those of an update, so that an update of two
    micro-batches of 4 is one of 8. (fairseq's fine-tuning tasks draw each batch from the whole data
    set: a `SortDataset` in random order.)

    Args:
        lengths: tokens of each example.
        max_tokens: budget of a micro-batch; None: only `batch_size` counts.
        seed: with the epoch it decides the order.
        epoch: counted from 0.
        update_freq: micro-batches an update, over all processes (fairseq counts each process's).
        world: processes; an update has a multiple of it in micro-batches.
        batch_size: examples a micro-batch; None: as many as fit.

    Returns:
        Updates; `share` says which micro-batches of one are a process's own.

    Raises:
        InputError: no limit at all, no examples, or one example over the budget.

    Example:
        >>> plan([3, 3, 3, 3, 3], 6, seed=0, epoch=0, update_freq=2)
        [[[0, 1], [3]], [[2, 4]]]
    """
    _check(lengths, max_tokens, batch_size, update_freq, world)
    order = torch.randperm(len(lengths), generator=_generator(seed, epoch, "order")).tolist()
    shuffle = _generator(seed, epoch, "updates")  # pools are sorted: not the updates as well
    if batch_size is None:
        assert max_tokens is not None  # _check
        mean = max(1.0, sum(lengths) / len(lengths))
        order = _together(order, lengths, max(1, int(WINDOW * max_tokens / mean)))
        updates = _grouped(_shuffled(_cut(order, lengths, max_tokens, None), shuffle), update_freq)
    else:
        size = batch_size * update_freq
        pool = size * max(1, min(WINDOW, len(lengths) // (size * POOLS)))
        whole = _shuffled(_grouped(_together(order, lengths, pool), size), shuffle)
        updates = [_cut(examples, lengths, max_tokens, batch_size) for examples in whole]
    return [_deal(update, lengths, world) for update in updates]


def share(update: Update, rank: int, world: int) -> Update:
    """Pick one process's micro-batches; one is empty if examples are fewer than processes."""
    return update[rank::world]


def _generator(seed: int, epoch: int, what: str) -> torch.Generator:
    digest = hashlib.blake2b(f"{what} {seed} {epoch}".encode(), digest_size=7).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big"))


def _check(
    lengths: Sequence[int],
    max_tokens: int | None,
    batch_size: int | None,
    update_freq: int,
    world: int,
) -> None:
    if not len(lengths):
        raise InputError("there are no training examples; is the data file empty?")
    if max_tokens is None and batch_size is None:
        raise InputError("neither max_tokens nor batch_size is given; set one of them")
    sizes = {"max_tokens": max_tokens, "batch_size": batch_size, "update_freq": update_freq}
    for name, value in {**sizes, "world": world}.items():
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}, must be at least 1")
    if max_tokens is not None and (longest := max(lengths)) > max_tokens:
        where = next(i for i, length in enumerate(lengths) if length == longest)
        raise InputError(
            f"training example {where}, counted from 0, has {longest} tokens, over "
            f"batch.max_tokens {max_tokens}; raise it, or cut long examples with "
            "task.options.max_length and truncate"
        )


def _together(order: list[int], lengths: Sequence[int], size: int) -> list[int]:
    """Sort by length within pools of so many examples; ties keep their order."""
    pools = (order[i : i + size] for i in range(0, len(order), size))
    return list(chain.from_iterable(sorted(p, key=lambda i: -lengths[i]) for p in pools))


def _shuffled(items: list[Item], generator: torch.Generator) -> list[Item]:
    return [items[i] for i in torch.randperm(len(items), generator=generator).tolist()]


def _grouped(items: list[Item], count: int) -> list[list[Item]]:
    return [items[i : i + count] for i in range(0, len(items), count)]


def _cut(
    order: list[int], lengths: Sequence[int], max_tokens: int | None, batch_size: int | None
) -> list[list[int]]:
    """Consecutive micro-batches within both limits, longest example first in each."""
    batches: list[list[int]] = []
    current: list[int] = []
    total = 0
    for i in order:
        over = max_tokens is not None and total + lengths[i] > max_tokens
        if current and (over or len(current) == batch_size):
            batches.append(current)
            current, total = [], 0
        current.append(i)
        total += lengths[i]
    batches.append(current)
    return [sorted(batch, key=lambda i: -lengths[i]) for batch in batches]


def _deal(update: Update, lengths: Sequence[int], world: int) -> Update:
    """Deal the same examples out in a multiple of `world` micro-batches, halving the heaviest."""

    def weight(batch: list[int]) -> tuple[bool, int]:
        return len(batch) > 1, sum(lengths[i] for i in batch)

    dealt = list(update)
    while len(dealt) % world:
        heaviest = max(dealt, key=weight)
        if len(heaviest) < 2:
            dealt.append([])
            continue
        dealt.remove(heaviest)
        # Every other one: they are sorted by length, so both halves weigh about the same.
        dealt += [heaviest[::2], heaviest[1::2]]
    return dealt if dealt == update else sorted(dealt, key=weight, reverse=True)
