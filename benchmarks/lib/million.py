"""Runs one million pairs through a lake that is killed twice at random, and checks what came of it.

All that is known stands in FOLDER/million.json, so the same call resumes after a crash.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from lib.pairs import Watch, write_pairs
from lib.report import about, write

UNIT_ROWS = 50_000
CLEAN_ROWS = 200_000
"""Rows that are done again by a run that nobody disturbs."""
FIRST = 50_000
"""Rows after which memory is flat."""
KILLS = 2
DRIVE = """
import json, sys
from pathlib import Path
from lake import verb
from roberta_hub.scale import lake
source, target, workers, unit = json.loads(sys.argv[1])
lake(source, target, verb("int8"), workers=workers, unit_rows=unit, progress=False)
"""
CLEAN = """
import dataclasses, json, sys
from pathlib import Path
from lake import verb
from roberta_hub.scale import plan
from roberta_hub.scale.sources import find, located
from roberta_hub.scale.work import do_unit
source, target, folder, count = json.loads(sys.argv[1])
system, place = located(target, "target")
made = plan.load(system, place)
job = dataclasses.replace(made.job(find(source), system, place, verb("int8")), folder=folder)
for unit in made.units[:count]:
    done = do_unit(job, unit)
    assert done.end in ("done", "there"), done
"""


def million(folder: Path, rows: int, workers: int) -> None:
    """Run, kill, resume, compare, and write the page."""
    folder.mkdir(parents=True, exist_ok=True)
    source, target = folder / "pairs.parquet", folder / "out"
    if not source.exists():
        write_pairs(source, rows)
    unit = min(UNIT_ROWS, max(1, rows // 20))
    count = -(-rows // unit)
    draw = random.Random(time.time_ns())
    state = _read(folder) or {
        "kills": sorted(draw.sample(range(1, count - 1), KILLS)),
        "killed": [],
        "seconds": 0.0,
        "cpu": 0.0,
        "memory": [],
    }
    while not (target / "_SUCCESS").exists():
        _drive(state, folder, source, target, workers, unit)
    clean = folder / "clean"
    clean.mkdir(exist_ok=True)
    units = -(-min(CLEAN_ROWS, rows) // unit)
    _python(CLEAN, [str(source), str(target), str(clean), units])
    equal = [
        (clean / path.name).read_bytes() == path.read_bytes()
        for path in sorted(target.glob("part-*"))[:units]
    ]
    state["equal"] = f"{sum(equal)} of {units} files, byte for byte"
    ids = [n for path in sorted(target.glob("part-*")) for n in _ids(path)]
    state["rows"], state["in order"] = len(ids), ids == list(range(rows))
    _report(state, rows, workers)


def _drive(
    state: dict[str, Any], folder: Path, source: Path, target: Path, workers: int, unit: int
) -> None:
    """Run the lake until it ends, or until as many files are there as the next kill waits for."""
    began = time.perf_counter()
    left = state["kills"][len(state["killed"]) :]
    process = _start(DRIVE, [str(source), str(target), workers, unit])
    watch = Watch(process.pid)
    while process.poll() is None:
        time.sleep(1)
        there = len(list(target.glob("part-*")))
        if left and there >= left[0]:
            process.kill()
            state["killed"].append(there)
            break
    process.wait()
    taken = watch.stop()
    state["seconds"] += time.perf_counter() - began
    state["cpu"] += taken["cpu"]
    state["memory"] += _memory(watch, target)
    (folder / "million.json").write_text(json.dumps(state))
    if process.returncode and not left:
        raise SystemExit(f"the driver ended with status {process.returncode}; call again to resume")


def _memory(watch: Watch, target: Path) -> list[dict[str, float]]:
    """Of each worker: MB when the first file of this run was there, and the most behind it."""
    times = sorted(path.stat().st_mtime for path in target.glob("part-*"))
    found = []
    for seen in watch.resident.values():
        first = next((at for at in times if at > seen[0][0]), None)
        before = [size for at, size in seen if first is not None and at <= first]
        after = [size for at, size in seen if first is not None and at > first]
        if before and after:
            found.append({"first": before[-1] / 1e6, "most": max(after) / 1e6})
    return found


def _ids(path: Path) -> list[int]:
    ids: list[int] = pq.read_table(path, columns=["id"]).column("id").to_pylist()
    return ids


def _read(folder: Path) -> dict[str, Any] | None:
    path = folder / "million.json"
    return json.loads(path.read_text()) if path.exists() else None


def _start(code: str, told: list[Any]) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", code, json.dumps(told)], env=environment)


def _python(code: str, told: list[Any]) -> None:
    if status := _start(code, told).wait():
        raise SystemExit(f"ended with status {status}")


def _report(state: dict[str, Any], rows: int, workers: int) -> None:
    grown = max((run["most"] - run["first"] for run in state["memory"]), default=0.0)
    lines = [
        f"# {rows:,} short pairs through a lake, killed twice",
        "",
        "Again: `python benchmarks/lake.py --million FOLDER`.",
        "",
        f"- {workers} workers of one thread, int8, {state['seconds'] / 60:.1f} minutes, "
        f"{state['cpu']:,.0f} CPU seconds, {rows / state['cpu']:,.0f} rows per CPU second, "
        "the kills and three starts included.",
        f"- The driver was killed at {' and '.join(map(str, state['killed']))} files.",
        f"- {state['rows']:,} rows are there, in order: {state['in order']}.",
        f"- Equal to a run that nobody disturbed, on the first {CLEAN_ROWS:,}: {state['equal']}.",
        f"- No process grew by more than {grown:.0f} MB behind its first file; the largest had "
        f"{max((run['most'] for run in state['memory']), default=0):.0f} MB.",
    ]
    print("\n".join(lines))
    if rows >= 1_000_000:
        numbers = {"about": about("torch", "pyarrow"), "rows": rows, **state}
        write("lake_million", "\n".join(lines), numbers)
