"""Reports on a run: messages of the logger "roberta_hub" while it works, a `RunResult` at its end.

The loggers are silent unless a program configures `logging`; the commands show messages on stderr
(`on_stderr`). `fit` trains several times: it shows its own messages, and those about long
trainings.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roberta_hub.terminal import bar_class, clean

logger = logging.getLogger("roberta_hub")
updates = logging.getLogger("roberta_hub.updates")
"""Messages about the updates of a training that takes longer than `MESSAGE_SECONDS`."""
fitting = logging.getLogger("roberta_hub.fit")
"""Messages about the methods that `fit` compares."""
MESSAGE_SECONDS = 30.0
"""Seconds between messages about the updates."""


def first_process() -> bool:
    """Tell whether this process reports for all of them; it is known before `Devices` exist."""
    return os.environ.get("RANK", "0") == "0"


class Messages:
    """The messages of one run; they estimate the time left from the updates since their first."""

    def __init__(self, directory: Path | None, update: int, end: int) -> None:
        self.directory = directory
        self.first, self.end = update, end
        self.began = time.monotonic()
        self.last = -MESSAGE_SECONDS  # of the last message about updates: the first comes at once

    def begin(self, model: str, parameters: int, lengths: Any, epoch: int, warmup: int) -> None:
        """Say what is trained, on how much, for how long, and where it is written."""
        logger.info(
            "training %s, %s parameters, on %s examples, %s tokens an epoch",
            model,
            f"{parameters:,}",
            f"{len(lengths):,}",
            f"{sum(lengths):,}",
        )
        gone = f", {self.first:,} of them done" if self.first else ""
        logger.info(
            "%s updates%s, %s an epoch, %s of warm-up%s",
            f"{self.end:,}",
            gone,
            f"{epoch:,}",
            f"{warmup:,}",
            f"; everything is written into {self.directory}" if self.directory else "",
        )

    def updated(self, row: Mapping[str, Any]) -> None:
        """Log loss, learning rate, speed and time left, at most every `MESSAGE_SECONDS`."""
        now = time.monotonic()
        if now - self.began < self.last + MESSAGE_SECONDS:
            return
        channel = logger if self.last < 0 else updates
        self.last = now - self.began
        update = row["update"]
        left = (now - self.began) / max(update - self.first, 1) * max(self.end - update, 0)
        channel.info(
            "update %s of %s, epoch %s: loss %.4g, learning rate %.3g, %s tokens/s, %s left",
            f"{update:,}",
            f"{self.end:,}",
            row["epoch"] + 1,
            row["loss"],
            row["lr"],
            f"{row['tokens_per_second']:,.0f}",
            duration(left),
        )

    def evaluated(self, row: Mapping[str, Any], best: bool) -> None:
        """Say the numbers of an evaluation."""
        shown = ", ".join(f"{name} {v:.4g}" for name, v in row.items() if name != "update")
        kept = f", kept in {self.directory / 'best'}" if self.directory else ""
        said = f"; the best so far{kept}" if best else ""
        logger.info("evaluated after update %s: %s%s", f"{row['update']:,}", shown, said)

    def saved(self, path: Path) -> None:
        """Log the path of a state that the run can resume from."""
        logger.info("saved %s", path)

    def stopped(self, update: int, why: str) -> None:
        """Say why the run stopped, and where its model is."""
        logger.info(
            "stopped after update %s, %s (%s)%s",
            f"{update:,}",
            STOP_REASONS[why],
            why,
            f"; the model is in {self.directory / 'last'}" if self.directory else "",
        )


STOP_REASONS = {
    "max_updates": "all updates are done",
    "max_epochs": "all epochs are done",
    "patience": "evaluations got no better",
    "degenerate": "nothing is learned",
    "max_minutes": "the time is up",
    "interrupted": "as asked by a signal",
}
"""Why a run stops, in words."""


@dataclass
class RunResult:
    """How a run ended."""

    directory: Path
    update: int
    epoch: int
    stopped: str
    """A key of `STOP_REASONS`; after "max_minutes" and "interrupted" the run can resume."""
    metrics: dict[str, float]
    """Numbers of the last evaluation."""
    best: float | None
    best_update: int | None
    degenerate: str | None
    """A sentence, if the run learned nothing."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.stopped not in ("max_minutes", "interrupted")


def duration(seconds: float) -> str:
    """Write a time as people say it.

    Example:
        >>> duration(8), duration(200), duration(3_900), duration(200_000)
        ('8 s', '3 min 20 s', '1 h 05 min', '55 h 33 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


class _Lines(logging.Handler):
    """Writes to stderr, above a progress bar where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            bar_class().write(clean(self.format(record)), file=sys.stderr)
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


@contextmanager
def on_stderr(*loggers: logging.Logger) -> Iterator[None]:
    """Show messages on stderr inside the block, each with its time of day."""
    shown = loggers or (logger,)
    handler, levels = _Lines(), [one.level for one in shown]
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    for one in shown:
        one.addHandler(handler)
        one.setLevel(logging.INFO)
    try:
        yield
    finally:
        for one, level in zip(shown, levels, strict=True):
            one.removeHandler(handler)
            one.setLevel(level)
