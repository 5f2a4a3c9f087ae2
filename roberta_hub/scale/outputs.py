"""Writes files that are whole or are not there, on a disk or in an object store."""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from roberta_hub.files import flush_path, publish_new, publishing
from roberta_hub.scale.columns import arrow

FRESH = 60
"""Seconds for which a small file may be half written by another driver."""
TEMPORARY = ".tmp"
"""How the names of files end that are not whole yet; nobody but us writes such into a lake."""


def is_local(system: Any) -> bool:
    """Tell whether files lie on a disk that this machine mounts."""
    return bool(system.type_name == "local")


@contextlib.contextmanager
def whole(system: Any, path: str, run: str) -> Iterator[Any]:
    """Lend something to write to; what was written is at `path` when this ends without an error.

    On a disk: a temporary file beside, flushed, synced and renamed. In an object store: a buffer in
    memory, and one put of it, which stores make visible at once or never.

    Args:
        system: pyarrow's FileSystem.
        path: on it.
        run: of the driver; `sweep` finds temporary files by it.
    """
    if not is_local(system):
        buffer = arrow().BufferOutputStream()
        yield buffer
        put(system, path, buffer.getvalue())
        return
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{run}.{uuid.uuid4().hex[:8]}{TEMPORARY}")
    with publishing(Path(path), Path(temporary)) as stage, open(stage, "wb") as file:
        yield file
    flush_path(Path(folder))


def put(system: Any, path: str, data: Any) -> None:
    """Write a finished buffer to a store at once.

    A stream of Arrow's that is closed after a failed write would make half of an object. So the
    data are written by one call, and an upload that fails is never finished.

    Args:
        system: pyarrow's FileSystem.
        path: on it.
        data: bytes, or pyarrow's Buffer.
    """
    stream = system.open_output_stream(path)
    stream.write(data)
    stream.close()


def write(system: Any, path: str, data: bytes, run: str) -> None:
    """Write a small file at once whole; an older one is replaced."""
    with whole(system, path, run) as file:
        file.write(data)


def create(system: Any, path: str, data: bytes) -> bool:
    """Write a small file where none is; of several at once, one wins.

    An object store has no such call in pyarrow. There the last of two that begin in the same second
    wins; the caller reads again what it finds.

    Args:
        system: pyarrow's FileSystem.
        path: on it.
        data: of the file.

    Returns:
        Whether it was written.
    """
    if not is_local(system):
        if read(system, path) is not None:
            return False
        put(system, path, data)
        return True
    folder, name = os.path.split(path)
    stage = Path(folder, f".{name}.{uuid.uuid4().hex}{TEMPORARY}")
    try:
        stage.write_bytes(data)
        return publish_new(stage, Path(path))
    finally:
        stage.unlink(missing_ok=True)


def read(system: Any, path: str) -> bytes | None:
    """Read a small file; None: there is none."""
    if system.get_file_info(path).type != arrow().fs.FileType.File:
        return None
    with system.open_input_stream(path) as file:
        return bytes(file.read())


def noted(system: Any, path: str) -> dict[str, Any]:
    """Read a small file of JSON that can be done without; {} where it is damaged or not there."""
    try:
        found = json.loads(read(system, path) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def listed(system: Any, folder: str) -> dict[str, Any]:
    """List the files of a folder once: pyarrow's FileInfo by name; {} where there is none."""
    fs = arrow().fs
    found = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return {info.base_name: info for info in found if info.type == fs.FileType.File}


def sweep(system: Any, folder: str, run: str = "") -> None:
    """Remove temporary files that killed workers have left.

    Args:
        system: pyarrow's FileSystem; object stores have no such files.
        folder: of the lake.
        run: of the driver whose files go; "": all, but what another driver has only just begun to
            write beside the units.
    """
    if not is_local(system) or not os.path.isdir(folder):
        return
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            temporary = name.startswith(".") and name.endswith(TEMPORARY) and run in name
            known = run or name.startswith(".part-")
            if temporary and (known or os.path.getmtime(path) < time.time() - FRESH):
                os.unlink(path)
