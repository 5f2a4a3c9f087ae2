"""A real HTTP proxy in front of an object store, which breaks uploads in the middle as told."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}
"""Of answers; this proxy says them anew."""


class Handler(BaseHTTPRequestHandler):
    """Passes each request on, or half of it."""

    protocol_version = "HTTP/1.1"
    server: CuttingProxy

    def log_message(self, format: str, *args: object) -> None:
        pass

    def body(self) -> bytes:
        """The request's body as it is on the wire, its chunks with their sizes."""
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        lines = []
        while True:
            lines.append(self.rfile.readline())
            size = int(lines[-1].split(b";")[0], 16)
            lines.append(self.rfile.read(size + 2))
            if size == 0:
                return b"".join(lines)

    def pass_on(self) -> None:
        with self.server.guard:
            self.server.requests[self.command] += 1
            self.server.paths.append(f"{self.command} {self.path}")
            cut = self.command == "PUT" and self.server.part in self.path and self.server.cuts > 0
            self.server.cuts -= cut
        body = self.body()
        upstream = http.client.HTTPConnection(*self.server.upstream, timeout=60)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "expect":  # answered here already
                    upstream.putheader(name, value)
            upstream.endheaders()
            upstream.send(body[: len(body) // 2] if cut else body)
            if cut:  # the store has half of it, and the sender no answer
                self.server.was_cut.set()
                self.server.release.wait(self.server.stall)
                self.close_connection = True
                return
            answer = upstream.getresponse()
            data = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            size = answer.headers.get("Content-Length", "0")  # of HEAD, which has no body
            self.send_header("Content-Length", size if self.command == "HEAD" else str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # a side was killed, as tests do
            self.close_connection = True
        finally:
            upstream.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on


class CuttingProxy(ThreadingHTTPServer):
    """Passes HTTP on to `upstream`; the next `cuts` uploads to paths with `part` end half-way.

    An upload that ends half-way hangs for `stall` seconds first. `requests` counts methods.
    """

    daemon_threads = True

    def __init__(self, upstream: tuple[str, int], part: str = "part-") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream = upstream
        self.part = part
        self.cuts = 0
        self.stall = 0.0
        self.guard = threading.Lock()
        self.was_cut = threading.Event()
        self.release = threading.Event()
        self.requests: Counter[str] = Counter()
        self.paths: list[str] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: killed clients are part of the tests."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> CuttingProxy:
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
