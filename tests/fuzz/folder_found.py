"""What became of a case: counts of what was equal, refused, documented; and what is different."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from roberta_hub.errors import RobertaHubError

TOLERANCE = 1e-4
"""Of numbers, relative to the largest of a tensor where that is above 1."""
PROBABILITY = 1e-4
"""Of probabilities, absolute."""


@dataclass
class Found:
    """Findings of one case."""

    equal: Counter[str] = field(default_factory=Counter)
    """By topic, how many comparisons."""
    refused: Counter[str] = field(default_factory=Counter)
    """By the reason, without the names and numbers in it."""
    documented: Counter[str] = field(default_factory=Counter)
    """Texts that a difference of docs/reference/differences.md is about, by its name."""
    peers: Counter[str] = field(default_factory=Counter)
    """What the peers do not read themselves."""
    different: list[str] = field(default_factory=list)

    def same(self, topic: str, ours: Any, theirs: Any, about: Any = None) -> None:
        """Compare exactly."""
        if ours == theirs:
            self.equal[topic] += 1
        else:
            self.different.append(f"{topic}: ours {ours!r}, theirs {theirs!r}, of {about!r}")

    def close(
        self,
        topic: str,
        ours: Tensor,
        theirs: Tensor,
        about: Any = None,
        tolerance: float = TOLERANCE,
    ) -> None:
        """Compare numbers."""
        if ours.shape != theirs.shape:
            self.different.append(
                f"{topic}: ours {tuple(ours.shape)}, theirs {tuple(theirs.shape)}, of {about!r}"
            )
            return
        ours, theirs = ours.detach().double(), theirs.detach().double()
        scale = max(1.0, float(theirs.abs().max())) if theirs.numel() else 1.0
        far = float((ours - theirs).abs().max()) if theirs.numel() else 0.0
        if far <= tolerance * scale and bool(torch.isfinite(ours).all()):
            self.equal[topic] += 1
        else:
            self.different.append(
                f"{topic}: off by {far:.3g} (numbers up to {scale:.3g}), of {about!r}: "
                f"ours {ours.flatten()[:4].tolist()}, theirs {theirs.flatten()[:4].tolist()}"
            )

    @contextmanager
    def asking(self, topic: str) -> Iterator[None]:
        """Count an error of ours as a refusal of what is asked."""
        try:
            yield
        except RobertaHubError as error:
            self.refused[f"{topic}: {reason(error)}"] += 1


def reason(error: RobertaHubError) -> str:
    """The sentence of an error without names, numbers and paths."""
    said = str(error)
    said = re.sub(r"/[^\s:;,]*/", "", said)
    said = re.sub(r"(?<!\w)(['\"]).*?\1(?!\w)", "X", said)
    said = re.sub(r"\d[\d,.e+-]*", "N", said)
    return said[:110]
