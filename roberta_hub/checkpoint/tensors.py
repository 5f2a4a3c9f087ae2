"""Checks tensors of a file, and copies them to memory."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from roberta_hub.checkpoint.quantized import FLOAT8, quantized
from roberta_hub.errors import CheckpointError, Remedy

TensorOrigin = Literal["memory", "file", "our file"]
"""Storage of tensors: memory, mapped from a user's file, or mapped from a file of our cache."""


def copy_to_memory(
    weights: dict[str, Tensor], dtype: torch.dtype | None, origin: TensorOrigin
) -> dict[str, Tensor]:
    """Copy tensors to memory one at a time, removing each from `weights`.

    A user may rewrite a file while the model lives; a mapped tensor would change with it, or crash
    the process. Our own files are replaced and never rewritten, so their tensors of the
    requested dtype stay mapped. The pages of a copied tensor are released, so the peak is one copy
    of the weights and one tensor. Tensors that share memory still share it.
    """
    floating = {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()}
    if origin == "our file" and floating == {dtype or torch.float32}:
        return weights
    owned: dict[tuple[object, ...], Tensor] = {}
    result = {}
    for name in list(weights):
        tensor = weights.pop(name)
        identity = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if identity not in owned:
            target = (dtype or torch.float32) if tensor.is_floating_point() else tensor.dtype
            owned[identity] = tensor.to(target, copy=True, memory_format=torch.contiguous_format)
        result[name] = owned[identity]
        if origin != "memory":
            give_back_pages(tensor)
    return result


def give_back_pages(tensor: Tensor) -> None:
    """Release the pages of a mapped tensor; the kernel reads them again if needed.

    The tensor must be mapped from a file: other memory would lose its contents.
    """
    if sys.platform != "linux" or not hasattr(mmap, "MADV_DONTNEED"):
        return
    # A hostile file can have strides of 0, and more elements than there are bytes between the first
    # and the last.
    if not tensor.is_contiguous():
        return
    first = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    end = tensor.data_ptr() + tensor.numel() * tensor.element_size()
    length = (end - first) // mmap.PAGESIZE * mmap.PAGESIZE
    if length > 0:
        libc = ctypes.CDLL(None)
        libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), mmap.MADV_DONTNEED)


_READABLE = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_COUNTS = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


def check_plain(tensor: Tensor, name: str, source: str) -> None:
    """Refuse a tensor that is not a plain one on a CPU, or claims more elements than are stored."""
    if tensor.dtype in FLOAT8:
        raise quantized(f"fp8, {tensor.dtype}", name, source)
    strided = tensor.layout == torch.strided and not tensor.is_quantized
    if not strided or tensor.device.type != "cpu" or tensor.dtype not in _READABLE | _COUNTS:
        raise CheckpointError(
            f"{source}: tensor {name[:100]!r} is {tensor.dtype}, {tensor.layout} on "
            f"{tensor.device}; only plain float16, bfloat16, float32 and float64 weights are read, "
            "convert it first"
        )
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise CheckpointError(
            f"{source}: tensor {name[:100]!r} claims more elements than are stored; download it "
            "again"
        )


def check_finite(weights: dict[str, Tensor], source: str) -> None:
    """Raise CheckpointError for NaN and infinity, from damaged files or diverged training."""
    for name, tensor in weights.items():
        if not is_finite(tensor):
            raise CheckpointError(
                f"{source}: {name} holds NaN or infinity: the file is damaged, the training "
                f"diverged, or its numbers are too large for {tensor.dtype}",
                remedy=Remedy("allow_nonfinite=True loads it all the same", ""),
            )


def stays_finite(weights: Mapping[str, Tensor], dtype: torch.dtype | None) -> bool:
    """Whether all numbers stay finite when `copy_to_memory` converts them to the dtype.

    They do if its range covers that of each tensor's dtype.
    """
    largest = torch.finfo(dtype or torch.float32).max
    return all(
        torch.finfo(tensor.dtype).max <= largest
        for tensor in weights.values()
        if tensor.is_floating_point()
    )


def is_finite(tensor: Tensor) -> bool:
    """Whether a tensor contains neither NaN nor infinity."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    return all(bool(torch.isfinite(bound)) for bound in tensor.detach().aminmax())
