"""A download from a server that misbehaves: rows 1 to 10."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import random
import resource
import signal
from pathlib import Path
from typing import Any

from archives import GOOD, OTHER, WEIGHTS, model_files, pack
from server import Answer, body, cut, redirect, status

from .case import HF, OURS, STOCK, Case, Place, Verdict, works, wrong
from .web import HubServer, about, bare, from_range, good, headers, no_range, promises, stalls

TITLES = {
    1: "body shorter than Content-Length",
    2: "connection drops at byte 0, 1, half, end-1; Range honoured, ignored, 416",
    3: "server stalls in mid-body",
    4: "wrong bytes of the right size",
    5: "401, 403, 404, 410",
    6: "5xx, 429",
    7: "redirect loop, to http, to file:",
    8: "captive portal: HTML, status 200",
    9: "TLS certificate not trusted, proxy says 407",
    10: "disk full",
}
NOT_APPLICABLE: dict[tuple[int, str], str] = {}
BIG_WEIGHTS = random.Random(0).randbytes(1 << 20)
BIG = pack(*model_files(weights=BIG_WEIGHTS))
"""Larger than what the full disk takes; made anew in each process, but only the server's copy is
sent."""
ROOM = 1 << 16
DIGEST = hashlib.sha256(GOOD).hexdigest()


def intact(engine: Any, found: Path, archive: bytes = GOOD, weights: bytes = WEIGHTS) -> Verdict:
    """Whether what the engine calls downloaded is what the server has."""
    content = found.read_bytes() if found.is_file() else (found / "model.pt").read_bytes()
    if content in (archive, weights):
        return works("downloads it")
    return wrong(f"keeps {len(content):,} wrong bytes as the file")


def download(engine: Any, place: Place) -> Verdict:
    return intact(engine, engine.download(place))


def plan(*answers: Answer, head: Answer | None = None) -> Any:
    return lambda server, prefix: server.use(prefix, *answers, head=head)


def planned(row: int, name: str, *answers: Answer, head: Answer | None = None, **more: Any) -> Case:
    return Case(row, name, download, serve=plan(*answers, head=head), **{"seconds": 60, **more})


HALF, SIZE = len(GOOD) // 2, len(GOOD)
BROKEN = [
    planned(1, "always half", cut(GOOD, HALF), seconds=90),
    *(
        planned(2, f"drops once at byte {n} of {SIZE}, Range ignored", cut(GOOD, n), good())
        for n in (0, 1, HALF, SIZE - 1)
    ),
    planned(2, "drops after half each time, Range honoured", from_range(GOOD, SIZE // 2 + 1)),
    planned(2, "drops once at half, then 416 to a Range", cut(GOOD, HALF), no_range(GOOD, SIZE)),
    planned(3, "a half, then silence", stalls(GOOD, HALF, 400), seconds=400),
]

# ---- row 4: what is checked of the content ----

FLIPPED = GOOD[: SIZE // 2] + bytes([GOOD[SIZE // 2] ^ 1]) + GOOD[SIZE // 2 + 1 :]


def pinned(engine: Any, place: Place) -> Verdict:
    """Ours with a record that publishes the digest.

    Hugging Face hears it as the ETag, as from its own hub.
    """
    if engine.name == OURS:
        engine.record = dataclasses.replace(engine.record, sha256=DIGEST)
    return download(engine, place)


def exchanged(engine: Any, place: Place) -> Verdict:
    """The file changes on the server between two downloads, the second one forced."""
    download(engine, place)
    options = {HF: {"force_download": True}}.get(engine.name, {})
    if engine.name == OURS:
        engine.downloading.fetch_model(engine.record, force=True, progress=False)
        return wrong("accepts another file without a word")
    if engine.name == STOCK:  # which has no force but an empty cache
        for path in place.cache.iterdir():
            path.unlink()
    return intact(engine, engine.download(place, **options))


PINNED_HEAD = about(SIZE, ETag=f'"{DIGEST}"')
CONTENT = [
    Case(4, "a bit flipped, digest announced", pinned, serve=plan(good(FLIPPED), head=PINNED_HEAD)),
    Case(4, "a bit flipped, no digest known", download, serve=plan(good(FLIPPED))),
    Case(
        4,
        "another sound archive, no digest known",
        download,
        serve=plan(good(OTHER), head=about(len(OTHER))),
    ),
    Case(4, "another archive than the first time", exchanged, serve=plan(good(), good(OTHER))),
    planned(
        8, "the portal answers all", body(b"<!DOCTYPE html><title>Log in</title>"), head=bare(200)
    ),
    planned(8, "the portal answers GET only", body(b"<!DOCTYPE html><title>Log in</title>")),
]

# ---- rows 5 to 7: status codes and redirects ----

REFUSED = [
    planned(5, f"always {code}", status(code), head=bare(code)) for code in (401, 403, 404, 410)
]
PASSING = [
    planned(6, "503 once", status(503), good()),
    planned(6, "429 once, Retry-After: 1", status(429, {"Retry-After": "1"}), good()),
    planned(6, "503 always", status(503), head=bare(503), seconds=120),
    planned(6, "500 always", status(500), head=bare(500), seconds=120),
]


def looping(server: HubServer, prefix: str) -> None:
    for name in ("toy.tar.gz", "resolve/main/toy.tar.gz"):
        path = f"/{prefix}/{name}"
        server.plan[path] = server.plan[f"HEAD {path}"] = [redirect(path)]


def linked(location: str) -> Any:
    """To elsewhere: the hub's own answers of this kind say size and ETag of the target."""
    more = {**headers(0), "X-Linked-Size": str(SIZE), "X-Linked-Etag": '"0123456789abcdef"'}
    head: Answer = lambda handler: handler.start(302, {**more, "Location": location})  # noqa: E731
    return plan(redirect(location), head=head)


def from_tls(engine: Any, place: Place) -> Verdict:
    """Asked by https, answered with the way to http."""
    with _tls(place, trusted=True) as (server, secure):
        server.plan[f"/{place.prefix}/plain"] = [good()]
        linked(f"{server.url}/{place.prefix}/plain")(secure, place.prefix)
        download(engine, dataclasses.replace(place, server=secure.url))
    return wrong("follows to plain http")


@contextlib.contextmanager
def _tls(place: Place, *, trusted: bool) -> Any:
    """A plain server and a TLS one in this process, the certificate trusted or not."""
    with HubServer() as plain, HubServer() as secure:
        certificate = str(secure.secure(place.home))
        if trusted:
            os.environ |= {"REQUESTS_CA_BUNDLE": certificate, "SSL_CERT_FILE": certificate}
        yield plain, secure


def untrusted(engine: Any, place: Place) -> Verdict:
    with _tls(place, trusted=False) as (_, secure):
        secure.use(place.prefix, good())
        download(engine, dataclasses.replace(place, server=secure.url))
    return wrong("accepts any certificate")


def through_proxy(engine: Any, place: Place) -> Verdict:
    """The proxy is the server itself, which answers 407 to whatever goes through it."""
    with HubServer() as proxy:
        for method in ("", "HEAD "):
            for name in ("toy.tar.gz", "resolve/main/toy.tar.gz"):
                page = bare(407) if method else status(407)
                proxy.plan[f"{method}{place.server}/{place.prefix}/{name}"] = [page]
        os.environ |= {"HTTP_PROXY": proxy.url, "http_proxy": proxy.url, "NO_PROXY": ""}
        return download(engine, place)


ELSEWHERE = [
    Case(7, "a loop", download, serve=looping, seconds=60),
    Case(7, "from https to http", from_tls, seconds=60),
    Case(7, "to file:", download, serve=linked("file:///etc/passwd"), seconds=60),
    Case(9, "a certificate of one's own", untrusted, seconds=120),
    Case(9, "proxy: 407", through_proxy, serve=plan(good()), seconds=60),
]

# ---- row 10 ----


def on_full_disk(engine: Any, place: Place) -> Verdict:
    """Files end at 64 kB, which root can set up without a disk; then the disk has room again."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, resource.RLIM_INFINITY))
    try:
        engine.download(place)
    except Exception as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        found = engine.download(place)
        content = found if found.is_file() else found / "model.pt"
        if content.stat().st_size < len(BIG_WEIGHTS):
            return wrong(f"{type(error).__name__}, then keeps {content.stat().st_size:,} bytes")
        raise error from None
    return wrong("says nothing")


FULL = [
    Case(
        10,
        "files end at 64 kB",
        on_full_disk,
        serve=plan(good(BIG), head=about(len(BIG))),
        seconds=90,
    ),
    planned(10, "a petabyte is announced", promises(10**15), head=about(10**15), seconds=90),
]
CASES = [*BROKEN, *CONTENT, *REFUSED, *PASSING, *ELSEWHERE, *FULL]
