"""Which tokens a model must guess, and what it sees instead (Devlin et al. 2019, section 3.1).

Pure functions of the ids and (seed, epoch, index). Every random number is a hash of these and of
the token's place, so a sequence is masked the same in whatever batch, process or order it comes; a
new epoch is a new mask (dynamic masking, Liu et al. 2019, section 4.1). Legend: B sequences, N
tokens laid end to end, W words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from roberta_hub.errors import InputError, MissingExtraError, UnknownNameError
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.train.config import near

UNITS = ("token", "word", "span", "fairseq")
_CHOICE, _ROUNDING, _FATE, _REPLACEMENT, _LENGTH = range(5)
"""Streams of random numbers: each decision has its own."""


@dataclass(frozen=True)
class Vocabulary:
    """What masking must know of the ids."""

    text: Tensor
    """Which ids stand for text, bool (V,); the others are never chosen and replace nothing."""
    begins: Tensor
    """Which ids begin a word: a space in front, or no text at all. Bool (V,)"""
    mask: int
    """Id of `<mask>`."""
    specials: int
    """How many of the first ids fairseq's random words leave out."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Vocabulary:
        """A tokenizer's.

        Example:
            >>> shipped = Vocabulary.of(Tokenizer.shipped())
            >>> shipped.begins[[232, 31414, 2]]  # " world", "Hello", </s>
            tensor([ True, False,  True])
        """
        text = tokenizer.words
        specials = tokenizer.dictionary.nspecial
        return cls(text, tokenizer.beginnings | ~text, tokenizer.mask_idx, specials)


@dataclass(frozen=True)
class Masking:
    """How tokens are chosen and replaced; the defaults are RoBERTa's."""

    prob: float = 0.15
    """Share of the tokens (of the words, where whole words are chosen) that is guessed."""
    leave: float = 0.1
    """Of the chosen, the share that stays as it is."""
    random: float = 0.1
    """And the share that another token replaces; the rest becomes `<mask>`."""
    unit: str = "token"
    """"token"; "word": whole words; "span": SpanBERT's runs of words; "fairseq": fairseq 0.12.2's
    own draws, number for number, which also choose `<s>` and `</s>`."""
    span_p: float = 0.2
    """Of the geometric distribution of a span's length in words (Joshi et al. 2020, section
    3.1)."""
    span_max: int = 10
    """Longest span in words; with `span_p` the mean is 3.8."""
    copies: int | None = None
    """Static masking: this many masks of each sequence take turns (10 in the paper); None:
    dynamic."""

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise UnknownNameError(f"masking unit {self.unit!r}{near(self.unit, UNITS)}")
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
    vocabulary: Vocabulary,
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
        vocabulary: of the ids.
        masking: what is chosen and replaced.
        seed: of the run.
        epoch: counted from 0.

    Returns:
        What the model sees, (N,), and which tokens it must guess, bool (N,).

    Example:
        >>> tokenizer = Tokenizer.shipped()
        >>> ids = tokenizer.encode("The sun rises in the east and sets in the west.")
        >>> seen, chosen = mask(
        ...     ids,
        ...     (len(ids),),
        ...     torch.tensor([0]),
        ...     Vocabulary.of(tokenizer),
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
        return _fairseq(ids, lengths, indices, vocabulary, masking, seed, epoch)
    sequence = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))  # (N,)
    place = torch.arange(len(ids)) - _starts(torch.tensor(lengths))[sequence]

    def draw(stream: int, which: Tensor) -> Tensor:
        return uniform(seed, epoch, indices[sequence[which]], place[which], stream)

    text = vocabulary.text[ids]
    first = place.eq(0) | ~text
    if masking.unit == "token":
        word = torch.arange(len(ids))
    else:
        starts = first | vocabulary.begins[ids] | torch.cat([first[:1], first[:-1]])
        word = starts.long().cumsum(0) - 1
    heads = torch.cat([torch.ones(1, dtype=torch.bool), word[1:] != word[:-1]]).nonzero()[:, 0]
    candidates = heads[text[heads]]  # the first token of each word that can be chosen, (W,)
    budget = _budget(masking.prob, sequence[candidates], indices, seed, epoch)
    keys = draw(_CHOICE, candidates)
    if masking.unit == "span":
        lengths_of = spans(draw(_LENGTH, candidates), masking.span_p, masking.span_max)
        unit = choose_spans(keys, lengths_of, sequence[candidates], budget)
        taken = unit >= 0
        leader = candidates[unit.clamp(min=0)]  # a span has one fate
    else:
        taken = choose(keys, sequence[candidates], budget)
        leader = candidates
    of_word = torch.full((len(heads),), -1)
    of_word[word[candidates[taken]]] = leader[taken]
    owner = of_word[word]  # the token whose draw decides, or -1: (N,)
    chosen = owner >= 0
    return replace(ids, chosen, draw(_FATE, owner.clamp(min=0)), draw, vocabulary, masking), chosen


def replace(
    ids: Tensor,
    chosen: Tensor,
    fate: Tensor,
    draw: Callable[[int, Tensor], Tensor],
    vocabulary: Vocabulary,
    masking: Masking,
) -> Tensor:
    """What the model sees for each chosen token: `<mask>`, the token itself or another one.

    Args:
        ids: (N,)
        chosen: bool (N,)
        fate: a number in 0..1 for each token, which decides between the three. Shape: (N,)
        draw: (stream, tokens) -> numbers in 0..1.
        vocabulary: whose text tokens replace.
        masking: the shares.
    """
    seen = ids.clone()
    seen[chosen & (fate >= masking.leave + masking.random)] = vocabulary.mask
    other = (chosen & (fate >= masking.leave) & (fate < masking.leave + masking.random)).nonzero()[
        :, 0
    ]
    words = vocabulary.text.nonzero()[:, 0]
    seen[other] = words[(draw(_REPLACEMENT, other) * len(words)).long()]
    return seen


def choose(keys: Tensor, sequence: Tensor, budget: Tensor) -> Tensor:
    """Of each sequence's candidates the `budget` ones with the smallest keys.

    Args:
        keys: numbers in 0..1. Shape: (W,)
        sequence: whose candidate each is, ascending. Shape: (W,)
        budget: how many of each sequence. Shape: (B,)

    Returns:
        Bool (W,)

    Example:
        >>> keys, sequence = torch.tensor([0.9, 0.1, 0.5, 0.2]), torch.tensor([0, 0, 0, 1])
        >>> choose(keys, sequence, torch.tensor([2, 0]))
        tensor([False,  True,  True, False])
    """
    order = torch.argsort(sequence + keys)  # sequence after sequence, smallest key first
    counts = torch.bincount(sequence, minlength=len(budget))
    rank = torch.arange(len(keys)) - _starts(counts)[sequence]
    taken = torch.zeros(len(keys), dtype=torch.bool)
    taken[order] = rank < budget[sequence]
    return taken


def choose_spans(keys: Tensor, lengths: Tensor, sequence: Tensor, budget: Tensor) -> Tensor:
    """Spans of words in random order up to each sequence's budget (Joshi et al. 2020, 3.1).

    A span that meets a taken word, the end or the budget stops there.

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


def spans(numbers: Tensor, p: float, longest: int) -> Tensor:
    """Lengths from a geometric distribution cut at `longest` and scaled to 1, by inversion.

    Example:
        >>> spans(torch.tensor([0.0, 0.3, 0.6, 0.99]), p=0.2, longest=10)
        tensor([ 1,  2,  4, 10])
    """
    if p == 1.0:
        return torch.ones(len(numbers), dtype=torch.long)
    mass = 1.0 - (1.0 - p) ** longest
    lengths = torch.log1p(-numbers.double() * mass) / math.log(1.0 - p)
    return (lengths.long() + 1).clamp(max=longest)


def _budget(prob: float, sequence: Tensor, indices: Tensor, seed: int, epoch: int) -> Tensor:
    """How many candidates of each sequence are taken, (B,).

    The number is rounded at random, so that the mean is exact.
    """
    counts = torch.bincount(sequence, minlength=len(indices))
    luck = uniform(seed, epoch, indices, torch.zeros_like(indices), _ROUNDING)
    return (prob * counts + luck).long()


def _starts(counts: Tensor) -> Tensor:
    return counts.cumsum(0) - counts


# ---- random numbers as a hash ----


def uniform(seed: int, epoch: int, indices: Tensor, places: Tensor, stream: int) -> Tensor:
    """Numbers in [0, 1), each a hash of its coordinates.

    The hash is SplitMix64's finalizer (Steele et al. 2014).

    Args:
        seed: of the run.
        epoch: counted from 0.
        indices: of sequences. Shape: (N,)
        places: in the sequence. Shape: (N,)
        stream: what the number decides.

    Returns:
        float64 (N,)

    Example:
        >>> index, place = torch.tensor([7]), torch.tensor([0])
        >>> uniform(1, 0, index, place, 0) == uniform(1, 0, index, place, 0)
        tensor([True])
    """
    state = torch.tensor(seed)
    for part in (torch.tensor(stream), torch.tensor(epoch), indices.long(), places.long()):
        state = _hash(state * _ODD + part + _STEP)
    return ((state >> 11) & ((1 << 53) - 1)).double() / (1 << 53)


_STEP, _ODD = -7046029254386353131, 6364136223846793005  # 0x9E3779B97F4A7C15, signed; Knuth's MMIX


def _hash(x: Tensor) -> Tensor:
    """64 bits well mixed; int64 products wrap around."""
    x = (x ^ _right(x, 30)) * -4658895280553007687  # 0xBF58476D1CE4E5B9
    x = (x ^ _right(x, 27)) * -7723592293110705685  # 0x94D049BB133111EB
    return x ^ _right(x, 31)


def _right(x: Tensor, bits: int) -> Tensor:
    """A shift that fills with zeros."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


# ---- fairseq's own ----


def _fairseq(
    ids: Tensor,
    lengths: tuple[int, ...],
    indices: Tensor,
    vocabulary: Vocabulary,
    masking: Masking,
    seed: int,
    epoch: int,
) -> tuple[Tensor, Tensor]:
    """Each sequence as fairseq 0.12.2's `MaskTokensDataset` masks it, by the same draws.

    The order of the draws is the same too. There every token is a candidate, and all ids behind the
    specials replace, `<mask>` and fillers among them. fairseq counts epochs from 1.
    """
    try:
        import numpy as np
    except ImportError:
        raise MissingExtraError(
            "task.options.unit=fairseq needs numpy; pip install 'roberta-hub[train]'"
        ) from None
    seen, chosen = ids.clone(), torch.zeros(len(ids), dtype=torch.bool)
    weights = np.ones(len(vocabulary.text))
    weights[: vocabulary.specials] = 0
    weights /= weights.sum()
    either = masking.leave + masking.random
    for part, taken, index in zip(
        torch.split(seen, list(lengths)),
        torch.split(chosen, list(lengths)),
        indices.tolist(),
        strict=True,
    ):
        size = len(part)
        source = np.random.RandomState(int(hash((seed, epoch + 1, index)) % 1e6))
        count = int(masking.prob * size + source.rand())
        picked = np.zeros(size, dtype=bool)
        picked[source.choice(size, count, replace=False)] = True
        taken[:] = torch.from_numpy(picked.copy())
        other = picked & (source.rand(size) < either) if either else np.zeros(size, dtype=bool)
        if masking.leave and masking.random:
            stays = other & (source.rand(size) < masking.leave / either)
        else:
            stays = other if masking.leave else np.zeros(size, dtype=bool)
        changes = other & ~stays
        part[torch.from_numpy(picked & ~stays)] = vocabulary.mask
        if changes.any():
            words = source.choice(len(weights), int(changes.sum()), p=weights)
            part[torch.from_numpy(changes)] = torch.from_numpy(words)
    return seen, chosen
