"""Models run on compiled layers where they may, and as before where these are not there."""

from __future__ import annotations

import platform
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from compiled_layers import (
    compiled_sums,
    computed,
    drawn,
    layer_of,
    only,
    prepared,
    runs_compiled,
    skip_without,
)
from small_models import assert_close, small_model, small_roberta

from roberta_hub.inference import dtype_choice
from roberta_hub.model import compiled, kernels, matrices
from roberta_hub.model.compiled import WEIGHT_FORMATS, CompiledRun, Level
from roberta_hub.model.kernels import COMPILED_ROWS
from roberta_hub.model.layer import PreparedLayer

pytestmark = pytest.mark.usefixtures("amd")
CPU = kernels.cpu()
"""This machine's own, which `amd` hides."""
TEXTS = ["Hello world!", "A longer sentence, with more words than the others have.", "x"]


@pytest.mark.system
@pytest.mark.parametrize("family", [{}, {"normalize_before": True}, {"num_unique_layers": 1}])
@pytest.mark.parametrize("dtype", [None, "int8", "bfloat16"])
def test_models(
    dtype: Any, family: dict[str, Any], level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    if level != "avx512":
        monkeypatch.setenv(kernels.PIN_VARIABLE, "compiled")  # for any number of rows
    if dtype is not None and kernels.missing_features(dtype) and dtype != "int8":
        pytest.skip(f"{dtype} is refused")
    roberta = small_roberta(heads={"topic": 3}, **family)
    wanted = [roberta.features(text) for text in TEXTS]
    classes = roberta.predict("topic", roberta.encode(TEXTS[1]))
    skip_without(dtype)
    roberta.optimize(dtype)
    assert runs_compiled(roberta.model)
    for text, states in zip(TEXTS, wanted, strict=True):
        assert_close(roberta.features(text), states, 0.15 if dtype else 2e-5)
    assert_close(
        roberta.predict("topic", roberta.encode(TEXTS[1])), classes, 0.15 if dtype else 2e-5
    )


@pytest.mark.parametrize("dtype", [None, "int8"])
def test_many_rows_on_torch_and_few_compiled(dtype: Any, intel: None, built: Path) -> None:
    """Of weights that float16 holds a third form takes many rows where compiled is the faster."""
    skip_without(dtype)
    if compiled.chosen_level() != "avx512":
        pytest.skip("nothing of it was measured on Intel's CPUs at this level")
    model = small_model().half().float().eval()
    encoder = model.encoder.sentence_encoder
    encoder.prepare(dtype)
    tokens = torch.randint(5, 60, (1, 20))
    with torch.no_grad():
        layer = encoder.prepared.form()[0]
        assert layer.compiled_for(20) is not None
        assert layer.compiled_for(800) is None
        rows, _, _ = encoder.encode(tokens.repeat(40, 1))
        assert_close(rows[:20], encoder.encode(tokens)[0], 0.05 if dtype else 2e-5)


@pytest.mark.parametrize("dtype", [None, "int8"])
def test_a_batch_of_padding_prepares_nothing(
    dtype: Any, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without(dtype)
    monkeypatch.setenv(kernels.PIN_VARIABLE, "compiled")
    model = small_model().eval()
    encoder = model.encoder.sentence_encoder
    encoder.prepare(dtype)
    with torch.no_grad():
        rows, _, _ = encoder.encode(torch.full((2, 3), encoder.padding_idx))
        assert rows.shape == (0, encoder.embed_tokens.weight.size(1))
        assert all(layer.products is None for layer in encoder.prepared.form())


def test_threads_are_as_many_as_there_are_tiles(
    level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large batch is for every core, also where a product has fewer panels than these."""
    there = compiled.library()
    assert there is not None
    monkeypatch.setattr(torch, "get_num_threads", lambda: 96)
    monkeypatch.setattr(there, "_cores", 96)
    wide = level == "avx512"
    counts = (1, 12, 13, 48, 4096) if wide else (1, 4, 5, 9, 4096)
    wanted = [24, 24, 48, 96, 96] if wide else [32, 32, 64, 96, 96]
    assert [there.threads(level, 768, rows) for rows in counts] == wanted
    monkeypatch.setattr(there, "_cores", 2)
    assert {there.threads(level, 768, rows) for rows in counts} == {2}


def test_weights_that_float16_holds_have_two_forms(level: Level) -> None:
    layer = PreparedLayer(layer_of((36, 52, 3)), None)
    limits = [limit for limit, _ in layer.compiled]
    assert limits == [COMPILED_ROWS["AuthenticAMD", level]["float16"], kernels.ANY_ROWS]
    assert layer.products is None  # nothing runs on torch's operators
    few, many = (layer.compiled_for(rows) for rows in (limits[0], limits[0] + 1))
    x = drawn(30, 36)
    assert few is not None
    assert many is not None
    assert_close(
        CompiledRun([few], (30,), None)(few, x, False),
        CompiledRun([many], (30,), None)(many, x, False),
    )


def test_many_rows_another_activation_and_a_change_of_weights(built: Path) -> None:
    model = small_model().eval()
    encoder = model.encoder.sentence_encoder
    encoder.prepare(None)
    tokens = torch.randint(5, 60, (1, 20))
    with torch.no_grad():
        assert runs_compiled(model)
        rows, _, batch = encoder.encode(tokens.repeat(40, 1))
        assert_close(rows[:20], encoder.encode(tokens)[0])
        encoder.layers[0].fc1.weight += 1.0
        assert_close(encoder.encode(tokens)[0], encoder.padded(tokens)[-1][0])
    other = small_model(activation_fn="relu").eval()
    other.encoder.sentence_encoder.prepare(None)
    assert not runs_compiled(other)
    assert len(batch.lengths) == 40


@pytest.mark.parametrize("pin", ["onednn", "mkl", "plain"])
def test_a_pin_keeps_it_away(pin: str, monkeypatch: pytest.MonkeyPatch, built: Path) -> None:
    from roberta_hub.model.matrices import has_operators

    if pin != "plain" and not has_operators(pin):  # type: ignore[arg-type]
        pytest.skip(f"no {pin}")
    monkeypatch.setenv(kernels.PIN_VARIABLE, pin)
    for dtype in (None, "int8") if "int8" in compiled.supported_formats() else (None,):
        model = small_model().eval()
        encoder = model.encoder.sentence_encoder
        encoder.prepare(dtype)  # type: ignore[arg-type]
        assert not runs_compiled(model)
        with torch.no_grad(), compiled_sums() as found:
            encoder.encode(torch.randint(5, 60, (1, 20)))
        assert found == []


def test_the_pin_asks_for_it(monkeypatch: pytest.MonkeyPatch, built: Path) -> None:
    monkeypatch.setenv(kernels.PIN_VARIABLE, "compiled")
    roberta = small_roberta().optimize()
    assert runs_compiled(roberta.model)
    assert "float32, prepacked (compiled, as" in str(roberta.optimized)


# ---- shapes and settings that the compiled code cannot know of ----

SHAPES = [  # what a caller may have made of a layer of 36, and whether the compiled code reads it
    pytest.param({"fc1": (36, 8), "fc2": (8, 36)}, True, id="a narrower inner layer"),
    pytest.param({"num_heads": 36}, True, id="other heads"),
    pytest.param(
        {"q_proj": (36, 24), "k_proj": (36, 24), "v_proj": (36, 24), "out_proj": (24, 36)},
        False,
        id="a pruned head",
    ),
    pytest.param(
        {"q_proj": (36, 72), "k_proj": (36, 72), "v_proj": (36, 72), "out_proj": (72, 36)},
        False,
        id="wider heads",
    ),
]


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize(("changes", "compiled"), SHAPES)
def test_layers_of_other_shapes(
    changes: dict[str, Any], compiled: bool, first: bool, built: Path
) -> None:
    """Scratch of the first layer is too small for a wider one behind it."""
    model = small_model(embed_dim=36, ffn_dim=1024, num_heads=3).eval()
    encoder = model.encoder.sentence_encoder
    layer = encoder.layers[0 if first else -1]
    for name, sizes in changes.items():
        home = layer if name.startswith("fc") else layer.self_attn
        setattr(home, name, torch.nn.Linear(*sizes) if isinstance(sizes, tuple) else sizes)
    model.eval()
    encoder.prepare(None)
    tokens = torch.randint(5, 60, (1, 9))
    with torch.no_grad():
        forms = encoder.prepared.form()
        assert (forms[0 if first else -1].compiled_for(9) is not None) == compiled
        assert forms[1].compiled_for(9) is not None
        assert_close(encoder.encode(tokens)[0], encoder.padded(tokens)[-1][0])


def test_torch_s_defaults_do_not_reach_it(built: Path) -> None:
    form = prepared(layer_of((96, 224, 6)), "float16")
    x = drawn(9, 96)
    wanted = computed(form, (9,), x)
    try:
        torch.set_default_dtype(torch.bfloat16)
        assert torch.equal(computed(form, (9,), x), wanted)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        assert torch.equal(computed(form, (9,), x), wanted)


def test_what_it_cannot_read_is_refused(built: Path) -> None:
    form = prepared(layer_of((36, 52, 3)), "float16")
    run = CompiledRun([only(form)], (4, 5), None)
    for x in (drawn(8, 36), drawn(9, 35), drawn(9, 36).double(), drawn(9, 36).unsqueeze(0)):
        with pytest.raises(ValueError, match=r"wanted \(9, 36\)"):
            run(only(form), x, False)
    for lengths, rows in (((0, 9), [0, 0]), ((4, 5), [0]), ((4, 5), [0, 9]), ((4, 5), [-1, 4])):
        with pytest.raises(ValueError, match=r"rows .* of sequences"):
            CompiledRun([only(form)], lengths, torch.tensor(rows))


def test_a_library_of_another_source_stays_away(
    monkeypatch: pytest.MonkeyPatch, built: Path
) -> None:
    monkeypatch.setattr(compiled, "COMPILED_ABI_VERSION", compiled.COMPILED_ABI_VERSION + 1)
    compiled.library.cache_clear()
    try:
        assert compiled.supported_formats() == frozenset()
    finally:
        compiled.library.cache_clear()


def test_the_variable_that_holds_onednn_back_holds_it_back_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_it = kernels.CPU("AuthenticAMD", frozenset({"avx2", "avx512f", "avx512_vnni"}))
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.setattr(kernels, "cpu", lambda: with_it)
    rows = partial(kernels.compiled_rows, there=frozenset(WEIGHT_FORMATS), level="avx512")
    assert rows("float16") == 32
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert rows("float16") == 0
    assert rows("float32", level="avx2") == kernels.ANY_ROWS
    monkeypatch.setenv(kernels.PIN_VARIABLE, "compiled")
    assert rows("float16") == 32
    assert rows("float32") == kernels.ANY_ROWS


# ---- where it is not there ----


def test_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "LIBRARY_PATH", tmp_path / "nothing.so")
    compiled.library.cache_clear()
    try:
        assert compiled.supported_formats() == frozenset()
        roberta = small_roberta()
        wanted = roberta.features(TEXTS)
        roberta.optimize()
        assert not runs_compiled(roberta.model)
        for ours, theirs in zip(roberta.features(TEXTS), wanted, strict=True):
            assert_close(ours, theirs, 2e-5)
        monkeypatch.setenv(kernels.PIN_VARIABLE, "compiled")
        with pytest.raises(ValueError, match=r"compiled part was not built here.*choose another"):
            small_roberta().optimize()
        broken = tmp_path / "nothing.so"
        broken.write_bytes(b"\x7fELF and no more")
        compiled.library.cache_clear()
        assert compiled.supported_formats() == frozenset()
    finally:
        compiled.library.cache_clear()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="of x86")
def test_the_processor_s_word_is_the_system_s(built: Path) -> None:
    features = CPU.features
    there = compiled.library()
    assert there is not None
    assert ("avx2" in there.shapes) == ("avx2" in features)
    assert ("avx512" in there.shapes) == ("avx512f" in features)
    vnni = "avx512" in there.shapes and "int8" in there.formats("avx512")
    assert vnni == ("avx512_vnni" in features)
    assert ("avx_vnni" in there.shapes) == (vnni or "avx_vnni" in features)


def test_int8_on_amx_asks_for_a_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = frozenset(WEIGHT_FORMATS)
    amx = kernels.CPU("GenuineIntel", frozenset({"avx512f", "avx512_vnni", "amx_int8"}))
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.setattr(kernels, "cpu", lambda: amx)
    rows = [kernels.compiled_rows(held, everything, "avx512") for held in WEIGHT_FORMATS]
    assert [count > 0 for count in rows] == [
        held in ("float32", "float16") for held in WEIGHT_FORMATS
    ]
    monkeypatch.setenv(kernels.PIN_VARIABLE, "compiled")
    assert kernels.compiled_rows("int8", everything, "avx512") == kernels.ANY_ROWS


@pytest.fixture
def intel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU on which many rows run on torch's operators."""
    features = kernels.cpu().features - {"amx_int8"}
    monkeypatch.setattr(kernels, "cpu", lambda: kernels.CPU("GenuineIntel", features))


# ---- a CPU with AVX2 and nothing beyond it ----


@pytest.fixture
def zen_3(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "cpu", lambda: kernels.CPU("AuthenticAMD", frozenset({"avx2"})))
    for module in (matrices, dtype_choice.kernels):
        monkeypatch.setattr(module, "cpu", kernels.cpu)
    monkeypatch.setattr(matrices, "can_int8", lambda: False)
    monkeypatch.setenv(compiled.LEVEL_VARIABLE, "avx2")


def test_int8_without_vnni(zen_3: None) -> None:
    """It runs in compiled layers."""
    roberta = small_roberta().optimize("int8")
    assert runs_compiled(roberta.model)
    assert roberta.optimized.cosine > 0.998
    chosen = small_roberta().optimize("auto", least_cosine=0.998).optimized
    assert chosen.dtype == "int8"
    assert "bfloat16 not measured" in str(chosen) or "this CPU has none of avx512_bf16" in str(
        chosen
    )


@pytest.mark.parametrize(
    "changes", [{"activation_fn": "relu"}, {"embed_dim": 21, "num_heads": 3, "ffn_dim": 50}]
)
def test_int8_without_vnni_of_any_layer(zen_3: None, changes: dict[str, Any]) -> None:
    """Products are compiled where a layer as a whole is not, and widths are padded."""
    roberta = small_roberta(**changes)
    exact = roberta.features(TEXTS[0])
    roberta.optimize("int8")
    ours = roberta.features(TEXTS[0])
    assert not torch.equal(ours, exact)
    assert torch.cosine_similarity(ours, exact, dim=-1).min() > 0.99


def test_int8_beside_avx512_without_vnni(zen_3: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs at AVX2, and float32 at AVX-512."""
    there = compiled.library()
    assert there is not None
    shapes = {level: there.shapes[level] for level in ("avx2", "avx512") if level in there.shapes}
    if "avx512" not in shapes:
        pytest.skip("no AVX-512")
    older = compiled._Shapes.from_buffer_copy(shapes["avx512"])
    older.can = 1 << WEIGHT_FORMATS.index("float32") | 1 << WEIGHT_FORMATS.index("float16")
    monkeypatch.setattr(there, "shapes", shapes | {"avx512": older})
    monkeypatch.delenv(compiled.LEVEL_VARIABLE)
    skylake = kernels.CPU("GenuineIntel", frozenset({"avx2", "avx512f"}))
    for module in (kernels, matrices):
        monkeypatch.setattr(module, "cpu", lambda: skylake)
    assert (compiled.level_of("float32"), compiled.level_of("int8")) == ("avx512", "avx2")
    roberta = small_roberta().optimize("int8")
    assert runs_compiled(roberta.model)
    assert roberta.optimized.cosine > 0.998
    assert small_roberta().optimize("auto").optimized.dtype != "int8"  # nobody measured it


def test_weights_that_bfloat16_holds(zen_3: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With AVX2 a few rows read half the bytes, and the numbers stay float32's."""
    roberta = small_roberta()
    for parameter in roberta.parameters():
        # Beyond float16's smallest and exact in bfloat16.
        parameter.data = (parameter.data * 1e-3).bfloat16().float()
    wanted = [roberta.features(text) for text in TEXTS]
    roberta.optimize()
    for text, features in zip(TEXTS, wanted, strict=True):
        assert_close(roberta.features(text), features)
    with torch.no_grad():
        layers = roberta.model.encoder.sentence_encoder.prepared.form()
    limits = COMPILED_ROWS["AuthenticAMD", "avx2"]
    assert [limit for limit, _ in layers[0].compiled] == [limits["bfloat16"], kernels.ANY_ROWS]
    with pytest.raises(ValueError, match="bfloat16 would be slower than float32"):
        roberta.optimize("bfloat16")


def test_int8_of_other_makers(zen_3: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else computes it on Intel's CPUs with AVX2; with AVX-VNNI oneDNN does as well."""
    intel = kernels.CPU("GenuineIntel", frozenset({"avx2"}))
    for module in (kernels, matrices):
        monkeypatch.setattr(module, "cpu", lambda: intel)
    roberta = small_roberta().optimize("int8")
    assert runs_compiled(roberta.model)
    everything = compiled.supported_formats()
    assert kernels.compiled_rows("float32", everything, "avx2") == 0
    alder_lake = kernels.CPU("GenuineIntel", frozenset({"avx2", "avx_vnni"}))
    monkeypatch.setattr(kernels, "cpu", lambda: alder_lake)
    assert kernels.compiled_rows("int8", everything, "avx2") == 0
    assert kernels.compiled_rows("int8", everything, "avx_vnni") == 128
    unknown = kernels.CPU("", frozenset({"avx2"}))
    for module in (kernels, matrices):
        monkeypatch.setattr(module, "cpu", lambda: unknown)
    with pytest.raises(ValueError, match="int8 would be slower than float32: this CPU has none"):
        small_roberta().optimize("int8")
