"""Saves and restores a run over all its processes: states to go on from, models for people."""

from __future__ import annotations

import hashlib
import socket
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from roberta_hub.errors import InputError
from roberta_hub.train.loop.devices import Devices
from roberta_hub.train.loop.state import (
    Progress,
    State,
    find_state,
    generators,
    load_state,
    save_state,
    set_generators,
)
from roberta_hub.train.tasks.training_task import TrainingTask


def restore(
    devices: Devices,
    directory: Path,
    module: nn.Module,
    optimizer: Any,
    identity: Mapping[str, Any],
    *,
    resume: bool,
) -> tuple[Path, State] | None:
    """Read the newest state of a folder into module and optimizer; None where there is none.

    Args:
        devices: the processes; each must call.
        directory: folder of the run.
        module: gets the weights.
        optimizer: gets its moments; the loss scale of fp16 goes to `devices`.
        identity: what must be the same for the run to go on.
        resume: False looks for no state.

    Raises:
        CheckpointError: a damaged state.
        InputError: a state of another run, or not the same state in every process.
    """
    path = common_state(devices, directory, resume=resume)
    if path is None:
        return None
    state = load_state(path, identity)
    devices.put_weights(module, state.weights, path)
    devices.put_optimizer(optimizer, state.optimizer)
    devices.put_scaler(state.scaler)
    return path, state


def restore_generators(devices: Devices, path: Path, state: State) -> None:
    """Set this process's random numbers as they were, or warn where processes are more or fewer."""
    if len(state.generators) == devices.world:
        set_generators(state.generators[devices.rank])
    elif devices.main:
        warnings.warn(
            f"{path} was written by {len(state.generators)} processes, now there are "
            f"{devices.world}: the run goes on, but its dropout differs from that of an "
            "uninterrupted one",
            stacklevel=6,
        )


def save(
    devices: Devices,
    directory: Path,
    module: nn.Module,
    optimizer: Any,
    progress: Progress,
    identity: dict[str, Any],
) -> Path | None:
    """Write a state; every process must call, the first one writes and returns its path."""
    each = devices.gather(generators())
    weights = devices.weights(module)
    moments = devices.optimizer_state(optimizer)
    path = None
    if devices.main:
        state = State(weights, moments, progress, each, identity, devices.scaler())
        path = save_state(directory, state)
    devices.wait()
    return path


def save_model(devices: Devices, task: TrainingTask, place: Path) -> None:
    """Write the model alone, for `load_model`; every process must call."""
    with devices.whole(task.module):
        if devices.main:
            task.finish().save(place)
    devices.wait()


def common_state(devices: Devices, directory: Path, *, resume: bool) -> Path | None:
    """Find the newest state in a folder, the same one for every process; None: there is none.

    Args:
        devices: the processes; each must call.
        directory: folder of the run, as this process knows it.
        resume: False looks for none.

    Raises:
        InputError: the processes have found different states; the message lists them.
    """
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
        f"the processes would go on from different states ({listed}). The folder `output` must be "
        "shared by all of them: put it on a file system that every machine sees, or copy the "
        "newest state-* folder to each machine; resume=false begins anew"
    )


def _digest(path: Path) -> str:
    """Hash what tells a state from others of the same update: generators, clock and sizes."""
    try:
        sizes = [(path / name).stat().st_size for name in ("weights.safetensors", "optimizer.pt")]
        return hashlib.blake2b((path / "run.pt").read_bytes()).hexdigest() + str(sizes)
    except OSError as error:  # `load_state` says what is wrong with it
        return f"unreadable: {error.strerror}"
