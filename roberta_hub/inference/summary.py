"""Summary of a model, as `print(roberta)` and notebooks show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from torch import nn

from roberta_hub.inference.heads import Heads
from roberta_hub.inference.optimize import Optimization
from roberta_hub.model.heads import normalizes, pooling_of
from roberta_hub.model.known_head import heads_of
from roberta_hub.settings import SentenceSettings, ZeroShotSettings
from roberta_hub.show.report import Report, Section, facts
from roberta_hub.text.tokenizer import Tokenizer

_KINDS: tuple[Literal["classification", "token"], ...] = ("classification", "token")
"""Kinds of heads with labels."""


def model_facts(
    model: nn.Module,
    tokenizer: Tokenizer,
    heads: Heads,
    *,
    source: str,
    longest: int,
    training: bool,
    optimized: Optimization | None = None,
    sentence: SentenceSettings | None = None,
    zero_shot: ZeroShotSettings | None = None,
) -> dict[str, str]:
    """Collect the properties of a model, in words."""
    first = next(model.parameters())
    count = sum(parameter.numel() for parameter in model.parameters())
    shown = [
        f"{name} ({', '.join(heads.labels(name))}{_head_notes(name, head, heads)})"
        for kind in _KINDS
        for name, head in heads_of(model, kind).items()
    ]
    shown += [f"{name} (start, end)" for name in heads_of(model, "span")]
    lines = {
        "weights": source,
        "parameters": f"{count:,} ({first.dtype}, {first.device})".replace("torch.", ""),
        "vocabulary": f"{len(tokenizer.dictionary):,} symbols",
        "longest input": f"{longest} tokens",
        "heads": "; ".join(shown) or "none",
        "mode": "train: call eval() before predict and extract_features" if training else "eval",
    }
    if sentence is not None:
        taken = longest if sentence.max_length is None else int(model.max_positions())  # type: ignore[operator]
        lines["sentences"] = sentence.summary(taken)
    if zero_shot is not None:
        lines["zero_shot"] = zero_shot.summary()
    if optimized is not None:
        lines["optimized"] = str(optimized)
    return lines


def _head_notes(name: str, head: nn.Module, heads: Heads) -> str:
    """Notes on a head: multi-label or regression, mean pooling, normalization."""
    said = {"multi_label": "any of them", "regression": "a number"}
    kind = said.get(heads.kind(name) or "", "")
    pooling = "mean pooling" if pooling_of(head) == "mean" else ""
    unit = "normalized" if normalizes(head) else ""
    found = ", ".join(filter(None, (kind, pooling, unit)))
    return f"; {found}" if found else ""


def card(title: str, lines: Mapping[str, str]) -> Report:
    """Build what is shown of a model: one property per line."""
    return Report(title, [Section([title]), facts(list(lines.items()), "property", width=14)])
