"""Downloads and unpacking against a real server, real processes and real hostile archives."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import io
import json
import os
import resource
import shutil
import signal
import ssl
import struct
import subprocess
import sys
import tarfile
import tempfile
import termios
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from server import Server, body, cut, redirect, stall, status

import roberta_hub
from roberta_hub.checkpoint import download
from roberta_hub.checkpoint.catalogue import BASE_URL, Record
from roberta_hub.checkpoint.download import extract_archive, fetch_archive, find_in_fairseq_cache
from roberta_hub.config import RobertaConfig
from roberta_hub.errors import CheckpointError, DownloadError

TOY = Record(name="toy", url=f"{BASE_URL}/toy.tar.gz", config=RobertaConfig())
PATH = "/toy.tar.gz"
WEIGHTS = bytes(range(256)) * 8
VOCABULARY = b"the 10\na 9\n"


# ---- archives ----


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


# ---- surroundings ----


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (download.OFFLINE_ENV, download.MIRROR_ENV, "PYTORCH_FAIRSEQ_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    monkeypatch.setattr(download, "BACKOFF", 0.01)
    return tmp_path / "torch" / "hub" / "checkpoints" / "roberta_hub"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as running:
        running.plan[PATH] = [body(GOOD)]
        monkeypatch.setenv(download.MIRROR_ENV, running.url)
        yield running


def visible(cache: Path) -> set[str]:
    """Everything in the cache but lock files: models, the table of digests, and litter if there is any."""
    names = {path.name for path in cache.iterdir()} if cache.exists() else set()
    return {name for name in names if not name.endswith(".lock")}


def assert_model(folder: Path, weights: bytes = WEIGHTS) -> None:
    assert {path.name for path in folder.iterdir()} == {"model.pt", "dict.txt", "manifest.json"}
    assert (folder / "model.pt").read_bytes() == weights
    assert (folder / "dict.txt").read_bytes() == VOCABULARY


def python(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start a real process with TOY at hand and this process's environment."""
    start = (
        "import os, sys\n"
        "from roberta_hub.checkpoint import download\n"
        "from roberta_hub.checkpoint.catalogue import BASE_URL, Record\n"
        "from roberta_hub.config import RobertaConfig\n"
        "TOY = Record(name='toy', url=BASE_URL + '/toy.tar.gz', config=RobertaConfig())\n"
    )
    repository = str(Path(roberta_hub.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", start + code, *arguments],
        env={**os.environ, "PYTHONPATH": repository, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# ---- the good case ----


def test_first_use_downloads_and_later_uses_are_silent(
    server: Server, cache: Path, capfd: pytest.CaptureFixture[str]
):
    folder = fetch_archive(TOY)
    assert folder == cache / "toy"
    assert_model(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["archive_sha256"] == hashlib.sha256(GOOD).hexdigest()
    assert manifest["files"]["model.pt"] == {
        "size": len(WEIGHTS),
        "sha256": hashlib.sha256(WEIGHTS).hexdigest(),
    }
    assert fetch_archive(TOY) == folder
    assert server.hits[PATH] == 1
    assert visible(cache) == {"toy", "digests.json"}
    assert capfd.readouterr() == ("", "")


def test_published_files_can_be_read_as_the_umask_allows(server: Server, cache: Path):
    before = os.umask(0o022)
    try:
        folder = fetch_archive(TOY)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}


def test_set_dir_moves_the_cache(server: Server, tmp_path: Path):
    torch.hub.set_dir(str(tmp_path / "elsewhere"))
    assert fetch_archive(TOY) == tmp_path / "elsewhere" / "checkpoints" / "roberta_hub" / "toy"


def test_a_body_without_a_length_is_accepted(server: Server):
    server.plan[PATH] = [body(GOOD, length=False)]
    assert_model(fetch_archive(TOY, progress=False))


def test_a_body_labelled_as_gzip_encoded_is_kept_as_it_is(server: Server):
    server.plan[PATH] = [body(GOOD, headers={"Content-Encoding": "gzip"})]
    assert_model(fetch_archive(TOY))


def test_a_published_digest_names_the_folder(server: Server, cache: Path):
    digest = hashlib.sha256(GOOD).hexdigest()
    assert_model(fetch_archive(replace(TOY, sha256=digest)))
    assert visible(cache) == {f"toy-{digest[:8]}"}


def test_the_bar_shows_on_a_terminal_and_can_be_switched_off(server: Server):
    for wanted in (True, False):
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-c", PTY_SCRIPT, str(int(wanted))],
            env={**os.environ, "PYTHONPATH": str(Path(roberta_hub.__file__).parents[1])},
            stderr=theirs,
        )
        assert process.wait(60) == 0
        os.close(theirs)
        shown = b""
        # On Linux, a terminal whose other side is closed ends with an error.
        with contextlib.suppress(OSError):
            while chunk := os.read(ours, 4096):
                shown += chunk
        os.close(ours)
        assert (b"toy" in shown and b"%" in shown) == wanted


PTY_SCRIPT = """
import sys
from roberta_hub.checkpoint import download
from roberta_hub.checkpoint.catalogue import BASE_URL, Record
from roberta_hub.config import RobertaConfig
toy = Record(name="toy", url=BASE_URL + "/toy.tar.gz", config=RobertaConfig())
download.fetch_archive(toy, force=True, progress=sys.argv[1] == "1")
"""


def test_the_module_imports_nothing_that_only_a_download_needs():
    process = python("print(sorted({'requests', 'filelock', 'urllib3'} & set(sys.modules)))")
    assert process.communicate(timeout=60)[0] == "[]\n"


# ---- a bad network ----


@pytest.mark.parametrize("sent", [0, 1, len(GOOD) // 2, len(GOOD) - 1])
def test_a_broken_connection_is_tried_again(server: Server, cache: Path, sent: int):
    server.plan[PATH] = [cut(GOOD, sent), body(GOOD)]
    assert_model(fetch_archive(TOY))
    assert server.hits[PATH] == 2
    assert visible(cache) == {"toy", "digests.json"}


def test_a_connection_that_always_breaks_is_an_error(server: Server, cache: Path):
    server.plan[PATH] = [cut(GOOD, 100)]
    with pytest.raises(DownloadError) as caught:
        fetch_archive(TOY)
    for part in (server.url + PATH, f"failed {download.ATTEMPTS} times", f"{len(GOOD):,}", "path"):
        assert part in str(caught.value)
    assert server.hits[PATH] == download.ATTEMPTS
    assert visible(cache) == set()


def test_a_stalled_server_is_given_up(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(download, "TIMEOUT", (1, 0.2))
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    server.plan[PATH] = [stall(GOOD, 50), body(GOOD)]
    assert_model(fetch_archive(TOY))
    server.plan[PATH] = [stall(GOOD, 50)]
    with pytest.raises(DownloadError, match="timed out"):
        fetch_archive(TOY, force=True)
    assert_model(cache / "toy")
    assert visible(cache) == {"toy", "digests.json"}


@pytest.mark.parametrize("code", [401, 403, 404, 410])
def test_a_refusal_is_not_repeated(server: Server, cache: Path, code: int):
    server.plan[PATH] = [status(code), body(GOOD)]
    with pytest.raises(DownloadError, match=f"{PATH} answered {code} "):
        fetch_archive(TOY)
    assert server.hits[PATH] == 1
    assert visible(cache) == set()


@pytest.mark.parametrize("code", [408, 429, 500, 503])
def test_a_passing_failure_is_repeated(server: Server, code: int):
    server.plan[PATH] = [status(code), body(GOOD)]
    assert_model(fetch_archive(TOY))
    assert server.hits[PATH] == 2


def test_retry_after_is_honoured_up_to_a_limit(server: Server, monkeypatch: pytest.MonkeyPatch):
    server.plan[PATH] = [status(429, {"Retry-After": "1"}), body(GOOD)]
    start = time.monotonic()
    fetch_archive(TOY)
    assert time.monotonic() - start >= 1
    monkeypatch.setattr(download, "MAX_WAIT", 0.05)
    server.plan[PATH] = [status(503, {"Retry-After": "9999"}), body(GOOD)]
    fetch_archive(TOY, force=True)


def test_no_server_at_all(monkeypatch: pytest.MonkeyPatch):
    with Server() as gone:
        monkeypatch.setenv(download.MIRROR_ENV, gone.url)
    with pytest.raises(DownloadError, match="refused"):
        fetch_archive(TOY)


def test_redirects_are_followed(server: Server):
    server.plan[PATH] = [redirect("/b.tar.gz", 301)]
    server.plan["/b.tar.gz"] = [redirect(server.url + "/c.tar.gz", 307)]
    server.plan["/c.tar.gz"] = [body(GOOD)]
    assert_model(fetch_archive(TOY))


@pytest.mark.parametrize(
    "location",
    [
        "http://example.invalid/x",
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "data:,x",
    ],
)
def test_redirects_out_of_https_are_refused(server: Server, location: str):
    server.plan[PATH] = [redirect(location)]
    with pytest.raises(DownloadError, match="leads to"):
        fetch_archive(TOY)
    assert server.hits[PATH] == 1


def test_a_redirect_to_nonsense(server: Server):
    server.plan[PATH] = [redirect("http://[/x")]
    with pytest.raises(DownloadError, match="Invalid IPv6 URL"):
        fetch_archive(TOY)


def test_a_redirect_loop_ends(server: Server):
    server.plan[PATH] = [redirect(PATH)]
    with pytest.raises(DownloadError, match="10 redirects"):
        fetch_archive(TOY)
    assert server.hits[PATH] == 11


def test_tls_is_verified_and_never_left(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(
        [openssl, *command.split(), "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    secure = Server()
    secure.socket, secure.scheme = context.wrap_socket(secure.socket, server_side=True), "https"
    with secure:
        secure.plan[PATH] = [body(GOOD)]
        monkeypatch.setenv(download.MIRROR_ENV, secure.url)
        with pytest.raises(DownloadError, match="certificate was not accepted"):
            fetch_archive(TOY)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        assert_model(fetch_archive(TOY))
        secure.plan[PATH] = [redirect(server.url + PATH)]
        for mirror in (secure.url, secure.url.replace("https", "HTTPS")):
            monkeypatch.setenv(download.MIRROR_ENV, mirror)
            with pytest.raises(DownloadError, match="only https is followed"):
                fetch_archive(TOY, force=True)
    assert server.hits[PATH] == 0


@pytest.mark.parametrize(
    "mirror", ["http://example.invalid", "ftp://127.0.0.1", "/mnt/mirror", "http://["]
)
def test_an_unsafe_mirror_is_refused(monkeypatch: pytest.MonkeyPatch, mirror: str):
    monkeypatch.setenv(download.MIRROR_ENV, mirror)
    with pytest.raises(
        DownloadError, match=r"ROBERTA_HUB_MIRROR leads to .*(only https|not a URL)"
    ):
        fetch_archive(TOY)


# ---- a wrong body ----


def test_a_web_page_instead_of_an_archive(server: Server, cache: Path):
    server.plan[PATH] = [body(b"\n<!DOCTYPE html><title>Please log in</title>")]
    with pytest.raises(DownloadError, match="looks like a web page"):
        fetch_archive(TOY)
    assert visible(cache) == set()


@pytest.mark.parametrize("content", [b"", b"\x00" * 1000, b"PK\x03\x04"])
def test_a_body_that_is_no_archive(server: Server, cache: Path, content: bytes):
    server.plan[PATH] = [body(content)]
    with pytest.raises(DownloadError, match="not a gzip archive"):
        fetch_archive(TOY)
    assert visible(cache) == set()


def test_wrong_digest_with_the_right_size(server: Server, cache: Path):
    wrong = GOOD[:-1] + bytes([GOOD[-1] ^ 1])
    server.plan[PATH] = [body(wrong)]
    pinned = replace(TOY, sha256=hashlib.sha256(GOOD).hexdigest())
    with pytest.raises(DownloadError) as caught:
        fetch_archive(pinned)
    assert hashlib.sha256(wrong).hexdigest() in str(caught.value)
    assert hashlib.sha256(GOOD).hexdigest() in str(caught.value)
    assert visible(cache) == set()


def test_the_digest_of_first_use_is_enforced_later(server: Server, cache: Path):
    fetch_archive(TOY)
    assert json.loads((cache / "digests.json").read_text()) == {
        TOY.url: hashlib.sha256(GOOD).hexdigest()
    }
    server.plan[PATH] = [body(OTHER)]
    with pytest.raises(DownloadError, match=r"recorded in .*digests\.json"):
        fetch_archive(TOY, force=True)
    assert_model(cache / "toy")
    shutil.rmtree(cache / "toy")
    with pytest.raises(DownloadError, match="remove that entry"):
        fetch_archive(TOY)
    (cache / "digests.json").unlink()
    assert_model(fetch_archive(TOY), WEIGHTS[::-1])


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_a_damaged_table_of_digests_is_not_ignored(server: Server, cache: Path, content: str):
    cache.mkdir(parents=True)
    (cache / "digests.json").write_text(content)
    with pytest.raises(DownloadError, match=r"digests\.json is damaged"):
        fetch_archive(TOY)


def test_a_damaged_archive_is_neither_kept_nor_remembered(server: Server, cache: Path):
    server.plan[PATH] = [body(GOOD[:-8], length=False)]
    with pytest.raises(CheckpointError, match=f"{server.url}{PATH} is refused"):
        fetch_archive(TOY)
    assert visible(cache) == set()
    server.plan[PATH] = [body(GOOD)]
    assert_model(fetch_archive(TOY))


def test_an_endless_body_is_refused(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(download, "MAX_BYTES", len(GOOD) - 1)
    server.plan[PATH] = [body(GOOD, length=False)]
    with pytest.raises(DownloadError, match="sends more than"):
        fetch_archive(TOY)
    assert visible(cache) == set()


# ---- the disk ----


def test_too_little_room_is_noticed_before_the_download(server: Server, cache: Path):
    server.plan[PATH] = [body(b"", headers={"Content-Length": str(10**17)}, length=False)]
    with pytest.raises(DownloadError, match=r"200,000,000,000,000,000 bytes needed.*TORCH_HOME"):
        fetch_archive(TOY)
    assert server.hits[PATH] == 1
    assert visible(cache) == set()


def test_a_disk_that_fills_up_on_the_way(server: Server, cache: Path):
    server.plan[PATH] = [body(pack(*model_files(weights=bytes(1 << 20))))]
    process = python(
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({1 << 16}, {resource.RLIM_INFINITY}))\n"
        "try: download.fetch_archive(TOY)\n"
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
    damage(fetch_archive(TOY))
    assert_model(fetch_archive(TOY))
    assert server.hits[PATH] == 2
    assert visible(cache) == {"toy", "digests.json"}


def test_force_replaces_only_by_a_verified_copy(server: Server, cache: Path):
    folder = fetch_archive(TOY)
    # A flipped bit of the right size: only force repairs it.
    (folder / "model.pt").write_bytes(WEIGHTS[::-1])
    for bad in (status(404), body(b"<html>"), body(OTHER)):
        server.plan[PATH] = [bad]
        with pytest.raises(DownloadError):
            fetch_archive(TOY, force=True)
        assert_model(folder, WEIGHTS[::-1])
    server.plan[PATH] = [body(GOOD)]
    assert_model(fetch_archive(TOY, force=True))
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
    folder = fetch_archive(TOY)
    give_up_writing(unprivileged)
    assert fetch_archive(TOY) == folder
    assert_model(folder)
    assert server.hits[PATH] == 1


def test_an_incomplete_read_only_cache_names_itself_and_the_remedy(
    server: Server, unprivileged: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TORCH_HOME", str(unprivileged))
    folder = fetch_archive(TOY)
    (folder / "model.pt").unlink()
    local = unprivileged / "mine.tar.gz"
    local.write_bytes(GOOD)
    give_up_writing(unprivileged)
    with pytest.raises(DownloadError, match=f"cannot write {folder} .*TORCH_HOME"):
        fetch_archive(TOY)
    with pytest.raises(CheckpointError, match=r"cannot write .*local-.*TORCH_HOME"):
        extract_archive(local)
    assert server.hits[PATH] == 1


# ---- offline ----

NO_SOCKETS = """
def refuse(event, arguments):
    if event.startswith("socket."): os._exit(99)
sys.addaudithook(refuse)
try: print(download.fetch_archive(TOY, force=len(sys.argv) > 1))
except download.DownloadError as error: print(error)
"""


def test_offline_opens_no_socket(server: Server, cache: Path):
    missing = python(NO_SOCKETS, ROBERTA_HUB_OFFLINE="1")
    message = missing.communicate(timeout=60)[0]
    assert missing.returncode == 0
    for part in ("ROBERTA_HUB_OFFLINE", str(cache / "toy"), "pytorch_fairseq"):
        assert part in message
    assert not cache.exists()
    fetch_archive(TOY)
    present = python(NO_SOCKETS, ROBERTA_HUB_OFFLINE="1")
    assert present.communicate(timeout=60)[0] == f"{cache / 'toy'}\n"
    assert present.returncode == 0
    assert server.hits[PATH] == 1


def test_offline_and_force_contradict_each_other(
    server: Server, monkeypatch: pytest.MonkeyPatch, cache: Path
):
    fetch_archive(TOY)
    monkeypatch.setenv(download.OFFLINE_ENV, "1")
    with pytest.raises(DownloadError, match="ROBERTA_HUB_OFFLINE forbids"):
        fetch_archive(TOY, force=True)
    monkeypatch.setenv(download.OFFLINE_ENV, "0")
    fetch_archive(TOY, force=True)


# ---- many processes, killed processes ----


EIGHT = """
import requests, filelock
for _ in range(8):
    if os.fork() == 0:
        os.write(1, f"{download.fetch_archive(TOY)}\\n".encode())  # print may write twice
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
    process = python("download.fetch_archive(TOY)")
    assert server.stalled.wait(60)
    time.sleep(0.1)
    process.send_signal(end)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert not (cache / "toy").exists()
    if end == signal.SIGINT:
        assert visible(cache) == set()
    assert_model(fetch_archive(TOY))
    assert visible(cache) == {"toy", "digests.json"}


AT_LINE = """
import threading
wanted = sys.argv[1]
def watch(event, arguments):
    if event == "open" and str(arguments[0]).endswith(wanted) and ".incomplete" in str(arguments[0]):
        os.kill(os.getpid(), 9)
    if event == "os.rename" and wanted == "rename":
        os.kill(os.getpid(), 9)
sys.addaudithook(watch)
download.fetch_archive(TOY, force=True)
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
    assert_model(fetch_archive(TOY))
    assert visible(cache) == {"toy", "digests.json"}


def test_killed_between_the_two_renames_keeps_the_old_copy(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = fetch_archive(TOY)
    folder.rename(cache / ".old-toy~1")
    server.plan[PATH] = [status(404)]
    assert_model(fetch_archive(TOY))
    assert server.hits[PATH] == 1
    assert visible(cache) == {"toy", "digests.json"}


def test_only_ones_own_leftovers_are_swept(server: Server, cache: Path):
    cache.mkdir(parents=True)
    neighbours = {".incomplete-toy.large~1", ".incomplete-toy-0a1b2c3d~1", ".old-toy.large~1"}
    for name in (*neighbours, ".incomplete-toy~1"):
        (cache / name).mkdir()
    fetch_archive(TOY)
    assert visible(cache) == {"toy", "digests.json"} | neighbours


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
    entry = fairseq_entry(tmp_path / "torch" / "pytorch_fairseq", TOY.url.replace("https", scheme))
    monkeypatch.setenv(download.OFFLINE_ENV, "1")
    assert find_in_fairseq_cache(TOY) == entry
    assert fetch_archive(TOY) == entry
    assert not cache.exists()
    assert len(list(entry.iterdir())) == 2


def test_fairseqs_variable_moves_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTORCH_FAIRSEQ_CACHE", str(tmp_path / "old"))
    old = fairseq_entry(tmp_path / "old", TOY.url, '"z"')
    os.utime(old, (1, 1))
    new = fairseq_entry(tmp_path / "old", TOY.url, '"y"')
    assert find_in_fairseq_cache(TOY) == new


def test_fairseqs_half_states_and_other_models_are_passed_over(tmp_path: Path):
    folder = tmp_path / "torch" / "pytorch_fairseq"
    assert find_in_fairseq_cache(TOY) is None
    fairseq_entry(folder, "https://example.invalid/toy.tar.gz")
    (fairseq_entry(folder, TOY.url) / "model.pt").unlink()
    name = hashlib.sha256(TOY.url.encode()).hexdigest()
    (folder / f"{name}.archive").write_bytes(GOOD)
    (folder / f"{name}.gone").symlink_to("nowhere")
    assert find_in_fairseq_cache(TOY) is None


def test_fairseqs_cache_cannot_stand_in_for_a_published_digest(tmp_path: Path):
    fairseq_entry(tmp_path / "torch" / "pytorch_fairseq", TOY.url)
    assert find_in_fairseq_cache(replace(TOY, sha256="0" * 64)) is None


# ---- archives on this machine ----


def test_a_local_archive_is_unpacked_once_and_never_touched(tmp_path: Path, cache: Path):
    archive = tmp_path / "mine.tar.gz"
    archive.write_bytes(GOOD)
    archive.chmod(0o444)
    before = archive.stat()
    folder = extract_archive(str(archive))
    assert folder.parent == cache
    assert_model(folder)
    written = (folder / "model.pt").stat().st_mtime_ns
    assert extract_archive(archive) == folder
    assert (folder / "model.pt").stat().st_mtime_ns == written
    after = archive.stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)
    assert archive.read_bytes() == GOOD
    archive.chmod(0o644)
    archive.write_bytes(OTHER)
    assert_model(extract_archive(archive), WEIGHTS[::-1])


@pytest.mark.parametrize("top", ["", "./", "toy/", "./toy/", "a name/"])
@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_layouts_that_are_understood(tmp_path: Path, top: str, kind: int):
    extra = [regular(f"{top}README", b"x"), regular(f"{top}a/b/dict.txt", b"not this one")]
    content = tar(*extra, *model_files(top), kind=kind)
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(content))
    assert_model(extract_archive(tmp_path / "a.tar.gz"))


def test_a_local_archive_that_cannot_be_read(tmp_path: Path):
    for path in (tmp_path / "nothing.tar.gz", tmp_path):
        with pytest.raises(CheckpointError, match=f"cannot read the archive {path}"):
            extract_archive(path)
    page = tmp_path / "page.tar.gz"
    page.write_bytes(b"<html>")
    with pytest.raises(CheckpointError, match="looks like a web page"):
        extract_archive(page)


def symlink_chain() -> list[tuple[tarfile.TarInfo, bytes]]:
    """A chain in the manner of CVE-2025-4517: realpath gives up beyond PATH_MAX, and the check passes."""
    deep, members = "d" * 247, []
    path = ""
    for step in "abcdefghijklmnop":
        members.append(special(f"{path}{deep}", tarfile.DIRTYPE))
        members.append(special(f"{path}{step}", tarfile.SYMTYPE, deep))
        path += f"{deep}/"
    link = "/".join("abcdefghijklmnop") + "/" + "l" * 254
    members.append(special(link, tarfile.SYMTYPE, "../" * 16))
    members.append(special("escape", tarfile.SYMTYPE, f"{link}/../../../escaped"))
    members.append(special("file", tarfile.LNKTYPE, "escape/file"))
    return [*members, regular("file", b"gotcha")]


def negative_size() -> bytes:
    """In the manner of CVE-2025-8194: an offset that leads back."""
    member = tarfile.TarInfo("toy/x")
    member.size = -1024
    return member.tobuf(tarfile.GNU_FORMAT)


def chained_headers() -> bytes:
    """Extended headers upon extended headers, each of which costs tarfile a level of recursion."""
    member = tarfile.TarInfo("x")
    member.type = tarfile.GNUTYPE_LONGNAME
    member.size = 1
    return (member.tobuf(tarfile.GNU_FORMAT) + b"y".ljust(512, b"\0")) * 1000


def sparse() -> list[tuple[tarfile.TarInfo, bytes]]:
    member, content = regular("toy/big", b"1\n0\n1\n".ljust(512, b"\0") + b"z")
    member.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "toy/big", "GNU.sparse.realsize": "99"}  # fmt: skip
    return [(member, content)]


HOSTILE = {
    "symlink": ([special("toy/x", tarfile.SYMTYPE, "/etc/passwd")], "link"),
    "symlink as model": ([special("toy/model.pt", tarfile.SYMTYPE, "/etc/passwd")], "link"),
    "hardlink": ([special("toy/x", tarfile.LNKTYPE, "toy/dict.txt")], "link"),
    "character device": ([special("toy/x", tarfile.CHRTYPE)], "device"),
    "block device": ([special("toy/x", tarfile.BLKTYPE)], "device"),
    "fifo": ([special("toy/model.pt", tarfile.FIFOTYPE)], "special"),
    "unknown type": ([special("toy/x", b"Z")], "special"),
    "sparse": (sparse(), "special"),
    "parent": ([regular("../model.pt", b"x")], "outside"),
    "parent inside": ([regular("toy/../../x", b"x")], "outside"),
    "parent folder": ([special("..", tarfile.DIRTYPE)], "outside"),
    "absolute": ([regular("/tmp/x", b"x")], "outside"),
    "second model": ([regular("toy/model.pt", b"x")], "second model.pt"),
    "second model, spelled otherwise": ([regular("./toy//model.pt", b"x")], "second model.pt"),
    "second dict elsewhere": ([regular("other/dict.txt", b"x")], "second dict.txt"),
    "CVE-2025-4517": (symlink_chain(), "link"),
}


def refuse(tmp_path: Path, cache: Path, content: bytes, reason: str) -> None:
    archive = tmp_path / "hostile.tar.gz"
    archive.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"(?s)hostile.tar.gz is refused.*{reason}"):
        extract_archive(archive)
    assert visible(cache) == set()
    assert {path.name for path in tmp_path.iterdir()} <= {"hostile.tar.gz", "torch"}


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_members_refuse_the_archive(tmp_path: Path, cache: Path, name: str, first: bool):
    members, reason = HOSTILE[name]
    both = [*members, *model_files()] if first else [*model_files(), *members]
    refuse(tmp_path, cache, pack(*both), reason)


def test_a_hostile_download_is_refused_alike(server: Server, cache: Path):
    server.plan[PATH] = [body(pack(*model_files(), *symlink_chain()))]
    with pytest.raises(CheckpointError, match="is refused"):
        fetch_archive(TOY)
    assert visible(cache) == set()


def test_a_negative_size_does_not_lead_back(tmp_path: Path, cache: Path):
    content = tar(*model_files())
    refuse(tmp_path, cache, gzip.compress(negative_size() + content), "")
    end = content.index(bytes(1024), content.index(WEIGHTS))
    refuse(tmp_path, cache, gzip.compress(content[:end] + negative_size() + content[end:]), "")


def test_chained_headers_do_not_overflow_the_stack(tmp_path: Path, cache: Path):
    refuse(tmp_path, cache, gzip.compress(chained_headers() + tar(*model_files())), "recursion")


@pytest.mark.parametrize("name", ["model.pt", "dict.txt"])
def test_a_missing_file_is_named(tmp_path: Path, cache: Path, name: str):
    members = [pair for pair in model_files() if not pair[0].name.endswith(name)]
    refuse(tmp_path, cache, pack(*members, special(f"toy/{name}", tarfile.DIRTYPE)), f"no {name}")


def test_an_empty_archive(tmp_path: Path, cache: Path):
    refuse(tmp_path, cache, gzip.compress(b""), "")
    refuse(tmp_path, cache, pack(), "no model.pt")


def test_bombs(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch):
    plain = tar(*model_files())
    header = regular("x", b"")[0]
    header.pax_headers = {"comment": "a" * (2 << 20)}
    refuse(tmp_path, cache, pack((header, b""), *model_files()), "belong to no file")
    refuse(tmp_path, cache, gzip.compress(plain + bytes(2 << 20)), "belong to no file")
    refuse(tmp_path, cache, gzip.compress(plain) + gzip.compress(bytes(2 << 20)), "no file")
    crowd = [regular(f"toy/{index}", b"") for index in range(1000)]
    refuse(tmp_path, cache, pack(*crowd, *model_files()), "more than 1,000 members")
    monkeypatch.setattr(download, "MAX_BYTES", 1 << 20)
    big = regular("toy/ignored", bytes(1 << 20))
    refuse(tmp_path, cache, pack(*model_files(), big), "unpacks to more than 1,048,576 bytes")
    half = [regular(f"toy/{name}", bytes(600_000)) for name in ("a", "b")]
    refuse(tmp_path, cache, pack(*half, *model_files()), "unpacks to more than")


def test_a_size_that_only_the_header_claims(tmp_path: Path, cache: Path):
    member = tarfile.TarInfo("toy/model.pt")
    member.size = 1 << 30
    content = tar(model_files()[0])[:-10240] + member.tobuf() + b"little"
    refuse(tmp_path, cache, gzip.compress(content), "")


@pytest.mark.parametrize("kept", [2, 10, len(GOOD) // 2, len(GOOD) - 8, len(GOOD) - 1])
def test_truncated_archives_are_refused(tmp_path: Path, cache: Path, kept: int):
    refuse(tmp_path, cache, GOOD[:kept], "")


def test_trailing_garbage_is_refused(tmp_path: Path, cache: Path):
    refuse(tmp_path, cache, GOOD + b"garbage", "")


def test_no_bit_flip_changes_what_is_unpacked(tmp_path: Path):
    archive = tmp_path / "flipped.tar.gz"
    refused = 0
    for place in range(2, len(GOOD)):
        content = bytearray(GOOD)
        content[place] ^= 1 << place % 8
        archive.write_bytes(content)
        try:
            folder = extract_archive(archive)
        except CheckpointError:
            refused += 1
        else:
            assert_model(folder)
    # The rest is the date in the gzip header, and other ways to say "zeros, as before".
    assert refused > 0.9 * len(GOOD)
