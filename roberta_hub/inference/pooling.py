"""Pools hidden states to one vector per text, batch by batch to save memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.inference.batching import BatchStates, Reading, Runner, pick_starts
from roberta_hub.inference.windows import Windows
from roberta_hub.model.attention import on_gpu

FIRST_TOKEN_POOLINGS = {"cls", "pooler"}
"""Poolings that read only `<s>`."""
_OVER_TOKENS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda states: states.mean(0),
    "max": lambda states: states.amax(0),
    "mean_sqrt_len": lambda states: states.sum(0) / math.sqrt(len(states)),
    "last_token": lambda states: states[-1],
}
"""Poolings over all tokens: (T, C) -> (C,)."""


def pooled(
    runner: Runner,
    windows: Sequence[Windows],
    pooling: Sequence[str],
    *,
    layer: int = -1,
    skip: int = 0,
) -> Tensor:
    """Compute one vector per text; several poolings are concatenated.

    In a text of several windows each token counts once, from the window where it is farthest from a
    cut; the vectors of `<s>` are averaged.
    """
    head = pooler_of(runner, layer) if "pooler" in pooling else None
    alone = FIRST_TOKEN_POOLINGS.issuperset(pooling) and not skip
    means = tuple(pooling) == ("mean",) and not skip
    whole = [
        len(text.ids) == 1 for text in windows for _ in text.ids
    ]  # whether a window is a whole text

    def read(rows: BatchStates) -> list[Tensor]:
        if alone:
            return list(_first(rows.at(rows.batch.starts), pooling, head))
        if means and on_gpu(rows.states) and all(whole[i] for i in rows.indices):
            return list(rows.batch.mean_rows(rows.states))
        first = _first(rows.states[rows.batch.starts + skip], pooling, head)
        return [
            _concatenated(states, own, pooling, skip) if whole[i] else states.clone()
            for states, own, i in zip(rows.split(), first, rows.indices, strict=True)
        ]

    def merge(text: Windows, parts: list[Tensor]) -> Tensor:
        if len(parts) == 1:
            return parts[0]
        if alone:
            return torch.stack(parts).mean(0)
        states = text.merge(parts)
        begins = states[skip : skip + 1] if skip else torch.stack([own[0] for own in parts])
        first = _first(begins, pooling, head).mean(0)
        return _concatenated(states, first, pooling, skip)

    pick = pick_starts if alone else None
    vectors = runner.run_windows(windows, Reading(read=read, merge=merge, layer=layer, pick=pick))
    if not vectors:
        width = runner.width * len(pooling)
        return next(runner.model.parameters()).new_empty(0, width)
    return torch.stack(vectors)


def pooler_of(runner: Runner, layer: int = -1) -> Callable[[Tensor], Tensor]:
    """Return the model's pooler: from states of `<s>`, (B, C), to vectors (B, C)."""
    pooler = getattr(runner.model, "pooler", None)
    if pooler is None:
        raise InputError(
            "this model has no pooler (BERT's and ALBERT's have one, and RoBERTa's where its file "
            "has pooler.dense): pooling takes 'cls', 'mean' or 'max'"
        )
    if layer != -1:
        raise InputError(f"layer is {layer}: the pooler reads the last one; leave layer out")
    found: Callable[[Tensor], Tensor] = pooler
    return found


def _first(
    states: Tensor, pooling: Sequence[str], head: Callable[[Tensor], Tensor] | None
) -> Tensor:
    """Concatenated "cls" and "pooler" vectors: (B, C) -> (B, C * k)."""
    if "cls" not in pooling and head is None:
        return states[:, :0]
    parts = {"cls": states}
    if head is not None:
        with torch.no_grad():
            parts["pooler"] = head(states)
    return torch.cat([parts[name] for name in pooling if name in FIRST_TOKEN_POOLINGS], dim=-1)


def _concatenated(states: Tensor, first: Tensor, pooling: Sequence[str], skip: int) -> Tensor:
    """Concatenate the poolings of a text: (T, C), (C * k,) -> (C * len(pooling),)."""
    ready, read = iter(torch.split(first, states.size(-1))), states[skip:]
    parts = []
    for name in pooling:
        if name in FIRST_TOKEN_POOLINGS:
            parts.append(next(ready))
        elif name == "weighted_mean":
            parts.append(weighted_mean(read, skip + 1))
        else:
            parts.append(_OVER_TOKENS[name](read))
    return torch.cat(parts)


def weighted_mean(states: Tensor, first: int = 1) -> Tensor:
    """Average the vectors of tokens, the later ones with more weight (Muennighoff 2022).

    Example:
        >>> weighted_mean(torch.tensor([[1.0], [4.0]]))
        tensor([3.])
    """
    weights = torch.arange(first, first + len(states), device=states.device, dtype=states.dtype)
    return weights @ states / weights.sum()
