"""URL -> verified files in the cache.

record ─► our cache? ─► fairseq's cache? ─► download ─► digest ─► unpack ─► manifest ─► rename
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from roberta_hub.checkpoint.archive import CHUNK, MAX_BYTES, not_gzip, unpack
from roberta_hub.checkpoint.cache import (
    MODEL,
    cache_root,
    fairseq_cache,
    is_complete,
    publish,
    require_room,
    workplace,
    write_synced_json,
)
from roberta_hub.checkpoint.catalogue import BASE_URL, Record
from roberta_hub.errors import DownloadError

if TYPE_CHECKING:
    import requests

OFFLINE_ENV = "ROBERTA_HUB_OFFLINE"
"""Set to 1: no socket is opened, what is not in a cache is an error."""
MIRROR_ENV = "ROBERTA_HUB_MIRROR"
"""A base URL that replaces the catalogue's; plain http only for this machine."""
TIMEOUT = (10, 60)
"""Seconds to connect, and seconds without a byte, before an attempt is given up."""
ATTEMPTS = 5
"""How often a download is tried before its last failure becomes an error."""
BACKOFF = 1.0
"""Seconds before the second attempt; doubled for each further one."""
MAX_WAIT = 60.0
"""Most seconds that a server's Retry-After may make us wait."""
MAX_REDIRECTS = 10
"""As browsers do, more or less; fairseq's server needs none."""
DIGESTS = "digests.json"
"""In the cache: URL -> sha256 of the archive as first seen, for records that publish no digest."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""The hosts that plain http may talk to."""
BY_HAND = "or fetch the archive another way and load it by its path"
"""The remedy that always works."""


def fetch_archive(record: Record, *, force: bool = False, progress: bool = True) -> Path:
    """Return the folder that holds a published model's `model.pt` and `dict.txt`; download it if need be.

    The cache is `torch.hub.get_dir()/checkpoints/roberta_hub`, so TORCH_HOME and `torch.hub.set_dir` move it. A complete
    copy is returned without network, lock or write. Several processes may ask at once: one downloads, the others wait.

    Args:
        record: A row of the catalogue.
        force: Download even if there is a copy, which stays in place until the new one is verified.
        progress: Show a progress bar when stderr is a terminal.

    Raises:
        DownloadError: No network, a refused redirect, a wrong digest, no room, offline, a cache that cannot be written.
        CheckpointError: The archive is damaged or unsafe.
    """
    key = record.name if record.sha256 is None else f"{record.name}-{record.sha256[:8]}"
    target = cache_root() / key
    if not force:
        found = target if is_complete(target) else find_in_fairseq_cache(record)
        if found is not None:
            return found
    if os.environ.get(OFFLINE_ENV, "0") not in ("", "0"):
        raise DownloadError(
            f"{record.name} has to be downloaded, and {OFFLINE_ENV} forbids it. Searched: {target}, "
            f"{fairseq_cache()}. Unset {OFFLINE_ENV}, point TORCH_HOME at a cache that has it, {BY_HAND}"
        )
    url = _source_url(record)
    with workplace(target, DownloadError) as work:
        # Another process may have finished it while this one waited for the lock.
        if not force and is_complete(target):
            return target
        archive = work / "archive.tar.gz"
        digest = _download(url, archive, record.name if progress else None)
        if (problem := not_gzip(archive)) is not None:
            raise DownloadError(
                f"{url}: {problem}. Log in to the network, check {MIRROR_ENV}, {BY_HAND}"
            )
        _check_digest(record, url, digest)
        files = unpack(archive, work, url)
        archive.unlink()
        if record.sha256 is None:
            _remember_digest(record, digest, work)
        publish(work, target, source=url, archive_sha256=digest, files=files)
    return target


def find_in_fairseq_cache(record: Record) -> Path | None:
    """Return the folder where fairseq itself unpacked this model earlier, None if there is none. It is only read.

    fairseq names it `sha256(url).sha256(etag)`, and asks over http (`fairseq/file_utils.py`, `url_to_filename`). The name
    therefore proves the URL, but nothing proves the bytes: a record with a published digest is not looked up there.
    """
    if record.sha256 is not None:
        return None
    for url in (record.url, record.url.replace("https://", "http://", 1)):
        name = hashlib.sha256(url.encode()).hexdigest()
        versions = sorted(fairseq_cache().glob(f"{name}*"), key=lambda path: path.lstat().st_mtime)
        for folder in reversed(versions):
            if all((folder / wanted).is_file() for wanted in (MODEL, "dict.txt")):
                return folder
    return None


# ---- digests ----


def _known_digests() -> dict[str, str]:
    path = cache_root() / DIGESTS
    try:
        known = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise DownloadError(f"{path} is damaged ({error}); restore it or delete it") from error
    if not isinstance(known, dict):
        raise DownloadError(f"{path} is damaged (not a table of URLs); restore it or delete it")
    return known


def _check_digest(record: Record, url: str, digest: str) -> None:
    """Compare with the published digest, or else with the one recorded on first use."""
    expected, origin, remedy = record.sha256, "the catalogue says", "Try again"
    if expected is None:
        expected = _known_digests().get(record.url)
        origin = f"the first download, recorded in {cache_root() / DIGESTS}, had"
        remedy = "If the publisher did replace the file, remove that entry; if not, do not use it"
    if expected is not None and digest != expected:
        raise DownloadError(
            f"{url}: the archive has sha256 {digest}, {origin} {expected}. It was deleted. {remedy}"
        )


def _remember_digest(record: Record, digest: str, work: Path) -> None:
    from filelock import FileLock

    path = cache_root() / DIGESTS
    # One table for all models, each of which has its own lock.
    with FileLock(path.with_name(f".{DIGESTS}.lock")):
        known = _known_digests()
        if record.url not in known:
            write_synced_json(work / DIGESTS, {**known, record.url: digest})
            os.replace(work / DIGESTS, path)


# ---- the network ----


class _TransientError(Exception):
    """A failure that may pass; `wait` is how many seconds the server asked for."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


def _source_url(record: Record) -> str:
    mirror = os.environ.get(MIRROR_ENV)
    if not mirror or not record.url.startswith(BASE_URL):
        return record.url
    return _safe_url(mirror.rstrip("/") + record.url[len(BASE_URL) :], MIRROR_ENV)


def _safe_url(location: str, origin: str) -> str:
    """Return where `origin`, a URL or a variable's name, leads; refuse all but https.

    Plain http is for this machine only, and not for an origin that was https.
    """
    try:
        url = urljoin(origin, location)
        parts, downgrade = urlsplit(url), urlsplit(origin).scheme == "https"
        local = parts.scheme == "http" and parts.hostname in LOOPBACK and not downgrade
    except ValueError as error:
        raise DownloadError(f"{origin} leads to {location!r}, not a URL ({error})") from error
    if parts.scheme != "https" and not local:
        raise DownloadError(
            f"{origin} leads to {url!r}, refused: only https is followed (http on this machine). "
            f"Check the network and {MIRROR_ENV}, {BY_HAND}"
        )
    return url


def _download(url: str, path: Path, label: str | None) -> str:
    """Write the body of `url` to `path` and return its sha256; `label` names the progress bar, None hides it."""
    import requests

    with requests.Session() as session:
        for attempt in range(ATTEMPTS):
            try:
                return _attempt(session, url, path, label)
            except _TransientError as error:
                failure = error
            if attempt + 1 < ATTEMPTS:
                time.sleep(max(BACKOFF * 2**attempt, failure.wait))
    raise DownloadError(
        f"{url} failed {ATTEMPTS} times, the last time: {failure}. Try again later, check the "
        f"connection (HTTPS_PROXY is honoured) or set {MIRROR_ENV}, {BY_HAND}"
    ) from failure


def _attempt(session: requests.Session, url: str, path: Path, label: str | None) -> str:
    from tqdm import tqdm
    from urllib3.exceptions import HTTPError

    digest, received = hashlib.sha256(), 0
    hidden = True if label is None else None  # None: hidden unless stderr is a terminal
    with _open(session, url) as response, open(path, "wb") as file:
        size: int | None = response.raw.length_remaining
        # The archive and what comes out of it lie side by side for a while; weights hardly compress.
        require_room(path.parent, 2 * (size or 0))
        with tqdm(total=size, desc=label, unit="B", unit_scale=True, disable=hidden) as bar:
            try:
                # Undecoded: some servers call a .tar.gz "Content-Encoding: gzip", and would have it unpacked here.
                for chunk in response.raw.stream(CHUNK, decode_content=False):
                    received += file.write(chunk)
                    if received > MAX_BYTES:
                        raise DownloadError(f"{url} sends more than {MAX_BYTES:,} bytes, refused")
                    digest.update(chunk)
                    bar.update(len(chunk))
            except HTTPError as error:
                got = f"{received:,} of {'unknown' if size is None else format(size, ',')} bytes"
                raise _TransientError(f"the connection broke after {got} ({error})") from error
    if size is not None and received != size:
        raise _TransientError(f"{received:,} of {size:,} bytes arrived")
    return digest.hexdigest()


def _open(session: requests.Session, url: str) -> requests.Response:
    """Send the request, follow redirects that `_safe_url` allows, and return an answer of status 200."""
    import requests

    origin = url
    for _ in range(MAX_REDIRECTS + 1):
        try:
            response = session.get(
                url,
                stream=True,
                timeout=TIMEOUT,
                allow_redirects=False,
                headers={"Accept-Encoding": "identity"},
            )
        except requests.exceptions.SSLError as error:
            raise DownloadError(
                f"{url}: the server's certificate was not accepted ({error}). Behind a company proxy, "
                f"set REQUESTS_CA_BUNDLE to its certificate, {BY_HAND}"
            ) from error
        except (requests.ConnectionError, requests.Timeout) as error:
            raise _TransientError(str(error)) from error
        # ValueError: requests looks at a redirect's address even if it is not to follow it.
        except (requests.RequestException, ValueError) as error:
            raise DownloadError(f"{url}: {error}. Check {MIRROR_ENV}, {BY_HAND}") from error
        if not response.is_redirect:
            _require_ok(response, url)
            return response
        response.close()
        url = _safe_url(response.headers["location"], url)
    raise DownloadError(f"{origin}: gave up after {MAX_REDIRECTS} redirects, the last to {url}")


def _require_ok(response: requests.Response, url: str) -> None:
    status = response.status_code
    if status == 200:
        return
    response.close()
    answer = f"{url} answered {status} {response.reason or ''}".rstrip()
    if status in (408, 429) or status >= 500:
        asked = response.headers.get("Retry-After", "")
        raise _TransientError(answer, min(float(asked), MAX_WAIT) if asked.isdecimal() else 0.0)
    raise DownloadError(f"{answer}, no archive there or no access. Check {MIRROR_ENV}, {BY_HAND}")
