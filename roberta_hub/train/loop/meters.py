"""Keeps the numbers of updates on the device until a row of the log asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from roberta_hub.train.loop.devices import Devices
from roberta_hub.train.tasks.training_task import Loss


@dataclass(frozen=True)
class UpdateNumbers:
    """The numbers of one update, over all processes."""

    update: int
    rate: float
    loss: float
    norm: float


class MeterReading(NamedTuple):
    """The numbers since the last reading, over all processes."""

    updates: list[UpdateNumbers]
    loss: float
    """Mean over the targets of these updates."""
    tokens: int
    flops: float
    means: dict[str, float]
    """Means of the numbers in `Loss.logs`."""


class Meters:
    """Adds up losses, counts and norms on the device, and reads them rarely."""

    def __init__(self) -> None:
        self.pending: list[tuple[int, float, Tensor, Tensor, Tensor, int, float]] = []
        self.sums: dict[str, Tensor] = {}

    def add_micro_batch(self, loss: Loss, weight: float) -> None:
        """Add the numbers that a micro-batch logs."""
        for name, value in loss.logs.items():
            self.sums[name] = self.sums.get(name, 0.0) + weight * value.detach().double()

    def add_update(
        self,
        update: int,
        rate: float,
        total: Tensor,
        count: Tensor,
        norm: Tensor,
        tokens: int,
        flops: float,
    ) -> None:
        """Add an update."""
        self.pending.append((update, rate, total, count, norm, tokens, flops))

    def read(self, devices: Devices) -> MeterReading | None:
        """Read and clear; None where no update was added. Only this waits for the device."""
        if not self.pending:
            return None
        names = sorted(self.sums)
        local = [p[2] for p in self.pending] + [self.sums[n].to(self.pending[0][2]) for n in names]
        totals = devices.sum(torch.stack(local)).tolist()
        counts = torch.stack([p[3] for p in self.pending]).tolist()
        norms = torch.stack([p[4] for p in self.pending]).tolist()
        updates = [
            UpdateNumbers(update, rate, total / count, norm)
            for (update, rate, *_), total, count, norm in zip(
                self.pending, totals, counts, norms, strict=False
            )
        ]
        means = {n: v / sum(counts) for n, v in zip(names, totals[len(counts) :], strict=True)}
        tokens, flops = sum(p[5] for p in self.pending), sum(p[6] for p in self.pending)
        self.pending.clear()
        self.sums.clear()
        return MeterReading(updates, sum(totals[: len(counts)]) / sum(counts), tokens, flops, means)
