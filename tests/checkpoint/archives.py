"""Archives to unpack, good and odd, and what to find in the cache afterwards."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import forks

import roberta_hub
from roberta_hub.checkpoint.fetch.records import Record, Remote, archive

TOY = Record(name="toy", origins=(archive("toy.tar.gz"),))
TOY_FILE = TOY.origins[0].files[0]
PATH = "/toy.tar.gz"


def pinned(record: Record, size: int | None = None, sha256: str | None = None) -> Record:
    """The record with what fairseq would publish of its archive."""
    first, *others = record.origins
    file = Remote(first.files[0].url, size, sha256)
    return replace(record, origins=(replace(first, files=(file,)), *others))


WEIGHTS = bytes(range(256)) * 8
VOCABULARY = b"the 10\na 9\n"


def regular(name: str, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member, content


def special(name: str, kind: bytes, linkname: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, linkname
    return member, b""


def tar(*members: tuple[tarfile.TarInfo, bytes], kind: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def pack(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    return gzip.compress(tar(*members), mtime=0)


def model_files(top: str = "toy/", weights: bytes = WEIGHTS) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [regular(f"{top}dict.txt", VOCABULARY), regular(f"{top}model.pt", weights)]


GOOD = pack(special("toy", tarfile.DIRTYPE), *model_files(), regular("toy/NOTE", b"hello"))
OTHER = pack(*model_files(weights=WEIGHTS[::-1]))


def visible(cache: Path) -> set[str]:
    """Everything in the cache but lock files: models, the table of digests, and any litter."""
    names = {path.name for path in cache.iterdir()} if cache.exists() else set()
    return {name for name in names if not name.endswith(".lock")}


def assert_model(folder: Path, weights: bytes = WEIGHTS) -> None:
    assert {path.name for path in folder.iterdir()} == {"model.pt", "dict.txt", "manifest.json"}
    assert (folder / "model.pt").read_bytes() == weights
    assert (folder / "dict.txt").read_bytes() == VOCABULARY


START = (
    "import os, signal, sys\n"
    # What runs in the background of a shell has it ignored, and would hand that down.
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from roberta_hub.checkpoint.fetch import download\n"
    "from roberta_hub.checkpoint.fetch.records import Record, archive\n"
    "TOY = Record(name='toy', origins=(archive('toy.tar.gz'),))\n"
)
REPOSITORY = str(Path(roberta_hub.__file__).parents[1])


def python(code: str, *arguments: str, **environment: str) -> forks.Process:
    """Start a real process with TOY at hand and this process's environment."""
    env = {**os.environ, "PYTHONPATH": REPOSITORY, **environment}
    pipes = {"stdout": forks.PIPE, "stderr": forks.PIPE}
    return forks.start("-c", START + code, *arguments, env=env, **pipes)


def fresh_python(code: str, *arguments: str, prefix: tuple[str, ...] = ()) -> tuple[str, str]:
    """(What it prints, its errors), of a fresh interpreter that a command may start."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", START + code, *arguments],
        env={**os.environ, "PYTHONPATH": REPOSITORY},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout, done.stderr
