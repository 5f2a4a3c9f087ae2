"""Does the units of a small lake in this process, where workers would take longer to start.

What a worker's start costs was measured: `START_SECONDS`. What the rows take is measured each time,
on some of them, since it grows with the model, the verb, the texts and the machine.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Generator, Sequence

from roberta_hub.scale.reading import read_unit
from roberta_hub.scale.units import WorkUnit
from roberta_hub.scale.work import TIME_LIMIT, Attempts, Done, Job, SchedulerOptions, do_unit

START_SECONDS = 4.0
"""What a worker's start costs: Python, torch and the model. Measured, in CPU seconds: 3.0 with
roberta.tiny, 3.6 with a model of 125 million parameters, 5.0 with one of 356 million."""
ONE_WORKER_STARTS = 10
"""Starts that the rows must take before a single worker is started. It is never faster than this
process, but it can be stopped and replaced; its start is then at most a tenth of the time."""
MOST_ROWS = 50_000
"""Rows that are never few, whatever they take."""
MOST_BYTES = 64_000_000
"""Bytes of unpacked text that are never few either: the first rows alone may take long to read."""
SAMPLE_ROWS = 32
SAMPLE_SECONDS = 0.25
"""Seconds that a measurement takes, if so many rows do; then it is not of the clock's own noise."""


def is_small(job: Job, units: Sequence[WorkUnit], schedule: SchedulerOptions, workers: int) -> bool:
    """Whether this process does some units sooner than workers that must start first."""
    if schedule.workers is not None or schedule.time_limit < TIME_LIMIT:
        return False
    if sum(unit.rows for unit in units) > MOST_ROWS:
        return False
    # A unit of Parquet is a range of rows.
    if sum(unit.stop - unit.start for unit in units) > MOST_BYTES:
        return False
    return _seconds_of(job, units) < START_SECONDS * repaid_starts(min(workers, len(units)))


def repaid_starts(workers: int) -> float:
    """How many times a worker's start the rows must take for workers to repay it.

    They start at the same time, and each does its share: with n of them a run ends after
    start + rows / n.

    Example:
        >>> repaid_starts(1), repaid_starts(2), repaid_starts(8)
        (10, 2.0, 1.1428571428571428)
    """
    return ONE_WORKER_STARTS if workers == 1 else workers / (workers - 1)


def run_units(
    job: Job, units: Sequence[WorkUnit], schedule: SchedulerOptions
) -> Generator[Done, None, None]:
    """Do units in this process; see `work.Scheduler`."""
    attempts = Attempts(schedule.attempts)
    schedule.tell("in this process")
    for unit in units:
        final = None
        while final is None:
            with _silent():
                done = do_unit(job, unit)
            final = attempts.final(done)
        yield final


def _silent() -> warnings.catch_warnings:
    """Leave out what verbs warn of, as workers do: the report counts rows."""
    return warnings.catch_warnings(action="ignore")


def _seconds_of(job: Job, units: Sequence[WorkUnit]) -> float:
    """Estimate how long the rows take here, from some of the first unit."""
    rows = sum(unit.rows for unit in units)
    try:
        with _silent():
            first = next(read_unit(job.source, job.source_schema, units[0]), None)
            texts = [row for row in first.texts if isinstance(row, (str, tuple))] if first else []
            job.verb.schema()  # loads the model, and answers for the first time
            count = 1
            while True:
                sample = texts[:: max(1, len(texts) // count)][:count]
                began = time.monotonic()
                job.verb.answers(sample)
                seconds = time.monotonic() - began
                if seconds > SAMPLE_SECONDS or count >= min(len(texts), SAMPLE_ROWS):
                    return seconds / count * rows
                count *= 2
    except Exception:  # a file, a model or a GPU: the unit that reads it says what is wrong
        return float("inf")
