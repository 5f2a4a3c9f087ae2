"""Processes that are killed, that come together, or that may not write: rows 11 to 16."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import json
import os
import random
import signal
import socket
import stat
import struct
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from archives import GOOD, model_files, pack

from .case import HF, OURS, RAW, STOCK, WRONG, Case, Place, Verdict, works, wrong
from .network import download, intact, plan
from .web import HubServer, about, good, slowly, stalls

TITLES = {
    11: "killed in mid-download, then tried again",
    12: "killed while unpacking, then tried again",
    13: "8 processes, first use",
    14: "flock does nothing / is not implemented",
    15: "cache read-only: complete / incomplete",
    16: "offline: cached / not cached",
}
NOT_APPLICABLE = {
    (12, HF): "unpacks nothing",
    (14, STOCK): "takes no lock",
}
LARGE = 48 << 20
"""Bytes that take long enough to write that a kill can hit the middle."""


def size_of(path: Path) -> int:
    """Of a file, or of the model in a folder."""
    inner = path / "model.pt"
    return (inner if inner.is_file() else path).stat().st_size


def kill_when(begun: Callable[[], bool], work: Callable[[], object], seconds: float = 20) -> bool:
    """Do the work in a child and kill it as soon as it has `begun`; tell if that was in time."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end and os.waitpid(child, os.WNOHANG) == (0, 0):
        if begun():
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True
    return False


def again(engine: Any, place: Place, verb: str, whole: int) -> Verdict:
    """After a kill: what a second call makes of what the first one left."""
    size = size_of(getattr(engine, verb)(place))
    if size < whole:
        return wrong(f"takes {size:,} of {whole:,} bytes for the whole")
    left = [p.name for p in (*place.cache.rglob("*"), *place.files.rglob("*")) if is_litter(p)]
    return works(f"second try works, {len(left)} files of litter" if left else "second try works")


def is_litter(path: Path) -> bool:
    """Whether this is a temporary file.

    fairseq's and tempfile's `tmp…`, huggingface_hub's `.tmp` and `.incomplete`, ours.
    """
    temporary = path.name.startswith("tmp") or path.suffix == ".tmp" or "incomplete" in str(path)
    return temporary and not path.is_dir()


def killed_downloading(engine: Any, place: Place) -> Verdict:
    """The server is silent after half of it; two seconds later comes the kill."""
    start = time.monotonic()
    kill_when(lambda: time.monotonic() - start > 2, lambda: engine.download(place))
    return again(engine, place, "download", len(GOOD))


def final_file(place: Place) -> bool:
    """Whether something stands in the cache under a name that is not a temporary one."""
    return grown([path for path in place.cache.rglob("*") if not is_litter(path)], 4096)


def grown(paths: Iterable[Path], size: int) -> bool:
    """Whether a file among them is larger than this; they come and go while we look."""
    for path in paths:
        with contextlib.suppress(OSError):
            about = path.stat()
            if stat.S_ISREG(about.st_mode) and about.st_size > size:
                return True
    return False


def killed_publishing(engine: Any, place: Place) -> Verdict:
    """Killed as soon as the final name appears."""
    if not kill_when(lambda: final_file(place), lambda: engine.download(place)):
        return works("the final name appears only at the end")
    return again(engine, place, "download", 40 << 20)


def killed_unpacking(engine: Any, place: Place) -> Verdict:
    """Killed when the first megabyte of model.pt is there, wherever that is."""

    def begun() -> bool:
        found = [*place.files.rglob("model.pt"), *place.cache.rglob("model.pt")]
        return grown(found, 1 << 20)

    if not kill_when(begun, lambda: engine.install(place)):
        return works("unpacks too fast to be hit")
    return again(engine, place, "install", LARGE)


def killed_moving(engine: Any, place: Place) -> Verdict:
    """As above, temporary files on another file system than the cache, as /tmp often is."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        tempfile.tempdir = other

        def begun() -> bool:
            return grown(place.cache.rglob("model.pt"), 4096)

        if not kill_when(begun, lambda: engine.install(place)):
            return works("moves too fast to be hit")
        return again(engine, place, "install", LARGE)


@functools.cache
def large_archive() -> bytes:
    return pack(*model_files(weights=random.Random(0).randbytes(LARGE)))


def serve_large(server: HubServer, prefix: str) -> None:
    """Made where the server is, and only if asked for: it takes a second."""
    server.use(prefix, good(large_archive()), head=about(len(large_archive())))


OTHER_DISK = os.path.isdir("/dev/shm") and os.stat("/dev/shm").st_dev != os.stat("/tmp").st_dev
KILLED = [
    Case(
        11, "in mid-body", killed_downloading, serve=plan(stalls(GOOD, len(GOOD) // 2, 8), good())
    ),
    Case(11, "when the final name appears", killed_publishing, serve=serve_large),
    Case(
        12,
        "when model.pt appears",
        killed_unpacking,
        serve=serve_large,
        engines=frozenset({STOCK, OURS}),
        seconds=60,
    ),
    *(
        [
            Case(
                12,
                "the same, /tmp on another file system",
                killed_moving,
                serve=serve_large,
                engines=frozenset({STOCK, OURS}),
                seconds=60,
            )
        ]
        if OTHER_DISK
        else []
    ),
]

# ---- rows 13 and 14: together ----


def together(engine: Any, place: Place) -> Verdict:
    """Eight processes at once; each says whether what it got is whole."""
    pipes = []
    for _ in range(8):
        receive, send = os.pipe()
        if not os.fork():
            try:
                said = intact(engine, engine.install(place)).says
            except BaseException as error:
                said = f"{type(error).__name__}: {str(error)[:200]}"
            os.write(send, json.dumps(said).encode())
            os._exit(0)
        os.close(send)
        pipes.append(receive)
    said = [json.loads(os.read(pipe, 4096) or b'"died"') for pipe in pipes]
    failed = [text for text in said if text != "downloads it"]
    if not failed:
        return works("all 8 work")
    kinds = ", ".join(sorted({text.partition(":")[0] for text in failed}))
    grade = WRONG if any(text.startswith("keeps") for text in failed) else RAW
    return Verdict(grade, f"{len(failed)} of 8 processes fail ({kinds})")


def without_flock(engine: Any, place: Place) -> Verdict:
    """flock succeeds and locks nothing, as on some network file systems."""
    fcntl.flock = lambda *_: None
    return together(engine, place)


def flock_missing(engine: Any, place: Place) -> Verdict:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    fcntl.flock = refuse
    return download(engine, place)


TOGETHER = [
    Case(13, "together", together, serve=plan(slowly(GOOD, 0.5)), seconds=90),
    Case(
        14,
        "flock does nothing, 8 processes",
        without_flock,
        serve=plan(slowly(GOOD, 0.5)),
        engines=frozenset({HF, OURS}),
        seconds=90,
    ),
    Case(
        14,
        "flock: ENOSYS",
        flock_missing,
        serve=plan(good()),
        engines=frozenset({HF, OURS}),
        seconds=60,
    ),
]

# ---- rows 15 and 16: no writing, no network ----


def drop_capabilities() -> None:
    """Have root obey permissions too: capset(2) with nothing in it."""
    header = struct.pack("<Ii", 0x20080522, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, bytes(24)):
        raise OSError(ctypes.get_errno(), "capset")


def read_only(engine: Any, place: Place, *, complete: bool) -> Verdict:
    """A cache without write permission."""
    if complete:
        download(engine, place)
    for path in (place.cache, *place.cache.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o555 if path.is_dir() else 0o444)
    drop_capabilities()
    return download(engine, place)


def offline(engine: Any, place: Place, *, cached: bool, told: bool) -> Verdict:
    """No connection comes about.

    `told`: the engine's own switch is set, and a connection is a fault.
    """
    if cached:
        download(engine, place)
    tried = []

    def refuse(self: socket.socket, address: object) -> None:
        tried.append(address)
        raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))

    socket.socket.connect = refuse  # type: ignore[assignment, method-assign]
    if told:
        os.environ["ROBERTA_HUB_OFFLINE"] = "1"
    options = {"local_files_only": True} if told and engine.name == HF else {}
    verdict = intact(engine, engine.download(place, **options))
    return wrong("tries the network all the same") if told and tried else verdict


QUIET = [
    Case(15, "complete", lambda e, p: read_only(e, p, complete=True), serve=plan(good())),
    Case(15, "incomplete", lambda e, p: read_only(e, p, complete=False), serve=plan(good())),
    Case(
        16,
        "cached, no network",
        lambda e, p: offline(e, p, cached=True, told=False),
        serve=plan(good()),
        seconds=60,
    ),
    Case(
        16,
        "cached, told so",
        lambda e, p: offline(e, p, cached=True, told=True),
        serve=plan(good()),
        engines=frozenset({HF, OURS}),
    ),
    Case(
        16,
        "not cached, no network",
        lambda e, p: offline(e, p, cached=False, told=False),
        serve=plan(good()),
        seconds=60,
    ),
    Case(
        16,
        "not cached, told so",
        lambda e, p: offline(e, p, cached=False, told=True),
        serve=plan(good()),
        engines=frozenset({HF, OURS}),
    ),
]
CASES = [*KILLED, *TOGETHER, *QUIET]
