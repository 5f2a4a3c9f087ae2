"""Downloads against a real server that misbehaves."""

from __future__ import annotations

import contextlib
import email.utils
import fcntl
import gzip
import hashlib
import json
import os
import shutil
import ssl
import struct
import subprocess
import termios
import time
from pathlib import Path

import forks
import pytest
import torch
from archives import (
    GOOD,
    OTHER,
    PATH,
    TOY,
    TOY_FILE,
    WEIGHTS,
    assert_model,
    fresh_python,
    model_files,
    pinned,
    tar,
    visible,
)
from server import Server, body, cut, redirect, stall, status

from roberta_hub.checkpoint.fetch import http
from roberta_hub.checkpoint.fetch.download import fetch_model
from roberta_hub.errors import CheckpointError, DownloadError

# ---- the good case ----


def test_first_use_downloads_and_later_uses_are_silent(
    server: Server, cache: Path, capfd: pytest.CaptureFixture[str]
):
    folder = fetch_model(TOY)
    assert folder == cache / "toy"
    assert_model(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["archive_sha256"] == hashlib.sha256(GOOD).hexdigest()
    assert manifest["files"]["model.pt"] == {
        "size": len(WEIGHTS),
        "sha256": hashlib.sha256(WEIGHTS).hexdigest(),
    }
    assert fetch_model(TOY) == folder
    assert server.hits[PATH] == 1
    assert visible(cache) == {"toy", "digests.json"}
    assert capfd.readouterr() == ("", "")


def test_published_files_can_be_read_as_the_umask_allows(server: Server, cache: Path):
    before = os.umask(0o022)
    try:
        folder = fetch_model(TOY)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}


def test_set_dir_moves_the_cache(server: Server, tmp_path: Path):
    torch.hub.set_dir(str(tmp_path / "elsewhere"))
    assert fetch_model(TOY) == tmp_path / "elsewhere" / "checkpoints" / "roberta_hub" / "toy"


def test_a_body_without_a_length_is_accepted(server: Server):
    server.plan[PATH] = [body(GOOD, length=False)]
    assert_model(fetch_model(TOY, progress=False))


def test_a_body_labelled_as_gzip_encoded_is_kept_as_it_is(server: Server):
    server.plan[PATH] = [body(GOOD, headers={"Content-Encoding": "gzip"})]
    assert_model(fetch_model(TOY))


def test_a_digest_published_later_costs_no_download(server: Server, cache: Path):
    """Pinning is for the next download.

    A copy with that digest in its manifest stays, another is replaced.
    """
    folder = fetch_model(TOY)
    digest = hashlib.sha256(GOOD).hexdigest()
    assert fetch_model(pinned(TOY, sha256=digest)) == folder
    assert server.hits[PATH] == 1
    server.plan[PATH] = [body(OTHER)]
    other = pinned(TOY, sha256=hashlib.sha256(OTHER).hexdigest())
    assert_model(fetch_model(other), WEIGHTS[::-1])
    assert server.hits[PATH] == 2
    assert visible(cache) == {"toy", "digests.json"}


def test_of_a_published_digest_nothing_needs_recording(server: Server, cache: Path):
    assert_model(fetch_model(pinned(TOY, len(GOOD), hashlib.sha256(GOOD).hexdigest())))
    assert visible(cache) == {"toy"}


def test_more_than_the_published_size_is_not_even_received(server: Server, cache: Path):
    with pytest.raises(DownloadError, match=f"sends more than {len(GOOD) - 1:,} bytes"):
        fetch_model(pinned(TOY, size=len(GOOD) - 1))
    assert visible(cache) == set()


def test_the_bar_shows_on_a_terminal_and_can_be_switched_off(server: Server):
    for wanted in (True, False):
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = forks.start("-c", PTY_SCRIPT, int(wanted), stderr=theirs)
        status = process.wait(60)
        os.close(theirs)
        shown = b""
        # On Linux, a terminal whose other side is closed ends with an error.
        with contextlib.suppress(OSError):
            while chunk := os.read(ours, 4096):
                shown += chunk
        os.close(ours)
        assert status == 0, shown
        assert (b"toy" in shown and b"%" in shown) == wanted


PTY_SCRIPT = """
import sys
from roberta_hub.checkpoint.fetch import download
from roberta_hub.checkpoint.fetch.records import Record, archive
toy = Record(name="toy", origins=(archive("toy.tar.gz"),))
download.fetch_model(toy, force=True, progress=sys.argv[1] == "1")
"""


@pytest.mark.system
def test_the_module_imports_nothing_that_only_a_download_needs():
    out, _ = fresh_python("print(sorted({'requests', 'filelock', 'urllib3'} & set(sys.modules)))")
    assert out == "[]\n"


# ---- a bad network ----


@pytest.mark.parametrize("sent", [0, 1, len(GOOD) // 2, len(GOOD) - 1])
def test_a_broken_connection_is_tried_again(server: Server, cache: Path, sent: int):
    server.plan[PATH] = [cut(GOOD, sent), body(GOOD)]
    assert_model(fetch_model(TOY))
    assert server.hits[PATH] == 2
    assert visible(cache) == {"toy", "digests.json"}


def test_a_connection_that_always_breaks_is_an_error(server: Server, cache: Path):
    server.plan[PATH] = [cut(GOOD, 100)]
    with pytest.raises(DownloadError) as caught:
        fetch_model(TOY)
    for part in (server.url + PATH, f"failed {http.MAX_ATTEMPTS} times", f"{len(GOOD):,}", "path"):
        assert part in str(caught.value)
    assert server.hits[PATH] == http.MAX_ATTEMPTS
    assert visible(cache) == set()


def test_a_stalled_server_is_given_up(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http, "TIMEOUT_SECONDS", (1, 0.2))
    monkeypatch.setattr(http, "MAX_ATTEMPTS", 2)
    server.plan[PATH] = [stall(GOOD, 50), body(GOOD)]
    assert_model(fetch_model(TOY))
    server.plan[PATH] = [stall(GOOD, 50)]
    with pytest.raises(DownloadError, match="timed out"):
        fetch_model(TOY, force=True)
    assert_model(cache / "toy")
    assert visible(cache) == {"toy", "digests.json"}


@pytest.mark.parametrize("code", [401, 403, 404, 410])
def test_a_refusal_is_not_repeated(server: Server, cache: Path, code: int):
    server.plan[PATH] = [status(code), body(GOOD)]
    with pytest.raises(DownloadError, match=f"{PATH} answered {code} "):
        fetch_model(TOY)
    assert server.hits[PATH] == 1
    assert visible(cache) == set()


@pytest.mark.parametrize("code", [408, 429, 500, 503])
def test_a_passing_failure_is_repeated(server: Server, code: int):
    server.plan[PATH] = [status(code), body(GOOD)]
    assert_model(fetch_model(TOY))
    assert server.hits[PATH] == 2


@pytest.mark.system
def test_retry_after_is_honoured_up_to_a_limit(server: Server, monkeypatch: pytest.MonkeyPatch):
    server.plan[PATH] = [status(429, {"Retry-After": "1"}), body(GOOD)]
    start = time.monotonic()
    fetch_model(TOY)
    assert time.monotonic() - start >= 1
    date = email.utils.formatdate(time.time() + 2, usegmt=True)
    server.plan[PATH] = [status(429, {"Retry-After": date}), body(GOOD)]
    start = time.monotonic()
    fetch_model(TOY, force=True)
    assert time.monotonic() - start >= 0.9
    monkeypatch.setattr(http, "MAX_WAIT_SECONDS", 0.05)
    server.plan[PATH] = [status(503, {"Retry-After": "soon"}), body(GOOD)]
    fetch_model(TOY, force=True)
    server.plan[PATH] = [status(503, {"Retry-After": "9999"}), body(GOOD)]
    fetch_model(TOY, force=True)


def test_no_server_at_all(monkeypatch: pytest.MonkeyPatch):
    with Server() as gone:
        monkeypatch.setenv(http.MIRROR_ENV, gone.url)
    with pytest.raises(DownloadError, match="refused"):
        fetch_model(TOY)


def test_redirects_are_followed(server: Server):
    server.plan[PATH] = [redirect("/b.tar.gz", 301)]
    server.plan["/b.tar.gz"] = [redirect(server.url + "/c.tar.gz", 307)]
    server.plan["/c.tar.gz"] = [body(GOOD)]
    assert_model(fetch_model(TOY))


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
        fetch_model(TOY)
    assert server.hits[PATH] == 1


def test_a_redirect_to_nonsense(server: Server):
    server.plan[PATH] = [redirect("http://[/x")]
    with pytest.raises(DownloadError, match="Invalid IPv6 URL"):
        fetch_model(TOY)


def test_a_redirect_loop_ends(server: Server):
    server.plan[PATH] = [redirect(PATH)]
    with pytest.raises(DownloadError, match="10 redirects"):
        fetch_model(TOY)
    assert server.hits[PATH] == 11


def test_tls_is_verified_and_never_left(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext "
        "subjectAltName=IP:127.0.0.1"
    )
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
        monkeypatch.setenv(http.MIRROR_ENV, secure.url)
        with pytest.raises(DownloadError, match="certificate was not accepted"):
            fetch_model(TOY)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        assert_model(fetch_model(TOY))
        secure.plan[PATH] = [redirect(server.url + PATH)]
        for mirror in (secure.url, secure.url.replace("https", "HTTPS")):
            monkeypatch.setenv(http.MIRROR_ENV, mirror)
            with pytest.raises(DownloadError, match="only https is followed"):
                fetch_model(TOY, force=True)
    assert server.hits[PATH] == 0


@pytest.mark.parametrize(
    "mirror", ["http://example.invalid", "ftp://127.0.0.1", "/mnt/mirror", "http://["]
)
def test_an_unsafe_mirror_is_refused(monkeypatch: pytest.MonkeyPatch, mirror: str):
    monkeypatch.setenv(http.MIRROR_ENV, mirror)
    with pytest.raises(
        DownloadError, match=r"ROBERTA_HUB_MIRROR leads to .*(only https|not a URL)"
    ):
        fetch_model(TOY)


def test_a_proxy_is_honoured(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(http.MIRROR_ENV, "http://127.0.0.1:9")  # where nobody answers
    monkeypatch.setenv("HTTP_PROXY", server.url)
    for name in ("NO_PROXY", "no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    asked = f"http://127.0.0.1:9{PATH}"
    server.plan[asked] = [status(407), body(GOOD)]
    with pytest.raises(DownloadError, match="answered 407"):
        fetch_model(TOY)
    assert_model(fetch_model(TOY))
    assert server.hits[asked] == 2


# ---- a wrong body ----


def test_a_gzip_bomb(server: Server, cache: Path):
    server.plan[PATH] = [body(gzip.compress(tar(*model_files()) + bytes(64 << 20)))]
    with pytest.raises(CheckpointError, match="belong to no file"):
        fetch_model(TOY)
    assert visible(cache) == set()


def test_a_web_page_instead_of_an_archive(server: Server, cache: Path):
    server.plan[PATH] = [body(b"\n<!DOCTYPE html><title>Please log in</title>")]
    with pytest.raises(DownloadError, match="looks like a web page"):
        fetch_model(TOY)
    assert visible(cache) == set()


@pytest.mark.parametrize("content", [b"", b"\x00" * 1000, b"PK\x03\x04"])
def test_a_body_that_is_no_archive(server: Server, cache: Path, content: bytes):
    server.plan[PATH] = [body(content)]
    with pytest.raises(DownloadError, match="not a gzip archive"):
        fetch_model(TOY)
    assert visible(cache) == set()


def test_wrong_digest_with_the_right_size(server: Server, cache: Path):
    wrong = GOOD[:-1] + bytes([GOOD[-1] ^ 1])
    server.plan[PATH] = [body(wrong)]
    record = pinned(TOY, sha256=hashlib.sha256(GOOD).hexdigest())
    with pytest.raises(DownloadError) as caught:
        fetch_model(record)
    assert hashlib.sha256(wrong).hexdigest() in str(caught.value)
    assert hashlib.sha256(GOOD).hexdigest() in str(caught.value)
    assert visible(cache) == set()


def test_the_digest_of_first_use_is_enforced_later(server: Server, cache: Path):
    fetch_model(TOY)
    assert json.loads((cache / "digests.json").read_text()) == {
        TOY_FILE.url: {"size": len(GOOD), "sha256": hashlib.sha256(GOOD).hexdigest()}
    }
    server.plan[PATH] = [body(OTHER)]
    with pytest.raises(DownloadError, match=r"recorded in .*digests\.json"):
        fetch_model(TOY, force=True)
    assert_model(cache / "toy")
    shutil.rmtree(cache / "toy")
    with pytest.raises(DownloadError, match="remove that entry"):
        fetch_model(TOY)
    (cache / "digests.json").unlink()
    assert_model(fetch_model(TOY), WEIGHTS[::-1])


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"u": "0"}', '{"u": {"size": 1, "sha256": "0"}}']
)
def test_a_damaged_table_of_digests_is_not_ignored(server: Server, cache: Path, content: str):
    cache.mkdir(parents=True)
    (cache / "digests.json").write_text(content)
    with pytest.raises(DownloadError, match=r"digests\.json is damaged"):
        fetch_model(TOY)


def test_a_damaged_archive_is_neither_kept_nor_remembered(server: Server, cache: Path):
    server.plan[PATH] = [body(GOOD[:-8], length=False)]
    with pytest.raises(CheckpointError, match=f"{server.url}{PATH} is refused"):
        fetch_model(TOY)
    assert visible(cache) == set()
    server.plan[PATH] = [body(GOOD)]
    assert_model(fetch_model(TOY))


def test_an_endless_body_is_refused(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http, "MAX_ARCHIVE_BYTES", len(GOOD) - 1)
    server.plan[PATH] = [body(GOOD, length=False)]
    with pytest.raises(DownloadError, match="sends more than"):
        fetch_model(TOY)
    assert visible(cache) == set()
