"""What is made from a module's weights for inference, for as long as they are what they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from roberta_hub.model.quantize import Dtype

Form = TypeVar("Form")


class Prepared(Generic[Form]):
    """A faster form of a module, which runs where the plain one is not needed.

    Needed it is with gradients, in train mode, under autocast, in a graph being traced, with hooks
    on the module, or where its layers were replaced by another kind, say an adapter. The form is
    made anew when weights have changed: loaded, trained, moved or cast.
    """

    def __init__(
        self,
        owner: nn.Module,
        make: Callable[[Any, Dtype | None], Form | None],
        dtype: Dtype | None,
    ) -> None:
        """Nothing is made before it is asked for.

        Args:
            owner: the module.
            make: from it and `dtype` to its form; None where it has parts that cannot be prepared.
            dtype: see `quantize.matrix`.
        """
        self.owner, self.make, self.dtype = owner, make, dtype
        self._made: tuple[Form | None, _Snapshot] | None = None

    def form(self) -> Form | None:
        """The form to run now; None where the plain module has to."""
        if torch.is_grad_enabled():
            if self.owner.training:
                self._made = None  # weights are about to change
            return None
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            return None
        if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            return None
        made = self._made
        if made is None or not made[1].holds():
            self._made = made = None  # before the new one, so that memory never holds both
            snapshot = _Snapshot(self.owner)
            self._made = made = (self.make(self.owner, self.dtype), snapshot)
        form, snapshot = made
        return form if snapshot.at_rest() else None

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles make their own form when they first run."""
        return self.__dict__ | {"_made": None}


class _Snapshot:
    """Which modules and tensors a module consisted of."""

    def __init__(self, owner: nn.Module) -> None:
        self.modules = list(owner.modules())
        self.children = [(m._modules, k, c) for m in self.modules for k, c in m._modules.items()]
        # The alias keeps the memory, so that no other tensor can come to lie at its address.
        self.tensors = [
            (m._parameters, name, p, _version(p), p.data_ptr(), p.detach())
            for m in self.modules
            for name, p in m._parameters.items()
            if p is not None
        ]

    def holds(self) -> bool:
        """Whether all are still there, and unchanged."""
        for home, name, child in self.children:
            if home.get(name) is not child:
                return False
        for place, name, p, version, address, _ in self.tensors:
            if place.get(name) is not p or _version(p) != version or p.data_ptr() != address:
                return False
        return True

    def at_rest(self) -> bool:
        """Whether nothing but the result is asked of the modules."""
        return not any(m.training or m._forward_hooks or m._forward_pre_hooks for m in self.modules)


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # those cannot be written to
