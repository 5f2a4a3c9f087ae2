"""Counts the work of an update, and knows how much some devices could do at best."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from roberta_hub.config import RobertaConfig

DEVICE_PEAKS = {
    "NVIDIA B200": 2250e12,
    "NVIDIA H200": 989.4e12,
    "NVIDIA H100 80GB HBM3": 989.4e12,
    "NVIDIA H100 NVL": 835e12,
    "NVIDIA H100 PCIe": 756e12,
    **dict.fromkeys(("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"), 312e12),
    **dict.fromkeys(("NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe"), 312e12),
    "NVIDIA L40S": 362e12,
    "NVIDIA A10": 125e12,
    "NVIDIA L4": 121e12,
}
"""Dense FLOP/s in 16 bits by a device's whole name, since names that begin alike are other devices;
from NVIDIA's data sheets."""


def training_flops(config: RobertaConfig, lengths: Iterable[int]) -> float:
    """Count the FLOPs of forward and backward in the encoder's products, on real tokens.

    A product is two FLOPs an element, and the backward pass is two products for each (Chowdhery et
    al. 2022, appendix B). Heads, lookups and what is recomputed are not counted, so a utilization
    is never too high.

    Example:
        >>> config = RobertaConfig()  # roberta.base: 85 M weights in its layers' products
        >>> f"{training_flops(config, [512]) / 512:.4g}"
        '5.662e+08'
    """
    width = config.embed_dim
    weights = config.num_layers * (4 * width**2 + 2 * width * config.ffn_dim)
    if config.embedding_dim is not None:
        weights += config.embedding_dim * width
    known = list(lengths)
    tokens, squares = sum(known), sum(length * length for length in known)
    return 3.0 * (2 * weights * tokens + 4 * config.num_layers * width * squares)


def peak_flops(device: torch.device, precision: str) -> float | None:
    """Look up what a device could do at best, in FLOP/s; None where that is not known.

    Example:
        >>> peak_flops(torch.device("cpu"), "bf16") is None
        True
    """
    if device.type != "cuda" or precision == "no":
        return None
    return DEVICE_PEAKS.get(torch.cuda.get_device_name(device))
