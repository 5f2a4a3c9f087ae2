"""The compiled layer computes what its plain twins do; without it everything runs as before."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import assert_close, small_model, small_roberta
from torch import Tensor

from roberta_hub.model import compiled, embeddings, kernels
from roberta_hub.model.attention import one_row_attention, packed_attention
from roberta_hub.model.compiled import HELD, CompiledLayer, Held, Run
from roberta_hub.model.layer import PreparedLayer, TransformerLayer
from roberta_hub.model.packing import PackedBatch, pack_sequences

ROOT = Path(__file__).resolve().parents[2]
BATCHES = (
    *((1,), (2,), (5,), (12,), (13,), (16,), (17,), (48,), (128,)),
    *((3, 9, 4), (20, 1, 27), (500, 290)),
)
SIZES = [  # C, F, heads: of whole registers and panels, of neither, of less than either
    pytest.param((96, 224, 6), id="heads of 16"),
    pytest.param((36, 52, 3), id="heads of 12"),
    pytest.param((8, 4, 1), id="small"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The library, built here if it was not; the tests of its numbers skip without a compiler."""
    source = ROOT / "roberta_hub/model/compiled.cpp"
    if compiled.can() and compiled.BUILT.stat().st_mtime >= source.stat().st_mtime:
        yield compiled.BUILT
        return
    place = tmp_path_factory.mktemp("built")
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", str(place)]
    subprocess.run([*command, "--build-temp", str(place)], cwd=ROOT, capture_output=True)
    library = next(place.rglob("_compiled.so"), None)
    if library is None:
        pytest.skip("no compiler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "BUILT", library)
        compiled.library.cache_clear()
        if not compiled.can():
            pytest.skip("no AVX-512")
        yield library
    compiled.library.cache_clear()


@pytest.fixture(autouse=True)
def _nothing_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the machine is AMD's, where every form runs compiled that can."""
    monkeypatch.delenv(kernels.PIN, raising=False)
    features = kernels.cpu().features
    monkeypatch.setattr(kernels, "cpu", lambda: kernels.CPU("AuthenticAMD", features))


@pytest.fixture
def intel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU on which many rows run on torch's operators."""
    features = kernels.cpu().features - {"amx_int8"}
    monkeypatch.setattr(kernels, "cpu", lambda: kernels.CPU("GenuineIntel", features))


def skip_without(held: str | None) -> None:
    """Skip where this CPU has no instructions for such weights; None is float32."""
    if held is not None and held not in compiled.can():
        pytest.skip(f"no instructions for {held}")


def layer_of(size: tuple[int, int, int], before: bool = False) -> TransformerLayer:
    """A layer of weights that float16 holds, in eval mode."""
    width, inner, heads = size
    layer = TransformerLayer(
        *(width, inner, heads),
        activation_fn="gelu",
        dropout=0.1,
        attention_dropout=0.1,
        activation_dropout=0.1,
        normalize_before=before,
        eps=1e-5,
    ).eval()
    generator = torch.Generator().manual_seed(width)
    with torch.no_grad():
        for name, p in layer.named_parameters():
            drawn = torch.randn(p.shape, generator=generator)
            scaled = drawn / p.size(-1) ** 0.5 if p.dim() == 2 else 0.2 * drawn
            p.copy_((scaled + ("norm.weight" in name)).half().float())
    return layer


def prepared(layer: TransformerLayer, held: Held) -> PreparedLayer:
    """With a compiled form of this kind alone, for any number of rows, on the machine at hand."""
    return limited(layer, held, {name: kernels.ANY if name == held else 0 for name in HELD})


def twin_of(layer: TransformerLayer, held: Held) -> PreparedLayer:
    """The same on torch's operators."""
    return limited(layer, held, dict.fromkeys(HELD, 0))


def limited(layer: TransformerLayer, held: Held, limits: dict[Held, int]) -> PreparedLayer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "COMPILED", dict.fromkeys(kernels.COMPILED, limits))
        return PreparedLayer(layer, held if held in ("int8", "bfloat16") else None)


def only(form: PreparedLayer) -> CompiledLayer:
    """Its compiled form."""
    ((_, layer),) = form.compiled
    return layer


def computed(form: PreparedLayer, lengths: tuple[int, ...], x: Tensor) -> Tensor:
    """All rows of a batch through the compiled layer."""
    return Run([only(form)], lengths, None)(only(form), x, False)


def batch_of(lengths: tuple[int, ...]) -> PackedBatch:
    return pack_sequences([torch.full((n,), 5) for n in lengths], padding_idx=1)


def drawn(rows: int, width: int) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(rows))


# ---- one layer ----


@pytest.mark.parametrize("before", [False, True], ids=["post", "pre"])
@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("size", SIZES)
def test_a_layer(size: tuple[int, int, int], held: Held, before: bool, built: Path) -> None:
    skip_without(held)
    layer = layer_of(size, before)
    form = prepared(layer, held)
    same = 0
    with torch.no_grad():
        for lengths in BATCHES:
            batch, x = batch_of(lengths), drawn(sum(lengths), size[0])
            middle = batch.starts + torch.tensor(lengths) // 2
            run = Run([only(form)], lengths, middle)
            ours, some = run(only(form), x, False), run(only(form), x, True)
            assert_close(some, ours[middle])
            assert torch.equal(ours, run(only(form), x, False))
            every = partial(packed_attention, batch=batch)
            exact = layer(x, every)
            if held in ("int8", "bfloat16"):
                twin = twin_of(layer, held)(x, every)
                # As its int8 twin, but where a sum's last bit tips the next rounding.
                same += int((ours - twin).abs().max() < 1e-5)
                assert (ours - exact).abs().mean() < 1.1 * (twin - exact).abs().mean()
                continue
            assert_close(ours, exact, 5e-6)
            one = partial(one_row_attention, batch=batch)
            assert_close(some, layer(x, one, middle), 5e-6)
    assert held != "int8" or 2 * same > len(BATCHES)


@pytest.mark.parametrize("held", HELD)
def test_a_layer_of_base(held: Held, built: Path) -> None:
    skip_without(held)
    layer = layer_of((768, 3072, 12))
    form, x = prepared(layer, held), drawn(29, 768)
    with torch.no_grad():
        every = partial(packed_attention, batch=batch_of((29,)))
        ours, exact = computed(form, (29,), x), layer(x, every)
        if held in ("int8", "bfloat16"):
            twin = twin_of(layer, held)(x, every)
            assert (ours - exact).abs().mean() < 1.1 * (twin - exact).abs().mean()
        else:
            assert_close(ours, exact)


def test_sums_of_int8_are_exact(built: Path) -> None:
    """The first product, seen alone: with zero outputs and residual streams of known numbers."""
    skip_without("int8")
    layer = layer_of((64, 128, 4), before=True)
    with torch.no_grad():
        layer.self_attn.out_proj.weight.zero_()
        layer.self_attn.out_proj.bias.zero_()
        layer.fc1.bias.fill_(30.0)  # where GELU changes nothing
        form = prepared(layer, "int8")
        x = drawn(48, 64)
        batch = batch_of((48,))
        ours = computed(form, (48,), x)
        products = twin_of(layer, "int8").products
        assert products is not None
        wanted = products.narrow(products.widen(form.final_norm(x)), x)
    # Rows differ at most where a bit of the norm's sum tips the rounding of a number.
    assert ((ours - wanted).abs().amax(1) < 1e-5).float().mean() > 0.5
    assert_close(ours, wanted, 2e-3)
    assert batch.lengths == (48,)


def test_numbers_of_a_text_do_not_depend_on_its_neighbours(built: Path) -> None:
    for held in sorted(compiled.can()):
        form = prepared(layer_of((36, 52, 3)), held)
        x = drawn(24, 36)
        x[:9] *= 1e3
        together = computed(form, (9, 15), x)
        for rows in (slice(0, 9), slice(9, 24)):
            alone = Run([only(form)], (rows.stop - rows.start,), None)(only(form), x[rows], False)
            assert torch.equal(alone, together[rows])


@pytest.mark.parametrize("held", HELD)
def test_what_is_no_number_stays_in_its_text(held: Held, built: Path) -> None:
    skip_without(held)
    form = prepared(layer_of((36, 52, 3)), held)
    for spoilt in (float("nan"), float("inf")):
        x = drawn(24, 36)
        wanted = computed(form, (9, 15), x)
        x[3, 5] = spoilt
        ours = computed(form, (9, 15), x)
        assert not ours[3].isfinite().any()
        assert torch.equal(ours[9:], wanted[9:])


# ---- whole models ----


def runs_compiled(model: Any) -> bool:
    with torch.no_grad():
        form = model.encoder.sentence_encoder.prepared.form()
    return all(layer.compiled_for(1) is not None for layer in form)


TEXTS = ["Hello world!", "A longer sentence, with more words than the others have.", "x"]


@pytest.mark.parametrize("family", [{}, {"normalize_before": True}, {"num_unique_layers": 1}])
@pytest.mark.parametrize("dtype", [None, "int8", "bfloat16"])
def test_models(dtype: Any, family: dict[str, Any], built: Path) -> None:
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
def test_a_batch_of_padding_prepares_nothing(dtype: Any, built: Path) -> None:
    skip_without(dtype)
    model = small_model().eval()
    encoder = model.encoder.sentence_encoder
    encoder.prepare(dtype)
    with torch.no_grad():
        rows, _, _ = encoder.encode(torch.full((2, 3), encoder.padding_idx))
        assert rows.shape == (0, encoder.embed_tokens.weight.size(1))
        assert all(layer.products is None for layer in encoder.prepared.form())


def test_threads_are_as_many_as_there_are_tiles(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large batch is for every core, also where a product has fewer panels than these."""
    there = compiled.library()
    assert there is not None
    monkeypatch.setattr(torch, "get_num_threads", lambda: 96)
    assert [there.threads(768, rows) for rows in (1, 12, 13, 48, 4096)] == [24, 24, 48, 96, 96]


def test_weights_that_float16_holds_have_two_forms(built: Path) -> None:
    layer = PreparedLayer(layer_of((36, 52, 3)), None)
    limits = [limit for limit, _ in layer.compiled]
    assert limits == [32, kernels.ANY]
    assert layer.products is None  # nothing runs on torch's operators
    few, many = (layer.compiled_for(rows) for rows in (32, 33))
    x = drawn(30, 36)
    assert few is not None
    assert many is not None
    assert_close(Run([few], (30,), None)(few, x, False), Run([many], (30,), None)(many, x, False))


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
    from roberta_hub.model.matrices import available

    if pin != "plain" and not available(pin):  # type: ignore[arg-type]
        pytest.skip(f"no {pin}")
    monkeypatch.setenv(kernels.PIN, pin)
    for dtype in (None, "int8") if "int8" in compiled.can() else (None,):
        model = small_model().eval()
        model.encoder.sentence_encoder.prepare(dtype)  # type: ignore[arg-type]
        assert not runs_compiled(model)


def test_the_pin_asks_for_it(monkeypatch: pytest.MonkeyPatch, built: Path) -> None:
    monkeypatch.setenv(kernels.PIN, "compiled")
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
    run = Run([only(form)], (4, 5), None)
    for x in (drawn(8, 36), drawn(9, 35), drawn(9, 36).double(), drawn(9, 36).unsqueeze(0)):
        with pytest.raises(ValueError, match=r"wanted \(9, 36\)"):
            run(only(form), x, False)
    for lengths, rows in (((0, 9), [0, 0]), ((4, 5), [0]), ((4, 5), [0, 9]), ((4, 5), [-1, 4])):
        with pytest.raises(ValueError, match=r"rows .* of sequences"):
            Run([only(form)], lengths, torch.tensor(rows))


def test_a_library_of_another_source_stays_away(
    monkeypatch: pytest.MonkeyPatch, built: Path
) -> None:
    monkeypatch.setattr(compiled, "VERSION", compiled.VERSION + 1)
    compiled.library.cache_clear()
    try:
        assert compiled.can() == frozenset()
    finally:
        compiled.library.cache_clear()


def test_the_variable_that_holds_onednn_back_holds_it_back_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_it = kernels.CPU("AuthenticAMD", frozenset({"avx2", "avx512f", "avx512_vnni"}))
    monkeypatch.setattr(kernels, "cpu", lambda: with_it)
    assert kernels.compiled_rows("float16", frozenset(HELD)) == 32
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert kernels.compiled_rows("float16", frozenset(HELD)) == 0
    monkeypatch.setenv(kernels.PIN, "compiled")
    assert kernels.compiled_rows("float16", frozenset(HELD)) == 32
    assert kernels.compiled_rows("float32", frozenset(HELD)) == kernels.ANY


# ---- where it is not there ----


def test_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "BUILT", tmp_path / "nothing.so")
    compiled.library.cache_clear()
    try:
        assert compiled.can() == frozenset()
        roberta = small_roberta()
        wanted = roberta.features(TEXTS)
        roberta.optimize()
        assert not runs_compiled(roberta.model)
        for ours, theirs in zip(roberta.features(TEXTS), wanted, strict=True):
            assert_close(ours, theirs, 2e-5)
        monkeypatch.setenv(kernels.PIN, "compiled")
        with pytest.raises(ValueError, match=r"compiled part was not built here.*choose another"):
            small_roberta().optimize()
        broken = tmp_path / "nothing.so"
        broken.write_bytes(b"\x7fELF and no more")
        compiled.library.cache_clear()
        assert compiled.can() == frozenset()
    finally:
        compiled.library.cache_clear()


# ---- threads and processes ----


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("before", [False, True], ids=["post", "pre"])
def test_two_threads_compute_what_one_does(held: Held, before: bool, built: Path) -> None:
    skip_without(held)
    form = prepared(layer_of((36, 52, 3), before), held)
    for lengths in ((1,), (4, 13)):
        x, asked = drawn(sum(lengths), 36), torch.tensor([0, 5])[: len(lengths)]
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            run = Run([only(form)], lengths, asked)
            found.append((run(only(form), x, False), run(only(form), x, True)))
        assert torch.equal(found[0][0], found[1][0])
        assert torch.equal(found[0][1], found[1][1])


def test_many_python_threads_at_once(built: Path) -> None:
    form = prepared(layer_of((96, 224, 6)), "float16")
    inputs = [drawn(rows, 96) for rows in (1, 7, 16, 31)]
    wanted = [computed(form, (len(x),), x) for x in inputs]
    torch.set_num_threads(2)
    wrong = []

    def work(i: int) -> None:
        x = inputs[i % 4]
        for _ in range(5):
            if not torch.equal(computed(form, (len(x),), x), wanted[i % 4]):
                wrong.append(i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


START = """
import os, sys, signal
from pathlib import Path
import torch
from roberta_hub.model import compiled
compiled.BUILT = Path(sys.argv[1])
from test_compiled import Run, drawn, layer_of, prepared, small_model
def tasks():
    names = Path("/proc/self/task").glob("*/comm")
    return {path.parent: path.read_text().strip() for path in names}
"""
FORK = """
form = prepared(layer_of((36, 52, 3)), "float16").compiled[0][1]
x = drawn(9, 36)
torch.set_num_threads(2)
wanted = Run([form], (9,), None)(form, x, False)
child = os.fork()
assert torch.equal(Run([form], (9,), None)(form, x, False), wanted)
assert list(tasks().values()).count("roberta_hub") == 1
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
ONE_TEXT = """
torch.set_num_threads(3)
encoder = small_model(embed_dim=96, num_heads=6).eval().encoder.sentence_encoder
encoder.prepare(None)
before, cores = tasks(), os.sched_getaffinity(0)
with torch.no_grad():
    encoder.encode(torch.randint(5, 60, (1, 20)))
new = {task: name for task, name in tasks().items() if task not in before}
assert list(new.values()) == ["roberta_hub"] * 2, new
assert os.sched_getaffinity(0) == cores
for task in new:  # signals are for the program's own threads
    blocked = int((task / "status").read_text().split("SigBlk:")[1].split()[0], 16)
    assert blocked >> (signal.SIGINT - 1) & 1
    assert blocked >> (signal.SIGTERM - 1) & 1
"""


def check_in_a_process(code: str, built: Path) -> None:
    path = os.pathsep.join([str(ROOT / "tests/model"), str(ROOT / "tests"), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "3", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", f"{START}{code}print('reached')", str(built)]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert ran.stdout == "reached\n", ran.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_a_fork_after_its_first_call(built: Path) -> None:
    """A child makes its own threads; torch's products would wait for its parent's forever."""
    check_in_a_process(FORK, built)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_one_text_wakes_no_thread_of_torch_s(built: Path) -> None:
    """OpenMP waits for threads that may be late; one operator between the layers is enough."""
    check_in_a_process(ONE_TEXT, built)


def test_more_callers_and_threads_than_cores(built: Path) -> None:
    form = prepared(layer_of((96, 224, 6)), "float32")
    inputs = [(drawn(sum(lengths), 96), lengths) for lengths in ((7,), (30, 1, 27), (500, 290))]
    torch.set_num_threads(1)
    wanted = [computed(form, lengths, x) for x, lengths in inputs]
    torch.set_num_threads(9)
    found: list[bool] = []

    def work(i: int) -> None:
        for k in range(6):
            x, lengths = inputs[(i + k) % 3]
            found.append(torch.equal(computed(form, lengths, x), wanted[(i + k) % 3]))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [True] * 36


# ---- the sum that the first layer reads ----


def test_a_sum_of_rows(built: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    tables = [torch.randn(50, 36, generator=generator) for _ in range(3)]
    ids = [torch.randint(50, (40,), generator=generator) for _ in range(3)]
    norm = torch.nn.LayerNorm(36, eps=1e-5)
    torch.nn.init.normal_(norm.weight)
    with torch.no_grad():
        for count in (1, 2, 3):
            wanted = sum(t[i] for t, i in zip(tables[:count], ids, strict=False))
            pairs: list[tuple[Tensor, Tensor | None]] = [*zip(tables[:count], ids, strict=False)]
            ours = compiled.add_rows(pairs, None)
            assert ours is not None
            assert torch.equal(ours, wanted)  # added in the same order
            normed = compiled.add_rows(pairs, norm)
            assert normed is not None
            assert_close(normed, norm(wanted), 2e-6)
        rows = compiled.add_rows([(wanted, None), (tables[0], ids[0][::1].int())], None)
        assert rows is not None
        assert torch.equal(rows, wanted + tables[0][ids[0]])


def test_a_sum_that_is_torch_s(built: Path) -> None:
    table, ids = torch.randn(5, 36), torch.tensor([0, 4])
    assert compiled.add_rows([(table, ids)], None) is not None
    assert compiled.add_rows([(table, torch.tensor([0, 5]))], None) is None
    assert compiled.add_rows([(table, torch.tensor([-1]))], None) is None
    assert compiled.add_rows([(table.double(), ids)], None) is None
    assert compiled.add_rows([(table.half(), ids)], None) is None
    assert compiled.add_rows([(table.t(), ids)], None) is None
    assert compiled.add_rows([(table, ids), (table[:, :9].contiguous(), ids)], None) is None
    assert compiled.add_rows([(table, ids), (table, ids[:1])], None) is None
    assert compiled.add_rows([(table, ids)], torch.nn.LayerNorm(9)) is None
    bare = torch.nn.LayerNorm(36, elementwise_affine=False)
    assert compiled.add_rows([(table, ids)], bare) is None


EMBEDDINGS = [  # what a caller may do, and whether the compiled sum still stands in
    pytest.param(lambda e: None, True, id="nothing"),
    pytest.param(
        lambda e: e.embed_tokens.register_forward_hook(lambda *a: a[2] * 2), False, id="a hook"
    ),
    pytest.param(lambda e: setattr(e.embed_positions, "max_norm", 0.5), False, id="max_norm"),
    pytest.param(lambda e: e.double(), False, id="another dtype"),
    pytest.param(lambda e: e.embed_tokens.weight.data.mul_(2), True, id="other weights"),
    pytest.param(
        lambda e: setattr(e, "layernorm_embedding", torch.nn.Identity()), False, id="another module"
    ),
]


@pytest.mark.parametrize(("change", "stands_in"), EMBEDDINGS)
def test_what_a_caller_does_to_embeddings(
    change: Any, stands_in: bool, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = small_model().eval().encoder.sentence_encoder
    encoder.prepare(None)
    change(encoder)
    seen: list[bool] = []
    real = embeddings.embed_compiled

    def watched(*given: Any) -> Tensor | None:
        seen.append((found := real(*given)) is not None)
        return found

    monkeypatch.setattr(embeddings, "embed_compiled", watched)
    batch = batch_of((9, 4))
    with torch.no_grad():
        ours = next(encoder.packed(batch))
        plain = encoder.embed(batch.ids, batch.positions)
    assert seen == [stands_in]
    assert_close(ours.double(), plain.double(), 2e-6)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="of x86")
def test_the_processor_s_word_is_the_system_s(built: Path) -> None:
    features = kernels.cpu().features
    assert ("int8" in compiled.can()) == ("avx512_vnni" in features)
    assert ("float16" in compiled.can()) == ("avx512f" in features)


def test_int8_on_amx_asks_for_a_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = frozenset(HELD)
    amx = kernels.CPU("GenuineIntel", frozenset({"avx512f", "avx512_vnni", "amx_int8"}))
    monkeypatch.setattr(kernels, "cpu", lambda: amx)
    rows = [kernels.compiled_rows(held, everything) for held in HELD]
    assert [count > 0 for count in rows] == [held in ("float32", "float16") for held in HELD]
    monkeypatch.setenv(kernels.PIN, "compiled")
    assert kernels.compiled_rows("int8", everything) == kernels.ANY


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
