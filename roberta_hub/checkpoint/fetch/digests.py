"""Keeps the digest of every file as it was first downloaded, and holds later ones against it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from roberta_hub.checkpoint.fetch.cache import cache_root, lock
from roberta_hub.checkpoint.fetch.http import Received
from roberta_hub.checkpoint.fetch.records import Remote
from roberta_hub.errors import DownloadError
from roberta_hub.files import publishing

DIGESTS = "digests.json"
"""A file in the cache with the size and sha256, as first seen, of each URL whose publisher gives no
digest."""


def known_digests() -> dict[str, Received]:
    """Return what each URL gave at the first download, as recorded in this cache."""
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


def check_digest(remote: Remote, url: str, got: Received) -> None:
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


def remember(seen: tuple[tuple[Remote, Received], ...], stage: Path) -> None:
    """Record what was seen for the first time."""
    new = {remote.url: vars(got) for remote, got in seen if remote.sha256 is None}
    path = cache_root() / DIGESTS
    # One table for all models, each of which has its own lock.
    with lock(path.with_name(f".{DIGESTS}.lock")):
        for remote, got in seen:  # again: it may have been recorded since
            check_digest(remote, remote.url, got)
        known = {url: vars(got) for url, got in known_digests().items()}
        if new.keys() - known.keys():
            with publishing(path, stage / DIGESTS) as file:
                file.write_text(json.dumps({**new, **known}, indent=2), encoding="utf-8")
