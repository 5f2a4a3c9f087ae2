"""What an attack is, and how a reader is run on it: in a fork, which may die, hang or fill up."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import forks

TESTS = Path(__file__).resolve().parents[1]
MARKER = "marker"
"""A file of this name beside the attack's folder of files: code was run, or a file written
outside."""
GIGABYTE = 1 << 30
HARMS = ("runs code", "escapes", "dies", "hangs", "fills memory", "accepts", "crashes")
"""A marker; a marker; a signal; over the time; over the memory; no error; an error with no sentence
in it.

Where the machine's speed decides which comes first, an attack names both: "fills memory or hangs".
"""


@dataclass(frozen=True)
class Attack:
    """A hostile file: how to make it, whom it harms, and what our error says about it."""

    name: str
    row: int
    """Of the fault table that the package was designed by: 17 to 20 archives, 21 to 30 checkpoints,
    and so on."""
    make: Callable[[Path], Path]
    """Writes into an empty folder; returns the path to load."""
    reason: str
    """A regular expression: that our error is about this, and not about a mistake in the test."""
    naive: str = ""
    """A reader of `naive.py` that is harmed."""
    harm: str = ""
    """One of HARMS, or several joined by " or "."""


@dataclass(frozen=True)
class Run:
    """What became of one reader."""

    end: str
    """"returned", "refused" (a RobertaHubError), "raised", "memory" (a MemoryError), "died" or
    "hung"."""
    says: str
    """Type and message of the error; the signal."""
    seconds: float
    """Of the processor, which a busy machine does not change."""
    grown: int
    """Bytes of memory at the peak, above those at the start."""


def spent(pid: int) -> float:
    """Seconds of the processor that a process has taken; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


SERVER = forks.Server((*forks.PRELOADED, "attacks.naive"))
"""Forks that have the readers at hand."""


def run(reader: str, path: Path, home: Path, *, seconds: float, room: int) -> Run:
    """Let a reader of `naive.py` read a path.

    Args:
        reader: its name.
        path: of the hostile file or folder.
        home: where it may write.
        seconds: of the processor, after which it is killed; one that waits has ten times as long.
        room: bytes of address space beyond those at the start.
    """
    arguments = ("-m", "attacks.helper", reader, path, home, room)
    with SERVER.start(*arguments, cwd=TESTS, stdout=forks.PIPE, text=False) as process:
        assert process.stdout is not None
        before = int(process.stdout.readline() or 0)
        start = time.monotonic()
        ready, taken = False, 0.0
        # It becomes readable with the report, or with the end of the process.
        while not ready and taken < seconds and time.monotonic() < start + 10 * seconds:
            ready = bool(select.select([process.stdout], [], [], seconds / 100)[0])
            taken = max(taken, spent(process.pid))
        if not ready:
            process.kill()
        report = process.stdout.read()
        status = process.wait()
    if report:
        return Run(**json.loads(report), seconds=taken)
    grown = max(0, process.peak - before)
    if not ready:
        return Run("hung", "", taken, grown)
    return Run("died", f"signal {-status}", taken, grown)


def harms(run: Run, marker: Path, room: int) -> set[str]:
    """Which of HARMS befell a reader that had this room."""
    if marker.exists():
        return {"runs code", "escapes"}
    if run.end == "memory" or run.grown > room // 2:
        return {"fills memory"}
    return {{"died": "dies", "hung": "hangs", "returned": "accepts", "raised": "crashes"}[run.end]}
