"""Writes and reads the state of a run, from which a killed run resumes bit for bit.

A state is a folder `state-<update>` with weights.safetensors, optimizer.pt and run.pt; the last two
hold nothing but tensors, numbers and strings, and no class of this package. (`sharded.py` has a
folder of parts in place of the first two.) It is written next to the older one, flushed to the disk
and renamed; only then is the older one deleted. So the newest folder is whole whenever the process
dies.
"""

from __future__ import annotations

import random
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from roberta_hub.checkpoint.safetensors import read_safetensors, write_safetensors
from roberta_hub.config import RobertaConfig
from roberta_hub.errors import CheckpointError, InputError
from roberta_hub.files import publish_folder, reason_of
from roberta_hub.terminal import clean
from roberta_hub.train.data.digests import DIGEST, TRAINING_DATA
from roberta_hub.train.reports import first_process
from roberta_hub.train.settings import Config

STATE_VERSION = 1
PARTS_FOLDER = "parts"
"""The folder of tensors inside a state that is in parts, see `sharded.py`."""


@dataclass
class Progress:
    """Where a run is."""

    update: int = 0
    """Updates done."""
    epoch: int = 0
    index: int = 0
    """The next update's place in the epoch's plan."""
    best: float | None = None
    best_update: int | None = None
    evaluated: int = -1
    """The update after which the last evaluation ran."""
    worse: int = 0
    """Evaluations since the best one."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Numbers of the last evaluation."""
    seconds: float = 0.0
    """Time spent in updates, over all starts of the run."""
    watch: dict[str, Any] = field(default_factory=dict)
    """What `DivergenceMonitor` remembers."""


@dataclass
class State:
    """Everything that the next update depends on."""

    weights: dict[str, Tensor]
    """By name; tied tensors once."""
    optimizer: dict[str, Any]
    progress: Progress
    generators: list[dict[str, Any]]
    """The random generators of each process."""
    identity: dict[str, Any]
    """What must be the same when a run continues from here."""
    scaler: dict[str, Any] = field(default_factory=dict)
    """fp16's loss scale."""


def distinct_weights(module: nn.Module) -> dict[str, Tensor]:
    """List parameters and buffers by name, tied ones once, each as this process holds it."""
    found: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        found.setdefault(id(tensor), (name, tensor.detach()))
    return dict(found.values())


def put_weights(module: nn.Module, weights: Mapping[str, Tensor], where: object) -> None:
    """Copy weights into a module in place; CheckpointError if names or shapes differ."""
    live = distinct_weights(module)
    check_shapes(
        {name: tensor.shape for name, tensor in live.items()},
        {name: tensor.shape for name, tensor in weights.items()},
        where,
    )
    with torch.no_grad():
        for name, tensor in live.items():
            tensor.copy_(weights[name])


def check_shapes(
    live: Mapping[str, torch.Size], saved: Mapping[str, torch.Size], where: object
) -> None:
    """Raise CheckpointError if the names or shapes of a state's weights are not the model's."""
    differing = sorted(set(live) ^ set(saved))
    differing += [name for name in live if name in saved and live[name] != saved[name]]
    if differing:
        raise CheckpointError(
            f"{where} is of another model: {', '.join(differing[:3])} differ in name or shape; "
            "choose another output folder, or resume=false to start over"
        )


def save_state(directory: Path, state: State) -> Path:
    """Write a state into `directory`; delete older ones when it is whole."""
    with unwritable(directory / f"state-{state.progress.update:09d}"):
        work = begin_state(directory, state.progress.update)
        write_safetensors(work / "weights.safetensors", state.weights, {"format": "pt"})
        torch.save(state.optimizer, work / "optimizer.pt")
        return commit_state(work, state_without_tensors(state))


def state_without_tensors(state: State) -> dict[str, Any]:
    """Contents of run.pt: a state without weights and moments."""
    return {
        "version": STATE_VERSION,
        "progress": asdict(state.progress),
        "generators": state.generators,
        "identity": state.identity,
        "scaler": state.scaler,
    }


def begin_state(directory: Path, update: int) -> Path:
    """Make the folder for a new state, next to the older one."""
    directory.mkdir(parents=True, exist_ok=True)
    for leftover in directory.glob(".state-*.partial"):
        shutil.rmtree(leftover, ignore_errors=True)
    work = partial_of(directory / f"state-{update:09d}")
    work.mkdir()
    return work


def partial_of(target: Path) -> Path:
    """Name the folder that a state is written into before it gets its own name."""
    return target.with_name(f".{target.name}.partial")


def commit_state(work: Path, rest: Mapping[str, Any]) -> Path:
    """Write run.pt, put the folder into its place, and delete older states."""
    directory, target = work.parent, work.with_name(work.stem[1:])
    torch.save(dict(rest), work / "run.pt")
    # The same update may be there, after an evaluation say: `find_state` knows its name in between.
    publish_folder(work, target, directory / f".{target.name}.old")
    for path in [*directory.glob("state-*"), *directory.glob(".state-*")]:
        if path != target:
            shutil.rmtree(path, ignore_errors=True)
    return target


@contextmanager
def unwritable(target: Path) -> Iterator[None]:
    """Say in one sentence that a state cannot be written, and that the one before is there."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: torch.save, a full disk
        shutil.rmtree(partial_of(target), ignore_errors=True)
        raise CheckpointError(
            f"{target}: the state cannot be written ({reason_of(error)}); the one before is as it "
            "was. Free some room, then start again to resume from there"
        ) from error


def find_state(directory: Path) -> Path | None:
    """Find the newest whole state in a folder."""
    found = [p for p in directory.glob("state-*") if re.fullmatch(r"state-\d+", p.name)]
    # A death between the two renames of `publish_folder` leaves the state of that update under this
    # name.
    old = list(directory.glob(".state-*.old"))
    if not found and not old:
        return None
    return max([*found, *old], key=lambda p: (int(re.sub(r"\D", "", p.name)), p in found))


def is_sharded(path: Path) -> bool:
    """Tell whether a state is in parts."""
    return (path / PARTS_FOLDER).is_dir()


def load_state(path: Path) -> State:
    """Read a state."""
    weights = read_safetensors(path / "weights.safetensors")
    optimizer = _read(path, "optimizer.pt")
    return replace(load_without_tensors(path), weights=weights, optimizer=optimizer)


def load_without_tensors(path: Path) -> State:
    """Read a state without its weights and moments."""
    rest = _read(path, "run.pt")
    try:
        if rest["version"] != STATE_VERSION:
            raise CheckpointError(
                f"{path}: state version {rest['version']}, this package reads "
                f"{STATE_VERSION}; was it written by a newer "
                "roberta_hub? Install that one"
            )
        return State(
            weights={},
            optimizer={"param_groups": rest.get("param_groups", [])},
            progress=Progress(**rest["progress"]),
            generators=rest["generators"],
            identity=rest["identity"],
            scaler=rest["scaler"],
        )
    except CheckpointError:
        raise
    except Exception as error:  # damaged, but readable, bytes
        raise unreadable(path, error) from None


def _read(path: Path, name: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = torch.load(path / name, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling damaged bytes raises anything
        raise unreadable(path, error) from None
    return found


def unreadable(path: Path, error: Exception) -> CheckpointError:
    """Make the error about a state that cannot be read."""
    return CheckpointError(
        f"{path}: not a readable state ({type(error).__name__}: "
        f"{clean((str(error).splitlines() or [''])[0])}); delete it, or resume=false to start over"
    )


def check_same(path: Path, was: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse a state of another run.

    A state of an older version has no digests of the data: the run resumes, with a warning.
    """
    # An older version may not know a field; it had what is the default now.
    was = _without_paths({**_of_model(RobertaConfig()), **_of_settings(Config()), **was})
    if TRAINING_DATA in now and TRAINING_DATA not in was:
        now = {name: value for name, value in now.items() if not name.startswith(DIGEST)}
        if first_process():
            warnings.warn(
                f"{path} was written by a version that keeps no digest of its data: the run "
                "resumes, and whether texts and labels are those that it began with is not known",
                stacklevel=6,
            )
    differ = [
        f"{name} was {was.get(name)!r} and is now {now.get(name)!r}"
        for name in sorted({*was, *now})
        if was.get(name) != now.get(name)
    ]
    if differ:
        raise InputError(
            f"{path} belongs to another run: "
            f"{'; '.join(differ[:6])}{f'; and {len(differ) - 6} more' if len(differ) > 6 else ''}. "
            "Set them back to resume, choose another output folder, or resume=false to start over"
        )


CHANGEABLE_FIELDS = ("loop", "output", "resume", "pretrained", "model", "restore")
"""Sections and fields that may change when a run resumes: they set its end and its
paths. Where the model came from no longer matters, but its architecture does."""


def identity_of(
    config: Config,
    model: RobertaConfig,
    total: int,
    warmup: int,
    lengths: Sequence[int],
    digests: Mapping[str, str],
) -> dict[str, Any]:
    """List what decides the numbers of a run, in a flat dict."""
    found: dict[str, Any] = _of_model(model) | _of_settings(config)
    found["optimizer.total_updates"], found["optimizer.warmup_updates"] = total, warmup
    counts = {"training examples": len(lengths), "their tokens": sum(lengths)}
    return _without_paths(found) | counts | dict(digests)


def _of_settings(config: Config) -> dict[str, Any]:
    found: dict[str, Any] = {"loop.precision": config.loop.precision}
    for section, value in asdict(config).items():
        if section in CHANGEABLE_FIELDS:
            continue
        for key, item in value.items() if isinstance(value, dict) else [("", value)]:
            found[f"{section}.{key}".rstrip(".")] = item
    for name in (
        "data.train",
        "data.valid",
        "data.vocabulary",
    ):  # the data itself counts, wherever it is now
        found.pop(name)
    found.pop("optimizer.width")  # it has done its work: the rate is that of the model's width
    return found


def _without_paths(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out where the data of side tasks is: what it holds has a digest."""
    options = dict(identity.get("task.options") or {})
    if options.get("rehearse") is not None:
        options["rehearse"] = "text"
    if sides := options.get("beside"):
        options["beside"] = [{**side, "train": "data"} for side in sides]
    return {**identity, "task.options": options}


def _of_model(model: RobertaConfig) -> dict[str, Any]:
    return {f"model's {name}": value for name, value in model.to_dict().items()}


# ---- generators ----


def seed_generators(seed: int, rank: int) -> None:
    """Seed every generator of this process, each process differently."""
    mixed = (seed * 1_000_003 + rank) % 2**32
    random.seed(mixed)
    torch.manual_seed(mixed)  # CUDA's too
    _numpy().seed(mixed)


def generators() -> dict[str, Any]:
    """Read the state of every generator of this process, as tensors and numbers."""
    kind, keys, position, has_gauss, cached = _numpy().get_state()
    cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return {
        "python": random.getstate(),
        "numpy": (kind, torch.from_numpy(keys.astype("int64")), position, has_gauss, cached),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if cuda else None,
    }


def set_generators(state: Mapping[str, Any]) -> None:
    """Set every generator of this process to a state that `generators` read."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    _numpy().set_state((kind, keys.numpy().astype("uint32"), position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


@contextmanager
def restore_generators_after() -> Iterator[None]:
    """Restore every generator after the block, whatever was drawn inside."""
    before = generators()
    try:
        yield
    finally:
        set_generators(before)


def _numpy() -> Any:
    import numpy as np

    return np.random
