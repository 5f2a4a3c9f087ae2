"""The compiled layer computes what its plain twins do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from compiled_layers import (
    ProductOfBytes,
    batch_of,
    computed,
    drawn,
    layer_of,
    levels_here,
    only,
    prepared,
    skip_without,
    twin_of,
    with_short_weights,
)
from small_models import assert_close, small_roberta
from torch import Tensor, nn

from roberta_hub.model import compiled
from roberta_hub.model.attention import one_row_attention, packed_attention
from roberta_hub.model.compiled import (
    LEVEL_VARIABLE,
    LEVELS,
    WEIGHT_FORMATS,
    CompiledLayer,
    CompiledProduct,
    CompiledRun,
    Level,
    WeightFormat,
)

pytestmark = pytest.mark.usefixtures("amd", "level")
BATCHES = (
    (1,),
    (2,),
    (5,),
    (12,),
    (13,),
    (16,),
    (17,),
    (48,),
    (128,),
    (3, 9, 4),
    (20, 1, 27),
    (500, 290),
)
SIZES = [  # C, F, heads: of whole registers and panels, of neither, of less than either
    pytest.param((96, 224, 6), id="heads of 16"),
    pytest.param((36, 52, 3), id="heads of 12"),
    pytest.param((8, 4, 1), id="small"),
]


@pytest.mark.parametrize("before", [False, True], ids=["post", "pre"])
@pytest.mark.parametrize("held", WEIGHT_FORMATS)
@pytest.mark.parametrize("size", SIZES)
def test_a_layer(
    size: tuple[int, int, int], held: WeightFormat, before: bool, level: Level
) -> None:
    skip_without(held)
    layer = layer_of(size, before)
    form = prepared(layer, held)
    same = 0
    with torch.no_grad():
        for lengths in BATCHES:
            batch, x = batch_of(lengths), drawn(sum(lengths), size[0])
            middle = batch.starts + torch.tensor(lengths) // 2
            run = CompiledRun([only(form)], lengths, middle)
            ours, some = run(only(form), x, False), run(only(form), x, True)
            assert_close(some, ours[middle])
            assert torch.equal(ours, run(only(form), x, False))
            every = partial(packed_attention, batch=batch)
            exact = layer(x, every)
            if level != "avx512" and held != "int8":  # short weights times float32
                assert_close(ours, with_short_weights(layer, held)(x, every), 5e-6)
                continue
            if held in ("int8", "bfloat16"):
                twins = with_short_weights if level == "avx2" else twin_of
                twin = twins(layer, held)(x, every)
                # As its int8 twin, but where a sum's last bit tips the next rounding: with 7 bits
                # by more, so that half of the numbers are looked at.
                off = (ours - twin).abs()
                same += int((off.median() if level == "avx2" else off.max()) < 1e-5)
                assert (ours - exact).abs().mean() < 1.1 * (twin - exact).abs().mean()
                continue
            assert_close(ours, exact, 5e-6)
            one = partial(one_row_attention, batch=batch)
            assert_close(some, layer(x, one, middle), 5e-6)
    assert held != "int8" or 2 * same > len(BATCHES)


@pytest.mark.system
@pytest.mark.parametrize("held", WEIGHT_FORMATS)
def test_a_layer_of_base(held: WeightFormat, level: Level) -> None:
    skip_without(held)
    layer = layer_of((768, 3072, 12))
    form, x = prepared(layer, held), drawn(29, 768)
    with torch.no_grad():
        every = partial(packed_attention, batch=batch_of((29,)))
        ours, exact = computed(form, (29,), x), layer(x, every)
        twins = with_short_weights if level == "avx2" else twin_of
        if level != "avx512" and held != "int8":
            assert_close(ours, with_short_weights(layer, held)(x, every))
        elif held in ("int8", "bfloat16"):
            twin = twins(layer, held)(x, every)
            assert (ours - exact).abs().mean() < 1.1 * (twin - exact).abs().mean()
        else:
            assert_close(ours, exact)


def test_sums_of_int8_are_exact(level: Level) -> None:
    """The first product, seen alone: with zero outputs and residual streams of known numbers."""
    skip_without("int8")
    layer = layer_of((320, 512, 4), before=True)  # of two blocks each
    with torch.no_grad():
        layer.self_attn.out_proj.weight.zero_()
        layer.self_attn.out_proj.bias.zero_()
        layer.fc1.bias.fill_(30.0)  # where GELU changes nothing
        form = prepared(layer, "int8")
        x = drawn(48, 320)
        x[:, 7] *= 30  # few inputs that are far from the others
        batch = batch_of((48,))
        ours = computed(form, (48,), x)
        if level == "avx2":
            twin = with_short_weights(layer, "int8")
            wanted = x + twin.fc2(twin.fc1(form.final_norm(x)))
        else:
            products = twin_of(layer, "int8").products
            assert products is not None
            wanted = products.narrow(products.widen(form.final_norm(x)), x)
    # Rows differ at most where a bit of the norm's sum tips the rounding of a number.
    assert ((ours - wanted).abs().amax(1) < 1e-5).float().mean() > 0.5
    assert_close(ours, wanted, 2e-3)
    assert batch.lengths == (48,)


@pytest.mark.parametrize("held", WEIGHT_FORMATS)
@pytest.mark.parametrize("size", [(1, 1), (5, 9), (130, 36), (50, 300), (2000, 64)])
def test_a_product(size: tuple[int, int], held: WeightFormat, level: Level) -> None:
    """(N, K) by any number of rows, with GELU or not, and a residual or none."""
    skip_without(held)
    generator = torch.Generator().manual_seed(size[0])
    module = nn.Linear(size[1], size[0]).requires_grad_(False)
    module.weight.copy_((torch.randn(size, generator=generator) / size[1] ** 0.5).half())
    twin: Callable[[Tensor], Tensor] = module
    if held == "int8":
        twin = ProductOfBytes(module) if level == "avx2" else module
    for gelu in (False, True):
        ours = CompiledProduct(module.weight, module.bias, held, gelu=gelu)
        for rows in (0, 1, 7, 100, 400):  # 400: in two parts
            x, residual = drawn(rows, size[1]), drawn(rows, size[0])
            wanted = F.gelu(twin(x)) if gelu else twin(x)
            found = ours(x)
            bound = 1e-5 if held in ("float32", "float16") or rows == 0 else 3e-2
            assert_close(found, wanted, bound)
            assert torch.equal(ours(x, residual), found + residual)
            if held == "int8" and level == "avx2" and rows:
                assert (found - wanted).abs().median() < 1e-5
    with pytest.raises(ValueError, match="wanted"):
        ours(drawn(3, size[1] + 1))
    with pytest.raises(ValueError, match="a residual"):
        ours(drawn(3, size[1]), drawn(2, size[0]))


def test_numbers_of_a_text_do_not_depend_on_its_neighbours(built: Path) -> None:
    for held in sorted(compiled.supported_formats()):
        form = prepared(layer_of((36, 52, 3)), held)
        x = drawn(24, 36)
        x[:9] *= 1e3
        together = computed(form, (9, 15), x)
        for rows in (slice(0, 9), slice(9, 24)):
            alone = CompiledRun([only(form)], (rows.stop - rows.start,), None)(
                only(form), x[rows], False
            )
            assert torch.equal(alone, together[rows])


@pytest.mark.parametrize("held", WEIGHT_FORMATS)
def test_what_is_no_number_stays_in_its_text(held: WeightFormat, built: Path) -> None:
    skip_without(held)
    form = prepared(layer_of((36, 52, 3)), held)
    for spoilt in (float("nan"), float("inf")):
        x = drawn(24, 36)
        wanted = computed(form, (9, 15), x)
        x[3, 5] = spoilt
        ours = computed(form, (9, 15), x)
        assert not ours[3].isfinite().any()
        assert torch.equal(ours[9:], wanted[9:])


def test_its_copy_of_the_weights_is_its_own(built: Path) -> None:
    layer = layer_of((36, 52, 3))
    form = prepared(layer, "float16")
    assert isinstance(only(form), CompiledLayer)
    x = drawn(5, 36)
    before = computed(form, (5,), x)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(9.0)
    assert torch.equal(computed(form, (5,), x), before)


SPECIAL = (0.0, -0.0, 1e-40, -1e-44, 1e15, -1e15, float("nan"), float("inf"), float("-inf"))


@pytest.mark.parametrize("held", ["float32", "float16"])
@pytest.mark.parametrize("size", [(96, 224, 6), (36, 52, 3), (1, 1, 1), (17, 9, 1)])
def test_numbers_at_the_edges_are_the_twin_s(
    size: tuple[int, int, int], held: WeightFormat
) -> None:
    """Denormals, large numbers, NaN and infinities: finite where the twin is, and equal."""
    layer = layer_of(size)
    form = prepared(layer, held)
    with torch.no_grad():
        for value in SPECIAL:
            x = drawn(7, size[0])
            x[2, size[0] // 2] = value
            ours = computed(form, (7,), x)
            exact = layer(x, partial(packed_attention, batch=batch_of((7,))))
            assert torch.equal(ours.isfinite(), exact.isfinite()), value
            finite = exact.isfinite()
            assert_close(ours[finite], exact[finite], 1e-5)


def test_levels_agree_in_one_process(
    level: Level, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer runs at the level that it was laid out for, whatever the variable says later."""
    form = prepared(layer_of((96, 224, 6)), "float32")
    x = drawn(29, 96)
    before = computed(form, (29,), x)
    for other in levels_here():
        monkeypatch.setenv(LEVEL_VARIABLE, other)
        assert torch.equal(computed(form, (29,), x), before)
        assert_close(computed(prepared(layer_of((96, 224, 6)), "float32"), (29,), x), before, 5e-6)


def test_a_level_that_is_not_there(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEVEL_VARIABLE, "avx1024")
    with pytest.raises(ValueError, match=r"\$ROBERTA_HUB_ISA is 'avx1024', choose avx2"):
        small_roberta().optimize()
    there = compiled.library()
    assert there is not None
    monkeypatch.setattr(there, "shapes", {"avx2": there.shapes["avx2"]})  # a CPU with AVX2 alone
    monkeypatch.delenv(LEVEL_VARIABLE)
    assert compiled.chosen_level() == "avx2"
    monkeypatch.setenv(LEVEL_VARIABLE, " AVX512 ")
    with pytest.raises(ValueError, match=r"'avx512', which this CPU lacks; choose avx2, or unset"):
        small_roberta().optimize()
    assert set(there.shapes) <= set(LEVELS)


def test_its_memory_begins_at_a_cache_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where torch's allocator gives memory that begins elsewhere."""
    real = torch.empty
    monkeypatch.setattr(torch, "empty", lambda count, **more: real(count + 1, **more)[1:])
    found = compiled._aligned(100)
    assert found.shape == (100,) and found.data_ptr() % 64 == 0
