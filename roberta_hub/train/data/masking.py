"""Chooses the tokens that a model must guess, and masks them (Devlin et al. 2019, section 3.1).

Masking is a pure function of the ids and (seed, epoch, index): every random number is a hash of
these and of the token's place. So a sequence is masked alike in any batch, process and order, and a
new epoch brings a new mask (dynamic masking, Liu et al. 2019, section 4.1). Legend: B sequences, N
tokens laid end to end, W words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.train.data.fairseq_masking import fairseq_mask
from roberta_hub.train.data.random_hash import uniform
from roberta_hub.train.limits import suggestion

MASKING_UNITS = ("token", "word", "span", "fairseq")
_CHOICE, _ROUNDING, _FATE, _REPLACEMENT, _LENGTH = range(5)
"""Purposes of random numbers: each decision draws its own."""


@dataclass(frozen=True)
class Maskable:
    """Which ids may be masked and drawn, and which begin a word."""

    text: Tensor
    """Ids of text, bool (V,); the others are never chosen and replace nothing."""
    begins: Tensor
    """Ids that begin a word: a space in front, or no text at all. Bool (V,)"""
    mask: int
    """Id of `<mask>`."""
    drawn: Tensor
    """Ids that fairseq draws to replace others: all but the special symbols that come first. Where
    these stand elsewhere, as BERT's do, those that stand for text. Bool (V,)"""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Maskable:
        """Read them off a tokenizer.

        Example:
            >>> shipped = Maskable.of(Tokenizer.shipped())
            >>> shipped.begins[[232, 31414, 2]]  # " world", "Hello", </s>
            tensor([ True, False,  True])
        """
        text, dictionary = tokenizer.words, tokenizer.dictionary
        drawn = torch.arange(len(text)) >= dictionary.nspecial if dictionary.as_fairseq else text
        return cls(text, tokenizer.beginnings | ~text, tokenizer.mask_idx, drawn)


@dataclass(frozen=True)
class Masking:
    """How tokens are chosen and replaced; the defaults are RoBERTa's."""

    prob: float = 0.15
    """Share of the tokens (of the words, where whole words are chosen) that is guessed."""
    leave: float = 0.1
    """Share of the chosen tokens that stays as it is."""
    random: float = 0.1
    """Share of the chosen tokens that another token replaces; the rest becomes `<mask>`."""
    unit: str = "token"
    """"token"; "word": whole words; "span": SpanBERT's runs of words; "fairseq": fairseq 0.12.2's
    own draws, number for number, which also choose `<s>` and `</s>`."""
    span_p: float = 0.2
    """Parameter of the geometric distribution of a span's length in words (Joshi et al. 2020,
    section 3.1)."""
    span_max: int = 10
    """Longest span in words; with `span_p` the mean is 3.8."""
    copies: int | None = None
    """Static masking: this many masks of each sequence take turns (10 in the paper); None:
    dynamic."""

    def __post_init__(self) -> None:
        if self.unit not in MASKING_UNITS:
            raise UnknownNameError(
                f"masking unit {self.unit!r}{suggestion(self.unit, MASKING_UNITS)}"
            )
        if not 0.0 < self.prob < 1.0:
            raise InputError(f"mask probability {self.prob} must lie between 0 and 1")
        if min(self.leave, self.random) < 0.0 or self.leave + self.random > 1.0:
            raise InputError(
                f"of the chosen tokens {self.leave} stay and {self.random} change: neither may be "
                "below 0, nor their sum above 1"
            )
        if not 0.0 < self.span_p <= 1.0 or self.span_max < 1:
            raise InputError(
                f"spans of p {self.span_p} and at most {self.span_max} words cannot be"
            )
        if self.copies is not None and self.copies < 1:
            raise InputError(f"{self.copies} static masks a sequence; give at least 1, or none")


def mask(
    ids: Tensor,
    lengths: tuple[int, ...],
    indices: Tensor,
    maskable: Maskable,
    masking: Masking,
    *,
    seed: int,
    epoch: int,
) -> tuple[Tensor, Tensor]:
    """Mask a packed batch.

    Args:
        ids: sequences laid end to end. Shape: (N,)
        lengths: tokens of each sequence.
        indices: each sequence's number in the data; with seed and epoch it decides the mask. Shape:
            (B,)
        maskable: which ids may be masked and drawn.
        masking: what is chosen and replaced.
        seed: of the run.
        epoch: counted from 0.

    Example:
        >>> tokenizer = Tokenizer.shipped()
        >>> ids = tokenizer.encode("The sun rises in the east and sets in the west.")
        >>> seen, chosen = mask(
        ...     ids,
        ...     (len(ids),),
        ...     torch.tensor([0]),
        ...     Maskable.of(tokenizer),
        ...     Masking(),
        ...     seed=1,
        ...     epoch=0,
        ... )
        >>> tokenizer.decode(seen), tokenizer.decode(ids[chosen])
        ('The sun rises in<mask> east and sets in the west<mask>', ' the.')
    """
    if masking.copies is not None:
        epoch %= masking.copies
    if masking.unit == "fairseq":
        return fairseq_mask(
            ids,
            lengths,
            indices,
            mask_idx=maskable.mask,
            drawn=maskable.drawn,
            prob=masking.prob,
            leave=masking.leave,
            random=masking.random,
            seed=seed,
            epoch=epoch,
        )
    sequence = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))  # (N,)
    place = torch.arange(len(ids)) - _starts(torch.tensor(lengths))[sequence]

    def draw(purpose: int, which: Tensor) -> Tensor:
        return uniform(seed, epoch, indices[sequence[which]], place[which], purpose)

    text = maskable.text[ids]
    first = place.eq(0) | ~text
    if masking.unit == "token":
        word = torch.arange(len(ids))
    else:
        starts = first | maskable.begins[ids] | torch.cat([first[:1], first[:-1]])
        word = starts.long().cumsum(0) - 1
    heads = torch.cat([torch.ones(1, dtype=torch.bool), word[1:] != word[:-1]]).nonzero()[:, 0]
    candidates = heads[text[heads]]  # the first token of each word that can be chosen, (W,)
    budget = _budget(masking.prob, sequence[candidates], indices, seed, epoch)
    keys = draw(_CHOICE, candidates)
    if masking.unit == "span":
        lengths_of = span_lengths(draw(_LENGTH, candidates), masking.span_p, masking.span_max)
        unit = choose_spans(keys, lengths_of, sequence[candidates], budget)
        taken = unit >= 0
        leader = candidates[unit.clamp(min=0)]  # a span has one fate
    else:
        taken = choose_tokens(keys, sequence[candidates], budget)
        leader = candidates
    of_word = torch.full((len(heads),), -1)
    of_word[word[candidates[taken]]] = leader[taken]
    owner = of_word[word]  # the token whose draw decides, or -1: (N,)
    chosen = owner >= 0
    return replace_tokens(
        ids, chosen, draw(_FATE, owner.clamp(min=0)), draw, maskable, masking
    ), chosen


def replace_tokens(
    ids: Tensor,
    chosen: Tensor,
    fate: Tensor,
    draw: Callable[[int, Tensor], Tensor],
    maskable: Maskable,
    masking: Masking,
) -> Tensor:
    """Replace each chosen token by `<mask>`, itself or a random token.

    Args:
        ids: (N,)
        chosen: bool (N,)
        fate: a number in 0..1 for each token, which decides between the three. Shape: (N,)
        draw: (purpose, tokens) -> numbers in 0..1.
        maskable: its text tokens replace others.
        masking: the shares.
    """
    seen = ids.clone()
    seen[chosen & (fate >= masking.leave + masking.random)] = maskable.mask
    other = (chosen & (fate >= masking.leave) & (fate < masking.leave + masking.random)).nonzero()[
        :, 0
    ]
    words = maskable.text.nonzero()[:, 0]
    seen[other] = words[(draw(_REPLACEMENT, other) * len(words)).long()]
    return seen


def choose_tokens(keys: Tensor, sequence: Tensor, budget: Tensor) -> Tensor:
    """Choose each sequence's `budget` candidates with the smallest keys.

    Args:
        keys: numbers in 0..1. Shape: (W,)
        sequence: whose candidate each is, ascending. Shape: (W,)
        budget: how many of each sequence. Shape: (B,)

    Example:
        >>> keys, sequence = torch.tensor([0.9, 0.1, 0.5, 0.2]), torch.tensor([0, 0, 0, 1])
        >>> choose_tokens(keys, sequence, torch.tensor([2, 0]))
        tensor([False,  True,  True, False])
    """
    order = torch.argsort(sequence + keys)  # sequence after sequence, smallest key first
    counts = torch.bincount(sequence, minlength=len(budget))
    rank = torch.arange(len(keys)) - _starts(counts)[sequence]
    taken = torch.zeros(len(keys), dtype=torch.bool)
    taken[order] = rank < budget[sequence]
    return taken


def choose_spans(keys: Tensor, lengths: Tensor, sequence: Tensor, budget: Tensor) -> Tensor:
    """Choose spans of words in random order up to each sequence's budget (Joshi et al. 2020, 3.1).

    A span stops at a taken word, at the sequence's end and at the budget.

    Args:
        keys: numbers in 0..1; the order in which words begin spans. Shape: (W,)
        lengths: of the span that each word would begin. Shape: (W,)
        sequence: whose word each is, ascending. Shape: (W,)
        budget: words of each sequence. Shape: (B,)

    Returns:
        The word that began the span of each taken word, -1 for the others. Shape: (W,)

    Example:
        >>> keys, lengths = torch.tensor([0.9, 0.1, 0.5, 0.2]), torch.tensor([2, 2, 2, 2])
        >>> choose_spans(keys, lengths, torch.zeros(4).long(), torch.tensor([3]))
        tensor([-1,  1,  1,  3])
    """
    order = torch.argsort(sequence + keys).tolist()
    of, left, size = sequence.tolist(), budget.tolist(), lengths.tolist()
    owner = [-1] * len(of)
    for begin in order:
        own = of[begin]
        for word in range(begin, min(begin + size[begin], len(of))):
            if not left[own] or owner[word] >= 0 or of[word] != own:
                break
            owner[word] = begin
            left[own] -= 1
    return torch.tensor(owner, dtype=torch.long)


def span_lengths(numbers: Tensor, p: float, longest: int) -> Tensor:
    """Turn numbers in 0..1 into lengths of a geometric distribution cut at `longest`.

    Example:
        >>> span_lengths(torch.tensor([0.0, 0.3, 0.6, 0.99]), p=0.2, longest=10)
        tensor([ 1,  2,  4, 10])
    """
    if p == 1.0:
        return torch.ones(len(numbers), dtype=torch.long)
    mass = 1.0 - (1.0 - p) ** longest
    lengths = torch.log1p(-numbers.double() * mass) / math.log(1.0 - p)
    return (lengths.long() + 1).clamp(max=longest)


def _budget(prob: float, sequence: Tensor, indices: Tensor, seed: int, epoch: int) -> Tensor:
    """Number of candidates to mask in each sequence: (B,).

    The number is rounded up or down at random, so that its mean is exact.
    """
    counts = torch.bincount(sequence, minlength=len(indices))
    luck = uniform(seed, epoch, indices, torch.zeros_like(indices), _ROUNDING)
    return (prob * counts + luck).long()


def _starts(counts: Tensor) -> Tensor:
    return counts.cumsum(0) - counts
