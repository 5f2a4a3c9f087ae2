"""Draws vectors, for the verbs that answer with them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roberta_hub.verbs.question import Cells, Columns, Form, Model, Parts, Record, Settings

if TYPE_CHECKING:
    from torch import Tensor


def vector_columns(model: Model, texts: Sequence[Any], found: Tensor) -> Columns:
    """Write the vectors of texts, (n, C)."""
    return {"vector": found}


def vector_form(settings: Settings) -> Form:
    """Draw the width of a vector, and its first numbers."""
    return Form(
        Parts(), sample={"vector": array("f")}, titles=("width", "begins with"), line=_summary
    )


def _summary(record: Record) -> Cells:
    vector = record["vector"]
    return len(vector), " ".join(f"{number:+.2f}" for number in vector[:4])
