"""collate_tokens is fairseq's, argument for argument."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parity import peers

import roberta_hub
from roberta_hub import collate_tokens

ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "pad_idx": st.integers(0, 9),
        "eos_idx": st.none() | st.integers(0, 9),
        "left_pad": st.booleans(),
        "move_eos_to_beginning": st.booleans(),
        "pad_to_length": st.none() | st.integers(0, 20),
        "pad_to_multiple": st.integers(1, 8),
        "pad_to_bsz": st.none() | st.integers(1, 8),
    },
)


@pytest.mark.system
@peers.needs_fairseq
@given(
    st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=9), min_size=1, max_size=5),
    ARGUMENTS,
    st.sampled_from([torch.int64, torch.int32, torch.float32]),
)
@settings(max_examples=200, deadline=None)
def test_as_fairseq_does(rows: list[list[int]], arguments: dict[str, Any], dtype: torch.dtype):
    peers.real_fairseq()
    from fairseq.data import data_utils

    values = [torch.tensor(row, dtype=dtype) for row in rows]
    ours = collate_tokens(values, **arguments)
    theirs = data_utils.collate_tokens(values, **{"pad_idx": 1, **arguments})
    assert ours.dtype == theirs.dtype
    assert torch.equal(ours, theirs)


def test_nothing_to_collate_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        collate_tokens([])
    assert roberta_hub.collate_tokens is collate_tokens
