"""Prints the catalogue's rows with the digests that this cache knows; for those who pin a model.

python tools/pin.py > rows.txt     # ends with 1 where two digests of a file differ
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from roberta_hub.checkpoint.fetch.cache import cache_root, read_manifest
from roberta_hub.checkpoint.fetch.catalogue import DOWNLOADED_MODELS
from roberta_hub.checkpoint.fetch.digests import DIGESTS, known_digests
from roberta_hub.checkpoint.fetch.http import Received
from roberta_hub.checkpoint.fetch.records import (
    BASE_URL,
    HUGGINGFACE,
    RELATIVES,
    Origin,
    Record,
    Remote,
    archive,
    repository,
)
from roberta_hub.terminal import clean, without_secrets

PUBLISHERS = (urlsplit(BASE_URL)[:2], urlsplit(HUGGINGFACE)[:2])
"""Scheme and host of the publishers."""


def pin() -> int:
    """Print the rows of published models; 1 if two digests of a file differ, else 0."""
    first_use, status = known_digests(), 0
    print(f"# From {clean(cache_root() / DIGESTS)} and the manifests there;")
    print(
        "# paste into checkpoint/fetch/records.py, those of relatives' origins into relatives.py."
    )
    for record in DOWNLOADED_MODELS:
        manifest = read_manifest(cache_root() / record.name) or {}
        known = _known(record, first_use, manifest)
        problems = [f"{url}: {', '.join(sorted(of))}" for url, of in known.items() if len(of) > 1]
        if problems:
            status, shown = 1, "\n#   ".join(map(clean, problems))
            print(f"\n# {record.name}: NOT PINNED, its digests differ:\n#   {shown}")
        elif not any(known.values()):
            print(f"\n# {record.name}: no digest on record; load it over a network you trust")
        else:
            found = {url: next(iter(of.items())) for url, of in known.items() if of}
            relative = record in RELATIVES
            print("\n" + (_pins(record, found) if relative else _row(record, found, manifest)))
    return status


def _known(
    record: Record, first_use: Mapping[str, Received], manifest: Mapping[str, Any]
) -> dict[str, dict[str, int | None]]:
    """Collect the digests on record of each file of a model, with their sizes."""
    known: dict[str, dict[str, int | None]] = {}
    for origin, remote in _remotes(record):
        about = manifest.get("files", {}).get(remote.name, {})
        size, digest = about.get("size"), about.get("sha256")
        if origin.kind == "fairseq":
            size, digest = manifest.get("archive_size"), manifest.get("archive_sha256")
        seen = first_use.get(remote.url, Received(0, ""))
        pairs = [(digest, size), (seen.sha256, seen.size), (remote.sha256, remote.size)]
        known[remote.url] = {sha: count for sha, count in pairs if sha}
    return known


def _remotes(record: Record) -> list[tuple[Origin, Remote]]:
    return [
        (origin, remote)
        for origin in record.origins
        for remote in (*origin.files, *origin.optional, *origin.instead.values())
    ]


def _pins(record: Record, found: Mapping[str, tuple[str, int | None]]) -> str:
    """Return the lines for a relative, whose row has no place for them."""
    lines = [f'#   "{url}": ({size}, "{digest}"),' for url, (digest, size) in found.items() if size]
    return "\n".join([f"# {record.name}: paste into PINS in relatives.py, without the #", *lines])


def _row(
    record: Record, found: Mapping[str, tuple[str, int | None]], manifest: Mapping[str, Any]
) -> str:
    """Return a row of the catalogue as Python, and where its digests come from as a comment."""
    values = []
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if field.name == "origins":
            origins = "".join(f"{_origin(origin, found)}, " for origin in value)
            values.append(f"    origins=({origins.rstrip()}),")
        elif value != field.default and value:
            values.append(f"    {field.name}={value!r},")
    source = manifest.get("source")
    official = source is None or urlsplit(str(source))[:2] in PUBLISHERS
    origin = f"# {record.name}: from {without_secrets(source)}, not from the publisher"
    return "\n".join([*([] if official else [origin]), "Record(", *values, "),"])


def _origin(origin: Origin, found: Mapping[str, tuple[str, int | None]]) -> str:
    """Return the call in records.py that makes an origin, with the pins on record.

    An origin that no call makes, as many of relatives are, is written out.
    """
    pinned = [(remote, *found.get(remote.url, ("", None))) for remote in origin.files]
    bare = [dataclasses.replace(remote, size=None, sha256=None) for remote in origin.files]
    name = bare[0].url.removeprefix(f"{BASE_URL}/")
    if origin.kind == "huggingface":
        name = urlsplit(bare[0].url).path.partition("/resolve/")[0].strip("/")
    call = archive if origin.kind == "fairseq" else repository
    if call(name) != dataclasses.replace(origin, files=tuple(bare)):
        files = tuple(
            dataclasses.replace(remote, size=size or remote.size, sha256=digest or remote.sha256)
            for remote, digest, size in pinned
        )
        return repr(dataclasses.replace(origin, files=files))
    if origin.kind == "fairseq":
        ((_, digest, size),) = pinned
        pins = [f"size={size:_}"] if size else []
        pins += [f"sha256={digest!r}"] if digest else []
        return f"archive({', '.join([repr(name), *pins])})".replace("'", '"')
    pins = [
        f"{remote.name.partition('.')[0]}=({size}, {digest!r})"
        for remote, digest, size in pinned
        if digest and size
    ]
    return f"repository({', '.join([repr(name), *pins])})".replace("'", '"')


if __name__ == "__main__":
    sys.exit(pin())
