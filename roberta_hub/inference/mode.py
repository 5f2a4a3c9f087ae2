"""Keeps a model in eval mode while any thread needs it, and restores its own mode afterwards."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_users: dict[nn.Module, int] = {}
"""Number of callers that hold each module in eval mode; no attribute of the module, so that copies
and pickles of a model do not carry it."""
_training: set[nn.Module] = set()
"""The modules among them to restore to train mode."""
_lock = threading.RLock()  # re-entrant: a module's own `train` may do anything


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch to eval mode without gradients; restore every module's mode at the end.

    Re-entrant and thread-safe, also for models that share modules: the first entry switches to
    eval, the last exit restores the previous modes. The mode belongs to the module, so a training
    step in another thread runs without dropout meanwhile. `train()` called meanwhile is kept;
    `eval()` is lost: call it before or after.

    `no_grad` instead of `inference_mode`: the caller may train on the results.

    Example:
        >>> layer = nn.Dropout(0.5)
        >>> with evaluating(layer):
        ...     print(layer.training, torch.is_grad_enabled())
        False False
        >>> layer.training
        True
    """
    modules = list(model.modules())
    _hold(model, modules)
    try:
        with torch.no_grad():
            yield
    finally:
        _release(modules)


def _hold(model: nn.Module, modules: list[nn.Module]) -> None:
    with _lock:
        # By module: a frozen encoder may be in eval mode and the head in train mode.
        training = [module for module in modules if module.training]
        for module in modules:
            _users[module] = _users.get(module, 0) + 1
        _training.update(training)
        try:
            if training:
                model.eval()
        except BaseException:
            _release(modules)
            raise


def _release(modules: list[nn.Module]) -> None:
    with _lock:
        for module in modules:
            users = _users[module] - 1
            if users:
                _users[module] = users
                continue
            del _users[module]
            if module in _training:
                _training.remove(module)
                module.training = True


def has_dropout(model: nn.Module) -> bool:
    """Whether dropout is active: a module in train mode has a probability above 0.

    Example:
        >>> has_dropout(nn.Dropout(0.5)), has_dropout(nn.Dropout(0.5).eval())
        (True, False)
    """
    names = (
        "dropout",
        "attention_dropout",
        "activation_dropout",
        "layerdrop",
        "p",
        "dropout_module",
    )
    training = (module for module in model.modules() if module.training)
    values = (getattr(module, name, 0.0) for module in training for name in names)
    return any(isinstance(value, float) and value > 0 for value in values)


def unless_trained_through(output: Tensor, action: Callable[[], object]) -> None:
    """Do something unless a gradient flows through an output: once the output is gone without one.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> output = weight * 2
        >>> unless_trained_through(output, lambda: print("no training through it"))
        >>> output.backward()
        >>> del output
        >>> unless_trained_through(weight * 2, lambda: print("no training through it"))
        no training through it
    """
    if output.grad_fn is None:
        action()
    else:  # the graph, which may outlive the output, owns its hooks
        output.grad_fn.register_hook(_Watch(action).cancel)


class _Watch:
    """Waits in a graph for a gradient."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.action: Callable[[], object] | None = action

    def cancel(self, *gradients: object) -> None:
        self.action = None

    def __del__(self) -> None:
        if self.action is not None and not sys.is_finalizing():
            self.action()
