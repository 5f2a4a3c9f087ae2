"""Counts the work of an encoder, for shares of what a machine could do."""

from __future__ import annotations

from lib.engines import Ids

from roberta_hub import RobertaHubInterface


def linear_flops(roberta: RobertaHubInterface) -> int:
    """Count the FLOPs of a token in the products with weights of all layers."""
    c = roberta.model.config
    return c.num_layers * 2 * (4 * c.embed_dim**2 + 2 * c.embed_dim * c.ffn_dim)


def flops(roberta: RobertaHubInterface, ids: Ids) -> float:
    """Count the FLOPs of the layers' products on real tokens, attention's own among them."""
    c, linear = roberta.model.config, linear_flops(roberta)
    return sum(len(t) * (linear + c.num_layers * 4 * len(t) * c.embed_dim) for t in ids)
