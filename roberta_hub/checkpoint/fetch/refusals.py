"""Says what huggingface_hub's errors mean: what went wrong, with which model, and what fixes it.

This module is imported only after huggingface_hub itself; see `repositories.py`.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import constants, errors, get_token

from roberta_hub.checkpoint.fetch.cache import FULL_DISK_ERRORS
from roberta_hub.checkpoint.fetch.catalogue import suggestions
from roberta_hub.checkpoint.fetch.http import MANUAL_REMEDY
from roberta_hub.checkpoint.fetch.owners import known_names
from roberta_hub.checkpoint.fetch.records import MODELS
from roberta_hub.errors import (
    DownloadError,
    Remedy,
    RobertaHubError,
    UnknownNameError,
    close_names,
)
from roberta_hub.terminal import without_secrets

HTTP_ERROR: type[Exception] = errors.HfHubHTTPError.__bases__[0]
"""Base of the errors of its HTTP library, by whatever name it has that."""
CAUGHT = (HTTP_ERROR, OSError, ValueError, TypeError, LookupError, AttributeError)
"""What its functions raise: errors of HTTP and of the disk, and those of an answer that is no
answer of a hub."""
_BAD_TOKEN = "Invalid credentials in Authorization header"
"""What the hub says of a token that it does not know. Any other 401 is that of a private model, or
of none: to those who are not logged in it does not tell the two apart."""
_LOGIN = "log in by `hf auth login`, or set HF_TOKEN"


def network_failure(error: BaseException) -> bool:
    """Whether nobody answered: no network, an unknown host, a timeout, or asking is forbidden."""
    answered = isinstance(error, (errors.HfHubHTTPError, errors.FileMetadataError))
    return not answered and isinstance(error, (HTTP_ERROR, errors.OfflineModeIsEnabled))


def status_of(error: BaseException) -> int | None:
    """Return the status of the answer that an error is about; None: there was none."""
    response = getattr(error, "response", None)
    return None if response is None else int(response.status_code)


def refusal(error: BaseException, name: str, revision: str | None = None) -> RobertaHubError:
    """Make our error of one of huggingface_hub's."""
    if isinstance(error, errors.LocalEntryNotFoundError) and error.__cause__ is not None:
        error = error.__cause__  # it says only that the cache does not help either
    hub = without_secrets(constants.ENDPOINT)
    if isinstance(error, errors.GatedRepoError):
        return DownloadError(
            f"{name} is gated: its owner gives it to those who accept the terms on {hub}/{name}",
            remedy=Remedy(f"accept them there, then {_LOGIN}"),
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return UnknownNameError(
            f"{name} has no revision {str(revision)[:100]!r}: a branch, a tag or a commit of "
            f"{hub}/{name}",
            remedy=Remedy(
                "revision='main' takes the newest",
                "`roberta-hub download --update NAME` takes the newest",
            ),
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return _not_found(name, hub)
    if isinstance(error, errors.HfHubHTTPError):
        return _answered(error, name, hub)
    if network_failure(error):
        return _unreachable(error, name, hub)
    number = getattr(error, "errno", None)
    if number is not None:
        full = number in FULL_DISK_ERRORS
        return DownloadError(
            f"{name} cannot be kept in {constants.HF_HUB_CACHE} ({_reason(error)}). Nothing of it "
            f"was loaded; {'free some room, or ' if full else ''}set HF_HOME to a folder that can "
            "be written and has room"
        )
    return DownloadError(
        f"{name} is not given by {hub} as a hub gives it ({_reason(error)}); check HF_ENDPOINT, a "
        f"proxy or a login page between, {MANUAL_REMEDY}"
    )


def not_in_cache(name: str, variable: str, lacks: str = "") -> DownloadError:
    """Make the error for a model that would have to be fetched, where that is forbidden."""
    what = f"of {name}, {lacks} is not" if lacks else f"{name} is not"
    return DownloadError(
        f"{_if_a_path(name)}{what} in the cache {constants.HF_HUB_CACHE}, and {variable} forbids "
        f"asking for it; unset {variable}, or point HF_HOME at a cache that has it, {MANUAL_REMEDY}"
    )


def _not_found(name: str, hub: str) -> UnknownNameError:
    """Make the error for a model that is not there, or is private."""
    catalogue = [other for record in MODELS for other in record.elsewhere if "/" in other]
    near = close_names(name, [*known_names(), *catalogue]) or " or ".join(suggestions(name))
    hint = f"; did you mean {near}?" if near and name not in near else ""
    yours = "your token does not open it" if get_token() else _LOGIN
    return UnknownNameError(
        f"{_if_a_path(name)}{hub} has no model of that name{hint}",
        remedy=Remedy(f"if it is private or gated, {yours}"),
    )


def _answered(error: errors.HfHubHTTPError, name: str, hub: str) -> RobertaHubError:
    """Explain an answer that is none of the hub's own refusals."""
    status, host = status_of(error), _host(str(error.response.url))
    said = f"{name} cannot be fetched: {host} answered {status}"
    if isinstance(error, errors.DisabledRepoError):
        return DownloadError(f"{name} is disabled by {hub}; {hub}/{name} says why")
    if status == 401 and error.response.headers.get("X-Error-Message") == _BAD_TOKEN:
        return DownloadError(f"{said}, the token is not valid; {_LOGIN}")
    if status == 401:
        return _not_found(name, hub)
    if status == 403 and host == _host(hub):  # not the host of the large files
        return DownloadError(f"{said}, the token does not allow it; {_LOGIN}, with one that does")
    if status == 429:
        wait = error.response.headers.get("Retry-After", "")
        after = f" and asks to wait {wait} seconds" if wait.isdecimal() else ""
        token = "" if get_token() else f"; who is logged in may ask more often: {_LOGIN}"
        return DownloadError(f"{said}, too many requests{after}; try again later{token}")
    if status == 404:
        return DownloadError(
            f"{said} for a file that it lists; try again, or check HF_ENDPOINT, {MANUAL_REMEDY}"
        )
    return DownloadError(f"{said}; try again later, or check HF_ENDPOINT, {MANUAL_REMEDY}")


def _host(url: str) -> str:
    """Host and port of an address, without a user."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _unreachable(error: BaseException, name: str, hub: str) -> DownloadError:
    return DownloadError(
        f"{_if_a_path(name)}{name} cannot be fetched: {_host(hub)} cannot be reached "
        f"({_reason(error)}), and the cache {constants.HF_HUB_CACHE} does not have it. Check the "
        f"network; HTTPS_PROXY and HF_ENDPOINT lead elsewhere, {MANUAL_REMEDY}"
    )


def _if_a_path(name: str) -> str:
    """Say that a name was no path, or what the folder lacks that is named like the owner."""
    folder, _, last = name.partition("/")
    if last and Path(folder).is_dir():
        return f"the folder {folder} has no {last}; "
    return f"no path {name!r} here, and "


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:300]
