"""Runs units on a Ray cluster by plain actors: one a machine, or one a GPU.

Ray places the actors, starts their processes and tells of their deaths. The units need nothing else
of it: no object store, no read or write tasks, and so no CPU that workers could take from them.
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

from roberta_hub import __version__, extras
from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError, MissingExtraError, Remedy
from roberta_hub.scale.plan import PLAN_FILE
from roberta_hub.scale.units import WorkUnit
from roberta_hub.scale.work import Attempts, Done, Job, SchedulerOptions, died, do_unit

KNOCK = 20.0
"""Seconds in which the head of a cluster must take a connection."""
LOOK = 5.0
"""Seconds between two looks at which machines there are, and where a worker is to be started."""
PATIENCE = 600.0
"""Seconds without any worker, after which the run gives up: a GPU may be taken for a while."""
VAIN = 3
"""Starts in vain for each place, after which the run gives up, where no worker ever started."""


class Worker:
    """Does one unit after the other in a process of the cluster."""

    def __init__(self, job: Job, version: str) -> None:
        """Take what all units share.

        Args:
            job: of the plan.
            version: of the driver's roberta_hub.
        """
        self._job, self._version = job, version

    def look(self) -> str:
        """Return what keeps this machine from working for the plan; "" is nothing."""
        if self._version != __version__:
            return f"it has roberta_hub {__version__}, and the driver has {self._version}"
        path = f"{self._job.folder}/{PLAN_FILE}"
        try:
            kind = self._job.system.get_file_info(path).type
        except OSError as error:  # a store that this machine cannot reach, or may not read
            return f"{path} cannot be read there: {error}"
        if kind.name == "File":
            return ""
        return f"{path} is not there; source and target lie where all machines see them: on a "
        "shared disk, or in an object store"

    def do(self, unit: WorkUnit) -> Done:
        """Do a unit.

        Args:
            unit: of the plan.
        """
        return do_unit(self._job, unit)


@dataclass(frozen=True)
class Place:
    """Where a worker lives: the k-th of a machine, with a GPU or without."""

    node: str
    host: str
    number: int
    gpu: bool


@dataclass(frozen=True)
class _Call:
    """What a worker is doing."""

    place: Place
    actor: Any
    unit: WorkUnit | None
    """None: it is starting."""
    began: float


def threads(schedule: SchedulerOptions) -> int:
    """Tell how many threads each worker gets where the verb does not say it.

    All get as many, since the number decides the last bits of the answers: the CPUs of the smallest
    machine that can work, shared by its workers.

    Args:
        schedule: `workers` and `address` count.

    Raises:
        MissingExtraError: ray is not installed.
        InputError: no cluster answers.
    """
    with _connected(schedule.address) as ray:
        cores = [cpus for node in ray.nodes() if (cpus := _has(node, "CPU"))] or [1]
        each = math.ceil((schedule.workers or 1) / len(cores))
        return max(1, min(cores) // each)


def run_units(
    job: Job, units: Sequence[WorkUnit], schedule: SchedulerOptions
) -> Generator[Done, None, None]:
    """Do units in workers of a cluster; see `work.Scheduler`.

    A machine that comes gets a worker; what a machine was doing that goes is begun again elsewhere.
    The workers ask Ray for no CPU, so they start where others hold all. GPUs they do ask for.

    Args:
        job: of the plan.
        units: to be done, in this order.
        schedule: `workers` None is one a machine with CPUs, or one a GPU where the verb's device is
            one; `address` None takes $RAY_ADDRESS, the cluster of this machine, or a new one on it.

    Yields:
        How each unit ended.

    Raises:
        MissingExtraError: ray is not installed.
        InputError: no cluster answers, or no worker can start there.
    """
    gpu = _wants_gpu(job.verb.device)
    with _connected(schedule.address) as ray:
        crew = _Crew(ray, job, schedule, gpu)
        try:
            yield from crew.run(units)
        finally:
            crew.stop()


@contextlib.contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Lend the module ray, connected: by the caller, who then keeps the connection, or by us."""
    ray = _ray()
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, address or os.environ.get("RAY_ADDRESS"))
    try:
        yield ray
    finally:
        ray.shutdown()


def places(nodes: Sequence[Mapping[str, Any]], *, gpu: bool, most: int | None) -> list[Place]:
    """List where workers belong, the first of each machine before the second of any.

    A machine without CPUs of Ray's, as heads often are, gets no worker.

    Args:
        nodes: what `ray.nodes()` gives.
        gpu: whether each worker has a GPU: as many as there are, and no more.
        most: so many in all; None: one a machine, or one a GPU.

    Example:
        >>> head = {"NodeID": "a", "NodeManagerHostname": "a", "Alive": True, "Resources": {}}
        >>> node = {**head, "NodeID": "b", "Resources": {"CPU": 8.0, "GPU": 2.0}}
        >>> [place.number for place in places([head, node], gpu=True, most=None)]
        [0, 1]
        >>> len(places([head, node], gpu=False, most=None))
        1
    """
    able = [(node, found) for node in nodes if (found := _has(node, "GPU" if gpu else "CPU"))]
    if not gpu:  # a machine's cores work for one worker as well as for many
        able = [(node, most or 1) for node, _ in able]
    listed = (
        Place(node["NodeID"], node["NodeManagerHostname"], number, gpu)
        for number in range(max((found for _, found in able), default=0))
        for node, found in able
        if number < found
    )
    return list(islice(listed, most))


def _has(node: Mapping[str, Any], kind: str) -> int:
    """Count the CPUs or GPUs of a machine; 0 where it is gone."""
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
            _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (OSError, RuntimeError, ValueError) as error:
        where = "on this machine" if address is None else f"at {short_repr(address)}"
        raise InputError(
            f"no Ray cluster answers {where}: {_first(error)}; `ray status` shows one that runs, "
            "and `ray start --head` starts one"
        ) from None


class _Crew:
    """Holds the workers of a run, and what each is doing."""

    def __init__(self, ray: Any, job: Job, schedule: SchedulerOptions, gpu: bool) -> None:
        self._ray, self._job, self._schedule, self._gpu = ray, job, schedule, gpu
        self._calls: dict[Any, _Call] = {}
        """By the reference of the answer."""
        self._idle: list[tuple[Place, Any]] = []
        self._vain = 0
        self._look = self._alive = time.monotonic()

    def run(self, units: Sequence[WorkUnit]) -> Iterator[Done]:
        """Do units; yield how each ended."""
        left = deque(units)
        attempts = Attempts(self._schedule.attempts)
        while left or any(call.unit for call in self._calls.values()):
            self._hire(len(left))
            while self._idle and left:
                self._ask(*self._idle.pop(), left.popleft())
            for unit, done in self._ended():
                final = attempts.final(done)
                if final is None:
                    left.append(unit)
                else:
                    yield final
            self._check_alive()

    def stop(self) -> None:
        """End all workers."""
        for actor in [call.actor for call in self._calls.values()] + [a for _, a in self._idle]:
            with contextlib.suppress(Exception):  # the cluster may be gone
                self._ray.kill(actor)
        self._calls.clear()
        self._idle.clear()

    def _hire(self, wanted: int) -> None:
        """Start workers where there are none, no more than there are units."""
        now = time.monotonic()
        if now < self._look:
            return
        self._look = now + LOOK
        taken = {call.place for call in self._calls.values()} | {place for place, _ in self._idle}
        wanted -= len(self._idle) + sum(call.unit is None for call in self._calls.values())
        if self._schedule.workers is not None:  # some may be at places that are no longer listed
            wanted = min(wanted, self._schedule.workers - len(taken))
        free = [place for place in self._places() if place not in taken]
        for place in free[: max(0, wanted)]:
            actor = self._start(place)
            self._calls[actor.look.remote()] = _Call(place, actor, None, now)

    def _places(self) -> list[Place]:
        return places(self._ray.nodes(), gpu=self._gpu, most=self._schedule.workers)

    def _start(self, place: Place) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        on_node = NodeAffinitySchedulingStrategy(node_id=place.node, soft=False)
        options = {"num_cpus": 0, "num_gpus": int(place.gpu), "max_restarts": 0}
        worker = self._ray.remote(Worker).options(scheduling_strategy=on_node, **options)
        return worker.remote(self._job, __version__)

    def _ask(self, place: Place, actor: Any, unit: WorkUnit) -> None:
        self._calls[actor.do.remote(unit)] = _Call(place, actor, unit, time.monotonic())

    def _ended(self) -> Iterator[tuple[WorkUnit, Done]]:
        """Wait a moment; yield the units whose attempt ended, and how."""
        if not self._calls:
            time.sleep(LOOK / 10)
            return
        ready, _ = self._ray.wait(list(self._calls), timeout=1.0)
        for reference in ready:
            call = self._calls.pop(reference)
            try:
                found = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:  # the place is free at the next look
                self._lost(call, error)
                if call.unit:
                    yield call.unit, died(call.unit, f"died on {call.place.host}: {_why(error)}")
                continue
            self._idle.append((call.place, call.actor))
            self._vain = 0
            if call.unit:
                yield call.unit, found
            elif found:
                raise InputError(f"{call.place.host} cannot work for this lake: {found}")
        for reference, call in list(self._calls.items()):
            if call.unit and time.monotonic() - call.began > self._schedule.time_limit:
                del self._calls[reference]
                self._ray.kill(call.actor)
                limit = f"{self._schedule.time_limit:g} s"
                yield call.unit, died(call.unit, f"took longer than {limit} on {call.place.host}")

    def _lost(self, call: _Call, error: Exception) -> None:
        """Count a worker that did not start; where none ever does, say why."""
        with contextlib.suppress(Exception):  # one that Ray only cannot reach may live
            self._ray.kill(call.actor)
        if call.unit:
            return
        self._vain += 1
        if self._vain >= VAIN * max(1, len(self._places())):
            raise InputError(
                f"no worker starts on the Ray cluster: {_why(error)}; each machine needs the same "
                "Python, ray and roberta_hub"
            )

    def _check_alive(self) -> None:
        """Give up where nothing works, nothing starts, and nothing changes."""
        now = time.monotonic()
        if self._idle or any(call.unit for call in self._calls.values()):
            self._alive = now
        if now - self._alive > PATIENCE:
            kind = "GPU" if self._gpu else "CPU"
            total = self._ray.cluster_resources().get(kind, 0)
            free = self._ray.available_resources().get(kind, 0)
            raise InputError(
                f"no worker could start for {PATIENCE:g} s: the Ray cluster has {total:g} {kind}s, "
                f"{free:g} of them free; `ray status` shows who holds them"
            )


def _wants_gpu(device: str | None) -> bool:
    """Tell whether a worker needs a GPU; Ray shows it one, which is then the first."""
    if device is None or device == "cpu":
        return False
    if device != "cuda":
        raise InputError(
            f"device is {short_repr(device)}; on Ray give 'cuda', for one GPU a worker, or 'cpu': "
            "machines that choose by themselves do not give the same answers"
        )
    return True


def _knock(address: str) -> None:
    """Find out whether anybody listens at host:port; Ray itself tries again for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():  # else "auto" or "local"
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK).close()


def _first(error: BaseException) -> str:
    """Return the first line of an error, for a message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _why(error: BaseException) -> str:
    """Return the line of Ray's report on a death that says most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error" in line or "exit" in line or "dead" in line]
    return (told or lines or [type(error).__name__])[-1][:300]
