"""Compiled (C++) layers: one call per layer, weights read sequentially.

`setup.py` builds `compiled.cpp` if there is a compiler, for every level of instruction sets in
`LEVELS`. A product runs at the highest that its CPU and format have, or at the one that
`$ROBERTA_HUB_ISA` names.
Without the library (through torch.hub) and on a CPU without AVX2, `PreparedLayer` uses torch's
operators. kernels.py decides for how many rows compiled layers run. The embedding sum is here too:
a torch operator would wake the OpenMP pool.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from ctypes import POINTER, c_float, c_int32, c_int64, c_void_p
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.errors import InputError
from roberta_hub.model.serial import num_threads, openmp

WeightFormat = Literal["float32", "float16", "int8", "bfloat16"]
"""Storage of the weights; float16 weights, and bfloat16 ones at AVX2, are multiplied in float32."""
WEIGHT_FORMATS: tuple[WeightFormat, ...] = ("float32", "float16", "int8", "bfloat16")
LIBRARY_PATH = Path(__file__).with_name("_compiled.so")
"""The library that `setup.py` builds."""
Level = Literal["avx2", "avx_vnni", "avx512"]
"""Instruction sets: AVX2 with FMA and F16C; the same with VNNI in 256 bits; AVX-512 F, BW, DQ and
VL."""
LEVELS: tuple[Level, ...] = ("avx2", "avx_vnni", "avx512")
"""In ascending order, as in compiled.cpp."""
LEVEL_VARIABLE = "ROBERTA_HUB_ISA"
_CACHE_LINE_BYTES = 64
"""Alignment of weights, in bytes."""
COMPILED_ABI_VERSION = 10
"""Version of the structures and weight order shared with compiled.cpp. Increase it in both when
they change, so that a library built from an older source never runs."""


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
        ("level", c_int32),
    ]


class _Product(ctypes.Structure):
    _fields_ = [
        ("matrix", _Matrix),
        ("activate", c_int32),
        ("held", c_int32),
        ("level", c_int32),
    ]


class _Sum(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p * 3) for name in ("tables", "rows")),
        ("sizes", c_int64 * 3),
        ("count", c_int64),
        ("width", c_int64),
        ("norm", _Norm),
        ("level", c_int32),
    ]


class _FormShape(ctypes.Structure):
    """The shape of a weight format; see compiled.cpp."""

    _fields_ = [(name, c_int64) for name in ("panel", "tile", "each", "step", "block", "most")]

    def blocks(self, inputs: int) -> tuple[int, int]:
        """Number of blocks of a row's inputs, and inputs of each, the padding included."""
        count = -(-inputs // self.block)
        return count, -(-inputs // count // self.step) * self.step


class _Shapes(ctypes.Structure):
    """The shapes of a level: formats as bits, and the shape of each."""

    _fields_ = [("can", c_int64), ("forms", _FormShape * len(WEIGHT_FORMATS))]


class _Batch(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("rows", "sequences", "longest")),
        *((name, POINTER(c_int64)) for name in ("lengths", "asked")),
    ]


class LayerWeights(NamedTuple):
    """Weights of a layer for the compiled code: (outputs, inputs) and (outputs,) each."""

    query_key_value: tuple[Tensor, Tensor]
    mix: tuple[Tensor, Tensor]
    widen: tuple[Tensor, Tensor]
    narrow: tuple[Tensor, Tensor]
    attention_norm: nn.LayerNorm
    final_norm: nn.LayerNorm
    num_heads: int
    normalize_before: bool

    def has_regular_shapes(self) -> bool:
        """Whether the compiled code, which checks nothing itself, can read these shapes.

        A pruned layer may have fewer heads, or heads of another width.
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
    """The loaded library."""

    def __init__(self, path: Path) -> None:
        code = ctypes.CDLL(str(path))
        if code.compiled_version() != COMPILED_ABI_VERSION:
            raise OSError(f"{path} was built of another compiled.cpp; install the package again")
        self.shapes: dict[Level, _Shapes] = {}
        for index, level in enumerate(LEVELS):
            shapes = _Shapes()
            code.compiled_shapes(c_int32(index), ctypes.byref(shapes))
            if shapes.can:
                self.shapes[level] = shapes
        if self.shapes:
            self.space, self.layer = code.compiled_space, code.compiled_layer
            self.space.restype = c_int64
            self.space.argtypes = [c_void_p, c_void_p, c_int64]
            self.layer.restype = None
            self.layer.argtypes = [*[c_void_p] * 5, c_int64]
            self.product_space, self.product = code.compiled_product_space, code.compiled_product
            self.product_space.restype = c_int64
            self.product_space.argtypes = [c_void_p, c_int64]
            self.product.restype = None
            self.product.argtypes = [c_void_p, c_int64, *[c_void_p] * 4, c_int64]
            self.sum = code.compiled_sum
            self.sum.argtypes = [c_void_p, c_int64, c_void_p, c_int64]
            cores = _bound_cores()
            self._cores = len(cores) or len(os.sched_getaffinity(os.getpid()))
            code.compiled_cores((c_int32 * len(cores))(*cores), c_int64(len(cores)))

    def formats(self, level: Level) -> frozenset[WeightFormat]:
        """Weight formats that a level multiplies on this CPU."""
        can = self.shapes[level].can
        return frozenset(name for bit, name in enumerate(WEIGHT_FORMATS) if can >> bit & 1)

    def threads(self, level: Level, width: int, rows: int) -> int:
        """Number of threads: at most one per core, and per tile of a product of this width."""
        shape = self.shapes[level].forms[0]
        tiles: int = -(-width // shape.panel) * -(-rows // shape.tile)
        return min(num_threads(), tiles, self._cores)


def _bound_cores() -> list[int]:
    """Cores that OpenMP binds its threads to; empty if it binds none.

    With `$OMP_PROC_BIND` importing torch binds the main thread to one core, and later threads
    inherit that.
    """
    there = openmp()
    if there is None:
        raise OSError("torch has no OpenMP here")
    found: list[int] = []
    for place in range(there.omp_get_num_places()):
        cores = (c_int32 * there.omp_get_place_num_procs(place))()
        there.omp_get_place_proc_ids(place, cores)
        found += cores
    return found


@lru_cache(maxsize=1)
def library() -> _Library | None:
    """The loaded library; None if it was not built or cannot be loaded."""
    try:
        return _Library(LIBRARY_PATH)
    except (OSError, AttributeError):  # another system or source; no OpenMP
        return None


def usable_levels() -> tuple[Level, ...]:
    """Levels at which compiled code may run, ascending: those of this CPU, or the pinned one."""
    there = library()
    able = () if there is None else tuple(there.shapes)
    value = os.environ.get(LEVEL_VARIABLE, "").strip().lower()
    for level in LEVELS:
        if value == level and (level in able or there is None):
            return (level,) if able else ()
    if value:
        why = "which this CPU lacks; " if value in LEVELS else ""
        raise InputError(
            f"${LEVEL_VARIABLE} is {value!r}, {why}choose {', '.join(able or LEVELS)}, or unset it"
        )
    return able


def chosen_level() -> Level | None:
    """Highest of `usable_levels`; None if there is none."""
    return next(reversed(usable_levels()), None)


def level_of(weight_format: WeightFormat) -> Level | None:
    """Highest of `usable_levels` that multiplies a weight format; None if none does.

    A CPU with AVX-512 and no VNNI has products of bytes at AVX2 alone.
    """
    there = library()
    return next(
        (x for x in reversed(usable_levels()) if there and weight_format in there.formats(x)), None
    )


def supported_formats() -> frozenset[WeightFormat]:
    """Weight formats that the compiled code multiplies here."""
    return frozenset(name for name in WEIGHT_FORMATS if level_of(name) is not None)


class _LaidOut:
    """Weights in the layout of a format's level: aligned copies, kept as long as this object."""

    def __init__(self, weight_format: WeightFormat) -> None:
        there, level = library(), level_of(weight_format)
        assert there is not None  # else it supports no format
        assert level is not None
        self._kept: list[Tensor] = []
        self._code, self._format, self.level = there, weight_format, level
        self._place = (WEIGHT_FORMATS.index(weight_format), LEVELS.index(level))

    def _matrix(self, weight: Tensor, bias: Tensor) -> _Matrix:
        outputs, inputs = weight.shape
        shape = self._code.shapes[self.level].forms[self._place[0]]
        blocks, block = shape.blocks(inputs)
        more = -outputs % shape.panel
        bias, weight = F.pad(bias, (0, more)), F.pad(weight, (0, blocks * block - inputs, 0, more))
        rows = [bias]
        if self._format == "int8":
            scale = row_scales(weight, shape.each, shape.step, shape.most)
            weight = (weight / scale.unsqueeze(1)).round().to(torch.int8)
            sums = weight.view(-1, shape.panel, blocks, block).sum(3, dtype=torch.float32)
            rows += [scale, sums.transpose(1, 2)]
        elif self._format != "float32":
            weight = weight.to(getattr(torch, self._format))
        weight = weight.view(-1, shape.panel, blocks * block // shape.each, shape.each)
        addresses = [self._keep(part) for part in (weight.transpose(1, 2), *rows)]
        addresses += [0] * (4 - len(addresses))
        return _Matrix(*addresses, inputs, outputs)

    def _norm(self, norm: nn.LayerNorm) -> _Norm:
        parts = (norm.weight.detach().float(), norm.bias.detach().float())
        return _Norm(*map(self._keep, parts), norm.eps)

    def _keep(self, values: Tensor) -> int:
        """Copy to an aligned address and return it."""
        place = _aligned(-(-values.numel() * values.element_size() // 4)).view(torch.uint8)
        size = values.numel() * values.element_size()
        place[:size].view(values.dtype).view(values.shape).copy_(values)
        self._kept.append(place)
        return place.data_ptr()


class CompiledLayer(_LaidOut):
    """A layer in the layout of its format's level; holds a copy of the weights."""

    def __init__(self, parts: LayerWeights, weight_format: WeightFormat) -> None:
        super().__init__(weight_format)
        self.width = parts.mix[0].size(0)
        self._layer = _Layer(
            *(self._matrix(weight.float(), bias.float()) for weight, bias in parts[:4]),
            *(self._norm(norm) for norm in parts[4:6]),
            parts.num_heads,
            parts.normalize_before,
            *self._place,
        )
        self.address = ctypes.addressof(self._layer)


class CompiledProduct(_LaidOut):
    """`x @ weight.T + bias`, with the exact GELU if asked; see `products.Matrix`."""

    def __init__(
        self, weight: Tensor, bias: Tensor, weight_format: WeightFormat, *, gelu: bool
    ) -> None:
        super().__init__(weight_format)
        self._product = _Product(self._matrix(weight.float(), bias.float()), gelu, *self._place)
        self.outputs, self.inputs = weight.shape

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(M, K) -> (M, N), plus `residual`, (M, N), if given; float32."""
        x = x.float().contiguous()
        rows = len(x)
        y = x.new_empty(rows, self.outputs)
        if x.shape[1:] != (self.inputs,) or not x.is_cpu:
            raise ValueError(f"{tuple(x.shape)} on {x.device}; wanted (M, {self.inputs}) on a CPU")
        added = None if residual is None else residual.float().contiguous()
        if added is not None and added.shape != y.shape:
            raise ValueError(f"a residual of {tuple(added.shape)}; wanted {tuple(y.shape)}")
        address = ctypes.addressof(self._product)
        space = _aligned(self._code.product_space(address, rows))
        self._code.product(
            address,
            rows,
            x.data_ptr(),
            None if added is None else added.data_ptr(),
            y.data_ptr(),
            space.data_ptr(),
            self._code.threads(self.level, self.outputs, rows),
        )
        return y


class CompiledRun:
    """Layers of one width on one packed batch."""

    def __init__(
        self, layers: Sequence[CompiledLayer], lengths: Sequence[int], asked: Tensor | None
    ) -> None:
        there = library()
        assert there is not None  # else there would be no such layer
        first = layers[0]
        self._code, self._threads = there, there.threads(first.level, first.width, sum(lengths))
        steps = (c_int64 * len(lengths))(*lengths)
        sizes = (sum(lengths), len(lengths), max(lengths))
        self._all = _Batch(*sizes, steps, None)
        self._some = None
        if asked is not None:
            rows = asked.tolist()
            if len(rows) != len(lengths) or not all(lengths) or not _in_range(rows, sizes[0]):
                raise ValueError(f"rows {rows} of sequences of {list(lengths)} tokens")
            self._some = _Batch(*sizes, steps, (c_int64 * len(lengths))(*rows))
        batch = ctypes.addressof(self._all)
        need = max(there.space(layer.address, batch, self._threads) for layer in layers)
        self._space = _aligned(need)

    def __call__(self, layer: CompiledLayer, x: Tensor, only_asked: bool) -> Tensor:
        """(N, C) -> (N, C), float32; (B, C) with `only_asked`."""
        batch = self._some if only_asked and self._some is not None else self._all
        wanted = (self._all.rows, layer.width)
        if x.shape != wanted or x.dtype != torch.float32 or x.device.type != "cpu":
            raise ValueError(f"{tuple(x.shape)} in {x.dtype} on {x.device}; wanted {wanted}")
        x = x.contiguous()
        y = x.new_empty(batch.sequences if batch is self._some else batch.rows, layer.width)
        self._code.layer(
            layer.address,
            ctypes.addressof(batch),
            x.data_ptr(),
            y.data_ptr(),
            self._space.data_ptr(),
            self._threads,
        )
        return y


def add_rows(
    tables: Sequence[tuple[Tensor, Tensor | None]], norm: nn.LayerNorm | None
) -> Tensor | None:
    """Sum of rows of tables, normalized: (N, C), float32.

    Example:
        >>> table, rows = torch.eye(3), torch.tensor([2, 0])
        >>> _ = add_rows([(table, rows), (torch.ones(2, 3), None)], None)
    """
    there, level, width = library(), chosen_level(), tables[0][0].size(-1)
    scales = [] if norm is None else [norm.weight, norm.bias]
    if there is None or level is None or not all(_is_readable(x, (width,)) for x in scales):
        return None
    if not all(_is_readable(x, (len(x), width)) and _is_index(rows) for x, rows in tables):
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
        LEVELS.index(level),
    )
    y = torch.empty(count, width, dtype=torch.float32, device="cpu")
    threads = there.threads(level, width, count)
    lacking = there.sum(ctypes.addressof(asked), count, y.data_ptr(), threads)
    return None if lacking else y


def _is_readable(x: Tensor | None, shape: tuple[int, ...]) -> bool:
    return _is_plain(x) and x.shape == shape and x.dtype == torch.float32 and x.is_contiguous()


def _is_index(rows: Tensor | None) -> bool:
    return rows is None or (_is_plain(rows) and rows.dim() == 1)


def _is_plain(x: Tensor | None) -> TypeGuard[Tensor]:
    """Whether a tensor is a plain strided one on a CPU."""
    if x is None or type(x) not in (Tensor, nn.Parameter):
        return False
    return x.is_cpu and x.layout == torch.strided


def _aligned(count: int) -> Tensor:
    """Uninitialized numbers from a cache line's start: (count,), float32."""
    # float32, whatever torch's default dtype.
    place = torch.empty(count + _CACHE_LINE_BYTES // 4, dtype=torch.float32, device="cpu")
    begin = -place.data_ptr() % _CACHE_LINE_BYTES // 4
    return place[begin : begin + count]


def row_scales(weight: Tensor, each: int, step: int, most: int) -> Tensor:
    """Scales of a matrix's rows, (N, K) -> (N,), for weights of 8 bits.

    Products of a step are summed in 16 bits, two neighbours of each group in one number, and the
    weights of one sign among them must not be more than `most`; 0: there is no such limit.
    """
    scale = weight.abs().amax(1) / 127
    if most:
        # (N, steps, groups, pairs, 2): the pairs of a step's groups meet in one number.
        pairs = weight.view(len(weight), -1, step // each, each // 2, 2)
        sums = torch.stack([x.clamp(min=0).sum((2, 4)) for x in (pairs, -pairs)])
        scale = torch.maximum(scale, sums.amax((0, 2, 3)) / most)
    return scale.clamp(min=1e-12)


def _in_range(rows: Sequence[int], count: int) -> bool:
    return all(0 <= row < count for row in rows)
