"""Verbs that behave as lakes fear, for workers of any engine: they answer as a plain Verb does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roberta_hub.scale import Verb, processes
from roberta_hub.scale.units import WorkUnit
from roberta_hub.scale.work import Done, Job, do_unit


class Slow(Verb):
    """Takes a while for each batch, so that a test can kill what is at work."""

    def answers(self, rows: Sequence[Any]) -> Any:
        time.sleep(1.0)
        return super().answers(rows)


class SlowUnits(Verb):
    """Takes a while for each unit, and none for the few rows by which a run is measured."""

    def answers(self, rows: Sequence[Any]) -> Any:
        time.sleep(1.0 if len(rows) == int(os.environ["UNIT_ROWS"]) else 0.0)
        return super().answers(rows)


class Deadly(Verb):
    """Kills its process at a text that says so, as a crash in native code does."""

    def answers(self, rows: Sequence[Any]) -> Any:
        if "kill me" in str(rows):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().answers(rows)


class Killed(Verb):
    """Kills the first worker that answers, in the middle of its first unit."""

    def answers(self, rows: Sequence[Any]) -> Any:
        kill_once()
        return super().answers(rows)


class KilledAfter(Verb):
    """Kills the first worker that ends its second unit: the file is there, and nobody says so."""

    def answers(self, rows: Sequence[Any]) -> Any:
        processes.do_unit = _do_unit_and_die
        return super().answers(rows)


def _do_unit_and_die(job: Job, unit: WorkUnit) -> Done:
    done = do_unit(job, unit)
    kill_once()
    return done


def kill_once() -> None:
    """Kill this process, unless an earlier one was killed here."""
    try:
        Path(os.environ["KILLED_ONCE"]).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


class Stuck(Verb):
    """Never answers a text that says so."""

    def answers(self, rows: Sequence[Any]) -> Any:
        if "kill me" in str(rows):
            time.sleep(3600)
        return super().answers(rows)


class Unloadable(Verb):
    """Cannot be unpickled, as where a worker lacks a package that the driver has."""

    def __setstate__(self, state: Any) -> None:
        raise ImportError("no module of that name on this machine")
