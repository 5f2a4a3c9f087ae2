"""One Transformer layer (Vaswani et al. 2017), plain or on prepared matrices.

All modules except attention are row-wise, so a layer runs on packed batches (N, C) and on padded
ones (B, T, C) alike. Parameter names are fairseq's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.model.activations import activation
from roberta_hub.model.attention import Attend, MultiheadSelfAttention
from roberta_hub.model.compiled import CompiledLayer, LayerWeights, WeightFormat
from roberta_hub.model.dropout import FairseqDropout, add_dropped, probability_of
from roberta_hub.model.kernels import ANY_ROWS, SMALL_LAYER_WEIGHTS
from roberta_hub.model.matrices import (
    Dtype,
    compiled_rows_here,
    prepare_matrix,
    prepare_norm,
    weight_format,
)
from roberta_hub.model.prepared import is_plain
from roberta_hub.model.products import Matrix

STALE = tuple(
    f"{part}_{kind}"
    for part in ("in_proj", "out_proj", "fc1", "fc2")
    for kind in ("weight", "bias")
)
"""Names in fairseq 0.12's layer of a second copy of its matrices, which training leaves as it was
at the start."""


class TransformerLayer(nn.Module):
    """Self-attention and a feed-forward block, each with dropout, residual and LayerNorm."""

    dropout = probability_of("dropout_module")
    activation_dropout = probability_of("activation_dropout_module")

    def __init__(
        self,
        embed_dim: int,
        ffn_dim: int,
        num_heads: int,
        *,
        activation_fn: str,
        dropout: float,
        attention_dropout: float,
        activation_dropout: float,
        normalize_before: bool,
        eps: float,
    ) -> None:
        super().__init__()
        self.normalize_before = normalize_before
        self.self_attn = MultiheadSelfAttention(embed_dim, num_heads, dropout=attention_dropout)
        self.self_attn_layer_norm = nn.LayerNorm(embed_dim, eps=eps)
        self.fc1 = nn.Linear(embed_dim, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, embed_dim)
        self.final_layer_norm = nn.LayerNorm(embed_dim, eps=eps)
        self.activation_fn = activation(activation_fn)
        self.dropout_module = FairseqDropout(dropout)
        self.activation_dropout_module = FairseqDropout(activation_dropout)

    def forward(self, x: Tensor, attend: Attend, rows: Tensor | None = None) -> Tensor:
        """One layer: (*, C) -> (*, C).

        With `rows`, one of each sequence, only their outputs: (B, C).
        """
        kept = x if rows is None else x[rows]
        if self.normalize_before:
            x = self._add(kept, self.self_attn(self.self_attn_layer_norm(x), attend, rows))
            return self._add(x, self._feed_forward(self.final_layer_norm(x)))
        x = self.self_attn_layer_norm(self._add(kept, self.self_attn(x, attend, rows)))
        x = self.final_layer_norm(self._add(x, self._feed_forward(x)))
        return x

    def _feed_forward(self, x: Tensor) -> Tensor:
        inner = self.activation_fn(self.fc1(x))  # (*, ffn_dim)
        out: Tensor = self.fc2(self.activation_dropout_module(inner))
        return out

    def _add(self, x: Tensor, change: Tensor) -> Tensor:
        return add_dropped(x, change, self.dropout_module.active)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        """Load a state dict of fairseq 0.12's too, which has an unused second copy of a layer."""
        for name in STALE:
            state_dict.pop(prefix + name, None)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class Products(NamedTuple):
    """The products of a layer, each by itself."""

    query_key_value: Matrix
    mix: Matrix
    widen: Matrix
    narrow: Matrix


class PreparedLayer:
    """A layer for inference on prepared matrices, with one product for query, key and value.

    Equivalent to `TransformerLayer.forward`. Rows are (N, C), in float32 on a CPU. `compiled` has
    sorted (max_rows, layer) pairs of its compiled forms, which `encoder.py` runs instead.
    """

    def __init__(self, layer: TransformerLayer, dtype: Dtype | None) -> None:
        self._layer, self._dtype = layer, dtype
        self.attention_norm = prepare_norm(layer.self_attn_layer_norm)
        self.final_norm = prepare_norm(layer.final_layer_norm)
        self.num_heads = layer.self_attn.num_heads
        self.normalize_before = layer.normalize_before
        self.compiled = self._compiled()
        every = self.compiled_for(ANY_ROWS) is not None
        self.products: Products | None = None if every else self._products()
        """Each by itself; None if a compiled form covers any number of rows."""

    def compiled_for(self, rows: int) -> CompiledLayer | None:
        """Compiled form for this number of rows, or None."""
        fit = (form for limit, form in self.compiled if 0 < rows <= limit)
        return next(fit, None)

    def _products(self) -> Products:
        matrices, few = _matrices(self._layer), not self.compiled
        made = [
            prepare_matrix(
                *pair, self._dtype, self._layer.activation_fn if i == 2 else None, few=few
            )
            for i, pair in enumerate(matrices)
        ]
        return Products(*made)

    def _compiled(self) -> list[tuple[int, CompiledLayer]]:
        layer, matrices = self._layer, _matrices(self._layer)
        norms = (layer.self_attn_layer_norm, layer.final_layer_norm)
        parts = LayerWeights(*matrices, *norms, self.num_heads, self.normalize_before)
        weights = [weight for weight, _ in matrices]
        form = weight_format(weights, self._dtype)
        if form is None or layer.activation_fn is not F.gelu or not parts.has_regular_shapes():
            return []
        found: list[tuple[int, CompiledLayer]] = []
        forms: tuple[WeightFormat, ...] = (form,)
        if self._dtype is None and form != "float32":  # the same numbers, shorter
            forms = (form, "float32")
        for name in forms:
            rows = compiled_rows_here(name)
            copied = name == "float32" and rows < ANY_ROWS  # in addition to torch's form
            if copied and sum(weight.numel() for weight in weights) > SMALL_LAYER_WEIGHTS:
                continue
            if rows > max((limit for limit, _ in found), default=0):
                found.append((rows, CompiledLayer(parts, name)))
        return found

    def __call__(self, x: Tensor, attend: Attend, rows: Tensor | None = None) -> Tensor:
        """One layer: (N, C) -> (N, C); with `rows`, one of each sequence, (B, C)."""
        kept, products = x if rows is None else x[rows], self.products
        assert products is not None  # else `encoder.py` runs a compiled form
        if self.normalize_before:
            three = products.query_key_value(self.attention_norm(x))
            x = products.mix(self._attention(three, attend, rows), kept)
            return products.narrow(products.widen(self.final_norm(x)), x)
        mixed = self._attention(products.query_key_value(x), attend, rows)
        x = self.attention_norm(products.mix(mixed, kept))
        return self.final_norm(products.narrow(products.widen(x), x))

    def _attention(self, three: Tensor, attend: Attend, rows: Tensor | None) -> Tensor:
        """Attend from concatenated query, key and value: (N, 3 * C) -> (N, C) or (B, C)."""
        query, key, value = three.chunk(3, dim=-1)  # (N, C) each
        query = query if rows is None else query[rows]
        return attend(query, key, value, num_heads=self.num_heads, dropout=0.0)


WeightAndBias = tuple[Tensor, Tensor]


def _matrices(
    layer: TransformerLayer,
) -> tuple[WeightAndBias, WeightAndBias, WeightAndBias, WeightAndBias]:
    """Weight and bias of each product: query, key and value concatenated, then the other three."""
    attention = layer.self_attn
    three = (attention.q_proj, attention.k_proj, attention.v_proj)
    weight = torch.cat([linear.weight.detach() for linear in three])
    bias = torch.cat([linear.bias.detach() for linear in three])
    mix, widen, narrow = (
        (linear.weight.detach(), linear.bias.detach())
        for linear in (attention.out_proj, layer.fc1, layer.fc2)
    )
    return (weight, bias), mix, widen, narrow


_FORWARDS: dict[type[nn.Module], object] = {
    kind: kind.forward
    for kind in (TransformerLayer, MultiheadSelfAttention, FairseqDropout, nn.Linear, nn.LayerNorm)
}
"""The classes and forwards that `PreparedLayer` replaces; a layer with another stays plain."""


def prepare_layers(layers: nn.ModuleList, dtype: Dtype | None) -> list[PreparedLayer] | None:
    """Prepared forms of an encoder's layers.

    None if a layer has a module of another class, say an adapter, or one without a bias.
    """
    prepared = []
    for layer in layers:
        if not isinstance(layer, TransformerLayer) or not is_plain(layer, _FORWARDS):
            return None
        if any(p is None for part in layer.modules() for p in part._parameters.values()):
            return None
        prepared.append(PreparedLayer(layer, dtype))
    return prepared
