"""Ids in, features out: rows 45 to 50, 55 and 56."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .case import HF, OURS, STOCK, Case, Place, Verdict, works, wrong

TITLES = {
    45: "ids below 0, beyond the vocabulary",
    46: "ids that are float, bool, 3-d, 0-d, a list",
    47: "empty batch",
    48: "length zero",
    49: "a row of padding only",
    50: "padding without a mask",
    55: "align words in fp16, bf16",
    56: "autocast, inference_mode, no gradients, double backward",
}
NOT_APPLICABLE = {(55, HF): "aligns by offsets, without tensors"}
SHORT = [0, 31414, 232, 2]
LONG = [0, 31414, 232, 328, 31414, 232, 328, 2]
PADDED = torch.tensor([SHORT + [1] * 4, LONG])


def refused(ids: Any, engine: Any, place: Place) -> Verdict:
    found = engine.features(ids)
    return wrong(f"returns features {tuple(found.shape)}")


def as_tensor(ids: Any, engine: Any, place: Place) -> Verdict:
    """Refused, or understood as the tensor of the same numbers."""
    found, wanted = engine.features(ids), engine.features(torch.tensor([SHORT]))
    return works("as a tensor") if same(found, wanted) else wrong("returns other features")


def same(found: Tensor, wanted: Tensor) -> bool:
    return found.shape == wanted.shape and torch.allclose(found, wanted, atol=1e-5)


def empty_batch(engine: Any, place: Place) -> Verdict:
    found = engine.features(torch.zeros(0, 5, dtype=torch.long))
    return works("returns none") if tuple(found.shape[:2]) == (0, 5) else wrong("another shape")


def all_padding(engine: Any, place: Place) -> Verdict:
    found = engine.features(torch.tensor([LONG, [1] * 8]))
    if not torch.isfinite(found).all():
        return wrong("NaN")
    alone = engine.features(torch.tensor([LONG]))
    return works("finite") if same(found[:1], alone) else wrong("changes the other row")


def padded(engine: Any, place: Place) -> Verdict:
    """A short text beside a long one has the features that it has alone."""
    found = engine.features(PADDED)[:1, : len(SHORT)]
    alone = engine.features(torch.tensor([SHORT]))
    moved = float((found - alone).detach().abs().max())
    return works("as alone") if moved < 1e-5 else wrong(f"features move by {moved:.1g}")


# ---- rows 55 and 56 ----


def aligned(dtype: torch.dtype, engine: Any, place: Place) -> Verdict:
    doc = engine.model.to(dtype).extract_features_aligned_to_words("It was fine, really.")
    finite = all(torch.isfinite(token.vector).all() for token in doc)
    return works(f"{len(doc)} words") if finite else wrong("vectors not finite")


def close(engine: Any, found: Tensor, tolerance: float) -> Verdict:
    """Near the features of float32; large features are compared by their size."""
    wanted = engine.features(torch.tensor([LONG])).detach()
    off = float((found.detach().float() - wanted).abs().max() / wanted.abs().max())
    return works("as float32") if off < tolerance else wrong(f"off by {off:.1g}")


def autocast(engine: Any, place: Place) -> Verdict:
    with torch.autocast("cpu", torch.bfloat16):
        found = engine.features(torch.tensor([LONG]))
    return close(engine, found, 0.05)


def inference(engine: Any, place: Place) -> Verdict:
    with torch.inference_mode():
        found = engine.features(torch.tensor([LONG]))
    return close(engine, found.clone(), 1e-5)


def frozen(engine: Any, place: Place) -> Verdict:
    for parameter in engine.model.parameters():
        parameter.requires_grad_(False)
    return close(engine, engine.features(torch.tensor([LONG])), 1e-5)


def twice(engine: Any, place: Place) -> Verdict:
    """The gradient of the gradient's size."""
    weights = [p for p in engine.model.parameters() if p.ndim == 2]
    loss = engine.features(torch.tensor([LONG])).square().sum()
    first = torch.autograd.grad(loss, weights, create_graph=True, allow_unused=True)
    size = sum((g.square().sum() for g in first if g is not None), torch.zeros(()))
    size.backward()
    grads = [p.grad for p in weights if p.grad is not None]
    fine = bool(grads) and all(torch.isfinite(grad).all() for grad in grads)
    return works() if fine else wrong("no finite second gradient")


def case(row: int, name: str, run: Callable[..., Verdict], *arguments: Any, **more: Any) -> Case:
    return Case(row, name, functools.partial(run, *arguments) if arguments else run, **more)


CASES = [
    case(45, "-1", refused, torch.tensor([[0, -1, 2]])),
    case(45, "50265, one beyond", refused, torch.tensor([[0, 50265, 2]])),
    case(45, "60000", refused, torch.tensor([[0, 60000, 2]])),
    case(46, "float", refused, torch.tensor([[0.0, 5.0, 2.0]])),
    case(46, "bool", refused, torch.tensor([[True, False]])),
    case(46, "3-d", refused, torch.zeros(1, 2, 3, dtype=torch.long)),
    case(46, "0-d", refused, torch.tensor(5)),
    case(46, "list", as_tensor, [SHORT]),
    case(46, "int32", as_tensor, torch.tensor([SHORT], dtype=torch.int32)),
    case(47, "(0, 5)", empty_batch),
    case(48, "(0,)", refused, torch.zeros(0, dtype=torch.long)),
    case(48, "(1, 0)", refused, torch.zeros(1, 0, dtype=torch.long)),
    case(49, "one of two", all_padding),
    case(50, "4 of 8", padded),
    *(
        case(55, str(d), aligned, d, engines=frozenset({STOCK, OURS}))
        for d in (torch.float16, torch.bfloat16)
    ),
    case(56, "autocast", autocast),
    case(56, "inference_mode", inference),
    case(56, "frozen", frozen),
    case(56, "double backward", twice),
]
