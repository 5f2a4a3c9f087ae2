"""Prepares a model for inference, and measures its deviation from float32."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, VocabularyError
from roberta_hub.inference.dtype_choice import (
    DtypeCandidate,
    DtypeChoice,
    candidates,
    check_least_cosine,
)
from roberta_hub.inference.mode import evaluating
from roberta_hub.inference.threads import is_prepared
from roberta_hub.model.kernels import Pin, pinned_kernel
from roberta_hub.model.matrices import Dtype, check_dtype
from roberta_hub.model.memory import limit_caches, return_freed_memory
from roberta_hub.model.packing import pack_sequences
from roberta_hub.model.roberta import Roberta, require_roberta
from roberta_hub.text.tokenizer import Tokenizer

DtypeRequest = Dtype | Literal["auto"]
DTYPES: tuple[DtypeRequest, ...] = ("int8", "bfloat16", "auto")
_lock = threading.RLock()
"""Serializes calls: the plain features must not come from another thread's prepared form."""
PROBE_SENTENCES = (
    "The committee postponed its decision until Thursday.",
    "She sold 1,250 shares at $37.50 each; nobody asked why!",
    "Photosynthesis turns light, water and carbon dioxide into sugar.",
    "lol that's sooo not what I meant :)",
    "Il pleut depuis trois jours à Strasbourg.",
    "def area(r): return 3.14159 * r ** 2",
)
"""Sentences of several kinds, to measure accuracy: a model's outliers show on any text."""


@dataclass(frozen=True)
class Optimization:
    """Result of `optimize`: dtype, and deviation from the plain weights' features."""

    dtype: Dtype | None
    """None for float32."""
    cosine: float
    """Least cosine between a token's two features, over all tokens of `PROBE_SENTENCES`."""
    error: float
    """Largest absolute difference of the features, in their standard deviations."""
    pinned: Pin | None = None
    """Value of `$ROBERTA_HUB_MATRICES`, if set."""
    choice: DtypeChoice | None = None
    """Candidates of `optimize("auto")`; None if the caller named the dtype."""

    def __str__(self) -> str:
        off = f"least cosine {self.cosine:.4f}, largest error {self.error:.2g} deviations"
        kept = f" ({self.pinned}, as $ROBERTA_HUB_MATRICES says)" if self.pinned else ""
        done = f"float32, prepacked{kept}" if self.dtype is None else f"{self.dtype}: {off}"
        return done if self.choice is None else f"{done}; {self.choice}"


def optimize(
    model: nn.Module,
    tokenizer: Tokenizer,
    dtype: DtypeRequest | None,
    least_cosine: float | None = None,
) -> Optimization:
    """Prepare a model in place. See `RobertaHubInterface.optimize`."""
    if dtype is not None and not (isinstance(dtype, str) and dtype in DTYPES):
        choices = "choose None, 'int8' or 'bfloat16', or 'auto', which chooses by the CPU"
        raise InputError(f"dtype is {short_repr(dtype)}; {choices}")
    least = check_least_cosine(least_cosine, dtype)
    model = require_roberta(model, "optimize prepares")
    device = model.transformer.embed_positions.weight.device
    check_dtype(None if dtype == "auto" else dtype, device)
    if device.type == "cpu":
        limit_caches()
    with _lock, _restored_after_errors(model):
        if dtype == "auto":
            found = _fastest(model, tokenizer, candidates(device), least)
        else:
            found = _prepare(model, tokenizer, dtype)
    return_freed_memory()
    return found


@contextmanager
def _restored_after_errors(model: Roberta) -> Iterator[None]:
    encoder, head = model.transformer, model.encoder.lm_head
    before = encoder.prepared, None if head is None else head.prepared
    try:
        yield
    except BaseException:
        encoder.prepared = before[0]
        if head is not None:
            head.prepared = before[1]
        raise


def _fastest(
    model: Roberta, tokenizer: Tokenizer, found: list[DtypeCandidate], least: float
) -> Optimization:
    """Prepare the fastest dtype whose cosine is high enough; float32 always qualifies."""
    now = None
    # The fastest comes last: if its cosine is high enough, as mostly, nothing is prepared twice.
    for i, candidate in enumerate(found):
        if candidate.is_open:
            now = _prepare(model, tokenizer, candidate.dtype)
            found[i] = replace(candidate, cosine=now.cosine)
    choice = DtypeChoice(least, tuple(found))
    if now is None or now.dtype != choice.dtype:
        now = _prepare(model, tokenizer, choice.dtype)
    return replace(now, choice=choice)


def _prepare(model: Roberta, tokenizer: Tokenizer, dtype: Dtype | None) -> Optimization:
    encoder, head = model.transformer, model.encoder.lm_head
    encoder.prepared = None
    if head is not None:
        head.prepared = None
    with evaluating(model):
        wanted = _features(model, tokenizer)
        encoder.prepare(dtype)
        if not is_prepared(encoder):
            raise InputError(
                "optimize prepares RoBERTa's own layers, and here are adapters, hooks, "
                "parametrizations, a forward of somebody else's or autocast, which it would leave "
                "out; merge or remove them first"
            )
        # Kept in float32: rounding would go straight into probabilities, and it sees few tokens.
        if head is not None and dtype is None:
            head.prepare(dtype)
            model.encoder.output_layer(wanted[:1])  # packs it now instead of in the first call
        ours = _features(model, tokenizer)
    return_freed_memory()  # before another dtype is tried, too
    wanted, ours = wanted.float(), ours.float()
    return Optimization(
        dtype,
        cosine=float(torch.cosine_similarity(ours, wanted).min()),
        error=float((ours - wanted).abs().max() / wanted.std()),
        pinned=pinned_kernel() if dtype is None else None,
    )


def _features(model: Roberta, tokenizer: Tokenizer) -> Tensor:
    ids = [own[: model.max_positions()] for own in _sequences(tokenizer)]
    device = model.transformer.embed_positions.weight.device
    return model.features(pack_sequences(ids, padding_idx=model.config.padding_idx, device=device))


def _sequences(tokenizer: Tokenizer) -> list[Tensor]:
    """Return `PROBE_SENTENCES` as ids; arbitrary ids if the vocabulary is missing."""
    try:
        return tokenizer.encode_batch(PROBE_SENTENCES)
    except VocabularyError:
        layout = tokenizer.layout
        steps = torch.arange(60).view(3, 20) * 7919 % len(tokenizer)  # spread over the table
        pieces = steps.masked_fill(steps == layout.pad, layout.unk)
        begin, end = torch.tensor([layout.bos]), torch.tensor([layout.eos])
        return [torch.cat([begin, row, end]) for row in pieces]
