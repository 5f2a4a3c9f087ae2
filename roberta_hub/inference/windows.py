"""Handles texts that are too long: an error, truncation, or overlapping windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from roberta_hub.errors import InputError, Place, Remedy
from roberta_hub.text.layout import SequenceLayout

Keep = Callable[[Sequence[int], int], list[int]]
"""From the lengths of sentences and the room to the number of tokens each keeps."""
_TOO_LONG = Remedy(
    "pass truncate=True to cut it or stride=N for windows that overlap by N tokens",
    "--truncate cuts it, --stride N reads windows that overlap by N tokens",
)


def keep_evenly(lengths: Sequence[int], room: int) -> list[int]:
    """Truncate the longest sentence token by token, the later one of equals.

    Example:
        >>> keep_evenly([9, 3], 8), keep_evenly([9, 9], 5)
        ([5, 3], [3, 2])
    """
    keep = list(lengths)
    for _ in range(sum(keep) - room):
        longest = max(range(len(keep)), key=lambda s: (keep[s], s))
        keep[longest] -= 1
    return keep


def keep_as_tokenizers(lengths: Sequence[int], room: int) -> list[int]:
    """As `keep_evenly`; in a pair the last token of an odd number goes to the longer sentence.

    Hugging Face's tokenizers does so, and since 0.23.3 takes the second of equals for the longer
    one.

    Example:
        >>> keep_as_tokenizers([8, 9], 5), keep_as_tokenizers([9, 8], 5)
        ([2, 3], [3, 2])
    """
    keep = keep_evenly(lengths, room)
    if len(keep) == 2 and keep[0] == keep[1] + 1 and keep[0] <= lengths[0] <= lengths[1]:
        keep.reverse()
    return keep


@dataclass(frozen=True)
class Windows:
    """One text, in windows that fit into the model."""

    ids: list[Tensor]
    """Ids of each window, with specials; one window if the text fits."""
    columns: list[Tensor]
    """Index of each window's tokens in the whole text. Same shapes as `ids`."""
    best: Tensor
    """For each token of the text, the window where it is farthest from a cut. Shape: (T,)"""

    def merge(self, rows: list[Tensor]) -> Tensor:
        """Merge the rows of the windows into rows of the whole text: (T_w, *) -> (T, *)."""
        if len(rows) == 1:
            return rows[0]
        merged = rows[0].new_empty(len(self.best), *rows[0].shape[1:])
        for w, (row, columns) in enumerate(zip(rows, self.columns, strict=True)):
            mine = self.best[columns] == w
            merged[columns[mine]] = row[mine.to(row.device)]
        return merged


def fit_windows(
    sequences: Sequence[Tensor],
    texts: Sequence[object],
    limit: int,
    layout: SequenceLayout,
    *,
    truncate: bool = False,
    stride: int | None = None,
    numbers: Sequence[int] | None = None,
    keep: Keep = keep_evenly,
) -> list[Windows]:
    """Fit every encoded text into `limit` tokens.

    Args:
        sequences: ids of whole texts as encode() makes them. Shapes: (T_i,)
        texts: the same texts, for errors.
        limit: the model's max_positions.
        layout: of special tokens; finds the sentences of a sequence.
        truncate: cut the longest sentence of a text until it fits.
        stride: slide windows that overlap by this many tokens instead.
        numbers: number of each text in errors; None: its index.
        keep: tokens that truncation keeps of each sentence.
    """
    if truncate and stride is not None:
        raise InputError("truncate=True and stride=N exclude each other; choose one")
    if stride is not None and (not isinstance(stride, int) or stride < 0):
        raise InputError(
            f"stride is {stride!r}; it is the overlap of two windows in tokens, 0 or more"
        )
    fitted = []
    fitting: dict[int, tuple[list[Tensor], Tensor]] = {}
    # Texts that fit and have one length share tensors: these take longer to make than ids.
    for i, (number, ids) in enumerate(
        zip(numbers or range(len(sequences)), sequences, strict=True)
    ):
        length = len(ids)
        if length <= limit:
            if length not in fitting:
                fitting[length] = [torch.arange(length)], torch.zeros(length, dtype=torch.long)
            fitted.append(Windows([ids], *fitting[length]))
            continue
        place = Place("texts", number)
        if truncate:
            columns = _kept_columns(ids, limit, layout, keep, place)
            fitted.append(
                Windows([ids[columns]], [columns], torch.zeros(len(columns), dtype=torch.long))
            )
        elif stride is not None:
            fitted.append(_sliding_windows(ids, limit, stride, layout, place))
        else:
            raise InputError(
                f"too long: {len(ids)} tokens > {limit} ({str(texts[i])[:40]!r}...)",
                place=place,
                remedy=_TOO_LONG,
            )
    return fitted


def _kept_columns(
    ids: Tensor, limit: int, layout: SequenceLayout, keep: Keep, place: Place
) -> Tensor:
    sentences = layout.sentences(ids)
    room = limit - (len(ids) - sum(end - start for start, end in sentences))
    if room < len(sentences):
        raise InputError(
            f"a limit of {limit} tokens has no room for {len(sentences)} sentences", place=place
        )
    left = keep([end - start for start, end in sentences], room)
    kept = torch.ones(len(ids), dtype=torch.bool)
    for (start, end), n in zip(sentences, left, strict=True):
        if layout.truncation_side == "left":
            kept[start : end - n] = False
        else:
            kept[start + n : end] = False
    return kept.nonzero().squeeze(1)


def _sliding_windows(
    ids: Tensor, limit: int, stride: int, layout: SequenceLayout, place: Place
) -> Windows:
    """Windows over the longest sentence; all other tokens are repeated in each."""
    start, end = max(layout.sentences(ids), key=lambda found: found[1] - found[0])
    room = limit - (len(ids) - (end - start))
    if room <= stride:
        raise InputError(
            f"{limit} tokens leave {room} for its longest sentence, and a stride of {stride} must "
            "stay below that; lower the stride or cut the other sentences",
            place=place,
        )
    firsts = [*range(start, end - room, room - stride), end - room]
    before, after = torch.arange(start), torch.arange(end, len(ids))
    columns = [torch.cat([before, torch.arange(first, first + room), after]) for first in firsts]
    best = torch.zeros(len(ids), dtype=torch.long)
    margin = torch.full((len(ids),), -1)
    for w, first in enumerate(firsts):
        token = torch.arange(first, first + room)
        left = token - first if w else token.new_full((room,), limit)
        right = first + room - 1 - token if w < len(firsts) - 1 else token.new_full((room,), limit)
        here = torch.minimum(left, right)
        better = here > margin[token]
        best[token[better]] = w
        margin[token[better]] = here[better]
    best[after] = len(firsts) - 1  # `</s>` belongs to the last window, `<s>` to the first
    return Windows([ids[c] for c in columns], columns, best)
