"""Loads files of torch.save from outside: tensors and plain data come out, and no code runs.

Old fairseq checkpoints pickle a few foreign objects (meters, omegaconf nodes, numpy scalars). They
are read as inert stand-ins, so that neither those packages nor their code are needed. A class that
is not on the list is an error that names it; there is no fallback.
"""

from __future__ import annotations

import argparse
import itertools
import re
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub.checkpoint.tensors import check_plain
from roberta_hub.checkpoint.untrusted.opcodes import HostileError
from roberta_hub.checkpoint.untrusted.recognize import recognize, text_kind
from roberta_hub.checkpoint.untrusted.scan import check_sums, scan
from roberta_hub.errors import CheckpointError

_MAX_DEPTH = 50
_MAX_VALUES = 100_000
"""Values in a configuration; a Namespace of fairseq has some hundred. Shared parts count each
time."""


class _StandIn:
    """Accepts any state and does nothing; a subclass has the name of the class it replaces."""

    state: Any = None

    def __new__(cls, *args: Any, **kwargs: Any) -> _StandIn:
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        object.__setattr__(self, "state", state)


class _InertDict(dict):  # type: ignore[type-arg]
    """Replaces collections.defaultdict, without the default factory."""

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
_allowing = threading.RLock()
"""Held while torch reads. Its list of allowed classes is one for the whole process, and leaving
`safe_globals` takes ours off it: another thread's load would find them gone."""
CLASS_NAMES = frozenset(
    {
        *_FOREIGN,
        "argparse.Namespace",
        "collections.defaultdict",
        "collections.OrderedDict",
        "builtins.set",
    }
)


def is_mapped(path: Path) -> bool:
    """Whether `load_pickle` maps a file: zip files are mapped, the legacy format is copied."""
    return recognize(path) == "zip"


def load_pickle(path: Path) -> Any:
    """Read a file of torch.save, zip or legacy format, on the CPU; zip files are memory-mapped."""
    kind = recognize(path)
    _check_torch(path)
    try:
        scan(path, kind, CLASS_NAMES)
        if kind == "zip":
            check_sums(path)
        with _allowing, torch.serialization.safe_globals(_ALLOWED):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=kind == "zip")
    except HostileError as error:
        raise CheckpointError(
            f"{path}: refused, {error}; nothing in it was run. If you trust the author, ask for a "
            "file with weights only, or for safetensors"
        ) from None
    except Exception as error:  # whatever torch meets in hostile or damaged bytes
        # torch's own messages are neither chained nor quoted: they advise to switch its protection
        # off.
        if (found := text_kind(path)) is not None:
            raise CheckpointError(
                f"{path} is {found}, not a PyTorch checkpoint; was another file meant? Texts and "
                "tables go to the verbs of a loaded model, or to training"
            ) from None
        raise CheckpointError(
            f"{path}: not a readable PyTorch checkpoint, probably truncated or damaged "
            f"({_first_line(error)}); download or copy it again"
        ) from None


def _check_torch(path: Path) -> None:
    """Refuse a torch whose `weights_only` lets a file run code, or warn of one with a known hole.

    Code is kept out from torch 2.6 on; no hole is known from 2.10 on.
    """
    release = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2])
    if release < (2, 6):
        raise CheckpointError(
            f"{path}: not read with torch {torch.__version__}, in which a hostile file can run "
            "code whatever is done about it (CVE-2025-32434); pip install -U 'torch>=2.10'"
        )
    if release < (2, 10):
        warnings.warn(
            f"torch {torch.__version__} has CVE-2026-24747: a hostile .pt file can corrupt memory. "
            f"Read {path} only if you trust its author, and pip install -U 'torch>=2.10'",
            stacklevel=2,
        )


def _first_line(error: Exception) -> str:
    line = (str(error).splitlines() or [""])[0][:200]
    # torch's advice begins with "Weights only load failed. This file can still be loaded".
    advises = re.search("weights[ _-]only|safe_globals", line, re.IGNORECASE)
    return type(error).__name__ if advises or not line else f"{type(error).__name__}: {line}"


def tensors(value: Any, source: str, limit: int | None = None) -> dict[str, Tensor]:
    """Take tensors by name out of a loaded dict, none of which is larger than what is stored."""
    found: dict[str, Tensor] = {}
    if not isinstance(value, dict):
        raise CheckpointError(f"{source}: expected a dict of tensors, found {type(value).__name__}")
    # dict's own methods and new tensors: a hostile file may have put anything on its instances.
    for name, tensor in dict.items(value):
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            shown = name[:80] if isinstance(name, str) else f"a {type(name).__name__}"
            raise CheckpointError(
                f"{source}: the weights hold {shown!r}, a {type(tensor).__name__}, which is no "
                "named tensor; save the model's state_dict alone"
            )
        found[name] = Tensor.detach(tensor)
        check_plain(found[name], name, source)
    sizes = {
        (t.data_ptr(), t.shape, t.stride()): t.numel() * t.element_size() for t in found.values()
    }
    if limit is not None and sum(sizes.values()) > limit:
        raise CheckpointError(
            f"{source}: its tensors claim {sum(sizes.values()):,} bytes, more than the file's "
            f"{limit:,}; it is damaged or hostile, download it again from a source you trust"
        )
    return found


def plain(value: Any, source: str) -> Any:
    """Turn Namespaces and omegaconf trees into dicts and lists; interpolations stay text.

    Values that are not plain are replaced by the name of their type.
    """
    try:
        return _plain(value, 0, itertools.count())
    except _TooLargeError:
        raise CheckpointError(
            f"{source}: its configuration is nested deeper than {_MAX_DEPTH} or has more than "
            f"{_MAX_VALUES:,} values; no model needs that, so do not trust the file"
        ) from None


class _TooLargeError(Exception):
    pass


def _plain(value: Any, depth: int, seen: Iterator[int]) -> Any:
    if isinstance(value, str):  # what is shared in the file is not in str() of it
        next(itertools.islice(seen, len(value) // 100, None))
    if depth > _MAX_DEPTH or next(seen) > _MAX_VALUES:
        raise _TooLargeError
    if isinstance(value, argparse.Namespace):
        # __dict__, since a hostile file may have put anything in place of the methods.
        return _plain(object.__getattribute__(value, "__dict__"), depth + 1, seen)
    if isinstance(value, _StandIn):
        state = value.state if isinstance(value.state, dict) else {}
        return _plain(dict.get(state, "_content", dict.get(state, "_val")), depth + 1, seen)
    if isinstance(value, dict):
        items = dict.items(value)
        return {str(_plain(k, depth + 1, seen)): _plain(v, depth + 1, seen) for k, v in items}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1, seen) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return f"<{type(value).__name__}>"
