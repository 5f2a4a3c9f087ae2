"""Every model that can be loaded by name: where its archive lies, and what the archive does not say about itself."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from roberta_hub.config import BASE, LARGE, RobertaConfig

BASE_URL = "https://dl.fbaipublicfiles.com/fairseq/models"
"""Where fairseq publishes. Its own code asks over plain http; the same files are served over https."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One published model, as the rest of the package needs to know it."""

    name: str
    """The canonical dotted name; also the name of its folder in the cache."""
    url: str
    """Of a `.tar.gz` that holds `model.pt` and `dict.txt`."""
    config: RobertaConfig
    """The shape of the network, known before a byte is downloaded (`pretrained=False`)."""
    heads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Classification head -> what its outputs mean, in order: fairseq's files carry numbers only."""
    task: str = "masked_lm"
    """fairseq's name of the task the model was trained on."""
    sha256: str | None = None
    """Published digest of the archive; None where the publisher gives none."""
    licence: str = "MIT"
    """Of the weights, which fairseq puts under the licence of its code."""


MODELS: tuple[Record, ...] = (
    Record(name="roberta.base", url=f"{BASE_URL}/roberta.base.tar.gz", config=BASE),
    Record(name="roberta.large", url=f"{BASE_URL}/roberta.large.tar.gz", config=LARGE),
    Record(
        name="roberta.large.mnli",
        url=f"{BASE_URL}/roberta.large.mnli.tar.gz",
        config=LARGE,
        heads={"mnli": ("contradiction", "neutral", "entailment")},
    ),
    Record(
        name="roberta.large.wsc",
        url=f"{BASE_URL}/roberta.large.wsc.tar.gz",
        config=LARGE,
        task="wsc",
    ),
)
"""The one table of names. A new published model is a new row."""


def available_models() -> list[str]:
    """Return every canonical name, in the order of the table.

    Example:
        >>> available_models()
        ['roberta.base', 'roberta.large', 'roberta.large.mnli', 'roberta.large.wsc']
    """
    return [record.name for record in MODELS]


def alias(name: str) -> str:
    """Return the form of a dotted name that is a Python identifier.

    Example:
        >>> alias("roberta.large.mnli")
        'roberta_large_mnli'
    """
    return name.replace(".", "_")


def find(name: str) -> Record | None:
    """Return the record of a dotted name or of its alias, None when there is no such model.

    Example:
        >>> find("roberta_large_mnli").name
        'roberta.large.mnli'
        >>> find("bert-base") is None
        True
    """
    return next((record for record in MODELS if name in (record.name, alias(record.name))), None)


def suggest(name: str) -> list[str]:
    """Return the canonical names that look most like `name`, nearest first: for "did you mean".

    Example:
        >>> suggest("roberta-large-mnli")[0]
        'roberta.large.mnli'
        >>> suggest("Roberta_Base")[0]
        'roberta.base'
        >>> suggest("gpt2")
        []
    """
    wanted = name.lower().replace("_", ".").replace("-", ".")
    return difflib.get_close_matches(wanted, available_models(), n=3, cutoff=0.7)
