"""Every example once, within the budget, in an order of (seed, epoch).

Processes do not change the order.
"""

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roberta_hub.errors import InputError
from roberta_hub.train.data.batches import batches_of_process, plan_epoch

LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=80)


def examples(updates):
    return sorted(chain.from_iterable(chain.from_iterable(updates)))


@settings(deadline=None, max_examples=60)
@given(
    LENGTHS,
    st.integers(50, 120),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([None, 1, 5]),
    st.integers(0, 3),
)
def test_each_example_once_within_the_limits(lengths, budget, freq, world, size, epoch):
    updates = plan_epoch(
        lengths, budget, seed=3, epoch=epoch, update_freq=freq, world=world, batch_size=size
    )
    assert examples(updates) == list(range(len(lengths)))
    for update in updates:
        assert len(update) % world == 0
        for micro in update:
            assert world > 1 or micro
            assert sum(lengths[i] for i in micro) <= budget
            assert size is None or len(micro) <= size
            assert [lengths[i] for i in micro] == sorted((lengths[i] for i in micro), reverse=True)


@settings(deadline=None, max_examples=40)
@given(LENGTHS, st.integers(1, 4), st.sampled_from([None, 3]))
def test_updates_do_not_depend_on_the_number_of_processes(lengths, freq, size):
    plans = [
        plan_epoch(lengths, 60, seed=1, epoch=2, update_freq=freq, world=world, batch_size=size)
        for world in (1, 2, 3)
    ]
    sets = [[sorted(chain.from_iterable(update)) for update in found] for found in plans]
    assert sets[0] == sets[1] == sets[2]
    for world, found in zip((1, 2, 3), plans, strict=True):
        for update in found:
            shares = [batches_of_process(update, rank, world) for rank in range(world)]
            assert len({len(s) for s in shares}) == 1
            assert sorted(map(tuple, chain(*shares))) == sorted(map(tuple, update))


def test_accumulation_is_a_larger_batch():
    lengths = [5] * 40
    two = plan_epoch(lengths, None, seed=0, epoch=0, update_freq=2, batch_size=4)
    one = plan_epoch(lengths, None, seed=0, epoch=0, update_freq=1, batch_size=8)
    assert [sorted(chain(*u)) for u in two] == [sorted(chain(*u)) for u in one]


def test_order_is_of_seed_and_epoch():
    lengths = list(range(1, 60))
    first = plan_epoch(lengths, 100, seed=1, epoch=0)
    assert first == plan_epoch(lengths, 100, seed=1, epoch=0)
    assert first != plan_epoch(lengths, 100, seed=1, epoch=1)
    assert first != plan_epoch(lengths, 100, seed=2, epoch=0)


def test_lengths_come_together_and_little_room_is_wasted():
    import random

    lengths = random.Random(0).choices(range(5, 120), k=5000)
    updates = plan_epoch(lengths, 4096, seed=0, epoch=0)
    tokens = sum(lengths) / (4096 * len(updates))
    assert tokens > 0.97
    distinct = [len({lengths[i] for i in micro}) for (micro,) in updates]
    assert sum(distinct) / len(distinct) < 10  # 115 lengths in a batch of random order


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"lengths": [], "max_tokens": 5}, "no training examples"),
        ({"lengths": [3], "max_tokens": None}, "neither max_tokens nor batch_size"),
        (
            {"lengths": [3, 9], "max_tokens": 5},
            "example 1, counted from 0, has 9 tokens, over batch.max_tokens 5",
        ),
        ({"lengths": [3], "max_tokens": 5, "update_freq": 0}, "update_freq is 0"),
    ],
)
def test_what_cannot_be_is_said(arguments, words):
    with pytest.raises(InputError, match=words):
        plan_epoch(seed=0, epoch=0, **arguments)
