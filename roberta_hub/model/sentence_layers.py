"""Layers over pooled vectors, as sentence-transformers has them: Dense, LayerNorm and so on.

`SentenceSettings.layers` says which they are; their weights belong to the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.errors import InputError
from roberta_hub.model.activations import activation
from roberta_hub.settings import SentenceLayer

PREFIX = "sentence_layers."
"""Prefix of their parameters' names; the rest is sentence-transformers' own name of each."""


class DenseLayer(nn.Module):
    """A matrix, an activation, and perhaps the input once more: x -> act(W x + b) + R x."""

    def __init__(self, spec: SentenceLayer, width: int, outputs: int, *, bias: bool) -> None:
        super().__init__()
        self.spec = spec
        self.linear = nn.Linear(width, outputs, bias=bias)
        self.activation_fn = activation(spec.activation)
        self.residual: nn.Linear | None = None
        if spec.residual and width != outputs:
            self.residual = nn.Linear(width, outputs, bias=False)

    def forward(self, vectors: Tensor) -> Tensor:
        """(n, C) -> (n, outputs)."""
        made = self.activation_fn(self.linear(vectors))
        if not self.spec.residual:
            return made
        more: Tensor = vectors if self.residual is None else self.residual(vectors)
        return made + more


class NormLayer(nn.Module):
    """A LayerNorm."""

    def __init__(self, spec: SentenceLayer, width: int) -> None:
        super().__init__()
        self.spec, self.norm = spec, nn.LayerNorm(width)

    def forward(self, vectors: Tensor) -> Tensor:
        """(n, C) -> (n, C)."""
        made: Tensor = self.norm(vectors)
        return made


class PlainLayer(nn.Module):
    """A layer without weights: vectors of length 1, or dropout, which does nothing in eval mode."""

    def __init__(self, spec: SentenceLayer) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, vectors: Tensor) -> Tensor:
        """(n, C) -> (n, C)."""
        if self.spec.kind == "normalize":
            return F.normalize(vectors, dim=-1)
        return F.dropout(vectors, self.spec.rate, self.training)


def make_layers(
    specs: Sequence[SentenceLayer], shapes: Mapping[str, Sequence[int]], width: int
) -> nn.ModuleList:
    """Make the layers of a model, with random weights.

    Args:
        specs: the layers, in order.
        shapes: of their weights, by name in a state dict: "sentence_layers.0.linear.weight".
        width: of the pooled vectors.

    Example:
        >>> dense = SentenceLayer(kind="dense", activation="tanh")
        >>> make_layers([dense], {"sentence_layers.0.linear.weight": (4, 8)}, 8)[0].linear
        Linear(in_features=8, out_features=4, bias=False)
    """
    made = nn.ModuleList()
    for number, spec in enumerate(specs):
        if spec.kind == "layer_norm":
            made.append(NormLayer(spec, width))
        elif spec.kind != "dense":
            made.append(PlainLayer(spec))
        else:
            name = f"{PREFIX}{number}.linear."
            shape = tuple(shapes.get(f"{name}weight", ()))
            if len(shape) != 2 or shape[1] != width:
                raise InputError(
                    f"{name}weight has shape {shape}, and pooling_mode and the layers before it "
                    f"make vectors of {width} numbers"
                )
            made.append(DenseLayer(spec, width, shape[0], bias=f"{name}bias" in shapes))
            width = shape[0]
    return made


def layers_of(model: nn.Module, specs: Sequence[SentenceLayer]) -> Sequence[nn.Module]:
    """Return a model's layers over sentence vectors, which must be those of its settings."""
    if not specs:
        return ()
    found = getattr(model, "sentence_layers", None)
    own = [] if found is None else [layer.spec for layer in found]
    if own != [*specs]:
        raise InputError(
            f"sentence.layers names {', '.join(spec.kind for spec in specs)}, and the weights of "
            f"this model are those of {', '.join(spec.kind for spec in own) or 'none'}; "
            "dataclasses.replace(sentence, layers=()) makes vectors without them"
        )
    layers: Sequence[nn.Module] = found  # type: ignore[assignment]
    return layers


def width_after(layers: Sequence[nn.Module], width: int) -> int:
    """Width of vectors that went through layers."""
    dense = [layer for layer in layers if isinstance(layer, DenseLayer)]
    return dense[-1].linear.out_features if dense else width


def through_layers(model: nn.Module, specs: Sequence[SentenceLayer], vectors: Tensor) -> Tensor:
    """Run pooled vectors through a model's layers: (n, C) -> (n, D)."""
    for layer in layers_of(model, specs):
        vectors = layer(vectors)
    return vectors
