"""What updates leave behind until somebody looks: numbers on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from roberta_hub.train.loop.devices import Devices
from roberta_hub.train.tasks.task import Loss


@dataclass(frozen=True)
class Done:
    """An update that is done, over all processes."""

    update: int
    rate: float
    loss: float
    norm: float


class Looked(NamedTuple):
    """The updates since the last look."""

    updates: list[Done]
    loss: float
    """Mean over their targets."""
    tokens: int
    means: dict[str, float]
    """Of the numbers that the losses came with."""


class Tally:
    """Losses, counts and norms of updates, on the device."""

    def __init__(self) -> None:
        self.pending: list[tuple[int, float, Tensor, Tensor, Tensor, int]] = []
        self.sums: dict[str, Tensor] = {}

    def note(self, loss: Loss, weight: float) -> None:
        """The numbers of a micro-batch."""
        for name, value in loss.logs.items():
            self.sums[name] = self.sums.get(name, 0.0) + weight * value.detach().double()

    def add(
        self, update: int, rate: float, total: Tensor, count: Tensor, norm: Tensor, tokens: int
    ) -> None:
        """An update: this process's summed loss, the targets and the gradient's norm of all."""
        self.pending.append((update, rate, total, count, norm, tokens))

    def look(self, devices: Devices) -> Looked | None:
        """What happened since the last look, or None: the one place that waits for the device."""
        if not self.pending:
            return None
        names = sorted(self.sums)
        local = [p[2] for p in self.pending] + [self.sums[n].to(self.pending[0][2]) for n in names]
        totals = devices.sum(torch.stack(local)).tolist()
        counts = torch.stack([p[3] for p in self.pending]).tolist()
        norms = torch.stack([p[4] for p in self.pending]).tolist()
        updates = [
            Done(update, rate, total / count, norm)
            for (update, rate, *_), total, count, norm in zip(
                self.pending, totals, counts, norms, strict=False
            )
        ]
        means = {n: v / sum(counts) for n, v in zip(names, totals[len(counts) :], strict=True)}
        tokens = sum(p[5] for p in self.pending)
        self.pending.clear()
        self.sums.clear()
        return Looked(updates, sum(totals[: len(counts)]) / sum(counts), tokens, means)
