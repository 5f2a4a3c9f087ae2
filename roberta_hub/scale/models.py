"""Keeps the models that a process has loaded, and tells each from others by a digest."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import nn

    from roberta_hub.interface import RobertaHubInterface

Optimize = Literal["float32", "int8", "bfloat16", "auto"]
KEPT = 2
"""Models that a process keeps."""
_PROBE = ("Hello world!", "naïve 😀 <mask>  x", "日本")
"""Texts whose ids tell one vocabulary from another."""
_lock = threading.Lock()


class Loaded:
    """Holds a model, and what tells it from others."""

    def __init__(self, roberta: RobertaHubInterface) -> None:
        """Hold a model, as it was loaded."""
        self.roberta = roberta

    @functools.cached_property
    def digest(self) -> str:
        """Hash weights, labels, how `embed` pools and `zero_shot` labels, and some texts' ids."""
        from torch import uint8

        from roberta_hub.model.heads import normalizes, pooling_of

        roberta = self.roberta
        found = hashlib.sha256()
        for name, tensor in sorted(roberta.model.state_dict().items()):
            found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            flat = tensor.detach().cpu().contiguous().flatten()
            found.update(memoryview(flat.view(uint8).numpy()))
        about: list[Any] = [
            roberta.labels,
            roberta.own_head,
            roberta.inputs,
            repr(roberta.sentence),
            repr(roberta.zero_shot_settings),
            roberta.max_positions,
            [roberta.encode(text).tolist() for text in _PROBE],
        ]
        read = self._heads_by(lambda head: pooling_of(head) == "mean")
        if any(settings := [roberta.kinds, roberta.thresholds, read]):
            about.append(settings)  # of other models the digest is 0.2.0's
        about += filter(None, (roberta.word_rules, self._heads_by(normalizes)))
        found.update(json.dumps(about, sort_keys=True).encode())
        return found.hexdigest()

    def _heads_by(self, read: Callable[[nn.Module], bool]) -> list[str]:
        """Name the classification heads that read a text so."""
        from roberta_hub.model.known_head import heads_of

        return sorted(name for name, head in heads_of(self.roberta.model).items() if read(head))


def loaded(model: str, device: str | None, dtype: str | None, optimize: Optimize | None) -> Loaded:
    """Load a model, unless this process has it already.

    Args:
        model: name or path.
        device: see `load_model`.
        dtype: of the weights.
        optimize: None, "float32", "int8", "bfloat16" or "auto".
    """
    with _lock:  # several threads of an engine share one
        return _load(model, device, dtype, optimize)


@functools.lru_cache(maxsize=KEPT)
def _load(model: str, device: str | None, dtype: str | None, optimize: Optimize | None) -> Loaded:
    from roberta_hub.hub import load_model
    from roberta_hub.inference.optimize import optimize as prepare

    roberta = load_model(model, device=device, dtype=dtype, progress=False).eval()
    if optimize is not None:  # not by its method, which mentions what is faster than float32
        wanted = None if optimize == "float32" else optimize
        roberta.optimized = prepare(roberta.model, roberta.tokenizer, wanted)
    return Loaded(roberta)


@contextlib.contextmanager
def with_threads(count: int) -> Iterator[None]:
    """Have torch compute with so many threads, and the caller's number again afterwards."""
    import torch

    before = torch.get_num_threads()
    if before != count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if before != count:
            torch.set_num_threads(before)
