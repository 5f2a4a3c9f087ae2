"""`export` writes a folder that is whole, checked and named as loaders read it, or says why not."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from exported_answers import made, padded
from small_models import assert_close, small_roberta

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.errors import (
    CheckpointError,
    ExportError,
    InputError,
    InputTypeError,
    MissingExtraError,
    RobertaHubError,
    UnknownNameError,
)
from roberta_hub.export import onnx, program
from roberta_hub.inference.optimize import Optimization

pytestmark = pytest.mark.system

TEXTS = ["The train was late.", "", "Where can I buy a ticket to Berlin for tomorrow?"]


@pytest.fixture(scope="module")
def roberta() -> RobertaHubInterface:
    """One layer, three heads, labels."""
    made = small_roberta(
        heads={"topic": 3}, labels={"topic": ("art", "news", "sport")}, num_layers=1
    )
    made.register_token_head("ner", labels=["O", "B-X"])
    return made.eval()


def files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


BESIDE = ["config.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", "vocab.json"]


def test_a_program_of_torch(roberta: RobertaHubInterface, tmp_path: Path) -> None:
    roberta.train()
    found = roberta.export(tmp_path / "out", "torch", head="topic")
    assert roberta.training and roberta.model.classification_heads["topic"].training
    roberta.eval()
    assert list(found.files) == files(tmp_path / "out") == sorted([*BESIDE, "model.pt2"])
    assert found.inputs == ("input_ids", "attention_mask") and found.outputs == ("logits",)
    assert found.difference is not None and found.difference < 1e-5
    assert re.search(r"-> logits\nwithin [\de.-]+ of the model, on five batches$", str(found))
    about = json.loads((tmp_path / "out/config.json").read_text())
    assert about["architectures"] == ["RobertaForSequenceClassification"]
    assert about["id2label"] == {"0": "art", "1": "news", "2": "sport"}
    kept = torch.export.load(tmp_path / "out/model.pt2")
    heads = {name for name in kept.state_dict if not name.startswith("encoder.")}
    parts = {"dense.weight", "dense.bias", "out_proj.weight", "out_proj.bias"}
    assert heads == {f"head.{part}" for part in parts}  # of this head, and of no other
    assert len(kept.state_dict) - len(heads) == len(roberta.model.transformer.state_dict())
    run = kept.module()
    for side in ("left", "right"):
        (logits,) = run(*padded(roberta, TEXTS, side).values())
        for row, wanted in zip(logits.softmax(-1), roberta.classify(TEXTS, "topic"), strict=True):
            scores = [wanted.scores[label] for label in ("art", "news", "sport")]
            assert row.tolist() == pytest.approx(scores, abs=1e-5)
    with pytest.raises(CheckpointError, match="holds files of another model"):
        roberta.export(tmp_path / "out", "onnx")


@pytest.fixture(scope="module")
def written(roberta: RobertaHubInterface, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The language model in opset 18."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("onnx") / "out"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = roberta.export(folder, output="logits")
    assert found.difference is not None and found.difference < 5e-5
    assert list(found.files) == files(folder) == sorted([*BESIDE, "model.onnx"])
    return folder


def test_an_onnx_file_has_the_names_of_optimum(written: Path) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(written / "model.onnx"))
    inputs = [(i.name, i.shape, i.type) for i in session.get_inputs()]
    shape = ["batch_size", "sequence_length"]
    assert inputs == [(n, shape, "tensor(int64)") for n in ("input_ids", "attention_mask")]
    outputs = [(o.name, o.shape) for o in session.get_outputs()]
    assert outputs == [("logits", [*shape, 50265])]
    about = json.loads((written / "config.json").read_text())
    assert about["architectures"] == ["RobertaForMaskedLM"] and "id2label" not in about


def test_an_onnx_file_answers_as_the_model(roberta: RobertaHubInterface, written: Path) -> None:
    ids = padded(roberta, TEXTS, "left")
    with onnx.onnx_in(written) as run:
        found = run(ids)["logits"]
    with torch.no_grad():
        wanted = roberta.model(ids["input_ids"].where(ids["attention_mask"].bool(), 1))[0]
    assert_close(found, wanted)
    assert not found[1, :-2].any()  # padding


def test_opset_23_of_a_model_with_segments(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    written = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    bert = made("bert", tmp_path / "bert")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = bert.export(tmp_path / "out", head="squad", opset=23)
    assert capfd.readouterr() == ("", "")
    assert found.inputs == ("input_ids", "attention_mask", "token_type_ids")
    assert found.outputs == ("logits", "start_logits", "end_logits")
    assert found.difference is not None and found.difference < 5e-5
    graph = written.load(tmp_path / "out/model.onnx")
    assert [o.version for o in graph.opset_import if not o.domain] == [23]
    assert "Attention" in {node.op_type for node in graph.graph.node}
    (tmp_path / "out/vocab.txt").unlink()  # and tokenizer.json alone gives the same ids
    pair = bert.encode("Where?", "The train was late.")
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(
        str(tmp_path / "out/tokenizer.json")
    )
    assert tokenizer.encode("Where?", "The train was late.").ids == pair.tolist()
    types = bert.tokenizer.layout.segments(pair)
    with onnx.onnx_in(tmp_path / "out") as run:
        inputs = {
            "input_ids": pair,
            "attention_mask": torch.ones_like(pair),
            "token_type_ids": types,
        }
        logits = run({name: x.unsqueeze(0) for name, x in inputs.items()})
    assert torch.equal(logits["logits"][..., 0], logits["start_logits"])
    with torch.no_grad():
        wanted = bert.model.span_heads["squad"](
            bert.model(pair.unsqueeze(0), features_only=True)[0]
        )
    assert_close(logits["logits"], wanted)
    assert torch.equal(logits["logits"][..., 1], logits["end_logits"])


def test_without_a_runtime_it_says_that_nothing_was_checked(
    roberta: RobertaHubInterface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx, "has_runtime", lambda: False)
    monkeypatch.setattr(
        onnx, "write_onnx", lambda program, folder, **_: (folder / "model.onnx").touch()
    )
    monkeypatch.setattr(onnx, "check_installed", lambda: None)
    found = roberta.export(tmp_path / "out")
    assert found.difference is None
    assert re.search(r"not checked: onnxruntime is not installed \(pip install .+\)", str(found))
    left = roberta.export(tmp_path / "left", "torch", check=False)
    assert left.difference is None and str(left).endswith("not checked: check=False")


def test_without_the_packages_it_names_them(
    roberta: RobertaHubInterface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"needs onnx and onnxscript: pip install .+"):
        roberta.export(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_answers_otherwise_is_not_kept(
    roberta: RobertaHubInterface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = program.write_program

    def spoilt(traced: Any, folder: Path) -> None:
        write(traced, folder)
        with torch.no_grad():
            roberta.model.transformer.layers[0].fc1.bias += 0.1

    monkeypatch.setattr(program, "write_program", spoilt)
    bias = roberta.model.transformer.layers[0].fc1.bias
    before = bias.clone()
    with pytest.raises(ExportError, match=r"last_hidden_state of a batch of 1 x 2 ids differs"):
        roberta.export(tmp_path / "out", "torch")
    with torch.no_grad():
        bias.copy_(before)
    assert not (tmp_path / "out").exists()


REFUSED: dict[str, tuple[dict[str, Any], type[RobertaHubError], str]] = {
    "no such head": (
        {"head": "topik"},
        UnknownNameError,
        r"this model has topic, ner \(token\); did you mean topic\?",
    ),
    "no such format": ({"format": "tflite"}, InputError, "format is 'tflite'"),
    "no such opset": ({"opset": 17}, InputError, "opset is 17, must be in 18 to 23"),
    "a head's features": (
        {"head": "topic", "output": "features"},
        InputError,
        "a head makes logits",
    ),
    "a pooled head": (
        {"head": "topic", "pooling": "mean"},
        InputError,
        "leave head and output out",
    ),
    "pooled logits": (
        {"output": "logits", "pooling": "cls"},
        InputError,
        "leave head and output out",
    ),
    "no pooler": ({"pooling": "pooler"}, InputError, "has no pooler"),
    "a path that is none": ({"directory": ""}, InputError, "which is no path"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, roberta: RobertaHubInterface, tmp_path: Path) -> None:
    choices, kind, sentence = REFUSED[case]
    with pytest.raises(kind, match=sentence):
        roberta.export(**{"directory": tmp_path / "out", "format": "torch", **choices})
    assert files(tmp_path) == []


def test_places_that_are_refused(roberta: RobertaHubInterface, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CheckpointError, match="is a file"):
        roberta.export(tmp_path / "file", "torch")
    roberta.save(tmp_path / "model", "huggingface", "topic")
    before = {name: (tmp_path / "model" / name).read_bytes() for name in files(tmp_path / "model")}
    with pytest.raises(CheckpointError, match="choose another directory"):
        roberta.export(tmp_path / "model", "torch")
    assert before == {n: (tmp_path / "model" / n).read_bytes() for n in files(tmp_path / "model")}


def test_weights_that_are_refused(tmp_path: Path) -> None:
    small = small_roberta(num_layers=1)
    small.optimized = Optimization("int8", cosine=1.0, error=0.0)
    with pytest.raises(InputError, match=r"answers in int8 .* roberta\.optimize\(\) goes back"):
        small.export(tmp_path / "out", "torch")
    small.optimized = None
    with pytest.raises(InputError, match=r"has bfloat16; call roberta\.to\(torch\.float32\)"):
        small.to(torch.bfloat16).export(tmp_path / "out", "torch")


def test_a_model_without_an_lm_head(tmp_path: Path) -> None:
    electra = made("electra-discriminator", tmp_path / "electra")
    with pytest.raises(InputError, match="head='replaced_head'"):
        electra.export(tmp_path / "out", output="logits")
    found = electra.export(tmp_path / "out", "torch", head="replaced_head")
    about = json.loads((tmp_path / "out/config.json").read_text())
    assert about["architectures"] == ["ElectraForPreTraining"]
    run = torch.export.load(tmp_path / "out/model.pt2").module()
    ids = electra.encode("The train was late.").unsqueeze(0)
    (logits,) = run(ids, torch.ones_like(ids), torch.zeros_like(ids))
    wanted = electra.replaced("The train was late.")
    assert logits[0, 1:-1].sigmoid().tolist() == pytest.approx(wanted, abs=1e-5)
    assert found.difference is not None


def test_a_model_of_another_package_is_refused(tmp_path: Path) -> None:
    roberta = small_roberta(num_layers=1)
    roberta.model = torch.nn.Linear(1, 1)
    with pytest.raises(InputTypeError, match=r"export writes roberta_hub models.*from_fairseq"):
        roberta.export(tmp_path / "out")


def test_settings_of_sentence_vectors_lie_beside_token_vectors(tmp_path: Path) -> None:
    roberta = small_roberta(num_layers=1)
    roberta.sentence = roberta_hub.SentenceSettings(pooling="cls", normalize=True)
    found = roberta.export(tmp_path / "out", "torch", check=False)
    assert {"modules.json", "1_Pooling/config.json", "2_Normalize/config.json"} <= {*found.files}
