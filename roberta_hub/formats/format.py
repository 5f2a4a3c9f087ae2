"""The record of a checkpoint format: how its folders are detected, read and written.

There are three: `fairseq.FAIRSEQ`, `huggingface.HUGGINGFACE` and `ours.OURS`. A `CheckpointSource`
carries its format; other modules call it without knowing which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from roberta_hub.checkpoint.checkpoint import Checkpoint
from roberta_hub.folder import Folder
from roberta_hub.formats.tokenizers import TokenizerParts, TokenizerRequest
from roberta_hub.text.tokenizer import Tokenizer

WEIGHTS_BESIDE_CONFIG = (".safetensors", ".bin")
"""Suffixes of weight files that need a config.json in the same folder."""


@dataclass(frozen=True, kw_only=True)
class CheckpointSource:
    """A folder of a known format, and the files to read from it."""

    format: Format
    folder: Folder
    """The folder of configuration and vocabulary."""
    file: Path | None = None
    """The weights file that the caller named; None: the folder's own."""
    sentences: Folder | None = None
    """The folder with sentence-transformers' settings; None: there is none."""
    adapter: bool | None = None
    """What the caller says of a LoRA adapter: merge it, leave it out, or nothing."""


class Reader(Protocol):
    """Reads configuration, weights and labels."""

    def __call__(
        self,
        source: CheckpointSource,
        overrides: Mapping[str, object],
        dtype: torch.dtype | None,
        *,
        converted: bool,
    ) -> Checkpoint:
        """Read a checkpoint."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format in which a folder stores a model."""

    name: str
    """Name in `save(format=...)`."""
    detect: Callable[[Folder, Path | None], CheckpointSource | None]
    """(folder, the caller's weights file) -> source, or None for a folder of another format.
    Looks at file names and config.json only; `read` finds out whether the weights are valid."""
    read: Reader
    read_tokenizer: Callable[[CheckpointSource, Checkpoint, TokenizerRequest], TokenizerParts]
    """Reads the tokenizer, and adds to the checkpoint what only a vocabulary knows."""
    write: Callable[[Checkpoint, Tokenizer, Path, str | None], None]
    """Writes a model into a folder, with the head of that name if the format stores one."""
    passing: tuple[str, ...]
    """Optional files; those of an earlier save are removed."""


def folder_of(file: Path | None, folder: Folder) -> Folder:
    """Folder of a weights file, which may be below the given folder."""
    return folder if file is None or file.parent == folder.path else Folder(file.parent)
