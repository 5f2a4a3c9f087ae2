"""Plans which examples make an update: a random order, cut by a token budget, dealt to processes.

Packed batches have no padding, so only the budget matters. Examples of like length still go
together, because neighbours of equal length share one attention call.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from typing import overload

import torch
from torch import Tensor

from roberta_hub.errors import InputError

Update = list[list[int]]
"""The micro-batches of one step of the optimizer: indices of examples, longest first in each."""
SORT_WINDOW = 64
"""Micro-batches that are sorted by length together; the order of larger pieces stays random."""


class EpochPlan(Sequence[Update]):
    """The updates of an epoch, kept as tensors and made into lists one by one.

    A hundred million examples take 8 bytes each, not a list's 36.
    """

    def __init__(
        self, order: Tensor, starts: Tensor, ends: Tensor, cuts: Tensor, lengths: Tensor, world: int
    ) -> None:
        """Keep what `plan_epoch` has made.

        Args:
            order: examples, those of a micro-batch side by side. Shape: (examples,)
            starts: where each micro-batch begins in `order`. Shape: (micro-batches,)
            ends: where it ends. Shape: (micro-batches,)
            cuts: where each update begins among the micro-batches, and the end. Shape:
                (updates + 1,)
            lengths: tokens of each example. Shape: (examples,)
            world: processes.
        """
        self.order, self.starts, self.ends, self.cuts = order, starts, ends, cuts
        self.lengths, self.world = lengths, world

    @property
    def micro_batches(self) -> int:
        """How many there are in the epoch, before they are dealt to processes."""
        return len(self.starts)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    @overload
    def __getitem__(self, number: int) -> Update: ...
    @overload
    def __getitem__(self, number: slice) -> list[Update]: ...
    def __getitem__(self, number: int | slice) -> Update | list[Update]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        if not -len(self) <= number < len(self):
            raise IndexError(f"update {number} of {len(self)}")
        first, last = self.cuts[number % len(self) :][:2].tolist()
        places = zip(self.starts[first:last].tolist(), self.ends[first:last].tolist(), strict=True)
        update = [self.order[start:end].tolist() for start, end in places]
        return _deal(update, self.lengths, self.world) if len(update) % self.world else update

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def plan_epoch(
    lengths: Sequence[int],
    max_tokens: int | None,
    *,
    seed: int,
    epoch: int,
    update_freq: int = 1,
    world: int = 1,
    batch_size: int | None = None,
    done: int = 0,
    warmup: int = 0,
) -> EpochPlan:
    """Plan every update of an epoch; each example comes once.

    An update is `update_freq` micro-batches, of at most `max_tokens` tokens and `batch_size`
    examples each. What is in an update does not depend on the number of processes: where
    `update_freq` is no multiple of `world`, the update is cut into more, smaller micro-batches.

    Example:
        >>> list(plan_epoch([3, 3, 3, 3, 3], 6, seed=0, epoch=0, update_freq=2))
        [[[0, 1], [3]], [[2, 4]]]
    """
    _check(lengths, max_tokens, batch_size, update_freq, world)
    sizes = _tensor(lengths)
    order = torch.randperm(len(sizes), generator=_generator(seed, epoch, "order"))
    if not sizes.all():
        order = order[sizes[order] > 0]
    if batch_size is None:
        assert max_tokens is not None  # _check
        order = _together(order, sizes, max_tokens)
    ends = _cut(sizes[order], max_tokens, batch_size)
    starts = torch.cat([torch.zeros(1, dtype=torch.long), ends[:-1]])
    order = _longest_first(order, sizes, ends - starts)
    if batch_size is None:  # lengths are sorted within windows: not the updates as well
        shuffled = torch.randperm(len(ends), generator=_generator(seed, epoch, "updates"))
        starts, ends = starts[shuffled], ends[shuffled]
    return EpochPlan(
        order, starts, ends, _updates(len(ends), update_freq, done, warmup), sizes, world
    )


def update_freq_at(number: int, update_freq: int, warmup: int) -> int:
    """Count the micro-batches of an update while batches grow, in a straight line from 1.

    Example:
        >>> [update_freq_at(number, 4, 8) for number in range(10)]
        [1, 1, 1, 2, 2, 3, 3, 4, 4, 4]
    """
    return update_freq if number >= warmup else max(1, update_freq * (number + 1) // warmup)


def count_updates(epoch: int, epochs: int, update_freq: int, warmup: int) -> int:
    """Count the updates of several epochs of so many micro-batches each.

    Example:
        >>> count_updates(8, 2, 4, 0), count_updates(8, 2, 4, 8)
        (4, 9)
    """
    done = 0
    for number in range(epochs):
        if done >= warmup:
            return done + (epochs - number) * -(-epoch // update_freq)
        done += len(_updates(epoch, update_freq, done, warmup)) - 1
    return done


def _updates(count: int, update_freq: int, done: int, warmup: int) -> Tensor:
    """Cut so many micro-batches into updates: where each begins, and the end."""
    cuts = [0]
    while cuts[-1] < count and done < warmup:
        cuts.append(min(count, cuts[-1] + update_freq_at(done, update_freq, warmup)))
        done += 1
    rest = torch.arange(cuts[-1], count, update_freq)[1:]
    end = [count] if cuts[-1] < count else []
    return torch.cat([torch.tensor(cuts), rest, torch.tensor(end, dtype=torch.long)])


def batches_of_process(update: Update, rank: int, world: int) -> Update:
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
    if not any(lengths):
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


def _tensor(lengths: Sequence[int]) -> Tensor:
    if isinstance(lengths, array):
        return torch.frombuffer(lengths, dtype=_OF_ARRAY[lengths.typecode])
    return torch.tensor(lengths, dtype=torch.long)


_OF_ARRAY = {"i": torch.int32, "q": torch.int64}


def _together(order: Tensor, lengths: Tensor, max_tokens: int) -> Tensor:
    """Sort by length within windows of about `SORT_WINDOW` micro-batches; ties keep their order."""
    mean = max(1.0, int(lengths.sum()) / len(lengths))
    size = max(1, int(SORT_WINDOW * max_tokens / mean))
    return _sorted(order, lengths, torch.arange(len(order)) // size)


def _longest_first(order: Tensor, lengths: Tensor, counts: Tensor) -> Tensor:
    """Sort by length within micro-batches of so many examples; ties keep their order."""
    return _sorted(order, lengths, torch.repeat_interleave(torch.arange(len(counts)), counts))


def _sorted(order: Tensor, lengths: Tensor, groups: Tensor) -> Tensor:
    """Sort by group, which is so already, and the longest first in each."""
    top = int(lengths.max()) + 1
    return order[torch.sort(groups * top - lengths[order], stable=True).indices]


def _cut(sizes: Tensor, max_tokens: int | None, batch_size: int | None) -> Tensor:
    """End consecutive micro-batches within both limits."""
    if max_tokens is None:
        assert batch_size is not None  # _check
        ends = torch.arange(batch_size, len(sizes) + batch_size, batch_size)
        return ends.clamp(max=len(sizes))
    sums = sizes.cumsum(0, dtype=torch.long).numpy()  # (examples,)
    found, start, before = array("q"), 0, 0
    while start < len(sums):
        end = int(sums.searchsorted(before + max_tokens, side="right"))
        if batch_size is not None:
            end = min(end, start + batch_size)
        found.append(end)
        start, before = end, int(sums[end - 1])
    return torch.frombuffer(found, dtype=torch.long)


def _deal(update: Update, lengths: Tensor, world: int) -> Update:
    """Deal the same examples out in a multiple of `world` micro-batches, halving the heaviest."""

    def weight(batch: list[int]) -> tuple[bool, int]:
        return len(batch) > 1, int(lengths[batch].sum())

    dealt = list(update)
    while len(dealt) % world:
        heaviest = max(dealt, key=weight)
        if len(heaviest) < 2:
            dealt.append([])
            continue
        dealt.remove(heaviest)
        # Every other one: they are sorted by length, so both halves weigh about the same.
        dealt += [heaviest[::2], heaviest[1::2]]
    return sorted(dealt, key=weight, reverse=True)
