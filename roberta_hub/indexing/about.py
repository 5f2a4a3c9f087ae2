"""What an index says of its vectors: the model, the prompts, the precision; what may be added."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError

if TYPE_CHECKING:
    from roberta_hub.scale.models import Optimize

ABOUT_KEY = b"roberta_hub"
"""Key of the record in the metadata of the table's schema."""
DIGITS = 12
"""Hex digits of a model's digest in messages."""
_WORDS = {
    "prompt": "the prompt of its texts",
    "query_prompt": "the prompt of queries",
    "pooling": "the pooling",
    "dtype": "the dtype of its vectors",
    "optimize": "how its model computes",
    "width": "the width of its vectors",
    "text": "the column with the texts",
    "key": "the key",
}
"""What messages call the fields that another call may say otherwise."""


@dataclass(frozen=True)
class About:
    """What every vector of an index has in common. It is written once, with the first rows."""

    model: str
    """Name or path, as it was given."""
    commit: str | None
    """Of a model at Hugging Face."""
    digest: str
    """Of weights, vocabulary and settings; see `LoadedModel.digest`."""
    prompt: str
    """Text before each text of the index."""
    query_prompt: str
    """Text before each query."""
    pooling: tuple[str, ...]
    similarity: str
    dtype: str
    optimize: Optimize | None
    """How the model computes on a CPU; see `scale.Verb`."""
    truncate_dim: int | None
    """How many numbers of each vector are kept; None: all."""
    width: int
    text: str
    """Column with the texts."""
    key: str | None
    """Column whose values name the rows; None: rows are only added."""
    version: str
    """Of roberta_hub, which wrote the first rows."""

    def named(self) -> str:
        """Name the model for messages, so that two of one name differ."""
        commit = f" at commit {self.commit[:DIGITS]}" if self.commit else ""
        return f"{self.model}{commit} (digest {self.digest[:DIGITS]})"

    def metadata(self) -> dict[bytes, bytes]:
        """Write it as metadata of a schema."""
        return {ABOUT_KEY: json.dumps(asdict(self)).encode()}

    @classmethod
    def read(cls, metadata: Mapping[bytes, bytes] | None, where: str) -> About:
        """Read what a table says of its vectors."""
        try:
            found = json.loads((metadata or {})[ABOUT_KEY])
            known = {field.name: found[field.name] for field in fields(cls)}
            return cls(**{**known, "pooling": tuple(known["pooling"])})
        except (KeyError, ValueError, TypeError):
            raise InputError(
                f"{where} does not say which model its vectors are of, so nothing can be compared "
                "with them; `roberta-hub index` writes tables that do"
            ) from None

    def check_model(self, other: About, where: str, what: str) -> None:
        """Refuse vectors of another model."""
        if self.digest != other.digest:
            raise InputError(
                f"{where} has vectors of {self.named()}, and {what} is by {other.named()}; vectors "
                "of two models cannot be compared. Take the model of the index, or make another"
            )

    def check_same(self, other: About, where: str) -> None:
        """Refuse rows whose vectors would not be comparable, or not be found, beside these."""
        self.check_model(other, where, "what is added")
        for name, what in _WORDS.items():
            mine, its = getattr(self, name), getattr(other, name)
            if mine != its:
                raise InputError(
                    f"{where}: {what} is {_shown(mine)}, and would be {_shown(its)} for the rows "
                    "to add; say the same, or make another index"
                )


def _shown(value: Any) -> str:
    return "none" if value in (None, "") else short_repr(value)
