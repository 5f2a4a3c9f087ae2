"""Checks the device and the dtype that a caller asks for, and moves models there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from roberta_hub.arguments import brief, short_repr, switch
from roberta_hub.errors import InputError, InputTypeError, Remedy

_SPELLINGS = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
"""Short names of dtypes, which torch does not know."""
Module = TypeVar("Module", bound=nn.Module)
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def as_device(device: object) -> torch.device | None:
    """Return the device that was asked for, which this machine has.

    Example:
        >>> as_device("cpu"), as_device(None)
        (device(type='cpu'), None)
    """
    if device is None or isinstance(device, torch.device):
        found = device
    elif not isinstance(device, (str, int)) or isinstance(device, bool):
        raise InputTypeError(
            f"device is {brief(device)}; give 'cpu', 'cuda', 'auto' or a torch.device"
        )
    elif device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    else:
        try:
            found = torch.device(device)
        except (RuntimeError, OverflowError, TypeError, ValueError):
            raise InputError(
                f"device is {brief(device)}, which torch {torch.__version__} does not know; give "
                "'cpu', 'cuda', 'cuda:1', 'mps' or 'auto'"
            ) from None
    if found is not None and (problem := _lacking(found)):
        what, remedy = problem
        raise InputError(
            f"device is {str(found)!r}, and torch {torch.__version__} {what}", remedy=remedy
        )
    return found


def moved(
    move: Callable[..., Module], *args: Any, device: Any, dtype: Any, non_blocking: Any
) -> Module:
    """Move a module, with its device and dtype checked."""
    if args and not isinstance(args[0], (Tensor, torch.dtype)):
        args = (as_device(args[0]), *args[1:])
    named = {"device": as_device(device), "dtype": as_dtype(dtype)}
    named = {name: value for name, value in named.items() if value is not None}
    options: dict[str, Any] = {**named, "non_blocking": switch("non_blocking", non_blocking)}
    try:
        return move(*args, **options)
    except TypeError:
        raise InputTypeError(
            f"to({', '.join(map(short_repr, args))}) names no device and no dtype of weights; pass "
            "'cuda', 'auto' or torch.bfloat16"
        ) from None


def _lacking(device: torch.device) -> tuple[str, Remedy] | None:
    """Reason why this torch cannot use a device, with the remedy; None if it can."""
    if device.type == "cpu" and device.index:
        return "counts all cores as one device", Remedy(
            "pass 'cpu', and torch.set_num_threads(N) for cores",
            "give --device cpu, and OMP_NUM_THREADS=N for cores",
        )
    count = torch.cuda.device_count() if device.type == "cuda" else 0
    if device.type == "cuda" and not torch.cuda.is_available():
        if torch.version.cuda is None and torch.version.hip is None:
            remedy = "install a build with CUDA (pytorch.org says how)"
            found = "is a build without CUDA"
        else:
            remedy = "check the driver (nvidia-smi) and CUDA_VISIBLE_DEVICES"
            found = f"(CUDA {torch.version.cuda}) finds no GPU that it can use"
        return found, Remedy(
            f"{remedy}, or pass device='auto', which takes the CPU then",
            f"{remedy}, or give --device auto, which takes the CPU then",
        )
    if device.type == "cuda" and (device.index or 0) >= count:
        names = f"cuda:0 to cuda:{count - 1}"
        return f"finds {count} GPUs, {names}", Remedy("choose one of these")
    if device.type == "mps" and not torch.backends.mps.is_available():
        return "finds no Apple GPU", Remedy(
            "pass device='cpu' or device='auto'", "give --device cpu or --device auto"
        )
    return None


def as_dtype(dtype: object) -> torch.dtype | None:
    """Return the dtype of weights that was asked for; None: the file's, widened to float32.

    Example:
        >>> as_dtype("bfloat16")
        torch.bfloat16
    """
    if dtype is None:
        return None
    named = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if isinstance(named, torch.dtype) and named in DTYPES:
        return named
    meant = _SPELLINGS.get(dtype) if isinstance(dtype, str) else None
    small = isinstance(dtype, str) and ("int" in dtype or "bit" in dtype)
    hint = f"; write {meant!r}" if meant else ""
    hint = "; load it, and then call roberta.optimize('int8')" if small else hint
    raise InputError(
        f"dtype is {brief(dtype)}; choose torch.float32, torch.float16 or torch.bfloat16{hint}"
    )
