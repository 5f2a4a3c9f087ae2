"""Lists the families that can be read and written, and finds the one of a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.checkpoint.formats.names.roberta import ROBERTA
from roberta_hub.checkpoint.formats.names.table import NameTable
from roberta_hub.errors import CheckpointError

FAMILIES = {table.model_type: table for table in (ROBERTA,)}
"""Every family's table by its `model_type`. Another family is another table here."""


def family_of(hf: Mapping[str, Any], source: str) -> NameTable:
    """Find the table of the family that a config.json names.

    Args:
        hf: the content of config.json.
        source: for messages.

    Raises:
        CheckpointError: it names none, or one without a table; the message lists the known ones.

    Example:
        >>> family_of({"model_type": "roberta"}, "a directory").title
        'RoBERTa'
    """
    kind = hf.get("model_type")
    table = FAMILIES.get(kind) if isinstance(kind, str) else None
    if table is None:
        known = ", ".join(map(repr, FAMILIES))
        raise CheckpointError(f"{source}: model_type is {brief(kind)}, this reads {known}")
    return table
