"""Says what a format is: how its folders are recognized, read and written.

There are three: `fairseq.FAIRSEQ`, `huggingface.HUGGINGFACE` and `ours.OURS`. Whoever holds a
`Source` asks its format and never which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from roberta_hub.checkpoint.checkpoint import Checkpoint
from roberta_hub.folder import Folder
from roberta_hub.formats.tokenizers import TokenizerParts, Wanted
from roberta_hub.text.tokenizer import Tokenizer

WEIGHTS_BESIDE_CONFIG = (".safetensors", ".bin")
"""Endings of weights that need a config.json beside them: they say nothing of their model."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is read of a folder."""

    format: Format
    folder: Folder
    """Where configuration and vocabulary lie."""
    file: Path | None = None
    """The file of weights that the caller named; None: what the folder holds."""
    sentences: Folder | None = None
    """The folder that says how sentence vectors are made; None: none says it."""


class Reader(Protocol):
    """Reads configuration, weights and labels."""

    def __call__(
        self,
        source: Source,
        overrides: Mapping[str, object],
        dtype: torch.dtype | None,
        *,
        converted: bool,
    ) -> Checkpoint:
        """Read a checkpoint.

        Args:
            source: of this format.
            overrides: fairseq's arguments, which replace those of the checkpoint.
            dtype: of the weights; None widens half precision to float32.
            converted: keep a safetensors copy of a pickle.
        """


@dataclass(frozen=True, kw_only=True)
class Format:
    """One way to keep a model in a folder."""

    name: str
    """What `save(format=...)` calls it."""
    detect: Callable[[Folder, Path | None], Source | None]
    """(folder, the caller's file of weights) -> what is read of it; None: it is of another format.
    Only names and config.json are looked at: whether the weights can be read, `read` finds out."""
    read: Reader
    read_tokenizer: Callable[[Source, Checkpoint, Wanted], TokenizerParts]
    """Reads what turns texts into ids; puts into the checkpoint what only a vocabulary knows."""
    write: Callable[[Checkpoint, Tokenizer, Path, str | None], None]
    """Writes a model, with the head of that name where the format holds one, into a folder."""
    passing: tuple[str, ...]
    """Files that not every model has: those of an earlier save are removed."""


def folder_of(file: Path | None, folder: Folder) -> Folder:
    """Return the folder that a file of weights lies in, which may be below the one that was given.

    Args:
        file: None: no file was named.
        folder: that was given.
    """
    return folder if file is None or file.parent == folder.path else Folder(file.parent)
