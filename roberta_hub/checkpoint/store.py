"""Reads and writes our own format: model.safetensors, which is mapped, and config.json.

There is no pickle in it. config.json is written last, so a directory that has it is complete.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub.arguments import brief
from roberta_hub.checkpoint.checkpoint import (
    VERSION,
    Checkpoint,
    distinct,
    plain_inputs,
    read_dictionary,
)
from roberta_hub.checkpoint.tensors import check_plain, own
from roberta_hub.config import RobertaConfig
from roberta_hub.errors import CheckpointError, MissingExtraError
from roberta_hub.files import MAX_JSON, check_regular, read_json, replacing, write_files, write_json
from roberta_hub.sentence_settings import SentenceSettings

FORMAT_VERSION = 1
_WEIGHTS = "model.safetensors"
_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""How safetensors names the dtypes that `check_plain` accepts."""


def read_store(
    directory: Path, dtype: torch.dtype | None = None, *, file: Path | None = None
) -> Checkpoint:
    """Read a directory that `write_store` wrote.

    Weights that are wanted in the file's dtype stay mapped: we replace our files and never rewrite
    them, so what is mapped cannot change.

    Args:
        directory: holds config.json.
        dtype: of the weights; None widens half precision to float32.
        file: the weights; None: model.safetensors. A file of another name is not ours to trust,
            and is copied.

    Raises:
        CheckpointError: files missing, damaged, or written by a newer version.
    """
    path = directory / "config.json"
    about = read_json(path)
    version = about.get("version")
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: format version {brief(version)}, this package reads {FORMAT_VERSION}; was it "
            "written by a newer roberta_hub? Install that one"
        )
    ours = file is None or file == directory / _WEIGHTS
    weights = read_safetensors(directory / _WEIGHTS if file is None else file)
    weights = own(weights, dtype, "our file" if ours else "file")
    weights[VERSION] = torch.tensor([3.0])
    try:
        model = dict(about["model"].items())
        kept = model.pop("layers_to_keep", None)  # 0.1.0 wrote it, always null
        if kept is not None and not isinstance(kept, list):
            raise TypeError(
                f"layers_to_keep is {brief(kept)}: not iterable, must be a list or null"
            )
        labels = {str(head): tuple(map(str, given)) for head, given in about["labels"].items()}
        inputs = {**about.get("inputs", {})}  # which 0.1.0 did not write
        if plain_inputs(inputs) != inputs:
            raise ValueError(f"inputs is {brief(inputs)}, each must be 'one' or 'pair'")
        own_head = about.get("own_head")
        if own_head is not None and not isinstance(own_head, str):
            raise TypeError(f"own_head is {brief(own_head)}, must be a name or null")
        task, init_token = str(about["task"]), about.get("init_token")
        family = about.get("family", "roberta")  # which 0.1.0 did not write
        if not isinstance(family, str):
            raise TypeError(f"family is {brief(family)}, must be a name")
        config = RobertaConfig(**model)
        sentence = about.get("sentence")
        sentence = None if sentence is None else SentenceSettings(**sentence)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: not a configuration that `save` wrote ({type(error).__name__}: {error}); "
            "restore the file"
        ) from None
    return Checkpoint(
        config=config,
        weights=weights,
        source=str(directory if ours else file),
        dictionary=read_dictionary(directory / "dict.txt"),
        label_dictionary=read_dictionary(directory / "label_dict.txt"),
        labels={head: distinct(given, head, str(directory)) for head, given in labels.items()},
        own_head=own_head,
        inputs=inputs,
        task=task,
        init_token=init_token if isinstance(init_token, int) else None,
        family=family,
        sentence=sentence,
    )


def write_store(checkpoint: Checkpoint, directory: Path) -> None:
    """Write model.safetensors, config.json, and dict.txt where the vocabulary is not RoBERTa's."""
    directory.mkdir(parents=True, exist_ok=True)
    weights = {k: v for k, v in checkpoint.weights.items() if k != VERSION}
    write_safetensors(directory / _WEIGHTS, weights, {"format": "pt"})
    files = {"dict.txt": checkpoint.dictionary, "label_dict.txt": checkpoint.label_dictionary}
    write_files(directory, {name: data for name, data in files.items() if data is not None})
    about = {
        "format": "roberta_hub",
        "version": FORMAT_VERSION,
        "model": checkpoint.config.to_dict(),
        "labels": {head: list(labels) for head, labels in checkpoint.labels.items()},
        "own_head": checkpoint.own_head,
        "inputs": checkpoint.inputs,
        "task": checkpoint.task,
        "init_token": checkpoint.init_token,
        "family": checkpoint.family,
    }
    if checkpoint.sentence is not None:
        about["sentence"] = checkpoint.sentence.to_dict()
    write_json(directory / "config.json", about)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Map the tensors of a safetensors file.

    Raises:
        CheckpointError: no such file, or a damaged one.
    """
    return read_safetensors_and_metadata(path)[0]


def read_safetensors_and_metadata(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Map the tensors of a safetensors file; return its writer's strings too.

    Raises:
        CheckpointError: no such file, or a damaged one.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:  # torch.hub's users may lack it (`dependencies` in hubconf.py)
        raise MissingExtraError(
            f"{path} is read with safetensors, which is not installed: pip install safetensors"
        ) from None
    check_regular(path)
    try:
        _check_header(path)
        with safe_open(path, framework="pt") as file:
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = dict(file.metadata() or {})
    except FileNotFoundError:
        raise CheckpointError(f"Model file not found: {path} does not exist") from None
    except (
        SafetensorError,
        RuntimeError,
        AttributeError,
        TypeError,
        OSError,
        ValueError,
        RecursionError,
    ) as error:
        raise CheckpointError(
            f"{path}: not a readable safetensors file, probably truncated or damaged ({error}); "
            "download or copy it again"
        ) from None
    for name, tensor in weights.items():
        check_plain(tensor, name, str(path))
    return weights, metadata


def _check_header(path: Path) -> None:
    """Refuse a header with one name twice, which safetensors itself accepts."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > MAX_JSON:
            raise ValueError(f"header of {length:,} bytes, the limit is {MAX_JSON:,}")
        header = file.read(length)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name stands twice in the header")
        return found

    json.loads(header, object_pairs_hook=unique)


def write_safetensors(path: Path, weights: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file, one tensor after another.

    `safetensors.torch.save_file` would hold a second copy of them all. Two tensors that share
    memory are both written.

    Args:
        path: replaced when the new file is complete.
        weights: by name.
        metadata: strings that `read_safetensors_and_metadata` returns.
    """
    # Wide numbers come first: every tensor then begins at a multiple of its element size.
    names = sorted(weights, key=lambda name: (-weights[name].element_size(), name))
    header: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for name in names:
        tensor, start = weights[name], end
        end += tensor.numel() * tensor.element_size()
        kind = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape)}
        header[name] = {**kind, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            tensor = weights[name].detach().cpu().contiguous()
            size = tensor.numel() * tensor.element_size()
            # The tensor's own memory as a buffer; tensor.numpy() knows no bfloat16.
            file.write((ctypes.c_char * size).from_address(tensor.data_ptr()) if size else b"")
