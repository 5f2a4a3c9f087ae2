"""A real HTTP server on this machine that misbehaves as told.

The download tests talk to it, never to a mock.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Gives the next planned answer for the path; the last one is repeated."""

    server: Server

    def do_GET(self) -> None:
        with self.server.guard:
            self.server.hits[self.path] += 1
            self.server.ranges.append(self.headers.get("Range", ""))
            plan = self.server.plan.get(self.path, [status(404)])
            answer = plan.pop(0) if len(plan) > 1 else plan[0]
        answer(self)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def start(self, code: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


class Server(ThreadingHTTPServer):
    """A server with a plan: `plan` maps a path to its answers.

    `hits` counts requests, `ranges` are what they asked for; `release` lets stalled answers end.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan: dict[str, list[Answer]] = {}
        self.hits: Counter[str] = Counter()
        self.ranges: list[str] = []
        self.guard = threading.Lock()
        self.stalled = threading.Event()
        self.release = threading.Event()
        self.scheme = "http"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: killed clients are part of the tests, and their broken pipes no news."""

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Server:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release.set()
        self.shutdown()
        self.server_close()


def body(content: bytes, *, length: bool = True, headers: dict[str, str] | None = None) -> Answer:
    """Status 200 and the whole content."""

    def answer(handler: Handler) -> None:
        sized = {"Content-Length": str(len(content))} if length else {}
        handler.start(200, {**sized, **(headers or {})})
        handler.wfile.write(content)

    return answer


def cut(content: bytes, sent: int) -> Answer:
    """Promises the whole content, sends `sent` bytes and hangs up."""

    def answer(handler: Handler) -> None:
        handler.start(200, {"Content-Length": str(len(content))})
        handler.wfile.write(content[:sent])

    return answer


def stall(content: bytes, sent: int, *, go_on: bool = False) -> Answer:
    """Sends `sent` bytes and then nothing until the server is told to go on.

    Then it sends the rest, if it is to `go_on`.
    """

    def answer(handler: Handler) -> None:
        handler.start(200, {"Content-Length": str(len(content))})
        handler.wfile.write(content[:sent])
        handler.wfile.flush()
        handler.server.stalled.set()
        handler.server.release.wait(60)
        if go_on:
            handler.wfile.write(content[sent:])

    return answer


def status(code: int, headers: dict[str, str] | None = None) -> Answer:
    """An error page."""

    def answer(handler: Handler) -> None:
        page = b"<html>no</html>"
        handler.start(code, {"Content-Length": str(len(page)), **(headers or {})})
        handler.wfile.write(page)

    return answer


def redirect(location: str, code: int = 302) -> Answer:
    """Sends the client elsewhere."""
    return lambda handler: handler.start(code, {"Location": location, "Content-Length": "0"})


def ranged(
    content: bytes, tag: str = '"v1"', *, sent: int | None = None, name: str = "ETag"
) -> Answer:
    """A server that knows ranges and `If-Range`; hangs up after `sent` bytes of each answer.

    `tag` is what it calls this version, in the header `name`.
    """

    def answer(handler: Handler) -> None:
        wanted = handler.headers.get("Range", "")
        fits = handler.headers.get("If-Range", tag) == tag
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and fits else 0
        if start > len(content) or (wanted and fits and start == len(content)):
            handler.start(416, {"Content-Range": f"bytes */{len(content)}", "Content-Length": "0"})
            return
        headers = {"Content-Length": str(len(content) - start), name: tag}
        if wanted and fits:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        handler.start(206 if wanted and fits else 200, headers)
        handler.wfile.write(content[start:] if sent is None else content[start:][:sent])

    return answer


def forced(code: int, content: bytes, headers: dict[str, str]) -> Answer:
    """This answer, whatever was asked."""

    def answer(handler: Handler) -> None:
        handler.start(code, {"Content-Length": str(len(content)), **headers})
        handler.wfile.write(content)

    return answer


def slow(content: bytes, seconds: float, pieces: int = 50) -> Answer:
    """The whole content, spread over this time."""

    def answer(handler: Handler) -> None:
        handler.start(200, {"Content-Length": str(len(content))})
        step = -(-len(content) // pieces)
        for start in range(0, len(content), step):
            handler.wfile.write(content[start : start + step])
            handler.wfile.flush()
            time.sleep(seconds / pieces)

    return answer


def together(content: bytes, count: int) -> Answer:
    """Nobody gets the content before `count` have asked for it."""

    def answer(handler: Handler) -> None:
        deadline = time.monotonic() + 30
        while handler.server.hits[handler.path] < count and time.monotonic() < deadline:
            time.sleep(0.01)
        body(content)(handler)

    return answer
