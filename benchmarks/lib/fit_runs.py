"""Keeps what `fit.py` measures: a line of JSON for each run, safe while other processes write."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple


class Key(NamedTuple):
    """What is measured."""

    engine: str
    model: str
    set: str
    size: int
    seed: int


@dataclass(frozen=True)
class Run:
    """What one engine reached with one table."""

    key: Key
    rows: int
    """Trained on."""
    tested: int
    scores: dict[str, float]
    """See `fit_scores.judge`."""
    cpu_seconds: float
    way: str = ""
    """How `fit` chose to learn."""
    place: str = ""
    """Of `about`, where machine and versions of this very run are kept: see `place_of`."""
    answers: str = ""
    """What was answered to the test rows, where that is kept."""

    def line(self) -> str:
        """Write the run for a terminal."""
        scores = " ".join(f"{name} {value:.3f}" for name, value in self.scores.items())
        return f"{' '.join(map(str, self.key))}: {scores} {self.cpu_seconds:.1f} s {self.way}"


class Runs:
    """The runs in a file, which several processes may add to."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self) -> dict[Key, Run]:
        """Return what is there."""
        return {run.key: run for run in map(_run, self._all()["runs"])}

    def about(self) -> dict[str, list[dict[str, Any]]]:
        """Return machines and versions of each engine's runs, with the last date of each."""
        found: dict[str, list[dict[str, Any]]] = self._all()["about"]
        return found

    def history(self) -> list[dict[str, Any]]:
        """Return what earlier versions reached with the large tables."""
        found: list[dict[str, Any]] = self._all()["history"]
        return found

    def add(self, run: Run, about: dict[str, Any]) -> None:
        """Add a run, or put it in the place of the one before."""
        with self._alone():
            found = self._all()
            others = [r for r in found["runs"] if _run(r).key != run.key]
            flat = {**run.key._asdict(), **asdict(run)}
            del flat["key"]
            flat = {name: value for name, value in flat.items() if value != "" or name == "way"}
            found["runs"] = sorted([*others, flat], key=lambda r: _run(r).key)
            known = found["about"].get(run.key.engine, [])
            elsewhere = [one for one in known if {**one, "date": about["date"]} != about]
            found["about"][run.key.engine] = [*elsewhere, about]
            lines = {
                name: ",\n".join(f"  {json.dumps(row)}" for row in found[name])
                for name in ("history", "runs")
            }
            text = (
                f'{{"about": {json.dumps(found["about"])},\n"history": [\n{lines["history"]}\n],\n'
                f'"runs": [\n{lines["runs"]}\n]}}\n'
            )
            stage = self.file.with_suffix(f".{os.getpid()}")
            stage.write_text(text, encoding="utf-8")
            stage.replace(self.file)

    def _all(self) -> dict[str, Any]:
        if not self.file.exists():
            return {"about": {}, "history": [], "runs": []}
        found: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        return found

    @contextmanager
    def _alone(self) -> Iterator[None]:
        folder = os.open(self.file.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def place_of(about: dict[str, Any]) -> str:
    """Name a machine with its versions, whatever the date.

    Example:
        >>> place_of({"date": "2026-11-28"}) == place_of({"date": "2026-11-29"})
        True
    """
    kept = json.dumps({**about, "date": ""}, sort_keys=True)
    return hashlib.blake2b(kept.encode(), digest_size=4).hexdigest()


def _run(row: dict[str, Any]) -> Run:
    key = Key(*(row[name] for name in Key._fields))
    return Run(key, **{n: v for n, v in row.items() if n not in Key._fields})
