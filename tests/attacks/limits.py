"""What a process that meets a hostile file may take, and what it took."""

from __future__ import annotations

import resource
from pathlib import Path


def peak() -> int:
    """Bytes of memory of this process at its peak."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit(room: int) -> None:
    """Allow so many bytes of address space beyond today's, and no core dump."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (now + room,) * 2)
