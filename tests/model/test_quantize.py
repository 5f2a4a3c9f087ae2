"""Prepared matrices compute what F.linear does, and prepared models what their plain twins do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_models import PAD, assert_close, small_model
from test_packed_twin import ARCHITECTURES, BATCHES, through_packed, through_padded
from torch import Tensor, nn

from roberta_hub import RobertaModel
from roberta_hub.model import kernels
from roberta_hub.model import matrices as quantize
from roberta_hub.model.int8 import Int8
from roberta_hub.model.kernels import CPU
from roberta_hub.model.matrices import MatrixClass, check_dtype, prepare_matrix
from roberta_hub.model.products import MKL, ByRows, HalfStored, OneDNN, Plain

needs_int8 = pytest.mark.skipif(not quantize.can_int8(), reason="no VNNI")
needs_bfloat16 = pytest.mark.skipif(not quantize.has_operators("bfloat16"), reason="no bfloat16")
needs_onednn = pytest.mark.skipif(not quantize.has_operators("onednn"), reason="no oneDNN")
needs_mkl = pytest.mark.skipif(not quantize.has_operators("mkl"), reason="no MKL")
DTYPES = [
    pytest.param(None, 1e-5, id="float32"),
    pytest.param("int8", 0.15, id="int8", marks=needs_int8),
    pytest.param("bfloat16", 0.1, id="bfloat16", marks=needs_bfloat16),
]
"""With the largest error there may be, of values around 1 after three layers."""


def drawn(outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(outputs * inputs)
    weight = torch.randn(outputs, inputs, generator=generator) / inputs**0.5
    return weight, torch.randn(outputs, generator=generator)


# ---- one matrix ----


@pytest.mark.parametrize("activation", [None, F.gelu, torch.tanh])
@pytest.mark.parametrize("size", [(24, 16), (16, 24), (768, 768), (770, 33), (1, 8)])
@pytest.mark.parametrize(
    "kind",
    [Plain, pytest.param(OneDNN, marks=needs_onednn), pytest.param(MKL, marks=needs_mkl)],
)
def test_float32_matrices(kind: MatrixClass, size: tuple[int, int], activation: Any) -> None:
    weight, bias = drawn(*size)
    run = kind(weight, bias, activation)
    for rows in (0, 1, 2, 15, 512, 600):  # 512 is what they are packed for
        x = torch.randn(rows, size[1])
        wanted = F.linear(x, weight, bias)
        ours = run(x)
        assert_close(ours, wanted if activation is None else activation(wanted))
        assert torch.equal(ours, run(x))


@pytest.mark.parametrize("activation", [None, F.gelu, torch.tanh])
@pytest.mark.parametrize(
    "kind",
    [
        Plain,
        pytest.param(OneDNN, marks=needs_onednn),
        pytest.param(MKL, marks=needs_mkl),
        pytest.param(Int8, marks=needs_int8),
        pytest.param(
            HalfStored,
            marks=pytest.mark.skipif(not quantize.has_operators("half"), reason="no fbgemm"),
        ),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_residual_is_added_after_the_activation_and_left_as_it_was(
    kind: MatrixClass, activation: Any, dtype: torch.dtype
) -> None:
    run = kind(*drawn(48, 64), activation)
    for rows in (0, 1, 16, 200):
        x, residual = torch.randn(rows, 64), torch.randn(rows, 48, dtype=dtype)
        before = residual.clone()
        found = run(x, residual)
        assert found.dtype == dtype
        assert_close(found.float(), (run(x) + residual).float())
        assert torch.equal(residual, before)


@pytest.mark.skipif(not quantize.has_operators("half"), reason="no fbgemm")
@pytest.mark.parametrize("activation", [None, F.gelu])
def test_float16_storage_is_exact(activation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "prefers_float16_weights", lambda machine: True)
    weight, bias = (x.half().float() for x in drawn(24, 64))
    weight[0, :3] = torch.tensor([6e-8, 65504.0, -65504.0]).half().float()  # its least and largest
    unpacked = torch.ops.quantized.linear_unpack_fp16(HalfStored(weight, bias, None).weight)[0]
    assert torch.equal(unpacked, weight)
    run = prepare_matrix(weight, bias, None, activation)
    assert isinstance(run, ByRows)
    for rows in (0, 1, 3, 16, 17, 60):
        x = torch.randn(rows, 64)
        wanted = F.linear(x, weight, bias)
        assert_close(run(x), wanted if activation is None else activation(wanted))
    weight[0, 0] = 1e-9
    assert not isinstance(prepare_matrix(weight, bias, None), ByRows)
    weight[0, 0] = 1e6
    assert not isinstance(prepare_matrix(weight, bias, None), ByRows)


@needs_bfloat16
def test_bfloat16_matrices() -> None:
    weight, bias = drawn(48, 64)
    run = OneDNN(weight.bfloat16(), bias.bfloat16(), F.gelu)
    for rows in (0, 1, 7, 200):
        x = torch.randn(rows, 64)
        ours = run(x)
        assert ours.dtype is torch.bfloat16
        assert_close(ours.float(), F.gelu(F.linear(x, weight, bias)), 3e-2)


@needs_int8
@pytest.mark.parametrize("size", [(24, 16), (16, 24), (768, 768), (771, 36), (770, 33), (1, 4)])
def test_int8_errors_are_those_of_rounding(size: tuple[int, int]) -> None:
    weight, bias = drawn(*size)
    weight[0] = 0.0
    x = torch.randn(60, size[1]) * torch.logspace(-3, 3, 60).unsqueeze(1)
    ours = prepare_matrix(weight, bias, "int8")(x)
    # Each factor is off by half a step at most, and so each product by what both halves make of it.
    half = (x.amax(1, keepdim=True) - x.amin(1, keepdim=True)) / 255 / 2
    unit = weight.abs().amax(1) / 127 / 2
    bound = half * (weight.abs().sum(1) + unit * size[1]) + unit * x.abs().sum(1, keepdim=True)
    wanted = F.linear(x.double(), weight.double(), bias.double())
    assert ((ours - wanted).abs() <= 1.01 * bound + 1e-5 * wanted.abs() + 1e-5).all()
    assert (ours[:, 0] - bias[0]).abs().max() < 1e-6 * float(x.abs().max())


@needs_int8
def test_int8_of_a_token_does_not_depend_on_its_neighbours() -> None:
    weight, bias = drawn(32, 48)
    run = Int8(weight, bias, F.gelu)
    x = torch.randn(20, 48)
    x[3], x[5], x[7] = 0.0, 4.0, x[7] * 1e4
    together = run(x)
    for i in range(20):
        assert torch.equal(run(x[i : i + 1])[0], together[i])
    assert_close(together[3], F.gelu(bias))
    x[11] = float("nan")
    spoiled = run(x)
    assert not spoiled[11].isfinite().any()
    assert torch.equal(spoiled[12], together[12])


# ---- what a machine can do ----


def test_a_build_without_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "has_operators", lambda what: False)
    monkeypatch.setattr(quantize, "supported_formats", lambda: frozenset())
    weight, bias = drawn(8, 8)
    for dtype in (None, "int8", "bfloat16"):  # a model may come from a better machine
        assert isinstance(prepare_matrix(weight, bias, dtype), Plain)
    check_dtype(None, torch.device("cpu"))
    monkeypatch.setattr(quantize, "missing_features", lambda dtype: None)  # a CPU that could
    for dtype in ("int8", "bfloat16"):
        with pytest.raises(ValueError, match=f"torch has no {dtype}.*without dtype"):
            check_dtype(dtype, torch.device("cpu"))


@needs_int8
@needs_bfloat16
@pytest.mark.parametrize(
    ("dtype", "wanted"), [("int8", "avx512_vnni"), ("bfloat16", "avx512_bf16")]
)
def test_a_cpu_without_the_instructions_is_refused(
    dtype: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "cpu", lambda: CPU("GenuineIntel", frozenset({"avx2"})))
    with pytest.raises(ValueError, match=f"this CPU has none of {wanted}.*without dtype"):
        check_dtype(dtype, torch.device("cpu"))
    monkeypatch.setattr(kernels, "cpu", lambda: CPU("GenuineIntel", frozenset({"avx2", wanted})))
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.delenv("DNNL_MAX_CPU_ISA", raising=False)
    check_dtype(dtype, torch.device("cpu"))


@pytest.mark.parametrize("dtype", ["int4", torch.int8, 8, "float32"])
def test_unknown_dtypes(dtype: Any) -> None:
    with pytest.raises(ValueError, match="choose None, 'int8' or 'bfloat16'"):
        check_dtype(dtype, torch.device("cpu"))


def test_int8_is_for_cpus() -> None:
    with pytest.raises(ValueError, match="int8 is for CPUs, the model is on meta"):
        check_dtype("int8", torch.device("meta"))


@needs_int8
def test_saturating_products_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "can_int8", lambda: False)
    with pytest.raises(ValueError, match="no VNNI"):
        check_dtype("int8", torch.device("cpu"))


# ---- whole models ----


def prepared(model: RobertaModel, dtype: Any = None) -> RobertaModel:
    """A copy that runs on prepared weights."""
    own = copy.deepcopy(model).eval()
    own.encoder.sentence_encoder.prepare(dtype)
    if own.encoder.lm_head is not None:
        own.encoder.lm_head.prepare(dtype)
    return own


def runs_prepared(model: RobertaModel) -> bool:
    encoder = model.encoder.sentence_encoder
    with torch.no_grad():
        return encoder.prepared is not None and encoder.prepared.form() is not None


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_state_and_logit(architecture: str, batch: str) -> None:
    plain = small_model(**ARCHITECTURES[architecture]).eval()
    own, tokens = prepared(plain), BATCHES[batch]
    assert runs_prepared(own)
    with torch.no_grad():
        states, features = through_packed(own, tokens)
        for wanted_states, wanted in (through_packed(plain, tokens), through_padded(plain, tokens)):
            for ours, theirs in zip([*states, features], [*wanted_states, wanted], strict=True):
                assert_close(ours, theirs)
        assert_close(own(tokens)[0], plain(tokens)[0])
        mask = tokens.ne(PAD)
        masked = own(tokens, masked_tokens=mask)[0]
        assert_close(masked, plain(tokens, masked_tokens=mask)[0])


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("architecture", ["plain", "prenorm", "factorized", "shared layers"])
def test_dtypes(architecture: str, dtype: Any, tolerance: float) -> None:
    plain = small_model(embed_dim=32, ffn_dim=64, **ARCHITECTURES[architecture]).eval()
    own, tokens = prepared(plain, dtype), BATCHES["right"]
    with torch.no_grad():
        ours, wanted = through_packed(own, tokens), through_packed(plain, tokens)
        for x, y in zip([*ours[0], ours[1]], [*wanted[0], wanted[1]], strict=True):
            assert x.dtype is torch.float32
            assert_close(x, y, tolerance)
        assert_close(own(tokens)[0], plain(tokens)[0], tolerance)
        if dtype is not None:
            assert not torch.equal(ours[1], wanted[1])


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_weights_are_computed_in_float32(
    half: torch.dtype, dtype: Any, tolerance: float
) -> None:
    plain = small_model(embed_dim=32).eval().to(half)
    tokens = BATCHES["left"]
    with torch.no_grad():
        states, features = through_packed(prepared(plain, dtype), tokens)
        wanted_states, wanted = through_packed(copy.deepcopy(plain).float(), tokens)
        logits = prepared(plain)(tokens)[0]
    assert logits.dtype is features.dtype is half
    rounding = 8 * torch.finfo(half).eps
    for ours, theirs in zip([*states, features], [*wanted_states, wanted], strict=True):
        assert ours.dtype is half
        assert_close(ours.float(), theirs, max(tolerance, rounding))


# ---- when the plain weights must run, and when the copies are made anew ----


def disagree(model: RobertaModel) -> bool:
    """Whether the prepared form computes something else than the weights now say."""
    tokens = BATCHES["right"]
    with torch.no_grad():
        ours = through_packed(model, tokens)[1]
        wanted = through_padded(model, tokens)[1]  # which is always plain
    return not torch.allclose(ours.float(), wanted.float(), atol=1e-2)


def load(model: RobertaModel) -> None:
    model.load_state_dict(small_model(seed=5).state_dict())


def assign(model: RobertaModel) -> None:
    model.load_state_dict(small_model(seed=5).state_dict(), assign=True)


def write(model: RobertaModel) -> None:
    with torch.no_grad():
        model.encoder.sentence_encoder.layers[2].fc1.bias.add_(3.0)


def replace_data(model: RobertaModel) -> None:
    weight = model.encoder.sentence_encoder.layers[2].fc2.weight
    weight.data = torch.randn_like(weight)


def replace_module(model: RobertaModel) -> None:
    model.encoder.sentence_encoder.layers[1].fc1 = nn.Linear(16, 24).eval()


def train(model: RobertaModel) -> None:
    """With an optimizer that writes past autograd, which no version counter sees."""
    model.train()
    features = through_packed(model, BATCHES["right"])[1]
    features.square().sum().backward()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.data.add_(parameter.grad, alpha=-0.1)
    model.eval()


@pytest.mark.parametrize(
    "change", [load, assign, write, replace_data, replace_module, train], ids=lambda f: f.__name__
)
def test_changed_weights_are_prepared_anew(change: Callable[[RobertaModel], None]) -> None:
    model = prepared(small_model())
    before = through_padded(model, BATCHES["right"])[1].detach()
    assert not disagree(model)
    change(model)
    assert not torch.allclose(through_padded(model, BATCHES["right"])[1], before, atol=1e-2)
    assert not disagree(model)
    assert runs_prepared(model)


def test_unchanged_weights_are_prepared_once() -> None:
    model = prepared(small_model())
    encoder = model.encoder.sentence_encoder
    with torch.no_grad():
        assert encoder.prepared is not None
        form = encoder.prepared.form()
        model(BATCHES["right"])
        model.train().eval()
        assert encoder.prepared.form() is form
    model(BATCHES["right"])  # with gradients, in eval mode
    with torch.no_grad():
        assert encoder.prepared.form() is form


def test_casts_change_the_form() -> None:
    model = prepared(small_model())
    assert runs_prepared(model)
    model.half()
    assert not disagree(model)
    model.float()  # rounded now, perhaps at the old address
    assert not disagree(model)


@pytest.mark.parametrize("way", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_prepare_their_own(way: Callable[[RobertaModel], RobertaModel]) -> None:
    model = prepared(small_model())
    assert runs_prepared(model)
    assert len(pickle.dumps(model)) < len(pickle.dumps(small_model())) + 2000  # none of the form
    other = way(model)
    write(other)
    assert runs_prepared(other) and runs_prepared(model)
    assert not disagree(other) and not disagree(model)


def test_gradients_are_those_of_the_plain_weights() -> None:
    plain = small_model()
    own = prepared(plain).train()
    for model in (plain, own):
        through_packed(model, BATCHES["right"])[1].square().sum().backward()
    for (name, ours), wanted in zip(own.named_parameters(), plain.parameters(), strict=True):
        assert (ours.grad is None) == (wanted.grad is None), name
        if ours.grad is not None and wanted.grad is not None:
            assert torch.equal(ours.grad, wanted.grad)


class Adapter(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1.0


def test_where_the_plain_modules_have_to_run() -> None:
    model = prepared(small_model())
    layer = model.encoder.sentence_encoder.layers[1]
    with torch.no_grad():
        assert runs_prepared(model)
        layer.train()
        assert not runs_prepared(model)
        layer.eval()
        seen: list[Tensor] = []
        hook = layer.fc2.register_forward_hook(lambda module, args, out: seen.append(out))
        model(BATCHES["right"])
        assert seen
        hook.remove()
        assert runs_prepared(model)
        with torch.autocast("cpu"):
            assert not runs_prepared(model)
        layer.self_attn.q_proj = Adapter(16, 16)
        assert not runs_prepared(model) and not disagree(model)
    assert model.encoder.sentence_encoder.prepared is not None
    assert model.encoder.sentence_encoder.prepared.form() is None  # gradients


def test_a_model_made_in_inference_mode() -> None:
    with torch.inference_mode():
        model = prepared(small_model())
        assert runs_prepared(model)
    assert not disagree(model)


def test_state_dict_knows_nothing_of_it() -> None:
    plain = small_model(heads={"topic": 2})
    own = prepared(plain)
    assert runs_prepared(own)
    assert own.state_dict().keys() == plain.state_dict().keys()
    for name, tensor in plain.state_dict().items():
        assert torch.equal(own.state_dict()[name], tensor)


@pytest.mark.system
def test_export_traces_the_plain_twin() -> None:
    model = prepared(small_model())

    class Features(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = model.encoder.sentence_encoder

        def forward(self, tokens: Tensor) -> Tensor:
            return self.encoder.padded(tokens)[-1]

    tokens = BATCHES["right"]
    with torch.no_grad():
        program = torch.export.export(Features(), (tokens,))
        assert_close(program.module()(tokens), Features()(tokens))
