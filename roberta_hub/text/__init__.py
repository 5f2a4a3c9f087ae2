"""Text to ids and back; no weights, and no files but the vocabulary's."""

import warnings
from typing import Any

from roberta_hub.text.alignment import align
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import Dictionary
from roberta_hub.text.layout import SequenceLayout
from roberta_hub.text.pieces import SubwordTokenizer
from roberta_hub.text.task import Task
from roberta_hub.text.tokenizer import Tokenizer

__all__ = [
    "GPT2BPE",
    "Dictionary",
    "SequenceLayout",
    "SubwordTokenizer",
    "Task",
    "Tokenizer",
    "align",
]

_RENAMED = {"Engine": "SubwordTokenizer", "Layout": "SequenceLayout"}
"""Names of earlier versions and the names that replaced them."""


def __getattr__(name: str) -> Any:
    """Return a class by its earlier name, with a DeprecationWarning."""
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"roberta_hub.text.{name} is now called {_RENAMED[name]}", DeprecationWarning, stacklevel=2
    )
    return globals()[_RENAMED[name]]
