"""A small lake is done in the caller's process: same files, same bytes, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("pyarrow")

from lakes import TEXT, bytes_of, drive, pairs, parts, report_of, until, write_model, write_rows
from odd_verbs import Slow

from roberta_hub.errors import InputError, LakeError
from roberta_hub.scale import Verb, lake, processes, status

ROWS, UNIT = 300, 50
pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def verb(model: Path) -> Verb:
    return Verb("classify", model, text=TEXT, threads=1)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = pairs(ROWS)
    rows[7]["premise"] = ""
    rows[8]["premise"] = "long " * 60
    return write_rows(tmp_path_factory.mktemp("source") / "in.csv", rows)


@pytest.fixture(scope="module")
def by_workers(
    verb: Verb, source: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, bytes], Any]:
    target = tmp_path_factory.mktemp("workers") / "out"
    with pytest.raises(LakeError) as end:
        lake(source, target, verb, unit_rows=UNIT, workers=2)
    assert str(os.getpid()) not in {who.split(":")[1] for who in by(end.value.report)}
    return bytes_of(target), manifest(target)


def by(report: Any) -> set[str]:
    return {done.worker for done in report.done}


def manifest(target: Path) -> Any:
    """What is said of a lake, without the times of its files."""
    found = json.loads((target / "_manifest.json").read_text())
    found["files"] = [(name, size, note) for name, size, _, note in found["files"]]
    return found


def test_the_same_files_and_a_line_that_says_so(
    tmp_path: Path, verb: Verb, source: Path, by_workers: tuple[dict[str, bytes], Any]
) -> None:
    with pytest.raises(LakeError, match=r"2 rows of 300 without an answer") as end:
        lake(source, tmp_path / "out", verb, unit_rows=UNIT)
    report = end.value.report
    assert {who.split(":")[1] for who in by(report)} == {str(os.getpid())}
    assert report.in_process and "in this process: workers would take longer" in str(report)
    assert (bytes_of(tmp_path / "out"), manifest(tmp_path / "out")) == by_workers
    assert status(tmp_path / "out").finished


def test_what_asks_for_workers_gets_them(tmp_path: Path, model: Path, verb: Verb) -> None:
    source = write_rows(tmp_path / "in.csv", pairs(40))
    for place, told in {"number": {"workers": 1}, "limit": {"time_limit": 300}}.items():
        report = lake(source, tmp_path / place, verb, unit_rows=20, **told)
        assert not report.in_process and "in this process" not in str(report)
        assert len(report.done) == 2
    # A second a row, measured on the first: more than a start.
    slow = Slow("classify", model, text=TEXT, threads=1)
    assert not lake(source, tmp_path / "slow", slow, unit_rows=40).in_process


def test_progress_says_what_it_waits_for(
    tmp_path: Path, verb: Verb, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_rows(tmp_path / "in.csv", pairs(40))
    lake(source, tmp_path / "by_a_worker", verb, workers=1, progress=True)
    said = capsys.readouterr().err
    assert said.index("workers start (1)") < said.index("workers load the model (1)")
    lake(source, tmp_path / "here", verb, progress=True)
    assert "in this process" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_kill_leaves_whole_files_and_workers_may_go_on(
    number: int,
    tmp_path: Path,
    model: Path,
    source: Path,
    by_workers: tuple[dict[str, bytes], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UNIT_ROWS", str(UNIT))
    target = tmp_path / "out"
    told = {"source": source, "target": target, "model": model, "unit_rows": UNIT}
    driver = drive(**told, kind="SlowUnits")
    until(lambda: len(parts(target)) >= 2 or driver.poll() is not None)
    until(lambda: list(target.glob(".part-*.tmp")) or driver.poll() is not None)
    assert not psutil.Process(driver.pid).children()
    driver.send_signal(number)
    assert driver.wait(60) in (-number, 1, 130)
    left = list(target.glob(".part-*.tmp"))
    assert bool(left) == (number == signal.SIGKILL)
    before = {path.name: path.stat().st_mtime_ns for path in parts(target)}
    assert 2 <= len(before) < ROWS // UNIT
    report = report_of(drive(**told, workers=1))
    assert (report["rows"], report["left"]) == (ROWS, 0)
    assert len(report["done"]) == ROWS // UNIT - len(before)
    assert before.items() <= {path.name: path.stat().st_mtime_ns for path in parts(target)}.items()
    assert (bytes_of(target), manifest(target)) == by_workers


def test_where_no_worker_can_be_started(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows hands no open files to a process: a lake of any size runs here."""
    monkeypatch.setattr(processes, "CAN_START", False)
    source = write_rows(tmp_path / "in.csv", pairs(40))
    slow = Slow("classify", model, text=TEXT, threads=1)
    report = lake(source, tmp_path / "slow", slow, unit_rows=20)
    assert report.in_process and len(report.done) == 2
    assert "in this process: worker processes are for Linux and macOS" in str(report)
    for place, told in {"number": {"workers": 1}, "limit": {"time_limit": 300}}.items():
        with pytest.raises(InputError, match=r"for Linux and macOS.*leave out workers= and time_"):
            lake(source, tmp_path / place, slow, unit_rows=20, **told)
