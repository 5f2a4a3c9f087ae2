"""Twenty sound peers, and no fault is named of any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peers_at_fault import PROMPT, Service, copied, served

import roberta_hub
from roberta_hub import SentenceSettings
from roberta_hub.errors import InputError
from roberta_hub.verification.records import Verification

pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

MEAN = SentenceSettings(pooling="mean", normalize=True)
PROMPTED = SentenceSettings(
    pooling="cls", normalize=True, prompts={"query": PROMPT}, default_prompt="query"
)


def assert_sound(found: Verification, verdict: str = "same") -> None:
    assert found.faults == () and found.verdict == verdict, str(found)
    assert found.ok and found.texts > 25


@pytest.mark.parametrize(
    "kind",
    [
        "roberta",
        "gottbert",
        "xlm-roberta",
        "camembert",
        "bert",
        "bert-cased",
        "electra",
        "albert",
        "distilbert",
        "xlm-roberta-xl",
    ],
)
def test_transformers_of_a_folder(folders: Any, models: Any, kind: str) -> None:
    found = roberta_hub.verify(models(folders(kind)), folders(kind))
    assert_sound(found)
    assert [stage.name for stage in found.stages][:3] == ["ids", "embeddings", "layer 1"]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_transformers_with_either_attention(folders: Any, models: Any, attention: str) -> None:
    import transformers

    folder = folders("roberta")
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation=attention)
    assert_sound(roberta_hub.verify(models(folder), model))


@pytest.mark.parametrize("kind", ["roberta", "bert"])
@pytest.mark.parametrize("settings", [MEAN, PROMPTED], ids=["mean", "prompted"])
def test_sentence_transformers(
    folders: Any, models: Any, kind: str, settings: SentenceSettings
) -> None:
    pytest.importorskip("sentence_transformers")
    found = roberta_hub.verify(models(folders(kind, settings)), folders(kind, settings))
    assert_sound(found)
    assert "vectors" in [stage.name for stage in found.stages]


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("kind", ["roberta", "bert"])
def test_our_own_exports(folders: Any, models: Any, tmp_path: Path, kind: str, opset: int) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    folder = folders(kind)
    roberta_hub.load_model(folder).export(tmp_path, opset=opset)
    found = roberta_hub.verify(models(folder), tmp_path / "model.onnx")
    assert_sound(found)
    assert "ids" in [stage.name for stage in found.stages]


def test_an_export_of_a_head(folders: Any, models: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    roberta = roberta_hub.load_model(folders("roberta"))
    roberta.register_classification_head("topic", labels=["art", "sport", "law"])
    roberta.export(tmp_path, head="topic")
    found = roberta_hub.verify(roberta, tmp_path / "model.onnx")
    assert_sound(found)
    assert "logits" in [stage.name for stage in found.stages]


def test_an_export_of_one_of_two_heads_is_known_by_its_labels(folders: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    roberta = roberta_hub.load_model(folders("roberta"))
    roberta.register_classification_head("topic", labels=["art", "sport", "law"])
    roberta.register_classification_head("mood", labels=["bad", "neutral", "good"])
    roberta.export(tmp_path, head="mood")
    assert_sound(roberta_hub.verify(roberta, tmp_path / "model.onnx"))
    (tmp_path / "config.json").unlink()
    with pytest.raises(InputError, match="not clear which answer"):
        roberta_hub.verify(roberta, tmp_path / "model.onnx")


@pytest.mark.parametrize("protocol", ["", "/embed", "/v1/embeddings"])
def test_a_server(folders: Any, models: Any, protocol: str) -> None:
    folder = folders("roberta", MEAN)
    with served(Service(folder)) as root:
        assert_sound(roberta_hub.verify(models(folder), root + protocol))


@pytest.mark.slow
def test_the_model_in_the_box(tmp_path: Path) -> None:
    """Saved for transformers, whose rounding its vectors then have."""
    pytest.importorskip("sentence_transformers")
    tiny = roberta_hub.load_model("roberta.tiny")
    tiny.save(tmp_path, format="huggingface")
    assert_sound(roberta_hub.verify(tiny, tmp_path))


def test_another_of_ours(folders: Any, models: Any) -> None:
    peer = roberta_hub.load_model(folders("roberta", MEAN))
    peer.optimize()
    assert_sound(roberta_hub.verify(models(folders("roberta", MEAN)), peer))


def test_half_precision_is_no_fault(folders: Any, models: Any, tmp_path: Path) -> None:
    import transformers

    folder = folders("bert", MEAN)
    place = copied(folder, tmp_path / "half")
    half = transformers.AutoModel.from_pretrained(folder, dtype=torch.float16)
    half.save_pretrained(place)
    assert_sound(roberta_hub.verify(models(folder), place), "precision")


def test_words_with_a_role_are_a_known_difference(folders: Any, models: Any) -> None:
    found = roberta_hub.verify(models(folders("roberta")), folders("roberta"))
    (only,) = found.findings
    assert (only.kind, only.name) == ("by design", "special tokens in texts")
    assert only.texts == ("a </s> b", "a <s> b", "a <mask> b")
