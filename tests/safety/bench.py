"""Runs the cases of an engine in forks, under limits of time; a server has the engine imported."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from pathlib import Path
from typing import Any

import forks

from . import rows
from .case import DOWN, HARMED, STOCK, Case, Outcome, Place

TESTS = Path(__file__).resolve().parents[1]
MAKING = 120.0
"""Seconds that the files of a case may take to make, which is not the engine's time."""


class Bench:
    """Runs the cases of one engine, one after the other."""

    def __init__(self, engine: str, server: str, kit: Path) -> None:
        paths = [str(TESTS), str(TESTS / "checkpoint"), str(TESTS.parent)]
        quiet = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_XET": "1"}
        quiet |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        found = {"PYTHONPATH": os.pathsep.join(paths), "HF_ENDPOINT": server}
        self._environment = {**kept, **quiet, **found}
        told = {**quiet, **found, "SAFETY_ENGINE": engine}
        self._bare = forks.Server(("safety.helper:prepare",), **told)
        self._warm = forks.Server(("safety.helper:prepare",), **told, SAFETY_KIT=str(kit))

    def run(self, row: int, name: str, place: Place, engine: str = STOCK) -> Outcome:
        """Run one case, and say what became of it; `engine` tells both fairseqs apart."""
        case = rows.case(row, name)
        server = self._warm if row >= rows.FIRST_WITH_MODEL else self._bare
        process = server.start(
            "-c",
            "from safety.helper import main; main()",
            row,
            name,
            engine,
            *vars(place).values(),
            env=self._environment,
            stdout=forks.PIPE,
            text=False,
            start_new_session=True,
        )
        found = _watched(process, case)
        if place.marker.exists():
            found |= {"grade": HARMED, "says": case.harm}
        return Outcome(**found)

    def versions(self) -> dict[str, str]:
        program = (
            "from safety.helper import ENGINE; import json; print(json.dumps(ENGINE.versions()))"
        )
        done = self._bare.run("-c", program, env=self._environment, check=True)
        return dict(json.loads(done.stdout))


def _watched(process: forks.Process, case: Case) -> dict[str, Any]:
    """Wait for the report of a fork within the time of its case, and end it."""
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    if _readable(pipe, MAKING):
        os.read(pipe, 1)
    start = time.monotonic()
    in_time = _readable(pipe, case.seconds)
    seconds = time.monotonic() - start
    report = b""
    # Not until the end of the pipe: what the case itself started may hold it open.
    while in_time and not report.endswith(b"\n") and (part := os.read(pipe, 1 << 16)):
        report += part
    process.stdout.close()
    for kill in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError):
            kill(process.pid, signal.SIGKILL)
    status = process.wait()
    if report:
        found = json.loads(report.lstrip(b"!"))
    elif not in_time:
        found = {"grade": DOWN, "says": f"hung > {case.seconds:g} s"}
    else:
        found = {"grade": DOWN, "says": f"crashed ({signal.Signals(-status).name})"}
    return {**found, "seconds": round(seconds, 3)}


def _readable(pipe: int, seconds: float) -> bool:
    return bool(select.select([pipe], [], [], seconds)[0])
