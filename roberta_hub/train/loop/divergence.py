"""Watches for runs that go wrong: NaN, exploding gradients, a loss that stays that of chance."""

from __future__ import annotations

import math
import statistics
from collections import deque
from typing import Any

from roberta_hub.errors import RobertaHubError

WINDOW_UPDATES = 50
"""Updates that a warning rests on."""
CHANCE_MARGIN = 0.02
"""A run whose loss is within this fraction of chance, or above it, has learned nothing."""
EXPLOSION_RATIO = 100.0
"""A gradient explodes at this many times its usual norm."""
MAX_SKIPPED_UPDATES = 50
"""Updates in a row that fp16 may skip while it looks for a loss scale."""


class DivergedError(RobertaHubError, ArithmeticError):
    """The loss or gradient is no longer a number; the message names update and learning rate."""


class DivergenceMonitor:
    """Checks the loss and the gradient norm of every update."""

    def __init__(
        self, chance: float | None, *, warmup: int, precision: str, memory: dict[str, Any]
    ) -> None:
        self.chance = chance
        self.patience = warmup + max(2 * WINDOW_UPDATES, warmup // 2)
        self.precision = precision
        self.losses: deque[float] = deque(memory.get("losses", []), WINDOW_UPDATES)
        self.norms: deque[float] = deque(memory.get("norms", []), WINDOW_UPDATES)
        self.usual = float(memory.get("usual", 0.0))
        """The largest median of gradient norms so far: near the end of a run they are tiny."""
        self.quiet_until = 0
        self.skips = int(memory.get("skips", 0))
        self.said: str | None = memory.get("said")

    def memory(self) -> dict[str, Any]:
        """Return what a resumed run must know."""
        return {
            "losses": list(self.losses),
            "norms": list(self.norms),
            "usual": self.usual,
            "skips": self.skips,
            "said": self.said,
        }

    def check(self, update: int, loss: float, norm: float, rate: float) -> str | None:
        """Check one update; return a warning if its gradient explodes."""
        numbers = f"learning rate {rate:.3g}, gradient norm {norm:.3g}"
        remedy = (
            "lower optimizer.lr, lengthen optimizer.warmup_updates or set optimizer.clip_norm=1, "
            "and start with resume=false or another output folder"
        )
        if not math.isfinite(loss):
            raise DivergedError(f"update {update}: the loss is {loss} ({numbers}); {remedy}")
        if not math.isfinite(norm):
            self.skips += 1
            if self.precision != "fp16" or self.skips > MAX_SKIPPED_UPDATES:
                raise DivergedError(
                    f"update {update}: the gradient is no number ({numbers}, loss {loss:.4g}); "
                    f"{remedy}"
                )
            return None
        self.skips = 0
        if len(self.norms) >= 10:
            self.usual = max(self.usual, statistics.median(self.norms))
        usual = self.usual
        self.losses.append(loss)
        self.norms.append(norm)
        if usual and norm > EXPLOSION_RATIO * usual and update >= self.quiet_until:
            self.quiet_until = update + WINDOW_UPDATES
            return (
                f"update {update}: gradient norm {norm:.3g} is {norm / usual:.0f} times the usual "
                f"{usual:.3g} (learning rate {rate:.3g}); if the loss does not come down again, "
                "set optimizer.clip_norm=1"
            )
        return None

    def degenerate(self, update: int) -> str | None:
        """Return a warning, once, if the loss is still that of chance well after the warm-up."""
        if self.said or self.chance is None or update < self.patience:
            return None
        if len(self.losses) < WINDOW_UPDATES:
            return None
        mean = statistics.fmean(self.losses)
        if mean < (1 - CHANCE_MARGIN) * self.chance:
            return None
        classes = round(math.exp(min(self.chance, 700.0)))
        self.said = (
            f"update {update}: this run has learnt nothing, the mean loss of the last "
            f"{WINDOW_UPDATES} updates, {mean:.4f}, is that of chance, ln {classes} = "
            f"{self.chance:.4f}. Start again with another seed, a lower optimizer.lr or more "
            "optimizer.warmup_updates; if that does not help, look whether the labels fit the texts"
        )
        return self.said
