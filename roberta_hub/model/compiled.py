"""Runs layers in compiled code, which reads weights in one stream and makes a layer one call.

`compiled.cpp` is that code. `setup.py` builds it where there is a compiler; through torch.hub, and
on a CPU without AVX-512, nothing of it runs, and `PreparedLayer` takes torch's operators. For how
many rows layers run here, kernels.py knows. What the first of them reads is summed here too: one of
torch's operators would wake OpenMP's threads, and wait for each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_float, c_int32, c_int64, c_void_p
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.model.int8 import rounded

Held = Literal["float32", "float16", "int8", "bfloat16"]
"""What holds the weights; float16 ones are multiplied in float32."""
HELD: tuple[Held, ...] = ("float32", "float16", "int8", "bfloat16")
BUILT = Path(__file__).with_name("_compiled.so")
"""Where `setup.py` puts the library."""
_PANEL = 32
"""Outputs whose weights lie together."""
_TOGETHER: dict[Held, int] = {"float32": 1, "float16": 1, "int8": 4, "bfloat16": 2}
"""Inputs that one instruction multiplies."""
_TILE = 12
"""Rows that are multiplied together, as in compiled.cpp."""
_LINE = 64
"""Bytes of a cache line, on which weights begin."""
VERSION = 5
"""Of what passes between this module and compiled.cpp: structures and the order of weights. Both
count it up when that changes, so that a library of an older source never runs."""


class _Matrix(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("weight", "bias", "scale", "sums")),
        *((name, c_int64) for name in ("inputs", "outputs")),
    ]


class _Norm(ctypes.Structure):
    _fields_ = [("weight", c_void_p), ("bias", c_void_p), ("eps", c_float)]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, _Matrix) for name in ("query_key_value", "mix", "widen", "narrow")),
        *((name, _Norm) for name in ("attention_norm", "final_norm")),
        ("heads", c_int64),
        ("normalize_before", c_int32),
        ("held", c_int32),
    ]


class _Sum(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p * 3) for name in ("tables", "rows")),
        ("sizes", c_int64 * 3),
        ("count", c_int64),
        ("width", c_int64),
        ("norm", _Norm),
    ]


class _Batch(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("rows", "sequences", "longest")),
        *((name, POINTER(c_int64)) for name in ("lengths", "asked")),
    ]


class Parts(NamedTuple):
    """A layer's weights, as the compiled code takes them: (outputs, inputs) and (outputs,) each."""

    query_key_value: tuple[Tensor, Tensor]
    mix: tuple[Tensor, Tensor]
    widen: tuple[Tensor, Tensor]
    narrow: tuple[Tensor, Tensor]
    attention_norm: nn.LayerNorm
    final_norm: nn.LayerNorm
    num_heads: int
    normalize_before: bool

    def fit(self) -> bool:
        """Tell whether these are shapes that the compiled code reads: it checks none itself.

        A pruned layer may have fewer heads, or heads of another width, than it reads.
        """
        c, f = self.mix[0].size(0), self.widen[0].size(0)
        wanted = ((3 * c, c), (c, c), (f, c), (c, f))
        return (
            all(
                weight.shape == shape and bias.shape == shape[:1]
                for (weight, bias), shape in zip(self[:4], wanted, strict=True)
            )
            and all(norm.normalized_shape == (c,) for norm in self[4:6])
            and c % self.num_heads == 0
        )


class _Library:
    """The compiled code."""

    def __init__(self, path: Path) -> None:
        code = ctypes.CDLL(str(path))
        if code.compiled_version() != VERSION:
            raise OSError(f"{path} was built of another compiled.cpp; install the package again")
        can = code.compiled_can()
        self.can = frozenset(held for bit, held in enumerate(HELD) if can >> bit & 1)
        if self.can:
            self.space, self.layer = code.compiled_space, code.compiled_layer
            self.space.restype = c_int64
            self.space.argtypes = [c_void_p, c_void_p, c_int64]
            self.layer.restype = None
            self.layer.argtypes = [*[c_void_p] * 5, c_int64]
            self.sum = code.compiled_sum
            self.sum.argtypes = [c_void_p, c_int64, c_void_p, c_int64]
            cores = _places()
            code.compiled_cores((c_int32 * len(cores))(*cores), c_int64(len(cores)))

    def threads(self, width: int, rows: int) -> int:
        """Return how many threads take part: each has a tile of a product of this width."""
        tiles = -(-width // _PANEL) * -(-rows // _TILE)
        return min(torch.get_num_threads(), tiles)


def _places() -> list[int]:
    """Return the cores that OpenMP spreads its threads over; none where it binds no thread.

    With `$OMP_PROC_BIND` torch's import binds the program's thread to one of them, and what it
    makes later inherits that.
    """
    # Torch's library is loaded; its symbols are those of its own libraries too.
    openmp = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"))
    found: list[int] = []
    for place in range(openmp.omp_get_num_places()):
        cores = (c_int32 * openmp.omp_get_place_num_procs(place))()
        openmp.omp_get_place_proc_ids(place, cores)
        found += cores
    return found


@lru_cache(maxsize=1)
def library() -> _Library | None:
    """Return the compiled code; None where it was not built, or does not load."""
    try:
        return _Library(BUILT)
    except (OSError, AttributeError):  # of another system or source; no OpenMP
        return None


def can() -> frozenset[Held]:
    """Tell which forms of weights the compiled code computes with here."""
    there = library()
    return frozenset() if there is None else there.can


class CompiledLayer:
    """A layer in the compiled code's own layout; a copy of the weights."""

    def __init__(self, parts: Parts, held: Held) -> None:
        self._kept: list[Tensor] = []
        self._held = held
        self.width = parts.mix[0].size(0)
        self._layer = _Layer(
            *(self._matrix(weight.float(), bias.float()) for weight, bias in parts[:4]),
            *(self._norm(norm) for norm in parts[4:6]),
            parts.num_heads,
            parts.normalize_before,
            HELD.index(held),
        )
        self.address = ctypes.addressof(self._layer)

    def _matrix(self, weight: Tensor, bias: Tensor) -> _Matrix:
        outputs, inputs = weight.shape
        scale = sums = None
        if self._held == "int8":
            scale, weight, sums = rounded(weight)
        elif self._held != "float32":
            weight = weight.to(getattr(torch, self._held))
        each = _TOGETHER[self._held]
        weight = F.pad(weight, (0, -inputs % each, 0, -outputs % _PANEL))
        weight = weight.view(-1, _PANEL, weight.size(1) // each, each).transpose(1, 2)
        rows = [
            None if row is None else F.pad(row, (0, -outputs % _PANEL))
            for row in (bias, scale, sums)
        ]
        addresses = (None if part is None else self._keep(part) for part in (weight, *rows))
        return _Matrix(*addresses, inputs, outputs)

    def _norm(self, norm: nn.LayerNorm) -> _Norm:
        parts = (norm.weight.detach().float(), norm.bias.detach().float())
        return _Norm(*map(self._keep, parts), norm.eps)

    def _keep(self, values: Tensor) -> int:
        """Copy to where a cache line begins; return the address."""
        size = values.numel() * values.element_size()
        place = torch.empty(size + _LINE, dtype=torch.uint8, device="cpu")
        begin = -place.data_ptr() % _LINE
        place[begin : begin + size].view(values.dtype).view(values.shape).copy_(values)
        self._kept.append(place)
        return place.data_ptr() + begin


class Run:
    """Layers of one width on one packed batch.

    Args:
        layers: all that will run; they share the space for what is between two products.
        lengths: tokens of each sequence; together N, at least one.
        asked: one row of each sequence, where a layer is asked for those only; then no sequence is
            empty.
    """

    def __init__(
        self, layers: Sequence[CompiledLayer], lengths: Sequence[int], asked: Tensor | None
    ) -> None:
        there = library()
        assert there is not None  # else there would be no such layer
        self._code, self._threads = there, there.threads(layers[0].width, sum(lengths))
        steps = (c_int64 * len(lengths))(*lengths)
        sizes = (sum(lengths), len(lengths), max(lengths))
        self._all = _Batch(*sizes, steps, None)
        self._some = None
        if asked is not None:
            rows = asked.tolist()
            if len(rows) != len(lengths) or not all(lengths) or not _within(rows, sizes[0]):
                raise ValueError(f"rows {rows} of sequences of {list(lengths)} tokens")
            self._some = _Batch(*sizes, steps, (c_int64 * len(lengths))(*rows))
        batch = ctypes.addressof(self._all)
        need = max(there.space(layer.address, batch, self._threads) for layer in layers)
        # Floats, whatever torch's default is.
        self._space = torch.empty(need + _LINE // 4, dtype=torch.float32, device="cpu")

    def __call__(self, layer: CompiledLayer, x: Tensor, only_asked: bool) -> Tensor:
        """(N, C) -> (N, C), float32; (B, C) where only the rows asked for are wanted."""
        batch = self._some if only_asked and self._some is not None else self._all
        wanted = (self._all.rows, layer.width)
        if x.shape != wanted or x.dtype != torch.float32 or x.device.type != "cpu":
            raise ValueError(f"{tuple(x.shape)} in {x.dtype} on {x.device}; wanted {wanted}")
        x = x.contiguous()
        y = x.new_empty(batch.sequences if batch is self._some else batch.rows, layer.width)
        space = self._space.data_ptr()
        self._code.layer(
            layer.address,
            ctypes.addressof(batch),
            x.data_ptr(),
            y.data_ptr(),
            space + -space % _LINE,
            self._threads,
        )
        return y


def add_rows(
    tables: Sequence[tuple[Tensor, Tensor | None]], norm: nn.LayerNorm | None
) -> Tensor | None:
    """Add rows of tables, and normalize the sums: (N, C), float32.

    Args:
        tables: at most three, (V, C) each, and the rows to take of each, (N,); None takes all.
        norm: over the sums.

    Returns:
        None where torch has to do it, or to say what is wrong: no compiled code is there, something
        is not a plain tensor on a CPU, tables are not in float32, sizes do not fit, or a table
        lacks a row.

    Example:
        >>> table, rows = torch.eye(3), torch.tensor([2, 0])
        >>> _ = add_rows([(table, rows), (torch.ones(2, 3), None)], None)
    """
    there, width = library(), tables[0][0].size(-1)
    scales = [] if norm is None else [norm.weight, norm.bias]
    if there is None or not there.can or not all(_readable(x, (width,)) for x in scales):
        return None
    if not all(_readable(x, (len(x), width)) and _listed(rows) for x, rows in tables):
        return None
    kept = [(table, rows if rows is None else rows.long().contiguous()) for table, rows in tables]
    counts = {len(table if rows is None else rows) for table, rows in kept}
    if len(counts) > 1:
        return None
    (count,) = counts
    asked = _Sum(
        (c_void_p * 3)(*(table.data_ptr() for table, _ in kept)),
        (c_void_p * 3)(*(rows if rows is None else rows.data_ptr() for _, rows in kept)),
        (c_int64 * 3)(*(len(table) for table, _ in kept)),
        len(kept),
        width,
        _Norm() if norm is None else _Norm(*(x.data_ptr() for x in scales), norm.eps),
    )
    y = torch.empty(count, width, dtype=torch.float32, device="cpu")
    threads = there.threads(width, count)
    lacking = there.sum(ctypes.addressof(asked), count, y.data_ptr(), threads)
    return None if lacking else y


def _readable(x: Tensor | None, shape: tuple[int, ...]) -> bool:
    return _plain(x) and x.shape == shape and x.dtype == torch.float32 and x.is_contiguous()


def _listed(rows: Tensor | None) -> bool:
    return rows is None or (_plain(rows) and rows.dim() == 1)


def _plain(x: Tensor | None) -> TypeGuard[Tensor]:
    """Tell whether a tensor's memory is its own, and within reach."""
    if x is None or type(x) not in (Tensor, nn.Parameter):
        return False
    return x.is_cpu and x.layout == torch.strided


def _within(rows: Sequence[int], count: int) -> bool:
    return all(0 <= row < count for row in rows)
