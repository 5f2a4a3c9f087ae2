"""Reads files with a limit, and writes them so that nobody ever sees half of one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from roberta_hub.errors import CheckpointError, RobertaHubError

MAX_JSON = 10_000_000
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

    Args:
        path: the file.
        error: the class of what is raised.

    Raises:
        RobertaHubError: of that class: it is no regular file; the message says what it is.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):
        return
    if kind != stat.S_IFREG:
        found = _SPECIAL.get(kind, "no regular file")
        raise error(f"{path} is {found}, not a readable file; put the file itself in its place")


def listing(directory: Path, limit: int = 8) -> str:
    """Return the first names in a directory, in order, for a message."""
    try:
        names = sorted(entry.name for entry in directory.iterdir())
    except OSError as error:
        return f"nothing that can be listed ({error.strerror})"
    more = f", ... ({len(names)} in all)" if len(names) > limit else ""
    return ", ".join(name[:100] for name in names[:limit]) + more or "nothing"


def read_bytes(
    path: str | os.PathLike[str], limit: int, error: type[RobertaHubError], what: str
) -> bytes:
    """Read a whole file of at most `limit` bytes.

    Args:
        path: the file.
        limit: most bytes; of a larger file no more than this is read.
        error: the class of what is raised.
        what: the file's kind in a message, "dictionary".

    Raises:
        RobertaHubError: of that class: the file cannot be read, or is larger.
    """
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
    """Read a JSON object from a file of at most `MAX_JSON` bytes.

    What lies in a model's folder is read through `folder.Folder`, which reads a file once.

    Raises:
        CheckpointError: the file is missing, too large, damaged, or holds something else.
    """
    check_regular(path)
    value = parse_json(read_bytes(path, MAX_JSON, CheckpointError, "JSON file"), path)
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value


def parse_json(
    data: bytes, path: str | os.PathLike[str], error: type[RobertaHubError] = CheckpointError
) -> Any:
    """Parse the content of a JSON file, whatever it holds.

    Args:
        data: in UTF-8.
        path: of the file, for messages.
        error: the class of what is raised.

    Raises:
        RobertaHubError: of that class: it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(data.decode())  # of bytes, json would guess the encoding
    except UnicodeDecodeError as reason:
        why: object = f"not UTF-8 at byte {reason.start}"
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
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError:
        if not path.is_dir():
            raise


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Lend a temporary name to write to, and put what is written there in place of `path`.

    `path` is at every instant the old file or the complete new one.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
        >>> with replacing(path) as new:
        ...     _ = new.write_text("whole")
        >>> path.read_text()
        'whole'
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_all(directory: Path, obsolete: Sequence[str] = ()) -> Iterator[Path]:
    """Lend a temporary directory, and move its files into `directory` once all are complete.

    config.json, which says how to read the others, moves last.

    Args:
        directory: made if missing, and taken away again where nothing comes of it.
        obsolete: files of an earlier save that go, where no new ones take their places.

    Raises:
        CheckpointError: the disk refused between the first move and the last.
    """
    made = [place for place in (directory, *directory.parents) if not os.path.lexists(place)]
    work = directory / f".{uuid.uuid4().hex}.tmp"
    try:
        work.mkdir(parents=True)
        yield work
        files = sorted(path.relative_to(work) for path in work.rglob("*") if path.is_file())
        for file in files:  # found out before anything moves
            if (directory / file).is_dir():
                raise IsADirectoryError(f"{directory / file} is a directory")
            with open(work / file, "rb+") as written:
                os.fsync(written.fileno())
        _move(work, directory, files, [name for name in obsolete if Path(name) not in files])
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        for folder in made:  # from the inside out, and only what is empty
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _move(work: Path, directory: Path, files: Sequence[Path], obsolete: Sequence[str]) -> None:
    """Move complete files, and remove those that are obsolete; say so where it stops midway."""
    # Backwards, model.onnx.data comes before the model.onnx that names it.
    ordered = sorted(files, reverse=True)
    ordered.sort(key=lambda file: file == Path("config.json"))
    moved = 0
    try:
        for file in ordered:
            (directory / file).parent.mkdir(exist_ok=True)
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
    with replacing(path) as new:
        new.write_bytes(data)


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write small files into a directory, each at once whole."""
    for name, data in files.items():
        write_bytes(directory / name, data)


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write a JSON object at once whole, readable by people."""
    with replacing(path) as new:
        new.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
