"""Plans a lake once: what decides the answers, the files of the source, and the units."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roberta_hub import __version__
from roberta_hub.arguments import shown
from roberta_hub.errors import InputError
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.layouts import Layout
from roberta_hub.scale.outputs import create, read
from roberta_hub.scale.sources import Source, SourceFile
from roberta_hub.scale.units import Unit, units_of
from roberta_hub.scale.verb import Verb
from roberta_hub.scale.work import Job

PLAN = "_plan.json"
VERSION = 1
"""Of the plan's file."""
WORDS = {
    "model": "the model (its weights, labels or vocabulary)",
    "version": "the version of roberta_hub",
    "keep": "the columns to keep",
    "text": "the columns with the texts",
}
"""What an error calls what differs, where its name does not say it."""


@dataclass(frozen=True)
class Plan:
    """What a lake is made of: as written to `_plan.json`, which nothing changes afterwards."""

    about: dict[str, Any]
    """All that decides the answers, by name."""
    layout: Layout
    format: str
    files: tuple[SourceFile, ...]
    units: tuple[Unit, ...]

    @property
    def fingerprint(self) -> str:
        """Hash what decides the answers, as hex."""
        return hashlib.sha256(json.dumps(self.about, sort_keys=True).encode()).hexdigest()

    def job(self, source: Source, system: Any, folder: str, verb: Verb) -> Job:
        """Return what the units share.

        Args:
            source: of the plan.
            system: pyarrow's FileSystem of the target.
            folder: the target on it.
            verb: of the plan.
        """
        verb = verb.but(threads=self.about["threads"], text=self.layout.text)
        bare = dataclasses.replace(source, files=())
        digest = self.about["model"]
        return Job(bare, self.layout, system, folder, verb, digest, self.fingerprint)


def about(verb: Verb, layout: Layout, digest: str, threads: int, unit_rows: int) -> dict[str, Any]:
    """Collect what decides the answers.

    Args:
        verb: what is asked.
        layout: what is read.
        digest: of the model, whose name decides nothing.
        threads: of a worker.
        unit_rows: about so many rows make a unit.
    """
    told = {
        "verb": verb.verb,
        **verb.names(),
        "threads": threads,
        "model": digest,
        "unit_rows": unit_rows,
    }
    told |= {"text": list(layout.text), "keep": layout.keep.names, "version": __version__}
    return dict(sorted(told.items()))


def identity(told: dict[str, Any], files: Sequence[SourceFile]) -> str:
    """Hash what decides the answers and the files of the source, as hex."""
    every = [told, [dataclasses.astuple(file) for file in files]]
    return hashlib.sha256(json.dumps(every, sort_keys=True).encode()).hexdigest()


def planned(told: dict[str, Any], layout: Layout, source: Source) -> Plan:
    """Plan the units of a source.

    Args:
        told: what `about` gave.
        layout: what is read.
        source: the files.
    """
    units = units_of(source, layout, told["unit_rows"])
    return Plan(told, layout, source.format, source.files, tuple(units))


def check_same(plan: Plan, told: dict[str, Any], source: Source, where: str) -> None:
    """Refuse to go on with a plan where the answers would be others.

    Args:
        plan: that is there.
        told: what `about` gives now.
        source: as it is now.
        where: the target, for the message.

    Raises:
        InputError: something differs; the message names it.
    """
    both = plan.about.keys() | told.keys()
    other = [name for name in sorted(both) if plan.about.get(name) != told.get(name)]
    if other:
        name = other[0]
        values = (
            ""
            if name == "model"
            else (f": it was {shown(plan.about.get(name))} and is {shown(told.get(name))}")
        )
        more = f"; also {', '.join(WORDS.get(n, n) for n in other[1:])}" if other[1:] else ""
        raise InputError(
            f"{where} was begun with something else, and its files would not fit together. "
            f"What differs is {WORDS.get(name, name)}{values}{more}. Give another target, or what "
            "it was begun with"
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
    """Write a plan where none is.

    Args:
        plan: what to write.
        system: pyarrow's FileSystem.
        folder: the target on it.

    Returns:
        Whether it was written; False: another driver was faster.
    """
    numbers = {file.path: k for k, file in enumerate(plan.files)}
    layout = plan.layout
    keep = base64.b64encode(layout.keep.serialize().to_pybytes()).decode()
    content = {
        "plan": VERSION,
        "about": plan.about,
        "source": {
            "format": plan.format,
            "text": layout.text,
            "header": layout.header,
            "separator": layout.separator,
            "keep": keep,
            "files": [dataclasses.astuple(file) for file in plan.files],
        },
        "units": [
            (numbers[unit.file], unit.start, unit.stop, unit.first, unit.rows)
            for unit in plan.units
        ],
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return create(system, f"{folder}/{PLAN}", text.encode())


def load(system: Any, folder: str) -> Plan | None:
    """Read the plan of a folder; None: it has none.

    Raises:
        InputError: the file is damaged, or of another version.
    """
    data = read(system, f"{folder}/{PLAN}")
    if data is None:
        return None
    try:
        content = json.loads(data)
        if content["plan"] != VERSION:
            raise ValueError(f"version {content['plan']}, this package reads {VERSION}")
        source = content["source"]
        pa = arrow()
        keep = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(source["keep"])))
        layout = Layout(tuple(source["text"]), keep, tuple(source["header"]), source["separator"])
        files = tuple(SourceFile(*file) for file in source["files"])
        units = tuple(_units(files, content["units"]))
        return Plan(content["about"], layout, source["format"], files, units)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(
            f"{folder}/{PLAN} is no plan of a lake ({str(error)[:100]}); give another target"
        ) from None


def _units(files: Sequence[SourceFile], rows: Sequence[Sequence[int]]) -> list[Unit]:
    return [
        Unit(number, files[k].path, files[k].size, files[k].changed, *place)
        for number, (k, *place) in enumerate(rows)
    ]
