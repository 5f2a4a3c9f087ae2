"""Cache of models; the folder of a model appears atomically.

Work happens in a private staging folder, `.incomplete-*`, inside the cache; one rename publishes
it. A folder without a matching manifest is ignored, so a crash at any time leaves nothing that
looks like a model. The lock only saves bandwidth: without it several processes do the same work,
and the first to finish wins.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import torch.hub

from roberta_hub.errors import RobertaHubError
from roberta_hub.files import leftovers, old_name, publish_folder, remove_leftovers, staging

CHECKPOINT_FILE = "model.pt"
"""Checkpoint file of the published archives."""
DICTIONARY_FILES = ("dict.txt", "input0/dict.txt", "label/dict.txt")
"""The vocabulary, by either of fairseq's names, and the class names."""
TOKENIZER_FILES = ("sentencepiece.bpe.model", "vocab.json", "merges.txt")
"""Tokenizer files of XLM-R, CamemBERT and GottBERT; other files of an archive are not
unpacked."""
CONFIG_FILE, WEIGHT_FILES = "config.json", ("model.safetensors", "pytorch_model.bin")
"""Configuration and weights of Hugging Face's format."""
MANIFEST_FILE = "manifest.json"
"""Written last into a model's folder: sizes and digests of its files."""
LOCK_SECONDS = 3600.0
"""Seconds to wait for the lock; then the work is done without it."""
FULL_DISK_ERRORS = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
"""errno of a write without room: disk full, file too large, quota exceeded."""
FileTable = dict[str, dict[str, "int | str"]]
"""Size and sha256 of each file by its name in the model's folder."""


def cache_root() -> Path:
    """Folder of our models; TORCH_HOME and `torch.hub.set_dir` move it."""
    return Path(torch.hub.get_dir()) / "checkpoints" / "roberta_hub"


def fairseq_cache() -> Path:
    """Folder where fairseq itself unpacks models (`fairseq/file_utils.py`)."""
    torch_home = os.environ.get("TORCH_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or "~/.cache", "torch"
    )
    folder = os.environ.get("PYTORCH_FAIRSEQ_CACHE") or os.path.join(torch_home, "pytorch_fairseq")
    return Path(folder).expanduser()


# ---- what a model is ----


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The folder's manifest if every file has the recorded size, else None."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST_FILE).read_text("utf-8"))
        files = manifest["files"]
        sizes = [(folder / name).stat().st_size == files[name]["size"] for name in files]
        return manifest if all(sizes) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def is_complete(folder: Path, checkpoint_file: str = CHECKPOINT_FILE) -> bool:
    """Whether the folder has a complete model: every file with the size in the manifest."""
    manifest = read_manifest(folder)
    return manifest is not None and is_model(manifest["files"], checkpoint_file)


def is_model(files: Container[str], checkpoint_file: str = CHECKPOINT_FILE) -> bool:
    """Whether these files suffice to load a model.

    That is a checkpoint and a vocabulary, or a configuration and weights.
    """
    ours = checkpoint_file in files and any(name in files for name in DICTIONARY_FILES[:2])
    return ours or (CONFIG_FILE in files and any(name in files for name in WEIGHT_FILES))


# ---- a stage to work in ----


@contextlib.contextmanager
def staging_folder(target: Path, error_class: type[RobertaHubError]) -> Iterator[Path]:
    """Lock `target`, and provide a private folder in its parent, removed at the end."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock(_lock_of(target)), staging(target, locked=True) as work:
            yield work
    except RobertaHubError:
        raise
    except OSError as error:
        raise error_class(
            f"cannot write {target} ({error.strerror or error}). It is not complete in the cache; "
            "set TORCH_HOME to a folder that can be written and has room"
        ) from error


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold a file lock; continue without it where locking is not possible."""
    try:
        from filelock import FileLock
    except ImportError:  # torch.hub's users may lack it
        yield
        return
    file_lock = FileLock(path)
    with contextlib.suppress(OSError):  # a Timeout among them
        file_lock.acquire(timeout=LOCK_SECONDS)
    try:
        yield
    finally:
        file_lock.release()


def _lock_of(target: Path) -> Path:
    return target.parent / f".{target.name}.lock"


def remove_stale(target: Path) -> None:
    """Remove leftovers of killed processes for `target`, unless it is locked."""
    if not leftovers(target):
        return
    with contextlib.suppress(OSError, ImportError):
        from filelock import FileLock

        with FileLock(_lock_of(target), timeout=0):
            remove_leftovers(target, locked=True)


# ---- publishing it ----


def publish(
    work: Path,
    target: Path,
    *,
    source: str,
    archive_sha256: str | None,
    files: FileTable,
    archive_size: int | None = None,
    replace: bool = True,
) -> None:
    """Write the manifest, then replace `target` by `work`."""
    manifest = {
        "source": source,
        "archive_sha256": archive_sha256,
        "archive_size": archive_size,
        "files": files,
    }
    (work / MANIFEST_FILE).write_text(json.dumps(manifest, indent=2), encoding="utf-8")

    def same() -> bool:
        there = read_manifest(target)
        return not replace and there is not None and there["files"] == files

    publish_folder(work, target, old_name(target), keep=same)


# ---- room ----


def require_room(folder: Path, needed: int) -> None:
    """Raise OSError (ENOSPC) if the disk has too little room."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"{needed:,} bytes needed, {free:,} bytes free")


@contextlib.contextmanager
def check_room(folder: Path, needed: int | None) -> Iterator[None]:
    """Check for room first.

    If the disk fills up nevertheless, the error has the needed and the free bytes.
    """
    require_room(folder, needed or 0)
    try:
        yield
    except OSError as error:
        if error.errno not in FULL_DISK_ERRORS:
            raise
        want = "an unknown number of" if needed is None else format(needed, ",")
        free = shutil.disk_usage(folder).free
        reason = f"{error.strerror}: {want} bytes needed, {free:,} bytes free"
        raise OSError(error.errno, reason) from error
