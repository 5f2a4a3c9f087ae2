"""Blocks of pre-training beside those of fairseq's TokenBlockDataset, on its own vectors too.

The vectors are those of tests/test_token_block_dataset.py (facebookresearch/fairseq, MIT): eos is
1. fairseq puts the `<s>` of a block before it afterwards (`tokens_per_sample - 1` are its size),
ours is part of it, so that our size is one more.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from roberta_hub.train.data.blocks import cut_blocks

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_fairseq]
EOS = 1
SENTENCES = [[5, 4, 3, 2, EOS], [8, 7, 6, EOS], [9, EOS]]


def fairseqs(lines: list[list[int]], size: int, mode: str, **options: Any) -> list[list[int]]:
    """Blocks of real fairseq."""
    peers.real_fairseq()
    import numpy
    from fairseq.data import ListDataset, TokenBlockDataset

    sizes = numpy.array([len(line) for line in lines])
    data = ListDataset([torch.tensor(line) for line in lines], sizes)
    blocks = TokenBlockDataset(
        data, sizes, block_size=size, pad=0, eos=EOS, break_mode=mode, **options
    )
    return [blocks[i].tolist() for i in range(len(blocks))]


def ours(lines: list[list[int]], size: int, mode: str = "full") -> list[list[int]]:
    """Our blocks of a size, without their `<s>`."""
    stream = torch.tensor([token for line in lines for token in line])
    blocks = cut_blocks(stream, size + 1, mode=mode, bos=0, eos=EOS)
    found = [ids.tolist() for ids in blocks.sequences(range(len(blocks)))]
    assert [len(ids) for ids in found] == blocks.lengths()
    assert all(ids[0] == 0 for ids in found)
    return [ids[1:] for ids in found]


def test_complete_lines() -> None:
    """Their vectors of the mode `complete`."""
    wanted = [[5, 4, 3, 2, EOS], [8, 7, 6, EOS, 9, EOS]]
    assert fairseqs(SENTENCES, 6, "complete") == ours(SENTENCES, 6) == wanted


def test_a_line_that_is_too_long_is_cut() -> None:
    """fairseq leaves it whole, and its trainer then fails; a separator at an edge goes here."""
    lines = [[4, 3, 2, EOS], [5, EOS], [EOS], [6, EOS]]
    assert fairseqs(lines, 3, "complete") == [[4, 3, 2, EOS], [5, EOS, EOS], [6, EOS]]
    assert ours(lines, 3) == [[4, 3, 2], [5, EOS], [6, EOS]]
    assert ours(lines, 4) == [[4, 3, 2, EOS], [5, EOS], [6, EOS]]
    assert fairseqs(lines, 4, "complete") == [[4, 3, 2, EOS], [5, EOS, EOS], [6, EOS]]


def test_each_line_by_itself() -> None:
    """Their vectors of the mode `eos`, whose blocks are the lines: as documents of one line each.

    A line without words goes. fairseq 0.12.2 itself fails in this mode on NumPy 2.
    """
    for lines in ([SENTENCES[0], [EOS], SENTENCES[1]], [*SENTENCES[:2], [EOS]]):
        documents = [part for line in lines for part in (line, [EOS])]
        assert ours(documents, 6, "doc") == [line for line in lines if line != [EOS]]


def test_without_regard_to_lines() -> None:
    """Their vectors of the mode `none`, in which nothing here is cut: one line without an end."""
    assert fairseqs(SENTENCES, 3, "none") == [[5, 4, 3], [2, EOS, 8], [7, 6, EOS], [9, EOS]]
    line = [[5, 4, 3, 2, 8, 7, 6, 9]]
    assert ours([[*line[0], EOS]], 3) == [[5, 4, 3], [2, 8, 7], [6, 9, EOS]]
    assert fairseqs(line, 3, "none") == [[5, 4, 3], [2, 8, 7], [6, 9]]


def corpus(draw: random.Random, longest: int) -> list[list[list[int]]]:
    """Documents of lines with words, none of which is longer than a block."""
    return [
        [
            [*(draw.randint(2, 99) for _ in range(draw.randint(1, longest - 1))), EOS]
            for _ in range(draw.randint(1, 8))
        ]
        for _ in range(draw.randint(1, 12))
    ]


@pytest.mark.parametrize("seed", range(40))
def test_random_documents(seed: int) -> None:
    """Of one document both modes; of several `complete_doc`, with separators of one token."""
    draw = random.Random(seed)
    size = draw.choice([2, 3, 8, 17, 60])
    documents = corpus(draw, size)
    lines = [part for document in documents for part in (*document, [EOS])]
    assert ours(lines, size, "doc") == fairseqs(lines, size, "complete_doc", document_sep_len=1)
    flat = [line for document in documents for line in document]
    assert ours(flat, size) == fairseqs(flat, size, "complete")
    assert ours(flat, size, "doc") == fairseqs(flat, size, "complete_doc", document_sep_len=0)
    # Over the ends of documents the tokens are the same, and ours begin and end with text.
    kept, theirs = ours(lines, size), fairseqs(lines, size, "complete")
    assert [t for ids in kept for t in ids if t != EOS] == [
        t for ids in theirs for t in ids if t != EOS
    ]
    assert all(ids[0] != EOS for ids in kept)


@pytest.mark.slow
def test_four_billion_tokens() -> None:
    """Places beyond 32 bits are whole numbers: fairseq's had become floats (numpy 5745)."""
    numpy = pytest.importorskip("numpy")
    length, line = 33 * 2**27, 2**27
    tokens = numpy.zeros(length, dtype=numpy.uint8)  # memory that nobody has written takes none
    tokens[line - 1 :: line] = EOS
    blocks = cut_blocks(torch.from_numpy(tokens), 2**30, bos=0, eos=EOS)
    assert int(blocks.ends[-1]) == length > 2**32
    assert blocks.ends.dtype == torch.long
    assert blocks.starts.tolist() == [0, *blocks.ends[:-1].tolist()]
    assert blocks.lengths() == [*[7 * line + 1] * 4, 5 * line + 1]
