"""Does one unit: reads its rows, asks the verb, and makes one file that is whole or is not there.

Doing a unit twice makes the same bytes under the same name. So a worker may be killed at any time,
and several may do the same unit.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from roberta_hub.errors import InputError, RobertaHubError
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.layouts import Layout
from roberta_hub.scale.outputs import whole
from roberta_hub.scale.reading import Batch, read_unit
from roberta_hub.scale.sources import Source
from roberta_hub.scale.units import Unit
from roberta_hub.scale.verb import Verb, reason

NOTE = b"roberta_hub"
"""Key of a file's own note in its Parquet footer."""
GROUP = 16_384
"""Rows of a row group."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""What no further attempt mends, and no other unit escapes."""
SHOWN = 5
"""Rows at fault that a unit reports in words."""
WHOLE = ("done", "there")
"""Ends of units that have a file."""
End = Literal["done", "there", "input", "again", "stop"]


@dataclass(frozen=True)
class Job:
    """All that the units of a plan share: small, and sent to every worker."""

    source: Source
    """Without the list of its files."""
    layout: Layout
    system: Any
    """pyarrow's FileSystem of the target."""
    folder: str
    """The target, on its file system."""
    verb: Verb
    """With the number of threads."""
    digest: str
    """Of the model."""
    fingerprint: str
    """Of all that decides the answers; a unit's file is named by it."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Of the driver: it is in the names of temporary files."""


@dataclass(frozen=True)
class Done:
    """How a unit ended."""

    unit: int
    end: End
    """"done"; "there": its file was there; "input": bad input, which no second attempt mends;
    "again": another attempt may do; "stop": no unit can be done: no model, a full disk."""
    rows: int = 0
    faults: int = 0
    """Rows without an answer."""
    errors: tuple[RobertaHubError, ...] = ()
    """What is wrong; their places are files and rows."""
    seconds: float = 0.0
    cpu: float = 0.0
    """CPU seconds of the process meanwhile."""
    worker: str = ""
    """Who did it."""

    @property
    def why(self) -> tuple[str, ...]:
        """What is wrong, with file and row, in words."""
        return tuple(map(str, self.errors))


@dataclass(frozen=True)
class Schedule:
    """How an engine runs units."""

    workers: int | None
    """None: as many as the engine thinks fit."""
    time_limit: float
    """Seconds after which an attempt is given up, and its worker with it."""
    attempts: int
    """Times that a unit is begun."""
    address: str | None = None
    """Of a cluster."""


Engine = Callable[[Job, Sequence[Unit], Schedule], Generator[Done, None, None]]
"""Runs `do_unit` for each unit somewhere, and yields how each ended, once, as they end. Closing the
iterator stops the workers. An engine schedules, and nothing else; `Attempts` counts for it. Its
module has it as `run_units`, and `threads(schedule)`: how many a worker gets by default."""


class Attempts:
    """Counts how often each unit was begun in vain."""

    def __init__(self, most: int) -> None:
        """Count to a limit.

        Args:
            most: attempts that a unit has.
        """
        self._most, self._failed = most, dict[int, int]()

    def final(self, done: Done) -> Done | None:
        """Tell whether a unit is over; None: it is to be begun again.

        Args:
            done: how an attempt ended; one whose worker died is "again".

        Returns:
            How the unit ended; after the last attempt what would be "again" stays so.
        """
        if done.end != "again":
            return done
        count = self._failed[done.unit] = self._failed.get(done.unit, 0) + 1
        return done if count >= self._most else None


def died(unit: Unit, why: str) -> Done:
    """Make what an engine says of a unit whose worker is gone.

    Args:
        unit: that it was doing.
        why: "was killed by signal 9", "took longer than 60 s".
    """
    error = RobertaHubError(f"the worker of {place(unit)} {why}", place=unit.file)
    return Done(unit.number, "again", errors=(error,))


def place(unit: Unit) -> str:
    """Name the rows of a unit, for people."""
    return f"rows {unit.first} to {unit.first + max(unit.rows, 1) - 1}"


def file_name(fingerprint: str, unit: Unit) -> str:
    """Name the file of a unit's answers; it depends on nothing but the plan.

    Args:
        fingerprint: of the job.
        unit: of the plan.
    """
    what = f"{fingerprint} {unit.number} {unit.file} {unit.start} {unit.stop}"
    digest = hashlib.sha256(what.encode()).hexdigest()[:10]
    return f"part-{unit.number:06d}-{digest}.parquet"


def do_unit(job: Job, unit: Unit) -> Done:
    """Do one unit of a plan, in whatever process: this is what an engine calls.

    It raises nothing but what ends the process: how it went is in what it returns.

    Args:
        job: of the plan.
        unit: of the plan.
    """
    began, cpu = time.monotonic(), time.process_time()
    try:
        done = _checked(job, unit) or _written(job, unit)
    except RobertaHubError as error:
        done = Done(unit.number, "input", errors=(reason(error),))
    except OSError as error:
        end: End = "stop" if error.errno in _FULL else "again"
        done = Done(unit.number, end, errors=(_failed(unit, str(error.strerror or error)),))
    except Exception as error:  # of a disk, a store, a GPU: what may pass
        why = f"{type(error).__name__}: {error}"
        done = Done(unit.number, "again", errors=(_failed(unit, why),))
    return replace(
        done,
        seconds=time.monotonic() - began,
        cpu=time.process_time() - cpu,
        worker=f"{socket.gethostname()}:{os.getpid()}",
    )


def _failed(unit: Unit, why: str) -> RobertaHubError:
    return RobertaHubError(why, place=f"{unit.file}, {place(unit)}")


def _checked(job: Job, unit: Unit) -> Done | None:
    """Refuse a model that is not the plan's; None: the unit is to be done."""
    try:
        if job.verb.digest() != job.digest:
            raise InputError(
                f"this machine's {job.verb.model} is not the model of the plan: it has other "
                "weights, labels or vocabulary"
            )
        job.verb.schema()
    except RobertaHubError as error:
        return Done(unit.number, "stop", errors=(reason(error),))
    found = note_of(job, unit)
    return None if found is None else Done(unit.number, "there", found.rows, found.faults)


def _written(job: Job, unit: Unit) -> Done:
    """Read a unit, answer it batch by batch, and write its file."""
    pa = arrow()
    errors: list[RobertaHubError] = []
    count = faults = 0
    path = f"{job.folder}/{file_name(job.fingerprint, unit)}"
    schema = pa.schema([*job.layout.keep, *job.verb.schema()])
    note = {"unit": unit.number, "fingerprint": job.fingerprint}
    try:
        with (
            whole(job.system, path, job.run) as sink,
            pa.parquet.ParquetWriter(sink, schema, write_page_checksum=True) as writer,
        ):
            for rows in read_unit(job.source, job.layout, unit):
                found, wrong = _answered(job, unit, rows)
                for batch in found.to_batches():
                    writer.write_batch(batch, GROUP)
                count, faults = count + len(found), faults + len(wrong)
                errors += wrong[: SHOWN - len(errors)]
            note |= {"rows": count, "faults": faults}
            writer.add_key_value_metadata({NOTE: json.dumps(note)})
    except FileNotFoundError:  # a driver that found all files there has swept
        if (there := note_of(job, unit)) is None:
            raise
        return Done(unit.number, "there", there.rows, there.faults)
    return Done(unit.number, "done", count, faults, tuple(errors))


def _answered(job: Job, unit: Unit, rows: Batch) -> tuple[Any, list[InputError]]:
    """Answer some rows: (Table of what is kept and the answers, what is wrong with which)."""
    found, faults = job.verb.answers(rows.texts)
    for i, error in faults.items():
        error.within(f"{unit.file}:{rows.numbers[i]}")
    wrong = list(faults.values())
    if wrong and job.verb.errors == "raise":
        raise wrong[0]
    table = rows.kept
    for name in found.column_names:
        table = table.append_column(found.schema.field(name), found.column(name))
    return table, wrong


@dataclass(frozen=True)
class Note:
    """What the file of a unit says of itself."""

    rows: int
    faults: int


def note_of(job: Job, unit: Unit) -> Note | None:
    """Read the footer of a unit's file; None: there is no file, or it is damaged.

    Args:
        job: of the plan.
        unit: of the plan.
    """
    pa = arrow()
    path = f"{job.folder}/{file_name(job.fingerprint, unit)}"
    try:
        with job.system.open_input_file(path) as file:
            footer = pa.parquet.read_metadata(file)
        note = json.loads(footer.metadata[NOTE])
        agrees = (note["unit"], note["fingerprint"]) == (unit.number, job.fingerprint)
        if agrees and note["rows"] == footer.num_rows:
            return Note(note["rows"], note["faults"])
    except (OSError, ValueError, KeyError, TypeError):  # ArrowInvalid is a ValueError
        pass
    return None
