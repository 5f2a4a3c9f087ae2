"""What `bench.Bench` runs in a fork: a case under limits, and its report."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

from attacks.limits import limit, peak

from . import rows
from .blame import blame
from .case import DOWN, FORCED, OURS, WRONG, Case, Place
from .engines import Engine, engine_of

ENGINE: Engine
"""Of this process, once `prepare` has run."""


def settle(place: Place, engine: str) -> None:
    """Give this fork a home.

    Temporary files lie beside the hostile ones, where `../..` is the marker's folder.
    """
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


def prepare() -> None:
    """Import the engine, and load its sound model where the bench names one; before the forks."""
    global ENGINE
    ENGINE = engine_of(os.environ["SAFETY_ENGINE"])
    if kit := os.environ.get("SAFETY_KIT"):
        ENGINE.warm(Path(kit))


def meet(row: int, name: str, engine: str, place: Place) -> None:
    """In the fork: run one case, print its report, and end."""
    out = os.dup(1)
    try:
        attend(rows.case(row, name), ENGINE, engine, place, out)
    except BaseException:
        report = {"grade": "broken", "says": "the case is broken"}
        report["message"] = traceback.format_exc()
        os.write(out, b"!" + json.dumps(report).encode() + b"\n")
    finally:
        os._exit(0)


def main() -> None:
    row, name, engine, *place = sys.argv[1:]
    home, kit, server, prefix = place
    meet(int(row), name, engine, Place(Path(home), Path(kit), server, prefix))
