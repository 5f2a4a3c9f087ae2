"""Prepares a model for inference, and measures how near the result is to float32."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from roberta_hub.errors import InputError, VocabularyError
from roberta_hub.inference.mode import evaluating
from roberta_hub.inference.threads import is_prepared
from roberta_hub.model.kernels import Pin, pinned
from roberta_hub.model.matrices import Dtype, check_dtype
from roberta_hub.model.packing import pack_sequences
from roberta_hub.model.roberta import Roberta, own_model
from roberta_hub.text.tokenizer import Tokenizer

_lock = threading.RLock()
"""One model at a time: no other thread's form may be compared with the plain features."""
SENTENCES = (
    "The committee postponed its decision until Thursday.",
    "She sold 1,250 shares at $37.50 each; nobody asked why!",
    "Photosynthesis turns light, water and carbon dioxide into sugar.",
    "lol that's sooo not what I meant :)",
    "Il pleut depuis trois jours à Strasbourg.",
    "def area(r): return 3.14159 * r ** 2",
)
"""Of several kinds, on which accuracy is measured: a model's outliers show on any text."""


@dataclass(frozen=True)
class Optimization:
    """What `optimize` did, and how near its features are to those of the plain weights."""

    dtype: Dtype | None
    """None for float32."""
    cosine: float
    """The least cosine between a token's two features, over all tokens of `SENTENCES`."""
    error: float
    """The largest difference of a number in them, in standard deviations of all."""
    pinned: Pin | None = None
    """What `$ROBERTA_HUB_MATRICES` said, where it said something."""

    def __str__(self) -> str:
        off = f"least cosine {self.cosine:.4f}, largest error {self.error:.2g} deviations"
        kept = f" ({self.pinned}, as $ROBERTA_HUB_MATRICES says)" if self.pinned else ""
        return f"float32, prepacked{kept}" if self.dtype is None else f"{self.dtype}: {off}"


def optimize(model: nn.Module, tokenizer: Tokenizer, dtype: Dtype | None) -> Optimization:
    """Prepare a model in place. See `RobertaHubInterface.optimize`."""
    model = own_model(model, "optimize prepares")
    check_dtype(dtype, model.transformer.embed_positions.weight.device)
    with _lock:
        encoder, head = model.transformer, model.encoder.lm_head
        before = encoder.prepared, None if head is None else head.prepared
        encoder.prepared = None
        if head is not None:
            head.prepared = None
        try:
            return _prepare(model, tokenizer, dtype)
        except BaseException:
            encoder.prepared = before[0]
            if head is not None:
                head.prepared = before[1]
            raise


def _prepare(model: Roberta, tokenizer: Tokenizer, dtype: Dtype | None) -> Optimization:
    encoder, head = model.transformer, model.encoder.lm_head
    with evaluating(model):
        wanted = _features(model, tokenizer)
        encoder.prepare(dtype)
        if not is_prepared(encoder):
            raise InputError(
                "optimize prepares RoBERTa's own layers, and here are adapters, hooks, "
                "parametrizations, a forward of somebody else's or autocast, which it would leave "
                "out; merge or remove them first"
            )
        # Rounding there would go straight into probabilities, and it only sees the masked tokens.
        if head is not None and dtype is None:
            head.prepare(dtype)
            model.encoder.output_layer(wanted[:1])  # packs it now, not in the first call
        ours = _features(model, tokenizer)
    wanted, ours = wanted.float(), ours.float()
    return Optimization(
        dtype,
        cosine=float(torch.cosine_similarity(ours, wanted).min()),
        error=float((ours - wanted).abs().max() / wanted.std()),
        pinned=pinned() if dtype is None else None,
    )


def _features(model: Roberta, tokenizer: Tokenizer) -> Tensor:
    ids = [own[: model.max_positions()] for own in _sequences(tokenizer)]
    device = model.transformer.embed_positions.weight.device
    return model.features(pack_sequences(ids, padding_idx=model.config.padding_idx, device=device))


def _sequences(tokenizer: Tokenizer) -> list[Tensor]:
    """Return `SENTENCES` as ids; any pieces, where the vocabulary is missing and ids are all."""
    try:
        return tokenizer.encode_batch(SENTENCES)
    except VocabularyError:
        layout = tokenizer.layout
        steps = torch.arange(60).view(3, 20) * 7919 % len(tokenizer)  # spread over the table
        pieces = steps.masked_fill(steps == layout.pad, layout.unk)
        begin, end = torch.tensor([layout.bos]), torch.tensor([layout.eos])
        return [torch.cat([begin, row, end]) for row in pieces]
