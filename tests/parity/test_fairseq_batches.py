"""Batches in fairseq's order, beside those that its own iterators give."""

from __future__ import annotations

import random

import pytest

from roberta_hub.train.data.fairseq_batches import plan_as_fairseq

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_fairseq]


def fairseqs(
    sizes: list[int],
    epoch: int,
    world: int,
    freq: int,
    multiple: int,
    by_length: bool,
    *,
    longest: int,
    **limits: int | None,
) -> list[list[list[int]]]:
    """Updates of an epoch by real fairseq: micro-batches of all processes together."""
    peers.real_fairseq()
    import numpy as np
    import torch
    from fairseq.data import (
        IdDataset,
        ListDataset,
        NestedDictionaryDataset,
        SortDataset,
        data_utils,
        iterators,
    )
    from fairseq.tasks import LegacyFairseqTask

    items = [torch.full((size,), number) for number, size in enumerate(sizes)]
    parts = {"id": IdDataset(), "ids": ListDataset(items, np.array(sizes))}
    data = NestedDictionaryDataset(parts, sizes=[np.array(sizes)])
    with data_utils.numpy_seed(3):
        shuffle = np.random.permutation(len(sizes))
    order = [shuffle, np.array(sizes)] if by_length else [shuffle]
    dataset = SortDataset(data, sort_order=order)
    each = []
    for rank in range(world):
        iterator = LegacyFairseqTask(None).get_batch_iterator(
            dataset,
            max_positions=longest,
            ignore_invalid_inputs=True,
            required_batch_size_multiple=multiple,
            seed=3,
            num_shards=world,
            shard_id=rank,
            epoch=epoch + 1,
            disable_iterator_cache=True,
            **limits,
        )
        iterator.collate_fn = lambda rows: [int(row["id"]) for row in rows]
        own = iterator.next_epoch_itr(shuffle=True)
        each.append(list(iterators.GroupedIterator(own, freq)))
    return [
        [batch for turn in zip(*ranks, strict=True) for batch in turn if batch]
        for ranks in zip(*each, strict=True)
    ]


@pytest.mark.parametrize("seed", range(25))
def test_the_same_updates(seed: int) -> None:
    draw = random.Random(seed)
    sizes = [draw.randint(1, 24) for _ in range(draw.randint(1, 70))]
    limits = {"max_tokens": draw.choice([None, 24, 60]), "max_sentences": draw.choice([None, 3, 8])}
    if not any(limits.values()):
        limits["max_sentences"] = 4
    epoch, multiple, by_length = draw.randrange(4), draw.choice([1, 8]), draw.random() < 0.5
    world, freq, longest = draw.choice([1, 2]), draw.choice([1, 2]), draw.choice([20, 24])
    wanted = fairseqs(sizes, epoch, world, freq, multiple, by_length, longest=longest, **limits)
    found = plan_as_fairseq(
        [size if size <= longest else 0 for size in sizes],
        limits["max_tokens"],
        seed=3,
        epoch=epoch,
        update_freq=freq * world,
        batch_size=limits["max_sentences"],
        multiple=multiple,
        by_length=by_length,
    )
    assert list(found) == wanted
