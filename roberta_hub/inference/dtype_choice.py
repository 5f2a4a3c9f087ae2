"""Chooses float32, bfloat16 or int8, by a table of speeds and the cosine to float32 features.

`optimize("auto")` takes the fastest whose cosine is high enough, and reports the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import torch

from roberta_hub.arguments import advise, short_repr
from roberta_hub.errors import InputError
from roberta_hub.model import kernels
from roberta_hub.model.matrices import Dtype, check_dtype
from roberta_hub.model.speeds import measured_speeds

MIN_COSINE = 0.999
"""Default lower bound of the cosine; int8 of random weights, ours and the peers', has 0.9995 to
0.9998 (benchmarks/results/speed_corpus_base_zen_4.md)."""
MENTIONED_SPEEDUP = 1.5
"""Speed-up of bfloat16 over float32 from which `optimize()` mentions it."""
_DTYPES: tuple[Dtype, ...] = ("bfloat16", "int8")
_mentioned = False


@dataclass(frozen=True)
class DtypeCandidate:
    """A dtype, with its speed-up and its cosine."""

    dtype: Dtype
    times: float | None
    """Speed-up over float32 on such CPUs; None: not measured."""
    refused: str = ""
    """Why it is not tried on this machine; "": it is."""
    cosine: float | None = None
    """Least cosine of a token's features to float32's; None: not tried."""

    @property
    def is_open(self) -> bool:
        """Whether it may be the fastest, so that its cosine is needed."""
        return not self.refused and self.times is not None

    def __str__(self) -> str:
        speed = "" if self.times is None else f" about {self.times:.1f} times as fast"
        if self.refused:
            return f"{self.dtype}{speed} ({self.refused})"
        if self.times is None:
            return f"{self.dtype} not measured on such a CPU"
        return f"{self.dtype}{speed}, least cosine {self.cosine:.4f}"


@dataclass(frozen=True)
class DtypeChoice:
    """Candidate dtypes, and the one that is chosen."""

    least_cosine: float
    candidates: tuple[DtypeCandidate, ...]

    @property
    def dtype(self) -> Dtype | None:
        """The fastest dtype whose cosine is high enough; None: float32."""
        near = [c for c in self.candidates if c.cosine is not None and self._is_near(c.cosine)]
        best = max(near, key=lambda c: c.times or 0, default=None)
        return best.dtype if best is not None and (best.times or 0) > 1 else None

    def _is_near(self, cosine: float) -> bool:
        return cosine >= self.least_cosine

    def __str__(self) -> str:
        others = "; ".join(map(str, self.candidates))
        return f"auto takes the fastest of least cosine {self.least_cosine:g} here: {others}"


def candidates(device: torch.device) -> list[DtypeCandidate]:
    """Return dtypes that may be faster than float32 on a device, the fastest last.

    Example:
        >>> [c.dtype for c in candidates(torch.device("meta")) if not c.refused]
        []
    """
    if device.type != "cpu":
        return [DtypeCandidate(d, None, f"on {device} nothing is measured") for d in _DTYPES]
    times = measured_speeds(kernels.usable_features(kernels.cpu(), "onednn")).times
    found = [DtypeCandidate(dtype, times.get(dtype), _refused(dtype, device)) for dtype in _DTYPES]
    return sorted(found, key=lambda candidate: candidate.times or 0)


def _refused(dtype: Dtype, device: torch.device) -> str:
    try:
        check_dtype(dtype, device)
    except InputError as error:
        return error.what
    return ""


def check_least_cosine(least_cosine: object, dtype: str | None) -> float:
    """Check the argument `least_cosine`; None gives `MIN_COSINE`.

    Example:
        >>> check_least_cosine(None, "auto"), check_least_cosine(0.99, "auto")
        (0.999, 0.99)
    """
    if least_cosine is None:
        return MIN_COSINE
    is_number = isinstance(least_cosine, Real) and not isinstance(least_cosine, bool)
    if not is_number or not 0 <= least_cosine <= 1:  # type: ignore[operator]
        raise InputError(f"least_cosine is {short_repr(least_cosine)}; give a number in 0 to 1")
    if dtype != "auto":
        raise InputError(
            f'least_cosine bounds what optimize("auto") may choose, and dtype is {dtype!r}; leave '
            "it out, and read roberta.optimized.cosine"
        )
    return float(least_cosine)  # type: ignore[arg-type]


def mention_bfloat16(device: torch.device) -> None:
    """Advise bfloat16, once per process, if it is much faster than float32 here."""
    global _mentioned
    if _mentioned:
        return
    for candidate in candidates(device):
        times = candidate.times or 0
        if candidate.dtype == "bfloat16" and candidate.is_open and times > MENTIONED_SPEEDUP:
            _mentioned = True
            advise(
                f"optimize() computes in float32; on this CPU bfloat16 is about {times:.1f} times "
                'as fast: call optimize("bfloat16"), or optimize("auto"), which takes the fastest '
                "that stays near float32"
            )
