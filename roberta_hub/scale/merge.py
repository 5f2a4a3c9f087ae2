"""Puts the files of a lake's units together to one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from roberta_hub.errors import InputError
from roberta_hub.scale.columns import arrow
from roberta_hub.scale.outputs import is_local, whole
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
            with parquet.ParquetFile(part) as file:
                for batch in file.iter_batches(GROUP, use_threads=False):
                    writer.write_batch(batch, GROUP)
                    rows += len(batch)
        writer.add_key_value_metadata({NOTE: json.dumps({"lake": identity, "rows": rows})})
    job.system.delete_dir(job.folder)


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
