"""data2vec's text model, as fairseq's own class writes it; X-MOD is refused by its name."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

import roberta_hub
from roberta_hub.errors import CheckpointError

from . import peers
from .fairseq_peer import _quiet, real_fairseq

pytestmark = [pytest.mark.parity, peers.needs_fairseq]
TOLERANCE = 1e-5
SIZES = {"embed_dim": 32, "ffn_embed_dim": 64, "layers": 3, "attention_heads": 4}
TEXTS = ["Hello world!", "The train was late.", "Nobody <mask> why </s> the dog", ""]


def fairseq_class() -> Any:
    """fairseq's Data2VecTextModel, which lies among its examples.

    Python 3.11 wants defaults of dataclasses to have a hash; see `import_fairseq`.
    """
    from fairseq.models.transformer import TransformerConfig

    before, TransformerConfig.__hash__ = TransformerConfig.__hash__, object.__hash__
    try:
        from fairseq.examples.data2vec.models import data2vec_text
    finally:
        TransformerConfig.__hash__ = before
    return data2vec_text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of a pre-training that has begun: teacher and regression head in it."""
    real_fairseq()
    folder = tmp_path_factory.mktemp("data2vec")
    with _quiet():
        peers.dictionary(folder)
        peer = peers.fairseq_model(folder, max_positions=64)
        theirs = fairseq_class()
        cfg = theirs.Data2VecTextConfig()
        cfg.max_positions, cfg.head_layers = 64, 2
        cfg.transformer.dropout, cfg.transformer.layernorm_embedding = 0.1, True
        cfg.transformer.activation_fn, cfg.transformer.no_scale_embedding = "gelu", True
        cfg.transformer.max_source_positions = 64
        for name, value in {**SIZES, "learned_pos": True, "normalize_before": False}.items():
            setattr(cfg.transformer.encoder, name, value)
        torch.manual_seed(1)
        encoder = theirs.Data2VecTextEncoder(cfg, peer.task.source_dictionary, "")
        model = theirs.Data2VecTextModel(cfg, encoder)
        model.register_classification_head("topic", num_classes=3)
        with torch.no_grad():
            for weight in model.parameters():
                weight += 0.1 * torch.randn(weight.shape)
        model.set_num_updates(1)  # which makes the teacher
    about = {"_name": "data2vec_text", **dataclasses.asdict(cfg)}
    task = {"_name": "masked_lm", "tokens_per_sample": 64}
    cfg_of_file = {"model": about, "task": task}
    state = model.state_dict()
    assert "encoder._ema" in state
    torch.save({"cfg": cfg_of_file, "args": None, "model": state}, folder / "model.pt")
    torch.save(model.eval(), folder / "whole.pickle")
    return folder


def test_the_features_are_fairseqs(folder: Path) -> None:
    ours = roberta_hub.load_model(folder).eval()
    assert ours.model.config.num_heads == 4 and ours.model.config.num_layers == 3
    assert ours.model.encoder.lm_head is None
    theirs = torch.load(folder / "whole.pickle", weights_only=False).eval()
    for text in TEXTS:
        ids = ours.encode(text)
        with torch.no_grad():
            wanted, extra = theirs(ids[None], features_only=True, return_all_hiddens=True)
        found = ours.extract_features(ids, return_all_hiddens=True)
        for state, other in zip(found, extra["inner_states"], strict=True):
            assert torch.allclose(state[0], other[:, 0], atol=TOLERANCE)
        assert torch.allclose(found[-1], wanted, atol=TOLERANCE)
        logits = theirs.classification_heads["topic"](wanted)
        assert torch.allclose(
            ours.predict("topic", ids, return_logits=True), logits, atol=TOLERANCE
        )


def test_a_head_can_be_taught(folder: Path, tmp_path: Path) -> None:
    rows = {"text": ["good film", "bad film"] * 8, "label": ["good", "bad"] * 8}
    tuned = roberta_hub.fit(rows, model=str(folder), output=tmp_path / "mine")
    assert tuned.classify(["good film"])[0].label in ("good", "bad")


def test_x_mod_is_refused_by_name(tmp_path: Path) -> None:
    """Its layers choose an adapter by the language, and without it answer otherwise."""
    real_fairseq()
    with _quiet():
        peers.dictionary(tmp_path)
        peer = peers.fairseq_model(tmp_path, max_positions=64)
    peers.save_era(peer, tmp_path)
    state = torch.load(tmp_path / "model.pt", weights_only=False)
    layer = "encoder.sentence_encoder.layers.0."
    state["model"] |= {
        f"{layer}adapter_modules.en_XX.fc1.weight": torch.zeros(8, 32),
        f"{layer}adapter_layer_norm.weight": torch.ones(32),
    }
    torch.save(state, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match="X-MOD"):
        roberta_hub.load_model(tmp_path)
