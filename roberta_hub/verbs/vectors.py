"""Columns and format of vectors."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roberta_hub.verbs.question import (
    AnswerFormat,
    Cells,
    Columns,
    Parts,
    Record,
    Settings,
)

if TYPE_CHECKING:
    from torch import Tensor

    from roberta_hub.inference.verb_model import VerbModel


def vector_columns(model: VerbModel, texts: Sequence[Any], found: Tensor) -> Columns:
    """Write the vectors of texts, (n, C)."""
    return {"vector": found}


def vector_format(settings: Settings) -> AnswerFormat:
    """Draw the width of a vector, and its first numbers."""
    return AnswerFormat(
        Parts(), sample={"vector": array("f")}, titles=("width", "begins with"), line=_summary
    )


def _summary(record: Record) -> Cells:
    vector = record["vector"]
    return len(vector), " ".join(f"{number:+.2f}" for number in vector[:4])
