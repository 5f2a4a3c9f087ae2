"""Tells how far a lake is, and how a run of it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from roberta_hub.errors import InputError
from roberta_hub.scale.merge import merged_rows
from roberta_hub.scale.outputs import listed, noted
from roberta_hub.scale.plan import load
from roberta_hub.scale.sources import located
from roberta_hub.scale.work import Done, file_name

FAILED = "_failed.json"
"""The units that the last run could not do."""
MANIFEST = "_manifest.json"
SUCCESS = "_SUCCESS"
ONE_FILE = (".parquet", ".pq")
"""Endings of targets that are one file, which is put together from the units' at the end."""


@dataclass(frozen=True)
class Report:
    """How a run of a lake ended."""

    target: str
    units: int
    """Of the whole plan."""
    done: tuple[Done, ...] = field(default=(), repr=False)
    """The units that this run did."""
    failed: tuple[Done, ...] = ()
    left: int = 0
    """Units that have no file yet, of other drivers' parts, say."""
    rows: int = 0
    """In all files that are there."""
    faults: int = 0
    """Rows without an answer in them; errors="column" only."""
    seconds: float = 0.0

    def __str__(self) -> str:
        rate = sum(unit.rows for unit in self.done) / max(self.seconds, 1e-9)
        text = f"{self.target}: {self.units - self.left} of {self.units} units, {self.rows:,} rows"
        text += f"; {len(self.done)} units in {self.seconds:,.0f} s, {rate:,.0f} rows/s"
        return text + (f"; {self.faults:,} rows at fault" if self.faults else "")


@dataclass(frozen=True)
class Status:
    """How far a lake is."""

    target: str
    units: int
    done: int
    """Units whose file is there; whether it is whole is found out at the end."""
    failed: tuple[str, ...]
    """Of the units without a file, what was wrong when they were tried last."""
    finished: bool
    """Every file was checked, and `_SUCCESS` is there."""

    @property
    def left(self) -> int:
        """Units without a file."""
        return self.units - self.done

    def __str__(self) -> str:
        text = f"{self.target}: {self.done} of {self.units} units done, {self.left} left"
        text += f", {len(self.failed)} failed" if self.failed else ""
        return text + (", finished" if self.finished else "")


def folder_of(path: str) -> str:
    """Tell the folder of the units' files: the target, or of one file a folder beside it.

    Example:
        >>> folder_of("out"), folder_of("out.parquet")
        ('out', 'out.parquet.units')
    """
    return f"{path}.units" if is_one_file(path) else path


def is_one_file(path: str) -> bool:
    """Tell whether a target is one file."""
    return path.lower().endswith(ONE_FILE)


def status(target: object) -> Status:
    """Tell how far a lake is, from its folder alone; no model is loaded.

    Args:
        target: as given to `lake`.

    Raises:
        InputError: there is no lake.
    """
    system, path = located(target, "target")
    folder = folder_of(path)
    plan = load(system, folder)
    if plan is None:
        if is_one_file(path) and merged_rows(path, None) is not None:
            return Status(path, 1, 1, (), True)
        raise InputError(f"{folder}: no lake was begun here")
    names = listed(system, folder)
    there = {unit.number for unit in plan.units if file_name(plan.fingerprint, unit) in names}
    notes = noted(system, f"{folder}/{FAILED}")
    failed = [why for number, why in notes.items() if number not in set(map(str, there))]
    finished = SUCCESS in names and len(there) == len(plan.units)
    return Status(folder, len(plan.units), len(there), tuple(failed), finished)
