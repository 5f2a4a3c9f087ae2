"""Lays sentences out as one sequence of ids, and finds them in it again.

RoBERTa writes `<s> A </s> </s> B </s>`, BERT `[CLS] A [SEP] B [SEP]`. Shapes: T tokens of one
sequence, special ones included.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from torch import Tensor

from roberta_hub.arguments import brief
from roberta_hub.errors import InputError, VocabularyError
from roberta_hub.text.dictionary import MASK, Dictionary

FIRST_PIECE = 1
"""Position of a sequence's first piece, after `bos`."""
LEAST_LENGTH = 3
"""Fewest tokens that `model_max_length` can allow: one, and the two around it."""


@dataclass(frozen=True)
class SequenceLayout:
    """Special ids of sequences, and the number of separators between sentences.

    Example:
        >>> layout = SequenceLayout.of(Dictionary.roberta())
        >>> layout.bos, layout.pad, layout.eos, layout.unk, layout.mask, layout.separators
        (0, 1, 2, 3, 50264, 2)
    """

    bos: int
    """Begins every sequence: `<s>`, `[CLS]`."""
    eos: int
    """Ends every sentence: `</s>`, `[SEP]`."""
    pad: int
    """Fills batches, and is no part of a sequence."""
    unk: int
    """For pieces that are not in the dictionary."""
    mask: int | None = None
    """The mask; None: the model has none."""
    separators: int = 2
    """Number of `eos` between two sentences: 2 for RoBERTa, 1 for BERT."""
    begins: frozenset[int] = frozenset()
    """Every id that begins a sequence: a dict.txt may give `<s>` two (CamemBERT's does)."""
    ends: frozenset[int] = frozenset()
    """Every id that ends a sentence."""
    max_length: int | None = field(default=None, compare=False)
    """Most tokens of a sequence, if the tokenizer allows fewer than the model; None: the model's
    limit."""
    truncation_side: Literal["left", "right"] = field(default="right", compare=False)
    """The end of a sentence that truncation removes."""

    def __post_init__(self) -> None:
        if self.separators not in (1, 2):
            raise InputError(f"{self.separators} separators between sentences; there are 1 or 2")
        object.__setattr__(self, "begins", self.begins | {self.bos})
        object.__setattr__(self, "ends", self.ends | {self.eos})

    @classmethod
    def of(cls, dictionary: Dictionary, *, mask: str = MASK, separators: int = 2) -> SequenceLayout:
        """Return the layout that a dictionary's special symbols make, by default RoBERTa's.

        Where a dict.txt gives a special symbol a second id, that one is written, as fairseq writes
        it; but an unknown piece is `unk()`, and padding `pad()`.
        """
        return cls(
            bos=dictionary.index(dictionary.bos_word),
            eos=dictionary.index(dictionary.eos_word),
            pad=dictionary.pad(),
            unk=dictionary.unk(),
            mask=dictionary.index(mask) if mask in dictionary else None,
            separators=separators,
            begins=frozenset([dictionary.bos()]),
            ends=frozenset([dictionary.eos()]),
        )

    def changed(self, settings: object, size: int) -> SequenceLayout:
        """Return the layout with what a file of settings says: ids by name, and `separators`.

        Example:
            >>> layout = SequenceLayout(bos=0, pad=1, eos=2, unk=3)
            >>> layout.changed({"separators": 1, "mask": 4}, size=5).mask
            4
        """
        names = {"bos", "eos", "pad", "unk", "mask", "separators"}
        if not isinstance(settings, dict) or not settings.keys() <= names:
            raise VocabularyError(
                f"layout is {brief(settings)}, not a table of {', '.join(sorted(names))}"
            )
        for name, value in settings.items():
            limits = range(1, 3) if name == "separators" else range(size)
            if not (type(value) is int and value in limits) and (name, value) != ("mask", None):
                raise VocabularyError(
                    f"layout has {name} {brief(value)}; it runs from {limits[0]} to {limits[-1]}"
                )
        return replace(self, **settings)

    def split(self, ids: Sequence[int]) -> list[list[int]]:
        """Split a sequence into sentences; padding and `bos` are dropped.

        With two separators only two consecutive `eos` split: a single one inside a sequence, as
        `no_separator=True` writes it, does not (fairseq's `decode`). With one separator, each
        `eos` splits.

        Example:
            >>> SequenceLayout(bos=0, pad=1, eos=2, unk=3).split([0, 7, 2, 2, 8, 2, 1])
            [[7, 2], [2, 8, 2]]
            >>> bert = SequenceLayout(bos=101, pad=0, eos=102, unk=100, separators=1)
            >>> bert.split([101, 7, 102, 8, 102])
            [[7, 102], [8, 102]]
        """
        ids = [i for i in ids if i != self.pad]
        if ids and ids[0] in self.begins:
            ids = ids[1:]
        if self.separators == 1:
            cuts = [n for n, i in enumerate(ids[:-1], 1) if i in self.ends]
        else:
            pairs = {(end, end) for end in self.ends}
            cuts = [n for n, pair in enumerate(pairwise(ids), 1) if pair in pairs]
        return [ids[start:end] for start, end in pairwise([0, *cuts, len(ids)])]

    def sentences(self, ids: Tensor) -> list[tuple[int, int]]:
        """Return (start, end) of the pieces of each sentence; text never encodes to `eos`.

        Empty sentences are left out, but for the first.

        Args:
            ids: of one sequence. Shape: (T,)

        Example:
            >>> import torch
            >>> layout = SequenceLayout(bos=0, pad=1, eos=2, unk=3)
            >>> layout.sentences(torch.tensor([0, 7, 8, 2, 2, 9, 2]))
            [(1, 3), (5, 6)]
        """
        found: list[tuple[int, int]] = []
        start = FIRST_PIECE
        for end in ids.eq(self.eos).nonzero().squeeze(1).tolist():
            if end > start or not found:
                found.append((start, end))
            start = end + 1
        return found

    def segments(self, ids: Tensor) -> Tensor:
        """0 up to the first `eos`, 1 after it, 0 for padding: (..., T) -> (..., T).

        These are transformers' `token_type_ids` of a sentence and of a pair.

        Example:
            >>> import torch
            >>> layout = SequenceLayout(bos=101, pad=0, eos=102, unk=100, separators=1)
            >>> layout.segments(torch.tensor([101, 7, 102, 8, 102, 0]))
            tensor([0, 0, 0, 1, 1, 0])
        """
        ends = ids.eq(self.eos).long()
        behind = (ends.cumsum(-1) - ends).clamp(max=1)  # an end belongs to the sentence before it
        return behind * ids.ne(self.pad)


def lay_out(
    flat: array[int], sentences: Sequence[Sequence[int]], begin: int, end: int, separators: int
) -> None:
    """Append one sequence to an array.

    Example:
        >>> flat = array("i")
        >>> lay_out(flat, [[7, 8], [9]], begin=0, end=2, separators=2)
        >>> flat.tolist()
        [0, 7, 8, 2, 2, 9, 2]
    """
    flat.append(begin)
    flat.extend(sentences[0])
    if len(sentences) > 1:  # seldom, and a single sentence does not pay for it
        for sentence in sentences[1:]:
            flat.extend([end] * separators)
            flat.extend(sentence)
    flat.append(end)
