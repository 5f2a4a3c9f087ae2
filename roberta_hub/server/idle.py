"""Closes connections on which nothing happens.

uvicorn's own timeout is for the time between two requests: a connection that never sends one, that
sends half of its headers, or that does not read its answer would stay.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary


class IdleConnections:
    """Remembers since when each connection is as it is."""

    def __init__(self, seconds: float) -> None:
        """Set how long a connection may be idle."""
        self.seconds = seconds
        self._since: WeakKeyDictionary[Any, tuple[Any, float]] = WeakKeyDictionary()

    def close(self, connections: Iterable[Any]) -> None:
        """Close those of uvicorn's connections that were idle for too long."""
        now = time.monotonic()
        for connection in list(connections):
            cycle = connection.cycle
            if cycle is not None and not cycle.response_complete:
                self._since.pop(connection, None)
                continue
            state = (id(cycle), connection.transport.get_write_buffer_size())
            before, since = self._since.setdefault(connection, (state, now))
            if before != state:
                self._since[connection] = (state, now)
            elif now - since > self.seconds:
                connection.transport.abort()  # who does not read would keep a mere close waiting
