"""Display of attention weights, by layer and head."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from roberta_hub.arguments import whole_number
from roberta_hub.errors import InputError
from roberta_hub.inference.batching import Runner
from roberta_hub.inference.mode import evaluating
from roberta_hub.model.roberta import require_roberta
from roberta_hub.show.display import Display
from roberta_hub.show.grid import Grid, Panel

MAX_TOKENS = 128
"""Longest text in tokens; larger maps are unreadable."""


def attention(
    runner: Runner, sentences: tuple[str, ...], layer: int | None, attention_head: int | None
) -> Display:
    """Show attention weights. See `RobertaHubInterface.attention`."""
    tokenizer = runner.tokenizer
    layers, heads = attention_shape(runner.model)
    if layer is not None:
        hint = f"1 to {layers} are the layers, from the embeddings up, and -1 is the last"
        layer = whole_number("layer", layer, -layers, layers, hint=hint)
        if layer == 0:
            layer = whole_number("layer", layer, 1, layers, hint=hint)
        layer = layer if layer > 0 else layers + 1 + layer
    if attention_head is not None:
        attention_head = whole_number("attention_head", attention_head, 0, heads - 1)
    ids = tokenizer.encode(*sentences)
    if len(ids) > min(runner.limit, MAX_TOKENS):
        raise InputError(
            f"text is too long: {len(ids)} tokens, and attention shows at most "
            f"{min(runner.limit, MAX_TOKENS)}; pass a part of it"
        )
    weights = attention_weights(runner.model, ids)  # (L, H, T, T)
    asked = _maps_shown(layer, attention_head, layers, heads)
    panels = [Panel(_title(*one), _mean(weights, *one).tolist()) for one in asked]
    pieces = tokenizer.pieces(ids)
    values: dict[str, Any] = {
        "texts": list(sentences),
        "pieces": pieces,
        "panels": [
            {"layer": one, "attention_head": head, "weights": panel.weights}
            for (one, head), panel in zip(asked, panels, strict=True)
        ],
    }
    return Display("Attention", [Grid(pieces, panels)], values)


def attention_shape(model: nn.Module) -> tuple[int, int]:
    """(number of layers, number of attention heads) of a model."""
    config = require_roberta(model, "attention looks into").config
    return config.num_layers, config.num_heads


def attention_weights(model: nn.Module, ids: Tensor) -> Tensor:
    """Compute the weights of one sequence in eval mode: (T,) -> (L, H, T, T), on the CPU."""
    ours = require_roberta(model, "attention looks into")
    with evaluating(model):
        return ours.transformer.attention_weights(ids).float().cpu()


def _maps_shown(
    layer: int | None, head: int | None, layers: int, heads: int
) -> list[tuple[int, int | None]]:
    """The maps shown, as (layer, head): one, the heads of a layer, or all layers."""
    if layer is None:
        return [(one, head) for one in range(1, layers + 1)]
    if head is None:
        return [(layer, one) for one in range(heads)]
    return [(layer, head)]


def _mean(weights: Tensor, layer: int, head: int | None) -> Tensor:
    """(L, H, T, T) -> (T, T), of one head or the mean over all."""
    own = weights[layer - 1]
    return own.mean(0) if head is None else own[head]


def _title(layer: int, head: int | None) -> str:
    return f"layer {layer}, " + ("mean of its heads" if head is None else f"head {head}")
