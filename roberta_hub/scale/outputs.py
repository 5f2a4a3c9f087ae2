"""Writes files atomically, on a disk or in an object store."""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from roberta_hub.files import flush_path, publish_new, publishing, short_name
from roberta_hub.scale.columns import arrow

FRESH_SECONDS = 60
"""Age in seconds up to which another driver may still be writing a small file."""
TEMPORARY_ENDING = ".tmp"
"""Ending of unfinished files, which only we write into a lake."""


def is_local(system: Any) -> bool:
    """Whether a file system is a disk that this machine mounts."""
    return bool(system.type_name == "local")


@contextlib.contextmanager
def write_whole(system: Any, path: str, run: str) -> Iterator[Any]:
    """Open a file for writing; it is at `path` once the block ends without an error.

    On a disk: a temporary file in the same folder, synced and renamed. In an object store: a buffer
    in memory and a single put, which is atomic.
    """
    if not is_local(system):
        buffer = arrow().BufferOutputStream()
        yield buffer
        put(system, path, buffer.getvalue())
        return
    folder, name = os.path.split(path)
    begin = f".{short_name(name)}.{run}"
    temporary = os.path.join(folder, f"{begin}.{uuid.uuid4().hex[:8]}{TEMPORARY_ENDING}")
    with publishing(Path(path), Path(temporary)) as stage, open(stage, "wb") as file:
        yield file
    flush_path(Path(folder))


def put(system: Any, path: str, data: Any) -> None:
    """Write a buffer to a store atomically.

    Closing an Arrow stream after a failed write would publish half of an object. So the data are
    written in one call, and a failed upload is never closed.
    """
    stream = system.open_output_stream(path)
    stream.write(data)
    stream.close()


def write(system: Any, path: str, data: bytes, run: str) -> None:
    """Write a small file atomically; an older one is replaced."""
    with write_whole(system, path, run) as file:
        file.write(data)


def create(system: Any, path: str, data: bytes) -> bool:
    """Write a small file unless it exists; of several concurrent writers one wins.

    pyarrow has no such call for object stores: there the last of two simultaneous writers wins, and
    the caller reads the file again.
    """
    if not is_local(system):
        if read(system, path) is not None:
            return False
        put(system, path, data)
        return True
    folder, name = os.path.split(path)
    stage = Path(folder, f".{name}.{uuid.uuid4().hex}{TEMPORARY_ENDING}")
    try:
        stage.write_bytes(data)
        return publish_new(stage, Path(path))
    finally:
        stage.unlink(missing_ok=True)


def read(system: Any, path: str) -> bytes | None:
    """Read a small file; None if it does not exist."""
    if system.get_file_info(path).type != arrow().fs.FileType.File:
        return None
    with system.open_input_stream(path) as file:
        return bytes(file.read())


def read_json_file(system: Any, path: str) -> dict[str, Any]:
    """Read a small, optional file of JSON; {} if it is missing or damaged."""
    try:
        found = json.loads(read(system, path) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def list_files(system: Any, folder: str) -> dict[str, Any]:
    """Pyarrow's FileInfo of each file of a folder, by name; {} if there is no folder."""
    fs = arrow().fs
    found = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return {info.base_name: info for info in found if info.type == fs.FileType.File}


def sweep(system: Any, folder: str, run: str = "") -> None:
    """Remove temporary files of killed workers."""
    if not is_local(system) or not os.path.isdir(folder):
        return
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            temporary = name.startswith(".") and name.endswith(TEMPORARY_ENDING) and run in name
            known = run or name.startswith(".part-")
            if temporary and (known or os.path.getmtime(path) < time.time() - FRESH_SECONDS):
                os.unlink(path)
