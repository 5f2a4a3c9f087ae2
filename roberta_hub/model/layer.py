"""Computes one Transformer layer (Vaswani et al. 2017), plain or on prepared matrices.

Every module but attention is row-wise, so a layer runs on a packed batch (N, C) and on a padded one
(B, T, C) alike. Parameter names are fairseq's.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.model.activations import activation
from roberta_hub.model.attention import Attend, MultiheadSelfAttention
from roberta_hub.model.compiled import CompiledLayer, Parts, can
from roberta_hub.model.dropout import add_dropped, dropout
from roberta_hub.model.kernels import compiled_rows
from roberta_hub.model.matrices import Dtype, held, matrix, norm
from roberta_hub.model.prepared import is_plain


class TransformerLayer(nn.Module):
    """Self-attention and a feed-forward block, each with dropout, residual and LayerNorm."""

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
        self.dropout = dropout
        self.activation_dropout = activation_dropout

    def forward(self, x: Tensor, attend: Attend, rows: Tensor | None = None) -> Tensor:
        """One layer: (*, C) -> (*, C).

        With `rows`, one of each sequence, only what the layer gives for them: (B, C).
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
        out: Tensor = self.fc2(dropout(inner, self.activation_dropout, self.training))
        return out

    def _add(self, x: Tensor, change: Tensor) -> Tensor:
        return add_dropped(x, change, self.dropout, self.training)


class PreparedLayer:
    """The same layer for inference: one product for query, key and value, on prepared matrices.

    `TransformerLayer.forward` is its plain twin. Rows are (N, C), in float32 on a CPU.
    """

    compiled: CompiledLayer | None = None
    """Its form for up to `compiled_rows` rows, which `encoder.py` then runs in its place."""

    def __init__(self, layer: TransformerLayer, dtype: Dtype | None) -> None:
        attention = layer.self_attn
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        query_key_value = (
            torch.cat([projection.weight.detach() for projection in projections]),
            torch.cat([projection.bias.detach() for projection in projections]),
        )
        mix, widen, narrow = (
            (linear.weight.detach(), linear.bias.detach())
            for linear in (attention.out_proj, layer.fc1, layer.fc2)
        )
        products = (query_key_value, mix, widen, narrow)
        norms = (layer.self_attn_layer_norm, layer.final_layer_norm)
        parts = Parts(*products, *norms, attention.num_heads, layer.normalize_before)
        form = held([weight for weight, _ in products], dtype)
        self.compiled_rows = 0
        if form is not None and layer.activation_fn is F.gelu and parts.fit():
            self.compiled_rows = compiled_rows(form, can())
        if form is not None and self.compiled_rows:
            self.compiled = CompiledLayer(parts, form)
        many = partial(matrix, few=self.compiled is None)
        self.query_key_value = many(*query_key_value, dtype)
        self.mix = many(*mix, dtype)
        self.widen = many(*widen, dtype, layer.activation_fn)
        self.narrow = many(*narrow, dtype)
        self.attention_norm = norm(layer.self_attn_layer_norm)
        self.final_norm = norm(layer.final_layer_norm)
        self.num_heads = attention.num_heads
        self.normalize_before = layer.normalize_before

    def __call__(self, x: Tensor, attend: Attend, rows: Tensor | None = None) -> Tensor:
        """One layer: (N, C) -> (N, C); with `rows`, one of each sequence, (B, C)."""
        kept = x if rows is None else x[rows]
        if self.normalize_before:
            x = self.mix(self._attention(self.attention_norm(x), attend, rows), kept)
            return self.narrow(self.widen(self.final_norm(x)), x)
        x = self.attention_norm(self.mix(self._attention(x, attend, rows), kept))
        return self.final_norm(self.narrow(self.widen(x), x))

    def _attention(self, x: Tensor, attend: Attend, rows: Tensor | None) -> Tensor:
        query, key, value = self.query_key_value(x).chunk(3, dim=-1)  # (N, C) each
        query = query if rows is None else query[rows]
        return attend(query, key, value, num_heads=self.num_heads, dropout=0.0)


_FORWARDS: dict[type[nn.Module], object] = {
    kind: kind.forward
    for kind in (TransformerLayer, MultiheadSelfAttention, nn.Linear, nn.LayerNorm)
}
"""The classes and forwards that `PreparedLayer` replaces; a layer with another stays plain."""


def prepare_layers(layers: nn.ModuleList, dtype: Dtype | None) -> list[PreparedLayer] | None:
    """Prepared forms of an encoder's layers.

    None where one has a part of another kind, say an adapter, or one without a bias.
    """
    prepared = []
    for layer in layers:
        if not isinstance(layer, TransformerLayer) or not is_plain(layer, _FORWARDS):
            return None
        if any(p is None for part in layer.modules() for p in part._parameters.values()):
            return None
        prepared.append(PreparedLayer(layer, dtype))
    return prepared
