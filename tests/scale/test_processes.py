"""Lakes in worker processes of this machine: whatever is killed, the same files come of it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("pyarrow")

from lakes import (
    TEXT,
    bytes_of,
    drive,
    pairs,
    parts,
    report_of,
    until,
    write_model,
    write_rows,
)
from odd_verbs import Deadly, Killed, KilledAfter, Stuck

from roberta_hub.errors import LakeError, RobertaHubError
from roberta_hub.scale import Verb, lake, processes
from roberta_hub.scale.units import WorkUnit
from roberta_hub.scale.work import Done, Job, SchedulerOptions, do_unit

ROWS, UNIT = 300, 25
pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("source") / "in.jsonl", pairs(ROWS))


def alone(job: Job, units: Sequence[WorkUnit], schedule: SchedulerOptions) -> Iterator[Done]:
    """An engine of no other process."""
    return (do_unit(job, unit) for unit in units)


@pytest.fixture(scope="module")
def clean(model: Path, source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What nobody disturbed, done in this process."""
    target = tmp_path_factory.mktemp("clean") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "run_units", alone)
        lake(source, target, Verb("classify", model, text=TEXT, threads=1), unit_rows=UNIT)
    return bytes_of(target)


def workers(driver: int | None = None) -> list[psutil.Process]:
    """The worker processes of a driver; None: of any, orphans too."""
    everybody = psutil.process_iter() if driver is None else psutil.Process(driver).children()
    found = []
    for process in everybody:
        try:
            if any("scale.processes" in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize(
    ("kind", "said"), [(Killed, ROWS // UNIT), (KilledAfter, ROWS // UNIT - 1)]
)
def test_a_killed_worker_changes_nothing(
    kind: type[Verb],
    said: int,
    tmp_path: Path,
    model: Path,
    source: Path,
    clean: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KILLED_ONCE", str(tmp_path / "killed"))
    target = tmp_path / "out"
    verb = kind("classify", model, text=TEXT, threads=1)
    report = lake(source, target, verb, unit_rows=UNIT, workers=2)
    assert (tmp_path / "killed").exists()
    assert (report.rows, report.left, report.failed) == (ROWS, 0, ())
    # Who tries a unit again finds the file of a worker that was killed after it: no work is done.
    assert len(report.done) == said
    assert bytes_of(target) == clean
    assert workers(os.getpid()) == []


def test_a_unit_that_kills_its_worker_three_times_is_left(tmp_path: Path, model: Path) -> None:
    rows = pairs(60)
    rows[5]["premise"] = "kill me"
    source = write_rows(tmp_path / "in.jsonl", rows)
    verb = Deadly("classify", model, text=TEXT, threads=1)
    with pytest.raises(
        LakeError, match=r"1 of 3 units.*rows 1 to 20 was killed by signal 9"
    ) as end:
        lake(source, tmp_path / "out", verb, unit_rows=20, workers=1)
    assert [done.unit for done in end.value.report.failed] == [0]
    assert len(bytes_of(tmp_path / "out")) == 2
    assert workers(os.getpid()) == []


def test_a_stopped_and_a_killed_driver_leave_nothing_but_whole_files(
    tmp_path: Path,
    model: Path,
    source: Path,
    clean: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = tmp_path / "out"
    told = {"source": source, "target": target, "model": model, "unit_rows": UNIT, "kind": "Slow"}
    driver = drive(**told, workers=1)
    until(lambda: len(parts(target)) >= 2 or driver.poll() is not None)
    own = workers(driver.pid)
    driver.send_signal(signal.SIGINT)
    assert driver.wait(60) != 0
    assert own and not any(process.is_running() for process in own)
    assert len(bytes_of(target)) >= 2

    before = len(parts(target))
    driver = drive(**told, workers=1)
    until(lambda: len(parts(target)) > before or driver.poll() is not None)
    own = workers(driver.pid)
    driver.kill()
    driver.wait()
    until(lambda: not any(process.is_running() for process in own), 10)
    done = {path.name: path.stat().st_mtime_ns for path in parts(target)}
    monkeypatch.setattr(processes, "run_units", alone)
    verb = Verb("classify", model, text=TEXT, threads=1)
    report = lake(source, target, verb, unit_rows=UNIT)
    assert len(report.done) == ROWS // UNIT - len(done)
    assert bytes_of(target) == clean
    assert all(
        path.stat().st_mtime_ns == done.get(path.name, path.stat().st_mtime_ns)
        for path in parts(target)
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_driver_leaves_nothing_but_whole_files(
    tmp_path: Path, model: Path, source: Path, number: int
) -> None:
    target = tmp_path / "out"
    told = {"source": source, "target": target, "model": model, "unit_rows": UNIT, "kind": "Slow"}
    driver = drive(**told, workers=1)
    until(lambda: list(target.glob(".part-*.tmp")) or driver.poll() is not None)
    own = workers(driver.pid)
    driver.send_signal(number)
    assert driver.wait(60) == -number
    until(lambda: not any(process.is_running() for process in own), 10)
    assert own and bytes_of(target) is not None  # which looks for temporary files


def test_a_worker_whose_driver_ended_while_it_started_says_nothing() -> None:
    ours, theirs = socket.socketpair()
    end, life = os.pipe()  # `life` stays open: the worker must learn it from the socket
    handles = (theirs.fileno(), end)
    worker = subprocess.Popen(
        [sys.executable, "-c", processes._START, json.dumps(sys.path), *map(str, handles)],
        pass_fds=handles,
        stderr=subprocess.PIPE,
    )
    for one in (ours, theirs):
        one.close()
    _, said = worker.communicate(timeout=60)
    os.close(end)
    os.close(life)
    assert (worker.returncode, said.decode()) == (0, "")


def test_ctrl_c_while_a_text_lake_is_planned_answers_within_a_second(
    tmp_path: Path, model: Path
) -> None:
    """The plan of this file takes much longer."""
    path = tmp_path / "in.csv"
    with open(path, "w") as file:
        file.write("premise,hypothesis\n")
        for _ in range(150):
            file.write('"A ""dog"" ran, fast.","Some animal slept."\n' * 20_000)
    driver = drive(source=path, target=tmp_path / "out", model=model)
    handles = Path(f"/proc/{driver.pid}/fd")

    def planned() -> bool:
        """It is opened for its header first, and for long to be planned."""
        for _ in range(5):
            if path not in opened(handles):
                return False
            time.sleep(0.1)
        return True

    until(lambda: planned() or driver.poll() is not None)
    assert driver.poll() is None
    before = psutil.Process(driver.pid).cpu_times()
    driver.send_signal(signal.SIGINT)
    _, status, used = os.wait4(driver.pid, 0)
    driver.returncode = os.waitstatus_to_exitcode(status)
    assert driver.returncode != 0
    # Of the processor's time: others may have the machine.
    assert used.ru_utime + used.ru_stime - before.user - before.system < 1.0
    assert not (tmp_path / "out").exists()


def opened(handles: Path) -> list[Path]:
    """The files that a process has open."""
    found = []
    with contextlib.suppress(OSError):
        for handle in handles.iterdir():
            with contextlib.suppress(OSError):
                found.append(handle.readlink())
    return found


def test_a_worker_that_cannot_start_is_said_at_once(
    tmp_path: Path, model: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_START", "raise SystemExit(7)")
    verb = Verb("classify", model, text=TEXT, threads=1)
    with pytest.raises(RobertaHubError, match="no worker can be started: it ended with status 7"):
        lake(source, tmp_path / "out", verb, unit_rows=UNIT, workers=1)


@pytest.mark.slow
def test_a_unit_that_takes_too_long_is_given_up(tmp_path: Path, model: Path) -> None:
    rows = pairs(40)
    rows[25]["premise"] = "kill me"
    source = write_rows(tmp_path / "in.jsonl", rows)
    verb = Stuck("classify", model, text=TEXT, threads=1)
    with pytest.raises(LakeError, match="rows 21 to 40 took longer than 60 s"):
        lake(source, tmp_path / "out", verb, unit_rows=20, workers=1, time_limit=60, attempts=1)
    assert len(bytes_of(tmp_path / "out")) == 1
    assert workers(os.getpid()) == []


@pytest.mark.slow
def test_two_drivers_at_once(
    tmp_path: Path, model: Path, source: Path, clean: dict[str, bytes]
) -> None:
    target = tmp_path / "out"
    told = {"source": source, "target": target, "model": model, "unit_rows": UNIT}
    both = [drive(**told, workers=2), drive(**told, workers=1)]
    for driver in both:
        report = report_of(driver)
        assert (report["rows"], report["left"], report["failed"]) == (ROWS, 0, [])
    assert bytes_of(target) == clean


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_kills_of_the_driver_at_random(
    tmp_path: Path, model: Path, source: Path, clean: dict[str, bytes]
) -> None:
    """No unit that has a file is done again, and no process outlives its driver."""
    draw = random.Random(0)
    target = tmp_path / "out"
    told = {"source": source, "target": target, "model": model, "unit_rows": UNIT, "kind": "Slow"}
    stamps: dict[str, int] = {}
    for _ in range(10):
        driver = drive(**told, workers=draw.choice([1, 2]))
        goal = min(len(stamps) + draw.randint(0, 1), ROWS // UNIT - 1)
        until(lambda: len(parts(target)) >= goal and (target / "_plan.json").exists())  # noqa: B023
        time.sleep(draw.random() * 2)
        own = workers(driver.pid)
        driver.kill()
        driver.wait()
        until(lambda: not any(process.is_running() for process in own), 10)  # noqa: B023
        now = {path.name: path.stat().st_mtime_ns for path in parts(target)}
        assert stamps.items() <= now.items()
        stamps = now
    report = report_of(drive(**told, workers=2))
    assert (report["rows"], report["left"]) == (ROWS, 0)
    assert len(report["done"]) == ROWS // UNIT - len(stamps)
    assert bytes_of(target) == clean


@pytest.mark.slow
def test_exit_status_and_a_full_disk(tmp_path: Path, model: Path) -> None:
    """A small disk of its own, where this user may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "none", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        source = write_rows(tmp_path / "in.jsonl", pairs(3000))
        told: dict[str, Any] = {"source": source, "model": model, "unit_rows": 500, "workers": 1}
        report = report_of(drive(**told, target=disk / "out"))
        assert "No space left on device" in report["error"]
        assert "the same call goes on" in report["error"]
        kept = bytes_of(disk / "out")
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        report = report_of(drive(**told, target=disk / "out"))
        assert (report["rows"], report["left"]) == (3000, 0)
        assert kept.items() <= bytes_of(disk / "out").items()
    finally:
        subprocess.run(["umount", str(disk)], check=True)
