"""benchmarks/results/everyday is of the programs that stand in benchmarks/lib/everyday_code.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from lib.everyday_code import HF, JOBS, NOT_RUN, OURS, SPACY, ST, lines  # noqa: E402

FIT = "A classifier of one's own"


def test_eight_jobs_each_with_every_library_or_a_reason() -> None:
    assert len(JOBS) == 8
    for job, programs in JOBS.items():
        assert next(iter(programs)) == OURS
        for library in (OURS, HF, ST, SPACY):
            assert (library in programs) != (library in NOT_RUN.get(job, {})), (job, library)
        for program in programs.values():
            compile(program, job, "exec")
        assert lines(programs[OURS]) == min(map(lines, programs.values())), job


@pytest.fixture(scope="module")
def measured() -> Any:
    path = ROOT / "benchmarks/results/everyday.json"
    if not path.is_file():
        pytest.skip("benchmarks/everyday.py was not run yet")
    return json.loads(path.read_text(encoding="utf-8"))["jobs"]


def test_what_was_measured_is_what_stands_there(measured: Any) -> None:
    assert {job: list(of) for job, of in measured.items()} == {
        job: list(programs) for job, programs in JOBS.items()
    }
    for job, of in measured.items():
        for library, one in of.items():
            assert one["program"] == JOBS[job][library].lstrip()


def test_ours_answer_and_keep_quiet(measured: Any) -> None:
    for job, of in measured.items():
        assert of[OURS]["code"] == 0 and of[OURS]["stdout"], job
        assert of[OURS]["stderr"] == "" or job == FIT, job  # which warns of odd rows
