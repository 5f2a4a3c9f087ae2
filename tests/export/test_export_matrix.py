"""Every answer of every family in ONNX 18, ONNX 23 and torch.export: within 1e-4 of the model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from exported_answers import FACTORIZED, FAMILIES, answers, asked, made

from roberta_hub import RobertaHubInterface

KINDS = {
    "features": "",
    "cls": "cls",
    "mean": "mean",
    "max": "max",
    "pooler": "pooler",
    "language": "",
    "classification": "topic",
    "mood": "mood",
    "token": "ner",
    "span": "squad",
    "replaced": "replaced_head",
}
"""Each answer by its pooling or kind, and its name."""
FORMATS = {"torch": ("torch", 18), "onnx 18": ("onnx", 18), "onnx 23": ("onnx", 23)}
pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", params=[*FAMILIES, FACTORIZED])
def roberta(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> RobertaHubInterface:
    return made(request.param, tmp_path_factory.mktemp("family"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format", FORMATS)
def test_it_is_within_the_limit(
    roberta: RobertaHubInterface, kind: str, format: str, tmp_path: Path
) -> None:
    written, opset = FORMATS[format]
    if written == "onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    found = [a for a in answers(roberta) if kind in (a.kind, a.name) and a.name == KINDS[kind]]
    if not found:
        pytest.skip(f"this family has no {kind}")
    done = roberta.export(tmp_path / "out", written, opset=opset, **asked(found[0]))
    assert done.outputs == found[0].outputs
    assert done.difference is not None and done.difference <= 1e-4


@pytest.mark.parametrize("opset", range(18, 24))
def test_every_opset_that_is_allowed(opset: int, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    written = pytest.importorskip("onnx")
    roberta = made(FACTORIZED, tmp_path)
    roberta.export(tmp_path / "out", opset=opset, pooling="mean")
    versions = written.load(tmp_path / "out/model.onnx").opset_import
    assert [o.version for o in versions if not o.domain] == [opset]


def test_weights_of_a_large_model_lie_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    from roberta_hub.export import onnx

    monkeypatch.setattr(onnx, "EXTERNAL_DATA_BYTES", 1000)
    roberta = made(FACTORIZED, tmp_path)
    done = roberta.export(tmp_path / "out", pooling="cls")
    assert {"model.onnx", "model.onnx.data"} <= {*done.files}
    size = sum(p.numel() for p in roberta.model.transformer.parameters())
    assert (tmp_path / "out/model.onnx.data").stat().st_size >= 4 * size * 0.9
    assert (tmp_path / "out/model.onnx").stat().st_size < 500_000
    # An earlier export of a small one leaves no old weights there.
    monkeypatch.setattr(onnx, "EXTERNAL_DATA_BYTES", 10**12)
    assert "model.onnx.data" not in roberta.export(tmp_path / "out", pooling="cls").files
    assert not (tmp_path / "out/model.onnx.data").exists()


def test_spectral_norm_heads(tmp_path: Path) -> None:
    from small_models import small_roberta

    roberta = small_roberta(num_layers=1, spectral_norm_heads=True)
    roberta.register_classification_head("topic", num_classes=3)
    done = roberta.eval().export(tmp_path / "out", "torch", head="topic")
    assert done.difference is not None and done.difference < 1e-5
    assert isinstance(torch.export.load(tmp_path / "out/model.pt2"), torch.export.ExportedProgram)
