"""The helper process of `bench.Bench`: forks, limits, runs a case, reports.

JSON lines in and out.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from attacks.limits import limit, peak

from . import rows
from .blame import blame
from .case import DOWN, FORCED, HARMED, OURS, STOCK, WRONG, Case, Place
from .engines import Engine, engine_of

MAKING = 120.0
"""Seconds that the files of a case may take to make, which is not the engine's time."""


def settle(place: Place, engine: str) -> None:
    """Give this fork a home.

    Temporary files lie beside the hostile ones, where `../..` is the marker's folder.
    """
    os.setsid()
    for folder in (place.files, place.cache):
        folder.mkdir(parents=True)
    os.chdir(place.home)
    os.environ["TMPDIR"] = tempfile.tempdir = str(place.files)
    if engine == FORCED:
        os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)


def listen(packages: tuple[str, ...]) -> list[str]:
    """Collect what the engine warns of, by logging or by warnings.

    It may go on wrongly, but not silently.
    """
    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    def show(
        message: Warning | str, category: type[Warning], *rest: object, **more: object
    ) -> None:
        # torch's own, about the variable that FORCED sets
        if category is UserWarning and "TORCH_FORCE" not in str(message):
            heard.append(str(message))

    warnings.simplefilter("always")
    warnings.showwarning = show  # type: ignore[assignment]
    for name in packages:
        logging.getLogger(name).addHandler(Ear(logging.WARNING))
    return heard


def attend(case: Case, engine: Engine, name: str, place: Place, out: int) -> None:
    """In the fork: make the files, run the engine under limits, report."""
    settle(place, name)
    engine.settle(place)
    case.make(place)
    heard = listen(engine.packages)
    os.write(out, b"!")
    limit(case.room)
    before = peak()
    try:
        verdict = case.run(engine, place)
        report: dict[str, Any] = vars(verdict) | {"message": verdict.says}
        if verdict.grade == WRONG and heard:
            report |= {"says": f"{verdict.says}, with a warning", "message": heard[0][:500]}
    except BaseException as error:
        report = blame(error, engine, case.reason if name == OURS else "")
    grown = peak() - before
    if grown > case.room // 2 and report["grade"] != DOWN:
        report |= {"grade": DOWN, "says": f"filled {grown / 2**30:.1f} GB of memory"}
    os.write(out, json.dumps(report).encode() + b"\n")


def fork(case: Case, engine: Engine, name: str, place: Place) -> tuple[int, int]:
    receive, send = os.pipe()
    child = os.fork()
    if child:
        os.close(send)
        return child, receive
    try:
        os.close(receive)
        attend(case, engine, name, place, send)
    except BaseException:
        report = {
            "grade": "broken",
            "says": "the case is broken",
            "message": traceback.format_exc(),
        }
        os.write(send, b"!" + json.dumps(report).encode() + b"\n")
    finally:
        os._exit(0)
    raise AssertionError


def readable(pipe: int, seconds: float) -> bool:
    return bool(select.select([pipe], [], [], seconds)[0])


def run(case: Case, engine: Engine, name: str, place: Place) -> dict[str, Any]:
    """Fork, wait, and say what became of it."""
    child, pipe = fork(case, engine, name, place)
    if readable(pipe, MAKING):
        os.read(pipe, 1)
    start = time.monotonic()
    in_time = readable(pipe, case.seconds)
    seconds = time.monotonic() - start
    report = b""
    # Not until the end of the pipe: what the case itself started may hold it open.
    while in_time and not report.endswith(b"\n") and (part := os.read(pipe, 1 << 16)):
        report += part
    os.close(pipe)
    for kill in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if report:
        found = json.loads(report.lstrip(b"!"))
    elif not in_time:
        found = {"grade": DOWN, "says": f"hung > {case.seconds:g} s"}
    else:
        found = {"grade": DOWN, "says": f"crashed ({signal.Signals(status & 127).name})"}
    if place.marker.exists():
        found |= {"grade": HARMED, "says": case.harm}
    return {**found, "seconds": round(seconds, 3)}


def main(group: str) -> None:
    """Serve orders until the input ends."""
    # Engines greet on stdout, which is ours.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine = engine_of(group)
    for line in sys.stdin:
        order = json.loads(line)
        if order["row"] == "version":
            answer: dict[str, Any] = engine.versions()
        else:
            place = Place(Path(order["home"]), Path(order["kit"]), order["server"], order["prefix"])
            case = rows.case(order["row"], order["name"])
            if case.row >= rows.FIRST_WITH_MODEL:
                engine.warm(place.kit)
            name = order["engine"] if group == STOCK else group
            answer = run(case, engine, name, place)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
