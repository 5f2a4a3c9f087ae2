"""Computes vectors of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from roberta_hub.arguments import one_of, whole_number
from roberta_hub.inference.batching import Rows, Runner, starts
from roberta_hub.text.tokenizer import Text

Pooling = Literal["cls", "mean"]


def features(
    runner: Runner, texts: Sequence[Text], *, layer: int = -1, pooling: Pooling | None = None
) -> list[Tensor] | Tensor:
    """Hidden states of each text, (T_i, C), or one vector a text, (len(texts), C), when pooled.

    See `RobertaHubInterface.features`.
    """
    one_of("pooling", pooling, (None, "cls", "mean"))
    layer = whole_number("layer", layer, hint="-1 is the features, 0 the embeddings, 1 a layer")
    windows, firsts, which = runner.encode(texts)

    def answer(rows: Rows) -> list[Tensor]:
        if pooling == "cls":
            return list(rows.at(rows.batch.starts))
        # A view would keep its whole batch alive as long as the caller keeps one text.
        return [part.clone() for part in rows.split()]

    parts = runner.run_windows(
        windows, answer, layer=layer, pick=starts if pooling == "cls" else None
    )
    if pooling == "cls":
        merged = [torch.stack(own).mean(0) for own in parts]
    else:
        merged = [text.merge(own) for text, own in zip(windows, parts, strict=True)]
    if pooling is None:
        # A text that is asked for twice comes back as two tensors, which the caller may change.
        return [merged[n] if firsts[n] == i else merged[n].clone() for i, n in enumerate(which)]
    if not merged:
        return next(runner.model.parameters()).new_empty(0, runner.width)
    vectors = merged if pooling == "cls" else [states.mean(0) for states in merged]
    return torch.stack(vectors)[which]
