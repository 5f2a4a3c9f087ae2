"""Times fairly on a machine that others use.

Ways take turns, medians are of the clean samples, and a sample knows what else ran meanwhile.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

OTHERS = 0.15
"""Share of the machine that other processes may have had in a clean sample."""
STOLEN = 0.06
"""Share that the hypervisor may have taken."""
Sample = tuple[float, bool]
"""Seconds, and whether nobody else used the machine meanwhile."""


@dataclass
class Samples:
    """Seconds of one way to do it."""

    seconds: list[float] = field(default_factory=list)
    clean: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Of the clean samples; of all where none is."""
        return median(self.clean or self.seconds)

    def __str__(self) -> str:
        low, high = min(self.seconds), max(self.seconds)
        return f"{len(self.clean)}/{len(self.seconds)} clean, {_time(low)} to {_time(high)}"


def sampled(rounds: int) -> str:
    """What the numbers of so many rounds are; fewer than three have no median worth the word."""
    if rounds < 3:
        once = "one round: a single sample each" if rounds == 1 else "two rounds: their mean"
        return f"Numbers and ratios are of {once}, no medians; engines by turns, a process each."
    return f"Numbers and ratios are medians of {rounds} rounds, engines by turns, a process each."


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def by_turns(
    ways: Mapping[str, Callable[[], object]], rounds: int, *, pause: float = 0.0
) -> dict[str, Samples]:
    """Time each way once a round, after one round that is not counted."""
    timed = {n: partial(sample, way) for n, way in ways.items()}
    sampled_by_turns(timed, 1, pause)
    return sampled_by_turns(timed, rounds, pause)


def sampled_by_turns(
    ways: Mapping[str, Callable[[], Sample]], rounds: int, pause: float = 0.0
) -> dict[str, Samples]:
    """The same of ways that take their own time, say in another process, and are warm already."""
    found = {name: Samples() for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            time.sleep(pause)
            seconds, is_clean = way()
            found[name].seconds.append(seconds)
            found[name].clean += [seconds] if is_clean else []
    return found


def sample(way: Callable[[], object]) -> Sample:
    """Run it once in this process."""
    before, start = _jiffies(), time.perf_counter()
    own = time.process_time()
    way()
    seconds, own = time.perf_counter() - start, time.process_time() - own
    after = _jiffies()
    if before is None or after is None:
        return seconds, True
    ticks = os.sysconf("SC_CLK_TCK")
    busy, stolen = ((b - a) / ticks for a, b in zip(before, after, strict=True))
    machine = seconds * (os.cpu_count() or 1)
    tick = 2 / ticks  # what the counters cannot tell
    return seconds, busy - own < OTHERS * machine + tick and stolen < STOLEN * machine + tick


def _jiffies() -> tuple[int, int] | None:
    """(busy, stolen) of the whole machine, where Linux tells."""
    stat = Path("/proc/stat")
    if not stat.is_file():
        return None
    user, nice, system, _idle, _wait, irq, soft, steal = map(int, stat.read_text().split()[1:9])
    return user + nice + system + irq + soft, steal
