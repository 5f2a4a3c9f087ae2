"""What an attack is, and the bench that runs readers on it, each in a process of its own.

One helper process imports torch once and forks for every run, so that a reader may die, hang or
fill its memory without harm to the tests, and a run costs milliseconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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
    grown: int
    """Bytes of memory at the peak, above those at the start."""


class Bench:
    """Runs readers in forks of one helper process."""

    def __init__(self) -> None:
        self._helper: subprocess.Popen[str] | None = None

    def run(self, reader: str, path: Path, home: Path, *, seconds: float, room: int) -> Run:
        """Let a reader of `naive.py` read a path.

        Args:
            reader: its name.
            path: of the hostile file or folder.
            home: where it may write.
            seconds: after which it is killed.
            room: bytes of address space beyond those at the start.
        """
        if self._helper is None:
            self._helper = subprocess.Popen(
                [sys.executable, "-m", "attacks.helper"],
                cwd=TESTS,
                # A pool of threads would not survive the forks.
                env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._helper.stdin is not None and self._helper.stdout is not None
        order = {"reader": reader, "path": str(path), "home": str(home)}
        order |= {"seconds": str(seconds), "room": str(room)}
        self._helper.stdin.write(json.dumps(order) + "\n")
        self._helper.stdin.flush()
        return Run(**json.loads(self._helper.stdout.readline()))

    def close(self) -> None:
        if self._helper is not None:
            assert self._helper.stdin is not None
            self._helper.stdin.close()
            self._helper.wait(30)


def harms(run: Run, marker: Path, room: int) -> set[str]:
    """Which of HARMS befell a reader that had this room."""
    if marker.exists():
        return {"runs code", "escapes"}
    if run.end == "memory" or run.grown > room // 2:
        return {"fills memory"}
    return {{"died": "dies", "hung": "hangs", "returned": "accepts", "raised": "crashes"}[run.end]}
