"""Writes and reads a state in parts: each process its own, while the training continues.

In place of weights.safetensors and optimizer.pt such a state has a folder `parts`, a checkpoint of
`torch.distributed.checkpoint`: a tensor `model.<name>` for each weight and buffer, and
`optimizer.<name>.<key>` for each of Adam's numbers. Any number of processes reads it, with FSDP and
without. No process holds more than its own part, which is copied before training continues.
"""

from __future__ import annotations

import inspect
import pickle
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

from roberta_hub.train.loop.state import (
    PARTS_FOLDER,
    State,
    begin_state,
    check_shapes,
    commit_state,
    distinct_weights,
    load_state,
    load_without_tensors,
    save_state,
    state_without_tensors,
    unreadable,
    unwritable,
)

_METADATA = "torch.distributed.checkpoint.metadata"
_HARMLESS = {
    *((_METADATA, name) for name in ("Metadata", "MetadataIndex", "StorageMeta")),
    *((_METADATA, f"{kind}StorageMetadata") for kind in ("Tensor", "Bytes", "Chunk")),
    *((_METADATA, name) for name in ("TensorProperties", "_MEM_FORMAT_ENCODING")),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    *(("torch", name) for name in ("Size", "float16", "bfloat16", "float32", "float64")),
    *(("torch", name) for name in ("int64", "int32", "int16", "int8", "uint8", "bool")),
    ("torch.serialization", "_get_layout"),
    *(
        (f"pathlib{room}", name)
        for room in ("", "._local")
        for name in ("PosixPath", "WindowsPath")
    ),
}
"""What a file `.metadata` may name; it is a pickle, and torch would run whatever it asks for."""
_TAKES_ALONE = "no_dist" in inspect.signature(state_dict_saver.save).parameters
_SAVE: Any = state_dict_saver.save if _TAKES_ALONE else state_dict_saver.save_state_dict
_LOAD: Any = state_dict_loader.load if _TAKES_ALONE else state_dict_loader.load_state_dict
"""With torch 2.6 only the functions that `save` and `load` replaced let one process work alone."""


# ---- tensors by name ----


def tensors_of(module: nn.Module, optimizer: Any) -> dict[str, Tensor]:
    """List all tensors of a state by name, without gathering any."""
    found = {f"model.{name}": tensor for name, tensor in distinct_weights(module).items()}
    for group in optimizer.param_groups:
        for name, parameter in zip(group["names"], group["params"], strict=True):
            for key, value in optimizer.state.get(parameter, {}).items():
                found[f"optimizer.{name}.{key}"] = value
    return found


def groups_of(optimizer: Any) -> list[dict[str, Any]]:
    """List the optimizer's groups, which name their parameters and hold none."""
    return [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]


# ---- files ----


def write_parts(work: Path, tensors: Mapping[str, Tensor], group: Any = None) -> None:
    """Write this process's parts; return when all processes of the group have written theirs."""
    writer, alone = FileSystemWriter(work / PARTS_FOLDER), group is None
    with _torch_errors(alone):
        _SAVE(dict(tensors), storage_writer=writer, process_group=group, no_dist=alone)


def read_parts(
    path: Path, state: State, module: nn.Module, optimizer: Any, group: Any = None
) -> None:
    """Read this process's parts into a module and its optimizer."""
    known = _sizes(path)
    live = distinct_weights(module)
    check_shapes(
        {name: tensor.shape for name, tensor in live.items()},
        {name[6:]: about.size for name, about in known.items() if name.startswith("model.")},
        path,
    )
    wanted: dict[str, Tensor] = {f"model.{name}": tensor for name, tensor in live.items()}
    parameters = dict(module.named_parameters())
    moments: dict[str, dict[str, Tensor]] = {}
    for name, about in known.items():
        if name.startswith("optimizer."):
            owner, _, key = name[10:].rpartition(".")
            like = parameters[owner].detach()
            value = torch.zeros_like(like) if about.size == like.shape else torch.zeros(about.size)
            wanted[name] = moments.setdefault(owner, {})[key] = value
    _read(path, wanted, group)
    names = [name for g in state.optimizer["param_groups"] for name in g["names"]]
    if names != [name for g in optimizer.param_groups for name in g["names"]]:
        raise unreadable(path, ValueError("its optimizer has other parameters"))
    optimizer.load_state_dict(numbered(state.optimizer["param_groups"], moments))


def numbered(
    groups: list[dict[str, Any]], moments: Mapping[str, dict[str, Tensor]]
) -> dict[str, Any]:
    """Make an optimizer's state, whose parameters have numbers, of one whose have names."""
    names = [name for group in groups for name in group["names"]]
    places = {name: number for number, name in enumerate(names)}
    return {
        "state": {places[name]: dict(values) for name, values in moments.items()},
        "param_groups": [{**g, "params": [places[n] for n in g["names"]]} for g in groups],
    }


class _Reader(FileSystemReader):
    """Reads a checkpoint without running what its pickle asks for."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        with open(self.path / ".metadata", "rb") as file:  # type: ignore[operator]
            found: Metadata = _Unpickler(file).load()
        for name, about in found.state_dict_metadata.items():
            if not isinstance(about, TensorStorageMetadata):  # those are pickles, too
                raise pickle.UnpicklingError(f"{name} is no tensor")
        return found


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _HARMLESS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def _sizes(path: Path) -> dict[str, TensorStorageMetadata]:
    try:
        found: Any = _Reader(path / PARTS_FOLDER).read_metadata().state_dict_metadata
        return dict(found)
    except Exception as error:  # unpickling damaged bytes raises anything
        raise unreadable(path, error) from None


def _read(path: Path, wanted: dict[str, Tensor], group: Any) -> None:
    reader, alone = _Reader(path / PARTS_FOLDER), group is None
    try:
        with _torch_errors(alone):
            _LOAD(wanted, storage_reader=reader, process_group=group, no_dist=alone)
    except Exception as error:  # of any process
        raise unreadable(path, error) from None


@contextmanager
def _torch_errors(alone: bool) -> Iterator[None]:
    """Raise the cause of torch's error, which lists the traces of all processes."""
    try:
        with warnings.catch_warnings() if alone or not _TAKES_ALONE else nullcontext():
            if alone:
                warnings.filterwarnings("ignore", "torch.distributed is disabled")
            if not _TAKES_ALONE:
                warnings.filterwarnings("ignore", "`(save|load)_state_dict` is deprecated")
            yield
    except CheckpointException as error:  # no Exception, to torch
        first, _ = next(iter(error.failures.values()))
        raise first from None


# ---- one into the other ----


def to_whole(path: Path, directory: Path) -> Path:
    """Write a state that is in parts as one that is whole, in one process."""
    state = load_without_tensors(path)
    tensors = {n: torch.empty(a.size, dtype=a.properties.dtype) for n, a in _sizes(path).items()}
    _read(path, tensors, None)
    for name, tensor in tensors.items():
        if name.startswith("model."):
            state.weights[name[6:]] = tensor
    moments: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            owner, _, key = name[10:].rpartition(".")
            moments.setdefault(owner, {})[key] = tensor
    state.optimizer = numbered(state.optimizer["param_groups"], moments)
    return save_state(directory, state)


def to_sharded(path: Path, directory: Path) -> Path:
    """Write a whole state as one in parts (a single part, which any number of processes reads)."""
    state = load_state(path)
    groups = state.optimizer["param_groups"]
    names = {number: n for g in groups for n, number in zip(g["names"], g["params"], strict=True)}
    tensors = {f"model.{name}": tensor for name, tensor in state.weights.items()}
    for number, values in state.optimizer["state"].items():
        tensors |= {f"optimizer.{names[number]}.{key}": value for key, value in values.items()}
    groups = [{k: v for k, v in g.items() if k != "params"} for g in groups]
    with unwritable(directory / path.name):
        work = begin_state(directory, state.progress.update)
        write_parts(work, tensors)
        return commit_state(work, {**state_without_tensors(state), "param_groups": groups})
