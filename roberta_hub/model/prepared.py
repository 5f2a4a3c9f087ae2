"""Decides when a module runs in its prepared form, and makes that form anew after a change."""

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

    The plain module runs instead with gradients, under autocast, in a graph that is traced, in
    train mode, with hooks on the module, with a `forward` that a caller put on it, and where a
    layer was replaced by another kind, say an adapter. The form is made anew when weights or
    settings have changed: loaded, trained, moved or cast. Threads that ask at the same time wait
    for the one that makes it.
    """

    def __init__(
        self,
        owner: nn.Module,
        make: Callable[[Any, Dtype | None], Form | None],
        dtype: Dtype | None,
    ) -> None:
        """Remember how to make the form; `form` makes it when it is first needed.

        Args:
            owner: the module.
            make: from it and `dtype` to its form; None where it has parts that cannot be prepared.
            dtype: see `matrices.matrix`.
        """
        self.owner, self.make, self.dtype = owner, make, dtype
        self._made: tuple[Form | None, _Snapshot] | None = None
        self._making = threading.RLock()

    def form(self) -> Form | None:
        """Return the form to run now; None where the plain module has to."""
        if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            return None
        if torch.is_grad_enabled():
            if self.owner.training:
                self._made = None  # weights are about to change
            return None
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            return None
        made = self._made  # read once: another thread may drop it
        if made is None or not made[1].holds():
            if touched(self.owner.modules()):  # weights may even lie elsewhere, as accelerate does
                return None
            made = self._make()
        form, snapshot = made
        return form if snapshot.at_rest() else None

    def _make(self) -> tuple[Form | None, _Snapshot]:
        with self._making:
            made = self._made
            if made is None or not made[1].holds():
                self._made = made = None  # before the new one, so that memory never holds both
                snapshot = _Snapshot(self.owner)
                self._made = made = (self.make(self.owner, self.dtype), snapshot)
            return made

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles make their own form when they first run."""
        return {"owner": self.owner, "make": self.make, "dtype": self.dtype}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["owner"], state["make"], state["dtype"])  # type: ignore[misc]


def touched(modules: Iterable[nn.Module]) -> bool:
    """Tell whether a caller put hooks, or a `forward` of its own, on one of the modules.

    Such a `forward` is how accelerate attaches its hooks.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> plain = layer.forward
        >>> layer.forward = lambda x: plain(x) + 1
        >>> touched([layer])
        True
    """
    return _has_global_hooks() or any(_is_touched(module.__dict__) for module in modules)


def _is_touched(own: Mapping[str, Any]) -> bool:
    return bool("forward" in own or own["_forward_hooks"] or own["_forward_pre_hooks"])


def _has_global_hooks() -> bool:
    """Tell whether torch holds hooks that run on every module (`register_module_forward_hook`)."""
    return bool(torch_modules._global_forward_hooks or torch_modules._global_forward_pre_hooks)


def is_plain(module: nn.Module, forwards: Mapping[type[nn.Module], object]) -> bool:
    """Tell whether a module and its parts are of these classes and keep their forwards."""
    kinds = {type(part) for part in module.modules()}
    return all(forwards.get(kind) is kind.forward for kind in kinds)


class _Snapshot:
    """The modules, settings and tensors of a module when its form was made.

    They are compared with the present ones at every batch, so they are kept as flat lists.
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
        """What the form has copied beside tensors: the number of heads, an activation."""
        self.children = [(m._modules, k, c) for m in modules for k, c in m._modules.items()]
        tensors = [
            (m._parameters, name, p)
            for m in modules
            for name, p in m._parameters.items()
            if p is not None
        ]
        self.tensors = [(*at, at[2].data_ptr()) for at in tensors]
        # Those made in inference mode cannot be written to, and count no versions.
        self.versions = [(p, p._version) for _, _, p in tensors if not p.is_inference()]
        # These keep the memory, so that no other tensor can come to lie at its address.
        self.aliases = [p.detach() for _, _, p in tensors]

    def holds(self) -> bool:
        """Tell whether all of them are still in place and unchanged."""
        for m, kind, _ in self.modules:
            if type(m) is not kind:
                return False
        for kind, forward in self.classes.items():
            if kind.forward is not forward:
                return False
        for own, name, value in self.settings:
            if own.get(name) is not value:
                return False
        for home, name, child in self.children:
            if home.get(name) is not child:
                return False
        for place, name, p, address in self.tensors:
            if place.get(name) is not p or p.data_ptr() != address:
                return False
        return all(p._version == version for p, version in self.versions)

    def at_rest(self) -> bool:
        """Tell whether all modules are in eval mode, without hooks, with their own forwards."""
        if _has_global_hooks():
            return False
        for _, _, own in self.modules:
            if own["training"] or "forward" in own:
                return False
            if own["_forward_hooks"] or own["_forward_pre_hooks"]:
                return False
        return True
