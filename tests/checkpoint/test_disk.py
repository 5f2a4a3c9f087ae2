"""Disks that are full or read-only, and locks that do nothing: real processes under real limits."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
from pathlib import Path

import pytest
from archives import (
    GOOD,
    OTHER,
    PATH,
    TOY,
    WEIGHTS,
    assert_model,
    fresh_python,
    model_files,
    pack,
    python,
    visible,
)
from server import Server, body, stall, together

from roberta_hub.checkpoint.fetch.archive import extract_archive
from roberta_hub.checkpoint.fetch.download import fetch_model

pytestmark = pytest.mark.system

LIMIT = 1 << 16
LIMITED = (
    "import resource\n"
    "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    f"resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT}, {resource.RLIM_INFINITY}))\n"
)
FETCH = LIMITED + (
    "try: download.fetch_model(TOY, force=True)\n"
    "except download.DownloadError as error: print(error)\n"
)
NOISE = random.Random(0).randbytes(1 << 20)
BIG = {
    "in the download": pack(*model_files(weights=NOISE)),
    "in the unpacking": pack(*model_files(weights=bytes(1 << 20))),
}


@pytest.mark.parametrize("length", [True, False], ids=["length", "no length"])
@pytest.mark.parametrize("archive", BIG.values(), ids=BIG)
def test_a_disk_that_fills_up_names_needed_and_free_bytes(
    server: Server, cache: Path, archive: bytes, length: bool
):
    folder = fetch_model(TOY)
    (cache / "digests.json").unlink()  # so that only the room is in the way
    server.plan[PATH] = [body(archive, length=length)]
    message = python(FETCH).communicate(timeout=60)[0]
    assert f"cannot write {folder} (File too large: " in message
    assert "bytes needed, " in message and "bytes free" in message and "TORCH_HOME" in message
    if archive is BIG["in the unpacking"]:
        assert f"{1 << 20:,} bytes needed" in message
    elif length:
        assert f"{2 * len(archive):,} bytes needed" in message
    assert_model(folder)
    assert visible(cache) == {"toy"}
    assert server.hits[PATH] == 2  # no use in trying again


def test_a_local_archive_that_does_not_fit(tmp_path: Path, cache: Path):
    (tmp_path / "a.tar.gz").write_bytes(BIG["in the unpacking"])
    code = LIMITED + (
        "from roberta_hub.checkpoint.fetch.archive import extract_archive\n"
        "try: extract_archive(sys.argv[1])\n"
        "except OSError as error: print(error)\n"
    )
    message = python(code, str(tmp_path / "a.tar.gz")).communicate(timeout=60)[0]
    assert f"{1 << 20:,} bytes needed" in message
    assert visible(cache) == set()
    assert_model(extract_archive(tmp_path / "a.tar.gz"), bytes(1 << 20))


UNPRIVILEGED = """
import filelock, requests, encodings.latin_1  # Python itself may lie where only root reads
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try: print(download.fetch_model(TOY))
except download.DownloadError as error: print("error:", error)
"""
ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become somebody else")


@ROOT_ONLY
@pytest.mark.parametrize("lack", ["nothing", "file", "manifest", "all"])
def test_another_users_cache(server: Server, cache: Path, tmp_path: Path, lack: str):
    """Complete: works.

    Incomplete: says what cannot be written and what to do. Never is it changed.
    """
    folder = fetch_model(TOY)
    for name in {"file": ["dict.txt"], "manifest": ["manifest.json"]}.get(lack, []):
        (folder / name).unlink()
    if lack == "all":
        shutil.rmtree(folder)
    (cache / ".incomplete-toy~old").mkdir()  # left by a killed process of the owner
    for place in (tmp_path, *tmp_path.parents):
        if place.stat().st_uid == 0 and place != Path("/"):
            place.chmod(place.stat().st_mode | 0o555)
    before = sorted(cache.rglob("*"))
    process = python(UNPRIVILEGED)
    out, err = process.communicate(timeout=60)
    assert err == ""
    if lack == "nothing":
        assert out == f"{folder}\n"
    else:
        assert f"error: cannot write {folder} (Permission denied)" in out and "TORCH_HOME" in out
    assert sorted(cache.rglob("*")) == before
    assert server.hits[PATH] == 1


READ_ONLY = """
target = sys.argv[1]
libc = __import__("ctypes").CDLL(None, use_errno=True)
def mount(source, flags):
    if libc.mount(source, target.encode(), None, flags, None):
        print("cannot mount"); sys.exit(0)
mount(target.encode(), 4096)            # MS_BIND
mount(None, 4096 | 32 | 1)              # MS_BIND | MS_REMOUNT | MS_RDONLY
try: print(download.fetch_model(TOY))
except download.DownloadError as error: print("error:", error)
"""


@ROOT_ONLY
@pytest.mark.parametrize("complete", [True, False])
def test_a_read_only_file_system(server: Server, cache: Path, tmp_path: Path, complete: bool):
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-m", "true"]).returncode:
        pytest.skip("needs a mount namespace of its own")
    folder = fetch_model(TOY)
    if not complete:
        (folder / "model.pt").unlink()
    out, err = fresh_python(READ_ONLY, str(tmp_path / "torch"), prefix=(unshare, "-m"))
    if "cannot mount" in out:
        pytest.skip("this container may not mount")
    assert err == ""
    if complete:
        assert out == f"{folder}\n"
    else:
        assert f"error: cannot write {folder} (Read-only file system)" in out
    assert server.hits[PATH] == 1


# ---- a lock that does nothing, as flock on some network file systems ----

NO_LOCK = """
import fcntl
fcntl.flock = lambda handle, operation: None
"""
EIGHT = """
import requests, filelock
force = len(sys.argv) > 1
for _ in range(8):
    if os.fork() == 0:
        try:
            folder = download.fetch_model(TOY, force=force)
            whole = force or sorted(os.listdir(folder)) == ["dict.txt", "manifest.json", "model.pt"]
        except BaseException as error:
            os.write(2, f"{error!r}\\n".encode())
            os._exit(1)
        os._exit(0 if whole else 2)
sys.exit(sum(os.wait()[1] for _ in range(8)) != 0)
"""


@pytest.mark.parametrize("force", [False, True], ids=["first use", "forced"])
def test_eight_processes_without_a_lock(server: Server, cache: Path, force: bool):
    """They all download, and no one's stage is swept away.

    What one published stays for whoever reads it.
    """
    server.plan[PATH] = [together(GOOD, 8)]
    process = python(NO_LOCK + EIGHT, *(["force"] if force else []))
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0
    assert server.hits[PATH] == 8
    assert_model(cache / "toy")
    assert visible(cache) == {"toy", "digests.json"}


def test_a_neighbour_at_work_is_not_swept_without_a_lock(server: Server, cache: Path):
    server.plan[PATH] = [stall(GOOD, 100, go_on=True), body(OTHER)]
    first = python(NO_LOCK + "print(download.fetch_model(TOY))")
    assert server.stalled.wait(60)
    second = python(NO_LOCK + "print(download.fetch_model(TOY))")
    assert second.communicate(timeout=60) == (f"{cache / 'toy'}\n", "")
    assert_model(cache / "toy", WEIGHTS[::-1])
    assert any(name.startswith(".incomplete-toy~") for name in visible(cache))
    server.release.set()
    out, err = first.communicate(timeout=60)
    # The server changed the file between the two, which is noticed; nothing was lost or mixed.
    assert (out, "sha256" in err) == ("", True)
    assert_model(cache / "toy", WEIGHTS[::-1])
    assert visible(cache) == {"toy", "digests.json"}


def test_a_lock_that_cannot_be_had_is_no_reason_to_fail(server: Server, cache: Path):
    code = (
        "import fcntl, errno\n"
        "def flock(handle, operation): raise OSError(errno.ENOLCK, 'No locks available')\n"
        "fcntl.flock = flock\n"
        "print(download.fetch_model(TOY))\n"
    )
    assert python(code).communicate(timeout=60) == (f"{cache / 'toy'}\n", "")
    hidden = "sys.modules['filelock'] = None\nprint(download.fetch_model(TOY, force=True))"
    assert python(hidden).communicate(timeout=60) == (f"{cache / 'toy'}\n", "")
    no_bar = "sys.modules['tqdm'] = None\nprint(download.fetch_model(TOY, force=True))"
    assert python(no_bar).communicate(timeout=60) == (f"{cache / 'toy'}\n", "")
    assert_model(cache / "toy")


def test_waiting_has_an_end(server: Server, cache: Path):
    from filelock import FileLock

    cache.mkdir(parents=True)
    with FileLock(cache / ".toy.lock"):
        code = "from roberta_hub.checkpoint.fetch import cache\ncache.LOCK_SECONDS = 0.2\n"
        process = python(code + "print(download.fetch_model(TOY))")
        assert process.communicate(timeout=60) == (f"{cache / 'toy'}\n", "")
    assert_model(cache / "toy")
