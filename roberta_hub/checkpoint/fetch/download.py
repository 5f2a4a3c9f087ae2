"""A published model -> verified files in the cache, from wherever they can be had.

record ─► our cache? ─► fairseq's cache? ─► torch.hub's archive? ─► fairseq's server ─► Hugging Face
                                            digest ─► unpack ─► manifest ─► rename
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import torch.hub

from roberta_hub.checkpoint.fetch.archive import not_gzip, sha256_of, unpack
from roberta_hub.checkpoint.fetch.cache import (
    MODEL,
    FileTable,
    cache_root,
    fairseq_cache,
    is_model,
    publish,
    read_manifest,
    tidy,
    turn,
    workplace,
)
from roberta_hub.checkpoint.fetch.catalogue import BASE_URL, HUGGINGFACE, Record, Remote
from roberta_hub.checkpoint.fetch.transfer import (
    BY_HAND,
    MIRROR_ENV,
    Received,
    UnreachableError,
    receive,
    safe_url,
)
from roberta_hub.checkpoint.store import read_safetensors
from roberta_hub.errors import CheckpointError, DownloadError, RobertaHubError
from roberta_hub.files import read_json, write_json

OFFLINE_ENV = "ROBERTA_HUB_OFFLINE"
"""Set to 1: no socket is opened, what is not in a cache is an error."""
ENDPOINT_ENV = "HF_ENDPOINT"
"""A base URL that replaces https://huggingface.co, as everywhere in Hugging Face's world."""
DIGESTS = "digests.json"
"""In the cache: URL -> size and sha256 as first seen, for files whose publisher gives no digest."""


@dataclass(frozen=True)
class _Delivery:
    """A model's files in a folder of the stage, and where they come from."""

    folder: Path
    source: str
    files: FileTable
    archive: Received | None = None
    first_seen: tuple[tuple[Remote, Received], ...] = ()
    """What is to be recorded once all is in order."""


def fetch_model(record: Record, *, force: bool = False, progress: bool = True) -> Path:
    """Return the folder that holds a published model; download it if need be.

    The cache is `torch.hub.get_dir()/checkpoints/roberta_hub`, so TORCH_HOME and
    `torch.hub.set_dir` move it. A complete copy is returned without network, lock or write. Several
    processes may ask at once: one downloads, the others wait.

    Args:
        record: A row of the catalogue.
        force: Download even if there is a copy, which stays in place until the new one is verified.
        progress: Show a progress bar when stderr is a terminal.

    Returns:
        A folder with `model.pt` and `dict.txt`, or, from the second source, `config.json` and
        `model.safetensors`.

    Raises:
        DownloadError: No network, a refused redirect, a wrong digest, no room, offline, a cache
            that cannot be written.
        CheckpointError: The archive is damaged or unsafe.
    """
    target = cache_root() / record.name
    tidy(target)
    if not force and (found := find_cached(record) or find_in_fairseq_cache(record)) is not None:
        return found
    at_hand = None if force else find_in_torch_hub(record)
    if at_hand is None:
        _require_online(record, target)
    with workplace(target, DownloadError) as stage:
        # Another process may have finished it while this one waited for the lock.
        if not force and find_cached(record) is not None:
            return target
        delivery = _adopt(record, at_hand, stage) if at_hand is not None else None
        if delivery is None:
            _require_online(record, target)
            delivery = _download(record, stage, record.name if progress else None)
        _remember(delivery.first_seen, stage)
        publish(
            delivery.folder,
            target,
            source=delivery.source,
            archive_sha256=delivery.archive.sha256 if delivery.archive else None,
            archive_size=delivery.archive.size if delivery.archive else None,
            files=delivery.files,
            replace=force,
        )
    return target


def _require_online(record: Record, target: Path) -> None:
    if os.environ.get(OFFLINE_ENV, "0") not in ("", "0"):
        raise DownloadError(
            f"{record.name} has to be downloaded, and {OFFLINE_ENV} forbids it. Searched: "
            f"{target}, {fairseq_cache()}, {_torch_hub_path(record)}. Unset {OFFLINE_ENV}, point "
            f"TORCH_HOME at a cache that has it, {BY_HAND}"
        )


# ---- what is on this machine already ----


def find_cached(record: Record) -> Path | None:
    """Return our own folder of this model if it is complete and has the record's digests."""
    folder = cache_root() / record.name
    manifest = read_manifest(folder)
    if manifest is None or not is_model(files := manifest["files"]):
        return None
    if MODEL in files:
        pins = [(record.sha256, manifest.get("archive_sha256"))]
    else:
        pins = [(file.sha256, files[file.name].get("sha256")) for file in record.second or ()]
    return folder if all(wanted in (None, found) for wanted, found in pins) else None


def find_in_fairseq_cache(record: Record) -> Path | None:
    """Return the folder where fairseq itself unpacked this model earlier, None if there is none.

    It is only read.

    fairseq names it `sha256(url).sha256(etag)`, and asks over http (`fairseq/file_utils.py`,
    `url_to_filename`). The name therefore proves the URL, but nothing proves the bytes: a record
    with a published digest is not looked up there.
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


def find_in_torch_hub(record: Record) -> Path | None:
    """Return the archive that `torch.hub` kept of this model, None if there is none.

    `download_url_to_file` and `load_state_dict_from_url` keep one. They name it after the end of
    the URL. It is only read: unpacked into our cache, after its digest was compared.
    """
    path = _torch_hub_path(record)
    return path if path.is_file() and record.size in (None, path.stat().st_size) else None


def _torch_hub_path(record: Record) -> Path:
    return Path(torch.hub.get_dir()) / "checkpoints" / Path(urlsplit(record.url).path).name


def _adopt(record: Record, archive: Path, stage: Path) -> _Delivery | None:
    """Unpack torch.hub's archive; None, with a warning, if it cannot be used.

    Its digest is not recorded as that of first use: the file's name does not prove which URL it
    came from.
    """
    folder = stage / "torch.hub"
    folder.mkdir()
    try:
        found = Received(archive.stat().st_size, sha256_of(archive))
        _check(record.archive, str(archive), found)
        files = unpack(archive, folder, str(archive))
    except (RobertaHubError, PermissionError) as error:
        warnings.warn(f"torch.hub's copy is passed over. {error}", stacklevel=4)
        return None
    return _Delivery(folder, str(archive), files, found)


# ---- the two sources ----


def _download(record: Record, stage: Path, label: str | None) -> _Delivery:
    """From fairseq's server; if that fails for good, from Hugging Face.

    A wrong digest is no failure but an alarm.
    """
    url, archive = _mirrored(record.archive, BASE_URL, MIRROR_ENV), stage / "archive.tar.gz"
    try:
        got = receive(url, archive, label=label, limit=record.size, copies=2)
        if (problem := not_gzip(archive)) is not None:
            raise DownloadError(
                f"{url}: {problem}. Log in to the network, check {MIRROR_ENV}, {BY_HAND}"
            )
    except DownloadError as error:
        unreachable = isinstance(error, UnreachableError)
        if record.second is None and not unreachable:
            raise
        if record.second is None:
            raise _no_network(record, error) from None
        instead = f"Hugging Face's copy of {record.name} is fetched instead"
        if not unreachable:
            warnings.warn(f"{error}. {instead}", stacklevel=4)
        archive.unlink(missing_ok=True)
        try:
            delivery = _from_huggingface(record.second, stage, label)
        except UnreachableError as second:
            if unreachable:
                raise _no_network(record, error, second) from None
            raise DownloadError(f"{second}. Before that: {error}") from None
        except DownloadError as second:
            raise DownloadError(f"{second}. Before that: {error}") from second
        if unreachable:  # only now, as without any network one message is enough
            warnings.warn(f"{error}. {instead}", stacklevel=4)
        return delivery
    _check(record.archive, url, got)
    folder = stage / "fairseq"
    folder.mkdir()
    files = unpack(archive, folder, url)
    return _Delivery(folder, url, files, got, ((record.archive, got),))


def _no_network(record: Record, *failures: DownloadError) -> DownloadError:
    """One short message where nobody could be asked; the last line is what works all the same."""
    hosts = {
        failure.host: failure.reason
        for failure in failures
        if isinstance(failure, UnreachableError)
    }
    asked = "; ".join(f"{host} cannot be reached: {reason}" for host, reason in hosts.items())
    return DownloadError(
        f"{record.name} cannot be downloaded: {asked}.\n"
        f"Check the network; HTTPS_PROXY, {MIRROR_ENV} and {ENDPOINT_ENV} lead elsewhere.\n"
        "Offline work: load_model('roberta.tiny'), which is in the package; a folder or file by "
        f"its path; what the cache holds ({OFFLINE_ENV}=1 asks nobody)."
    )


def _from_huggingface(second: tuple[Remote, ...], stage: Path, label: str | None) -> _Delivery:
    folder = stage / "huggingface"
    folder.mkdir()
    files: FileTable = {}
    seen: list[tuple[Remote, Received]] = []
    for remote in second:
        url, path = _mirrored(remote, HUGGINGFACE, ENDPOINT_ENV), folder / remote.name
        got = receive(url, path, label=label, limit=remote.size)
        _check(remote, url, got)
        try:
            read_json(path) if path.suffix == ".json" else read_safetensors(path)
        except CheckpointError as error:
            raise DownloadError(f"{url} is not what it should be: {error}") from error
        files[remote.name] = {"size": got.size, "sha256": got.sha256}
        seen.append((remote, got))
    return _Delivery(folder, url.rpartition("/")[0], files, first_seen=tuple(seen))


def _mirrored(remote: Remote, base: str, variable: str) -> str:
    mirror = os.environ.get(variable)
    if not mirror or not remote.url.startswith(base):
        return remote.url
    return safe_url(mirror.rstrip("/") + remote.url[len(base) :], variable)


# ---- digests ----


def known_digests() -> dict[str, Received]:
    """URL -> what it was at first use, as recorded in this cache.

    Raises:
        DownloadError: the table is damaged; to pass over it would be to accept anything.
    """
    path = cache_root() / DIGESTS
    try:
        table = {
            url: Received(**about) for url, about in json.loads(path.read_text("utf-8")).items()
        }
        if not all(re.fullmatch("[0-9a-f]{64}", about.sha256) for about in table.values()):
            raise ValueError("not a sha256")
        return table
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        raise DownloadError(f"{path} is damaged ({error}); restore it or delete it") from error


def _check(remote: Remote, url: str, got: Received) -> None:
    """Compare with the published digest, or else with the one recorded on first use."""
    expected, origin, remedy = remote.sha256, "the catalogue says", "Try again"
    if expected is None and (first := known_digests().get(remote.url)) is not None:
        expected = first.sha256
        origin = f"the first download, recorded in {cache_root() / DIGESTS}, had"
        remedy = "If the publisher did replace the file, remove that entry; if not, do not use it"
    if expected is not None and got.sha256 != expected:
        raise DownloadError(
            f"{url}: it has sha256 {got.sha256}, {origin} {expected}. Nothing of it was kept. "
            f"{remedy}"
        )


def _remember(seen: tuple[tuple[Remote, Received], ...], stage: Path) -> None:
    new = {remote.url: vars(got) for remote, got in seen if remote.sha256 is None}
    path = cache_root() / DIGESTS
    # One table for all models, each of which has its own lock.
    with turn(path.with_name(f".{DIGESTS}.lock")):
        for remote, got in seen:  # again: it may have been recorded since
            _check(remote, remote.url, got)
        known = {url: vars(got) for url, got in known_digests().items()}
        if new.keys() - known.keys():
            write_json(stage / DIGESTS, {**new, **known})
            os.replace(stage / DIGESTS, path)
