"""Runs the units of a lake in the test's own process, where a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from roberta_hub.scale.units import WorkUnit
    from roberta_hub.scale.work import Done, Job, SchedulerOptions


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The units that are done, in this process."""
    from roberta_hub.scale import processes
    from roberta_hub.scale.work import do_unit

    numbers: list[int] = []

    def run_units(
        job: Job, units: Sequence[WorkUnit], schedule: SchedulerOptions
    ) -> Iterator[Done]:
        for unit in units:
            numbers.append(unit.number)
            yield do_unit(job, unit)

    monkeypatch.setattr(processes, "run_units", run_units)
    return numbers
