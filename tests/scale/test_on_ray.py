"""Lakes on a real Ray cluster of three nodes: whatever is killed, the same files come of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from engines import HERE, helper, interpreter, surroundings
from small_models import small_roberta

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS, FILES, UNIT = 240, 4, 20
pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(1200)]
Files = dict[str, bytes]


@pytest.fixture(scope="module")
def python() -> str:
    return interpreter("ray", "ray")


@pytest.fixture(scope="module")
def cluster(python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    log = tmp_path_factory.mktemp("cluster") / "log"
    with helper(python, "cluster.py", log) as found:
        yield found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    small_roberta(heads={"mnli": 3}, labels={"mnli": ("no", "maybe", "yes")}).save(folder)
    return folder


def write_pairs(folder: Path, odd: int | None = None) -> Path:
    """Rows in several files; the text of row `odd` is one that some verbs fear."""
    each = ROWS // FILES
    for k in range(FILES):
        numbers = range(k * each, (k + 1) * each)
        columns = {
            "id": list(numbers),
            "premise": ["kill me" if n == odd else f"A dog ran {n} miles." for n in numbers],
            "hypothesis": [f"Some animal was at {n % 7}." for n in numbers],
        }
        pq.write_table(pa.table(columns), folder / f"{k}.parquet")
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("source"))


@pytest.fixture
def start(
    python: str, cluster: dict[str, Any], model: Path, source: Path, tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a driver; those that a test leaves are killed."""
    begun = []

    def run(target: Path, **told: Any) -> subprocess.Popen[str]:
        told = {"source": str(source), "model": str(model), "unit_rows": UNIT, **told}
        if told.setdefault("engine", "ray") == "ray":
            told["address"] = cluster["address"]
        with open(tmp_path / f"driver{len(begun)}.log", "w") as log:
            process = subprocess.Popen(
                [python, str(HERE / "drive.py"), json.dumps({**told, "target": str(target)})],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=surroundings(),
            )
        begun.append(process)
        return process

    yield run
    for process in begun:
        process.kill()
        process.wait()


def report_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = process.communicate()
    lines = [line for line in said.splitlines() if line.startswith("REPORT ")]
    assert lines, said[-3000:]  # Ray writes there too
    return json.loads(lines[-1].removeprefix("REPORT "))


def files_of(target: Path) -> Files:
    assert not [path for path in target.iterdir() if path.name.endswith(".tmp")]
    return {path.name: path.read_bytes() for path in sorted(target.glob("part-*"))}


@pytest.fixture(scope="module")
def clean(
    python: str, model: Path, source: Path, tmp_path_factory: pytest.TempPathFactory
) -> Files:
    """What the other engine makes, undisturbed."""
    target = tmp_path_factory.mktemp("clean") / "out"
    told = {"source": str(source), "target": str(target), "model": str(model), "workers": 1}
    subprocess.run(
        [python, str(HERE / "drive.py"), json.dumps({**told, "unit_rows": UNIT})],
        env=surroundings(),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    found = files_of(target)
    assert len(found) == ROWS // UNIT
    return found


def until(true: Callable[[], Any], seconds: float = 300) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s")


def workers(cluster: dict[str, Any]) -> list[psutil.Process]:
    """The processes on the cluster that hold a worker of a lake."""
    found = []
    for raylet in cluster["raylets"]:
        if psutil.pid_exists(raylet):
            for child in psutil.Process(raylet).children():
                try:
                    if child.cmdline()[:1] and child.cmdline()[0].startswith("ray::Worker"):
                        found.append(child)
                except psutil.Error:
                    pass
    return found


def some(target: Path, count: int) -> Callable[[], bool]:
    return lambda: len(list(target.glob("part-*"))) >= count


def test_an_engine_is_as_good_as_another(
    python: str, cluster: dict[str, Any], model: Path, source: Path, tmp_path: Path
) -> None:
    """What the shell began on one it goes on with on the other, with any number of workers."""
    target = tmp_path / "out"
    command = [python, "-m", "roberta_hub", "classify", "-m", str(model), "-i", str(source)]
    command += ["-c", "premise,hypothesis", "-o", f"{target}/", "--unit-rows", str(UNIT)]

    def run(*more: str) -> Files:
        ran = subprocess.run([*command, *more], env=surroundings(), capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        units = ROWS // UNIT
        assert f"{units} of {units} units, {ROWS} rows" in ran.stderr
        return files_of(target)

    found = run("--engine", "ray", "--address", cluster["address"])
    for name in [*found][::2]:
        (target / name).unlink()
    assert run("--workers", "2") == found


def test_a_machine_that_comes_gets_a_worker(
    start, python: str, cluster, source: Path, tmp_path: Path
) -> None:
    driver = start(tmp_path / "out", kind="Slow", unit_rows=1)
    until(some(tmp_path / "out", 1))
    command = [python, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1"]
    command += [f"--address={cluster['address']}", f"--object-store-memory={80 << 20}"]
    with open(tmp_path / "joined.log", "w") as log:
        joined = subprocess.Popen(command, env=surroundings(), stdout=log, stderr=log)
    try:
        report = report_of(driver)
    finally:
        joined.terminate()
        joined.wait()
    assert (report["rows"], report["left"]) == (ROWS, 0)
    assert len({worker for _, worker in report["done"]}) == 4  # one each, and none twice


def test_a_killed_worker_costs_its_unit(start, cluster, clean: Files, tmp_path: Path) -> None:
    target = tmp_path / "out"
    driver = start(target, kind="Slow")
    until(some(target, 3))
    victim = workers(cluster)[0]
    victim.kill()
    report = report_of(driver)
    assert (report["left"], report["failed"]) == (0, [])
    assert files_of(target) == clean
    assert len({worker for _, worker in report["done"]}) >= 2


def test_a_killed_driver_leaves_nothing_and_goes_on(
    start, cluster, clean: Files, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    driver = start(target, kind="Slow")
    until(some(target, 4))
    driver.kill()
    driver.wait()
    until(lambda: not workers(cluster), 10)
    there = {path.name: path.stat().st_mtime_ns for path in target.glob("part-*")}
    report = report_of(start(target))
    assert len(report["done"]) == len(clean) - len(there)
    assert files_of(target) == clean
    assert there.items() <= {p.name: p.stat().st_mtime_ns for p in target.glob("part-*")}.items()


def test_two_drivers_at_once_do_no_harm(start, clean: Files, tmp_path: Path) -> None:
    drivers = [start(tmp_path / "out", kind="Slow") for _ in range(2)]
    for driver in drivers:
        report = report_of(driver)
        assert (report["rows"], report["left"], report["failed"]) == (ROWS, 0, [])
    assert files_of(tmp_path / "out") == clean


def test_workers_start_where_others_hold_every_cpu(
    start, python: str, cluster, clean: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster["address"])
    with helper(python, "holding.py", tmp_path / "holding.log") as left:
        assert left == 0
        report = report_of(start(tmp_path / "out"))
    assert (report["rows"], report["left"]) == (ROWS, 0)
    assert files_of(tmp_path / "out") == clean


@pytest.mark.parametrize(
    ("kind", "told", "why"),
    [
        ("Deadly", {"attempts": 3}, "died on "),
        ("Stuck", {"attempts": 1, "time_limit": 60}, "took longer than 60 s"),
    ],
)
def test_a_unit_that_ends_its_workers_is_left_and_named(
    start, cluster, clean: Files, tmp_path: Path, kind: str, told: dict[str, Any], why: str
) -> None:
    odd = 130  # of the third file, in its unit of rows 1 to 20
    (tmp_path / "odd").mkdir()
    source = write_pairs(tmp_path / "odd", odd)
    report = report_of(start(tmp_path / "out", source=str(source), kind=kind, **told))
    assert len(report["done"]) == len(clean) - 1
    (said,) = report["failed"]
    assert "2.parquet" in said and "rows 1 to 20" in said and why in said
    found = files_of(tmp_path / "out")
    assert len(found) == len(clean) - 1
    assert not [name for name in found if name.startswith("part-000006")]
    until(lambda: not workers(cluster), 10)


def test_workers_that_start_nowhere_end_the_run(start, tmp_path: Path) -> None:
    """Long before the run would stop waiting for a machine or a GPU to become free."""
    report = report_of(start(tmp_path / "out", kind="Unloadable"))
    assert "no worker starts on the Ray cluster: " in report["error"]
    assert "no module of that name on this machine" in report["error"]


def test_a_machine_that_goes_takes_nothing_along(
    start, cluster, clean: Files, tmp_path: Path
) -> None:
    """The last of the file: the cluster is smaller afterwards."""
    target = tmp_path / "out"
    driver = start(target, kind="Slow")
    until(some(target, 3))
    os.kill(cluster["raylets"][-1], signal.SIGKILL)
    report = report_of(driver)
    assert (report["rows"], report["left"], report["failed"]) == (ROWS, 0, [])
    assert files_of(target) == clean
