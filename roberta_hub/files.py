"""Reads files with a size limit, and writes them atomically."""

from __future__ import annotations

import codecs
import contextlib
import errno
import glob
import hashlib
import json
import os
import platform
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from roberta_hub.errors import CheckpointError, InputError, RobertaHubError
from roberta_hub.signals import cleared, held_back

MAX_JSON_BYTES = 10_000_000
"""Bytes of a JSON file that is read whole; configurations have some thousand."""
_SPECIAL = {
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}

# ---- reading ----


def check_regular(path: Path, error: type[RobertaHubError] = CheckpointError) -> None:
    """Refuse pipes, sockets, devices and directories; what does not exist is left to the reader.

    A pipe that is opened waits for a writer without an end.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):
        return
    if kind != stat.S_IFREG:
        found = _SPECIAL.get(kind, "no regular file")
        raise error(f"{path} is {found}, not a readable file; put the file itself in its place")


def read_bytes(
    path: str | os.PathLike[str], limit: int, error: type[RobertaHubError], what: str
) -> bytes:
    """Read a whole file of at most `limit` bytes."""
    try:
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as reason:  # ValueError: a NUL in the path
        why = getattr(reason, "strerror", None) or reason
        raise error(f"{os.fspath(path)} cannot be read: {why}") from reason
    if len(data) > limit:
        raise too_large(path, limit, error, what)
    return data


def too_large(
    path: str | os.PathLike[str], limit: int, error: type[RobertaHubError], what: str
) -> RobertaHubError:
    """Make the error for a file of more bytes than its kind may have; see `read_bytes`."""
    return error(
        f"{os.fspath(path)} is larger than {limit:,} bytes, the limit for a {what}; it is damaged, "
        "or something else"
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of at most `MAX_JSON_BYTES` bytes.

    Files of a model's folder are read through `folder.Folder`, which reads each once.
    """
    check_regular(path)
    value = parse_json(read_bytes(path, MAX_JSON_BYTES, CheckpointError, "JSON file"), path)
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value


UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How a text begins that an editor saved as UTF-16."""


def parse_json(
    data: bytes, path: str | os.PathLike[str], error: type[RobertaHubError] = CheckpointError
) -> Any:
    """Parse the content of a JSON file, whatever it holds."""
    try:
        return json.loads(data.decode("utf-8-sig"))  # of bytes, json would guess the encoding
    except UnicodeDecodeError as reason:
        why: object = f"not UTF-8 at byte {reason.start}"
        if data.startswith(UTF16_MARKS):
            why = "it is UTF-16, as an editor saved it; save it as UTF-8"
    except json.JSONDecodeError as reason:
        before = reason.doc[: reason.pos].rstrip()
        why = reason
        if before.endswith(",") and reason.doc[reason.pos :].lstrip()[:1] in ("}", "]"):
            why = f"{reason}; JSON has no comma before a closing bracket, take it out"
    except (ValueError, RecursionError) as reason:  # also a number of more digits than int() takes
        why = reason
    raise error(f"{os.fspath(path)}: not readable JSON: {why}")


def read_note(path: Path) -> dict[str, Any]:
    """Read a JSON object that this package wrote; one that is missing or damaged is empty."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# ---- writing ----


def flush(file: IO[bytes] | IO[str]) -> None:
    """Have the disk hold what was written to an open file, in case the machine dies."""
    file.flush()
    os.fsync(file.fileno())


def flush_path(path: Path) -> None:
    """Have the disk hold a file, or the names in a folder where the system can do that."""
    # Windows flushes only what may be written.
    flags = os.O_RDWR if os.name == "nt" and path.is_file() else os.O_RDONLY
    try:
        handle = os.open(path, flags)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError:
        if not path.is_dir():
            raise


@contextlib.contextmanager
def publishing(target: Path, stage: Path | None = None) -> Iterator[Path]:
    """Yield a temporary name to write a file at, which then replaces `target`.

    `target` is at every instant the old file or the complete new one. Several at once write files
    of their own, and the last one stays. Where the block raises, or a signal ends the process in
    it, nothing is left. Who may read the old file may read the new one, and nobody else.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
        >>> with publishing(path) as new:
        ...     _ = new.write_text("whole")
        >>> path.read_text()
        'whole'
    """
    stage = stage or target.with_name(f".{short_name(target.name)}.{uuid.uuid4().hex}.tmp")
    with cleared(lambda: remove(stage)), _named(stage, target):
        _make_as_private(stage, target)
        yield stage
        _flush_written(stage)
        os.replace(stage, target)


DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
"""Errors of a disk that is full, read-only or broken, which often name no file."""


def reason_of(error: Exception) -> str:
    """Say why a disk refuses, in words for a person: without a number, or a temporary's name.

    Example:
        >>> reason_of(OSError(28, "No space left on device", ".out.tmp"))
        'No space left on device'
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"


NAME_BYTES = 100
"""Bytes of a name inside the name of a temporary file; most disks take 255 for all of it."""


def short_name(name: str) -> str:
    """Name a target in the name of a temporary file, which a long one would make too long.

    Example:
        >>> short_name("model.onnx"), len(short_name(250 * "a"))
        ('model.onnx', 100)
    """
    data = os.fsencode(name)
    if len(data) <= NAME_BYTES:
        return name
    digest = hashlib.sha256(data).hexdigest()[:12]
    return f"{data[: NAME_BYTES - 13].decode(errors='ignore')}-{digest}"


def _make_as_private(stage: Path, target: Path) -> None:
    """Make an empty file that is as private as the one whose place it takes."""
    try:
        mode = stat.S_IMODE(target.stat().st_mode) & 0o777
    except (OSError, ValueError):  # there is none: the user's umask decides
        return
    handle = os.open(stage, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with contextlib.suppress(OSError):  # a disk without modes
            os.chmod(handle if os.chmod in os.supports_fd else stage, mode)
    finally:
        os.close(handle)
    os.utime(stage, (0, 0))


def _flush_written(stage: Path) -> None:
    """Have the disk hold a stage; FileNotFoundError if nothing was written into it."""
    if stage.stat().st_mtime == 0:  # as `_make_as_private` leaves it
        raise FileNotFoundError(errno.ENOENT, "nothing was written", str(stage))
    _flush_file(stage)


@contextlib.contextmanager
def _named(stage: Path, target: Path) -> Iterator[None]:
    """Let errors of the disk name the file that a user knows."""
    try:
        yield
    except OSError as error:
        ours = error.filename is None and error.errno in DISK_ERRORS
        if isinstance(error, RobertaHubError) or not (ours or error.filename == str(stage)):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error


def publish_new(stage: Path, target: Path) -> bool:
    """Rename a complete file to `target`, unless a file is there; return whether it was renamed.

    Of several processes that try, one succeeds.
    """
    _flush_file(stage)
    try:
        os.link(stage, target)  # at once, and an error where one is
    except FileExistsError:
        return False
    except OSError:  # a disk without links: of two in the same moment the last one wins
        if target.exists():
            return False
        os.replace(stage, target)
    return True


def publish_folder(
    stage: Path, target: Path, old: Path, keep: Callable[[], bool] = lambda: False
) -> None:
    """Replace `target` by a complete folder, atomically.

    A folder with files in it cannot be replaced in one step. In between it has the name `old`, from
    from which a later process can restore it.
    """
    for path in (*stage.rglob("*"), stage):
        if not path.is_symlink():  # its name is flushed with its folder
            flush_path(path)
    while not _moved(stage, target):
        if keep():
            break
        remove(old)  # of a process that died; a whole one is at `target`
        with contextlib.suppress(FileNotFoundError):
            os.rename(target, old)
    flush_path(target.parent)
    remove(old)


def _moved(stage: Path, target: Path) -> bool:
    """Rename a folder in one step; False if something is in the way."""
    try:
        os.rename(stage, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        return False
    return True


def remove(path: Path) -> None:
    """Remove a file or a folder with all in it, as far as that can be done."""
    with contextlib.suppress(OSError):
        path.unlink()
        return
    for _ in range(REMOVALS):
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.lexists(path):
            break


REMOVALS = 10
"""Times that a folder is removed: a thread may write into it meanwhile."""


def _flush_file(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def publishing_all(directory: Path, obsolete: Sequence[str] = ()) -> Iterator[Path]:
    """Yield a temporary directory, and move its files into `directory` once all are complete.

    config.json, which says how to read the others, moves last.
    """
    made = [place for place in (directory, *directory.parents) if not os.path.lexists(place)]
    with cleared(lambda: _remove_empty(made)):
        directory.mkdir(parents=True, exist_ok=True)
        with staging(directory / "save") as work:
            with contextlib.suppress(OSError):
                work.chmod(0o700)  # the files have their own modes once they are moved
            yield work
            files = sorted(path.relative_to(work) for path in work.rglob("*") if path.is_file())
            for file in files:  # found out before anything moves
                if (directory / file).is_dir():
                    raise IsADirectoryError(f"{directory / file} is a directory")
                _flush_file(work / file)
            _move(work, directory, files, [name for name in obsolete if Path(name) not in files])


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove folders, from the inside out, and only what is empty."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _move(work: Path, directory: Path, files: Sequence[Path], obsolete: Sequence[str]) -> None:
    """Move complete files, and remove those that are obsolete; say so where it stops midway."""
    # Backwards, model.onnx.data comes before the model.onnx that names it.
    ordered = sorted(files, reverse=True)
    ordered.sort(key=lambda file: file == Path("config.json"))
    moved = 0
    try:
        with held_back():
            for file in ordered:
                (directory / file).parent.mkdir(exist_ok=True)
                with contextlib.suppress(OSError):  # there is none: the user's umask decides
                    shutil.copymode(directory / file, work / file)
                os.replace(work / file, directory / file)
                moved += 1
            for name in obsolete:
                (directory / name).unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # a part's folder, once it is empty
                    if (directory / name).parent != directory:
                        (directory / name).parent.rmdir()
            flush_path(directory)
    except OSError as error:
        if not moved:
            raise
        raise CheckpointError(
            f"{str(directory)[:300]}: {moved} of {len(files)} new files are in place when the disk "
            f"refuses ({type(error).__name__}: {str(error)[:200]}); old and new ones are mixed "
            "there. Free some room and write again, or into another directory"
        ) from error


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file at once whole; its folder is made if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with publishing(path) as new:
        new.write_bytes(data)


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write small files into a directory, each at once whole."""
    for name, data in files.items():
        write_bytes(directory / name, data)


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write a JSON object at once whole, readable by people."""
    with publishing(path) as new:
        new.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


# ---- stages: folders to work in, known as abandoned once their process is gone ----

STALE_SECONDS = 86400.0
"""Seconds without a change after which a stage from another machine counts as abandoned."""


@contextlib.contextmanager
def staging(target: Path, *, locked: bool = False) -> Iterator[Path]:
    """Provide a private temporary folder in the folder of `target`.

    What killed processes left of `target` is removed first.
    """
    remove_leftovers(target, locked=locked)
    # Not tempfile.mkdtemp: its mode 0700 would survive a rename and lock other users out.
    work = target.with_name(f".incomplete-{short_name(target.name)}~{stage_tag()}")
    with cleared(lambda: remove(work)):
        work.mkdir()
        yield work


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder, which gets its own name once all is written."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} is there already; give a folder that is new or empty")
    target.parent.mkdir(parents=True, exist_ok=True)
    with staging(target) as work:
        yield work
        publish_folder(work, target, old_name(target))


def old_name(target: Path) -> Path:
    """Temporary name of `target` during a replacement; `remove_leftovers` restores it."""
    return target.with_name(f".old-{short_name(target.name)}~{stage_tag()}")


def leftovers(target: Path) -> list[Path]:
    """List the stages and old copies of `target`, no matter which process made them."""
    return [
        path
        for kind in ("incomplete", "old")
        for path in target.parent.glob(f".{kind}-{glob.escape(short_name(target.name))}~*")
    ]


def remove_leftovers(target: Path, *, locked: bool = False) -> None:
    """Remove the leftovers of killed processes.

    A copy that such a process had moved out of the way is put back.
    """
    for leftover in leftovers(target):
        if not abandoned(leftover, locked=locked):
            continue
        # Killed between the two renames of `publish_folder`.
        if leftover.name.startswith(".old-") and not target.exists():
            with contextlib.suppress(OSError):
                os.rename(leftover, target)
        shutil.rmtree(leftover, ignore_errors=True)


def stage_tag() -> str:
    """Return an ending for a stage's name that no other stage has.

    It is made of the machine, the process, when that began, and a random number.
    """
    pid = os.getpid()
    return f"{_machine()}_{pid}_{_began(pid)}_{uuid.uuid4().hex}"


def abandoned(stage: Path, *, locked: bool = False) -> bool:
    """Whether the process that made this folder is gone."""
    tag = stage.name.rpartition("~")[2].split("_")
    if len(tag) != 4 or not tag[1].isdecimal():
        return True  # not by this version, which would hold the lock
    machine, pid, began, _ = tag
    if machine == _machine() and began:
        return _began(int(pid)) != began
    if machine == _machine() and locked:
        return True
    changes = [path.lstat().st_mtime for path in (stage, *stage.rglob("*")) if path.exists()]
    return time.time() - max(changes, default=0.0) > STALE_SECONDS


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
