"""Keeps a model in eval mode while any thread needs it, and restores its own mode afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

_users: dict[nn.Module, int] = {}
"""How many callers hold each module in eval mode. The count is no attribute of the module, so that
copies and pickles of a model do not carry it."""
_training: set[nn.Module] = set()
"""The modules among them that go back to train mode."""
_lock = threading.RLock()  # re-entrant: a module's own `train` may do anything


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode and no gradients inside; every module's own mode afterwards, whatever happens.

    Any number of threads may be inside at once, with one model or with models that share modules,
    and one thread may enter several times: who comes first sets eval mode, who leaves last restores
    what was. A mode belongs to the module and not to a thread, so a training step beside it runs
    without dropout meanwhile. A `train()` from elsewhere takes effect at once, until the next one
    enters, and is kept; an `eval()` on a model that was in train mode is not: call it before or
    after.

    `no_grad` and not `inference_mode`: what comes out feeds the caller's own training.

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
        # Each module's: a frozen encoder may be in eval mode under a head that trains.
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


def drops(model: nn.Module) -> bool:
    """Tell whether dropout is on: a module in train mode has a probability above 0.

    Example:
        >>> drops(nn.Dropout(0.5)), drops(nn.Dropout(0.5).eval())
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
