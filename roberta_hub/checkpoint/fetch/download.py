"""Gets the files of a published model into the cache, verified, from the first place that has them.

record ─► our cache? ─► fairseq's cache? ─► torch.hub's archive? ─► the record's origins, in order
                                            digest ─► unpack ─► manifest ─► rename
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import torch.hub

from roberta_hub.checkpoint.fetch.archive import (
    MAX_ARCHIVE_BYTES,
    is_web_page,
    not_gzip,
    sha256_of,
    unpack,
)
from roberta_hub.checkpoint.fetch.cache import (
    CHECKPOINT_FILE,
    WEIGHT_FILES,
    FileTable,
    cache_root,
    fairseq_cache,
    is_model,
    publish,
    read_manifest,
    remove_stale,
    staging_folder,
)
from roberta_hub.checkpoint.fetch.catalogue import files_of
from roberta_hub.checkpoint.fetch.digests import check_digest, remember
from roberta_hub.checkpoint.fetch.http import (
    MANUAL_REMEDY,
    MIRROR_ENV,
    AbsentFileError,
    Received,
    UnreachableError,
    receive,
    safe_url,
)
from roberta_hub.checkpoint.fetch.records import (
    ARCHIVES,
    HUGGINGFACE,
    Origin,
    Record,
    Remote,
)
from roberta_hub.checkpoint.safetensors import read_safetensors
from roberta_hub.errors import CheckpointError, DownloadError, Remedy, RobertaHubError
from roberta_hub.folder import Folder
from roberta_hub.terminal import without_secrets

OFFLINE_ENV = "ROBERTA_HUB_OFFLINE"
"""Set to 1: no socket is opened, what is not in a cache is an error."""
ENDPOINT_ENV = "HF_ENDPOINT"
"""A base URL that replaces https://huggingface.co, as everywhere in Hugging Face's world."""
SMALL_BYTES = 64 << 20
"""Most bytes of a configuration or vocabulary; XLM-R's tokenizer.json has 17 MB."""


@dataclass(frozen=True)
class _Delivery:
    """The files of a model in a folder of the stage, and where they come from."""

    folder: Path
    source: str
    files: FileTable
    archive: Received | None = None
    first_seen: tuple[tuple[Remote, Received], ...] = ()
    """What is recorded as the first download once all is in order."""


def fetch_model(record: Record, *, force: bool = False, progress: bool = True) -> Path:
    """Return the folder that holds a published model; download it if need be.

    The cache is `torch.hub.get_dir()/checkpoints/roberta_hub`, so TORCH_HOME and
    `torch.hub.set_dir` move it. A complete copy is returned without network, lock or write. Several
    processes may ask at once: one downloads, the others wait.
    """
    target = cache_root() / record.name
    remove_stale(target)
    if not force and (found := find_cached(record) or find_in_fairseq_cache(record)) is not None:
        return found
    at_hand = None if force else find_in_torch_hub(record)
    if at_hand is None:
        _require_online(record, target)
    with staging_folder(target, DownloadError) as stage:
        # Another process may have finished it while this one waited for the lock.
        if not force and find_cached(record) is not None:
            return target
        delivery = _adopt(record, at_hand, stage) if at_hand is not None else None
        if delivery is None:
            _require_online(record, target)
            delivery = _download(record, stage, record.name if progress else None)
        remember(delivery.first_seen, stage)
        publish(
            delivery.folder,
            target,
            source=without_secrets(delivery.source),
            archive_sha256=delivery.archive.sha256 if delivery.archive else None,
            archive_size=delivery.archive.size if delivery.archive else None,
            files=delivery.files,
            replace=force,
        )
    return target


def _require_online(record: Record, target: Path) -> None:
    if os.environ.get(OFFLINE_ENV, "0") not in ("", "0"):
        kept = [_torch_hub_path(archive) for archive in files_of(record, "fairseq")]
        searched = [target, fairseq_cache(), *kept]
        raise DownloadError(
            f"{record.name} has to be downloaded, and {OFFLINE_ENV} forbids it. Searched: "
            f"{', '.join(map(str, searched))}. Unset {OFFLINE_ENV}, point "
            f"TORCH_HOME at a cache that has it, {MANUAL_REMEDY}"
        )


# ---- what is on this machine already ----


def find_cached(record: Record) -> Path | None:
    """Return our own folder of this model if it is complete and has the record's digests."""
    folder = cache_root() / record.name
    manifest = read_manifest(folder)
    if manifest is None or not is_model(files := manifest["files"]):
        return None
    if CHECKPOINT_FILE in files:
        found = [manifest.get("archive_sha256")]
        pinned = files_of(record, "fairseq")
    else:
        pinned = files_of(record, "huggingface")
        found = [files.get(file.name, {}).get("sha256") for file in pinned]
    pairs = zip(pinned, found, strict=False)
    return folder if all(file.sha256 in (None, digest) for file, digest in pairs) else None


def find_in_fairseq_cache(record: Record) -> Path | None:
    """Return the folder where fairseq itself unpacked this model earlier, None if there is none.

    It is only read.

    fairseq names it `sha256(url).sha256(etag)`, and asks over http (`fairseq/file_utils.py`,
    `url_to_filename`). The name therefore proves the URL, but nothing proves the bytes: an archive
    with a published digest is not looked up there.
    """
    for archive in files_of(record, "fairseq"):
        if archive.sha256 is not None:
            continue
        for url in (archive.url, archive.url.replace("https://", "http://", 1)):
            name = hashlib.sha256(url.encode()).hexdigest()
            versions = sorted(
                fairseq_cache().glob(f"{name}*"), key=lambda path: path.lstat().st_mtime
            )
            for folder in reversed(versions):
                if all((folder / wanted).is_file() for wanted in (CHECKPOINT_FILE, "dict.txt")):
                    return folder
    return None


def find_in_torch_hub(record: Record) -> Path | None:
    """Return the archive that `torch.hub` kept of this model, None if there is none.

    `download_url_to_file` and `load_state_dict_from_url` keep one. They name it after the end of
    the URL. It is only read: unpacked into our cache, after its digest was compared.
    """
    for archive in files_of(record, "fairseq"):
        path = _torch_hub_path(archive)
        if path.is_file() and archive.size in (None, path.stat().st_size):
            return path
    return None


def _torch_hub_path(archive: Remote) -> Path:
    return Path(torch.hub.get_dir()) / "checkpoints" / Path(urlsplit(archive.url).path).name


def _adopt(record: Record, archive: Path, stage: Path) -> _Delivery | None:
    """Unpack torch.hub's archive; None, with a warning, if it cannot be used.

    Its digest is not recorded as that of first use: the file's name does not prove which URL it
    came from.
    """
    folder = stage / "torch.hub"
    folder.mkdir()
    try:
        found = Received(archive.stat().st_size, sha256_of(archive))
        (remote,) = files_of(record, "fairseq")
        check_digest(remote, str(archive), found)
        files = unpack(archive, folder, str(archive))
    except (RobertaHubError, PermissionError) as error:
        warnings.warn(f"torch.hub's copy is passed over. {error}", stacklevel=5)
        return None
    return _Delivery(folder, str(archive), files, found)


# ---- the origins ----

PUBLISHERS = {"fairseq": "fairseq", "huggingface": "Hugging Face"}


class _AbsentError(Exception):
    """An origin does not give the files; `reason` says why. The next origin may."""

    def __init__(self, reason: DownloadError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _download(record: Record, stage: Path, label: str | None) -> _Delivery:
    """Get a model from the first of its origins that gives it.

    A wrong digest is no reason to ask the next origin: it is an alarm.
    """
    failed: list[DownloadError] = []
    quiet: list[str] = []  # without any network one message is enough
    for number, origin in enumerate(record.origins, start=1):
        try:
            delivery = _deliver(origin, stage, label)
        except _AbsentError as absent:
            error = absent.reason
            failed.append(error)
            if number == len(record.origins):
                raise _all_failed(record, failed) from error.__cause__
            publisher = PUBLISHERS[record.origins[number].kind]
            warning = f"{error}. {publisher}'s copy of {record.name} is fetched instead"
            if isinstance(error, UnreachableError):
                quiet.append(warning)
            else:
                warnings.warn(warning, stacklevel=5)
        except DownloadError as alarm:
            raise _all_failed(record, [*failed, alarm]) from alarm.__cause__
        else:
            for warning in quiet:
                warnings.warn(warning, stacklevel=5)
            return delivery
    raise AssertionError(f"{record.name} has no origin")


def _all_failed(record: Record, failed: Sequence[DownloadError]) -> DownloadError:
    """One error for what went wrong at each origin."""
    if all(isinstance(error, UnreachableError) for error in failed):
        return _no_network(record, *failed)
    if len(failed) == 1:
        return failed[0]
    return DownloadError(". Before that: ".join(str(error) for error in reversed(failed)))


def _deliver(origin: Origin, stage: Path, label: str | None) -> _Delivery:
    if origin.kind == "fairseq":
        return _from_fairseq(origin, stage, label)
    return _from_huggingface(origin, stage, label)


def _from_fairseq(origin: Origin, stage: Path, label: str | None) -> _Delivery:
    (remote,), archive = origin.files, stage / "archive.tar.gz"
    url = _mirrored(remote, ARCHIVES, MIRROR_ENV)
    try:
        got = receive(url, archive, label=label, limit=remote.size, copies=2)
        if (problem := not_gzip(archive)) is not None:
            raise DownloadError(
                f"{url}: {problem}. Log in to the network, check {MIRROR_ENV}, {MANUAL_REMEDY}"
            )
    except DownloadError as error:
        archive.unlink(missing_ok=True)
        raise _AbsentError(error) from None
    check_digest(remote, url, got)
    folder = stage / "fairseq"
    folder.mkdir()
    files = unpack(archive, folder, url)
    return _Delivery(folder, url, files, got, ((remote, got),))


def _no_network(record: Record, *failures: DownloadError) -> DownloadError:
    """One short error for a machine without network; its last line says what still works."""
    hosts = {
        failure.host: failure.reason
        for failure in failures
        if isinstance(failure, UnreachableError)
    }
    asked = "; ".join(f"{host} cannot be reached: {reason}" for host, reason in hosts.items())
    more = (
        "which is in the package; a folder or file by its path; what the cache holds "
        f"({OFFLINE_ENV}=1 asks nobody)."
    )
    return DownloadError(
        f"{record.name} cannot be downloaded: {asked}.\n"
        f"Check the network; HTTPS_PROXY, {MIRROR_ENV} and {ENDPOINT_ENV} lead elsewhere.\n",
        remedy=Remedy(
            f"Offline work: load_model('roberta.tiny'), {more}",
            f"Offline work: roberta.tiny, {more}",
        ),
    )


def _from_huggingface(origin: Origin, stage: Path, label: str | None) -> _Delivery:
    folder = stage / "huggingface"
    files: FileTable = {}
    seen: list[tuple[Remote, Received]] = []
    for wanted in (*origin.files, *origin.optional):
        remote, got = wanted, None
        try:
            try:
                got = _file(remote, folder, label)
            except AbsentFileError:
                if wanted in origin.optional:
                    continue
                if wanted.name not in origin.instead:
                    raise
                remote = origin.instead[wanted.name]
                got = _file(remote, folder, label)
        except DownloadError as error:
            raise _AbsentError(error) from None
        _accept(remote, folder / remote.name, got)
        files[remote.name] = {"size": got.size, "sha256": got.sha256}
        seen.append((remote, got))
    source = _mirrored(origin.files[0], (HUGGINGFACE,), ENDPOINT_ENV).rpartition("/")[0]
    return _Delivery(folder, source, files, first_seen=tuple(seen))


def _file(remote: Remote, folder: Path, label: str | None) -> Received:
    """Download one file of a repository under its own name."""
    path = folder / remote.name
    path.parent.mkdir(parents=True, exist_ok=True)
    limit = MAX_ARCHIVE_BYTES if path.name in WEIGHT_FILES else SMALL_BYTES
    url = _mirrored(remote, (HUGGINGFACE,), ENDPOINT_ENV)
    try:
        return receive(url, path, label=label, limit=remote.size or limit)
    except AbsentFileError:
        path.unlink(missing_ok=True)
        if path.parent != folder:
            with contextlib.suppress(OSError):  # it has other files
                path.parent.rmdir()
        raise


def _accept(remote: Remote, path: Path, got: Received) -> None:
    """Refuse a file with another digest, and one that is not what its name says."""
    url = _mirrored(remote, (HUGGINGFACE,), ENDPOINT_ENV)
    check_digest(remote, url, got)
    try:
        if path.name == "modules.json":
            Folder(path.parent).json_list(path.name)
        elif path.suffix == ".json":
            Folder(path.parent).json(path.name)
        elif path.suffix == ".safetensors":
            read_safetensors(path)
        elif is_web_page(path):
            raise CheckpointError("it looks like a web page (a login page or a proxy's error?)")
    except CheckpointError as error:
        raise DownloadError(f"{url} is not what it should be: {error}") from error


def _mirrored(remote: Remote, bases: Sequence[str], variable: str) -> str:
    mirror = os.environ.get(variable)
    base = next((base for base in bases if remote.url.startswith(base)), None)
    if not mirror or base is None:
        return remote.url
    return safe_url(mirror.rstrip("/") + remote.url[len(base) :], variable)
