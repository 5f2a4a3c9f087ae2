"""Runs units on a Ray cluster with plain actors: one per machine, or one per GPU.

Ray places the actors, starts their processes and reports their deaths. Units need nothing else from
Ray: no object store, and no tasks that read or write and would compete with the workers for CPUs.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from roberta_hub import extras
from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, MissingExtraError, Remedy
from roberta_hub.scale.plan import PLAN_FILE
from roberta_hub.scale.units import WorkUnit
from roberta_hub.scale.work import Attempts, Done, Job, SchedulerOptions, died, do_unit
from roberta_hub.version import version

CONNECT_TIMEOUT = 20.0
"""Seconds in which the head of a cluster must accept a connection."""
POLL_SECONDS = 5.0
"""Seconds between two looks at the list of machines, which start the workers that are missing."""
NO_WORKER_TIMEOUT = 600.0
"""Seconds without a worker after which the run fails. A GPU that others use may become free."""
MAX_FAILED_STARTS = 3
"""Failed starts per slot, without one that succeeds, after which the run fails."""


class Worker:
    """Does units, one at a time, in a process of the cluster."""

    def __init__(self, job: Job, version: str) -> None:
        """Keep what all units share."""
        self._job, self._version = job, version

    def check(self) -> str:
        """Return why this machine cannot work on the plan; "" if it can."""
        if self._version != version():
            return f"it has roberta_hub {version()}, and the driver has {self._version}"
        path = f"{self._job.folder}/{PLAN_FILE}"
        try:
            kind = self._job.system.get_file_info(path).type
        except OSError as error:  # a store that this machine cannot reach, or may not read
            return f"{path} cannot be read there: {error}"
        if kind.name == "File":
            return ""
        return (
            f"{path} is not there; source and target must be where all machines see them: on a "
            "shared disk, or in an object store"
        )

    def do(self, unit: WorkUnit) -> Done:
        """Do a unit."""
        return do_unit(self._job, unit)


@dataclass(frozen=True)
class Slot:
    """Where one worker runs: the k-th on a machine."""

    node: str
    host: str
    number: int


@dataclass(frozen=True)
class _Call:
    """A call of a worker that has not returned yet."""

    slot: Slot
    actor: Any
    unit: WorkUnit | None
    """None: the worker is starting."""
    began: float


def threads(schedule: SchedulerOptions) -> int:
    """Return how many threads each worker gets by default.

    It is the same for all workers, because the number of threads changes the last bits of the
    answers: the CPUs of the smallest machine with CPUs, divided by its number of workers.
    """
    with _connected(schedule.address) as ray:
        cores = [cpus for node in ray.nodes() if (cpus := _count(node, "CPU"))] or [1]
        each = math.ceil((schedule.workers or 1) / len(cores))
        return max(1, min(cores) // each)


def run_units(
    job: Job, units: Sequence[WorkUnit], schedule: SchedulerOptions
) -> Generator[Done, None, None]:
    """Do units in workers of a cluster; see `work.Scheduler`.

    A machine that joins gets a worker. If a machine leaves, another one repeats its unit. Workers
    reserve no CPU, so they also start if other jobs reserve every CPU. They do reserve GPUs.
    """
    gpu = _wants_gpu(job.verb.device)
    with _connected(schedule.address) as ray:
        workers = _Workers(ray, job, schedule, gpu)
        try:
            yield from workers.run(units)
        finally:
            workers.stop()


@contextlib.contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Yield the module ray, connected; close the connection if it was opened here."""
    ray = _ray()
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, address or os.environ.get("RAY_ADDRESS"))
    try:
        yield ray
    finally:
        ray.shutdown()


def slots(nodes: Sequence[Mapping[str, Any]], *, gpu: bool, most: int | None) -> list[Slot]:
    """List the slots of a cluster, the first of every machine before the second of any.

    A machine that gives Ray no CPUs, as heads often do, has no slot.

    Example:
        >>> head = {"NodeID": "a", "NodeManagerHostname": "a", "Alive": True, "Resources": {}}
        >>> node = {**head, "NodeID": "b", "Resources": {"CPU": 8.0, "GPU": 2.0}}
        >>> [slot.number for slot in slots([head, node], gpu=True, most=None)]
        [0, 1]
        >>> len(slots([head, node], gpu=False, most=None))
        1
    """
    able = [(node, found) for node in nodes if (found := _count(node, "GPU" if gpu else "CPU"))]
    if not gpu:  # the cores of a machine can serve any number of workers
        able = [(node, most or 1) for node, _ in able]
    listed = (
        Slot(node["NodeID"], node["NodeManagerHostname"], number)
        for number in range(max((found for _, found in able), default=0))
        for node, found in able
        if number < found
    )
    return list(islice(listed, most))


def _count(node: Mapping[str, Any], kind: str) -> int:
    """Count the CPUs or GPUs of a machine; a dead one has 0."""
    return int(node["Resources"].get(kind, 0)) if node["Alive"] else 0


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            f"the engine 'ray' needs ray ({error}): {extras.install('ray')}",
            remedy=Remedy(
                "engine='processes' uses this machine alone",
                "--engine processes uses this machine alone",
            ),
        ) from None
    return ray


def _connect(ray: Any, address: str | None) -> None:
    try:
        if address is not None:
            _check_reachable(address)
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (OSError, RuntimeError, ValueError) as error:
        where = "on this machine" if address is None else f"at {short_repr(address)}"
        raise InputError(
            f"no Ray cluster answers {where}: {_first_line(error)}; `ray status` shows one that "
            "runs, and `ray start --head` starts one"
        ) from None


class _Workers:
    """The workers of a run, and what each is doing."""

    def __init__(self, ray: Any, job: Job, schedule: SchedulerOptions, gpu: bool) -> None:
        self._ray, self._job, self._schedule, self._gpu = ray, job, schedule, gpu
        self._calls: dict[Any, _Call] = {}
        """By the reference of the result."""
        self._idle: list[tuple[Slot, Any]] = []
        self._failed_starts = 0
        self._next_poll = self._last_working = time.monotonic()

    def run(self, units: Sequence[WorkUnit]) -> Iterator[Done]:
        """Do units; yield how each ended."""
        left = deque(units)
        attempts = Attempts(self._schedule.attempts)
        while left or any(call.unit for call in self._calls.values()):
            self._start_workers(len(left))
            at_work = self._idle or any(call.unit for call in self._calls.values())
            self._schedule.tell("" if at_work else "the cluster's workers start")
            while self._idle and left:
                self._assign(*self._idle.pop(), left.popleft())
            for unit, done in self._finished():
                final = attempts.final(done)
                if final is None:
                    left.append(unit)
                else:
                    yield final
            self._check_working()

    def stop(self) -> None:
        """Kill all workers."""
        for actor in [call.actor for call in self._calls.values()] + [a for _, a in self._idle]:
            self._kill(actor)
        self._calls.clear()
        self._idle.clear()

    def _start_workers(self, waiting: int) -> None:
        """Start a worker in each free slot, but no more workers than there are waiting units."""
        now = time.monotonic()
        if now < self._next_poll:
            return
        self._next_poll = now + POLL_SECONDS
        taken = {call.slot for call in self._calls.values()} | {slot for slot, _ in self._idle}
        wanted = waiting - len(self._idle) - sum(not call.unit for call in self._calls.values())
        if self._schedule.workers is not None:  # slots of dead machines may still be taken
            wanted = min(wanted, self._schedule.workers - len(taken))
        free = [slot for slot in self._slots() if slot not in taken]
        for slot in free[: max(0, wanted)]:
            actor = self._start(slot)
            self._calls[actor.check.remote()] = _Call(slot, actor, None, now)

    def _slots(self) -> list[Slot]:
        return slots(self._ray.nodes(), gpu=self._gpu, most=self._schedule.workers)

    def _start(self, slot: Slot) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        on_node = NodeAffinitySchedulingStrategy(node_id=slot.node, soft=False)
        options = {"num_cpus": 0, "num_gpus": int(self._gpu)}
        worker = self._ray.remote(Worker).options(scheduling_strategy=on_node, **options)
        return worker.remote(self._job, version())

    def _assign(self, slot: Slot, actor: Any, unit: WorkUnit) -> None:
        self._calls[actor.do.remote(unit)] = _Call(slot, actor, unit, time.monotonic())

    def _finished(self) -> Iterator[tuple[WorkUnit, Done]]:
        """Wait up to a second; yield the units whose attempt ended, and how."""
        if not self._calls:
            time.sleep(POLL_SECONDS / 10)
            return
        ready, _ = self._ray.wait(list(self._calls), timeout=1.0)
        for reference in ready:
            call = self._calls.pop(reference)
            try:
                found = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                self._kill(call.actor)  # Ray may have lost the connection only
                if call.unit:
                    yield call.unit, died(call.unit, f"died on {call.slot.host}: {_cause(error)}")
                else:
                    self._count_failed_start(error)
                continue
            self._idle.append((call.slot, call.actor))
            self._failed_starts = 0
            if call.unit:
                yield call.unit, found
            elif found:
                raise InputError(f"{call.slot.host} cannot work for this lake: {found}")
        for reference, call in list(self._calls.items()):
            if call.unit and time.monotonic() - call.began > self._schedule.time_limit:
                del self._calls[reference]
                self._kill(call.actor)
                limit = f"{self._schedule.time_limit:g} s"
                yield call.unit, died(call.unit, f"took longer than {limit} on {call.slot.host}")

    def _kill(self, actor: Any) -> None:
        with contextlib.suppress(Exception):  # the actor or the cluster may be gone
            self._ray.kill(actor)

    def _count_failed_start(self, error: Exception) -> None:
        """Fail if workers do not start anywhere; a single machine may be broken."""
        self._failed_starts += 1
        if self._failed_starts >= MAX_FAILED_STARTS * max(1, len(self._slots())):
            raise InputError(
                f"no worker starts on the Ray cluster: {_cause(error)}; each machine needs the "
                "same Python, ray and roberta_hub"
            )

    def _check_working(self) -> None:
        """Fail if there has been no worker for `NO_WORKER_TIMEOUT`."""
        now = time.monotonic()
        if self._idle or any(call.unit for call in self._calls.values()):
            self._last_working = now
        if now - self._last_working > NO_WORKER_TIMEOUT:
            kind = "GPU" if self._gpu else "CPU"
            total = self._ray.cluster_resources().get(kind, 0)
            free = self._ray.available_resources().get(kind, 0)
            raise InputError(
                f"no worker could start for {NO_WORKER_TIMEOUT:g} s: the Ray cluster has "
                f"{total:g} {kind}s, {free:g} of them free; `ray status` shows who holds them"
            )


def _wants_gpu(device: str | None) -> bool:
    """Return whether each worker needs a GPU; a worker sees only its own, as the first."""
    if device is None or device == "cpu":
        return False
    if device != "cuda":
        raise InputError(
            f"device is {short_repr(device)}; on Ray give 'cuda', for one GPU a worker, or 'cpu': "
            "machines that choose by themselves do not give the same answers"
        )
    return True


def _check_reachable(address: str) -> None:
    """Raise OSError if nothing listens at host:port; `ray.init` retries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():  # else "auto" or "local"
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT).close()


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _cause(error: BaseException) -> str:
    """Return the most telling line of Ray's long report on a death."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error" in line or "exit" in line or "dead" in line]
    return (told or lines or [type(error).__name__])[-1][:300]
