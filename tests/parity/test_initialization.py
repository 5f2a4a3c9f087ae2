"""Random weights begin as fairseq's do: by name, mean and spread, every parameter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from roberta_hub import RobertaConfig, RobertaModel
from roberta_hub.formats.upgrade import is_stale

from . import peers

pytestmark = pytest.mark.parity

WIDE = {"encoder_embed_dim": 64, "encoder_ffn_embed_dim": 128, "encoder_layers": 2}


def fresh_fairseq(folder: Path, **overrides: Any) -> Any:
    """A real fairseq model as its constructor leaves it, with the heads added afterwards."""
    peer = peers.fairseq_model(peers.dictionary(folder, 1000), **WIDE, **overrides)
    from fairseq import tasks  # importable now

    torch.manual_seed(0)
    model = tasks.setup_task(peer.cfg.task).build_model(peer.cfg.model)
    model.register_classification_head("topic", num_classes=40)
    return model


def shape_of(tensor: Tensor) -> tuple[str, float]:
    """All zeros, all ones, or random; and how far it spreads."""
    values = tensor.detach().flatten()
    if values.unique().numel() == 1:
        return f"all {float(values[0])}", 0.0
    return "random", float(values.std())


@peers.needs_fairseq
@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"untie_weights_roberta": True},
        {"spectral_norm_classification_head": True},
        {"quant_noise_pq": 0.1},
        {"arch": "roberta_prenorm"},
    ],
    ids=str,
)
def test_every_parameter_starts_as_fairseqs(tmp_path: Path, overrides: dict[str, Any]) -> None:
    theirs = fresh_fairseq(tmp_path, **overrides)
    prenorm = overrides.get("arch") == "roberta_prenorm"
    torch.manual_seed(1)
    ours = RobertaModel(
        RobertaConfig(
            vocab_size=len(theirs.encoder.dictionary),
            embed_dim=64,
            ffn_dim=128,
            num_layers=2,
            num_heads=4,
            max_positions=64,
            untie_weights=overrides.get("untie_weights_roberta", False),
            spectral_norm_heads=overrides.get("spectral_norm_classification_head", False),
            quant_noise_pq=overrides.get("quant_noise_pq", 0.0),
            normalize_before=prenorm,
            layernorm_embedding=not prenorm,
        )
    )
    ours.register_classification_head("topic", 40)
    wanted = {n: p for n, p in theirs.named_parameters() if not is_stale(n)}
    found = dict(ours.named_parameters())
    assert found.keys() == wanted.keys()
    for name, parameter in wanted.items():
        (kind, std), (our_kind, our_std) = shape_of(parameter), shape_of(found[name])
        assert our_kind == kind, name
        # The spread of a sample of n has itself a spread of about 1 / sqrt(2 n).
        assert our_std == pytest.approx(std, rel=6 / parameter.numel() ** 0.5), name
    for name in ("embed_tokens", "embed_positions"):
        for model in (ours, theirs):
            assert not getattr(model.encoder.sentence_encoder, name).weight[1].any()


@pytest.mark.parametrize("embed_dim", [32, 256])
def test_heads_that_fairseq_lacks_start_as_berts(embed_dim: int) -> None:
    torch.manual_seed(0)
    model = RobertaModel(
        RobertaConfig(vocab_size=50, embed_dim=embed_dim, num_heads=4, num_layers=1)
    )
    model.register_token_head("ner", 64)
    model.register_span_head("squad")
    for head in (model.token_heads["ner"], model.span_heads["squad"]):
        weight = head.out_proj.weight
        assert float(weight.detach().std()) == pytest.approx(0.02, rel=6 / weight.numel() ** 0.5)
        assert not head.out_proj.bias.any()
