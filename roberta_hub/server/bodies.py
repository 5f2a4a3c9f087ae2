"""Reads bodies of requests, within a limit of bytes and of seconds."""

from __future__ import annotations

import asyncio
from typing import Any

from roberta_hub.server.refusals import STOPS, RefusalError

_CLOSE = {"Connection": "close"}
"""What is left of a body that was refused is not read."""


class Bodies:
    """Bodies that are being read; when the server stops, those that are not whole are given up."""

    def __init__(self, most: int, seconds: float) -> None:
        """Set the limits of a body."""
        self.most, self.seconds = most, seconds
        self.stopping = False
        self._reading: set[asyncio.Timeout] = set()

    def stop(self) -> None:
        """Give up those that are not whole."""
        self.stopping = True
        for timeout in self._reading:
            timeout.reschedule(asyncio.get_running_loop().time())

    async def read(self, request: Any) -> Any:
        """Read a body of JSON."""
        import orjson

        self._check(int(request.headers.get("content-length") or 0))
        body = bytearray()
        try:
            async with asyncio.timeout(0 if self.stopping else self.seconds) as timeout:
                self._reading.add(timeout)
                try:
                    async for chunk in request.stream():
                        body += chunk
                        self._check(len(body))
                finally:
                    self._reading.discard(timeout)
        except TimeoutError:
            raise self._too_slow() from None
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise RefusalError(
                400, f"the body is not JSON: {error.msg}, at character {error.pos}"
            ) from None

    def _check(self, size: int) -> None:
        if size > self.most:
            raise RefusalError(
                413,
                f"the body has more than {self.most:,} bytes, the most of a request; send fewer "
                "texts at once",
                headers=_CLOSE,
            )

    def _too_slow(self) -> RefusalError:
        if self.stopping:
            return RefusalError(503, STOPS, headers=_CLOSE)
        return RefusalError(
            408, f"the body did not come within {self.seconds:g} seconds", headers=_CLOSE
        )
