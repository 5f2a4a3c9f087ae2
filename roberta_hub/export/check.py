"""Compares an export with the packed model, on batches as a service sends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from roberta_hub.errors import ExportError, Remedy
from roberta_hub.export.graph import ExportedAnswer, head_of
from roberta_hub.model.embeddings import padded_segments
from roberta_hub.model.heads import pooling_of
from roberta_hub.model.packing import PackedBatch, pack
from roberta_hub.model.roberta import Roberta

RunInputs = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]
"""Inputs by name, (B, T) each -> outputs by name."""
MAX_DIFFERENCE = 1e-4
"""Largest allowed absolute difference; rounding makes about 1e-5."""
BATCH_SHAPES = ((1, 2), (1, 9), (3, 16), (5, 33))
"""(B, T) of the compared batches; a fifth is one row of the longest input."""


def check(model: Roberta, answer: ExportedAnswer, inputs: tuple[str, ...], run: RunInputs) -> float:
    """Compare the answers to five batches: padded left, right, and wholly.

    Raises:
        ExportError: it exceeds `MAX_DIFFERENCE`, or a shape differs; the message names the batch.
    """
    worst = 0.0
    longest = model.max_positions()
    for rows, columns in (*BATCH_SHAPES, (1, longest)):
        shape = (rows, min(columns, longest))
        ids, mask = _batch(model, shape)
        given = {"input_ids": ids, "attention_mask": mask}
        tokens = ids.where(mask.ne(0), model.config.padding_idx)
        if "token_type_ids" in inputs:
            assert model.transformer.separator_idx is not None
            given["token_type_ids"] = padded_segments(
                tokens, mask.bool(), separator=model.transformer.separator_idx
            )
        found = run(given)
        for name, wanted in zip(answer.outputs, answer_packed(model, answer, tokens), strict=True):
            worst = max(worst, _difference(name, found[name], wanted, shape))
    return worst


def answer_packed(model: Roberta, answer: ExportedAnswer, tokens: Tensor) -> tuple[Tensor, ...]:
    """Answer a padded batch, (B, T), by the packed model, as `Graph` does by the padded twin."""
    batch = pack(tokens, padding_idx=model.config.padding_idx)
    rows = model.features(batch)  # (N, C)
    if answer.kind == "features":
        return (batch.unpack(rows),)
    if answer.kind == "language":
        return (batch.unpack(model.encoder.output_layer(rows)),)
    if answer.kind == "pooled" and answer.name in ("mean", "max"):
        return (_over_tokens(rows, batch, answer.name),)
    if answer.kind == "pooled" and answer.name == "cls":
        return (batch.first_rows(rows),)
    head = head_of(model, answer)
    assert head is not None
    if answer.kind == "pooled":
        return (head(batch.first_rows(rows)),)
    if answer.kind == "classification":
        over_tokens = pooling_of(head) == "mean"
        vectors = batch.mean_rows(rows) if over_tokens else batch.first_rows(rows)
        return (head(vectors.unsqueeze(1)),)
    logits = batch.unpack(head(rows))
    return (logits, logits[..., 0], logits[..., 1]) if answer.kind == "span" else (logits,)


def _over_tokens(rows: Tensor, batch: PackedBatch, pooling: str) -> Tensor:
    """(N, C) -> (B, C); zeros for a row without tokens."""
    vectors = [
        states.new_zeros(states.size(1))
        if not len(states)
        else (states.mean(0) if pooling == "mean" else states.amax(0))
        for states in torch.split(rows, list(batch.lengths))
    ]
    return torch.stack(vectors)


def _batch(model: Roberta, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Ids and mask, (B, T): rows padded right, left, wholly, and not at all."""
    rows, columns = shape
    generator = torch.Generator().manual_seed(columns)
    ids = torch.randint(model.config.vocab_size, shape, generator=generator)
    pad, separator = model.config.padding_idx, model.transformer.separator_idx
    ids[ids.eq(pad)] = (pad + 1) % model.config.vocab_size
    if separator is not None:
        ids[:, columns // 2] = separator
    mask = torch.ones_like(ids)
    if rows > 2:
        mask[0, columns - columns // 3 :] = 0
        mask[1, : columns // 3] = 0
        mask[2] = 0
    return ids, mask


def _difference(name: str, found: Tensor, wanted: Tensor, shape: tuple[int, int]) -> float:
    batch = f"a batch of {shape[0]} x {shape[1]} ids"
    if found.shape != wanted.shape:
        raise ExportError(
            f"{name} of {batch} has shape {tuple(found.shape)} and the model's "
            f"{tuple(wanted.shape)}; nothing was written. This is a fault of the exporter or the "
            "runtime: another opset may do"
        )
    worst = float((found - wanted).abs().max())
    if not worst <= MAX_DIFFERENCE:  # NaN too
        raise ExportError(
            f"{name} of {batch} differs from the model's by {worst:.2g}, over the limit of "
            f"{MAX_DIFFERENCE:g}; nothing was written. Another opset may do",
            remedy=Remedy(
                "check=False writes it all the same", "--no-check writes it all the same"
            ),
        )
    return worst
