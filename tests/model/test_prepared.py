"""After optimize: whatever a caller puts on a module runs, and what he changes counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_models import assert_close, small_roberta
from torch import Tensor, nn

from roberta_hub import RobertaConfig, RobertaHubInterface, RobertaModel
from roberta_hub.model.attention import MultiheadSelfAttention
from roberta_hub.model.encoder import TransformerLayer

TEXTS = ["Hello world!", "A longer sentence, with more words than the others have.", "x"]


@pytest.fixture
def roberta() -> RobertaHubInterface:
    return small_roberta(heads={"mnli": 3})


def layer_of(roberta: RobertaHubInterface, number: int = 1) -> Any:
    return roberta.model.encoder.sentence_encoder.layers[number]  # type: ignore[union-attr, index]


def plainly(roberta: RobertaHubInterface) -> list[Tensor]:
    """The features without prepared matrices."""
    encoder: Any = roberta.model.encoder.sentence_encoder
    prepared, encoder.prepared = encoder.prepared, None
    try:
        return roberta.features(TEXTS)
    finally:
        encoder.prepared = prepared


def replaced(roberta: RobertaHubInterface, _: pytest.MonkeyPatch) -> None:
    linear = layer_of(roberta).fc1
    plain = linear.forward
    linear.forward = lambda x: plain(x) + 1.0


def hooked_by_accelerate(roberta: RobertaHubInterface, _: pytest.MonkeyPatch) -> None:
    hooks = pytest.importorskip("accelerate.hooks")

    class PlusOne(hooks.ModelHook):  # type: ignore[misc, name-defined]
        def post_forward(self, module: nn.Module, output: Tensor) -> Tensor:
            return 3 * output

    hooks.add_hook_to_module(layer_of(roberta).self_attn.out_proj, PlusOne())


def replaced_for_the_class(_: RobertaHubInterface, patch: pytest.MonkeyPatch) -> None:
    plain = MultiheadSelfAttention.forward
    patch.setattr(MultiheadSelfAttention, "forward", lambda *args: 3 * plain(*args))


def another_class(roberta: RobertaHubInterface, _: pytest.MonkeyPatch) -> None:
    class Louder(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 3 * super().forward(x)

    layer_of(roberta).fc2.__class__ = Louder


def another_activation(roberta: RobertaHubInterface, _: pytest.MonkeyPatch) -> None:
    layer_of(roberta).activation_fn = torch.tanh


def weight_norm(roberta: RobertaHubInterface, _: pytest.MonkeyPatch) -> None:
    linear = layer_of(roberta).fc1
    torch.nn.utils.parametrizations.weight_norm(linear)
    with torch.no_grad():
        linear.parametrizations.weight.original0.mul_(2.0)


def other_layers(roberta: RobertaHubInterface, _: pytest.MonkeyPatch) -> None:
    encoder: Any = roberta.model.encoder.sentence_encoder  # type: ignore[union-attr]
    encoder.layers = small_roberta(seed=5).model.encoder.sentence_encoder.layers  # type: ignore[union-attr]


def fewer_layers(roberta: RobertaHubInterface, _: pytest.MonkeyPatch) -> None:
    encoder: Any = roberta.model.encoder.sentence_encoder  # type: ignore[union-attr]
    encoder.layers, encoder.num_layers = encoder.layers[:2], 2


def no_bias(roberta: RobertaHubInterface, _: pytest.MonkeyPatch) -> None:
    old = layer_of(roberta).fc1
    layer_of(roberta).fc1 = nn.Linear(old.in_features, old.out_features, bias=False)
    roberta.eval()


def hooked_everywhere(_: RobertaHubInterface, __: pytest.MonkeyPatch) -> None:
    from torch.nn.modules import module

    def louder(part: nn.Module, args: object, out: Any) -> Any:
        return 3 * out if isinstance(part, MultiheadSelfAttention) else None

    handle = module.register_module_forward_hook(louder)
    HANDLES.append(handle)


HANDLES: list[Any] = []
CHANGES = [
    replaced,
    hooked_by_accelerate,
    replaced_for_the_class,
    another_class,
    another_activation,
    weight_norm,
    other_layers,
    fewer_layers,
    no_bias,
    hooked_everywhere,
]


@pytest.mark.system
@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_what_is_put_on_a_module_after_optimize_runs(
    roberta: RobertaHubInterface,
    change: Callable[[RobertaHubInterface, pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = roberta.optimize().features(TEXTS)
    try:
        change(roberta, monkeypatch)
        ours, wanted = roberta.features(TEXTS), plainly(roberta)
        for x, y, old in zip(ours, wanted, before, strict=True):
            assert_close(x, y, 2e-5)
            assert (x - old).abs().max() > 1e-2
    finally:
        while HANDLES:
            HANDLES.pop().remove()


def test_it_runs_prepared_again_when_the_hook_is_gone(roberta: RobertaHubInterface) -> None:
    hooks = pytest.importorskip("accelerate.hooks")
    before = roberta.optimize().features(TEXTS)
    encoder: Any = roberta.model.encoder.sentence_encoder
    with torch.no_grad():
        form = encoder.prepared.form()
        hooks.add_hook_to_module(layer_of(roberta).fc1, hooks.ModelHook())
        assert encoder.prepared.form() is None
        for ours, wanted in zip(roberta.features(TEXTS), before, strict=True):
            assert_close(ours, wanted, 2e-5)
        hooks.remove_hook_from_module(layer_of(roberta).fc1)
        del layer_of(roberta).fc1.forward  # accelerate leaves the bound method there
        assert encoder.prepared.form() is form


@pytest.mark.parametrize("change", [replaced, hooked_by_accelerate, another_class])
def test_optimize_refuses_what_it_would_leave_out(
    roberta: RobertaHubInterface,
    change: Callable[[RobertaHubInterface, pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change(roberta, monkeypatch)
    with pytest.raises(ValueError, match="a forward of somebody else's"):
        roberta.optimize()


def test_a_layer_of_another_kind_is_refused(roberta: RobertaHubInterface) -> None:
    class Doubled(TransformerLayer):
        def forward(self, x: Tensor, *how: Any) -> Tensor:
            return 2 * super().forward(x, *how)

    layer_of(roberta).__class__ = Doubled
    with pytest.raises(ValueError, match="optimize prepares RoBERTa's own layers"):
        roberta.optimize()


def test_the_lm_head_too(roberta: RobertaHubInterface) -> None:
    roberta.optimize()
    dense = roberta.model.encoder.lm_head.dense  # type: ignore[union-attr]
    before = roberta.fill_mask("the <mask> one", topk=3)
    dense.forward = lambda x: torch.zeros_like(x)  # type: ignore[union-attr, method-assign]
    after = roberta.fill_mask("the <mask> one", topk=3)
    assert [p for _, p, _ in before] != [p for _, p, _ in after]


@pytest.mark.system
def test_the_check_is_cheap() -> None:
    """It is made at every batch: 0.1 ms; the best of many here."""
    encoder = RobertaModel(RobertaConfig()).eval().encoder.sentence_encoder
    encoder.prepare(None)
    best = 1.0
    with torch.no_grad():
        assert encoder.prepared is not None and encoder.prepared.form() is not None
        for _ in range(300):
            start = time.thread_time()
            encoder.prepared.form()
            best = min(best, time.thread_time() - start)
    assert best < 5e-4
