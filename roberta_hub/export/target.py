"""Checks the target folder of an export: no model in it, or an earlier export of ours."""

from __future__ import annotations

import os
from pathlib import Path

from roberta_hub.errors import CheckpointError
from roberta_hub.files import check_regular, read_note
from roberta_hub.formats.huggingface import HUGGINGFACE
from roberta_hub.formats.saving import EXPORTED, EXPORTS

_WEIGHT_ENDINGS = (
    ".safetensors",
    ".safetensors.index.json",
    ".bin",
    ".bin.index.json",
    ".pt",
    ".pt2",
    ".onnx",
    ".onnx.data",
    ".onnx_data",
    ".h5",
    ".msgpack",
    ".gguf",
)
"""Endings of weight files, of any library."""


def earlier_files(format: str) -> tuple[str, ...]:
    """Files that an export may write next to config.json; those of an earlier one are removed.

    Example:
        >>> "modules.json" in earlier_files("torch"), "model.onnx" in earlier_files("torch")
        (True, False)
    """
    return (*EXPORTS[format], *HUGGINGFACE.passing)


def check_vacant(directory: Path, format: str) -> None:
    """Refuse a directory with a model that is not an earlier export of ours."""
    if os.path.isfile(directory):
        raise CheckpointError(f"{str(directory)[:300]} is a file; choose a directory")
    if not os.path.lexists(directory):
        return
    ours = _is_ours(directory)
    own = EXPORTS[format] if ours else ()
    found = [
        n for n in os.listdir(directory) if n.lower().endswith(_WEIGHT_ENDINGS) and n not in own
    ]
    if not ours:
        others = ("config.json", *HUGGINGFACE.passing)
        found += [name for name in others if os.path.lexists(directory / name)]
    if found:
        more = f", ... ({len(found)} in all)" if len(found) > 8 else ""
        listed = ", ".join(name[:100] for name in sorted(found)[:8]) + more
        raise CheckpointError(
            f"{directory} holds files of another model ({listed}), which an export as {format!r} "
            "would not replace but mix with; choose another directory"
        )


def _is_ours(directory: Path) -> bool:
    path = directory / "config.json"
    check_regular(path)
    return read_note(path).items() >= EXPORTED.items()
