"""The command roberta-hub: scan files before loading them, look after the installation and the cache."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

import roberta_hub
from roberta_hub.checkpoint import download
from roberta_hub.checkpoint.cache import DICTIONARIES, MANIFEST, MODEL, cache_root, is_complete
from roberta_hub.checkpoint.catalogue import BASE_URL, MODELS, Record, alias
from roberta_hub.checkpoint.scan import survey, survey_archive
from roberta_hub.checkpoint.store import read_json, read_safetensors
from roberta_hub.checkpoint.unpickle import _NAMES as HARMLESS
from roberta_hub.checkpoint.unpickle import is_mapped
from roberta_hub.config import BASE, LARGE, RobertaConfig
from roberta_hub.errors import RobertaHubError
from roberta_hub.hub import RobertaModel
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.packing import collate_tokens
from roberta_hub.text.dictionary import Dictionary, Task

ROOM = 3 << 30  # bytes that a first download of roberta.large wants: archive and unpacked files
VARIABLES = (
    *("TORCH_HOME", "XDG_CACHE_HOME", "PYTORCH_FAIRSEQ_CACHE", "REQUESTS_CA_BUNDLE"),
    *(download.OFFLINE_ENV, download.MIRROR_ENV, "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"),
    *("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"),
    *("NO_PROXY", "no_proxy"),
)
NEEDED = ("torch", "tiktoken", "regex", "requests", "safetensors", "filelock", "tqdm")
PACKAGES = (*NEEDED, "numpy", "spacy", "fairseq", "transformers")
_EXAMPLES = """\
examples:
  roberta-hub scan model.pt                what a file from elsewhere asks for, without running it
  roberta-hub scan --json *.pt *.tar.gz    the same for programs
  roberta-hub doctor --verify              is everything in order, the cached files included

scan exits with 0 if load_model accepts what the files ask for, 1 if anything is refused, 2 if one is no
checkpoint; doctor with 1 if there is a problem; pin with 1 if records contradict each other.
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
        print(f"roberta-hub: {_clean(str(error))}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _clean(text: object) -> str:
    """Text from outside, without what a terminal would obey or hide."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text))


def _without_secrets(url: object) -> str:
    """A URL without user, password and query, all of which can be credentials."""
    hidden = re.sub(r"^([a-z][\w+.-]*://)?.*@", r"\1***@", _clean(url), flags=re.IGNORECASE)
    return re.sub(r"\?.*", "?***", hidden)


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.2f} MB"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


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
            report |= {"size": path.stat().st_size, "sha256": _sha256(path)}
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
    lines = [_clean(report["path"])]
    for key in ("format", "size", "sha256", "note"):
        if (value := report.get(key)) is not None:
            lines.append(f"  {key:<8} {f'{value:,} bytes' if key == 'size' else value}")
    if "tensors" in report:
        kinds = ", ".join(f"{count} of {dtype}" for dtype, count in report["dtypes"].items())
        lines.append(f"  tensors  {len(report['tensors'])} ({kinds}), {report['bytes']:,} bytes")
        for key, value in [*report["metadata"].items()][:20]:
            lines.append(f"  metadata {_clean(key)[:80]} = {_clean(value)[:200]}")
    for name, size in [*report.get("members", {}).items()][:50]:
        lines.append(f"  member   {_clean(name)[:100]}, {size:,} bytes")
    words = {"tensor": "tensor plumbing", "inert": "inert stand-in", "refused": "REFUSED"}
    for asked in sorted(report.get("names", []), key=lambda asked: asked["verdict"] != "refused"):
        where = f"{asked['times']} x in {_clean(asked['where'])}"
        lines.append(f"  {words[asked['verdict']]:<16} {_clean(asked['name'])} ({where})")
        lines += [f"      called with {_clean(call)}" for call in asked["calls"]]
    lines += [f"  why      {_clean(reason)}" for reason in report.get("refusals", [])[:20]]
    return "\n".join([*lines, f"  verdict  {_clean(report['verdict'])}"])


# ---- models, pin ----


def models() -> int:
    """Print a table of the catalogue."""
    print(f"{'name':<20} {'alias':<20} {'shape':<9} {'parameters':>11}  cached")
    for record in MODELS:
        with torch.device("meta"):
            model = RobertaModel(record.config)
            for head, labels in record.heads.items():
                model.register_classification_head(head, len(labels))
        count = sum(parameter.numel() for parameter in model.parameters())
        shape = f"{record.config.num_layers} x {record.config.embed_dim}"
        key = record.name if record.sha256 is None else f"{record.name}-{record.sha256[:8]}"
        cached = "yes" if is_complete(cache_root() / key) else "no"
        if cached == "no" and download.find_in_fairseq_cache(record):
            cached = "in fairseq's cache"
        print(f"{record.name:<20} {alias(record.name):<20} {shape:<9} {count:>11,}  {cached}")
    return 0


def pin() -> int:
    """Print catalogue rows with the digests that this cache has on record; 1 if records contradict each other."""
    path, status = cache_root() / download.DIGESTS, 0
    first_use = read_json(path) if path.exists() else {}
    print(f"# From {_clean(path)} and the manifests beside it; paste into checkpoint/catalogue.py.")
    print("# The archives' own sizes are not on record; sizes are those of the unpacked files.")
    for record in MODELS:
        folder = cache_root() / record.name
        manifest = read_json(folder / MANIFEST) if is_complete(folder) else {}
        known = (record.sha256, first_use.get(record.url), manifest.get("archive_sha256"))
        digests = sorted({str(digest) for digest in known if digest is not None})
        if not digests:
            print(f"\n# {record.name}: no digest on record; load it over a network you trust")
        elif len(digests) > 1 or not re.fullmatch("[0-9a-f]{64}", digests[0]):
            status, shown = 1, "\n#   ".join(map(_clean, digests))
            print(f"\n# {record.name}: NOT PINNED, its digests differ or are damaged:\n#   {shown}")
        else:
            print("\n" + _row(record, digests[0], manifest))
    return status


def _row(record: Record, digest: str, manifest: Mapping[str, Any]) -> str:
    """A row of the catalogue as Python, and where its digest comes from as a comment."""
    url = f'f"{{BASE_URL}}{record.url.removeprefix(BASE_URL)}"'
    fields = {
        "name": json.dumps(record.name),
        "url": url if record.url.startswith(BASE_URL) else json.dumps(record.url),
        "config": {BASE: "BASE", LARGE: "LARGE"}.get(record.config, repr(record.config)),
        "heads": repr(dict(record.heads)).replace("'", '"') if record.heads else "",
        "task": json.dumps(record.task) if record.task != "masked_lm" else "",
        "sha256": json.dumps(digest),
    }
    files = manifest.get("files", {}).items()
    comment = [f"# {record.name}: {_clean(name)} {about['size']:,} bytes" for name, about in files]
    source = manifest.get("source")
    if source not in (None, record.url):
        comment.append(f"# downloaded from {_without_secrets(source)}, not from the publisher")
    values = [f"    {name}={value}," for name, value in fields.items() if value]
    return "\n".join([*comment, "Record(", *values, "),"])


# ---- doctor ----


def doctor(*, verify: bool = False) -> int:
    """Print the state of the installation; 1 if there is a problem, each of which comes with its remedy."""
    problems: list[str] = []
    print("\n".join([*_versions(problems), *_cache(problems, verify), "", "Environment"]))
    for name in VARIABLES:
        if name in os.environ:
            print(f"  {name} = {_without_secrets(os.environ[name])}")
    mirror = os.environ.get(download.MIRROR_ENV) or "https://"
    if not re.match(r"https://|http://(localhost|127\.0\.0\.1|\[::1\])(:|/|$)", mirror):
        problems.append(
            f"{download.MIRROR_ENV} is no https URL and is refused; correct or unset it"
        )
    try:
        print(f"\nSelf-test\n  {_self_test()}")
    except Exception as error:  # whatever is broken here is what the doctor was asked to find
        what = f"{type(error).__name__}: {_clean(error)}"
        problems.append(f"self-test: {what}; pip install --force-reinstall roberta-hub's packages")
    print(f"\n{len(problems)} problems" if problems else "\nNo problems")
    print(*(f"  {number}. {text}" for number, text in enumerate(problems, 1)), sep="\n")
    return 1 if problems else 0


def _versions(problems: list[str]) -> Iterator[str]:
    package = Path(roberta_hub.__file__).resolve().parent
    hub = Path(torch.hub.get_dir()).resolve()
    copies = [folder.parent for folder in sorted(hub.glob("*/roberta_hub")) if folder.is_dir()]
    home = "torch.hub's copy" if package.parent in copies else "a checkout"
    kind = "installed" if "site-packages" in package.parts else home
    yield f"roberta_hub {roberta_hub.__version__} from {_clean(package)} ({kind})"
    yield from (f"  torch.hub also has {_clean(c)}" for c in copies if c != package.parent)
    yield f"  Python {platform.python_version()} on {platform.platform()}"
    for name in ("roberta-hub", *PACKAGES):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = "not installed"
        if name == "roberta-hub" and version not in ("not installed", roberta_hub.__version__):
            here = f"{roberta_hub.__version__} from {_clean(package)} is imported"
            problems.append(f"pip has roberta-hub {version}, but {here}; pip uninstall one of them")
        elif version == "not installed" and name in NEEDED:
            problems.append(f"{name} is not installed; pip install {name}")
        yield f"  {name} {version}"
    if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < (2, 10):
        problems.append(
            f"torch {torch.__version__} has CVE-2026-24747: a hostile .pt file can corrupt memory even with "
            "weights_only; pip install -U 'torch>=2.10', until then load pickles of people you trust only"
        )
    cards = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    cards += ["Apple MPS"] if torch.backends.mps.is_available() else []
    yield f"  devices: CPU with {torch.get_num_threads()} threads{''.join(f', {c}' for c in cards)}"


def _cache(problems: list[str], verify: bool) -> Iterator[str]:
    root = cache_root()
    there = next(place for place in (root, *root.parents) if place.exists())
    free, writable = shutil.disk_usage(there).free, os.access(there, os.W_OK | os.X_OK)
    yield f"\nCache {_clean(root)}, {_size(free)} free, {'' if writable else 'NOT '}writable"
    if not writable or free < ROOM:
        problems.append(
            f"{_clean(there)} {f'has less than {_size(ROOM)} free' if writable else 'cannot be written'}: "
            "cached models load, new downloads may fail; make room, or set TORCH_HOME to another folder"
        )
    for folder in sorted(place for place in root.glob("*") if place.is_dir()):
        shown = _clean(folder)
        leftover = re.fullmatch(r"\.(?:incomplete|old)-(.+)~\w+", folder.name)
        if leftover and _in_use(root / f".{leftover[1]}.lock"):
            yield f"  {_clean(leftover[1])}: another process is at work"
        elif leftover:
            problems.append(f"{shown} was left by a killed process; load that model, or delete it")
        elif not (bad := _defects(folder, verify)):
            manifest = read_json(folder / MANIFEST)
            size = sum(about["size"] for about in manifest["files"].values())
            origin = f"from {_without_secrets(manifest.get('source'))}"
            digest = f"archive sha256 {_clean(manifest.get('archive_sha256'))}"
            state = "complete, verified" if verify else "complete"
            yield f"  {_clean(folder.name)}: {state}, {_size(size)}, {digest}, {origin}"
        else:
            problems.append(f"{shown}: {bad}; delete that folder and load the model again")
    for record in MODELS:
        if (found := download.find_in_fairseq_cache(record)) is not None:
            yield f"  {record.name}: also in fairseq's cache, without digest: {_clean(found)}"
    try:
        read_json(root / download.DIGESTS) if (root / download.DIGESTS).exists() else None
    except RobertaHubError as error:
        problems.append(f"{_clean(error)}; restore or delete that file")


def _in_use(lock: Path) -> bool:
    """Whether a process holds this lock; never makes the file."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(lock, timeout=0) if lock.exists() else nullcontext():
            return False
    except OSError as error:  # a Timeout, or a cache that is read-only
        return isinstance(error, Timeout)


def _defects(folder: Path, verify: bool) -> str:
    """What is wrong with a folder of the cache, "" if nothing is."""
    try:
        files = read_json(folder / MANIFEST)["files"]
        checkpoint = next((name for name in files if name not in DICTIONARIES), MODEL)
        if not is_complete(folder, checkpoint):
            return "not complete, files are missing or of another size than its manifest says"
        for name in files if verify else ():
            if _sha256(folder / name) != files[name]["sha256"]:
                return f"{_clean(name)} changed since it was downloaded"
        return ""
    except (RobertaHubError, OSError, LookupError, TypeError, AttributeError) as error:
        return f"its manifest cannot be used ({_clean(error)})"


def _self_test() -> str:
    config = RobertaConfig(embed_dim=16, ffn_dim=32, num_layers=2, num_heads=2, max_positions=32)
    model = RobertaModel(config).eval()
    ids = RobertaHubInterface(config, Task(Dictionary.roberta()), model).encode("Hello world!")
    if ids.tolist() != [0, 31414, 232, 328, 2]:
        raise RobertaHubError(f"'Hello world!' is {ids.tolist()}, not [0, 31414, 232, 328, 2]")
    tokens = collate_tokens([ids, ids[1:3], ids[:4]])  # (3, 5)
    encoder, real = model.encoder.sentence_encoder, tokens.ne(config.padding_idx)
    with torch.no_grad():
        gap = model(tokens, features_only=True)[0] - encoder.finish(encoder.padded(tokens)[-1])
    if not gap[real].abs().max() < 1e-4:
        raise RobertaHubError(f"packed and padded computation differ by {gap[real].abs().max()}")
    return "'Hello world!' has the right ids; packed and padded computation agree"
