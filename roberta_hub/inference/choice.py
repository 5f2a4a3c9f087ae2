"""Weighs float32, bfloat16 and int8: by a table of speeds, and by how near a model's features stay.

`optimize("auto")` takes the fastest that is near enough, and says what the others would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import torch

from roberta_hub.arguments import advise, shown
from roberta_hub.errors import InputError
from roberta_hub.model import kernels
from roberta_hub.model.matrices import Dtype, check_dtype
from roberta_hub.model.speeds import speeds

LEAST_COSINE = 0.999
"""What `optimize("auto")` keeps where nothing else is asked; int8 of random weights, ours and the
peers', has 0.9995 to 0.9998 (benchmarks/results/speed_corpus_base_zen_4.md)."""
WORTH_SAYING = 1.5
"""How many times as fast as float32 bfloat16 must be for `optimize()` to mention it."""
_TRIED: tuple[Dtype, ...] = ("bfloat16", "int8")
_said = False


@dataclass(frozen=True)
class Candidate:
    """A dtype, and what it would give."""

    dtype: Dtype
    times: float | None
    """How many times as fast as float32 on CPUs of this kind; None where nobody measured it."""
    refused: str = ""
    """Why this machine cannot, or need not, try it."""
    cosine: float | None = None
    """The least between a token's features and float32's; None where it was not tried."""

    @property
    def is_open(self) -> bool:
        """Whether it may be the fastest, so that its cosine is worth knowing."""
        return not self.refused and self.times is not None

    def __str__(self) -> str:
        speed = "" if self.times is None else f" about {self.times:.1f} times as fast"
        if self.refused:
            return f"{self.dtype}{speed} ({self.refused})"
        if self.times is None:
            return f"{self.dtype} not measured on such a CPU"
        return f"{self.dtype}{speed}, least cosine {self.cosine:.4f}"


@dataclass(frozen=True)
class Choice:
    """What was weighed, and what is taken."""

    least_cosine: float
    candidates: tuple[Candidate, ...]

    @property
    def dtype(self) -> Dtype | None:
        """The fastest that is near enough; None for float32."""
        near = [c for c in self.candidates if c.cosine is not None and self._is_near(c.cosine)]
        best = max(near, key=lambda c: c.times or 0, default=None)
        return best.dtype if best is not None and (best.times or 0) > 1 else None

    def _is_near(self, cosine: float) -> bool:
        return cosine >= self.least_cosine

    def __str__(self) -> str:
        others = "; ".join(map(str, self.candidates))
        return f"auto takes the fastest of least cosine {self.least_cosine:g} here: {others}"


def candidates(device: torch.device) -> list[Candidate]:
    """Return what may be faster than float32 on a device, the fastest last.

    Example:
        >>> [c.dtype for c in candidates(torch.device("meta")) if not c.refused]
        []
    """
    if device.type != "cpu":
        return [Candidate(d, None, f"on {device} nothing is measured") for d in _TRIED]
    times = speeds(kernels.usable(kernels.cpu(), "onednn")).times
    found = [Candidate(dtype, times.get(dtype), _refused(dtype, device)) for dtype in _TRIED]
    return sorted(found, key=lambda candidate: candidate.times or 0)


def _refused(dtype: Dtype, device: torch.device) -> str:
    try:
        check_dtype(dtype, device)
    except InputError as error:
        return error.what
    return ""


def bound(least_cosine: object, dtype: str | None) -> float:
    """Check the bound that a caller passed; None is `LEAST_COSINE`.

    Args:
        least_cosine: what was passed.
        dtype: beside it.

    Raises:
        InputError: the value is no number in 0 to 1, or `dtype` leaves nothing to choose.

    Example:
        >>> bound(None, "auto"), bound(0.99, "auto")
        (0.999, 0.99)
    """
    if least_cosine is None:
        return LEAST_COSINE
    is_number = isinstance(least_cosine, Real) and not isinstance(least_cosine, bool)
    if not is_number or not 0 <= least_cosine <= 1:  # type: ignore[operator]
        raise InputError(f"least_cosine is {shown(least_cosine)}; give a number in 0 to 1")
    if dtype != "auto":
        raise InputError(
            f'least_cosine bounds what optimize("auto") may choose, and dtype is {dtype!r}; leave '
            "it out, and read roberta.optimized.cosine"
        )
    return float(least_cosine)  # type: ignore[arg-type]


def mention_bfloat16(device: torch.device) -> None:
    """Say once a process that bfloat16 would be much faster than float32, where it is so."""
    global _said
    if _said:
        return
    for candidate in candidates(device):
        times = candidate.times or 0
        if candidate.dtype == "bfloat16" and candidate.is_open and times > WORTH_SAYING:
            _said = True
            advise(
                f"optimize() computes in float32; on this CPU bfloat16 is about {times:.1f} times "
                'as fast: call optimize("bfloat16"), or optimize("auto"), which takes the fastest '
                "that stays near float32"
            )
