"""Times the parts of a run, and tells when `loop.max_minutes` ends it."""

from __future__ import annotations

import time

SLOW_DISK_SPEED = 2e8
"""Speed of a slow disk, for a first estimate of how long saving takes."""


def now() -> float:
    """Seconds on a clock that never goes back."""
    return time.monotonic()


class Clock:
    """How long updates, evaluations and savings take, and how much time is left."""

    def __init__(self, started: float, minutes: float | None, size: int) -> None:
        self.deadline = None if minutes is None else started + 60 * minutes
        self.saved = now()
        """When the last state was saved."""
        self.update = self.evaluation = 0.0
        """Seconds of the slowest ones so far."""
        self.saving = 0.1 + 4 * size / SLOW_DISK_SPEED
        """Seconds of the last saving of state and model; an estimate before the first."""
        self.model = self.saving / 3

    def late(self, seconds: float) -> bool:
        """Tell whether work of so many seconds, and the saving after it, would end too late."""
        if self.deadline is None:
            return False
        return self.deadline - now() < 0.3 + 1.5 * seconds + 2 * self.saving

    def updated(self, start: float) -> None:
        """Note an update that began at `start`."""
        self.update = max(self.update, now() - start)

    def evaluated(self, start: float) -> None:
        """Note an evaluation that began at `start`."""
        self.evaluation = max(self.evaluation, now() - start)

    def saved_state(self, start: float, background: float = 0.0) -> None:
        """Note a saving that began at `start`."""
        self.saved = now()
        self.saving = max(self.saved - start, background) + self.model

    def saved_model(self, start: float) -> None:
        """Note the writing of a model that began at `start`."""
        self.model = now() - start
