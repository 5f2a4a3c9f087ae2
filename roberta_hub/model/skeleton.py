"""Builds models as shapes only, so that a checkpoint's tensors can be put into them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


@contextmanager
def shapes_only() -> Iterator[None]:
    """Modules made in here have parameters on the meta device: no memory, and no initialization.

    Example:
        >>> with shapes_only():
        ...     print(torch.nn.Linear(10**6, 10**6).weight.device)
        meta
    """
    with torch.device("meta"), _WithoutInit():
        yield


class _WithoutInit(TorchFunctionMode):
    """Skips `torch.nn.init`, which for meta tensors imports torch._dynamo.

    That costs 1.5 seconds and 70 MB, once.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
