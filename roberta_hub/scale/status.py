"""Status of a lake, and the report of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from roberta_hub.errors import InputError, RobertaHubError
from roberta_hub.files import short_name
from roberta_hub.rows.formats import row_count
from roberta_hub.scale.merge import merged_note
from roberta_hub.scale.outputs import list_files, read_json_file
from roberta_hub.scale.plan import load
from roberta_hub.scale.sources import find_filesystem
from roberta_hub.scale.work import Done, file_name
from roberta_hub.show.report import Report as Shown
from roberta_hub.show.report import Reported, said

FAILED_FILE = "_failed.json"
"""File of the units that failed in the last run."""
MANIFEST_FILE = "_manifest.json"
SUCCESS_FILE = "_SUCCESS"
ONE_FILE_ENDINGS = (".parquet", ".pq")
"""Endings of targets that are one file, merged from the units' files at the end."""
LONGEST_NAME_BYTES = 255
"""Bytes of a name on most disks."""


@dataclass(frozen=True)
class Report(Reported):
    """Result of a run of a lake."""

    target: str
    units: int
    """Number of units of the plan."""
    done: tuple[Done, ...] = field(default=(), repr=False)
    """The units that this run did."""
    failed: tuple[Done, ...] = ()
    left: int = 0
    """Units without a file yet, such as other drivers' parts."""
    rows: int = 0
    """Rows in all files so far."""
    faults: int = 0
    """Rows among them without an answer."""
    missing: int = 0
    """Rows among these without a text."""
    words: int = 0
    """Rows whose text looks missing (NaN, null, blank), and was answered as it is."""
    errors: tuple[RobertaHubError, ...] = field(default=(), repr=False)
    """Errors of the first rows without an answer, with file and row."""
    seconds: float = 0.0
    in_process: bool = False
    """Whether this process did the units itself."""
    why_in_process: str = ""
    """Why it did, "workers would take longer to start" say; "": it did not."""

    def report(self) -> Shown:
        """Build what is shown, on every face."""
        rate = sum(unit.rows for unit in self.done) / max(self.seconds, 1e-9)
        text = f"{self.target}: {self.units - self.left} of {self.units} units, {self.rows:,} rows"
        text += f"; {len(self.done)} units in {self.seconds:,.0f} s, {rate:,.0f} rows/s"
        text += f", in this process: {self.why_in_process}" if self.in_process else ""
        if self.faults:
            text += f"; {row_count(self.faults)} without an answer"
            text += f", {self.missing:,} of them without a text" if self.missing else ""
        if self.words:
            text += f"; {row_count(self.words)} whose text looks missing (NaN, null, blank)"
        return Shown(self.target, [said(text)])


@dataclass(frozen=True)
class Status:
    """Progress of a lake."""

    target: str
    units: int
    done: int
    """Units with a file; it is checked at the end."""
    failed: tuple[str, ...]
    """The last error of each unit without a file."""
    finished: bool
    """Whether every file was checked and `_SUCCESS` exists."""

    @property
    def left(self) -> int:
        """Units without a file."""
        return self.units - self.done

    def __str__(self) -> str:
        text = f"{self.target}: {self.done} of {self.units} units done, {self.left} left"
        text += f", {len(self.failed)} failed" if self.failed else ""
        return text + (", finished" if self.finished else "")


def folder_of(path: str) -> str:
    """Folder of the units' files: the target, or TARGET.units for one file.

    Example:
        >>> folder_of("out"), folder_of("out.parquet")
        ('out', 'out.parquet.units')
    """
    if not is_one_file(path):
        return path
    parent, name = os.path.split(path)
    if len(os.fsencode(name)) > LONGEST_NAME_BYTES - len(".units"):
        name = short_name(name)
    return os.path.join(parent, f"{name}.units")


def is_one_file(path: str) -> bool:
    """Whether a target is one file."""
    return path.lower().endswith(ONE_FILE_ENDINGS)


def status(target: object) -> Status:
    """Read the progress of a lake from its folder, without loading a model."""
    system, path = find_filesystem(target, "target")
    folder = folder_of(path)
    plan = load(system, folder)
    if plan is None:
        if is_one_file(path) and (merged := merged_note(path, None)) is not None:
            return Status(path, merged[1], merged[1], (), True)
        raise InputError(f"{folder}: no lake was begun here")
    names = list_files(system, folder)
    there = {unit.number for unit in plan.units if file_name(plan.fingerprint, unit) in names}
    notes = read_json_file(system, f"{folder}/{FAILED_FILE}")
    failed = [why for number, why in notes.items() if number not in set(map(str, there))]
    finished = SUCCESS_FILE in names and len(there) == len(plan.units)
    return Status(folder, len(plan.units), len(there), tuple(failed), finished)
