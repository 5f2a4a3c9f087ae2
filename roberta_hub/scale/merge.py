"""Puts the files of a lake's units together to one."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from roberta_hub.errors import InputError
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.outputs import TEMPORARY, is_local, whole
from roberta_hub.scale.plan import PLAN
from roberta_hub.scale.units import Unit
from roberta_hub.scale.work import GROUP, NOTE, Job, file_name


def check_one_file(system: Any, path: str) -> None:
    """Refuse one file where it cannot be written piece by piece.

    Args:
        system: pyarrow's FileSystem.
        path: on it.
    """
    if not is_local(system):
        raise InputError(
            f"{path}: one file of a whole lake is put together on a disk; in a store give a folder"
        )
    if not os.path.isdir(os.path.dirname(path)):
        raise InputError(f"{os.path.dirname(path)}: no such folder")
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder; give the name of a file")


def merge(job: Job, units: Sequence[Unit], path: str, identity: str) -> None:
    """Write one file with the rows of all units in their order; an older file stays until then.

    Args:
        job: of the plan.
        units: all of the plan; their files are there.
        path: of the one file.
        identity: of the plan, which `merged_rows` asks for.
    """
    parquet = arrow().parquet
    paths = [f"{job.folder}/{file_name(job.fingerprint, unit)}" for unit in units]
    rows = 0
    with (
        whole(job.system, path, job.run) as sink,
        parquet.ParquetWriter(
            sink, parquet.read_schema(paths[0]).remove_metadata(), write_page_checksum=True
        ) as writer,
    ):
        for part in paths:
            for batch in _batches(part):
                writer.write_batch(batch, GROUP)
                rows += len(batch)
        writer.add_key_value_metadata({NOTE: json.dumps({"lake": identity, "rows": rows})})
    discard(job.folder, path)


def _batches(part: str) -> Iterator[Any]:
    """Read a unit's file, and hold its pages against their checksums."""
    pa = arrow()
    try:
        with pa.parquet.ParquetFile(part, page_checksum_verification=True) as file:
            yield from file.iter_batches(GROUP, use_threads=False)
    except (OSError, pa.ArrowInvalid) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's, or it is gone
            raise
        raise InputError(
            f"{part} is damaged: {str(error)[:200]}; remove it, and the same call makes it anew"
        ) from None


def discard(folder: str, path: str) -> None:
    """Remove the units' files of a lake whose one file is there, and what killed merges left.

    The plan goes last, so that a call after a crash in here knows what the rest is.

    Args:
        folder: of the units.
        path: of the one file.
    """
    beside, name = os.path.split(path)
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(folder), key=lambda name: (name == PLAN, name))
        for old in names:
            if old.startswith(("part-", ".part-", "_", "._")):
                os.unlink(os.path.join(folder, old))
        os.rmdir(folder)  # unless it holds what is not ours
    for old in os.listdir(beside):
        if old.startswith(f".{name}.") and old.endswith(TEMPORARY):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(beside, old))


def merged_rows(path: str, identity: str | None) -> int | None:
    """Tell how many rows the one file of a finished lake has; None: it is not this lake's.

    Args:
        path: on this machine.
        identity: of the plan; None: of any.
    """
    try:
        note = json.loads(arrow().parquet.read_metadata(path).metadata[NOTE])
        return int(note["rows"]) if note["lake"] == identity or identity is None else None
    except (OSError, ValueError, KeyError, TypeError):  # none, or another program's
        return None
