"""Makes a fine-tuning task of its parts: examples as ids and targets, an objective, a measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor, nn

from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.packing import pack_sequences
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.tasks.features import roberta_of
from roberta_hub.train.tasks.training_task import Batch, Loss

Targets = dict[str, Tensor]


@dataclass(frozen=True)
class Encoded:
    """Examples as ids and targets."""

    sequences: Sequence[tuple[Tensor, ...]]
    """The sequences of each example: one, or one for each option."""
    targets: Callable[[Sequence[int]], tuple[Targets, int]]
    """Makes the targets of a batch of examples, and the count that its loss is averaged over."""

    def lengths(self) -> list[int]:
        """Count the tokens of each example."""
        return [sum(map(len, own)) for own in self.sequences]

    def batch(self, indices: Sequence[int], padding_idx: int) -> Batch:
        """Pack some examples."""
        flat = [ids for i in indices for ids in self.sequences[i]]
        targets, count = self.targets(indices)
        return Batch(pack_sequences(flat, padding_idx=padding_idx), targets, count)


def labelled(
    ids: Sequence[Tensor], labels: Tensor, per: int = 1, weights: Tensor | None = None
) -> Encoded:
    """Make examples of sequences with a row of labels each, which counts as `per` targets.

    Losses are multiplied by `weights`, (n,), of a mean of 1.
    """

    def targets(indices: Sequence[int]) -> tuple[Targets, int]:
        found = {"labels": labels[list(indices)]}
        if weights is not None:
            found["weights"] = weights[list(indices)]
        return found, per * len(indices)

    return Encoded([(own,) for own in ids], targets)


def rows_in_batch(places: Sequence[Tensor], lengths: Sequence[int]) -> Tensor:
    """Find the rows of some places of each sequence, where sequences are laid end to end.

    Example:
        >>> rows_in_batch([torch.tensor([1, 2]), torch.tensor([0])], [4, 2])
        tensor([1, 2, 4])
    """
    starts = accumulate(lengths, initial=0)
    return torch.cat([own + start for own, start in zip(places, starts, strict=False)])


class Objective(Protocol):
    """Computes logits of a batch, and their loss. Holds no parameters."""

    def logits(self, roberta: Roberta, batch: Batch) -> Tensor:
        """Compute the head's output; its shape is the objective's own."""
        ...

    def loss(self, logits: Tensor, batch: Batch) -> Loss:
        """Sum the loss over the batch's targets."""
        ...


class HeadModule(nn.Module):
    """A model under an objective, as the optimizer and DDP see it."""

    def __init__(self, roberta: Roberta, objective: Objective) -> None:
        super().__init__()
        self.roberta = roberta
        self.objective = objective

    def forward(self, batch: Batch) -> Loss:
        """Compute the loss of a batch."""
        return self.objective.loss(self.objective.logits(self.roberta, batch), batch)


Measure = Callable[[], dict[str, float]]
"""Measures the model on the held-out set."""
Hide = Callable[[Tensor, tuple[int, ...], Sequence[int], int], Tensor]
"""Takes the ids of a batch, (N,), the tokens of each sequence, the examples' numbers and the epoch;
returns the ids that the model sees, (N,)."""


class FineTuning:
    """A `TrainingTask` made of examples, an objective and a measure."""

    def __init__(
        self,
        interface: RobertaHubInterface,
        objective: Objective,
        train: Encoded,
        measure: Measure | None,
        *,
        metric: str,
        chance: float | None = None,
        hide: Hide | None = None,
        data_digests: Mapping[str, str] | None = None,
    ) -> None:
        """Put the parts together."""
        self.interface = interface
        self.roberta = roberta_of(interface)
        self.module: nn.Module = HeadModule(self.roberta, objective)
        self.metric = metric
        self.larger_is_better = metric != "loss"
        self._train = train
        self._lengths = train.lengths()
        self._measure = measure
        self._chance = chance
        self._hide = hide
        self.data_digests: Mapping[str, str] = data_digests or {}

    def lengths(self, epoch: int) -> Sequence[int]:
        """Count the tokens of each training example, the same in every epoch."""
        return self._lengths

    def batch(self, indices: Sequence[int], epoch: int) -> Batch:
        """Make a batch of training examples."""
        batch = self._train.batch(indices, self.roberta.config.padding_idx)
        if self._hide is None:
            return batch
        seen = self._hide(batch.packed.ids, batch.packed.lengths, indices, epoch)
        return replace(batch, packed=replace(batch.packed, ids=seen))

    def evaluate(self) -> dict[str, float]:
        """Measure the model on the held-out set; empty without such a set."""
        return self._measure() if self._measure is not None else {}

    def chance(self) -> float | None:
        """Return the loss of a model that knows nothing."""
        return self._chance

    def finish(self) -> RobertaHubInterface:
        """Return the trained model with its head and label names."""
        return self.interface
