"""The folder of a run: it can be written, and every process goes on from the same state in it."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from roberta_hub.checkpoint.store import read_json
from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.train.loop.devices import Devices
from roberta_hub.train.loop.state import find_state


@contextmanager
def claimed(output: str) -> Iterator[Path]:
    """Make a folder and see that it can be written; what stays empty goes again if a run fails.

    Args:
        output: as configured.

    Raises:
        InputError: it cannot be made or written, or what lies there would be in the way of a model.

    Example:
        >>> with claimed(tempfile.mkdtemp() + "/run") as directory:
        ...     directory.is_dir()
        True
    """
    directory = Path(output)
    if not output.strip():
        raise InputError("output is empty; name a folder with output=...")
    made: list[Path] = []
    try:
        try:
            for folder in reversed([directory, *directory.parents]):
                if not os.path.lexists(folder):
                    with suppress(FileExistsError):  # another process was faster
                        folder.mkdir()
                        made.insert(0, folder)
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
        yield directory
    except BaseException:
        for folder in made:
            with suppress(OSError):  # it holds something by now
                folder.rmdir()
        raise


def _check_vacant(directory: Path) -> None:
    """Nothing stands where the run's models and logs go but those of an earlier run."""
    for name in ("best", "last"):
        place = directory / name
        if not place.exists():
            continue
        ours = place.is_dir() and not (place / "model.pt").exists()
        if ours and (place / "config.json").exists():
            try:
                ours = read_json(place / "config.json").get("format") == "roberta_hub"
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


def common_state(devices: Devices, directory: Path, *, resume: bool) -> Path | None:
    """The newest state in a folder, which must be the same one for every process; None: begin anew.

    Args:
        devices: that the processes are.
        directory: as this process knows it.
        resume: False looks for none.

    Raises:
        InputError: the processes have found different states; the message lists them.
    """
    path = find_state(directory) if resume else None
    update = None if path is None else int("".join(filter(str.isdigit, path.name)))
    place = f"{directory.resolve()} on {socket.gethostname()}"
    found = devices.gather((place, update, path and _digest(path)))
    if len({(update, digest) for _, update, digest in found}) == 1:
        return path
    listed = "; ".join(
        f"process {rank}: {place} has {'no state' if update is None else f'update {update}'}"
        for rank, (place, update, _) in enumerate(found)
    )
    raise InputError(
        f"the processes would go on from different states ({listed}). The folder `output` must be "
        "shared by all of them: put it on a file system that every machine sees, or copy the "
        "newest state-* folder to each machine; resume=false begins anew"
    )


def _digest(path: Path) -> str:
    """What tells a state from others of the same update: its generators, clock and sizes."""
    try:
        sizes = [(path / name).stat().st_size for name in ("weights.safetensors", "optimizer.pt")]
        return hashlib.blake2b((path / "run.pt").read_bytes()).hexdigest() + str(sizes)
    except OSError as error:  # `load_state` says what is wrong with it
        return f"unreadable: {error.strerror}"
