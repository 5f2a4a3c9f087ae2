"""A real HTTP server on this machine that answers like a model hub, and misbehaves as planned."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

from archives import GOOD
from server import Answer, Handler, Server, body, status

FILE = "toy.tar.gz"
HUB_PATH = f"resolve/main/{FILE}"
"""Where huggingface_hub looks for it."""


class HubHandler(Handler):
    """Answers HEAD too, from the plan of "HEAD /path"."""

    def do_HEAD(self) -> None:
        self.path = f"HEAD {self.path}"
        self.do_GET()


class HubServer(Server):
    """`plan` is as in the tests; what is not planned is 404."""

    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = HubHandler

    def use(self, prefix: str, *answers: Answer, head: Answer | None = None) -> None:
        """Plan the answers for one run of one engine, wherever that engine looks."""
        for name in (FILE, HUB_PATH):
            path = f"/{prefix}/{name}"
            self.plan[path] = list(answers)
            self.plan[f"HEAD {path}"] = [head or about(len(GOOD))]

    def asked(self, prefix: str) -> dict[str, int]:
        """How often HEAD and GET were asked for."""
        found = {"GET": 0, "HEAD": 0}
        for path, count in self.hits.items():
            if f"/{prefix}/" in path:
                found["HEAD" if path.startswith("HEAD") else "GET"] += count
        return found

    def secure(self, folder: Path) -> Path:
        """Speak TLS from now on, with a certificate of our own making; return it."""
        openssl = shutil.which("openssl")
        if openssl is None:
            raise RuntimeError("the TLS cases need the openssl command")
        key, certificate = folder / "key.pem", folder / "certificate.pem"
        command = (
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext "
            "subjectAltName=IP:127.0.0.1"
        )
        written = ["-keyout", str(key), "-out", str(certificate)]
        subprocess.run([openssl, *command.split(), *written], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.socket, self.scheme = context.wrap_socket(self.socket, server_side=True), "https"
        return certificate


def headers(size: int) -> dict[str, str]:
    """What huggingface_hub wants to hear; fairseq uses the ETag as well."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    return {"Content-Length": str(size), "ETag": '"0123456789abcdef"', "X-Repo-Commit": commit}


def about(size: int, code: int = 200, **more: str) -> Answer:
    """A sound answer to HEAD."""
    return lambda handler: handler.start(code, {**headers(size), **more})


def bare(code: int, **more: str) -> Answer:
    """An answer without a body, for HEAD."""
    return lambda handler: handler.start(code, {"Content-Length": "0", **more})


def good(content: bytes = GOOD) -> Answer:
    return body(content, headers=headers(len(content)))


def from_range(content: bytes, sent: int) -> Answer:
    """Goes on where a Range begins, sends `sent` bytes and hangs up."""

    def answer(handler: Handler) -> None:
        asked = handler.headers.get("Range", "")
        start = int(asked.removeprefix("bytes=").partition("-")[0] or 0)
        more = {"Content-Length": str(len(content) - start), "ETag": '"0123456789abcdef"'}
        if asked:
            more["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        handler.start(206 if asked else 200, more)
        handler.wfile.write(content[start : start + sent])

    return answer


def no_range(content: bytes, sent: int) -> Answer:
    """416 to any Range, else `sent` bytes."""

    def answer(handler: Handler) -> None:
        if "Range" in handler.headers:
            return status(416)(handler)
        handler.start(200, headers(len(content)))
        handler.wfile.write(content[:sent])

    return answer


def stalls(content: bytes, sent: int, seconds: float) -> Answer:
    """Sends a part and falls silent."""

    def answer(handler: Handler) -> None:
        handler.start(200, headers(len(content)))
        handler.wfile.write(content[:sent])
        handler.wfile.flush()
        handler.server.release.wait(seconds)

    return answer


def promises(size: int) -> Answer:
    """A body of a size that no disk holds, of which nothing comes."""
    return lambda handler: handler.start(200, headers(size))


def slowly(content: bytes, seconds: float) -> Answer:
    """Late, so that others come in the meantime."""

    def answer(handler: Handler) -> None:
        handler.server.release.wait(seconds)
        good(content)(handler)

    return answer
