"""Compares the two texts of each row by their vectors."""

from __future__ import annotations

from collections.abc import Sequence

from roberta_hub.inference.embed import embed, similarities
from roberta_hub.inference.verb_model import VerbModel
from roberta_hub.settings import SentenceSettings

PAIRS_AT_ONCE = 64
"""Pairs per block; a block of n computes n² cosines and keeps the diagonal."""


def similarity(model: VerbModel, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Compare the first text of each row with its second. See `RobertaHubInterface.similarity`."""
    kind = (model.sentence or SentenceSettings()).similarity
    first = embed(model, [a for a, _ in pairs])  # (n, C)
    second = embed(model, [b for _, b in pairs])  # (n, C)
    found: list[float] = []
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        block = slice(start, start + PAIRS_AT_ONCE)
        found += similarities(first[block], second[block], kind).diagonal().tolist()
    return found
