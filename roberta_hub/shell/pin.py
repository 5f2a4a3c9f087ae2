"""Runs `roberta-hub pin`: writes the catalogue's rows with the digests that this cache knows."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from roberta_hub.checkpoint.fetch import download
from roberta_hub.checkpoint.fetch.cache import cache_root, read_manifest
from roberta_hub.checkpoint.fetch.catalogue import BASE_URL, HUGGINGFACE, PUBLISHED, Record
from roberta_hub.checkpoint.fetch.transfer import Received
from roberta_hub.config import BASE, LARGE
from roberta_hub.terminal import clean, without_secrets

OFFICIAL = (urlsplit(BASE_URL)[:2], urlsplit(HUGGINGFACE)[:2])
"""Scheme and host of the publishers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take nothing."""


def run(given: argparse.Namespace) -> int:
    """Print the rows; the exit status."""
    return pin()


def pin() -> int:
    """Print the rows of published models; 1 if two digests of a file differ, else 0."""
    first_use, status = download.known_digests(), 0
    print(f"# From {clean(cache_root() / download.DIGESTS)} and the manifests beside it;")
    print("# paste into checkpoint/fetch/catalogue.py.")
    for record in PUBLISHED:
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
            print("\n" + _row(record, found, manifest))
    return status


def _known(
    record: Record, first_use: Mapping[str, Received], manifest: Mapping[str, Any]
) -> dict[str, dict[str, int | None]]:
    """Collect the digests on record of each file of a model, with their sizes."""
    known: dict[str, dict[str, int | None]] = {}
    for remote in (record.archive, *(record.second or ())):
        about = manifest.get("files", {}).get(remote.name, {})
        size, digest = about.get("size"), about.get("sha256")
        if remote == record.archive:
            size, digest = manifest.get("archive_size"), manifest.get("archive_sha256")
        seen = first_use.get(remote.url, Received(0, ""))
        pairs = [(digest, size), (seen.sha256, seen.size), (remote.sha256, remote.size)]
        known[remote.url] = {sha: count for sha, count in pairs if sha}
    return known


def _row(
    record: Record, found: Mapping[str, tuple[str, int | None]], manifest: Mapping[str, Any]
) -> str:
    """Write a row of the catalogue as Python, with a comment on where its digests come from."""
    url = f'f"{{BASE_URL}}{record.url.removeprefix(BASE_URL)}"'
    digest, size = found.get(record.url, ("", None))
    fields = {
        "name": json.dumps(record.name),
        "url": url if record.url.startswith(BASE_URL) else json.dumps(record.url),
        "config": {BASE: "BASE", LARGE: "LARGE"}.get(record.config, repr(record.config)),
        "heads": repr(dict(record.heads)).replace("'", '"') if record.heads else "",
        "own_head": json.dumps(record.own_head) if record.own_head else "",
        "inputs": json.dumps(dict(record.inputs)) if record.inputs else "",
        "task": json.dumps(record.task) if record.task != "masked_lm" else "",
        "size": f"{size:_}" if size else "",
        "sha256": json.dumps(digest) if digest else "",
        "second": _repository(record, found),
    }
    source = manifest.get("source")
    official = source is None or urlsplit(str(source))[:2] in OFFICIAL
    origin = f"# {record.name}: from {without_secrets(source)}, not from the publisher"
    values = [f"    {name}={value}," for name, value in fields.items() if value]
    return "\n".join([*([] if official else [origin]), "Record(", *values, "),"])


def _repository(record: Record, found: Mapping[str, tuple[str, int | None]]) -> str:
    if record.second is None:
        return "None"
    name = urlsplit(record.second[0].url).path.partition("/resolve/")[0].strip("/")
    pins = [
        f", {remote.name.partition('.')[0]}=({size}, {digest!r})"
        for remote in record.second
        for digest, size in [found.get(remote.url, ("", None))]
        if digest and size
    ]
    return f"repository({name!r}{''.join(pins)})".replace("'", '"')
