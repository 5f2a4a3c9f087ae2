"""Texts to ask about, and the plain way to run one."""

from __future__ import annotations

import torch
from torch import Tensor

from roberta_hub import RobertaHubInterface

NLI = ("contradiction", "neutral", "entailment")
TOPICS = ("art", "news", "sport")
"""Of a head that takes single texts and pairs: nobody knows what it was trained on."""
TEXTS: list[str | tuple[str, ...]] = [
    "Hello world!",
    "",
    "A longer sentence, with more words than the others have.",
    ("Hello", "world"),
    "Hello world!",
    "can’t 🙂 naïve </s> <mask>",
    ("three", "", "sentences"),
    " ",
    ("Hello", "world"),
]
LONG = " ".join(f"word {i} of many;" for i in range(20))
"""More than twice the 48 tokens of the small model."""


def ids_of(roberta: RobertaHubInterface, text: str | tuple[str, ...]) -> Tensor:
    return roberta.encode(*((text,) if isinstance(text, str) else text))


def states_of(roberta: RobertaHubInterface, ids: Tensor, layer: int = -1) -> Tensor:
    """Hidden states of one sequence, through the public forward: (T, C)."""
    with torch.no_grad():
        if layer == -1:
            return roberta.extract_features(ids)[0]
        return roberta.extract_features(ids, return_all_hiddens=True)[layer][0]


def log_probs_of(roberta: RobertaHubInterface, ids: Tensor) -> Tensor:
    """(T, V)"""
    with torch.no_grad():
        return roberta.model(ids.unsqueeze(0))[0][0].log_softmax(-1)
