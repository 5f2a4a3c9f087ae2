"""Small sentence encoders, and lakes that run in the test's own process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from indexed import write_encoder

if TYPE_CHECKING:
    from roberta_hub.scale.units import WorkUnit
    from roberta_hub.scale.work import Done, Job, SchedulerOptions


@pytest.fixture
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from roberta_hub.scale import processes
    from roberta_hub.scale.work import do_unit

    def run_units(
        job: Job, units: Sequence[WorkUnit], schedule: SchedulerOptions
    ) -> Iterator[Done]:
        for unit in units:
            yield do_unit(job, unit)

    monkeypatch.setattr(processes, "run_units", run_units)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("other"), seed=1)
