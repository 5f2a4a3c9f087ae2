"""Cuts a token stream into blocks, the sequences that pre-training sees."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.train.limits import near

MODES = ("full", "doc")
"""FULL-SENTENCES and DOC-SENTENCES (Liu et al. 2019, section 4.2)."""
SCAN = 16_000_000
"""Tokens that are searched for line ends at once."""


@dataclass(frozen=True)
class Blocks:
    r"""Sequences cut from a token stream: `<s>`, then as many whole lines as fit.

    Example:
        >>> stream = torch.tensor([10, 11, 2, 12, 2, 2, 13, 14, 15, 2])  # two documents
        >>> [ids.tolist() for ids in cut(stream, 7, bos=0, eos=2).sequences([0, 1])]
        [[0, 10, 11, 2, 12, 2], [0, 13, 14, 15, 2]]
        >>> [ids.tolist() for ids in cut(stream, 11, bos=0, eos=2).sequences([0])]
        [[0, 10, 11, 2, 12, 2, 2, 13, 14, 15, 2]]
    """

    stream: Tensor
    """All ids, memory-mapped. Shape: (S,)"""
    starts: Tensor
    """Where each block begins in the stream. Shape: (B,)"""
    ends: Tensor
    """Where each block ends in the stream, exclusive. Shape: (B,)"""
    bos: int
    """Id of `<s>`, which begins every block."""

    def __len__(self) -> int:
        return len(self.starts)

    def lengths(self) -> list[int]:
        """Count the tokens of each block, `<s>` included."""
        found: list[int] = (self.ends - self.starts + 1).tolist()
        return found

    def sequences(self, indices: Sequence[int]) -> list[Tensor]:
        """Read some blocks as ids: (T_i,) each."""
        first = torch.tensor([self.bos])
        return [
            torch.cat([first, self.stream[int(self.starts[i]) : int(self.ends[i])].long()])
            for i in indices
        ]


def cut(stream: Tensor, size: int, *, mode: str = "full", bos: int, eos: int) -> Blocks:
    """Cut a stream into blocks of at most `size` tokens, `<s>` included.

    A block ends where a line ends. A line that is longer than a block is cut, so that nothing is
    lost (fairseq's `TokenBlockDataset` leaves it whole, and its trainer then fails or skips it).

    Args:
        stream: ids as `streams.build` writes them. Shape: (S,)
        size: most tokens of a block.
        mode: "full": blocks run over the ends of documents, with a separator (fairseq's
            `complete`); "doc": they end with their document.
        bos: the id that begins a block.
        eos: the id that ends a line.

    Raises:
        InputError: a size below 3.
        UnknownNameError: no such mode.
    """
    if mode not in MODES:
        raise UnknownNameError(f"blocks are cut {mode!r}{near(mode, MODES)}")
    if size < 3:
        raise InputError(f"block size {size} holds no text between <s> and </s>; give at least 3")
    ends = _line_ends(stream, eos)
    starts, stops = array("q"), array("q")
    document = 0  # in "doc" mode, the line after the last separator
    start = line = 0
    while line < len(ends):
        if ends[line] == start + 1:  # a separator: no block begins or ends with one
            start, line = ends[line], line + 1
            continue
        last = bisect_right(ends, start + size - 1, lo=line)  # lines before it fit
        if mode == "doc":
            document = max(document, line)
            while document < len(ends) and ends[document] - ends[document - 1] != 1:
                document += 1
            last = min(last, document)
        starts.append(start)
        start = ends[last - 1] if last > line else start + size - 1
        closing = last > line + 1 and ends[last - 1] - ends[last - 2] == 1
        stops.append(start - closing)
        line = max(last, line)
    places = [torch.tensor(a, dtype=torch.long) for a in (starts, stops)]
    return Blocks(stream, places[0], places[1], bos)


def _line_ends(stream: Tensor, eos: int) -> array[int]:
    """Find the positions after each `</s>`."""
    ends = array("q")
    for at in range(0, len(stream), SCAN):
        # torch compares no unsigned 16-bit numbers
        found = stream[at : at + SCAN].to(torch.int32).eq(eos).nonzero().squeeze(1)
        ends.extend((found + at + 1).tolist())
    return ends
