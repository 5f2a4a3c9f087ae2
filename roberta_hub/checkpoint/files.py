"""Finds out what a path is before it is opened: opening a pipe would wait without an end."""

from __future__ import annotations

import stat
from pathlib import Path

from roberta_hub.errors import CheckpointError

_SPECIAL = {
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}


def check_regular(path: Path) -> None:
    """Refuse pipes, sockets, devices and directories; what does not exist is left to the reader.

    Raises:
        CheckpointError: it is no regular file; the message says what it is.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (OSError, ValueError):
        return
    if kind != stat.S_IFREG:
        found = _SPECIAL.get(kind, "no regular file")
        raise CheckpointError(
            f"{path} is {found}, not a readable file; put the file itself in its place"
        )


def listing(directory: Path, limit: int = 8) -> str:
    """List the first names in a directory, in order, for a message."""
    try:
        names = sorted(entry.name for entry in directory.iterdir())
    except OSError as error:
        return f"nothing that can be listed ({error.strerror})"
    more = f", ... ({len(names)} in all)" if len(names) > limit else ""
    return ", ".join(name[:100] for name in names[:limit]) + more or "nothing"
