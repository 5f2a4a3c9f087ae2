"""torch.load for files from outside: only tensors and plain data come out, never code.

Old fairseq checkpoints pickle a few foreign objects (meters, omegaconf nodes, numpy scalars). They
are read as inert stand-ins, so that neither those packages nor their code are needed. A class that
is not on the list is an error that names it; there is no fallback.
"""

from __future__ import annotations

import argparse
import pickle
import re
from pathlib import Path
from typing import Any

import torch

from roberta_hub.errors import CheckpointError

_MAX_DEPTH = 50


class _StandIn:
    """Takes any state, does nothing. Subclasses carry the name of the class they stand for."""

    state: Any = None

    def __new__(cls, *args: Any, **kwargs: Any) -> _StandIn:
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        object.__setattr__(self, "state", state)


class _InertDict(dict):  # type: ignore[type-arg]
    """Stands for collections.defaultdict: a dict whose default factory is forgotten."""

    def __init__(self, *args: Any) -> None:
        super().__init__()


_FOREIGN = (
    *(f"fairseq.meters.{name}" for name in ("AverageMeter", "TimeMeter", "StopwatchMeter")),
    *(f"fairseq.logging.meters.{name}" for name in ("AverageMeter", "TimeMeter", "StopwatchMeter")),
    "omegaconf.dictconfig.DictConfig",
    "omegaconf.listconfig.ListConfig",
    "omegaconf.base.ContainerMetadata",
    "omegaconf.base.Metadata",
    *(f"omegaconf.nodes.{name}Node" for name in ("Any", "String", "Integer", "Float", "Boolean")),
    *(f"omegaconf.nodes.{name}Node" for name in ("Enum", "Bytes", "Path", "Value")),
    *(f"fairseq.dataclass.constants.{name}" for name in ("ChoiceEnum", "StrEnum")),
    "typing.Any",
    *(f"builtins.{name}" for name in ("dict", "list", "int", "float", "str", "bool", "tuple")),
    "numpy.dtype",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
    "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray._reconstruct",
    "numpy.ndarray",
    "_codecs.encode",
)
_ALLOWED: list[Any] = [
    argparse.Namespace,
    (_InertDict, "collections.defaultdict"),
    *((type(name.rsplit(".", 1)[1], (_StandIn,), {}), name) for name in _FOREIGN),
]


def is_mapped(path: Path) -> bool:
    """Whether `load_pickle` maps this file: zip files, not the legacy format of before 2020."""
    return _recognize(path) == "zip"


def load_pickle(path: Path) -> Any:
    """Read a file of torch.save, zip or legacy format, on the CPU; zip files are memory-mapped.

    Raises:
        CheckpointError: no such file, not a checkpoint, damaged, or a pickle that asks for code.
    """
    mapped = is_mapped(path)
    try:
        with torch.serialization.safe_globals(_ALLOWED):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        # Not chained: torch's message tells the reader to switch its protection off.
        raise CheckpointError(_refusal(path, str(error))) from None
    except Exception as error:  # whatever torch meets in hostile or damaged bytes
        raise CheckpointError(
            f"{path}: not a readable PyTorch checkpoint, probably truncated or damaged "
            f"({type(error).__name__}: {_first_line(error)}); download or copy it again"
        ) from None


def _recognize(path: Path) -> str:
    """Tell "zip" from "legacy"; files that are something else get an error that says what they are."""
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise CheckpointError(f"Model file not found: {path} {what}")
    try:
        with open(path, "rb") as file:
            head = file.read(512)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None
    start = head.lstrip().lower()
    if head.startswith(b"version https://git-lfs"):
        found = "a git-lfs pointer, not the file itself; run `git lfs pull`"
    elif start.startswith((b"<!doctype", b"<html", b"<?xml")):
        found = "a web page; the download was answered by a login or error page"
    elif head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ")):
        found = "a compressed archive; give its path to load_model, or unpack it first"
    elif not head.strip(b"\0"):
        found = f"empty: {path.stat().st_size} bytes, all zeros; the write was interrupted"
    else:
        return "zip" if head.startswith(b"PK") else "legacy"
    raise CheckpointError(f"{path} is {found}")


def _refusal(path: Path, message: str) -> str:
    name = re.search(r"GLOBAL ([\w.]+)|Unsupported (?:global|class|operand)[^\w]*([\w.]+)", message)
    if name is None:
        return f"{path}: the pickle was refused as damaged or unsafe; nothing in it was run"
    return (
        f"{path}: refused, its pickle asks for {name[1] or name[2]!r}, which is not weights; nothing in "
        "it was run. If you trust the author, ask for a file with weights only, or for safetensors"
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200]


def plain(value: Any, depth: int = 0) -> Any:
    """Namespaces and omegaconf trees as dicts and lists; interpolations stay the text they are."""
    if depth > _MAX_DEPTH:
        raise CheckpointError(f"checkpoint configuration nested deeper than {_MAX_DEPTH}")
    if isinstance(value, argparse.Namespace):
        # __dict__, since a hostile file may have put anything in place of the methods.
        return plain(object.__getattribute__(value, "__dict__"), depth + 1)
    if isinstance(value, _StandIn):
        state = value.state if isinstance(value.state, dict) else {}
        return plain(state.get("_content", state.get("_val")), depth + 1)
    if isinstance(value, dict):
        return {str(plain(k, depth + 1)): plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    return value
