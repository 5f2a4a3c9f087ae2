"""Multitask training: the main task of a run, and side tasks in every update.

A fine-tuned encoder no longer fills masks (rehearsal; Robins 1995), and makes worse vectors of
sentences. Where one model must do several things, as roberta.tiny must, each update also has
examples of the other tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from roberta_hub.errors import InputError
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.train.data.digests import of_side_task
from roberta_hub.train.data.random_hash import uniform
from roberta_hub.train.limits import read_options
from roberta_hub.train.settings import Config, DataConfig, TaskConfig
from roberta_hub.train.tasks.options import FinetuningOptions
from roberta_hub.train.tasks.training_task import Batch, Loss, TrainingTask

REHEARSAL_BLOCK_SIZE = 128
"""Tokens of a block of ordinary text, in rehearsal."""
_SIDE_TASK_PURPOSE = 32
"""Purpose of the random numbers that choose the first side task's examples; the next has 33."""


@dataclass(frozen=True)
class SideTask:
    """One entry of `task.options.beside`: a task, its data, and its weight."""

    name: str = ""
    """Name of the task, as in `task.name`."""
    train: str = ""
    """Its training set, as in `data.train`."""
    share: float = 1.0
    """Tokens of its examples for each token of the run's own task."""
    weight: float = 1.0
    """Weight of its mean loss, relative to the main task's."""
    head: str | None = None
    """As `task.head`."""
    format: str | None = None
    """As `data.format`."""
    columns: dict[str, Any] = field(default_factory=dict)
    """As `data.columns`."""
    labels: list[str] | None = None
    """As `data.labels`."""
    options: dict[str, Any] = field(default_factory=dict)
    """As `task.options`."""

    def __post_init__(self) -> None:
        for name in ("name", "train"):
            if not getattr(self, name):
                raise InputError(f"a task in task.options.beside has no {name}")
        for name in ("share", "weight"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError(
                    f"{name} of {self.name} in task.options.beside is {getattr(self, name)}, must "
                    "be at least 0"
                )

    def config(self, config: Config, number: int) -> Config:
        """Return the configuration of this task in a run; tokens have a folder of their own."""
        own = TaskConfig(name=self.name, options=self.options)
        return replace(
            config,
            output=f"{config.output}/beside-{number}",
            data=DataConfig(
                train=self.train, format=self.format, columns=self.columns, labels=self.labels
            ),
            task=own if self.head is None else replace(own, head=self.head),
        )


def side_tasks(options: FinetuningOptions, max_positions: int) -> list[SideTask]:
    """Read the side tasks of a run."""
    found = []
    for entry in options.beside or []:
        if not isinstance(entry, dict):
            raise InputError("task.options.beside is a list of {name: ..., train: ...}")
        found.append(read_options(SideTask, entry, where="task.options.beside"))
    if options.rehearse is not None:
        block = {"block_size": min(REHEARSAL_BLOCK_SIZE, max_positions)}
        share, weight = options.rehearse_share, options.rehearse_weight
        found.append(SideTask("masked_lm", options.rehearse, share, weight, options=block))
    return found


@dataclass(frozen=True)
class MultitaskBatch(Batch):
    """A batch of the main task, and one of each side task."""

    side_batches: tuple[Batch, ...]

    def to(self, device: torch.device) -> MultitaskBatch:
        """Move all of them to a device."""
        own = super().to(device)
        others = tuple(batch.to(device) for batch in self.side_batches)
        return replace(self, packed=own.packed, targets=own.targets, side_batches=others)


class MultitaskModule(nn.Module):
    """The main task's module, which adds the losses of the side tasks."""

    def __init__(
        self, module: nn.Module, sides: Sequence[SideTask], others: Sequence[TrainingTask]
    ) -> None:
        super().__init__()
        self.roberta = module.get_submodule("roberta")
        # Not registered: their parameters are roberta's.
        self._module, self._others = (module,), tuple(other.module for other in others)
        self._sides = tuple(sides)
        names = [side.name for side in sides]
        # Two of one name are told apart by their numbers in the list.
        self._labels = [
            name if names.count(name) == 1 else f"{name}_{n}" for n, name in enumerate(names, 1)
        ]

    def train(self, mode: bool = True) -> MultitaskModule:
        """Set the mode of every task's module."""
        super().train(mode)
        for module in (*self._module, *self._others):
            module.train(mode)
        return self

    def forward(self, batch: Batch) -> Loss:
        """Add the task's loss, summed over its targets, and each other's mean as many times."""
        loss: Loss = self._module[0](batch)
        if not isinstance(batch, MultitaskBatch):
            return loss
        total, logs = loss.total, dict(loss.logs)
        for side, label, module, other in zip(
            self._sides, self._labels, self._others, batch.side_batches, strict=True
        ):
            found: Loss = module(other)
            scale = batch.count / max(other.count, 1)
            total = total + side.weight * scale * found.total
            numbers = {"loss": found.total.detach(), **found.logs}
            logs |= {f"{label}_{name}": scale * value for name, value in numbers.items()}
        return Loss(total, logs)


class MultitaskTask:
    """A `TrainingTask` of a main task, whose examples make the epochs, and of side tasks."""

    def __init__(
        self,
        task: TrainingTask,
        sides: Sequence[SideTask],
        others: Sequence[TrainingTask],
        seed: int,
    ) -> None:
        """Put them together."""
        self._task, self._sides, self._others, self._seed = task, sides, others, seed
        self._means = [sum(found) / len(found) for found in (o.lengths(0) for o in others)]
        self.module: nn.Module = MultitaskModule(task.module, sides, others)
        self.metric, self.larger_is_better = task.metric, task.larger_is_better
        self.data_digests: Mapping[str, str] = task.data_digests
        for number, other in enumerate(others, 1):
            own = of_side_task(other.data_digests, number)
            self.data_digests = {**self.data_digests, **own}

    def lengths(self, epoch: int) -> Sequence[int]:
        """Count the tokens of each example of the run's own task."""
        return self._task.lengths(epoch)

    def batch(self, indices: Sequence[int], epoch: int) -> Batch:
        """Make a batch of examples, and of the others' that the first example's number draws."""
        own = self._task.batch(indices, epoch)
        tokens = sum(own.packed.lengths)
        others = []
        for number, (side, other) in enumerate(zip(self._sides, self._others, strict=True)):
            lengths = other.lengths(epoch)
            places = torch.arange(max(1, round(side.share * tokens / self._means[number])))
            first = torch.full_like(places, indices[0])
            luck = uniform(self._seed, epoch, first, places, _SIDE_TASK_PURPOSE + number)
            drawn = (luck * len(lengths)).long().tolist()
            # Neighbours of similar length share a call of attention.
            others.append(other.batch(sorted(drawn, key=lambda i: -lengths[i]), epoch))
        return MultitaskBatch(own.packed, own.targets, own.count, tuple(others))

    def evaluate(self) -> dict[str, float]:
        """Measure the run's own task."""
        return self._task.evaluate()

    def chance(self) -> float | None:
        """Return None: the loss is a sum of several."""
        return None

    def finish(self) -> RobertaHubInterface:
        """Return the trained model."""
        return self._task.finish()
