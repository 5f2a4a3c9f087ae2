"""The command roberta-hub: scan files before loading, look after installation and cache."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

import roberta_hub
from roberta_hub.checkpoint.fetch import download
from roberta_hub.checkpoint.fetch.archive import sha256_of
from roberta_hub.checkpoint.fetch.cache import cache_root, read_manifest
from roberta_hub.checkpoint.fetch.catalogue import PUBLISHED, config_of, ships
from roberta_hub.checkpoint.fetch.records import (
    BASE_URL,
    HUGGINGFACE,
    MODELS,
    Origin,
    Record,
    Remote,
)
from roberta_hub.checkpoint.fetch.transfer import Received
from roberta_hub.checkpoint.store import read_safetensors
from roberta_hub.checkpoint.untrusted.scan import survey, survey_archive
from roberta_hub.checkpoint.untrusted.unpickle import NAMES as HARMLESS
from roberta_hub.checkpoint.untrusted.unpickle import is_mapped
from roberta_hub.errors import RobertaHubError
from roberta_hub.hub import RobertaModel
from roberta_hub.shell.doctor import doctor
from roberta_hub.terminal import clean, without_secrets

OFFICIAL = (urlsplit(BASE_URL)[:2], urlsplit(HUGGINGFACE)[:2])
_EXAMPLES = """\
examples:
  roberta-hub scan model.pt                what a file from elsewhere asks for, without running it
  roberta-hub scan --json *.pt *.tar.gz    the same for programs
  roberta-hub doctor --verify              is everything in order, the cached files included

scan exits with 0 if load_model accepts what the files ask for, 1 if anything is refused, 2 if one
is no checkpoint; doctor with 1 if there is a problem; pin with 1 if records contradict each other.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="roberta-hub",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=roberta_hub.__version__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("scan", help="what is inside a checkpoint, without running it")
    verb.add_argument("files", nargs="+", metavar="FILE", type=Path)
    verb.add_argument("--json", action="store_true", help="a list of objects, one a file")
    verb = verbs.add_parser("doctor", help="versions, devices, cache, environment, a self-test")
    verb.add_argument("--verify", action="store_true", help="hash the cached files again")
    verbs.add_parser("pin", help="for maintainers: catalogue rows with the digests on record here")
    verbs.add_parser("models", help="names, sizes, and which are in the cache")
    verbs.add_parser("train", add_help=False, help="pre-train or fine-tune; see train --help")
    given, settings = parser.parse_known_args(arguments)
    if settings and given.verb != "train":
        parser.error(f"unrecognized arguments: {' '.join(settings)}")
    for stream in (sys.stdout, sys.stderr):  # an odd character in a path is no reason to crash
        getattr(stream, "reconfigure", dict)(errors="backslashreplace")
    try:
        if given.verb == "scan":
            return scan_files(given.files, as_json=given.json)
        if given.verb == "doctor":
            return doctor(verify=given.verify)
        if given.verb == "train":
            from roberta_hub.train.run import command  # with all that it needs

            return command(settings)
        return pin() if given.verb == "pin" else models()
    except RobertaHubError as error:
        print(f"roberta-hub: {clean(str(error))}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


# ---- scan ----


def scan_files(files: Sequence[Path], *, as_json: bool = False) -> int:
    """Print what is in each file; 0 accepted, 1 something refused, 2 something is no checkpoint."""
    reports = [_report(path) for path in files]
    print(json.dumps(reports, indent=2) if as_json else "\n\n".join(map(_written, reports)))
    found = {report["status"] for report in reports}
    return next((status for status in (1, 2) if status in found), 0)


def _report(path: Path) -> dict[str, Any]:
    """All facts about one file; `status` as the exit status, `verdict` in words."""
    report: dict[str, Any] = {"path": str(path), "format": None, "status": 2}
    try:
        if path.is_file():
            with open(path, "rb") as file:
                head = file.read(16)
            report |= {"size": path.stat().st_size, "sha256": sha256_of(path)}
            if head.startswith(b"\x1f\x8b"):
                return report | _archive_facts(path)
            if path.suffix == ".safetensors" or head[8:9] == b"{":
                return report | _safetensors_facts(path)
        kind = "zip" if is_mapped(path) else "legacy"  # or an error that says what it is instead
        with open(path, "rb") as file:
            found = survey(file, path.stat().st_size, kind, HARMLESS)
        return report | {"format": f"torch.save, {kind}"} | _pickle_facts(found)
    except (RobertaHubError, OSError) as error:
        return report | {"verdict": f"not a checkpoint: {error}"}


def _pickle_facts(found: Any) -> dict[str, Any]:
    names = [dataclasses.asdict(asked) for asked in found.asked.values()]
    facts: dict[str, Any] = {"names": names, "refusals": found.refusals}
    if found.refusals:
        return facts | {"status": 1, "verdict": "REFUSED by load_model; nothing in it was run"}
    if found.damage:
        why = f"{type(found.damage).__name__}: {str(found.damage)[:200]}"
        return facts | {"status": 2, "verdict": f"not a readable PyTorch checkpoint ({why})"}
    return facts | {"status": 0, "verdict": "load_model accepts all that its pickles ask for"}


def _archive_facts(path: Path) -> dict[str, Any]:
    members, found = survey_archive(path, HARMLESS)
    facts = {"format": "tar.gz", "members": members} | _pickle_facts(found)
    if not members:
        facts |= {"status": 2, "verdict": "not a checkpoint: no archive that can be read"}
    if not path.name.endswith((".tar.gz", ".tgz")):
        facts["note"] = "load_model takes archives by names that end in .tar.gz or .tgz; rename it"
    return facts


def _safetensors_facts(path: Path) -> dict[str, Any]:
    weights = read_safetensors(path)
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
    dtypes = Counter(str(tensor.dtype).removeprefix("torch.") for tensor in weights.values())
    facts: dict[str, Any] = {
        "format": "safetensors",
        "status": 0,
        "verdict": "no pickle, nothing to run; header and tensors are sound",
        "dtypes": dict(dtypes),
        "bytes": sum(tensor.nbytes for tensor in weights.values()),
        "metadata": metadata,
        "tensors": {name: list(tensor.shape) for name, tensor in weights.items()},
    }
    if path.suffix != ".safetensors":
        facts["note"] = "load_model takes safetensors by names that end so; rename it"
    return facts


def _written(report: Mapping[str, Any]) -> str:
    """One file's report as text."""
    lines = [clean(report["path"])]
    for key in ("format", "size", "sha256", "note"):
        if (value := report.get(key)) is not None:
            lines.append(f"  {key:<8} {f'{value:,} bytes' if key == 'size' else value}")
    if "tensors" in report:
        kinds = ", ".join(f"{count} of {dtype}" for dtype, count in report["dtypes"].items())
        lines.append(f"  tensors  {len(report['tensors'])} ({kinds}), {report['bytes']:,} bytes")
        for key, value in [*report["metadata"].items()][:20]:
            lines.append(f"  metadata {clean(key)[:80]} = {clean(value)[:200]}")
    for name, size in [*report.get("members", {}).items()][:50]:
        lines.append(f"  member   {clean(name)[:100]}, {size:,} bytes")
    words = {"tensor": "tensor plumbing", "inert": "inert stand-in", "refused": "REFUSED"}
    for asked in sorted(report.get("names", []), key=lambda asked: asked["verdict"] != "refused"):
        where = f"{asked['times']} x in {clean(asked['where'])}"
        lines.append(f"  {words[asked['verdict']]:<16} {clean(asked['name'])} ({where})")
        lines += [f"      called with {clean(call)}" for call in asked["calls"]]
    lines += [f"  why      {clean(reason)}" for reason in report.get("refusals", [])[:20]]
    return "\n".join([*lines, f"  verdict  {clean(report['verdict'])}"])


# ---- models, pin ----


def models() -> int:
    """Print a table of the catalogue."""
    print(f"{'name':<20} {'alias':<20} {'shape':<9} {'parameters':>11}  cached")
    for record in MODELS:
        with torch.device("meta"):
            model = RobertaModel(config_of(record))
            for head, labels in record.labels.items():
                model.register_classification_head(head, len(labels))
        count = sum(parameter.numel() for parameter in model.parameters())
        shape = f"{model.config.num_layers} x {model.config.embed_dim}"
        places = {
            "yes": download.find_cached,
            "in fairseq's cache": download.find_in_fairseq_cache,
            "in torch.hub's cache": download.find_in_torch_hub,
        }
        cached = "in the package"
        if not ships(record):
            cached = next((place for place, find in places.items() if find(record)), "no")
        print(f"{record.name:<20} {record.aliases[0]:<20} {shape:<9} {count:>11,}  {cached}")
    return 0


def pin() -> int:
    """Print catalogue rows with what this cache has on record; 1 if records contradict."""
    first_use, status = download.known_digests(), 0
    print(f"# From {clean(cache_root() / download.DIGESTS)} and the manifests beside it;")
    print("# paste into checkpoint/fetch/records.py.")
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
    """All digests on record, with their sizes, of each file of a model."""
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
    return [(origin, remote) for origin in record.origins for remote in origin.files]


def _row(
    record: Record, found: Mapping[str, tuple[str, int | None]], manifest: Mapping[str, Any]
) -> str:
    """A row of the catalogue as Python, and where its digests come from as a comment."""
    values = []
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if field.name == "origins":
            origins = "".join(f"{_origin(origin, found)}, " for origin in value)
            values.append(f"    origins=({origins.rstrip()}),")
        elif value != field.default and value:
            values.append(f"    {field.name}={value!r},")
    source = manifest.get("source")
    official = source is None or urlsplit(str(source))[:2] in OFFICIAL
    origin = f"# {record.name}: from {without_secrets(source)}, not from the publisher"
    return "\n".join([*([] if official else [origin]), "Record(", *values, "),"])


def _origin(origin: Origin, found: Mapping[str, tuple[str, int | None]]) -> str:
    """The call in records.py that makes an origin, with the pins on record."""
    pinned = [(remote, *found.get(remote.url, ("", None))) for remote in origin.files]
    if origin.kind == "fairseq":
        ((remote, digest, size),) = pinned
        name = remote.url.removeprefix(f"{BASE_URL}/")
        pins = [f"size={size:_}"] if size else []
        pins += [f"sha256={digest!r}"] if digest else []
        return f"archive({', '.join([repr(name), *pins])})".replace("'", '"')
    name = urlsplit(origin.files[0].url).path.partition("/resolve/")[0].strip("/")
    pins = [
        f"{remote.name.partition('.')[0]}=({size}, {digest!r})"
        for remote, digest, size in pinned
        if digest and size
    ]
    return f"repository({', '.join([repr(name), *pins])})".replace("'", '"')
