"""Does one unit: reads its rows, runs the verb, and writes one file atomically.

A unit always makes the same bytes under the same name, so workers may be killed at any time, and
several may do the same unit.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

from roberta_hub.errors import InputError, Remedy, RobertaHubError, sentence
from roberta_hub.files import DISK_ERRORS, reason_of
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.outputs import write_whole
from roberta_hub.scale.reading import RowBatch, read_unit
from roberta_hub.scale.source_schema import SourceSchema
from roberta_hub.scale.sources import LakeSource
from roberta_hub.scale.units import WorkUnit
from roberta_hub.scale.verb import Verb, reason
from roberta_hub.verbs.unanswered import ERRORS_SHOWN

FOOTER_KEY = b"roberta_hub"
"""Key of our metadata in a Parquet footer."""
ROW_GROUP_ROWS = 16_384
"""Rows per row group."""
TIME_LIMIT = 4 * 3600
"""Seconds that an attempt at a unit may take, unless the caller says otherwise."""
ENDS_WITH_FILE = ("done", "there")
"""Ends of units with a file."""
End = Literal["done", "there", "input", "again", "stop"]


@dataclass(frozen=True)
class Job:
    """Settings that the units of a plan share; small, and sent to every worker."""

    source: LakeSource
    """The source without its list of files."""
    source_schema: SourceSchema
    system: Any
    """pyarrow's FileSystem of the target."""
    folder: str
    """Path of the target on its file system."""
    verb: Verb
    """The verb, with its number of threads."""
    digest: str
    """Digest of the model."""
    fingerprint: str
    """Hash of the plan's settings; part of the names of the units' files."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Id of the driver, part of the names of temporary files."""


@dataclass(frozen=True)
class Done:
    """Result of a unit."""

    unit: int
    end: End
    """"done"; "there": it had a file; "input": bad input, not worth a retry; "again": worth a
    retry; "stop": no unit can be done (no model, a full disk)."""
    rows: int = 0
    faults: int = 0
    """Rows without an answer."""
    missing: int = 0
    """Rows among them without a text."""
    words: int = 0
    """Rows whose text looks missing, and was answered."""
    errors: tuple[RobertaHubError, ...] = ()
    """Errors, whose places are files and rows."""
    seconds: float = 0.0
    cpu: float = 0.0
    """CPU seconds of the process."""
    worker: str = ""
    """host:pid of the worker."""

    @property
    def why(self) -> tuple[str, ...]:
        """Messages of the errors, with file and row."""
        return tuple(map(str, self.errors))


@dataclass(frozen=True)
class SchedulerOptions:
    """Options of a scheduler."""

    workers: int | None
    """Number of workers; None: the scheduler's default."""
    time_limit: float
    """Seconds after which an attempt, and its worker, is stopped."""
    attempts: int
    """Most attempts at a unit."""
    address: str | None = None
    """Address of a cluster."""
    tell: Callable[[str], object] = lambda text: None
    """Shows what the run waits for, or where it works; "": the rows speak for themselves."""


Scheduler = Callable[[Job, Sequence[WorkUnit], SchedulerOptions], Generator[Done, None, None]]
"""Runs `do_unit` for each unit in some worker, and yields each result as it is ready. Closing the
iterator stops the workers. `Attempts` counts retries for it. Its module calls it `run_units`, and
has `threads(schedule)`, the default number of threads of a worker."""


class Attempts:
    """Counts the failed attempts of each unit."""

    def __init__(self, most: int) -> None:
        """Set the limit."""
        self._most, self._failed = most, dict[int, int]()

    def final(self, done: Done) -> Done | None:
        """Return the result of a unit, or None for another attempt."""
        if done.end != "again":
            return done
        count = self._failed[done.unit] = self._failed.get(done.unit, 0) + 1
        return done if count >= self._most else None


def died(unit: WorkUnit, why: str) -> Done:
    """Return the result of a unit whose worker died."""
    error = RobertaHubError(f"the worker of {place(unit)} {why}", place=unit.file)
    return Done(unit.number, "again", errors=(error,))


def place(unit: WorkUnit) -> str:
    """Describe the rows of a unit, for messages."""
    return f"rows {unit.first} to {unit.first + max(unit.rows, 1) - 1}"


def file_name(fingerprint: str, unit: WorkUnit) -> str:
    """Name of a unit's file, a function of the plan alone."""
    what = f"{fingerprint} {unit.number} {unit.file} {unit.start} {unit.stop}"
    digest = hashlib.sha256(what.encode()).hexdigest()[:10]
    return f"part-{unit.number:06d}-{digest}.parquet"


def do_unit(job: Job, unit: WorkUnit) -> Done:
    """Do one unit of a plan; schedulers call it, in any process.

    Errors are returned in the result; only exceptions that end the process are raised.
    """
    began, cpu = time.monotonic(), time.process_time()
    try:
        done = _find_finished(job, unit) or _write_unit(job, unit)
    except RobertaHubError as error:
        done = Done(unit.number, "input", errors=(reason(error),))
    except OSError as error:
        end: End = "again"
        failed = _failed(unit, str(error.strerror or error))
        if error.errno in DISK_ERRORS:  # which every unit would meet
            failed, end = RobertaHubError(reason_of(error), place=job.folder), "stop"
        done = Done(unit.number, end, errors=(failed,))
    except Exception as error:  # of a disk, a store or a GPU: perhaps transient
        why = f"{type(error).__name__}: {error}"
        done = Done(unit.number, "again", errors=(_failed(unit, why),))
    return replace(
        done,
        seconds=time.monotonic() - began,
        cpu=time.process_time() - cpu,
        worker=this_worker(),
    )


def this_worker() -> str:
    """Return host:pid of this process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _failed(unit: WorkUnit, why: str) -> RobertaHubError:
    return RobertaHubError(why, place=f"{unit.file}, {place(unit)}")


def _find_finished(job: Job, unit: WorkUnit) -> Done | None:
    """Check the model against the plan's, and look for the unit's file; None: do the unit."""
    try:
        if job.verb.digest() != job.digest:
            raise InputError(
                f"this machine's {job.verb.model} is not the model of the plan: it has other "
                "weights, labels or vocabulary"
            )
        job.verb.schema()
    except RobertaHubError as error:
        return Done(unit.number, "stop", errors=(reason(error),))
    found = read_footer(job, unit)
    return None if found is None else _there(unit, found)


def _there(unit: WorkUnit, note: FooterNote) -> Done:
    """Return the result of a unit that has a file."""
    counts = (note.rows, note.faults, note.missing, note.words)
    return Done(unit.number, "there", *counts, note.errors)


def _write_unit(job: Job, unit: WorkUnit) -> Done:
    """Read a unit, answer it batch by batch, and write its file."""
    pa = arrow()
    errors: list[RobertaHubError] = []
    count = faults = 0
    left = LeftOut()
    path = f"{job.folder}/{file_name(job.fingerprint, unit)}"
    schema = pa.schema([*job.source_schema.keep, *job.verb.schema()])
    note: dict[str, Any] = {"unit": unit.number, "fingerprint": job.fingerprint}
    try:
        with (
            write_whole(job.system, path, job.run) as sink,
            pa.parquet.ParquetWriter(sink, schema, write_page_checksum=True) as writer,
        ):
            for rows in read_unit(job.source, job.source_schema, unit):
                found, wrong = _answer_rows(job, unit, rows)
                for number, row in zip(rows.numbers, rows.texts, strict=True):
                    left.has(row, number)
                for batch in found.to_batches():
                    writer.write_batch(batch, ROW_GROUP_ROWS)
                count, faults = count + len(found), faults + len(wrong)
                errors += wrong[: ERRORS_SHOWN - len(errors)]
            found_in_all = FooterNote(count, faults, left.missing, left.words.rows, tuple(errors))
            note |= found_in_all.saved()
            writer.add_key_value_metadata({FOOTER_KEY: json.dumps(note)})
    except FileNotFoundError:  # another driver finished the lake and swept
        if (there := read_footer(job, unit)) is None:
            raise
        return _there(unit, there)
    return Done(unit.number, "done", count, faults, left.missing, left.words.rows, tuple(errors))


def _answer_rows(job: Job, unit: WorkUnit, rows: RowBatch) -> tuple[Any, list[InputError]]:
    """Answer some rows: (Table of kept columns and answers, errors of rows)."""
    found, faults = job.verb.answers(rows.texts)
    for i, error in faults.items():
        error.within(f"{unit.file}:{rows.numbers[i]}")
    wrong = list(faults.values())
    table = rows.kept
    for name in found.column_names:
        table = table.append_column(found.schema.field(name), found.column(name))
    return table, wrong


@dataclass(frozen=True)
class FooterNote:
    """Our metadata in the footer of a unit's file; see `Done`."""

    rows: int
    faults: int
    missing: int = 0
    words: int = 0
    errors: tuple[RobertaHubError, ...] = ()
    """Errors of the first rows without an answer, with file and row."""

    def saved(self) -> dict[str, Any]:
        """Return the note as JSON's values."""
        errors = [
            (sentence(e.what, e.place), *((e.remedy.python, e.remedy.shell) if e.remedy else ()))
            for e in self.errors
        ]
        return {**vars(self), "errors": errors}

    @classmethod
    def read(cls, note: Mapping[str, Any]) -> FooterNote:
        """Read what a footer says."""
        rows, faults = int(note["rows"]), int(note["faults"])
        errors = tuple(
            InputError(what, remedy=Remedy(*remedy) if remedy else None)
            for what, *remedy in note["errors"]
        )
        return cls(rows, faults, int(note["missing"]), int(note["words"]), errors)


def read_footer(job: Job, unit: WorkUnit) -> FooterNote | None:
    """Read the footer of a unit's file; None if the file is missing or damaged."""
    pa = arrow()
    path = f"{job.folder}/{file_name(job.fingerprint, unit)}"
    try:
        with job.system.open_input_file(path) as file:
            footer = pa.parquet.read_metadata(file)
        note = json.loads(footer.metadata[FOOTER_KEY])
        agrees = (note["unit"], note["fingerprint"]) == (unit.number, job.fingerprint)
        if agrees and note["rows"] == footer.num_rows:
            return FooterNote.read(note)
    except (OSError, ValueError, KeyError, TypeError):  # ArrowInvalid is a ValueError
        pass
    return None


def total(notes: Iterable[FooterNote]) -> FooterNote:
    """Add the counts of units; of their errors the first are kept."""
    every = list(notes)
    return FooterNote(
        sum(note.rows for note in every),
        sum(note.faults for note in every),
        sum(note.missing for note in every),
        sum(note.words for note in every),
        tuple(islice((error for note in every for error in note.errors), ERRORS_SHOWN)),
    )
