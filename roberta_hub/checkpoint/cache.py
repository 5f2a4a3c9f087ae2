"""The cache of models: which files a model is, and how a folder of them appears at once and whole.

All work happens in a private `.incomplete-*` folder inside the cache; one rename publishes it. A folder without a fitting
manifest does not count, so a crash at any moment leaves nothing that could be mistaken for a model.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import uuid
from collections.abc import Container, Iterator
from pathlib import Path

import torch.hub

from roberta_hub.errors import RobertaHubError

MODEL = "model.pt"
"""What the published archives call the checkpoint."""
DICTIONARIES = ("dict.txt", "input0/dict.txt", "label/dict.txt")
"""The vocabulary, by either of fairseq's names, and the class names; whatever else lies in an archive stays there."""
MANIFEST = "manifest.json"
"""Written last into a model's folder: sizes and digests of its files."""
FileTable = dict[str, dict[str, "int | str"]]
"""Size and sha256 of each file by its name in the model's folder."""


def cache_root() -> Path:
    """Where our models lie; TORCH_HOME and `torch.hub.set_dir` move it."""
    return Path(torch.hub.get_dir()) / "checkpoints" / "roberta_hub"


def fairseq_cache() -> Path:
    """Where fairseq itself unpacks models, by its own rules (`fairseq/file_utils.py`)."""
    torch_home = os.environ.get("TORCH_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or "~/.cache", "torch"
    )
    folder = os.environ.get("PYTORCH_FAIRSEQ_CACHE") or os.path.join(torch_home, "pytorch_fairseq")
    return Path(folder).expanduser()


def is_complete(folder: Path, checkpoint_file: str = MODEL) -> bool:
    """Tell whether the folder has a manifest of a whole model, and every file the size written there."""
    try:
        files = json.loads((folder / MANIFEST).read_text("utf-8"))["files"]
        sizes = [(folder / name).stat().st_size == files[name]["size"] for name in files]
        return all(sizes) and is_model(files, checkpoint_file)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def is_model(files: Container[str], checkpoint_file: str = MODEL) -> bool:
    """Tell whether these are enough to load a model: a checkpoint and a vocabulary."""
    return checkpoint_file in files and any(name in files for name in DICTIONARIES[:2])


@contextlib.contextmanager
def workplace(target: Path, error_class: type[RobertaHubError]) -> Iterator[Path]:
    """Hold the lock of `target`, lend a private folder beside it, and leave no trace of that folder."""
    from filelock import FileLock

    root = target.parent
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{target.name}.lock"):
            _sweep(target)
            # Not tempfile.mkdtemp: its mode 0700 would survive the rename and lock other users out.
            work = root / f".incomplete-{target.name}~{uuid.uuid4().hex}"
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


def _sweep(target: Path) -> None:
    """Remove what a killed process left behind. Under the lock, so nobody works there now."""
    for leftover in target.parent.glob(f".incomplete-{target.name}~*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for leftover in target.parent.glob(f".old-{target.name}~*"):
        if target.exists():
            shutil.rmtree(leftover, ignore_errors=True)
        else:  # killed between the two renames of publish
            os.replace(leftover, target)


def publish(
    work: Path,
    target: Path,
    *,
    source: str,
    archive_sha256: str,
    files: FileTable,
) -> None:
    """Write the manifest, then put `work` in the place of `target`."""
    manifest = {"source": source, "archive_sha256": archive_sha256, "files": files}
    write_synced_json(work / MANIFEST, manifest)
    old = target.with_name(f".old-{target.name}~{uuid.uuid4().hex}")
    # A folder with files in it cannot be replaced in one step.
    with contextlib.suppress(FileNotFoundError):
        os.replace(target, old)
    os.replace(work, target)
    shutil.rmtree(old, ignore_errors=True)


def write_synced_json(path: Path, value: object) -> None:
    """Write JSON that is on the disk before anything is renamed."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.flush()
        os.fsync(file.fileno())


def require_room(folder: Path, needed: int) -> None:
    """Raise the error of a full disk before filling it."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"{needed:,} bytes needed, {free:,} bytes free")
