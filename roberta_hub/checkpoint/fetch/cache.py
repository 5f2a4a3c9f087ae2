"""Keeps models in a cache, where the folder of a model appears at once and whole.

All work happens in a private stage, `.incomplete-*`, inside the cache; one rename publishes it. A
folder without a fitting manifest does not count, so a crash at any moment leaves nothing that could
be mistaken for a model. The lock only saves bandwidth: on file systems where it does nothing,
several processes do the same work and the first to finish wins.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import shutil
import time
import uuid
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import torch.hub

from roberta_hub.errors import RobertaHubError
from roberta_hub.files import flush, flush_path

MODEL = "model.pt"
"""What the published archives call the checkpoint."""
DICTIONARIES = ("dict.txt", "input0/dict.txt", "label/dict.txt")
"""The vocabulary, by either of fairseq's names, and the class names."""
ENGINES = ("sentencepiece.bpe.model", "vocab.json", "merges.txt")
"""What cuts texts for XLM-R, CamemBERT and GottBERT; whatever else lies in an archive stays
there."""
CONFIG, WEIGHTS = "config.json", ("model.safetensors", "pytorch_model.bin")
"""The other kind of model that may lie in a folder: its configuration, and its weights in either
form."""
MANIFEST = "manifest.json"
"""Written last into a model's folder: sizes and digests of its files."""
PATIENCE = 3600.0
"""Seconds to wait for a process that does the same work; then it is done a second time."""
STALE = 86400.0
"""Seconds without a change after which a stage from another machine counts as abandoned."""
FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
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
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        files = manifest["files"]
        sizes = [(folder / name).stat().st_size == files[name]["size"] for name in files]
        return manifest if all(sizes) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def is_complete(folder: Path, checkpoint_file: str = MODEL) -> bool:
    """Tell whether the folder holds a whole model by its manifest.

    Every file must have the size that the manifest names.
    """
    manifest = read_manifest(folder)
    return manifest is not None and is_model(manifest["files"], checkpoint_file)


def is_model(files: Container[str], checkpoint_file: str = MODEL) -> bool:
    """Tell whether these files are enough to load a model.

    Enough is a checkpoint and a vocabulary, or a configuration and weights.
    """
    ours = checkpoint_file in files and any(name in files for name in DICTIONARIES[:2])
    return ours or (CONFIG in files and any(name in files for name in WEIGHTS))


# ---- a stage to work in ----


@contextlib.contextmanager
def workplace(target: Path, error_class: type[RobertaHubError]) -> Iterator[Path]:
    """Wait until nobody else works on `target`, and lend a private folder beside it.

    The folder is removed at the end.
    """
    root = target.parent
    try:
        root.mkdir(parents=True, exist_ok=True)
        with turn(_lock_of(target)):
            _sweep(target)
            # Not tempfile.mkdtemp: its mode 0700 would survive the rename and lock other users out.
            work = root / f".incomplete-{target.name}~{_tag()}"
            work.mkdir()
            try:
                yield work
            finally:
                shutil.rmtree(work, ignore_errors=True)
    except RobertaHubError:
        raise
    except OSError as error:
        raise error_class(
            f"cannot write {target} ({error.strerror or error}). It is not complete in the cache; "
            "set TORCH_HOME to a folder that can be written and has room"
        ) from error


@contextlib.contextmanager
def turn(path: Path) -> Iterator[None]:
    """Hold a lock while others wait, where that is possible; go on without it where it is not."""
    try:
        from filelock import FileLock
    except ImportError:  # torch.hub's users may lack it
        yield
        return
    lock = FileLock(path)
    with contextlib.suppress(OSError):  # a Timeout among them
        lock.acquire(timeout=PATIENCE)
    try:
        yield
    finally:
        lock.release()


def _lock_of(target: Path) -> Path:
    return target.parent / f".{target.name}.lock"


def tidy(target: Path) -> None:
    """Remove what killed processes left of `target`, unless somebody is at work there.

    Usually nothing is there.
    """
    if not _leftovers(target, "incomplete") and not _leftovers(target, "old"):
        return
    with contextlib.suppress(OSError, ImportError):
        from filelock import FileLock

        with FileLock(_lock_of(target), timeout=0):
            _sweep(target)


def _leftovers(target: Path, kind: str) -> list[Path]:
    return list(target.parent.glob(f".{kind}-{target.name}~*"))


def _sweep(target: Path) -> None:
    """Remove what killed processes left behind.

    A copy that such a process had moved out of the way is put back.
    """
    for leftover in filter(abandoned, _leftovers(target, "incomplete")):
        shutil.rmtree(leftover, ignore_errors=True)
    for leftover in filter(abandoned, _leftovers(target, "old")):
        if not target.exists():  # killed between the two renames of publish
            with contextlib.suppress(OSError):
                os.rename(leftover, target)
        shutil.rmtree(leftover, ignore_errors=True)


def _tag() -> str:
    """Return an ending for a stage's name that no other stage has.

    It is made of the machine, the process, when that began, and a random number.
    """
    pid = os.getpid()
    return f"{_machine()}_{pid}_{_began(pid)}_{uuid.uuid4().hex}"


def abandoned(stage: Path) -> bool:
    """Tell whether the process that made this folder is gone.

    The lock cannot tell where locks do nothing.
    """
    tag = stage.name.rpartition("~")[2].split("_")
    if len(tag) != 4 or not tag[1].isdecimal():
        return True  # not by this version; whoever made it would hold the lock
    machine, pid, began, _ = tag
    if machine == _machine():
        # Where the system does not say when a process began, the lock decides.
        return not began or _began(int(pid)) != began
    changes = [path.lstat().st_mtime for path in (stage, *stage.rglob("*")) if path.exists()]
    return time.time() - max(changes, default=0.0) > STALE


def _machine() -> str:
    """Return a name of this machine, or container: within it a process number means one process."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]


def _began(pid: int) -> str:
    """Return when a process of this machine began, in ticks of its clock.

    "" if it ended or the system does not say.
    """
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" else rest[18]


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
    write_staged_json(work / MANIFEST, manifest)
    flush_path(work)
    olds: list[Path] = []
    while not _moved(work, target):
        there = read_manifest(target)
        if not replace and there is not None and there["files"] == files:
            break
        olds.append(target.with_name(f".old-{target.name}~{_tag()}"))
        with contextlib.suppress(FileNotFoundError):
            os.rename(target, olds[-1])
    flush_path(target.parent)
    for old in olds:
        shutil.rmtree(old, ignore_errors=True)


def _moved(work: Path, target: Path) -> bool:
    """Rename at once, so that no other process ever finds half a folder.

    False if something is in the way.
    """
    try:
        os.rename(work, target)
    except OSError as error:
        # A folder with files in it cannot be replaced in one step.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        return False
    return True


def write_staged_json(path: Path, value: object) -> None:
    """Write JSON into a stage, where nobody reads before the rename, and have it on the disk."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        flush(file)


# ---- room ----


def require_room(folder: Path, needed: int) -> None:
    """Raise the error of a full disk before filling it."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"{needed:,} bytes needed, {free:,} bytes free")


@contextlib.contextmanager
def room(folder: Path, needed: int | None) -> Iterator[None]:
    """Refuse what does not fit before it is begun.

    If the disk fills up all the same, the error names the needed and the free bytes.
    """
    require_room(folder, needed or 0)
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        want = "an unknown number of" if needed is None else format(needed, ",")
        free = shutil.disk_usage(folder).free
        reason = f"{error.strerror}: {want} bytes needed, {free:,} bytes free"
        raise OSError(error.errno, reason) from error
