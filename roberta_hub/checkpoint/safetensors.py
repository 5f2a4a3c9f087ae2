"""Maps and writes safetensors files, and refuses those that are damaged."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from roberta_hub.checkpoint.tensors import check_plain
from roberta_hub.errors import CheckpointError, MissingExtraError
from roberta_hub.files import MAX_JSON_BYTES, check_regular, publishing

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


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Map the tensors of a safetensors file."""
    return read_safetensors_and_metadata(path)[0]


def read_safetensors_and_metadata(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Map the tensors of a safetensors file; return its writer's strings too."""
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
        if length > MAX_JSON_BYTES:
            raise ValueError(f"header of {length:,} bytes, the limit is {MAX_JSON_BYTES:,}")
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
    with publishing(path) as temporary, open(temporary, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            tensor = weights[name].detach().cpu().contiguous()
            size = tensor.numel() * tensor.element_size()
            # The tensor's own memory as a buffer; tensor.numpy() knows no bfloat16.
            file.write((ctypes.c_char * size).from_address(tensor.data_ptr()) if size else b"")
