"""torch.compile and torch.export of the public `forward` get the padded twin, with its numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_models import PAD, assert_close, small_model
from torch import Tensor, nn

from roberta_hub import RobertaModel
from roberta_hub.errors import InputError

pytestmark = pytest.mark.system

SHAPES = [(2, 5), (3, 7), (1, 9), (4, 1), (5, 20), (2, 12)]
CALLS: dict[str, dict[str, Any]] = {
    "LM logits": {},
    "features": {"features_only": True},
    "a head": {"classification_head_name": "topic"},
    "all states": {"features_only": True, "return_all_hiddens": True},
}
MODELS: dict[str, dict[str, Any]] = {
    "RoBERTa": {},
    "pre-norm": {"normalize_before": True, "layernorm_embedding": False},
    "factorized tokens": {"embedding_dim": 8},
    "segments, a projected sum": {
        "embedding_dim": 8,
        "project_sum": True,
        "num_segments": 2,
        "separator_idx": 2,
    },
}


def batch(rows: int, columns: int) -> Tensor:
    """Ids with separators, and padding on either side and inside where there is room for it."""
    generator = torch.Generator().manual_seed(100 * rows + columns)
    tokens = torch.randint(2, 60, (rows, columns), generator=generator)
    tokens[:, 0] = 0
    if columns > 4:
        tokens[:, 2] = 2
        tokens[-1, -2:] = PAD
        tokens[0, 3] = PAD
    if rows > 2 and columns > 4:
        tokens[1, :2] = PAD
        tokens[2] = PAD
    return tokens


def small(**overrides: Any) -> RobertaModel:
    return small_model(heads={"topic": 3}, **{"num_layers": 2, **overrides}).eval()


def assert_same(ours: tuple[Tensor, Any], wanted: tuple[Tensor, Any]) -> None:
    assert_close(ours[0], wanted[0])
    states, expected = ours[1]["inner_states"], wanted[1]["inner_states"]
    assert (states is None) == (expected is None)
    for state, plain in zip(states or [], expected or [], strict=True):
        assert_close(state, plain)


def counting() -> tuple[Callable[..., Any], list[int]]:
    """A backend that runs the graph as it is, and how many nodes each graph has."""
    graphs: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(len(graph.graph.nodes))
        return graph.forward

    return backend, graphs


@pytest.mark.parametrize("call", CALLS)
def test_compiled_whole_for_every_shape(call: str) -> None:
    """One graph without breaks for all shapes, and one each for a single row and a single column.

    Those two are torch's: it makes constants of sizes of 1.
    """
    torch._dynamo.reset()
    model, (backend, graphs) = small(), counting()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    with torch.no_grad():
        for shape in SHAPES if call == "LM logits" else SHAPES[:2]:
            tokens = batch(*shape)
            assert_same(compiled(tokens, **CALLS[call]), model(tokens, **CALLS[call]))
    assert len(graphs) == (3 if call == "LM logits" else 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_of_model_compiles(kind: str) -> None:
    torch._dynamo.reset()
    model, (backend, graphs) = small(**MODELS[kind]), counting()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    for shape in ((2, 5), (3, 9)):  # with gradients: eval mode decides, not no_grad
        tokens = batch(*shape)
        assert_same(
            compiled(tokens, return_all_hiddens=True), model(tokens, return_all_hiddens=True)
        )
    assert len(graphs) == 1


@pytest.mark.slow
def test_compiled_to_machine_code() -> None:
    """With inductor, torch.compile's own backend; a minute and more of C++."""
    torch._dynamo.reset()
    model = small()
    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for shape in SHAPES:
            tokens = batch(*shape)
            assert_same(compiled(tokens), model(tokens))


def test_a_prepared_model_compiles_to_its_plain_form() -> None:
    torch._dynamo.reset()
    model, (backend, graphs) = small(), counting()
    tokens = batch(3, 9)
    with torch.no_grad():
        wanted = model(tokens)
        model.encoder.sentence_encoder.prepare(None)
        assert model.encoder.lm_head is not None
        model.encoder.lm_head.prepare(None)
        compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
        assert_same(compiled(tokens), wanted)
        assert_same(model(tokens), wanted)  # and runs packed outside of it
    assert len(graphs) == 1


def test_a_compiled_model_in_train_mode_stays_packed() -> None:
    """Dropout must not be drawn for padding, so this graph has breaks, and the same numbers."""
    torch._dynamo.reset()
    model, (backend, _) = small().train(), counting()
    tokens = batch(3, 9)
    assert_same(torch.compile(model, dynamic=True, backend=backend)(tokens), model(tokens))
    dropping = small(dropout=0.5).train()
    compiled = torch.compile(dropping, dynamic=True, backend=backend)
    torch.manual_seed(3)
    ours = compiled(tokens)
    torch.manual_seed(3)
    assert_same(ours, dropping(tokens))  # drawn for the same N rows


def test_too_long_is_said_in_a_graph_too() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(small(), dynamic=True, backend="eager")
    with torch.no_grad(), pytest.raises(InputError, match="21 > 20"):
        compiled(torch.full((2, 21), 5))


class Call(nn.Module):
    """A model with some arguments of `forward` fixed, as one exports it."""

    def __init__(self, model: RobertaModel, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.model, self.arguments = model, arguments

    def forward(self, tokens: Tensor) -> Any:
        return self.model(tokens, **self.arguments)


SIZES = {
    0: torch.export.Dim("batch", min=1, max=64),
    1: torch.export.Dim("length", min=2, max=20),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", MODELS)
def test_exported_with_any_batch_and_length(kind: str, call: str) -> None:
    model = small(**MODELS[kind])
    with torch.no_grad():
        program = torch.export.export(
            Call(model, CALLS[call]), (batch(3, 7),), dynamic_shapes=({**SIZES},)
        ).module()
        for shape in ((1, 2), (2, 5), (1, 9), (5, 20), (3, 7)):
            tokens = batch(*shape)
            assert_same(program(tokens), model(tokens, **CALLS[call]))


def test_the_model_itself_is_exported() -> None:
    model = small()
    with torch.no_grad():
        program = torch.export.export(model, (batch(2, 5),), dynamic_shapes={"src_tokens": SIZES})
        assert_same(program.module()(batch(3, 9)), model(batch(3, 9)))
        # No node is left that looks at a value: a graph of such would be refused by exporters.
        assert not [n for n in program.graph.nodes if "nonzero" in str(n.target)]


def test_a_model_in_train_mode_is_not_exported() -> None:
    with pytest.raises(InputError, match=r"model\.eval\(\)"):
        torch.export.export(small().train(), (batch(2, 5),))
