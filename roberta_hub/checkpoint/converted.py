"""Keeps a safetensors copy of every pickle in our cache, and maps it from the next load on.

    user's file ─► signature ─► known? ─► copy, mapped
                       └─► digest ─► read the pickle ─► write the copy ─► compare ─► rename

A copy is named after the sha256 of its file and holds the same numbers in the same dtype. A note
remembers that digest for a path, size, times and inode, so that 1.4 GB are not read for it at each
load. Nothing is written beside the user's file. Where the cache cannot be written, loading goes on
without a copy.
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
"""Version of the neutral form; a higher one makes all older copies unknown."""
SETTLED_SECONDS = 2.0
"""Seconds after a file's last change before its times are trusted: a second change in the same
tick of the clock would not show."""


@dataclass
class RawCheckpoint:
    """What a file holds, under today's names, before overrides and a dtype are applied."""

    weights: dict[str, Tensor]
    about: dict[str, Any] = field(default_factory=dict)
    """What the file says about its model, as plain JSON values."""
    origin: TensorOrigin = "memory"
    finite: bool = False
    """Whether the weights are known to hold neither NaN nor infinity."""


def copies() -> Path:
    """Return the folder of all copies, `cache_root()/twins`."""
    return cache_root() / "twins"


def through_copy(path: Path, kind: str, read: Callable[[Path], RawCheckpoint]) -> RawCheckpoint:
    """Read a file from its copy; where there is none yet, read the file itself and make one.

    Args:
        path: the user's file.
        kind: what `read` makes of it; part of the copy's name.
        read: reads the file itself. Where it raises, that error passes and no copy is made.
    """
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
        return read(path)  # whose message says what is wrong
    if digest is not None:
        _check_manifest(path, digest)
        copy = copies() / f"{digest}-{kind}-{COPY_VERSION}.safetensors"
    assert copy is not None
    remove_stale(copy)
    found = _existing_copy(copy)
    if found is None:
        neutral = read(path)
        if not all(map(is_finite, neutral.weights.values())):
            return neutral  # the caller refuses it, or wants it so
        neutral.finite = True
        found = _make_copy(copy, neutral, path)
    with contextlib.suppress(OSError):
        if (
            _signature(path) != before
        ):  # another file by now; what was hashed may not be what was read
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
    except CheckpointError:  # cut short or tampered with: it is made anew
        with contextlib.suppress(OSError):
            copy.unlink(missing_ok=True)
        return None


def read_copy(copy: Path) -> RawCheckpoint:
    """Map the content of a copy.

    Raises:
        CheckpointError: damaged, or not written by this package.
    """
    weights, metadata = read_safetensors_and_metadata(copy)
    try:
        about, shared = json.loads(metadata["about"]), json.loads(metadata["shared"])
        weights |= {name: weights[other] for name, other in shared.items()}
        return RawCheckpoint(weights, dict(about), "our file", finite=True)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{copy} is no copy that this package wrote ({error})") from None


def _make_copy(copy: Path, neutral: RawCheckpoint, source: Path) -> RawCheckpoint:
    """Write the copy and return its content, or `neutral` where the cache takes no copy."""
    try:
        with staging_folder(copy, CheckpointError) as work:
            if not copy.exists():  # else another process made it while this one waited
                _forget_lost_copies()
                with publishing(copy, work / copy.name) as stage:
                    write_copy(stage, neutral, source)
            return read_copy(copy)
    except (
        OSError,
        RobertaHubError,
    ):  # full, read-only, another user's: the model was read, that is enough
        return neutral


def write_copy(path: Path, neutral: RawCheckpoint, source: Path) -> None:
    """Write a copy and compare it with its source, tensor by tensor."""
    first: dict[tuple[object, ...], str] = {}
    shared: dict[str, str] = {}
    for name, tensor in neutral.weights.items():
        identity = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() and first.setdefault(identity, name) != name:
            shared[name] = first[identity]
    single = {name: tensor for name, tensor in neutral.weights.items() if name not in shared}
    require_room(path.parent, sum(tensor.nbytes for tensor in single.values()))
    metadata = {
        "about": json.dumps(neutral.about),
        "shared": json.dumps(shared),
        "source": str(source).encode("unicode_escape").decode(),
    }
    write_safetensors(path, single, metadata)
    copy = read_copy(path).weights
    for name, tensor in neutral.weights.items():
        if not torch.equal(copy[name], tensor):
            raise CheckpointError(f"{path}: {name} differs from what was written")
        give_back_pages(copy[name])
        if neutral.origin == "file":
            give_back_pages(tensor)


# ---- which file has which copy ----


def _signature(path: Path) -> list[int]:
    """Return numbers that change with a file's content; a change time cannot be set back."""
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
    # A process that was killed while it wrote this note left these. One that is alive fails to
    # write its own, and finds this one.
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
        old = time.time() - copy.stat().st_mtime > 60  # a younger one may get its note this instant
        if copy.name not in wanted and old:
            copy.unlink(missing_ok=True)
            (copies() / f".{copy.name}.lock").unlink(missing_ok=True)
    for stage in filter(abandoned, copies().glob(".incomplete-*")):
        shutil.rmtree(stage, ignore_errors=True)
