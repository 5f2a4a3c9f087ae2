"""Collects waiting requests into batches, which one thread answers."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from roberta_hub.errors import Place, RobertaHubError
from roberta_hub.server.refusals import RefusalError
from roberta_hub.verbs.unanswered import answer_in_parts

Key = TypeVar("Key", bound=Hashable)
"""What rows of one batch have in common: the verb and its options."""
MAX_RETRY_SECONDS = 60
"""Longest time after which a client is asked to come again."""


@dataclass(eq=False)
class _Job:
    """Rows of one request that go into a batch together."""

    key: Any
    rows: Sequence[Any]
    tokens: int
    answer: asyncio.Future[list[Any]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


@dataclass(kw_only=True)
class Batcher(Generic[Key]):
    """A bounded queue of rows before one thread.

    The oldest job chooses what a batch asks, and others of the same key join it, up to a budget of
    tokens. A request larger than the budget goes in parts, one after the other: those who come in
    between are not kept waiting for all of it.
    """

    answer: Callable[[Key, list[Any]], list[Any]]
    """Answers rows of one key, in the model's thread."""
    batch_tokens: int
    """Tokens of a batch."""
    wait: float
    """Seconds that a batch waits for as many jobs as the one before it had."""
    max_waiting: int
    """Tokens that may wait; a request that finds nothing before it may be larger."""
    tell: Callable[[int, int, float], object] = lambda rows, tokens, seconds: None
    """Gets rows, tokens and seconds of each batch."""
    waiting: int = 0
    """Tokens that wait, those of the running batch included."""
    _queue: deque[_Job] = field(default_factory=deque)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _before: int = 1
    """Jobs of the last batch."""
    _rate: float = 1000.0
    """Tokens per second, of late."""

    async def ask(self, key: Key, rows: Sequence[Any], tokens: Sequence[int], most: int) -> Any:
        """Answer rows, with the estimated tokens of each and at most so many rows in a batch."""
        total = sum(tokens)
        if self.waiting and self.waiting + total > self.max_waiting:
            raise self._overloaded()
        self.waiting += total
        found: list[Any] = []
        try:
            for part in parts(tokens, self.batch_tokens, most):
                job = _Job(key, rows[part], sum(tokens[part]))
                self._queue.append(job)
                self._arrived.set()
                try:
                    found += await job.answer
                except RobertaHubError as error:
                    _count_from(error, part.start)
                    raise
        finally:
            self.waiting -= total
        return found

    def _overloaded(self) -> RefusalError:
        seconds = min(MAX_RETRY_SECONDS, max(1, math.ceil(self.waiting / self._rate)))
        return RefusalError(
            429,
            f"{self.waiting:,} tokens wait already, of at most {self.max_waiting:,}; ask again in "
            f"{seconds} s",
            headers={"Retry-After": str(seconds)},
        )

    async def run(self) -> None:
        """Answer batches until it is cancelled."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "roberta_hub_model") as thread:
            while True:
                await self._gather()
                jobs = self._take()
                if jobs:
                    began = time.monotonic()
                    found = await loop.run_in_executor(thread, self._answer, jobs)
                    self._note(jobs, time.monotonic() - began)
                    _hand_out(jobs, found)

    async def _gather(self) -> None:
        """Wait for a job, then briefly for as many as the last batch had."""
        await self._arrived.wait()
        if self.wait and len(self._queue) < self._before:
            until = time.monotonic() + self.wait
            while len(self._queue) < self._before and (left := until - time.monotonic()) > 0:
                self._arrived.clear()
                try:
                    await asyncio.wait_for(self._arrived.wait(), left)
                except TimeoutError:
                    break

    def _take(self) -> list[_Job]:
        """Take the oldest job and those that may join it."""
        taken: list[_Job] = []
        left: deque[_Job] = deque()
        tokens = 0
        for job in self._queue:
            if job.answer.done():  # its request was given up
                continue
            fits = not taken or (
                job.key == taken[0].key and tokens + job.tokens <= self.batch_tokens
            )
            (taken if fits else left).append(job)
            tokens += job.tokens if fits else 0
        self._queue = left
        self._before = max(1, len(taken))
        if not left:
            self._arrived.clear()
        return taken

    def _answer(self, jobs: list[_Job]) -> list[list[Any] | Exception]:
        """Answer jobs together; where one is at fault, without it. Runs in the model's thread."""

        def ask(some: list[_Job]) -> list[list[Any]]:
            rows = [row for job in some for row in job.rows]
            answers = iter(self.answer(some[0].key, rows))
            return [[next(answers) for _ in job.rows] for job in some]

        found: list[list[Any] | Exception] = []
        try:
            for _, part in answer_in_parts(ask, jobs, lambda error: True):
                found += [part] if isinstance(part, RobertaHubError) else part
        except Exception as error:  # a fault of ours: no thread ends, and each request is told
            found += [error] * (len(jobs) - len(found))
        return found

    def _note(self, jobs: Sequence[_Job], seconds: float) -> None:
        tokens = sum(job.tokens for job in jobs)
        self._rate += 0.2 * (tokens / max(seconds, 1e-6) - self._rate)
        self.tell(sum(len(job.rows) for job in jobs), tokens, seconds)


def _hand_out(jobs: Sequence[_Job], found: Sequence[list[Any] | Exception]) -> None:
    for job, answer in zip(jobs, found, strict=True):
        if job.answer.done():
            continue
        if isinstance(answer, Exception):
            job.answer.set_exception(answer)
        else:
            job.answer.set_result(answer)


def _count_from(error: RobertaHubError, start: int) -> None:
    """Count the row of an error from the first row of the request."""
    if isinstance(error.place, Place):
        error.at(Place(error.place.argument, error.place.index + start))


def parts(tokens: Sequence[int], budget: int, most: int) -> list[slice]:
    """Cut rows into parts of at most `most` rows and, where a row allows it, `budget` tokens.

    Example:
        >>> parts([3, 9, 4, 3], budget=8, most=2)
        [slice(0, 1, None), slice(1, 2, None), slice(2, 4, None)]
    """
    found, start, size = [], 0, 0
    for i, count in enumerate(tokens):
        if i > start and (size + count > budget or i - start == most):
            found.append(slice(start, i))
            start, size = i, 0
        size += count
    return [*found, slice(start, len(tokens))] if tokens else []
