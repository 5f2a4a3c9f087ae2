"""Writes sharded states in a thread of each process, while the training continues."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.staging import BlockingAsyncStager

from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.files import reason_of
from roberta_hub.train.loop.clock import now
from roberta_hub.train.loop.devices import Devices
from roberta_hub.train.loop.sharded import write_parts
from roberta_hub.train.loop.state import begin_state, commit_state, partial_of


class Writer:
    """Writes one state at a time; all processes make the same calls.

    The processes agree through a group of their own (gloo), so that what they say about a state
    never mixes with what they say about gradients.
    """

    def __init__(self, devices: Devices) -> None:
        self.devices = devices
        self.group: Any = None
        if devices.world > 1:
            self.group = torch.distributed.new_group(backend="gloo")
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="state")
        self.pending: Future[Path | None] | None = None
        self.target = Path()
        self.seconds = 0.0
        """How long the last state took, from its copy to its renaming."""

    def start(self, directory: Path, tensors: Mapping[str, Tensor], rest: dict[str, Any]) -> None:
        """Copy the tensors and begin to write them; nothing may be pending."""
        start, update, error = now(), rest["progress"]["update"], None
        self.target = directory / f"state-{update:09d}"
        work = partial_of(self.target)
        if self.devices.main:
            try:
                begin_state(directory, update)
            except OSError as found:
                error = str(found)
        self._check(error)
        if any(self.devices.agree(not work.is_dir())):
            raise InputError(
                f"{directory}: not every process sees what the first one writes there, and with "
                "loop.state=sharded each writes a part of the state; put `output` on a file "
                "system that every machine shares, or set loop.state=whole"
            )
        self.pending = self.pool.submit(self._write, work, copy_to_cpu(tensors), rest, start)

    def _write(
        self, work: Path, copies: dict[str, Tensor], rest: dict[str, Any], start: float
    ) -> Path | None:
        write_parts(work, copies, self.group)
        path = commit_state(work, rest) if self.devices.main else None
        self.seconds = now() - start
        return path

    def failed(self) -> bool:
        """Tell whether this process knows that the pending state was not written."""
        pending = self.pending
        return pending is not None and pending.done() and pending.exception() is not None

    def wait(self) -> Path | None:
        """Wait until the pending state is written; return its path in the first process."""
        if self.pending is None:
            return None
        pending, self.pending = self.pending, None
        path, error = None, None
        try:
            path = pending.result()
        except Exception as found:  # of the disk, of torch, of another process
            error = reason_of(found)
        self._check(error)
        return path

    def _check(self, error: str | None) -> None:
        """Raise the first error that any process has."""
        found = [one for one in self.devices.gather(error) if one]
        if found:
            if self.devices.main:
                shutil.rmtree(partial_of(self.target), ignore_errors=True)
            raise CheckpointError(
                f"{self.target}: the state cannot be written ({found[0]}); the one before is as it "
                "was. Free some room, then start again to resume from there"
            )

    def close(self) -> None:
        """Let a pending state end, whatever comes of it."""
        self.pool.shutdown(wait=True)


def copy_to_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors, sharded ones too, so that what is copied may change.

    torch's stager does so, but that of torch 2.6 copies none that is on the CPU already.
    """
    here = {n: t.detach().clone() for n, t in tensors.items() if t.device.type == "cpu"}
    elsewhere = {name: tensor for name, tensor in tensors.items() if name not in here}
    return {**here, **BlockingAsyncStager().stage(elsewhere)}
