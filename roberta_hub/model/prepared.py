"""Runs a module in a prepared form when possible, and rebuilds the form after changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import torch
from torch import nn
from torch.nn.modules import module as torch_modules

from roberta_hub.model.matrices import Dtype

Form = TypeVar("Form")


class Prepared(Generic[Form]):
    """A faster form of a module, for inference.

    The plain module runs instead with gradients, under autocast, while tracing, in train mode,
    with hooks or a replaced `forward`, and if a layer was replaced by another class, say an
    adapter. The form is rebuilt when weights or settings have changed: loaded, trained, moved or
    cast. Only one thread builds it; others wait.
    """

    def __init__(
        self,
        owner: nn.Module,
        make: Callable[[Any, Dtype | None], Form | None],
        dtype: Dtype | None,
    ) -> None:
        """Store how to build the form; `form` builds it on first use."""
        self.owner, self.make, self.dtype = owner, make, dtype
        self._made: tuple[Form | None, _Snapshot] | None = None
        self._making = threading.RLock()

    def form(self) -> Form | None:
        """Form to run now; None if the plain module must run."""
        if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            return None
        if torch.is_grad_enabled():
            if self.owner.training:
                self._made = None  # weights are about to change
            return None
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            return None
        made = self._made  # read once: another thread may drop it
        if made is None or not made[1].is_current():
            if has_hooks(self.owner.modules()):  # accelerate's hooks may have moved the weights
                return None
            made = self._make()
        form, snapshot = made
        return form if snapshot.can_run() else None

    def last_form(self) -> Form | None:
        """Form that was built last, without a look at changes since; None: none was."""
        made = self._made
        return None if made is None else made[0]

    def _make(self) -> tuple[Form | None, _Snapshot]:
        with self._making:
            made = self._made
            if made is None or not made[1].is_current():
                self._made = made = None  # freed before the new one is built
                snapshot = _Snapshot(self.owner)
                self._made = made = (self.make(self.owner, self.dtype), snapshot)
            return made

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles build their own form on first use."""
        return {"owner": self.owner, "make": self.make, "dtype": self.dtype}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["owner"], state["make"], state["dtype"])  # type: ignore[misc]


def has_hooks(modules: Iterable[nn.Module]) -> bool:
    """Whether one of the modules has hooks or a replaced `forward` (as accelerate sets).

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> plain = layer.forward
        >>> layer.forward = lambda x: plain(x) + 1
        >>> has_hooks([layer])
        True
    """
    return _has_global_hooks() or any(_has_own_hooks(module.__dict__) for module in modules)


def has_forward_hooks(modules: Iterable[nn.Module]) -> bool:
    """Whether one of the modules has forward hooks, which see and may change what it returns.

    Those of all modules, as counters and profilers set them, are not meant.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> handle = layer.register_forward_hook(lambda module, inputs, output: None)
        >>> has_forward_hooks([layer])
        True
    """
    owned = (module.__dict__ for module in modules)
    return any(own["_forward_hooks"] or own["_forward_pre_hooks"] for own in owned)


def _has_own_hooks(attributes: Mapping[str, Any]) -> bool:
    return bool(
        "forward" in attributes or attributes["_forward_hooks"] or attributes["_forward_pre_hooks"]
    )


def _has_global_hooks() -> bool:
    """Whether torch has global hooks (`register_module_forward_hook`)."""
    return bool(torch_modules._global_forward_hooks or torch_modules._global_forward_pre_hooks)


def is_plain(module: nn.Module, forwards: Mapping[type[nn.Module], object]) -> bool:
    """Whether a module and its submodules are of these classes, with unchanged forwards."""
    kinds = {type(part) for part in module.modules()}
    return all(forwards.get(kind) is kind.forward for kind in kinds)


class _Snapshot:
    """The submodules, settings and tensors of a module when its form was built.

    They are compared at every batch, so they are flat lists.
    """

    def __init__(self, owner: nn.Module) -> None:
        modules = list(owner.modules())
        self.classes = {type(m): type(m).forward for m in modules}
        self.modules = [(m, type(m), m.__dict__) for m in modules]
        self.settings = [
            (m.__dict__, name, value)
            for m in modules
            for name, value in m.__dict__.items()
            if name[0] != "_" and name not in ("training", "prepared", "forward")
        ]
        """Attributes other than tensors that the form copied: number of heads, activation."""
        self.children = [(m._modules, k, c) for m in modules for k, c in m._modules.items()]
        tensors = [
            (m._parameters, name, p)
            for m in modules
            for name, p in m._parameters.items()
            if p is not None
        ]
        self.tensors = [(*at, at[2].data_ptr()) for at in tensors]
        # Tensors made in inference mode are read-only and have no version.
        self.versions = [(p, p._version) for _, _, p in tensors if not p.is_inference()]
        # Keep the memory alive, so that no other tensor gets its address.
        self.aliases = [p.detach() for _, _, p in tensors]

    def is_current(self) -> bool:
        """Whether all of them are unchanged."""
        for m, kind, _ in self.modules:
            if type(m) is not kind:
                return False
        for kind, forward in self.classes.items():
            if kind.forward is not forward:
                return False
        for attributes, name, value in self.settings:
            if attributes.get(name) is not value:
                return False
        for home, name, child in self.children:
            if home.get(name) is not child:
                return False
        for place, name, p, address in self.tensors:
            if place.get(name) is not p or p.data_ptr() != address:
                return False
        return all(p._version == version for p, version in self.versions)

    def can_run(self) -> bool:
        """Whether all modules are in eval mode, without hooks or replaced forwards."""
        if _has_global_hooks():
            return False
        for _, _, attributes in self.modules:
            if attributes["training"] or "forward" in attributes:
                return False
            if attributes["_forward_hooks"] or attributes["_forward_pre_hooks"]:
                return False
        return True
