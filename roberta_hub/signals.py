"""What SIGTERM and SIGHUP find begun is cleared away before they end the process.

Each begun thing is on a list from before it exists until it is gone, and the answer to the signal
goes through that list. An exception in its place would be lost in a `__del__` or a callback, and
may come between the making of a folder and the `try` that removes it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

ENDING = tuple(
    number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
)
"""Signals that end a process which does not answer them; SIGHUP is that of a terminal that goes."""
_BEGUN: list[tuple[int, Callable[[], object]]] = []
"""What clears each begun thing, and the process that began it; a child has a copy of the list."""


@contextlib.contextmanager
def cleared(clear: Callable[[], object]) -> Iterator[None]:
    """Clear what was begun when the block ends, or when a signal ends the process in the block.

    Where the program has an answer of its own to a signal, ignores it, or where all of this is in
    another thread than the main one, the signal does what it did before.

    Example:
        >>> with cleared(lambda: print("gone")):
        ...     print("there")
        there
        gone
    """
    entry = (os.getpid(), clear)
    before: list[int] = []
    try:
        _BEGUN.append(entry)
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                if signal.getsignal(number) is signal.SIG_DFL:
                    before.append(number)
                    signal.signal(number, _end)
        yield
    finally:
        try:
            clear()
        except KeyboardInterrupt:  # a second Ctrl-C
            clear()
            raise
        finally:
            with contextlib.suppress(ValueError):
                _BEGUN.remove(entry)
            for number in before:
                if signal.getsignal(number) is _end:
                    signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> None:
    """Clear away all that this process has begun, then end as the signal ends a process."""
    for pid, clear in reversed(_BEGUN):
        if pid == os.getpid():
            with contextlib.suppress(Exception):
                clear()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Hold Ctrl-C, SIGTERM and SIGHUP back until the block ends.

    Example:
        >>> with held_back():
        ...     print("old and new are never mixed")
        old and new are never mixed
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before: dict[int, Any] = {}
    try:
        for number in (signal.SIGINT, *ENDING):
            before[number] = signal.getsignal(number)
            if before[number] is not None:  # of C code, which Python cannot put back
                signal.signal(number, note)
        yield
    finally:
        for number, answer in before.items():
            if answer is not None:
                signal.signal(number, answer)
        for number in came:
            signal.raise_signal(number)
