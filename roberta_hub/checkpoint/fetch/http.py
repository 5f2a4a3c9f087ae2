"""Downloads a URL into a file, and counts and hashes its bytes on the way.

A broken connection is resumed with `If-Range`, and the rest is accepted only if it continues at
the exact byte, so that two versions of a file are never mixed.
"""

from __future__ import annotations

import email.utils
import errno
import hashlib
import re
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from roberta_hub.checkpoint.fetch.archive import CHUNK_BYTES, MAX_ARCHIVE_BYTES
from roberta_hub.checkpoint.fetch.cache import check_room
from roberta_hub.errors import DownloadError, harmless
from roberta_hub.files import flush
from roberta_hub.terminal import progress_bar, without_secrets, without_secrets_in

if TYPE_CHECKING:
    import requests

MIRROR_ENV = "ROBERTA_HUB_MIRROR"
"""A base URL that replaces fairseq's; plain http only for this machine."""
TIMEOUT_SECONDS = (10, 60)
"""Seconds to connect, and seconds without a byte, before an attempt is given up."""
MAX_ATTEMPTS = 5
"""Attempts without progress, after which the last failure becomes an error."""
PROGRESS_BYTES = 1 << 20
"""Bytes that count as progress."""
BACKOFF_SECONDS = 1.0
"""Seconds before the second attempt; doubled for each further one."""
MAX_WAIT_SECONDS = 60.0
"""Limit of a server's Retry-After."""
MAX_REDIRECTS = 10
"""Limit of redirects, similar to browsers'."""
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
"""Hosts allowed over plain http."""
NO_NETWORK_ERRORS = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL)
"""Errors of a machine without a network, for any address."""
MANUAL_REMEDY = "or fetch the files another way and load them by their path"
"""The last remedy of every message."""


@dataclass(frozen=True)
class Received:
    """Size and digest of a downloaded file."""

    size: int
    sha256: str


class UnreachableError(DownloadError):
    """No server answers: unknown host, no network or no listener. Not retried."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(
            f"{host} cannot be reached: {reason}. Check the connection (HTTPS_PROXY is honoured) "
            f"or set {MIRROR_ENV}, {MANUAL_REMEDY}"
        )
        self.host, self.reason = host, reason


class AbsentFileError(DownloadError):
    """The server has no such file; it may have another."""


class _TransientError(Exception):
    """A failure that may pass; `wait` is how many seconds the server asked for."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


def receive(
    url: str, path: Path, *, label: str | None = None, limit: int | None = None, copies: int = 1
) -> Received:
    """Write the body of `url` to `path`."""
    import requests

    failures, best = 0, 0
    with requests.Session() as session, open(path, "wb") as file:
        partial = _Partial(url, file, limit or MAX_ARCHIVE_BYTES)
        while True:
            try:
                _attempt(session, partial, label, copies)
                break
            except _TransientError as error:
                failure = error
            if partial.received >= best + PROGRESS_BYTES:
                failures, best = 0, partial.received
            failures += 1
            if failures >= MAX_ATTEMPTS:
                raise DownloadError(
                    f"{url} failed {MAX_ATTEMPTS} times, the last time: {failure}. Try again "
                    "later, "
                    f"check the connection (HTTPS_PROXY is honoured) or set {MIRROR_ENV}, "
                    f"{MANUAL_REMEDY}"
                ) from failure
            time.sleep(max(BACKOFF_SECONDS * 2 ** (failures - 1), failure.wait))
        flush(file)
    return Received(partial.received, partial.digest.hexdigest())


@dataclass
class _Partial:
    """The part of a file that has arrived, and what proves that a rest belongs to it."""

    url: str
    file: IO[bytes]
    limit: int
    digest: Any = field(default_factory=hashlib.sha256)
    received: int = 0
    total: int | None = None
    validator: str = ""
    """The server's name of this version; without one there is no way to ask for the rest of it."""

    @property
    def continues(self) -> bool:
        return self.received > 0 and self.validator != ""

    def headers(self) -> dict[str, str]:
        asked = {"Accept-Encoding": "identity"}
        if self.continues:
            asked |= {"Range": f"bytes={self.received}-", "If-Range": self.validator}
        return asked

    def begin(self, response: requests.Response) -> None:
        """Resume where the file ends if that is what the server sends; begin again if it is not."""
        if response.status_code == 206 and self._fits(response):
            return
        self.restart()
        if response.status_code != 200:
            answer = response.headers.get("Content-Range", "no Content-Range")
            raise _TransientError(
                f"the rest was asked for and {response.status_code} came ({answer})"
            )
        self.total = response.raw.length_remaining
        tag = response.headers.get("ETag", "")
        weak = not tag or tag.startswith("W/")  # what proves nothing about bytes
        self.validator = response.headers.get("Last-Modified", "") if weak else tag

    def _fits(self, response: requests.Response) -> bool:
        given = response.headers.get("Content-Range", "")
        span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", given)
        if span is None or int(span[1]) != self.received:
            return False
        if span[2] != "*" and self.total is not None and int(span[2]) != self.total:
            return False
        named = (response.headers.get("ETag"), response.headers.get("Last-Modified"))
        # A server that ignores If-Range sends the rest of another version, whose name differs.
        return self.validator in named or not any(named)

    def restart(self) -> None:
        self.file.seek(0)
        self.file.truncate()
        self.digest, self.received, self.total, self.validator = hashlib.sha256(), 0, None, ""

    def append(self, chunk: bytes) -> None:
        if self.received + len(chunk) > self.limit:
            raise DownloadError(f"{self.url} sends more than {self.limit:,} bytes, refused")
        self.file.write(chunk)
        self.digest.update(chunk)
        self.received += len(chunk)


def _attempt(session: requests.Session, partial: _Partial, label: str | None, copies: int) -> None:
    from urllib3.exceptions import HTTPError

    with _open(session, partial) as response:
        partial.begin(response)
        start, total = partial.received, partial.total
        needed = None if total is None else copies * total - start
        shown = False if label is None else None
        bar = progress_bar(total, unit="B", shown=shown, start=start, label=label)
        with check_room(Path(partial.file.name).parent, needed), bar:
            try:
                # Undecoded: some servers call a .tar.gz "Content-Encoding: gzip", and would have it
                # unpacked here.
                for chunk in response.raw.stream(CHUNK_BYTES, decode_content=False):
                    partial.append(chunk)
                    bar.update(len(chunk))
                partial.file.flush()
            except HTTPError as error:
                got = (
                    f"{partial.received:,} of {'unknown' if total is None else format(total, ',')}"
                )
                raise _TransientError(
                    f"the connection broke after {got} bytes ({error})"
                ) from harmless(error)
    if total is not None and partial.received != total:
        raise _TransientError(f"{partial.received:,} of {total:,} bytes arrived")


def _open(session: requests.Session, partial: _Partial) -> requests.Response:
    """Send the request, follow redirects, and return an answer with a body.

    Each address is checked as it is sent, that of the first request too; see `safe_url`.
    """
    import requests

    url, origin = partial.url, partial.url
    for _ in range(MAX_REDIRECTS + 1):
        try:
            request = session.prepare_request(
                requests.Request("GET", url, headers=partial.headers())
            )
            _check_address(str(request.url), origin)
            settings = session.merge_environment_settings(request.url, {}, True, None, None)
            response = session.send(
                request, timeout=TIMEOUT_SECONDS, allow_redirects=False, **settings
            )
        except requests.exceptions.SSLError as error:
            raise DownloadError(
                f"{url}: the server's certificate was not accepted ({error}). Behind a company "
                f"proxy, set REQUESTS_CA_BUNDLE to its certificate, {MANUAL_REMEDY}"
            ) from harmless(error)
        except (requests.ConnectionError, requests.Timeout) as error:
            reason = _unreachable(error)
            if reason is None or partial.received:  # a server that sent something may come back
                raise _TransientError(without_secrets_in(str(error))) from harmless(error)
            proxy = isinstance(error, requests.exceptions.ProxyError)
            host = "the proxy (HTTPS_PROXY, HTTP_PROXY)" if proxy else urlsplit(url).hostname
            raise UnreachableError(str(host), reason) from None
        # ValueError: requests looks at a redirect's address even if it is not to follow it.
        except (requests.RequestException, ValueError) as error:
            raise DownloadError(
                f"{url}: {error}. Check {MIRROR_ENV}, {MANUAL_REMEDY}"
            ) from harmless(error)
        if not response.is_redirect:
            _require_body(response, url, ranged=partial.continues)
            return response
        response.close()
        origin, url = url, safe_url(response.headers["location"], url)
    raise DownloadError(
        f"{partial.url}: gave up after {MAX_REDIRECTS} redirects, the last to {url}"
    )


def _unreachable(error: BaseException) -> str | None:
    """Say why a connection could not even begin; None for failures that may pass."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        cause = waiting.pop()
        if not isinstance(cause, BaseException) or id(cause) in seen:
            continue
        seen.add(id(cause))
        if isinstance(cause, socket.gaierror):
            return "its name does not resolve"
        if isinstance(cause, ConnectionRefusedError):
            return "the connection was refused"
        if isinstance(cause, OSError) and cause.errno in NO_NETWORK_ERRORS:
            return (cause.strerror or "no route").lower()
        # requests and urllib3 keep what they met in `args` and `reason` rather than as a cause.
        waiting += [cause.__cause__, cause.__context__, getattr(cause, "reason", None)]
        waiting += cause.args
    return None


def safe_url(location: str, origin: str) -> str:
    """Return where `origin`, a URL or a variable's name, leads; refuse all but https.

    Plain http is for this machine only, and not for an origin that was https. The address is what
    `requests` makes of it: the same text is one host to one parser and another to the next.
    """
    import requests

    try:
        url = requests.Request("GET", urljoin(origin, location)).prepare().url or ""
        _check_address(url, origin)
    except ValueError as error:  # of requests and urllib3 too
        raise DownloadError(f"{origin} leads to {location!r}, not a URL ({error})") from harmless(
            error
        )
    return url


def _check_address(url: str, origin: str) -> None:
    """Refuse an address that `requests` has prepared, unless it is https or of this machine.

    `requests` and `urllib3` read it once more, each by its own parser, to find the host.
    """
    from urllib3.util import parse_url

    parts, again = urlsplit(url), parse_url(url)
    downgrade = urlsplit(origin).scheme == "https"
    hosts = {(parts.hostname or "").strip("[]"), (again.host or "").strip("[]").lower()}
    local = hosts <= {*LOOPBACK_HOSTS} and parts.scheme == again.scheme == "http" and not downgrade
    if not local and not (len(hosts) == 1 and parts.scheme == again.scheme == "https"):
        raise DownloadError(
            f"{origin} leads to {url!r}, refused: only https is followed (http on this machine). "
            f"Check the network and {MIRROR_ENV}, {MANUAL_REMEDY}"
        )


def _require_body(response: requests.Response, url: str, *, ranged: bool) -> None:
    status = response.status_code
    if status == 200 or (ranged and status in (206, 416)):
        return
    response.close()
    answer = f"{without_secrets(url)} answered {status} {response.reason or ''}".rstrip()
    if status in (408, 429) or status >= 500:
        raise _TransientError(answer, _seconds(response.headers.get("Retry-After", "")))
    refusal = AbsentFileError if status in (404, 410) else DownloadError
    raise refusal(f"{answer}, no file there or no access. Check {MIRROR_ENV}, {MANUAL_REMEDY}")


def _seconds(retry_after: str) -> float:
    """Return how long to wait, which a server says in seconds or as a date."""
    if retry_after.isdecimal():
        return min(float(retry_after), MAX_WAIT_SECONDS)
    try:
        date = email.utils.parsedate_to_datetime(retry_after).timestamp()
    except (TypeError, ValueError):
        return 0.0
    return min(max(date - time.time(), 0.0), MAX_WAIT_SECONDS)
