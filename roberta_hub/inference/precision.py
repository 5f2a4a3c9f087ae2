"""Vectors in fewer bytes: float16, int8 between ranges, and a bit a number (Shakir et al. 2024).

The numbers are those of sentence-transformers' `quantize_embeddings`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.arguments import advise, kind_of, one_of, path_text
from roberta_hub.errors import InputError, InputTypeError, Remedy
from roberta_hub.rows.arrow import stored_ranges
from roberta_hub.settings import VECTOR_DTYPES, VectorDtype

Ranges = Tensor | Sequence[Sequence[float]] | str | os.PathLike[str]
"""The least and the largest of each number of a vector, (2, C), or the Parquet file with them."""
STABLE_TEXTS = 100
"""Texts from which ranges are steady; sentence-transformers warns of fewer, too."""
_BITS = torch.tensor([128, 64, 32, 16, 8, 4, 2, 1], dtype=torch.uint8)
_STEPS = 255
_GIVE_RANGES = Remedy(
    "pass ranges=, those of the vectors that these are compared with: embed(sample, "
    "dtype='int8').ranges, or the Parquet file that has them",
    "--ranges FILE takes those of a Parquet file with such vectors",
)


def as_ranges(value: Any) -> Tensor:
    """Return ranges as float32, (2, C): given as numbers, or as the Parquet file that has them.

    Raises:
        InputTypeError: they are no numbers.
        InputError: another shape, a least above its largest, or a file without ranges.
    """
    if isinstance(value, (str, os.PathLike)):
        value = stored_ranges(path_text("ranges", value))
    try:
        found = torch.as_tensor(value, dtype=torch.float32).detach()
    except Exception:  # of the caller's object, which may do anything
        raise InputTypeError(
            f"ranges is a {kind_of(value)}; pass numbers (2, C), the least and the largest, or a "
            "Parquet file that has them"
        ) from None
    if found.dim() != 2 or len(found) != 2 or not found.size(1):
        raise InputError(
            f"ranges has shape {tuple(found.shape)}; it is (2, C), the least and the largest of "
            "each number"
        )
    if not bool(found.isfinite().all() and (found[0] <= found[1]).all()):
        raise InputError("ranges holds NaN or infinity, or a least above its largest")
    return found


def ranges_for(dtype: VectorDtype | None, ranges: Any) -> Tensor | None:
    """Check a dtype with its ranges, which int8 alone takes."""
    one_of("dtype", dtype, (None, *VECTOR_DTYPES))
    if ranges is not None and dtype != "int8":
        raise InputError(f"ranges are of int8 vectors, and dtype is {dtype!r}; leave them out")
    return None if ranges is None else as_ranges(ranges)


def find_ranges(vectors: Tensor) -> Tensor:
    """Find the least and the largest of each number of a sample, (n, C) -> (2, C)."""
    if len(vectors) == 1:
        raise InputError("int8 vectors need ranges, and one text has none", remedy=_GIVE_RANGES)
    if not len(vectors):
        return vectors.new_zeros(2, vectors.size(1), dtype=torch.float32)
    if len(vectors) < STABLE_TEXTS:
        advise(
            f"the ranges of int8 vectors are those of {len(vectors)} texts; a larger sample is "
            f"steadier, of {STABLE_TEXTS} texts or more"
        )
    return torch.stack([vectors.amin(0), vectors.amax(0)]).float()


def in_dtype(vectors: Tensor, dtype: VectorDtype | None, ranges: Tensor | None = None) -> Tensor:
    """Write vectors (n, C) in a dtype; int8 has its ranges as the attribute `ranges`.

    Example:
        >>> in_dtype(torch.tensor([[0.5, -1.0, 2.0]]), "binary")
        tensor([[32]], dtype=torch.int8)
    """
    if dtype == "int8":
        vectors = vectors.float()
        return with_ranges(*_as_int8(vectors, find_ranges(vectors) if ranges is None else ranges))
    if dtype in ("float32", "float16"):
        return vectors.to(getattr(torch, dtype))
    if dtype is None:
        return vectors
    width = -(-vectors.size(1) // 8)
    bits = F.pad(vectors > 0, (0, 8 * width - vectors.size(1))).view(len(vectors), width, 8)
    packed: Tensor = (bits * _BITS.to(bits.device)).sum(-1, dtype=torch.uint8)
    return packed if dtype == "ubinary" else (packed ^ 128).view(torch.int8)


def _as_int8(vectors: Tensor, ranges: Tensor) -> tuple[Tensor, Tensor]:
    low, high = _fitting(ranges, vectors.size(1)).to(vectors.device)
    steps = (high - low) / _STEPS
    steps = torch.where(steps == 0, 1, steps)
    places = ((vectors - low) / steps).floor().clamp(0, _STEPS)
    return (places - 128).to(torch.int8), ranges


def with_ranges(vectors: Tensor, ranges: Tensor) -> Tensor:
    """Attach their ranges to int8 vectors."""
    vectors.ranges = ranges  # type: ignore[attr-defined]  # a tensor takes attributes, and saves them
    return vectors


def ranges_of(vectors: object) -> Tensor | None:
    """Return the ranges that vectors of `embed` have; None: they have none."""
    found: Tensor | None = getattr(vectors, "ranges", None)
    return found


def _fitting(ranges: Tensor, width: int) -> Tensor:
    if ranges.size(1) != width:
        raise InputError(
            f"ranges are of vectors of {ranges.size(1)} numbers, and these have {width}; did "
            "another model, or another truncate_dim, make them?"
        )
    return ranges


def in_floats(vectors: Tensor, name: str, width: int | None, ranges: Tensor | None) -> Tensor:
    """Read vectors of fewer bytes as floats: int8 by its ranges, bits as -1 and 1.

    Bits are those of vectors of the given width, if it fits; floats are passed through.
    """
    if vectors.dtype not in (torch.int8, torch.uint8) or vectors.dim() not in (1, 2):
        return vectors
    ranges = ranges_of(vectors) if ranges is None else ranges
    fits = width is not None and -(-width // 8) == vectors.size(-1)
    if vectors.dtype == torch.int8 and ranges is not None:
        low, high = _fitting(ranges, vectors.size(-1)).to(vectors.device)
        steps = (high - low) / _STEPS
        read: Tensor = (vectors.float() + 128.5) * steps + low  # the middle of a step
        return read
    if vectors.dtype == torch.int8 and not fits:
        raise InputError(
            f"{name} holds int8 vectors of width {vectors.size(-1)} without ranges; bits of "
            f"vectors of width {width} would be {-(-(width or 0) // 8)} wide",
            remedy=Remedy(
                "pass ranges=, which embed(..., dtype='int8').ranges has; bits of shortened "
                "vectors are compared with queries in floats, embed(queries, truncate_dim=N)"
            ),
        )
    codes = vectors if vectors.dtype == torch.uint8 else vectors.view(torch.uint8) ^ 128
    bits = (codes[..., None] & _BITS.to(codes.device)).ne(0).flatten(-2)
    return bits[..., : width if fits else None].float() * 2 - 1
