"""Fills `<mask>`, or the model's own mask token such as `[MASK]`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from roberta_hub.arguments import whole_number
from roberta_hub.errors import InputError, Place, Remedy
from roberta_hub.inference.batching import BatchStates, Reading, check_lm_head, lm_logits
from roberta_hub.inference.verb_model import VerbModel
from roberta_hub.inference.windows import Windows
from roberta_hub.model.packing import PackedBatch
from roberta_hub.text.dictionary import MASK
from roberta_hub.text.texts import as_strings
from roberta_hub.text.tokenizer import Tokenizer

Candidates = tuple[list[float], list[int]]
"""(probabilities, ids) for one mask."""
Fillings = list[tuple[str, float, str]]
"""(the text with the word in place, its probability, the word), most probable first."""

_FOREIGN_MASKS = re.compile(r"[\[<{(]+mask[\]>})]+|_{2,}|\bMASK\b", re.IGNORECASE)
"""Masks of other models and gaps: BERT's `[MASK]`, `___`."""


class FoundWord(str):
    """A word that `fill_mask` found: a str that remembers which piece of the vocabulary it is.

    "Berlin" may be the piece with a space before it or the one without, and BERT's "s" the word or
    the ending "##s".

    Example:
        >>> word = FoundWord(" world", "Ġworld")
        >>> word, word.piece, word == " world"
        (' world', 'Ġworld', True)
    """

    piece: str
    """As the tokenizer's files write it."""

    def __new__(cls, text: str, piece: str = "") -> FoundWord:
        """Make a word."""
        word = super().__new__(cls, text)
        word.piece = piece
        return word


@dataclass(frozen=True)
class MaskedText:
    """A text, split at its masks."""

    parts: list[str]
    """Text before, between and after the masks; one part more than masks."""
    marks: list[str]
    """The masks as written: `<mask>`, or the model's own token."""

    @classmethod
    def of(cls, text: str, tokenizer: Tokenizer) -> MaskedText:
        """Split a text at its masks.

        Example:
            >>> MaskedText.of("a <mask> b", Tokenizer.shipped())
            MaskedText(parts=['a ', ' b'], marks=['<mask>'])
        """
        cut = re.split(f"({'|'.join(map(re.escape, tokenizer.placeholders))})", text)
        return cls(cut[::2], cut[1::2])

    def around(self, number: int) -> tuple[str, str]:
        """Text before and after mask `number`, with the other masks."""
        pieces = [self.parts[0]]
        for mark, part in zip(self.marks, self.parts[1:], strict=True):
            pieces += [mark, part]
        return "".join(pieces[: 2 * number + 1]), "".join(pieces[2 * number + 2 :])


def fill_mask(
    model: VerbModel, texts: Sequence[str], *, topk: int = 5, targets: Sequence[str] | None = None
) -> list[list[Fillings]]:
    """The most probable words of each mask of each text.

    See `RobertaHubInterface.fill_mask`.
    """
    runner, tokenizer = model.runner, model.runner.tokenizer
    check_lm_head(runner.model, "fill_mask")
    cut = [MaskedText.of(text, tokenizer) for text in texts]
    topk = _check(texts, cut, topk, tokenizer)
    chosen = None
    if targets is not None:
        targets = _found_or_typed(targets)
        chosen = _target_ids(tokenizer, targets, _after_space(cut))
    windows = runner.fit_windows([tokenizer.encode_masked(text) for text in texts], texts)

    def read(rows: BatchStates) -> list[list[Candidates]]:
        """Candidates for the masks of each sequence, in order."""
        masked = rows.batch.ids.eq(tokenizer.mask_idx)
        logits = lm_logits(runner.model, rows.at(masked.nonzero().squeeze(1)), len(tokenizer))
        probabilities = logits.softmax(-1)  # (M, V)
        if chosen is None:
            # The softmax is over the whole vocabulary; specials are only not listed.
            words = tokenizer.words.to(probabilities.device)
            values, ids = probabilities.masked_fill(~words, -1.0).topk(topk)
        else:
            ids = chosen.to(probabilities.device).expand(len(probabilities), -1)
            values = probabilities.gather(1, ids)
        found = iter(zip(values.tolist(), ids.tolist(), strict=True))
        return [[next(found) for _ in range(int(part.sum()))] for part in rows.split(masked)]

    def masks(batch: PackedBatch) -> Tensor | None:
        """Return the mask of each sequence, (B,), where each has one."""
        places = batch.ids.eq(tokenizer.mask_idx)
        each = [int(part.sum()) for part in torch.split(places, list(batch.lengths))]
        return places.nonzero().squeeze(1) if set(each) == {1} else None

    def merge(text: Windows, parts: list[list[Candidates]]) -> list[Candidates]:
        return _at_masks(text, parts, tokenizer.mask_idx)

    results = []
    found = runner.run_windows(windows, Reading(read=read, merge=merge, pick=masks))
    for i, (text, masked, at_masks) in enumerate(zip(texts, cut, found, strict=True)):
        if len(at_masks) != len(masked.marks):
            raise InputError(
                f"truncation cut off a {MASK} of {text[:40]!r}...",
                place=Place("texts", i),
                remedy=Remedy("pass stride=N instead", "give --stride N instead"),
            )
        filled = []
        for number, candidates in enumerate(at_masks):
            before, after = masked.around(number)
            if targets is not None:
                candidates = _ranked(candidates, len(targets), after_space=before.endswith(" "))
            filled.append(_fill(tokenizer, before, after, candidates))
        results.append(filled)
    return results


def _check(texts: Sequence[str], cut: Sequence[MaskedText], topk: int, tokenizer: Tokenizer) -> int:
    for i, (text, masked) in enumerate(zip(texts, cut, strict=True)):
        if not masked.marks:
            near = _FOREIGN_MASKS.search(text)
            meant = f"; write it in the place of {near.group()!r}" if near else ""
            raise InputError(
                f"{text[:40]!r} has no mask: please add one {MASK} token for the input, eg: "
                f"'He is a {MASK} guy'{meant}",
                place=Place("texts", i),
            )
    words = tokenizer.num_words
    hint = f"choose 1 to {words}, the number of words in the vocabulary"
    return whole_number("topk", topk, 1, words, hint=hint)


def _after_space(cut: Sequence[MaskedText]) -> set[bool]:
    """Whether masks follow a space: the values that occur."""
    return {part.endswith(" ") for masked in cut for part in masked.parts[:-1]}


def _target_ids(tokenizer: Tokenizer, targets: Sequence[str], after_space: set[bool]) -> Tensor:
    """Ids of the targets without a space before them, then with one: (2K,).

    Most words are a single piece in only one of the two forms; a form that no mask needs is zero.
    """
    if not targets:
        raise InputError("targets is empty; pass a list of words, at least one")
    if any(not target.strip() for target in targets if not _piece_of(target)):
        raise InputError("a target is empty; '' is no word")
    ids = []
    for space in (False, True):
        if space in after_space:
            ids += [_target_id(tokenizer, target, after_space=space) for target in targets]
        else:
            ids += [0] * len(targets)
    return torch.tensor(ids)


def _target_id(tokenizer: Tokenizer, target: str, *, after_space: bool) -> int:
    """Find the one piece that a target is where a mask follows a space, or does not.

    That is the piece that was found, of a word that `fill_mask` found; else the target with its own
    blank, or with one where the mask follows one, or as it is; else the piece of that name.
    """
    names = tokenizer.ids_of_pieces
    piece = _piece_of(target)
    if piece in names and tokenizer.decode_id(names[piece]) == target:  # not of another vocabulary
        return names[piece]
    word = target.strip()
    blank = after_space or target[0].isspace()
    forms = [" " + word] if target[0].isspace() else [" " + word, word] if after_space else [word]
    tried = [tokenizer.ids_of(form).tolist() for form in forms]
    for pieces in tried:
        if len(pieces) == 1 and tokenizer.words[pieces[0]]:
            return int(pieces[0])
    if word in names:  # "##s", which as a text is "#", "#" and "s"
        return names[word]
    pieces = tried[0]
    if len(pieces) != 1:
        raise InputError(
            f"target {target!r} is {len(pieces)} pieces "
            f"{'after a space' if blank else 'without a space before it'}, "
            f"{tokenizer.tokenize(forms[0])}; one mask holds one piece, so it has no "
            "probability of its own",
            remedy=Remedy(
                "choose a shorter word, or compare whole texts with score()",
                "choose a shorter word, or compare whole texts with `roberta-hub score`",
            ),
        )
    raise InputError(
        f"target {target!r} is not in the vocabulary, which reads it as "
        f"{tokenizer.dictionary[pieces[0]]}; choose another word"
    )


def _found_or_typed(targets: Sequence[str]) -> list[str]:
    """Return targets as a list, in which words that were found remember their pieces."""
    given = list(targets) if isinstance(targets, (list, tuple, Iterator)) else targets
    typed = as_strings(given, "targets", "words")
    if not isinstance(given, list):
        return typed
    return [
        FoundWord(text, _piece_of(target)) if _piece_of(target) else text
        for text, target in zip(typed, given, strict=True)
    ]


def _piece_of(target: str) -> str:
    return target.piece if isinstance(target, FoundWord) else ""


def _ranked(candidates: Candidates, count: int, *, after_space: bool) -> Candidates:
    """Targets in the form that fits the mask, most probable first; each piece once."""
    half = slice(count, None) if after_space else slice(count)
    pairs = sorted({*zip(candidates[0][half], candidates[1][half], strict=True)}, reverse=True)
    return [value for value, _ in pairs], [index for _, index in pairs]


def _at_masks(text: Windows, own: list[list[Candidates]], mask_idx: int) -> list[Candidates]:
    """Candidates of each mask, from the window where it is farthest from a cut."""
    found: dict[int, Candidates] = {}
    for w, (window, column, masks) in enumerate(zip(text.ids, text.columns, own, strict=True)):
        for place, candidates in zip(column[window.eq(mask_idx)].tolist(), masks, strict=True):
            # A truncated text has one window, whose columns index the uncut text.
            if len(text.ids) == 1 or int(text.best[place]) == w:
                found[place] = candidates
    return [found[place] for place in sorted(found)]


def _fill(tokenizer: Tokenizer, before: str, after: str, candidates: Candidates) -> Fillings:
    # A token carries its own space, so the one before the mask is dropped. The first token of a
    # text is decoded as a text: some tokenizers write no space there.
    bare = before.removesuffix(" ")
    filled: Fillings = []
    for probability, index in zip(*candidates, strict=True):
        token = tokenizer.decode_id(index)
        first = token if bare else f"{tokenizer.decode([index])}"
        (piece,) = tokenizer.pieces([index])
        filled.append((bare + first + after, probability, FoundWord(token, piece)))
    return filled
