"""Finds the most probable words for `<mask>`, or for the model's own word, such as `[MASK]`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from roberta_hub.arguments import whole_number
from roberta_hub.errors import InputError, Place, Remedy
from roberta_hub.inference.batching import Reading, Rows, Runner, check_lm_head, lm_logits
from roberta_hub.inference.windows import Windows
from roberta_hub.model.packing import PackedBatch
from roberta_hub.text.dictionary import MASK
from roberta_hub.text.texts import as_strings
from roberta_hub.text.tokenizer import Tokenizer

Candidates = tuple[list[float], list[int]]
"""(probabilities, ids) for one mask."""
Filled = list[tuple[str, float, str]]
"""(the text with the word in place, its probability, the word), most probable first."""

_NEARLY = re.compile(r"[\[<{(]+mask[\]>})]+|_{2,}|\bMASK\b", re.IGNORECASE)
"""What people write for a mask that other models have: BERT's `[MASK]`, a gap."""


@dataclass(frozen=True)
class Masked:
    """Holds a text with masks, cut at them."""

    parts: list[str]
    """What stands before, between and behind the masks; one more than there are masks."""
    marks: list[str]
    """The masks as the text writes them: `<mask>`, or the model's own word."""

    @classmethod
    def of(cls, text: str, tokenizer: Tokenizer) -> Masked:
        """Cut a text.

        Example:
            >>> Masked.of("a <mask> b", Tokenizer.shipped())
            Masked(parts=['a ', ' b'], marks=['<mask>'])
        """
        cut = re.split(f"({'|'.join(map(re.escape, tokenizer.placeholders))})", text)
        return cls(cut[::2], cut[1::2])

    def around(self, number: int) -> tuple[str, str]:
        """Tell what stands before and behind mask `number`, the other masks as they were."""
        pieces = [self.parts[0]]
        for mark, part in zip(self.marks, self.parts[1:], strict=True):
            pieces += [mark, part]
        return "".join(pieces[: 2 * number + 1]), "".join(pieces[2 * number + 2 :])


def fill_mask(
    runner: Runner, texts: Sequence[str], *, topk: int = 5, targets: Sequence[str] | None = None
) -> list[list[Filled]]:
    """For each text, for each of its masks, the most probable words.

    See `RobertaHubInterface.fill_mask`.
    """
    tokenizer = runner.tokenizer
    check_lm_head(runner.model, "fill_mask")
    cut = [Masked.of(text, tokenizer) for text in texts]
    topk = _check(texts, cut, topk, tokenizer)
    if targets is not None:
        targets = as_strings(targets, "targets", "words")
    chosen = None if targets is None else _target_ids(tokenizer, targets, _after_space(cut))
    windows = runner.fit([tokenizer.encode_masked(text) for text in texts], texts)

    def read(rows: Rows) -> list[list[Candidates]]:
        """Candidates for the masks of each sequence, in order."""
        masked = rows.batch.ids.eq(tokenizer.mask_idx)
        logits = lm_logits(runner.model, rows.at(masked.nonzero().squeeze(1)), len(tokenizer))
        probabilities = logits.softmax(-1)  # (M, V)
        if chosen is None:
            # Probabilities are over the whole vocabulary; specials are only left out of the list.
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
    found = runner.ask(windows, Reading(read=read, merge=merge, pick=masks))
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


def _check(texts: Sequence[str], cut: Sequence[Masked], topk: int, tokenizer: Tokenizer) -> int:
    for i, (text, masked) in enumerate(zip(texts, cut, strict=True)):
        if not masked.marks:
            near = _NEARLY.search(text)
            meant = f"; write it in the place of {near.group()!r}" if near else ""
            raise InputError(
                f"{text[:40]!r} has no mask: please add one {MASK} token for the input, eg: "
                f"'He is a {MASK} guy'{meant}",
                place=Place("texts", i),
            )
    words = int(tokenizer.words.sum())
    hint = f"choose 1 to {words}, the number of words in the vocabulary"
    return whole_number("topk", topk, 1, words, hint=hint)


def _after_space(cut: Sequence[Masked]) -> set[bool]:
    """Tell whether masks stand after a space, right after other characters, or some so, some so."""
    return {part.endswith(" ") for masked in cut for part in masked.parts[:-1]}


def _target_ids(tokenizer: Tokenizer, targets: Sequence[str], after_space: set[bool]) -> Tensor:
    """Find the one id of each target, after no space and then after a space: (2K,).

    Most words are one piece in one of the two forms; the form that no mask needs is filled with
    zeros.
    """
    if not targets:
        raise InputError("targets is empty; pass a list of words, at least one")
    if any(not target.strip() for target in targets):
        raise InputError("a target is empty; '' is no word")
    ids = []
    for space in (False, True):
        if space not in after_space:
            ids += [0] * len(targets)
            continue
        for target in targets:
            text = " " * space + target.strip()
            pieces = tokenizer.ids_of(text).tolist()
            if len(pieces) != 1:
                raise InputError(
                    f"target {target!r} is {len(pieces)} pieces "
                    f"{'after a space' if space else 'without a space before it'}, "
                    f"{tokenizer.tokenize(text)}; one mask holds one piece, so it has no "
                    "probability of its own",
                    remedy=Remedy(
                        "choose a shorter word, or compare whole texts with score()",
                        "choose a shorter word, or compare whole texts with `roberta-hub score`",
                    ),
                )
            if not tokenizer.words[pieces[0]]:
                raise InputError(
                    f"target {target!r} is not in the vocabulary, which reads it as "
                    f"{tokenizer.dictionary[pieces[0]]}; choose another word"
                )
            ids.append(int(pieces[0]))
    return torch.tensor(ids)


def _ranked(candidates: Candidates, count: int, *, after_space: bool) -> Candidates:
    """Return the half of the target ids that fits the place of the mask, most probable first."""
    half = slice(count, None) if after_space else slice(count)
    pairs = sorted(zip(candidates[0][half], candidates[1][half], strict=True), reverse=True)
    return [value for value, _ in pairs], [index for _, index in pairs]


def _at_masks(text: Windows, own: list[list[Candidates]], mask_idx: int) -> list[Candidates]:
    """Return the candidates of each mask, from the window in which it stands best."""
    found: dict[int, Candidates] = {}
    for w, (window, column, masks) in enumerate(zip(text.ids, text.columns, own, strict=True)):
        for place, candidates in zip(column[window.eq(mask_idx)].tolist(), masks, strict=True):
            # After a cut, columns point into the uncut text and there is one window only.
            if len(text.ids) == 1 or int(text.best[place]) == w:
                found[place] = candidates
    return [found[place] for place in sorted(found)]


def _fill(tokenizer: Tokenizer, before: str, after: str, candidates: Candidates) -> Filled:
    # A token carries its own space, so the one before the mask goes. What begins a text is decoded
    # as a text: some engines write no space there.
    bare = before.removesuffix(" ")
    filled = []
    for probability, index in zip(*candidates, strict=True):
        token = tokenizer.decode_id(index)
        first = token if bare else f"{tokenizer.decode([index])}"
        filled.append((bare + first + after, probability, token))
    return filled
