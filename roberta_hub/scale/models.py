"""Caches the models of a process, and identifies each by a digest."""

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
MODELS_KEPT = 2
"""Models that a process caches."""
_PROBE_TEXTS = ("Hello world!", "naïve 😀 <mask>  x", "日本")
"""Texts whose ids identify a vocabulary."""
_lock = threading.Lock()


class LoadedModel:
    """A model and its digest."""

    def __init__(self, roberta: RobertaHubInterface) -> None:
        """Take a model as it was loaded."""
        self.roberta = roberta

    @functools.cached_property
    def digest(self) -> str:
        """Hash of weights, labels, settings of `embed` and `zero_shot`, and some texts' ids."""
        from torch import uint8

        from roberta_hub.model.heads import normalizes, pooling_of
        from roberta_hub.settings import column

        roberta = self.roberta
        found = hashlib.sha256()
        for name, tensor in sorted(roberta.model.state_dict().items()):
            found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            flat = tensor.detach().cpu().contiguous().flatten()
            found.update(memoryview(flat.view(uint8).numpy()))
        about: list[Any] = [
            roberta.labels,
            roberta.default_head,
            roberta.inputs,
            repr(roberta.sentence),
            repr(roberta.zero_shot_settings),
            roberta.max_positions,
            [roberta.encode(text).tolist() for text in _PROBE_TEXTS],
        ]
        read = self._heads_by(lambda head: pooling_of(head) == "mean")
        if any(settings := [roberta.kinds, roberta.thresholds, read]):
            about.append(settings)  # other models keep 0.2.0's digest
        refusing = [roberta.reject_below, column(roberta._heads.known, "known_pieces")]
        about += filter(None, (roberta.word_rules, self._heads_by(normalizes)))
        about += refusing if any(refusing) else []
        if (side := roberta.tokenizer.layout.truncation_side) != "right":
            about.append(side)
        found.update(json.dumps(about, sort_keys=True).encode())
        return found.hexdigest()

    def _heads_by(self, read: Callable[[nn.Module], bool]) -> list[str]:
        """Names of the classification heads for which `read` is true."""
        from roberta_hub.model.known_head import heads_of

        return sorted(name for name, head in heads_of(self.roberta.model).items() if read(head))


def load_once(
    model: str,
    revision: str | None,
    device: str | None,
    dtype: str | None,
    optimize: Optimize | None,
) -> LoadedModel:
    """Load a model, or return the cached one."""
    with _lock:  # several threads of an engine share one
        return _load(model, revision, device, dtype, optimize)


@functools.lru_cache(maxsize=MODELS_KEPT)
def _load(
    model: str,
    revision: str | None,
    device: str | None,
    dtype: str | None,
    optimize: Optimize | None,
) -> LoadedModel:
    from roberta_hub.hub import load_commit, load_model
    from roberta_hub.inference.optimize import optimize as prepare

    if revision is None:
        roberta = load_model(model, device=device, dtype=dtype, progress=False).eval()
    else:
        roberta = load_commit(model, revision, device=device, dtype=dtype).eval()
    if optimize is not None:  # not by its method, which advises faster dtypes
        wanted = None if optimize == "float32" else optimize
        roberta.optimized = prepare(roberta.model, roberta.tokenizer, wanted)
    return LoadedModel(roberta)


@contextlib.contextmanager
def with_threads(count: int) -> Iterator[None]:
    """Set torch's number of threads, and restore the caller's afterwards."""
    import torch

    before = torch.get_num_threads()
    if before != count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if before != count:
            torch.set_num_threads(before)
