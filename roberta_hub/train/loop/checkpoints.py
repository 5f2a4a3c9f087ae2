"""Saves and restores a run over all its processes: states to resume from, models for people."""

from __future__ import annotations

import hashlib
import socket
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from roberta_hub.errors import InputError
from roberta_hub.train.loop.devices import Devices
from roberta_hub.train.loop.state import (
    Progress,
    State,
    check_same,
    find_state,
    generators,
    is_sharded,
    load_state,
    load_without_tensors,
    save_state,
    set_generators,
    state_without_tensors,
)
from roberta_hub.train.tasks.training_task import TrainingTask

if TYPE_CHECKING:
    from roberta_hub.interface import RobertaHubInterface
    from roberta_hub.train.loop.background import Writer


class Checkpoints:
    """The states of a run in one folder; every process makes the same calls.

    As a context it lets a state that is being written end.
    """

    def __init__(self, devices: Devices, directory: Path, kind: str) -> None:
        self.devices, self.directory = devices, directory
        self.writer: Writer | None = None
        if kind == "sharded":
            from roberta_hub.train.loop.background import Writer

            self.writer = Writer(devices)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *error: object) -> None:
        if self.writer is not None:
            self.writer.close()

    def restore(
        self, module: nn.Module, optimizer: Any, identity: Mapping[str, Any], *, resume: bool
    ) -> tuple[Path, State] | None:
        """Read the newest state into module and optimizer; None where there is none."""
        devices = self.devices
        path = common_state(devices, self.directory, resume=resume)
        if path is None:
            return None
        if is_sharded(path):
            from roberta_hub.train.loop.sharded import read_parts

            state = load_without_tensors(path)
            check_same(path, state.identity, identity)
            group = None if devices.world == 1 else torch.distributed.group.WORLD
            read_parts(path, state, module, optimizer, group)
        else:
            state = load_state(path)
            check_same(path, state.identity, identity)
            devices.put_weights(module, state.weights, path)
            devices.put_optimizer(optimizer, state.optimizer)
        devices.put_scaler(state.scaler)
        return path, state

    def save(
        self, module: nn.Module, optimizer: Any, progress: Progress, identity: dict[str, Any]
    ) -> Path | None:
        """Write a state; return the path of one that is now whole, in the first process.

        A sharded one is only begun: the path is that of the state before.
        """
        devices, before = self.devices, self.wait()
        each = devices.gather(generators())
        state = State({}, {}, progress, each, identity, devices.scaler())
        if self.writer is not None:
            from roberta_hub.train.loop.sharded import groups_of, tensors_of

            rest = {**state_without_tensors(state), "param_groups": groups_of(optimizer)}
            self.writer.start(self.directory, tensors_of(module, optimizer), rest)
            return before
        state.weights, state.optimizer = devices.weights(module), devices.optimizer_state(optimizer)
        path = save_state(self.directory, state) if devices.main else None
        devices.wait()
        return path

    def failed(self) -> bool:
        """Tell whether this process knows that a state which was begun cannot be written."""
        return self.writer is not None and self.writer.failed()

    def wait(self) -> Path | None:
        """Wait for the state that was begun; return its path in the first process."""
        return None if self.writer is None else self.writer.wait()

    @property
    def seconds(self) -> float:
        """Seconds that writing the last state in the background took."""
        return 0.0 if self.writer is None else self.writer.seconds


def restore_generators(devices: Devices, path: Path, state: State) -> None:
    """Set this process's random numbers as they were, or warn where processes are more or fewer."""
    if len(state.generators) == devices.world:
        set_generators(state.generators[devices.rank])
    elif devices.main:
        warnings.warn(
            f"{path} was written by {len(state.generators)} processes, now there are "
            f"{devices.world}: the run continues, but its dropout differs from that of an "
            "uninterrupted one",
            stacklevel=6,
        )


def save_model(
    devices: Devices,
    task: TrainingTask,
    place: Path,
    beside: Callable[[RobertaHubInterface], object] | None = None,
) -> None:
    """Write the model alone, for `load_model`; every process must call."""
    with devices.whole(task.module):
        if devices.main:
            task.finish().save(place)
            if beside is not None:
                beside(task.finish())
    devices.wait()


def common_state(devices: Devices, directory: Path, *, resume: bool) -> Path | None:
    """Find the newest state in a folder, the same one for every process; None: there is none."""
    path = find_state(directory) if resume else None
    update = None if path is None else int("".join(filter(str.isdigit, path.name)))
    place = f"{directory.resolve()} on {socket.gethostname()}"
    found = devices.gather((place, update, path and _digest(path)))
    if len({(update, digest) for _, update, digest in found}) == 1:
        return path
    listed = "; ".join(
        f"process {rank}: {place} has {'no state' if update is None else f'update {update}'}"
        for rank, (place, update, _) in enumerate(found)
    )
    raise InputError(
        f"the processes would resume from different states ({listed}). The folder `output` must be "
        "shared by all of them: put it on a file system that every machine sees, or copy the "
        "newest state-* folder to each machine; resume=false starts over"
    )


def _digest(path: Path) -> str:
    """Hash what tells a state from others of the same update: generators, clock and sizes."""
    try:
        sizes = [found.stat().st_size for found in sorted(path.rglob("*")) if found.is_file()]
        return hashlib.blake2b((path / "run.pt").read_bytes()).hexdigest() + str(sizes)
    except OSError as error:  # `load_state` says what is wrong with it
        return f"unreadable: {error.strerror}"
