"""Claims the folder that a run writes into, before a model is fetched for it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.folder import Folder
from roberta_hub.formats.ours import OURS
from roberta_hub.formats.source import formats_in
from roberta_hub.signals import cleared
from roberta_hub.train.reports import first_process


@contextmanager
def claim_folder(output: str) -> Iterator[Path]:
    """Make a folder, check that it can be written, and keep other runs out of it.

    If the run fails, or a signal ends it, the folders that were made and stayed empty are removed.

    Example:
        >>> with claim_folder(tempfile.mkdtemp() + "/run") as directory:
        ...     directory.is_dir()
        True
    """
    directory = Path(output)
    if not output.strip():
        raise InputError("output is empty; name a folder with output=...")
    made: list[Path] = []

    def clear() -> None:
        for folder in made:
            with suppress(OSError, ValueError):  # it holds something by now, or is no name
                folder.rmdir()

    with cleared(clear):
        try:
            for folder in reversed([directory, *directory.parents]):
                if not os.path.lexists(folder):
                    made.insert(0, folder)
                    try:
                        folder.mkdir()
                    except FileExistsError:  # another process was faster
                        made.remove(folder)
            with tempfile.NamedTemporaryFile(dir=directory, prefix=".probe-") as probe:
                probe.write(b"\0")
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            why = getattr(error, "strerror", None) or error
            if os.path.exists(output) and not os.path.isdir(output):
                why = "that is a file"
            raise InputError(
                f"output={output[:200]}: cannot be written ({why}); name another folder with "
                "output=..."
            ) from None
        _check_vacant(directory)
        with _alone(directory):
            yield directory
        made.clear()  # also an empty one stays after a run


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Refuse a folder into which a run of another process writes; the first process of a run asks.

    A run that claims its folder twice gets it twice.
    """
    lock = FileLock(directory / ".run.lock", timeout=0, is_singleton=True)
    locked = False

    def clear() -> None:
        if locked:
            lock.release()
            if not lock.is_locked:
                with suppress(OSError):
                    os.unlink(lock.lock_file)

    with cleared(clear):
        try:
            if first_process():
                lock.acquire()
                locked = True
        except Timeout:
            raise InputError(
                f"output={directory}: another run writes there; wait until it has ended, or name "
                "another folder with output=..."
            ) from None
        except (OSError, NotImplementedError):  # a file system without locks
            pass
        yield


def _check_vacant(directory: Path) -> None:
    """Refuse a folder that holds something else where the run's models and logs go."""
    for name in ("best", "last"):
        place = directory / name
        if not place.exists():
            continue
        try:
            ours = place.is_dir() and formats_in(Folder(place)) <= {OURS.name}
        except CheckpointError:
            ours = False
        if not ours:
            raise InputError(
                f"{place} is not a model that a run left, and would be in the way of one; move it, "
                "or name another folder with output=..."
            )
    for name in ("log.csv", "valid.csv", "train.json"):
        if (directory / name).exists() and not (directory / name).is_file():
            raise InputError(f"{directory / name} is no file, and in the way of one; move it")
