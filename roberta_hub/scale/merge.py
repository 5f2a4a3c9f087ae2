"""Merges the files of a lake's units into one."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from roberta_hub.errors import InputError
from roberta_hub.files import short_name
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.outputs import TEMPORARY_ENDING, is_local, write_whole
from roberta_hub.scale.plan import PLAN_FILE
from roberta_hub.scale.units import WorkUnit
from roberta_hub.scale.work import (
    FOOTER_KEY,
    ROW_GROUP_ROWS,
    FooterNote,
    Job,
    file_name,
    read_footer,
    total,
)


def check_one_file(system: Any, path: str) -> None:
    """Refuse a single file where it cannot be written incrementally."""
    if not is_local(system):
        raise InputError(
            f"{path}: one file of a whole lake is joined on a disk; in a store give a folder"
        )
    if not os.path.isdir(os.path.dirname(path)):
        raise InputError(f"{os.path.dirname(path)}: no such folder")
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder; give the name of a file")


def merge(job: Job, units: Sequence[WorkUnit], path: str, identity: str) -> None:
    """Merge the units' files, in order; an older merged file is replaced at the end."""
    parquet = arrow().parquet
    paths = [f"{job.folder}/{file_name(job.fingerprint, unit)}" for unit in units]
    rows = 0
    notes = [note for unit in units if (note := read_footer(job, unit)) is not None]
    with (
        write_whole(job.system, path, job.run) as sink,
        parquet.ParquetWriter(
            sink, parquet.read_schema(paths[0]).remove_metadata(), write_page_checksum=True
        ) as writer,
    ):
        for part in paths:
            for batch in _batches(part):
                writer.write_batch(batch, ROW_GROUP_ROWS)
                rows += len(batch)
        footer = {**total(notes).saved(), "lake": identity, "rows": rows, "units": len(units)}
        writer.add_key_value_metadata({FOOTER_KEY: json.dumps(footer)})
    discard(job.folder, path)


def _batches(part: str) -> Iterator[Any]:
    """Read a unit's file, and verify the checksums of its pages."""
    pa = arrow()
    try:
        with pa.parquet.ParquetFile(part, page_checksum_verification=True) as file:
            yield from file.iter_batches(ROW_GROUP_ROWS, use_threads=False)
    except (OSError, pa.ArrowInvalid) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's, or it is gone
            raise
        raise InputError(
            f"{part} is damaged: {str(error)[:200]}; remove it, and the same call makes it again"
        ) from None


def discard(folder: str, path: str) -> None:
    """Remove the units' files of a merged lake, and leftovers of killed merges.

    The plan goes last, so that a call after a crash recognises the rest.
    """
    parent, name = os.path.split(path)
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(folder), key=lambda name: (name == PLAN_FILE, name))
        for old in names:
            if old.startswith(("part-", ".part-", "_", "._")):
                os.unlink(os.path.join(folder, old))
        os.rmdir(folder)  # unless it holds other files
    for old in os.listdir(parent):
        if old.startswith(f".{short_name(name)}.") and old.endswith(TEMPORARY_ENDING):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(parent, old))


def merged_note(path: str, identity: str | None) -> tuple[FooterNote, int] | None:
    """Counts of a merged file, and its number of units; None if it is not this lake's.

    A file of 0.2.0 does not say how many units it was; it counts as one.
    """
    try:
        note = json.loads(arrow().parquet.read_metadata(path).metadata[FOOTER_KEY])
        if note["lake"] != identity and identity is not None:
            return None
        return FooterNote.read(note), int(note.get("units", 1))
    except (OSError, ValueError, KeyError, TypeError):  # none, or another program's
        return None
