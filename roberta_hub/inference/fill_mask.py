"""Words for `<mask>`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.inference.batching import Rows, Runner, lm_logits
from roberta_hub.inference.windows import Windows
from roberta_hub.text.tokenizer import Tokenizer

MASK = "<mask>"
Filled = list[tuple[str, float, str]]
"""(the text with the word in place, its probability, the word), most probable first."""


def fill_mask(
    runner: Runner, texts: Sequence[str], *, topk: int = 5, targets: Sequence[str] | None = None
) -> list[list[Filled]]:
    """For each text, for each of its masks, the most probable words. See `RobertaHubInterface.fill_mask`."""
    tokenizer = runner.tokenizer
    _check(texts, topk, tokenizer)
    chosen = (
        None
        if targets is None
        else [_target_ids(tokenizer, targets, space) for space in (False, True)]
    )
    ids = [tokenizer.encode_masked(text) for text in texts]
    windows = runner.fit(ids, texts)
    words = tokenizer.words  # (V,) true where an id is text, not a special

    def answer(rows: Rows) -> list[list[Tensor]]:
        """Probabilities at the masks of each sequence, in order: lists of (V,)."""
        masked = rows.batch.ids.eq(tokenizer.mask_idx)
        logits = lm_logits(runner.model, rows.states[masked])
        counts = [int(part.sum()) for part in torch.split(masked, list(rows.batch.lengths))]
        return [list(part.softmax(-1).cpu()) for part in torch.split(logits, counts)]

    results = []
    for text, fitted, own in zip(texts, windows, runner.run_windows(windows, answer), strict=True):
        found: list[Filled] = []
        for number, probabilities in enumerate(_at_masks(fitted, own, tokenizer.mask_idx)):
            spaced = _split(text, number)[0].endswith(" ")
            allowed = None if chosen is None else chosen[spaced]
            found.append(_best(tokenizer, text, number, probabilities, words, topk, allowed))
        if len(found) != text.count(MASK):
            raise InputError(
                f"truncation cut off a {MASK} of {text[:40]!r}...; pass stride=N instead"
            )
        results.append(found)
    return results


def _check(texts: Sequence[str], topk: int, tokenizer: Tokenizer) -> None:
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputTypeError(
                f"text {i} is a {type(text).__name__}; fill_mask takes str with {MASK} in it"
            )
        if MASK not in text:
            raise InputError(
                f"text {i}, {text[:40]!r}, has no mask: please add one {MASK} token for the input, "
                f"eg: 'He is a {MASK} guy'"
            )
    words = int(tokenizer.words.sum())
    if not isinstance(topk, int) or not 1 <= topk <= words:
        raise InputError(
            f"topk is {topk!r}; choose 1 to {words}, the number of words in the vocabulary"
        )


def _target_ids(tokenizer: Tokenizer, targets: Sequence[str], space: bool) -> list[int]:
    """The one id of each target where it stands after a space, or at the beginning of a text."""
    if isinstance(targets, str) or not targets:
        raise InputError(f"targets is {targets!r}; pass a list of words")
    ids = []
    for target in targets:
        pieces = tokenizer.encode((" " if space else "") + target.strip())[1:-1].tolist()
        if len(pieces) != 1:
            shown = tokenizer.tokenize((" " if space else "") + target.strip())
            raise InputError(
                f"target {target!r} is {len(pieces)} pieces, {shown}; one mask holds one piece, so it has "
                "no probability of its own; choose a shorter word, or compare whole texts with score()"
            )
        ids.append(int(pieces[0]))
    return ids


def _at_masks(text: Windows, own: list[list[Tensor]], mask_idx: int) -> list[Tensor]:
    """Probabilities at each mask of the whole text, from the window in which it stands best."""
    found: dict[int, Tensor] = {}
    for w, (window, column, probabilities) in enumerate(
        zip(text.ids, text.columns, own, strict=True)
    ):
        places = column[window.eq(mask_idx)].tolist()
        for place, probability in zip(places, probabilities, strict=True):
            # After a cut, columns point into the uncut text and there is one window only.
            if len(text.ids) == 1 or int(text.best[place]) == w:
                found[place] = probability
    return [found[place] for place in sorted(found)]


def _best(
    tokenizer: Tokenizer,
    text: str,
    number: int,
    probabilities: Tensor,
    words: Tensor,
    topk: int,
    allowed: list[int] | None,
) -> Filled:
    if allowed is None:
        # Probabilities are over the whole vocabulary; specials are only left out of the list.
        values, indices = probabilities.masked_fill(~words, -1.0).topk(topk)
    else:
        candidates = torch.tensor(allowed)
        values, order = probabilities[candidates].sort(descending=True)
        indices = candidates[order]
    before, after = _split(text, number)
    filled = []
    for value, index in zip(values.tolist(), indices.tolist(), strict=True):
        token = tokenizer.decode_id(index)
        # A token carries its own space, so the one before the mask goes.
        filled.append(
            ((before[:-1] if before.endswith(" ") else before) + token + after, value, token)
        )
    return filled


def _split(text: str, number: int) -> tuple[str, str]:
    """What stands before and after mask number `number`."""
    parts = text.split(MASK)
    return MASK.join(parts[: number + 1]), MASK.join(parts[number + 1 :])
