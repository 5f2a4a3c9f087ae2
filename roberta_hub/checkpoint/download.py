"""URL -> verified files in the cache.

    record ─► our cache? ─► fairseq's cache? ─► download ─► digest ─► unpack ─► manifest ─► rename
    archive on disk ─► our cache? ───────────────────────────────────► unpack ─► manifest ─► rename

All work happens in a private `.incomplete-*` folder inside the cache; one rename publishes it. A folder without a fitting
manifest does not count, so a crash at any moment leaves nothing that could be mistaken for a model.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import json
import os
import shutil
import tarfile
import time
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import torch.hub

from roberta_hub.checkpoint.catalogue import BASE_URL, Record
from roberta_hub.errors import CheckpointError, DownloadError, RobertaHubError

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
CHUNK = 1 << 16
"""Bytes moved at a time."""
WANTED = ("model.pt", "dict.txt")
"""The files of a model; whatever else lies in an archive stays there."""
MAX_MEMBERS = 1000
"""Files and folders in an archive; fairseq's have four."""
MAX_BYTES = 16 << 30
"""Bytes of an archive, packed or unpacked; roberta.large unpacks to 1.4 GB."""
HEADER_ROOM = 1 << 20
"""Bytes an archive may spend between two files and after the last: headers, padding."""
MANIFEST = "manifest.json"
"""Written last into a model's folder: sizes and digests of its files."""
DIGESTS = "digests.json"
"""In the cache: URL -> sha256 of the archive as first seen, for records that publish no digest."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""The hosts that plain http may talk to."""
UNREADABLE = (
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    ValueError,  # tarfile, for some nonsense in headers
    RecursionError,  # tarfile, which recurses once per chained header
)
"""What reading a hostile or damaged archive raises; `OSError` at large is the disk's, not the archive's."""
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
    target = _cache_root() / key
    if not force:
        found = target if _is_complete(target) else find_in_fairseq_cache(record)
        if found is not None:
            return found
    if os.environ.get(OFFLINE_ENV, "0") not in ("", "0"):
        raise DownloadError(
            f"{record.name} has to be downloaded, and {OFFLINE_ENV} forbids it. Searched: {target}, "
            f"{_fairseq_cache()}. Unset {OFFLINE_ENV}, point TORCH_HOME at a cache that has it, {BY_HAND}"
        )
    url = _source_url(record)
    with _workplace(target, DownloadError) as work:
        # Another process may have finished it while this one waited for the lock.
        if not force and _is_complete(target):
            return target
        archive = work / "archive.tar.gz"
        digest = _download(url, archive, record.name if progress else None)
        if (problem := _not_gzip(archive)) is not None:
            raise DownloadError(
                f"{url}: {problem}. Log in to the network, check {MIRROR_ENV}, {BY_HAND}"
            )
        _check_digest(record, url, digest)
        files = _unpack(archive, work, url)
        archive.unlink()
        if record.sha256 is None:
            _remember_digest(record, digest, work)
        _publish(work, target, source=url, archive_sha256=digest, files=files)
    return target


def extract_archive(path: str | os.PathLike[str]) -> Path:
    """Return the folder that holds `model.pt` and `dict.txt` of a `.tar.gz` on this machine, unpacked in our cache.

    The folder is named after the archive's sha256, so an edited archive is unpacked anew. The archive is only read.

    Raises:
        CheckpointError: The archive is missing, damaged or unsafe, or the cache cannot be written.
    """
    archive = Path(path)
    try:
        digest = _sha256(archive)
    except OSError as error:
        raise CheckpointError(f"cannot read the archive {archive}: {error.strerror}") from error
    target = _cache_root() / f"local-{digest[:16]}"
    if _is_complete(target):
        return target
    if (problem := _not_gzip(archive)) is not None:
        raise CheckpointError(
            f"{archive}: {problem}. A .tar.gz with model.pt and dict.txt is expected"
        )
    with _workplace(target, CheckpointError) as work:
        if not _is_complete(target):
            files = _unpack(archive, work, str(archive))
            _publish(work, target, source=str(archive), archive_sha256=digest, files=files)
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
        versions = sorted(_fairseq_cache().glob(f"{name}*"), key=lambda path: path.lstat().st_mtime)
        for folder in reversed(versions):
            if all(os.path.isfile(folder / wanted) for wanted in WANTED):
                return folder
    return None


# ---- the cache ----


def _cache_root() -> Path:
    return Path(torch.hub.get_dir()) / "checkpoints" / "roberta_hub"


def _fairseq_cache() -> Path:
    torch_home = os.environ.get("TORCH_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or "~/.cache", "torch"
    )
    folder = os.environ.get("PYTORCH_FAIRSEQ_CACHE") or os.path.join(torch_home, "pytorch_fairseq")
    return Path(folder).expanduser()


def _is_complete(folder: Path) -> bool:
    """Tell whether the folder has a manifest and every file has the size written there."""
    try:
        files = json.loads((folder / MANIFEST).read_text("utf-8"))["files"]
        return all((folder / name).stat().st_size == files[name]["size"] for name in WANTED)
    except (OSError, ValueError, LookupError, TypeError):
        return False


@contextlib.contextmanager
def _workplace(target: Path, error_class: type[RobertaHubError]) -> Iterator[Path]:
    """Hold the lock of `target`, lend a private folder beside it, and leave no trace of that folder."""
    from filelock import FileLock

    root = target.parent
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{target.name}.lock"):
            _sweep(target)
            # Not tempfile.mkdtemp: its mode 0700 would survive the rename and lock other users out.
            work = root / f".incomplete-{target.name}~{uuid.uuid4().hex}"
            work.mkdir()
            try:
                yield work
            finally:
                shutil.rmtree(work, ignore_errors=True)
    except RobertaHubError:
        raise
    except OSError as error:
        raise error_class(
            f"cannot write {target} ({error.strerror or error}). It is not complete in the cache; "
            "set TORCH_HOME to a folder that can be written and has room"
        ) from error


def _sweep(target: Path) -> None:
    """Remove what a killed process left behind. Under the lock, so nobody works there now."""
    for leftover in target.parent.glob(f".incomplete-{target.name}~*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for leftover in target.parent.glob(f".old-{target.name}~*"):
        if target.exists():
            shutil.rmtree(leftover, ignore_errors=True)
        else:  # killed between the two renames of _publish
            os.replace(leftover, target)


def _publish(
    work: Path,
    target: Path,
    *,
    source: str,
    archive_sha256: str,
    files: dict[str, dict[str, int | str]],
) -> None:
    """Write the manifest, then put `work` in the place of `target`."""
    manifest = {"source": source, "archive_sha256": archive_sha256, "files": files}
    _write_json(work / MANIFEST, manifest)
    old = target.with_name(f".old-{target.name}~{uuid.uuid4().hex}")
    # A folder with files in it cannot be replaced in one step.
    with contextlib.suppress(FileNotFoundError):
        os.replace(target, old)
    os.replace(work, target)
    shutil.rmtree(old, ignore_errors=True)


def _write_json(path: Path, value: object) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.flush()
        os.fsync(file.fileno())


def _require_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"{needed:,} bytes needed, {free:,} bytes free")


# ---- digests ----


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _known_digests() -> dict[str, str]:
    path = _cache_root() / DIGESTS
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
        origin = f"the first download, recorded in {_cache_root() / DIGESTS}, had"
        remedy = "If the publisher did replace the file, remove that entry; if not, do not use it"
    if expected is not None and digest != expected:
        raise DownloadError(
            f"{url}: the archive has sha256 {digest}, {origin} {expected}. It was deleted. {remedy}"
        )


def _remember_digest(record: Record, digest: str, work: Path) -> None:
    from filelock import FileLock

    path = _cache_root() / DIGESTS
    # One table for all models, each of which has its own lock.
    with FileLock(path.with_name(f".{DIGESTS}.lock")):
        known = _known_digests()
        if record.url not in known:
            _write_json(work / DIGESTS, {**known, record.url: digest})
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
        _require_room(path.parent, 2 * (size or 0))
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


# ---- the archive ----


def _not_gzip(path: Path) -> str | None:
    """Return what a file seems to be when it does not start like gzip, None when it does."""
    with open(path, "rb") as file:
        head = file.read(256)
    if head.startswith(b"\x1f\x8b"):
        return None
    if head.lstrip().startswith(b"<"):
        return "this is not an archive, it looks like a web page (a login page or a proxy's error?)"
    return f"this is not a gzip archive, it starts with {head[:16]!r}"


class _BoundedGzip(gzip.GzipFile):
    """Decompresses no further than `limit`, which moves on with each accepted member.

    tarfile reads a whole extended header into memory, and skips padding without end: both would be room for a bomb.
    """

    limit = HEADER_ROOM

    def read(self, size: int | None = -1) -> bytes:
        chunk = super().read(size)
        if self.tell() > self.limit:
            raise tarfile.TarError(f"more than {HEADER_ROOM:,} bytes that belong to no file")
        return chunk


def _unpack(archive: Path, folder: Path, source: str) -> dict[str, dict[str, int | str]]:
    """Stream the wanted files into `folder` and return their sizes and digests.

    Never `extractall`: its filters have been bypassed (CVE-2025-4517). No path is built from a name in the archive; one
    member that is unsafe or only odd refuses the whole, since no model is packed that way.
    """
    files: dict[str, dict[str, int | str]] = {}
    try:
        with _BoundedGzip(archive) as plain:
            with tarfile.open(fileobj=plain, mode="r|") as tar:
                for count, member in enumerate(tar, start=1):
                    name = _accept(member, count)
                    plain.limit = member.offset_data + member.size + HEADER_ROOM
                    content = tar.extractfile(member) if name else None
                    if name and content:
                        if name in files:
                            raise tarfile.TarError(f"there is a second {name}, {member.name!r}")
                        _require_room(folder, member.size)
                        files[name] = _copy(content, folder / name)
            # Only the end of a gzip file tells whether the rest was right.
            plain.limit = plain.tell() + HEADER_ROOM
            while plain.read(CHUNK):
                pass
        for name in WANTED:
            if name not in files:
                raise tarfile.TarError(f"it has no {name} at its top or in its top folder")
    except UNREADABLE as error:
        raise CheckpointError(
            f"{source} is refused, nothing of it was kept: {error}. Get the archive again from a "
            "source you trust; if it is meant to be like this, unpack it yourself and load the folder"
        ) from error
    return files


def _accept(member: tarfile.TarInfo, count: int) -> str | None:
    """Refuse an unsafe member; return which wanted file it is, None for any other file or folder."""
    path = PurePosixPath(member.name)
    if count > MAX_MEMBERS:
        raise tarfile.TarError(f"more than {MAX_MEMBERS:,} members")
    if path.is_absolute() or ".." in path.parts:
        raise tarfile.TarError(f"member {member.name!r} points outside the archive")
    if member.isdir():
        return None
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
        raise tarfile.TarError(
            f"member {member.name!r} is a link, a device or another special file"
        )
    if member.size < 0 or member.offset_data + member.size > MAX_BYTES:
        raise tarfile.TarError(f"it unpacks to more than {MAX_BYTES:,} bytes at {member.name!r}")
    return path.name if path.name in WANTED and len(path.parts) <= 2 else None


def _copy(content: IO[bytes], path: Path) -> dict[str, int | str]:
    digest = hashlib.sha256()
    with open(path, "xb") as file:
        while chunk := content.read(CHUNK):
            file.write(chunk)
            digest.update(chunk)
        file.flush()
        os.fsync(file.fileno())
        return {"size": file.tell(), "sha256": digest.hexdigest()}
