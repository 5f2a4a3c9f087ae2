"""Caches a safetensors copy of every pickle, which later loads map into memory.

    user's file ─► signature ─► known? ─► copy, mapped
                       └─► digest ─► read the pickle ─► write the copy ─► compare ─► rename

A copy is named by the sha256 of its file and has the same values and dtypes. A note stores that
digest for a path, size, times and inode, so that the file is not hashed at each load. Nothing is
written to the user's folder. If the cache is not writable, loading continues without a copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub.checkpoint.fetch.archive import sha256_of
from roberta_hub.checkpoint.fetch.cache import (
    MANIFEST_FILE,
    cache_root,
    remove_stale,
    require_room,
    staging_folder,
)
from roberta_hub.checkpoint.safetensors import read_safetensors_and_metadata, write_safetensors
from roberta_hub.checkpoint.tensors import TensorOrigin, give_back_pages, is_finite
from roberta_hub.errors import CheckpointError, Remedy, RobertaHubError
from roberta_hub.files import abandoned, check_regular, publishing, read_note, write_json

COPY_VERSION = 1
"""Version of the copies' format; increasing it invalidates all older copies."""
SETTLED_SECONDS = 2.0
"""mtime is trusted only this many seconds after a change (same-tick edits are invisible)."""


@dataclass
class RawCheckpoint:
    """Content of a weights file under current names, before overrides and dtype."""

    weights: dict[str, Tensor]
    about: dict[str, Any] = field(default_factory=dict)
    """Metadata of the model, as plain JSON values."""
    origin: TensorOrigin = "memory"
    finite: bool = False
    """Whether the weights are known to contain neither NaN nor infinity."""


def copies() -> Path:
    """Folder of all copies, `cache_root()/twins`."""
    return cache_root() / "twins"


def through_copy(path: Path, kind: str, read: Callable[[Path], RawCheckpoint]) -> RawCheckpoint:
    """Read a file from its copy; without one, read the file and write a copy."""
    check_regular(path)  # before it is hashed: a pipe has no end
    if (
        find_spec("safetensors") is None
    ):  # torch.hub's users may lack it (`dependencies` in hubconf.py)
        return read(path)
    try:
        before = _signature(path)
        note = _note(path, kind)
        copy = _noted_copy(note, before)
        digest = None if copy else sha256_of(path)
    except OSError:
        return read(path)  # raises the error with a message
    if digest is not None:
        _check_manifest(path, digest)
        copy = copies() / f"{digest}-{kind}-{COPY_VERSION}.safetensors"
    assert copy is not None
    remove_stale(copy)
    found = _existing_copy(copy)
    if found is None:
        raw = read(path)
        if not all(map(is_finite, raw.weights.values())):
            return raw  # accepted or refused by the caller
        raw.finite = True
        found = _make_copy(copy, raw, path)
    with contextlib.suppress(OSError):
        if _signature(path) != before:  # changed meanwhile: the hash may not be of the content read
            return read(path)
        if found.origin == "our file":
            _write_note(note, path, before, copy)
    return found


def _check_manifest(path: Path, digest: str) -> None:
    """Refuse a file of our cache that has changed since it was downloaded."""
    about = read_note(path.with_name(MANIFEST_FILE)) if cache_root() in path.parents else {}
    try:
        expected = about["files"][path.name]["sha256"]
    except (LookupError, TypeError):
        return
    if digest != expected:
        raise CheckpointError(
            f"{path} has sha256 {digest}, and {expected} when it was downloaded: damaged on this "
            "disk, or changed",
            remedy=Remedy(
                f"delete {path.parent} and load again, or pass force_download=True",
                f"delete {path.parent} and load again",
            ),
        )


def _existing_copy(copy: Path) -> RawCheckpoint | None:
    if not copy.is_file():
        return None
    try:
        return read_copy(copy)
    except CheckpointError:  # truncated or modified: written again
        with contextlib.suppress(OSError):
            copy.unlink(missing_ok=True)
        return None


def read_copy(copy: Path) -> RawCheckpoint:
    """Map the content of a copy."""
    weights, metadata = read_safetensors_and_metadata(copy)
    try:
        about, shared = json.loads(metadata["about"]), json.loads(metadata["shared"])
        weights |= {name: weights[other] for name, other in shared.items()}
        return RawCheckpoint(weights, dict(about), "our file", finite=True)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{copy} is no copy that this package wrote ({error})") from None


def _make_copy(copy: Path, raw: RawCheckpoint, source: Path) -> RawCheckpoint:
    """Write the copy and return its content, or `raw` if the cache is not writable."""
    try:
        with staging_folder(copy, CheckpointError) as work:
            if not copy.exists():  # unless another process wrote it meanwhile
                _forget_lost_copies()
                with publishing(copy, work / copy.name) as stage:
                    write_copy(stage, raw, source)
            return read_copy(copy)
    except (
        OSError,
        RobertaHubError,
    ):  # the cache is full or read-only; the model is read
        return raw


def write_copy(path: Path, raw: RawCheckpoint, source: Path) -> None:
    """Write a copy and compare it with its source, tensor by tensor."""
    first: dict[tuple[object, ...], str] = {}
    shared: dict[str, str] = {}
    for name, tensor in raw.weights.items():
        identity = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() and first.setdefault(identity, name) != name:
            shared[name] = first[identity]
    single = {name: tensor for name, tensor in raw.weights.items() if name not in shared}
    require_room(path.parent, sum(tensor.nbytes for tensor in single.values()))
    metadata = {
        "about": json.dumps(raw.about),
        "shared": json.dumps(shared),
        "source": str(source).encode("unicode_escape").decode(),
    }
    write_safetensors(path, single, metadata)
    copy = read_copy(path).weights
    for name, tensor in raw.weights.items():
        if not torch.equal(copy[name], tensor):
            raise CheckpointError(f"{path}: {name} differs from what was written")
        give_back_pages(copy[name])
        if raw.origin == "file":
            give_back_pages(tensor)


# ---- which file has which copy ----


def _signature(path: Path) -> list[int]:
    """Numbers that change with a file's content; ctime cannot be set back."""
    stat = path.stat()
    return [stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def _note(path: Path, kind: str) -> Path:
    name = f"{os.path.realpath(path)}\0{kind}\0{COPY_VERSION}".encode("utf-8", "surrogateescape")
    return copies() / f"{hashlib.sha256(name).hexdigest()[:32]}.json"


def _noted_copy(note: Path, signature: list[int]) -> Path | None:
    known = read_note(note)
    if known.get("signature") != signature:
        return None
    return copies() / os.path.basename(str(known.get("twin")))


def _write_note(note: Path, path: Path, signature: list[int], copy: Path) -> None:
    if time.time() - max(signature[3:]) / 1e9 < SETTLED_SECONDS:
        return
    about = {"path": os.path.realpath(path), "signature": signature, "twin": copy.name}
    # Left by processes killed while writing this note.
    for half in note.parent.glob(f".{note.name}.*.tmp"):
        half.unlink(missing_ok=True)
    write_json(note, about)


def _forget_lost_copies() -> None:
    """Remove the notes of files that are gone or changed, then the copies that no note names.

    This happens before another copy is made: the cache does not grow with every checkpoint of a
    training run.
    """
    wanted: set[str] = set()
    for note in copies().glob("*.json"):
        known = read_note(note)
        try:
            current = _signature(Path(str(known.get("path")))) == known.get("signature")
        except (OSError, ValueError):
            current = False
        if current:
            wanted.add(str(known.get("twin")))
        else:
            note.unlink(missing_ok=True)
    for copy in copies().glob("*.safetensors"):
        old = time.time() - copy.stat().st_mtime > 60  # a younger one may be about to get its note
        if copy.name not in wanted and old:
            copy.unlink(missing_ok=True)
            (copies() / f".{copy.name}.lock").unlink(missing_ok=True)
    for stage in filter(abandoned, copies().glob(".incomplete-*")):
        shutil.rmtree(stage, ignore_errors=True)
