"""Those of fairseq's small functions on tensors that scripts of its hub call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from roberta_hub.config import FAIRSEQ_ACTIVATIONS
from roberta_hub.errors import InputError
from roberta_hub.model.activations import activation

SPACE_NORMALIZER = re.compile(r"\s+")
"""Runs of white space, as fairseq's `tokenizer` names it."""


def tokenize_line(line: str) -> list[str]:
    """Split a line at white space.

    Example:
        >>> tokenize_line(" a  b c ")
        ['a', 'b', 'c']
    """
    return line.split()


def apply_to_sample(f: Callable[[Tensor], Tensor], sample: Any) -> Any:
    """Apply a function to every tensor in dicts, lists, tuples and sets.

    Args:
        f: of a tensor.
        sample: what holds tensors, at any depth; what is none stays as it is. Empty: a dict.

    Example:
        >>> apply_to_sample(torch.neg, {"ids": [torch.tensor([1])], "text": "a"})
        {'ids': [tensor([-1])], 'text': 'a'}
    """
    if hasattr(sample, "__len__") and len(sample) == 0:
        return {}
    return _applied(f, sample)


def _applied(f: Callable[[Tensor], Tensor], part: Any) -> Any:
    if isinstance(part, Tensor):
        return f(part)
    if isinstance(part, dict):
        pairs = ((key, _applied(f, value)) for key, value in part.items())
        return type(part)(pairs) if type(part).__name__ == "OrderedDict" else dict(pairs)
    if isinstance(part, (list, tuple, set)):
        kind = next(kind for kind in (list, tuple, set) if isinstance(part, kind))
        return kind(_applied(f, item) for item in part)
    return part


def move_to_cuda(sample: Any, device: torch.device | int | str | None = None) -> Any:
    """Move every tensor of a sample to a GPU; None: the current one."""
    to = torch.cuda.current_device() if device is None else device
    return apply_to_sample(lambda tensor: tensor.to(to, non_blocking=True), sample)


def move_to_cpu(sample: Any) -> Any:
    """Move every tensor of a sample to the CPU, half precision as float32."""

    def moved(tensor: Tensor) -> Tensor:
        half = tensor.dtype in (torch.float16, torch.bfloat16)
        return tensor.cpu().float() if half else tensor.cpu()

    return apply_to_sample(moved, sample)


def item(tensor: Any) -> Any:
    """Return the number in a tensor; the first item of what has items; what is neither as it is."""
    if hasattr(tensor, "item"):
        return tensor.item()
    return tensor[0] if hasattr(tensor, "__getitem__") else tensor


def strip_pad(tensor: Tensor, pad: int) -> Tensor:
    """Leave padding out: (*) -> (N,).

    Example:
        >>> strip_pad(torch.tensor([0, 9, 2, 1, 1]), 1)
        tensor([0, 9, 2])
    """
    return tensor[tensor.ne(pad)]


def make_positions(tensor: Tensor, padding_idx: int, onnx_trace: bool = False) -> Tensor:
    """Number the tokens of each row from `padding_idx + 1`; padding gets `padding_idx`.

    Args:
        tensor: ids. Shape: (B, T)
        padding_idx: id of padding.
        onnx_trace: changes nothing, as in fairseq.

    Example:
        >>> make_positions(torch.tensor([[0, 9, 2, 1]]), 1)
        tensor([[2, 3, 4, 1]])
    """
    real = tensor.ne(padding_idx)
    return real.long().cumsum(1) * real + padding_idx


def softmax(x: Tensor, dim: int, onnx_trace: bool = False) -> Tensor:
    """Softmax in float32; `onnx_trace` changes nothing."""
    return torch.softmax(x, dim, dtype=torch.float32)


def log_softmax(x: Tensor, dim: int, onnx_trace: bool = False) -> Tensor:
    """Log-softmax in float32; `onnx_trace` changes nothing."""
    return torch.log_softmax(x, dim, dtype=torch.float32)


def get_activation_fn(activation_fn: str) -> Callable[[Tensor], Tensor]:
    """Return the activation function of one of fairseq's names."""
    if activation_fn not in FAIRSEQ_ACTIVATIONS:
        raise InputError(
            f"no activation function {activation_fn!r}; there are "
            f"{', '.join(sorted(FAIRSEQ_ACTIVATIONS))}"
        )
    return activation(activation_fn)


@contextmanager
def model_eval(model: nn.Module) -> Iterator[None]:
    """Switch a model to eval mode, gradients as they are, and restore its mode at the end."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


class set_torch_seed:  # noqa: N801  # fairseq's name
    """Seed torch from here on; as a context manager restore its generators at the end.

    Example:
        >>> with set_torch_seed(1):
        ...     first = torch.rand(1)
        >>> with set_torch_seed(1):
        ...     bool(torch.rand(1) == first)
        True
    """

    def __init__(self, seed: int) -> None:
        if not isinstance(seed, int):
            raise InputError(f"seed is {seed!r}; pass a whole number")
        self._states = torch.get_rng_state(), torch.cuda.get_rng_state_all()
        torch.manual_seed(seed)

    def __enter__(self) -> set_torch_seed:
        return self

    def __exit__(self, *fault: object) -> None:
        torch.set_rng_state(self._states[0])
        torch.cuda.set_rng_state_all(self._states[1])
