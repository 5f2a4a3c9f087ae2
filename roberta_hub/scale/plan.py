"""Plans a lake once: the settings, the files of the source, and the units."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.outputs import create, read
from roberta_hub.scale.source_schema import SourceSchema
from roberta_hub.scale.sources import LakeSource, SourceFile
from roberta_hub.scale.units import WorkUnit, plan_units
from roberta_hub.scale.verb import Verb
from roberta_hub.scale.work import Job
from roberta_hub.version import version

PLAN_FILE = "_plan.json"
PLAN_VERSION = 1
"""Version of the plan's file format."""
SAME_ANSWERS = frozenset({"0.3.0.dev0", "0.3.0", "0.4.0.dev0"})
"""Versions that answer alike, bit for bit (benchmarks/same_bytes.py): one finishes what another
began. A version that changes an answer begins this set anew."""
SETTING_NAMES = {
    "model": "the model (its weights, labels or vocabulary)",
    "version": "the version of roberta_hub",
    "keep": "the columns to keep",
    "text": "the columns with the texts",
    "ranges": "the ranges of int8 vectors",
}
"""Names of settings in error messages, where the key is not clear by itself."""


@dataclass(frozen=True)
class Plan:
    """Plan of a lake, as written to `_plan.json`; it never changes afterwards."""

    settings: dict[str, Any]
    """Every setting that the answers depend on, by name."""
    source_schema: SourceSchema
    format: str
    files: tuple[SourceFile, ...]
    units: tuple[WorkUnit, ...]
    named: tuple[str, str] | None = None
    """Name and commit of a model at Hugging Face; None: the model is another's, or a path."""

    @property
    def fingerprint(self) -> str:
        """Hash of the settings, as hex."""
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()

    def job(self, source: LakeSource, system: Any, folder: str, verb: Verb) -> Job:
        """Return the job that the units share."""
        verb = verb.replace(threads=self.settings["threads"], text=self.source_schema.text)
        bare = dataclasses.replace(source, files=())
        digest = self.settings["model"]
        return Job(bare, self.source_schema, system, folder, verb, digest, self.fingerprint)


def collect_settings(
    verb: Verb, source_schema: SourceSchema, digest: str, threads: int, unit_rows: int
) -> dict[str, Any]:
    """Collect the settings that the answers depend on."""
    arguments = verb.arguments()
    del arguments["revision"]  # the digest stands for it
    settings = {
        "verb": verb.verb,
        **arguments,
        "threads": threads,
        "model": digest,
        "unit_rows": unit_rows,
    }
    settings |= {
        "text": list(source_schema.text),
        "keep": source_schema.keep.names,
        "version": version(),
    }
    return dict(sorted(settings.items()))


def lake_digest(settings: dict[str, Any], files: Sequence[SourceFile]) -> str:
    """Hash of the settings and the files of the source, as hex."""
    every = [settings, [dataclasses.astuple(file) for file in files]]
    return hashlib.sha256(json.dumps(every, sort_keys=True).encode()).hexdigest()


def make_plan(
    settings: dict[str, Any],
    source_schema: SourceSchema,
    source: LakeSource,
    named: tuple[str, str] | None = None,
) -> Plan:
    """Plan the units of a source."""
    units = plan_units(source, source_schema, settings["unit_rows"])
    return Plan(settings, source_schema, source.format, source.files, tuple(units), named)


def check_same(plan: Plan, settings: dict[str, Any], source: LakeSource, where: str) -> None:
    """Refuse to continue a plan with other settings or files."""
    both = plan.settings.keys() | settings.keys()
    other = [
        name
        for name in sorted(both)
        if plan.settings.get(name) != settings.get(name)
        and not (name == "version" and {plan.settings.get(name), settings[name]} <= SAME_ANSWERS)
    ]
    if other:
        name = other[0]
        values = (
            ""
            if name == "model"
            else (
                f": it was {short_repr(plan.settings.get(name))} and is "
                f"{short_repr(settings.get(name))}"
            )
        )
        more = (
            f"; also {', '.join(SETTING_NAMES.get(n, n) for n in other[1:])}" if other[1:] else ""
        )
        raise InputError(
            f"{where} was begun with something else, and its files would not fit together. "
            f"What differs is {SETTING_NAMES.get(name, name)}{values}{more}. Give another target, "
            "or what it was begun with"
        )
    before, now = ({file.path: file for file in files} for files in (plan.files, source.files))
    for path in sorted(before.keys() | now.keys()):
        if before.get(path) != now.get(path):
            what = "is new" if path not in before else "is gone" if path not in now else "changed"
            raise InputError(
                f"{where} was begun with another source: {path} {what} since. Give another target, "
                "or the files as they were"
            )


# ---- the file ----


def save(plan: Plan, system: Any, folder: str) -> bool:
    """Write a plan, unless there is one."""
    numbers = {file.path: k for k, file in enumerate(plan.files)}
    source_schema = plan.source_schema
    keep = base64.b64encode(source_schema.keep.serialize().to_pybytes()).decode()
    content = {
        "plan": PLAN_VERSION,
        "about": plan.settings,
        "named": plan.named,
        "source": {
            "format": plan.format,
            "text": source_schema.text,
            "header": source_schema.header,
            "separator": source_schema.separator,
            "keep": keep,
            "files": [dataclasses.astuple(file) for file in plan.files],
        },
        "units": [
            (numbers[unit.file], unit.start, unit.stop, unit.first, unit.rows)
            for unit in plan.units
        ],
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return create(system, f"{folder}/{PLAN_FILE}", text.encode())


def load(system: Any, folder: str) -> Plan | None:
    """Read the plan of a folder; None: it has none."""
    data = read(system, f"{folder}/{PLAN_FILE}")
    if data is None:
        return None
    try:
        content = json.loads(data)
        if content["plan"] != PLAN_VERSION:
            raise ValueError(f"version {content['plan']}, this package reads {PLAN_VERSION}")
        source = content["source"]
        pa = arrow()
        keep = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(source["keep"])))
        source_schema = SourceSchema(
            tuple(source["text"]), keep, tuple(source["header"]), source["separator"]
        )
        files = tuple(SourceFile(*file) for file in source["files"])
        units = tuple(_units(files, content["units"]))
        name, commit = content.get("named") or (None, None)  # which 0.2.0 did not write
        named = None if name is None else (str(name), str(commit))
        return Plan(content["about"], source_schema, source["format"], files, units, named)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(
            f"{folder}/{PLAN_FILE} is no plan of a lake ({str(error)[:100]}); give another target"
        ) from None


def _units(files: Sequence[SourceFile], rows: Sequence[Sequence[int]]) -> list[WorkUnit]:
    return [
        WorkUnit(number, files[k].path, files[k].size, files[k].changed, *place)
        for number, (k, *place) in enumerate(rows)
    ]
