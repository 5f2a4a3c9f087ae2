"""The cache under full disks, without network, and with many and killed processes."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from archives import (
    GOOD,
    OTHER,
    PATH,
    TOY,
    TOY_FILE,
    VOCABULARY,
    WEIGHTS,
    assert_model,
    model_files,
    pack,
    pinned,
    python,
    visible,
)
from server import Server, body, stall, status

from roberta_hub.checkpoint.fetch import download
from roberta_hub.checkpoint.fetch.archive import extract_archive
from roberta_hub.checkpoint.fetch.download import fetch_model, find_in_fairseq_cache
from roberta_hub.errors import CheckpointError, DownloadError
from roberta_hub.files import abandoned, stage_tag

pytestmark = pytest.mark.system

# ---- the disk ----


def test_too_little_room_is_noticed_before_the_download(server: Server, cache: Path):
    server.plan[PATH] = [body(b"", headers={"Content-Length": str(10**17)}, length=False)]
    with pytest.raises(DownloadError, match=r"200,000,000,000,000,000 bytes needed.*TORCH_HOME"):
        fetch_model(TOY)
    assert server.hits[PATH] == 1
    assert visible(cache) == set()


def test_a_disk_that_fills_up_on_the_way(server: Server, cache: Path):
    server.plan[PATH] = [body(pack(*model_files(weights=bytes(1 << 20))))]
    process = python(
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({1 << 16}, {resource.RLIM_INFINITY}))\n"
        "try: download.fetch_model(TOY)\n"
        "except download.DownloadError as error: print(error)\n"
    )
    message = process.communicate(timeout=60)[0]
    assert "cannot write" in message and "TORCH_HOME" in message
    assert visible(cache) == set()


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "model.pt").write_bytes(b"short"),
        lambda folder: (folder / "dict.txt").unlink(),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text("[]"),
        lambda folder: (folder / "manifest.json").write_text("{"),
    ],
    ids=["short", "missing", "no manifest", "foreign manifest", "cut manifest"],
)
def test_an_incomplete_folder_is_replaced(server: Server, cache: Path, damage):
    damage(fetch_model(TOY))
    assert_model(fetch_model(TOY))
    assert server.hits[PATH] == 2
    assert visible(cache) == {"toy", "digests.json"}


def test_force_replaces_only_by_a_verified_copy(server: Server, cache: Path):
    folder = fetch_model(TOY)
    # A flipped bit of the right size: only force repairs it.
    (folder / "model.pt").write_bytes(WEIGHTS[::-1])
    for bad in (status(404), body(b"<html>"), body(OTHER)):
        server.plan[PATH] = [bad]
        with pytest.raises(DownloadError):
            fetch_model(TOY, force=True)
        assert_model(folder, WEIGHTS[::-1])
    server.plan[PATH] = [body(GOOD)]
    assert_model(fetch_model(TOY, force=True))
    assert visible(cache) == {"toy", "digests.json"}


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """Yield a TORCH_HOME that this process, root or not, may read but not write."""
    home = Path(tempfile.mkdtemp(dir="/tmp"))
    home.chmod(0o755)
    yield home
    os.seteuid(os.getuid())
    for folder, _, _ in os.walk(home):
        os.chmod(folder, 0o755)
    shutil.rmtree(home)


def give_up_writing(home: Path) -> None:
    for folder, _, _ in os.walk(home, topdown=False):
        os.chmod(folder, 0o555)
    if os.getuid() == 0:
        os.seteuid(65534)


def test_a_complete_read_only_cache_works(
    server: Server, unprivileged: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TORCH_HOME", str(unprivileged))
    folder = fetch_model(TOY)
    give_up_writing(unprivileged)
    assert fetch_model(TOY) == folder
    assert_model(folder)
    assert server.hits[PATH] == 1


def test_an_incomplete_read_only_cache_names_itself_and_the_remedy(
    server: Server, unprivileged: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TORCH_HOME", str(unprivileged))
    folder = fetch_model(TOY)
    (folder / "model.pt").unlink()
    local = unprivileged / "mine.tar.gz"
    local.write_bytes(GOOD)
    give_up_writing(unprivileged)
    with pytest.raises(DownloadError, match=f"cannot write {folder} .*TORCH_HOME"):
        fetch_model(TOY)
    with pytest.raises(CheckpointError, match=r"cannot write .*local-.*TORCH_HOME"):
        extract_archive(local)
    assert server.hits[PATH] == 1


# ---- offline ----

NO_SOCKETS = """
def refuse(event, arguments):
    if event.startswith("socket."): os._exit(99)
sys.addaudithook(refuse)
try: print(download.fetch_model(TOY, force=len(sys.argv) > 1))
except download.DownloadError as error: print(error)
"""


def test_offline_opens_no_socket(server: Server, cache: Path):
    missing = python(NO_SOCKETS, ROBERTA_HUB_OFFLINE="1")
    message = missing.communicate(timeout=60)[0]
    assert missing.returncode == 0
    for part in ("ROBERTA_HUB_OFFLINE", str(cache / "toy"), "pytorch_fairseq"):
        assert part in message
    assert not cache.exists()
    fetch_model(TOY)
    present = python(NO_SOCKETS, ROBERTA_HUB_OFFLINE="1")
    assert present.communicate(timeout=60)[0] == f"{cache / 'toy'}\n"
    assert present.returncode == 0
    assert server.hits[PATH] == 1


def test_offline_and_force_contradict_each_other(
    server: Server, monkeypatch: pytest.MonkeyPatch, cache: Path
):
    fetch_model(TOY)
    monkeypatch.setenv(download.OFFLINE_ENV, "1")
    with pytest.raises(DownloadError, match="ROBERTA_HUB_OFFLINE forbids"):
        fetch_model(TOY, force=True)
    monkeypatch.setenv(download.OFFLINE_ENV, "0")
    fetch_model(TOY, force=True)


# ---- many processes, killed processes ----


EIGHT = """
import requests, filelock
for _ in range(8):
    if os.fork() == 0:
        os.write(1, f"{download.fetch_model(TOY)}\\n".encode())  # print may write twice
        os._exit(0)
sys.exit(sum(os.wait()[1] for _ in range(8)) != 0)
"""


def test_eight_processes_download_once(server: Server, cache: Path):
    # Forked from one that has imported all: so that they do start at once.
    process = python(EIGHT)
    assert process.communicate(timeout=60) == (f"{cache / 'toy'}\n" * 8, "")
    assert process.returncode == 0
    assert server.hits[PATH] == 1
    assert_model(cache / "toy")
    assert visible(cache) == {"toy", "digests.json"}


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("sent", [0, len(GOOD) - 1])
def test_ended_in_the_middle_of_a_download(server: Server, cache: Path, end: int, sent: int):
    server.plan[PATH] = [stall(GOOD, sent), body(GOOD)]
    process = python("download.fetch_model(TOY)")
    assert server.stalled.wait(60)
    time.sleep(0.1)
    process.send_signal(end)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert not (cache / "toy").exists()
    if end == signal.SIGINT:
        assert visible(cache) == set()
    assert_model(fetch_model(TOY))
    assert visible(cache) == {"toy", "digests.json"}


AT_LINE = """
import threading
wanted = sys.argv[1]
def watch(event, arguments):
    path = str(arguments[0]) if event == "open" else ""
    if event == "open" and path.endswith(wanted) and ".incomplete" in path:
        os.kill(os.getpid(), 9)
    if event == "os.rename" and wanted == "rename":
        os.kill(os.getpid(), 9)
sys.addaudithook(watch)
download.fetch_model(TOY, force=True)
"""


@pytest.mark.parametrize(
    "moment", ["dict.txt", "model.pt", "digests.json", "manifest.json", "rename"]
)
def test_killed_while_unpacking(server: Server, cache: Path, moment: str):
    process = python(AT_LINE, moment)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert not (cache / "toy").exists()
    assert any(name.startswith(".incomplete-toy~") for name in visible(cache))
    assert_model(fetch_model(TOY))
    assert visible(cache) == {"toy", "digests.json"}


def test_killed_between_the_two_renames_keeps_the_old_copy(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = fetch_model(TOY)
    folder.rename(cache / ".old-toy~1")
    server.plan[PATH] = [status(404)]
    assert_model(fetch_model(TOY))
    assert server.hits[PATH] == 1
    assert visible(cache) == {"toy", "digests.json"}


def test_only_ones_own_leftovers_are_swept(server: Server, cache: Path):
    cache.mkdir(parents=True)
    neighbours = {".incomplete-toy.large~1", ".incomplete-toy-0a1b2c3d~1", ".old-toy.large~1"}
    for name in (*neighbours, ".incomplete-toy~1"):
        (cache / name).mkdir()
    fetch_model(TOY)
    assert visible(cache) == {"toy", "digests.json"} | neighbours


def test_leftovers_beside_a_complete_copy_go_without_a_download(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    """Killed in a forced download, or after its last rename: the next run reads, and tidies up."""
    folder = fetch_model(TOY)
    monkeypatch.setenv(download.OFFLINE_ENV, "1")
    for name in (".incomplete-toy~1", ".old-toy~1"):
        shutil.copytree(folder, cache / name)
    assert fetch_model(TOY) == folder
    assert visible(cache) == {"toy", "digests.json"}
    folder.rename(cache / ".old-toy~1")
    assert fetch_model(TOY) == folder
    assert_model(folder)
    assert visible(cache) == {"toy", "digests.json"}


def test_whose_a_stage_is(cache: Path):
    cache.mkdir(parents=True)
    own = cache / f".incomplete-toy~{stage_tag()}"
    machine, pid, began, rest = own.name.partition("~")[2].split("_")
    ended = python("")
    ended.communicate(timeout=60)
    parts = {
        "another process": (machine, str(ended.pid), began, rest),
        "a process that had the same number": (machine, pid, str(int(began) - 1), rest),
        "another machine": ("0" * 8, pid, began, rest),
    }
    stages = {name: cache / f".incomplete-toy~{'_'.join(tag)}" for name, tag in parts.items()}
    for stage in (own, *stages.values()):
        stage.mkdir()
        (stage / "archive.tar.gz").touch()
    assert not abandoned(own)
    assert abandoned(stages["another process"])
    assert abandoned(stages["a process that had the same number"])
    elsewhere = stages["another machine"]
    assert not abandoned(elsewhere)
    os.utime(elsewhere, (1, 1))
    assert not abandoned(elsewhere), "a file in it has just been written"
    os.utime(elsewhere / "archive.tar.gz", (1, 1))
    assert abandoned(elsewhere)


def test_a_process_that_nobody_waited_for_is_gone(cache: Path):
    """A zombie still has a number; in a container without an init it may keep it for days."""
    code = (
        "import time\n"
        "from roberta_hub.files import stage_tag\n"
        "if os.fork() == 0:\n"
        "    print(os.getpid(), stage_tag(), flush=True)\n"
        "    os._exit(0)\n"
        "time.sleep(60)\n"
    )
    parent = python(code)
    assert parent.stdout is not None
    pid, tag = parent.stdout.readline().split()
    while Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        time.sleep(0.01)
    assert abandoned(cache / f".incomplete-toy~{tag}")
    parent.kill()
    parent.communicate(timeout=60)


# ---- fairseq's own cache ----


def fairseq_entry(folder: Path, url: str, etag: str = '"abc"') -> Path:
    """Lay a model down as fairseq 0.12.2 does: folder, JSON beside it, lock beside that."""
    name = ".".join(hashlib.sha256(part.encode()).hexdigest() for part in (url, etag))
    entry = folder / name
    entry.mkdir(parents=True)
    (entry / "model.pt").write_bytes(WEIGHTS)
    (entry / "dict.txt").write_bytes(VOCABULARY)
    (folder / f"{name}.json").write_text(json.dumps({"url": url, "etag": etag}))
    (folder / f"{name}.lock").touch()
    return entry


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_fairseqs_cache_is_used_where_it_lies(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
):
    entry = fairseq_entry(
        tmp_path / "torch" / "pytorch_fairseq", TOY_FILE.url.replace("https", scheme)
    )
    monkeypatch.setenv(download.OFFLINE_ENV, "1")
    assert find_in_fairseq_cache(TOY) == entry
    assert fetch_model(TOY) == entry
    assert not cache.exists()
    assert len(list(entry.iterdir())) == 2


def test_fairseqs_variable_moves_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTORCH_FAIRSEQ_CACHE", str(tmp_path / "old"))
    old = fairseq_entry(tmp_path / "old", TOY_FILE.url, '"z"')
    os.utime(old, (1, 1))
    new = fairseq_entry(tmp_path / "old", TOY_FILE.url, '"y"')
    assert find_in_fairseq_cache(TOY) == new


def test_fairseqs_half_states_and_other_models_are_passed_over(tmp_path: Path):
    folder = tmp_path / "torch" / "pytorch_fairseq"
    assert find_in_fairseq_cache(TOY) is None
    fairseq_entry(folder, "https://example.invalid/toy.tar.gz")
    (fairseq_entry(folder, TOY_FILE.url) / "model.pt").unlink()
    name = hashlib.sha256(TOY_FILE.url.encode()).hexdigest()
    (folder / f"{name}.archive").write_bytes(GOOD)
    (folder / f"{name}.gone").symlink_to("nowhere")
    assert find_in_fairseq_cache(TOY) is None


def test_fairseqs_cache_cannot_stand_in_for_a_published_digest(tmp_path: Path):
    fairseq_entry(tmp_path / "torch" / "pytorch_fairseq", TOY_FILE.url)
    assert find_in_fairseq_cache(pinned(TOY, sha256="0" * 64)) is None
