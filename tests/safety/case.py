"""What a case is, and what can become of an engine that meets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STOCK, FORCED, HF, OURS = "fairseq", "fairseq, forced", "Hugging Face", "roberta_hub"
ENGINES = (STOCK, FORCED, HF, OURS)
"""fairseq twice: as it is, and with TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1, which its users set
today."""
LOADERS = frozenset(ENGINES)
ALL = frozenset({STOCK, HF, OURS})
"""Where no checkpoint is loaded both fairseqs are one."""

SAFE, RAW, WRONG, HARMED, DOWN = "safe", "raw", "wrong", "harmed", "down"
GRADES = (HARMED, DOWN, WRONG, RAW, SAFE)
"""Worst first."""
CODE, OUTSIDE = "EXECUTED code", "wrote outside"


@dataclass(frozen=True)
class Place:
    """Where one engine meets one case: a folder of its own, sound material, a URL of its own."""

    home: Path
    kit: Path
    """Sound files: `fairseq/`, `bpe/`, `huggingface/`."""
    server: str
    prefix: str
    """The first parts of every path that this run asks the server for: `r5-0/OURS`."""

    @property
    def marker(self) -> Path:
        """A file that appears when code was run or a file written outside."""
        return self.home / "marker"

    @property
    def files(self) -> Path:
        """What is loaded lies here."""
        return self.home / "files"

    @property
    def cache(self) -> Path:
        """Where the engine may write."""
        return self.home / "cache"


@dataclass(frozen=True)
class Verdict:
    """What a case says of an engine that returned."""

    grade: str
    says: str
    value: Any = None
    """To be equal to fairseq's, in a case that `agrees`."""


def works(says: str = "works", value: Any = None) -> Verdict:
    return Verdict(SAFE, says, value)


def wrong(says: str) -> Verdict:
    return Verdict(WRONG, says)


@dataclass(frozen=True)
class Case:
    """One try at a row of the table."""

    row: int
    name: str
    run: Callable[[Any, Place], Verdict]
    """Gets an engine; runs in a fork, under limits; what it raises is the engine's answer."""
    make: Callable[[Place], object] = lambda place: None
    """Lays out files, in the same fork before the limits."""
    serve: Callable[[Any, str], None] = lambda server, prefix: None
    """Plans the server's answers, in the process that has the server."""
    engines: frozenset[str] = ALL
    seconds: float = 30
    room: int = 3 << 30
    """Bytes of address space beyond those at the start."""
    harm: str = CODE
    """What the marker means."""
    reason: str = ""
    """A regular expression for our own error: that it is about this attack and nothing else."""
    agrees: bool = False
    """Whether the value has to be fairseq's."""


@dataclass
class Outcome:
    """What became of one engine in one case."""

    grade: str
    says: str
    message: str = ""
    seconds: float = 0.0
    requests: dict[str, int] = field(default_factory=dict)
    value: Any = None
