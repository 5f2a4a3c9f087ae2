"""Columns and format of vectors."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from roberta_hub.errors import RobertaHubError
from roberta_hub.verbs.question import (
    AnswerFormat,
    Cells,
    Columns,
    Parts,
    Record,
    Settings,
)
from roberta_hub.verbs.unanswered import answer_in_parts

if TYPE_CHECKING:
    from torch import Tensor

    from roberta_hub.inference.verb_model import VerbModel


SAMPLE_TEXTS = 1024
"""Texts whose vectors have the ranges of int8 vectors, where none are given."""


def sampled_ranges(embed: Callable[[list[Any]], Tensor], texts: list[Any]) -> list[list[float]]:
    """Find the ranges of a sample's vectors; texts that cannot be embedded are left out."""
    import torch

    from roberta_hub.inference.precision import find_ranges

    vectors = [embed(["text"])[:0]]  # the width, also without texts; and an error of the model
    for _, found in answer_in_parts(embed, texts, lambda error: True):
        if not isinstance(found, RobertaHubError):
            vectors.append(found)
    ranges: list[list[float]] = find_ranges(torch.cat(vectors)).tolist()
    return ranges


def vector_columns(model: VerbModel, texts: Sequence[Any], found: Tensor) -> Columns:
    """Write the vectors of texts, (n, C)."""
    return {"vector": found}


def vector_format(settings: Settings) -> AnswerFormat:
    """Draw the width of a vector, and its first numbers."""
    return AnswerFormat(
        Parts(),
        sample={"vector": array("f")},
        titles=("width", "begins with"),
        line=_summary,
        vectors=settings.get("dtype") or "float32",
        ranges=settings.get("ranges"),
    )


def _summary(record: Record) -> Cells:
    vector = record["vector"]
    form = "+.2f" if vector.typecode == "f" else "+d"
    return len(vector), " ".join(format(number, form) for number in vector[:4])
