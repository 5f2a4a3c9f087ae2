"""Defines what the loop asks of a task: batches, losses, evaluations.

The loop knows no masks, labels or heads; a task knows no optimizer, device or process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from roberta_hub.model.packing import PackedBatch

if TYPE_CHECKING:
    from roberta_hub.interface import RobertaHubInterface


@dataclass(frozen=True)
class Batch:
    """A micro-batch: the examples of one forward and one backward.

    Example:
        >>> from roberta_hub.model.packing import pack_sequences
        >>> packed = pack_sequences([torch.tensor([0, 31414, 2])], padding_idx=1)
        >>> batch = Batch(packed, {"labels": torch.tensor([1])}, count=1)
        >>> batch.to(torch.device("cpu")).packed.lengths
        (3,)
    """

    packed: PackedBatch
    """Real tokens laid end to end, on the CPU as the task makes it."""
    targets: dict[str, Tensor]
    """What the objective compares logits with; the loop moves it to the device with the tokens."""
    count: int
    """How many targets the loss is averaged over (masked tokens, sentences, ...), known before the
    forward."""

    def to(self, device: torch.device) -> Batch:
        """Return the same batch on a device; copies from pinned memory overlap with computation."""
        slots = self.packed.slots
        packed = replace(
            self.packed,
            ids=self.packed.ids.to(device, non_blocking=True),
            positions=self.packed.positions.to(device, non_blocking=True),
            slots=None if slots is None else slots.to(device, non_blocking=True),
        )
        targets = {k: v.to(device, non_blocking=True) for k, v in self.targets.items()}
        return replace(self, packed=packed, targets=targets)


@dataclass
class Loss:
    """The result of a forward: the loss, summed over the batch's targets, and numbers to log."""

    total: Tensor
    """Sum over `Batch.count` targets, float32, on the graph. Shape: ()"""
    logs: dict[str, Tensor] = field(default_factory=dict)
    """Sums or counts, detached scalars; the loop adds them up over micro-batches and processes."""


class TrainingTask(Protocol):
    """A model with its examples, as the loop trains it.

    The optimizer gets `module`'s parameters, in the order of `parameters()`.

    The loss of an update is sum(total) / sum(count) over all micro-batches of all processes
    (fairseq's normalization), so one process that accumulates over two micro-batches and two
    processes with one each give the same gradients.
    """

    module: nn.Module
    """Holds the Roberta as `.roberta`; `forward(batch: Batch) -> Loss`."""
    metric: str
    """The key of `evaluate` that chooses the best checkpoint."""
    larger_is_better: bool
    data_digests: Mapping[str, str]
    """Digests of what it learns and is judged by; see data/digests.py. Empty: unknown, and a run
    that resumes compares sizes alone."""

    def lengths(self, epoch: int) -> Sequence[int]:
        """Count the tokens of each training example of an epoch (numbered from 0); 0: left out."""
        ...

    def batch(self, indices: Sequence[int], epoch: int) -> Batch:
        """Make a batch: a pure function of (seed, epoch, indices), as resuming demands."""
        ...

    def evaluate(self) -> dict[str, float]:
        """Measure the model on the held-out set, in eval mode; empty without such a set.

        The loop calls it in every process at once: sharded weights (FSDP) need all of them, and no
        process waits in a barrier that may time out. Its random draws do not disturb the training.
        """
        ...

    def chance(self) -> float | None:
        """Return the loss of a model that knows nothing, ln K for K classes; None if unknown."""
        ...

    def finish(self) -> RobertaHubInterface:
        """Return the trained model with its heads and label names, ready for `.save`."""
        ...
