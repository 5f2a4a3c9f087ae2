"""Keeps models in a cache, where the folder of a model appears at once and whole.

All work happens in a private stage, `.incomplete-*`, inside the cache; one rename publishes it. A
folder without a fitting manifest does not count, so a crash at any moment leaves nothing that could
be mistaken for a model. The lock only saves bandwidth: on file systems where it does nothing,
several processes do the same work and the first to finish wins.
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
"""What the published archives call the checkpoint."""
DICTIONARY_FILES = ("dict.txt", "input0/dict.txt", "label/dict.txt")
"""The vocabulary, by either of fairseq's names, and the class names."""
TOKENIZER_FILES = ("sentencepiece.bpe.model", "vocab.json", "merges.txt")
"""What cuts texts for XLM-R, CamemBERT and GottBERT; whatever else lies in an archive stays
there."""
CONFIG_FILE, WEIGHT_FILES = "config.json", ("model.safetensors", "pytorch_model.bin")
"""The other kind of model that may lie in a folder: its configuration, and its weights in either
form."""
MANIFEST_FILE = "manifest.json"
"""Written last into a model's folder: sizes and digests of its files."""
LOCK_SECONDS = 3600.0
"""Seconds to wait for a process that does the same work; then it is done a second time."""
FULL_DISK_ERRORS = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
"""What a write fails with when there is no room: on the disk, for a file so large, for this
user."""
FileTable = dict[str, dict[str, "int | str"]]
"""Size and sha256 of each file by its name in the model's folder."""


def cache_root() -> Path:
    """Return the folder of our models; TORCH_HOME and `torch.hub.set_dir` move it."""
    return Path(torch.hub.get_dir()) / "checkpoints" / "roberta_hub"


def fairseq_cache() -> Path:
    """Return the folder where fairseq itself unpacks models (`fairseq/file_utils.py`)."""
    torch_home = os.environ.get("TORCH_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or "~/.cache", "torch"
    )
    folder = os.environ.get("PYTORCH_FAIRSEQ_CACHE") or os.path.join(torch_home, "pytorch_fairseq")
    return Path(folder).expanduser()


# ---- what a model is ----


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the folder's manifest if every file has the size written there, None otherwise."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST_FILE).read_text("utf-8"))
        files = manifest["files"]
        sizes = [(folder / name).stat().st_size == files[name]["size"] for name in files]
        return manifest if all(sizes) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def is_complete(folder: Path, checkpoint_file: str = CHECKPOINT_FILE) -> bool:
    """Tell whether the folder holds a whole model by its manifest.

    Every file must have the size that the manifest names.
    """
    manifest = read_manifest(folder)
    return manifest is not None and is_model(manifest["files"], checkpoint_file)


def is_model(files: Container[str], checkpoint_file: str = CHECKPOINT_FILE) -> bool:
    """Tell whether these files are enough to load a model.

    Enough is a checkpoint and a vocabulary, or a configuration and weights.
    """
    ours = checkpoint_file in files and any(name in files for name in DICTIONARY_FILES[:2])
    return ours or (CONFIG_FILE in files and any(name in files for name in WEIGHT_FILES))


# ---- a stage to work in ----


@contextlib.contextmanager
def staging_folder(target: Path, error_class: type[RobertaHubError]) -> Iterator[Path]:
    """Wait until nobody else works on `target`, and lend a private folder beside it.

    The folder is removed at the end.
    """
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
    """Hold a lock while others wait, where that is possible; go on without it where it is not."""
    try:
        from filelock import FileLock
    except ImportError:  # torch.hub's users may lack it
        yield
        return
    lock = FileLock(path)
    with contextlib.suppress(OSError):  # a Timeout among them
        lock.acquire(timeout=LOCK_SECONDS)
    try:
        yield
    finally:
        lock.release()


def _lock_of(target: Path) -> Path:
    return target.parent / f".{target.name}.lock"


def remove_stale(target: Path) -> None:
    """Remove what killed processes left of `target`, unless somebody is at work there.

    Usually nothing is there.
    """
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
    """Write the manifest, then put `work` in the place of `target`.

    Args:
        work: the stage, or a folder in it.
        target: the model's folder, which may exist.
        source: where the files come from.
        archive_sha256: of the archive they were in, None: they were in none.
        files: size and digest of each.
        archive_size: bytes of that archive.
        replace: False leaves the same files alone if another process was faster, so that nobody who
            reads them is disturbed.
    """
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
    """Raise the error of a full disk before filling it."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"{needed:,} bytes needed, {free:,} bytes free")


@contextlib.contextmanager
def check_room(folder: Path, needed: int | None) -> Iterator[None]:
    """Refuse what does not fit before it is begun.

    If the disk fills up all the same, the error names the needed and the free bytes.
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
