"""Does units in processes of this machine: the engine "processes".

A worker is a fresh Python process with a pipe, so scripts need no `if __name__ == "__main__"`, and
no thread or lock is inherited. It ends when this process does.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait

from roberta_hub.errors import InputError, Remedy, RobertaHubError
from roberta_hub.scale import in_process
from roberta_hub.scale.units import WorkUnit
from roberta_hub.scale.work import TIME_LIMIT, Attempts, Done, Job, SchedulerOptions, died, do_unit
from roberta_hub.signals import cleared

CAN_START = os.name == "posix"
"""Whether a process can hand open files to a worker; Windows' cannot."""
FOR_WORKERS = "worker processes are for Linux and macOS"
KILL = 9
"""The signal; Windows has none."""
CORES_PER_WORKER = 4
"""Cores per worker, which share a batch well; every worker holds a copy of the model."""
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from roberta_hub.scale.processes import work; work(int(sys.argv[2]), int(sys.argv[3]))"
)
_READY, _LOADED = "ready", "loaded"
"""What a worker says once it has started, and once it has the model."""


def threads(schedule: SchedulerOptions) -> int:
    """Default number of threads of a worker."""
    cores = _cores()
    return max(1, cores // (schedule.workers or max(1, cores // CORES_PER_WORKER)))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # those that this process may use
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def why_in_process() -> str:
    """Say why a lake ran in this process, where it did."""
    return "workers would take longer to start" if CAN_START else FOR_WORKERS


def run_units(
    job: Job, units: Sequence[WorkUnit], schedule: SchedulerOptions
) -> Generator[Done, None, None]:
    """Do units in worker processes, or few of them in this one; see `work.Scheduler`."""
    if not CAN_START:
        if schedule.workers is not None or schedule.time_limit < TIME_LIMIT:
            raise InputError(
                f"{FOR_WORKERS}; here a lake runs in this process, whose units cannot be stopped",
                remedy=Remedy("leave out workers= and time_limit=", "leave out --workers"),
            )
        yield from in_process.run_units(job, units, schedule)
        return
    gpus = _gpus(job.verb.device)
    wanted = schedule.workers or len(gpus) or max(1, _cores() // CORES_PER_WORKER)
    if in_process.is_small(job, units, schedule, wanted):
        yield from in_process.run_units(job, units, schedule)
        return
    waiting, attempts = deque(units), Attempts(schedule.attempts)
    slots = {
        number: _WorkerSlot(gpus[number % len(gpus)] if gpus else None) for number in range(wanted)
    }
    try:
        with cleared(lambda: _kill(slots.values())):
            while waiting or any(slot.unit for slot in slots.values()):
                for slot in slots.values():
                    if waiting and slot.unit is None:
                        slot.give(job, waiting.popleft(), schedule.time_limit)
                busy = [slot for slot in slots.values() if slot.unit]
                schedule.tell(_waits_for(busy))
                for done in _ended(busy):
                    final = attempts.final(done)
                    if final is None:
                        waiting.append(next(unit for unit in units if unit.number == done.unit))
                    else:
                        yield final
    finally:
        for slot in slots.values():
            slot.stop()


@dataclass
class _WorkerSlot:
    """Slot of a worker, which is started on demand and restarted after it died."""

    gpu: str | None
    process: subprocess.Popen[bytes] | None = None
    pipe: Connection | None = None
    life: int = -1
    """Pipe that closes when this process ends, however that happens; the worker then ends too."""
    unit: WorkUnit | None = None
    deadline: float = 0.0
    ready: bool = False
    loaded: bool = False
    limit: float = 0.0

    def give(self, job: Job, unit: WorkUnit, limit: float) -> None:
        """Send a unit to the worker."""
        self.unit, self.limit, self.deadline = unit, limit, time.monotonic() + limit
        if self.pipe is None:
            self._start()
            self._send(job)
        self._send(unit)

    def _send(self, what: object) -> None:
        try:
            assert self.pipe is not None
            self.pipe.send(what)
        except OSError:  # it died; `end_of` will find out
            pass

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        end, self.life = os.pipe()
        environment = {**os.environ, "ROBERTA_HUB_OFFLINE": "1"}  # the driver has loaded the model
        if self.gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = self.gpu
        handles = (theirs.fileno(), end)
        arguments = [json.dumps(sys.path), *map(str, handles)]
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _START, *arguments],
            pass_fds=handles,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # a terminal's Ctrl-C is for this process
        )
        theirs.close()
        os.close(end)
        self.pipe, self.ready, self.loaded = Connection(ours.detach()), False, False

    def end_of(self) -> Done | None:
        """Return the result of the unit; None while it runs."""
        assert self.pipe is not None and self.unit is not None
        unit = self.unit
        try:
            if self.pipe.poll():
                said = self.pipe.recv()
                if said in (_READY, _LOADED):
                    self.ready, self.loaded = True, said == _LOADED
                    return None
                self.unit = None
                assert isinstance(said, Done)
                return said
        except (EOFError, OSError):
            why = self._why()
            ready = self.ready
            self.stop()
            if not ready:
                raise RobertaHubError(f"no worker can be started: it {why}") from None
            return died(unit, why)
        if time.monotonic() < self.deadline:
            return None
        self.stop()
        return died(unit, f"took longer than {self.limit:g} s and was stopped")

    def _why(self) -> str:
        assert self.process is not None
        code = self.process.wait()
        if code >= 0:
            return f"ended with status {code}"
        hint = ", as the system does where memory is short" if code == -KILL else ""
        return f"was killed by signal {-code}{hint}"

    def kill(self) -> None:
        """Kill the worker without waiting for its end, which may be waited for already."""
        if self.process is not None:
            self.process.kill()

    def stop(self) -> None:
        """Kill the worker, at any time: files are written atomically."""
        if self.process is not None and self.pipe is not None:
            self.process.kill()
            self.process.wait()
            self.pipe.close()
            os.close(self.life)
        self.process = self.pipe = self.unit = None


def _waits_for(busy: Sequence[_WorkerSlot]) -> str:
    """Say what a run waits for until a first worker has its model; "": for rows."""
    if any(slot.loaded for slot in busy):
        return ""
    what = "load the model" if any(slot.ready for slot in busy) else "start"
    return f"workers {what} ({len(busy)})"


def _kill(slots: Iterable[_WorkerSlot]) -> None:
    for slot in slots:
        slot.kill()


def _ended(busy: Sequence[_WorkerSlot]) -> list[Done]:
    """Wait for a worker or a deadline; return the results that are ready."""
    pipes = [slot.pipe for slot in busy if slot.pipe is not None]
    rest = min(slot.deadline for slot in busy) - time.monotonic()
    wait(pipes, timeout=min(max(rest, 0), threading.TIMEOUT_MAX))
    found = [slot.end_of() for slot in busy]
    return [done for done in found if done is not None]


def _gpus(device: str | None) -> list[str]:
    """Names of the GPUs if the verb asks for any of them; each gets a worker."""
    if device not in ("cuda", "auto"):
        return []
    import torch

    count = torch.cuda.device_count()
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return seen.split(",")[:count] if seen else [str(number) for number in range(count)]


# ---- in the worker ----


def work(pipe: int, life: int) -> None:
    """Main function of a worker: do the units that come through a pipe."""

    def watch() -> None:
        os.read(life, 1)
        os._exit(1)  # even within a unit: nobody waits for it

    threading.Thread(target=watch, daemon=True).start()
    with Connection(pipe) as driver:
        try:
            driver.send(_READY)
            job = driver.recv()
            with contextlib.suppress(Exception):  # the first unit says what is wrong
                job.verb.schema()
            driver.send(_LOADED)
            while True:
                driver.send(do_unit(job, driver.recv()))
        except (EOFError, OSError):
            pass
