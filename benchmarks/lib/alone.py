"""Runs an engine in a process of its own.

Several engines in one process have as many thread pools, which get in each other's way.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.profiler
from lib.engines import MAKERS, Ids, in_batches, random_model
from lib.timing import Sample, sample
from torch import Tensor


@dataclass(frozen=True)
class Call:
    """How a list of texts is handed to an engine."""

    batch: int | None = 32
    """Texts a call; None: the whole list, which the engine sorts and packs itself."""
    by_length: bool = True


OURS = Call(None, by_length=False)
ONE_BY_ONE = Call(1)
AS_GIVEN = Call(by_length=False)


class Alone:
    """One engine, waiting.

    Args:
        engine: a name of `engines.MAKERS`.
        size: of the model, whose weights are random and the same in all processes.
        folder: the model as Hugging Face's files, and room for what a peer makes of them.

    Raises:
        RuntimeError: the engine does not start here; what it said.
    """

    def __init__(self, engine: str, size: str, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(theirs, engine, size, folder), daemon=True
        )
        self.process.start()
        theirs.close()
        try:
            trouble = self.pipe.recv()
        except EOFError:
            trouble = "its process died"
        if trouble:
            raise RuntimeError(trouble)

    def features(self, ids: Ids, call: Call) -> list[Tensor]:
        """Of each text, (T, C)."""
        return [torch.from_numpy(rows) for rows in self._ask("features", ids, call)]

    def time(self, ids: Ids, call: Call) -> Sample:
        """How long they take, by the engine's own clock."""
        seconds, is_clean = self._ask("time", ids, call)
        return seconds, is_clean

    def operators(
        self, ids: Ids, call: Call, *, one_thread: bool = False
    ) -> dict[str, tuple[float, float]]:
        """What torch's operators take of one run: (milliseconds, calls) of each, most first."""
        return dict(self._ask("operators of one thread" if one_thread else "operators", ids, call))

    def _ask(self, what: str, ids: Ids, call: Call) -> Any:
        self.pipe.send((what, [row.numpy() for row in ids], call))
        return self.pipe.recv()

    def close(self) -> None:
        """End its process."""
        self.process.kill()
        self.process.join()


def _serve(pipe: Connection, engine: str, size: str, folder: Path) -> None:
    try:
        encode = MAKERS[engine](random_model(size), folder)
    except Exception as error:  # told to the parent, which measures the others
        pipe.send(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
        sys.exit(1)
    pipe.send(None)
    while True:
        what, rows, call = pipe.recv()
        ids = [torch.from_numpy(row) for row in rows]
        run = partial(in_batches(encode, call.batch or len(ids), by_length=call.by_length), ids)
        pipe.send(ANSWERS[what](run))


def _operators(run: Callable[[], list[Tensor]], runs: int) -> dict[str, tuple[float, float]]:
    """The mean of so many runs."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(runs):
            run()
    ranked = sorted(profile.key_averages(), key=lambda op: -op.self_cpu_time_total)
    return {op.key: (op.self_cpu_time_total / 1e3 / runs, op.count / runs) for op in ranked}


def _operators_of_one_thread(run: Callable[[], list[Tensor]]) -> dict[str, tuple[float, float]]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the profiler sees the thread that started it
    try:
        run()
        return _operators(run, 1)
    finally:
        torch.set_num_threads(threads)


ANSWERS: dict[str, Callable[[Callable[[], list[Tensor]]], object]] = {
    "features": lambda run: [features.float().numpy() for features in run()],
    "time": sample,
    "operators": partial(_operators, runs=20),
    "operators of one thread": _operators_of_one_thread,
}
"""What `_serve` does with a list of texts."""
