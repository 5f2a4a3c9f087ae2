"""Makes a fine-tuning task of its record: what it reads, its head, its loss, its measures.

A new task is one record in a file of its own, and a line of `FINETUNING_TASKS` in `build.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from torch import Tensor

from roberta_hub.interface import RobertaHubInterface
from roberta_hub.train.data.digests import data_digests
from roberta_hub.train.tasks.evaluation import gather_outputs
from roberta_hub.train.tasks.finetuning import Encoded, FineTuning, Measure, Objective
from roberta_hub.train.tasks.options import FinetuningOptions, Source, TaskSettings, metric_of

Settings = TaskSettings[FinetuningOptions]
Example = TypeVar("Example")
Made = TypeVar("Made")
"""What a task's `head` returns: the names of the outputs, say."""


@dataclass(frozen=True)
class ExampleSet(Generic[Example]):
    """The examples of a set, and the model that learns them or is judged by them."""

    settings: Settings
    interface: RobertaHubInterface
    rows: Sequence[Example]


@dataclass(frozen=True)
class TaskRecord(Generic[Example, Made]):
    """All that makes one fine-tuning task another than the others."""

    read: Callable[[Settings, RobertaHubInterface, Source], Sequence[Example]]
    """Reads the examples of a set."""
    head: Callable[[ExampleSet[Example]], Made]
    """Makes the head that learns the training examples, or keeps one that can learn on."""
    loss: Callable[[Settings, Made], Objective]
    """Makes the objective."""
    encode: Callable[[ExampleSet[Example], Made], Encoded]
    """Encodes examples as ids and targets."""
    measures: Callable[[ExampleSet[Example], Made, Objective], Measure]
    """Makes what measures a model on the held-out set; its errors come before the training."""
    metrics: Callable[[Settings, Sequence[Example] | None], Sequence[str]]
    """Names what is measured on a held-out set, first what chooses the best model."""
    chance: Callable[[ExampleSet[Example], Made, Encoded], float | None] | None = None
    """Computes the loss of a model that knows nothing; None: unknown."""

    def task(self, settings: Settings, interface: RobertaHubInterface) -> FineTuning:
        """Read the sets of a run, and make its task around a model, which gets the head."""
        rows = self.read(settings, interface, settings.train)[: settings.config.data.limit]
        held_out = settings.valid
        valid = None if held_out is None else self.read(settings, interface, held_out)
        train = ExampleSet(settings, interface, rows)
        made, measure = self.head(train), None
        objective = self.loss(settings, made)
        if valid:
            measure = self.measures(replace(train, rows=valid), made, objective)
        encoded = self.encode(train, made)
        return FineTuning(
            interface,
            objective,
            encoded,
            measure,
            metric=metric_of(settings.config, self.metrics(settings, valid)),
            chance=self.chance and self.chance(train, made, encoded),
            data_digests=data_digests(rows, valid),
        )


def rows_of(
    read: Callable[[str, str | None, Mapping[str, Any]], list[Example]],
) -> Callable[[Settings, RobertaHubInterface, Source], list[Example]]:
    """Read a set with a function of its path, `data.format` and `data.columns`."""

    def rows(settings: Settings, interface: RobertaHubInterface, source: Source) -> list[Example]:
        return read(source.path, settings.config.data.format, settings.config.data.columns)

    return rows


def on_outputs(
    encode: Callable[[ExampleSet[Example], Made], Encoded],
    numbers: Callable[[list[Tensor], list[Tensor]], dict[str, float]],
) -> Callable[[ExampleSet[Example], Made, Objective], Measure]:
    """Measure the loss on a held-out set, and numbers of the logits and labels of its batches."""

    def measures(held_out: ExampleSet[Example], made: Made, objective: Objective) -> Measure:
        encoded = encode(held_out, made)

        def measure() -> dict[str, float]:
            logits, labels, loss = gather_outputs(held_out.interface, objective, encoded)
            return {**numbers(logits, labels), "loss": loss}

        return measure

    return measures


def always(*names: str) -> Callable[[Settings, Any], Sequence[str]]:
    """Name the same measures for every set."""
    return lambda settings, held_out: names
