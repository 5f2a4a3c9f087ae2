"""Gets files of a repository at Hugging Face by huggingface_hub, at a commit that is pinned.

name ─► pin in our cache, else the hub's answer, else huggingface_hub's cache ─► Repository
Repository, names of files ─► huggingface_hub's cache ─► each file as the listing has it

The files are huggingface_hub's, in its cache, fetched with its tokens, proxies and settings. Ours
is a note for each name: the commit, and what the files of that commit are.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from roberta_hub.arguments import short_repr
from roberta_hub.checkpoint.fetch.cache import cache_root, check_room, lock
from roberta_hub.checkpoint.fetch.download import ENDPOINT_ENV, OFFLINE_ENV
from roberta_hub.checkpoint.fetch.http import MAX_WAIT_SECONDS, safe_url
from roberta_hub.errors import (
    DownloadError,
    MissingExtraError,
    Remedy,
    UnknownNameError,
    harmless,
)
from roberta_hub.extras import install
from roberta_hub.files import read_note, write_bytes, write_json
from roberta_hub.terminal import progress_bar

COMMIT = re.compile("[0-9a-f]{40}")
"""What a commit is called."""
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+@-]{0,199}")
DEFAULT_REVISION = "main"
"""The branch that a name means where no other is asked for."""
DEPTH = 2
"""Parts of the path of a file that a reader may want: `1_Pooling/config.json`."""
ATTEMPTS = 3
"""How often a hub is asked for a listing that says to come again, or fails."""
_LATER = (408, 429, 500, 502, 503, 504)
"""Statuses of answers that may be others a moment later."""
_LFS = b"version https://git-lfs.github.com/spec/v1"
"""How a pointer of Git LFS begins, a short text in place of a file."""
_CHUNK = 1 << 20
_SHOWN_BYTES = 1 << 20
"""Bytes from which on a download has a bar: settings come before one could be read."""
_AGAIN = Remedy(
    "force_download=True fetches it again; where that does not help, check HF_ENDPOINT",
    "`roberta-hub download --force NAME` fetches it again; where that does not help, check "
    "HF_ENDPOINT",
)


@dataclass(frozen=True)
class Listed:
    """What a hub's listing says of a file; None where it says nothing."""

    size: int | None = None
    digest: str | None = None
    """"sha256:..." of a large file, "git:..." of a small one: git's own name of its content."""


@dataclass(frozen=True)
class Repository:
    """A model at Hugging Face at one commit."""

    name: str
    """With its owner."""
    commit: str
    files: Mapping[str, Listed]
    """Every file that a reader may want, by its path there."""
    folder: Path
    """Where huggingface_hub keeps the files of this commit."""
    checked: frozenset[str] = frozenset()
    """Files of the cache that were found to be as listed."""
    licence: str | None = None
    """Licence on the model's page; None: it names none."""
    library: str | None = None
    """What reads it, by the model's page; None: it does not say."""
    whole: bool = True
    """Whether the files are all that the commit has; False: those that are in the cache."""

    @property
    def label(self) -> str:
        """Name and commit, as `roberta.source` and messages have them."""
        return f"{self.name} at {self.commit}"


# ---- pins ----


def pins() -> Path:
    """Folder of our cache that has a note of each name."""
    return cache_root() / "names"


def _pin_file(name: str) -> Path:
    return pins() / f"{name.replace('/', '--')}.json"


def pinned(name: str) -> Repository | None:
    """Return a repository at the commit that is pinned on this machine; None: none is."""
    path = _pin_file(name)
    if not path.exists():
        return None
    require_hub(name)
    note = read_note(path)
    if note.get("name", name) != name:  # where a disk does not tell capitals from lower case
        return None
    try:
        commit, files = note["commit"], note["files"]
        if not COMMIT.fullmatch(commit):
            raise ValueError(f"its commit is {commit!r}")
        listed = {str(file): Listed(**about) for file, about in files.items()}
        checked = frozenset(map(str, note["checked"]))
        about = {key: note[key] for key in ("licence", "library", "whole")}
        return Repository(name, commit, listed, _snapshot(name, commit), checked, **about)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DownloadError(
            f"{path} is damaged ({type(error).__name__}: {str(error)[:200]}): it says which commit "
            f"{name} means here; delete it, and the newest one is taken"
        ) from error


def pin(repository: Repository) -> None:
    """Let a name mean this commit on this machine, until it is pinned again.

    A cache that cannot be written is a warning: what was loaded is loaded.
    """
    path = _pin_file(repository.name)
    note = {
        "name": repository.name,
        "commit": repository.commit,
        "licence": repository.licence,
        "library": repository.library,
        "whole": repository.whole,
        "files": {name: vars(about) for name, about in repository.files.items()},
        "checked": sorted(repository.checked),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, note)
    except OSError as error:
        warnings.warn(
            f"{path} cannot be written ({error.strerror or error}), so the next load of "
            f"{repository.name} may take another commit than {repository.commit}",
            stacklevel=2,
        )


def pinned_repositories() -> list[Repository]:
    """Return every repository that is pinned on this machine, by name."""
    names = (path.stem.replace("--", "/", 1) for path in pins().glob("*--*.json"))
    return [found for name in sorted(names) if (found := pinned(name)) is not None]


@contextlib.contextmanager
def naming(name: str) -> Iterator[None]:
    """Hold back other processes that ask for a name for the first time."""
    path = _pin_file(name)
    with contextlib.suppress(OSError):  # a cache that cannot be written needs no lock
        path.parent.mkdir(parents=True, exist_ok=True)
    with lock(path.with_name(f".{path.stem}.lock")):
        yield


# ---- which commit, and what it has ----


def find(name: str, revision: str | None = None) -> Repository:
    """Return a repository as the hub has it now, or as huggingface_hub's cache has it.

    The cache helps where nobody answers or the hub refuses, as it does for huggingface_hub's own
    users; a warning says so, unless it is forbidden to ask.
    """
    require_hub(name)
    from roberta_hub.checkpoint.fetch import refusals

    _check_revision(name, revision)
    if (variable := _forbids()) is not None:
        if (cached := _in_cache(name, revision)) is None:
            raise refusals.not_in_cache(name, variable)
        return cached
    try:
        return ask(name, revision)
    except (DownloadError, UnknownNameError) as error:
        unknown = isinstance(error, UnknownNameError) and revision is not None
        if unknown or (cached := _in_cache(name, revision)) is None:
            raise
        warnings.warn(f"{error}. The cache's {cached.commit} is taken", stacklevel=2)
        return cached


def ask(name: str, revision: str | None = None) -> Repository:
    """Return a repository as the hub has it now."""
    hub = require_hub(name)
    from roberta_hub.checkpoint.fetch import refusals

    _check_revision(name, revision)
    if (variable := _forbids()) is not None:
        raise refusals.not_in_cache(name, variable)
    api = hub.HfApi(library_name="roberta_hub")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            info = api.model_info(
                name,
                revision=revision or DEFAULT_REVISION,
                files_metadata=True,
                timeout=hub.constants.HF_HUB_ETAG_TIMEOUT,
            )
            return _listed(name, info)
        except refusals.CAUGHT as error:
            wait = _wait(error, attempt)
            if refusals.status_of(error) not in _LATER or wait is None:
                raise refusals.refusal(error, name, revision) from harmless(error)
            time.sleep(wait)
    raise AssertionError("the last attempt returns or raises")


def _check_revision(name: str, revision: str | None) -> None:
    """Refuse what is no name of a branch, a tag or a commit: it becomes part of a path."""
    if revision is not None and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise UnknownNameError(
            f"{name} has no revision {short_repr(revision)}; it is a branch, a tag or a commit"
        )


def _wait(error: BaseException, attempt: int) -> float | None:
    """Return the seconds to wait before another attempt; None: there is none."""
    response: Any = getattr(error, "response", None)
    told = "" if response is None else response.headers.get("Retry-After", "")
    seconds = float(told) if told.isdecimal() else float(attempt)
    return None if attempt == ATTEMPTS or seconds > MAX_WAIT_SECONDS else seconds


def _listed(name: str, info: Any) -> Repository:
    """Make a repository of the hub's answer."""
    if not isinstance(info.sha, str) or not COMMIT.fullmatch(info.sha):
        raise ValueError(f"its commit is {str(info.sha)[:60]!r}")
    files = {}
    for file in info.siblings or ():
        if len(file.rfilename.split("/")) <= DEPTH:
            files[file.rfilename] = _about(file)
    licence = getattr(info.card_data, "license", None)
    return Repository(
        name,
        info.sha,
        files,
        _snapshot(name, info.sha),
        licence=licence[:60] if isinstance(licence, str) else None,
        library=info.library_name,
    )


def _about(file: Any) -> Listed:
    """Return what a listing says of a file: the large ones have a sha256."""
    if not isinstance(file.size, int | None):
        raise ValueError(f"a size is {short_repr(file.size)}")
    if file.lfs is not None:
        return Listed(file.size, f"sha256:{file.lfs.sha256}")
    return Listed(file.size, f"git:{file.blob_id}" if file.blob_id else None)


def _in_cache(name: str, revision: str | None) -> Repository | None:
    """Return a repository as huggingface_hub's cache has it; None: it has nothing of it."""
    commit = revision or DEFAULT_REVISION
    folder = _snapshot(name, commit)
    if not COMMIT.fullmatch(commit):
        reference = folder.parents[1] / "refs" / commit
        if not reference.is_file():
            return None
        commit = _referred(reference)
        if not COMMIT.fullmatch(commit):
            raise DownloadError(
                f"{reference} is damaged: it says which commit {name} is here, 40 hex digits, and "
                f"holds {short_repr(commit)}; delete it, and load once with a network"
            )
        folder = _snapshot(name, commit)
    if not COMMIT.fullmatch(commit) or not folder.is_dir():
        return None
    tree = _cached_tree(name, commit)
    if tree is not None:
        return Repository(name, commit, tree, folder)
    return Repository(name, commit, _files_in(name, commit, folder), folder, whole=False)


def _referred(path: Path) -> str:
    """Return what a note of huggingface_hub's cache holds: a commit or "", if it is whole."""
    with open(path, "rb") as file:
        return file.read(200).decode(errors="replace").strip()


def refer(repository: Repository, revision: str | None) -> None:
    """Note in huggingface_hub's cache what a branch or tag means, and what its commit lacks.

    Its own users do so. Only a commit whose files are there is noted: without a network they are
    taken, by us and by others.
    """
    storage, name = repository.folder.parents[1], revision or DEFAULT_REVISION
    if not repository.whole:  # it is of that cache
        return
    notes = {f"refs/{name}": repository.commit} if not COMMIT.fullmatch(name) else {}
    for lacking in {*_DECISIVE} - repository.files.keys():
        notes[f".no_exist/{repository.commit}/{lacking}"] = ""
    with contextlib.suppress(OSError):  # a cache that is only read
        for note, content in notes.items():
            path = storage / note
            if not path.is_file() or _referred(path) != content:
                write_bytes(path, content.encode())


def _cached_tree(name: str, commit: str) -> dict[str, Listed] | None:
    """Return the listing of a commit that huggingface_hub keeps; None: it keeps none."""
    from huggingface_hub import errors, get_cached_repo_tree

    try:
        tree = get_cached_repo_tree(name, revision=commit)
    except errors.CachedRepoTreeNotFoundError:
        return None
    return {file.path: _about(file) for file in tree if len(file.path.split("/")) <= DEPTH}


def _files_in(name: str, commit: str, folder: Path) -> dict[str, Listed]:
    """Return the files of a commit that are in the cache, where nothing lists all that it has."""
    from huggingface_hub import try_to_load_from_cache

    here = {
        p.relative_to(folder).as_posix(): p
        for p in folder.rglob("*")
        if p.is_file() or p.is_symlink()  # a link to nothing is a file that was lost
    }
    for told in _DECISIVE if "config.json" in here else ():
        if told not in here and try_to_load_from_cache(name, told, revision=commit) is None:
            warnings.warn(
                f"{name}: the cache {folder} does not say whether the model has {told}; if it "
                "has, load once with a network, or its vectors will be others",
                stacklevel=2,
            )
    return {
        file: Listed(path.stat().st_size if path.exists() else None) for file, path in here.items()
    }


_DECISIVE = ("modules.json",)
"""Files by which a model answers otherwise, and that a program which fetched some files may have
left out: transformers asks for no modules.json."""


# ---- the files ----


def fetch(
    repository: Repository,
    names: Collection[str],
    *,
    force: bool = False,
    progress: bool = True,
) -> Repository:
    """Get files into huggingface_hub's cache, and compare them with the listing."""
    new = [name for name in names if force or not (repository.folder / name).exists()]
    for name in new:
        if _fault(repository, name) is not None:  # huggingface_hub itself keeps what is there
            (repository.folder / name).unlink()
    if new:
        _download(repository, new, force=force, progress=progress)
    for name in names:
        known = name not in new and name in repository.checked  # its bytes were hashed once
        if (fault := _fault(repository, name, only_size=known)) is not None:
            raise DownloadError(
                f"{repository.folder / name} is {fault}: it is not what the hub lists, and is not "
                "loaded",
                place=repository.label,
                remedy=_AGAIN,
            )
    return replace(repository, checked=repository.checked | {*names})


def fault_of(repository: Repository, *, hashed: bool) -> str | None:
    """Say which file of the cache is not as listed, of those that were once; None: all are."""
    faults = ((n, _fault(repository, n, only_size=not hashed)) for n in sorted(repository.checked))
    found = next(((name, fault) for name, fault in faults if fault is not None), None)
    return None if found is None else f"{repository.folder / found[0]} is {found[1]}"


def _download(
    repository: Repository, names: Collection[str], *, force: bool, progress: bool
) -> None:
    hub = require_hub(repository.name)
    from roberta_hub.checkpoint.fetch import refusals

    if (variable := _forbids()) is not None:
        lacks = sorted(names)[0]
        lost = (repository.folder / lacks).is_symlink()
        raise refusals.not_in_cache(
            repository.name, variable, lacks + " (a link to nothing)" * lost
        )
    sizes = [repository.files[name].size for name in names]
    total = sum(size or 0 for size in sizes)
    cache = Path(hub.constants.HF_HUB_CACHE)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        shown = None if progress and total >= _SHOWN_BYTES else False
        with (
            check_room(cache, total),
            progress_bar(total, unit="B", label=repository.name, shown=shown) as bar,
        ):
            for name in names:
                path = hub.hf_hub_download(
                    repository.name,
                    name,
                    revision=repository.commit,
                    force_download=force,
                    library_name="roberta_hub",
                    tqdm_class=type("Share", (_Share,), {"bar": bar}),
                )
                _check_place(repository, name, path)
    except DownloadError:
        raise
    except refusals.CAUGHT as error:
        raise refusals.refusal(error, repository.name, repository.commit) from harmless(error)


class _Share:
    """The bar of one file as huggingface_hub moves it; it moves the bar of all."""

    bar: Any

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> _Share:
        return self

    def __exit__(self, *_: object) -> None: ...

    def update(self, n: float | None = 1) -> None:
        """Move the bar of all by bytes that are on the disk."""
        self.bar.update(n)

    def update_transfer(self, n: float | None = 1) -> None:
        """Pass over bytes that have come and are not on the disk yet."""

    def set_postfix_str(self, *_: object, **__: object) -> None:
        """Pass over one file's speed."""

    set_transfer_postfix_str = set_description = set_postfix_str

    def close(self) -> None:
        """Leave the bar of all as it is."""


def _check_place(repository: Repository, name: str, path: str) -> None:
    """Refuse a file that the hub gave from another commit than the one that was asked for."""
    if Path(path) != repository.folder / name:
        raise DownloadError(
            f"{name} was asked for at this commit, and HF_ENDPOINT gives it of another, as {path}; "
            "check HF_ENDPOINT",
            place=repository.label,
        )


def _fault(repository: Repository, name: str, *, only_size: bool = False) -> str | None:
    """Say what a file of the cache is that is not as listed; None: it is, or is not there."""
    path, listed = repository.folder / name, repository.files[name]
    if not path.exists():
        return None
    size = path.stat().st_size
    fault = None if listed.size in (None, size) else f"{size:,} bytes of {listed.size or 0:,}"
    if fault is None and not only_size and listed.digest is not None:
        fault = None if _digest(path, listed.digest) == listed.digest else f"not {listed.digest}"
    if fault is not None:
        with open(path, "rb") as file:
            if file.read(len(_LFS)) == _LFS:
                return "a pointer of Git LFS in place of the file"
    return fault


def _digest(path: Path, like: str) -> str:
    """Hash a file as another digest says: `sha256:` as LFS does, `git:` as git does."""
    kind = like.partition(":")[0]
    found: Any = hashlib.sha256()
    if kind == "git":
        found = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return f"{kind}:{found.hexdigest()}"


# ---- huggingface_hub ----


def require_hub(name: str) -> Any:
    """Import huggingface_hub."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingExtraError(
            f"no path {name!r} here, and a model at Hugging Face is fetched by huggingface_hub "
            f"({error}): {install('hub')}"
        ) from None
    return huggingface_hub


def _forbids() -> str | None:
    """Return the variable that forbids asking; None: it is allowed."""
    from huggingface_hub import constants

    if os.environ.get(OFFLINE_ENV, "0") not in ("", "0"):
        return OFFLINE_ENV
    if constants.is_offline_mode():
        return "HF_HUB_OFFLINE"
    safe_url(constants.ENDPOINT, ENDPOINT_ENV)
    return None


def _snapshot(name: str, commit: str) -> Path:
    """Return where huggingface_hub keeps the files of a commit."""
    from huggingface_hub import constants

    # As its documentation says. Its own function imports httpx, which a model in the cache spares.
    storage = constants.REPO_ID_SEPARATOR.join(("models", *name.split("/")))
    return Path(constants.HF_HUB_CACHE).expanduser().resolve() / storage / "snapshots" / commit
