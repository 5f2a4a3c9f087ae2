"""Runs `roberta-hub scan`: shows what is inside checkpoints, without running them."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roberta_hub.checkpoint.fetch.archive import sha256_of
from roberta_hub.checkpoint.safetensors import read_safetensors
from roberta_hub.checkpoint.untrusted.opcodes import Survey
from roberta_hub.checkpoint.untrusted.scan import survey, survey_archive
from roberta_hub.checkpoint.untrusted.unpickle import CLASS_NAMES as HARMLESS
from roberta_hub.checkpoint.untrusted.unpickle import is_mapped
from roberta_hub.errors import RobertaHubError
from roberta_hub.terminal import clean


def scan_files(files: Sequence[Path], *, as_json: bool = False) -> int:
    """Print what is in each file."""
    reports = [_report(path) for path in files]
    print(json.dumps(reports, indent=2) if as_json else "\n\n".join(map(_written, reports)))
    found = {report["status"] for report in reports}
    return next((status for status in (1, 2) if status in found), 0)


def _report(path: Path) -> dict[str, Any]:
    """Collect the facts about one file; its `status` is an exit status, its `verdict` words."""
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
    except RobertaHubError as error:
        return report | {"verdict": f"not a checkpoint: {error.in_shell()}"}
    except OSError as error:
        return report | {"verdict": f"not a checkpoint: {error}"}


def _pickle_facts(found: Survey) -> dict[str, Any]:
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
    """Write a file's report as text."""
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
