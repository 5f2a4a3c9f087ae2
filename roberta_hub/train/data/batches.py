"""Plans which examples make an update: a random order, cut by a token budget, dealt to processes.

Packed batches have no padding, so only the budget matters. Examples of like length still go
together, because neighbours of equal length share one attention call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain

import torch

from roberta_hub.errors import InputError

Update = list[list[int]]
"""The micro-batches of one step of the optimizer: indices of examples, longest first in each."""
WINDOW = 64
"""Micro-batches that are sorted by length together; the order of larger pieces stays random."""


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

    An update is `update_freq` micro-batches, of at most `max_tokens` tokens and `batch_size`
    examples each. What is in an update does not depend on the number of processes: where
    `update_freq` is no multiple of `world`, the update is cut into more, smaller micro-batches.

    Args:
        lengths: tokens of each example.
        max_tokens: budget of a micro-batch; None: only `batch_size` counts.
        seed: with the epoch it decides the order.
        epoch: counted from 0.
        update_freq: micro-batches an update, over all processes (fairseq counts each process's).
        world: processes; an update has a multiple of it in micro-batches.
        batch_size: examples a micro-batch, in purely random order; None: as many as fit, lengths
            together.

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
    if batch_size is None:
        assert max_tokens is not None  # _check
        order = _together(order, lengths, max_tokens)
    micro = _cut(order, lengths, max_tokens, batch_size)
    if batch_size is None:  # lengths are sorted within windows: not the updates as well
        shuffled = torch.randperm(len(micro), generator=_generator(seed, epoch, "updates"))
        micro = [micro[i] for i in shuffled.tolist()]
    updates = [micro[i : i + update_freq] for i in range(0, len(micro), update_freq)]
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


def _together(order: list[int], lengths: Sequence[int], max_tokens: int) -> list[int]:
    """Sort by length within windows of about WINDOW micro-batches; ties keep their order."""
    mean = max(1.0, sum(lengths) / len(lengths))
    size = max(1, int(WINDOW * max_tokens / mean))
    windows = (order[i : i + size] for i in range(0, len(order), size))
    return list(chain.from_iterable(sorted(w, key=lambda i: -lengths[i]) for w in windows))


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
