r"""Makes inputs of two segments, as BERT and ALBERT were pre-trained on.

A document is cut into sentences, and these are gathered to groups. A group becomes a pair: its
sentences up to one drawn at random, and the others; or in place of the others, half of the time,
sentences of another document (BERT: Devlin et al. 2019, appendix A.2); or both in the other order
(ALBERT: Lan et al. 2020, section 3.1). Which it is, and what is drawn, is a pure function of
(seed, epoch, index), as masks are.

Legend: S ids of the stream, U sentences, D documents, G groups, B groups that are asked for.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.text.layout import SequenceLayout
from roberta_hub.train.data.blocks import TOKENS_PER_SCAN
from roberta_hub.train.data.random_hash import uniform

PAIR_MODES = ("segment_pair", "sentence_pair")
"""SEGMENT-PAIR and SENTENCE-PAIR (Liu et al. 2019, section 4.2)."""
_RELATION, _SPLIT, _DOCUMENT, _SENTENCE = range(32, 36)
"""Purposes of random numbers; masking.py and pretraining.py have the others."""


@dataclass(frozen=True)
class Sentences:
    """Where the sentences of a stream are: its lines, long ones in pieces.

    The second coordinates count ids as a segment has them: with the ends of lines
    between sentences, or without.
    """

    starts: Tensor
    """Where each begins in the stream. Shape: (U,)"""
    ends: Tensor
    """Where each ends, without the end of its line. Shape: (U,)"""
    documents: Tensor
    """The first sentence of each document, and U. Shape: (D + 1,)"""
    counted_starts: Tensor
    """Ids of segments before each. Shape: (U,)"""
    counted_ends: Tensor
    """Ids of segments up to its end. Shape: (U,)"""


@dataclass(frozen=True)
class SegmentPairs:
    r"""Pairs of segments of a token stream, `<s> A </s></s> B </s>` or `[CLS] A [SEP] B [SEP]`.

    The lines of a segment keep their `</s>`, as those of a block do, where that ends no segment.

    Example:
        >>> layout = SequenceLayout(bos=0, pad=1, eos=2, unk=3)
        >>> stream = torch.tensor([10, 2, 11, 2, 12, 2, 2, 20, 2, 21, 2, 2])  # two documents
        >>> how = {"mode": "sentence_pair", "order": True, "keep_ends": True, "layout": layout}
        >>> pairs = pair_segments(stream, 12, **how)
        >>> ids, labels = pairs.inputs([0, 1, 2], seed=3, epoch=0)
        >>> [sequence.tolist() for sequence in ids]
        [[0, 11, 2, 2, 10, 2], [0, 11, 2, 2, 12, 2], [0, 21, 2, 2, 20, 2]]
        >>> labels
        tensor([1, 0, 1])
    """

    stream: Tensor
    """All ids, memory-mapped. Shape: (S,)"""
    sentences: Sentences
    groups: Tensor
    """The first sentence of each group, and the one after its last. Shape: (2, G)"""
    layout: SequenceLayout
    room: int
    """Ids of text that a pair holds at most."""
    single: bool
    """Whether a segment is one sentence."""
    keep_ends: bool
    """Whether lines keep their ends inside of a segment."""
    order: bool
    """Whether segments change places half of the time; False: the second comes from another
    document half of the time."""

    def __len__(self) -> int:
        return self.groups.size(1)

    def sizes(self, seed: int, epoch: int) -> array[int]:
        """Count the ids of each pair of an epoch; 0: a document of one sentence has no order."""
        found = array("i")
        extra = 2 + self.layout.separators
        for at in range(0, len(self), 1 << 20):
            drawn = self._draw(torch.arange(at, min(at + (1 << 20), len(self))), seed, epoch)
            counts = (drawn.first_size + drawn.second_size + extra) * drawn.whole
            found.frombytes(counts.to(torch.int32).numpy().tobytes())
        return found

    def inputs(self, indices: Sequence[int], seed: int, epoch: int) -> tuple[list[Tensor], Tensor]:
        """Read some pairs as ids, (T_i,) each, and what is asked about each, (B,).

        The labels are 0 for segments as the text has them, 1 for others.
        """
        drawn = self._draw(torch.tensor(indices), seed, epoch)
        bos, eos = torch.tensor([self.layout.bos]), torch.tensor([self.layout.eos])
        between = eos.repeat(self.layout.separators)
        found = []
        for k in range(len(indices)):
            first = self._read(int(drawn.first[0, k]), int(drawn.first[1, k]))
            first = first[len(first) - int(drawn.first_size[k]) :]  # it loses its beginning
            second = self._read(int(drawn.second[0, k]), int(drawn.second[1, k]))
            if self.order and drawn.labels[k]:
                first, second = second, first
            found.append(torch.cat([bos, first, between, second, eos]))
        return found, drawn.labels

    def _read(self, first: int, last: int) -> Tensor:
        """Read the sentences from one up to another as ids of a segment."""
        sentences = self.sentences
        ids = self.stream[int(sentences.starts[first]) : int(sentences.ends[last - 1])].long()
        return ids if self.keep_ends else ids[ids.ne(self.layout.eos)]

    def _draw(self, indices: Tensor, seed: int, epoch: int) -> _Drawn:
        sentences, places = self.sentences, torch.zeros_like(indices)

        def draw(purpose: int, count: Tensor) -> Tensor:
            """Draw whole numbers below the counts."""
            luck = uniform(seed, epoch, indices, places, purpose)
            return (luck * count).long().clamp(max=(count - 1).clamp(min=0))

        start, stop = self.groups[:, indices]
        alone = stop - start == 1
        split = torch.where(alone, stop, start + 1 + draw(_SPLIT, stop - start - 1))
        labels = draw(_RELATION, torch.full_like(indices, 2))
        first, second = torch.stack([start, split]), torch.stack([split, stop])
        whole = ~alone if self.order else torch.ones_like(alone)
        size = _size(sentences, first)
        if not self.order:
            labels = torch.where(alone, 1, labels)
            own = self._document_of[indices]
            count = len(sentences.documents) - 1
            other = draw(_DOCUMENT, torch.full_like(indices, count - 1))
            other += other.ge(own)
            begin, end = sentences.documents[other], sentences.documents[other + 1]
            begin = begin + draw(_SENTENCE, end - begin)
            limit = sentences.counted_starts[begin] + self.room - size
            last = torch.searchsorted(sentences.counted_ends, limit, right=True)
            last = torch.minimum(last, begin + 1 if self.single else end)
            other_second = torch.stack([begin, torch.maximum(last, begin + 1)])
            second = torch.where(labels.eq(1), other_second, second)
        second_size = _size(sentences, second) * whole
        return _Drawn(
            first,
            second,
            torch.minimum(size, self.room - second_size),
            second_size,
            labels,
            whole,
        )

    @cached_property
    def _document_of(self) -> Tensor:
        """The document of each group: (G,)."""
        found = torch.searchsorted(
            self.sentences.documents, self.groups[0].contiguous(), right=True
        )
        return found - 1


@dataclass(frozen=True)
class _Drawn:
    """What an epoch makes of some groups."""

    first: Tensor
    """The first sentence of the first segment, and the one after its last. Shape: (2, B)"""
    second: Tensor
    """The same of the second. Shape: (2, B)"""
    first_size: Tensor
    """Ids of the first segment. Shape: (B,)"""
    second_size: Tensor
    labels: Tensor
    """1 where the second does not follow the first. Shape: (B,)"""
    whole: Tensor
    """Whether there are two segments. Bool (B,)"""


def pair_segments(
    stream: Tensor,
    size: int,
    *,
    mode: str,
    order: bool,
    layout: SequenceLayout,
    keep_ends: bool,
    lines: Callable[[], Tensor] | None = None,
) -> SegmentPairs:
    """Cut a stream into groups of sentences, of which pairs are made.

    A sentence is a line. A line of more than half a pair is cut, so that nothing is lost. Where a
    sentence would be left alone at the end of a document, its group takes the one before it too.

    Args:
        stream: ids as `streams.build_stream` writes them. Shape: (S,)
        size: most ids of a pair, special ones included.
        mode: "segment_pair": as many sentences as fit; "sentence_pair": two.
        order: whether segments change places; False: some come from another document.
        layout: special ids, and the separators between the segments.
        keep_ends: whether lines keep their ends inside of a segment; False: for a model whose
            segments end with one.
        lines: counts the ids up to the end of each line, (N,); None: a line ends with `eos`.
    """
    room = size - 2 - layout.separators
    if room < 2:
        raise InputError(
            f"block size {size} holds no two segments; give at least {4 + layout.separators}"
        )
    sentences = _sentences(stream, layout.eos, room // 2, keep_ends, lines)
    groups = _groups(sentences, room, single=mode == "sentence_pair")
    if not bool((groups[1] - groups[0] > 1).any()):
        raise InputError(
            f"sentences={mode} pairs sentences of a document, and no document of this text has "
            "two; write a sentence a line and an empty line between documents, or set "
            "task.options.sentences=full"
        )
    if not order and len(sentences.documents) < 3:
        raise InputError(
            f"sentences={mode} takes half of the second segments from other documents, and this "
            "text has one; separate documents by empty lines, or set "
            "task.options.objectives=[sentence_order], which needs no others"
        )
    single = mode == "sentence_pair"
    return SegmentPairs(stream, sentences, groups, layout, room, single, keep_ends, order)


def _sentences(
    stream: Tensor,
    eos: int,
    longest: int,
    keep: bool,
    lines: Callable[[], Tensor] | None,
) -> Sentences:
    """Find the sentences of a stream, and its documents."""
    stops = _line_ends(stream, eos) if lines is None else lines().long()
    starts = torch.cat([stops.new_zeros(1), stops[:-1]])
    signed = stream.view(torch.int16) if stream.dtype == torch.uint16 else stream
    marked = signed[stops - 1].eq(torch.tensor(eos).to(signed.dtype))  # torch 2.6 picks no uint16
    ends = stops - marked.long()
    empty = ends.eq(starts)
    document = empty.cumsum(0)[~empty]  # of each line
    starts, ends = starts[~empty], ends[~empty]
    pieces = -(-(ends - starts) // longest)
    line = torch.repeat_interleave(pieces)
    number = torch.arange(len(line)) - (pieces.cumsum(0) - pieces)[line]
    # Pieces of about one length.
    sizes, count = (ends - starts)[line], pieces[line]
    ends = starts[line] + sizes * (number + 1) // count
    starts = starts[line] + sizes * number // count
    document = document[line]
    begins = torch.ones(len(document), dtype=torch.bool)
    begins[1:] = document[1:] != document[:-1]
    documents = torch.cat([begins.nonzero()[:, 0], torch.tensor([len(document)])])
    if keep:
        return Sentences(starts, ends, documents, starts, ends)
    counted = (ends - starts).cumsum(0)
    return Sentences(starts, ends, documents, counted - (ends - starts), counted)


def _line_ends(stream: Tensor, eos: int) -> Tensor:
    """Find the positions after each `</s>`: (N,)."""
    found = [
        stream[at : at + TOKENS_PER_SCAN].to(torch.int32).eq(eos).nonzero()[:, 0] + at + 1
        for at in range(0, len(stream), TOKENS_PER_SCAN)
    ]
    return torch.cat(found)


def _groups(sentences: Sentences, room: int, *, single: bool) -> Tensor:
    """Gather the sentences of each document: (2, G); see `SegmentPairs.groups`."""
    starts = array("q", sentences.counted_starts.tolist())
    ends = array("q", sentences.counted_ends.tolist())
    firsts, lasts = array("q"), array("q")
    documents = sentences.documents.tolist()
    for begin, end in zip(documents[:-1], documents[1:], strict=True):
        at = begin
        while at < end:
            last = at if single else bisect_right(ends, starts[at] + room, lo=at, hi=end)
            last = min(max(last, at + 2), end)  # two always fit: no end of a line between them
            if last - at == 1 and at > begin:  # the last one, alone
                at -= 1
            firsts.append(at)
            lasts.append(last)
            at = last
    return torch.stack([torch.tensor(part, dtype=torch.long) for part in (firsts, lasts)])


def _size(sentences: Sentences, spans: Tensor) -> Tensor:
    """Count the ids of segments from a first sentence up to another: (2, B) -> (B,)."""
    first, last = spans
    size = (
        sentences.counted_ends[(last - 1).clamp(min=0)]
        - sentences.counted_starts[first.clamp(max=len(sentences.starts) - 1)]
    )
    return size.clamp(min=0)
