"""Lists the families that can be read and written, and finds the one of a config.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from roberta_hub.arguments import brief
from roberta_hub.checkpoint.names.albert import ALBERT
from roberta_hub.checkpoint.names.bert import BERT
from roberta_hub.checkpoint.names.distilbert import DISTILBERT
from roberta_hub.checkpoint.names.electra import ELECTRA
from roberta_hub.checkpoint.names.roberta import ROBERTA
from roberta_hub.checkpoint.names.roberta_relatives import DATA2VEC_TEXT, ROBERTA_PRELAYERNORM
from roberta_hub.checkpoint.names.table import NameTable
from roberta_hub.checkpoint.names.xlm_roberta import (
    CAMEMBERT,
    XLM_ROBERTA,
    XLM_ROBERTA_XL,
)
from roberta_hub.errors import CheckpointError

FAMILIES = {
    table.model_type: table
    for table in (
        ROBERTA,
        DATA2VEC_TEXT,
        ROBERTA_PRELAYERNORM,
        XLM_ROBERTA,
        XLM_ROBERTA_XL,
        CAMEMBERT,
        BERT,
        ALBERT,
        ELECTRA,
        DISTILBERT,
    )
}
"""Every family's table by its `model_type`. Another family is another table here."""


def family_of(hf: Mapping[str, Any], source: str, keys: Iterable[str] = ()) -> NameTable:
    """Find the table of the family that a config.json names.

    Example:
        >>> family_of({"model_type": "roberta"}, "a directory").title
        'RoBERTa'
        >>> family_of({}, "a directory", ["bert.pooler.dense.weight"]).title
        'BERT'
    """
    kind = hf.get("model_type")
    if kind is None:
        kind = _kind_of(keys)
    table = FAMILIES.get(kind) if isinstance(kind, str) else None
    if table is None:
        known = ", ".join(map(repr, FAMILIES))
        raise CheckpointError(f"{source}: model_type is {brief(kind)}, this reads {known}")
    return table


def _kind_of(keys: Iterable[str]) -> str | None:
    """Return the one family whose prefix some names have; "roberta." is that of several."""
    prefixes = Counter(table.prefix for table in FAMILIES.values())
    begins = {f"{key.partition('.')[0]}." for key in keys}
    found = [
        kind
        for kind, table in FAMILIES.items()
        if prefixes[table.prefix] == 1 and table.prefix in begins
    ]
    return found[0] if len(found) == 1 else None
