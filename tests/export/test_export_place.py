"""Which folder may take an export, what of an earlier one stays, and how saves stand to both."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from exported_answers import made
from small_models import small_roberta

import roberta_hub
from roberta_hub import RobertaHubInterface, files
from roberta_hub.errors import CheckpointError, ExportError
from roberta_hub.export import folder as folder_module
from roberta_hub.export import onnx, program, target
from roberta_hub.formats import saving
from roberta_hub.formats.saving import EXPORTS

pytestmark = pytest.mark.system

BESIDE = {"config.json", "merges.txt", "tokenizer.json", "tokenizer_config.json", "vocab.json"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are not what is tried here: a name in their place is enough."""
    monkeypatch.setattr(program, "trace", lambda graph: graph)
    monkeypatch.setattr(
        program, "write_program", lambda graph, folder: (folder / "model.pt2").write_text("new")
    )
    monkeypatch.setattr(
        onnx, "write_onnx", lambda graph, folder, **_: (folder / "model.onnx").write_text("new")
    )
    monkeypatch.setattr(onnx, "check_installed", lambda: None)


@pytest.fixture(scope="module")
def roberta() -> RobertaHubInterface:
    """A sentence encoder with a head."""
    made = small_roberta(heads={"topic": 3}, num_layers=1)
    made.sentence = roberta_hub.SentenceSettings(pooling="mean", normalize=True)
    return made.eval()


def there(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def wrote(roberta: RobertaHubInterface, folder: Path, format: Any = "onnx", **choices: Any) -> Any:
    return roberta.export(folder, format, check=False, **choices)


OTHERS = (
    "model.safetensors",
    "model-00001-of-00002.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "model.pt",
    "tf_model.h5",
    "model_quantized.onnx",
    "Model.ONNX",
)


@pytest.mark.parametrize("format", ["onnx", "torch"])
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("mark", ["", "roberta_hub"])
def test_weights_beside_a_graph_are_another_model(
    format: str, other: str, mark: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"exported_by": mark, "id2label": {}}))
    (tmp_path / EXPORTS[format][0]).touch()
    if mark:
        target.check_vacant(tmp_path, format)
    (tmp_path / other).touch()
    with pytest.raises(CheckpointError, match=f"holds files of another model .*{other}.*choose"):
        target.check_vacant(tmp_path, format)


@pytest.mark.parametrize(
    "name", ["model.onnx", "config.json", "vocab.txt", "1_Pooling/config.json"]
)
def test_what_is_not_ours_is_not_replaced(name: str, tmp_path: Path) -> None:
    files.write_bytes(tmp_path / name, b'{"model_type": "bert"}')
    with pytest.raises(CheckpointError, match=f"holds files of another model .*{name}"):
        target.check_vacant(tmp_path, "onnx")


def test_labels_beside_weights_stay(roberta: RobertaHubInterface, tmp_path: Path) -> None:
    roberta.save(tmp_path, "huggingface", "topic")
    (tmp_path / "model.onnx").write_text("theirs")
    before = there(tmp_path)
    with pytest.raises(CheckpointError, match=r"another model \(.*config\.json, .*choose another"):
        wrote(roberta, tmp_path)
    assert there(tmp_path) == before


def test_what_is_no_model_is_left_alone(roberta: RobertaHubInterface, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    wrote(roberta, tmp_path)
    wrote(roberta, tmp_path, head="topic")
    assert (tmp_path / "README.md").read_text() == "mine"
    assert json.loads((tmp_path / "config.json").read_text())["exported_by"] == "roberta_hub"


def test_other_options_leave_nothing_of_the_earlier_export(
    roberta: RobertaHubInterface, tmp_path: Path
) -> None:
    assert "1_Pooling/config.json" in wrote(roberta, tmp_path).files
    (tmp_path / "model.onnx.data").write_text("old")
    again = wrote(roberta, tmp_path, head="topic")
    assert {*again.files} == there(tmp_path).keys() == BESIDE | {"model.onnx"}
    assert not (tmp_path / "1_Pooling").exists() and not (tmp_path / "2_Normalize").exists()


def test_another_family_leaves_nothing_of_the_earlier_export(
    roberta: RobertaHubInterface, tmp_path: Path
) -> None:
    wrote(roberta, tmp_path / "out")
    again = wrote(made("bert", tmp_path / "bert"), tmp_path / "out")
    assert {*again.files} == there(tmp_path / "out").keys()
    assert "vocab.txt" in again.files and not {"vocab.json", "merges.txt"} & {*again.files}


@pytest.mark.parametrize("exported", ["onnx", "torch"])
@pytest.mark.parametrize("format", ["huggingface", "roberta_hub", "fairseq"])
def test_a_save_beside_an_export_is_refused(
    roberta: RobertaHubInterface, exported: str, format: str, tmp_path: Path
) -> None:
    (tmp_path / EXPORTS[exported][0]).write_text("graph")
    with pytest.raises(CheckpointError, match=r"holds an exported model \(model.* choose another"):
        roberta.save(tmp_path, format)
    assert there(tmp_path) == {EXPORTS[exported][0]: b"graph"}


def test_a_vector_that_lacks_own_settings_is_warned_of(tmp_path: Path) -> None:
    roberta = small_roberta(num_layers=1)
    roberta.sentence = roberta_hub.SentenceSettings(normalize=True, max_length=16)
    sentence = r"is mean pooling and nothing else.* by mean pooling, normalized, at most 16 tokens"
    with pytest.warns(UserWarning, match=sentence) as warned:
        wrote(roberta, tmp_path, pooling="mean")
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrote(roberta, tmp_path)
        roberta.sentence = roberta_hub.SentenceSettings()
        wrote(roberta, tmp_path, pooling="mean")


def test_a_tokenizer_that_is_not_written_is_told(
    roberta: RobertaHubInterface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "is_written_by_its_class", lambda tokenizer: False)
    found = wrote(roberta, tmp_path)
    assert found.files == ("config.json", "model.onnx")
    assert "\nno tokenizer: no class of transformers has its special ids" in str(found)


STEPS = {
    "tracing the model": (program, "trace"),
    "writing ONNX": (onnx, "write_onnx"),
    "running what was written": (onnx, "onnx_in"),
}


@pytest.mark.parametrize("step", STEPS)
def test_what_other_packages_raise_is_an_export_error(
    roberta: RobertaHubInterface, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise raised

    monkeypatch.setattr(onnx, "has_runtime", lambda: True)
    monkeypatch.setattr(*STEPS[step], fails)
    raised: BaseException = RuntimeError("no such\noperator")
    sentence = rf"^{step} fails \(RuntimeError: no such operator; opset 23, torch \d.*\); nothing w"
    with pytest.raises(ExportError, match=sentence) as found:
        roberta.export(tmp_path / "out", opset=23)
    assert found.value.__cause__ is raised
    for passing in (KeyboardInterrupt(), MemoryError()):
        raised = passing
        with pytest.raises(type(passing)):
            roberta.export(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ExportError])
def test_an_export_that_stops_leaves_the_earlier_one(
    roberta: RobertaHubInterface,
    stop: type[BaseException],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped(*_: Any) -> None:
        raise stop("here")

    wrote(roberta, tmp_path)
    before = there(tmp_path)
    monkeypatch.setattr(onnx, "has_runtime", lambda: True)
    monkeypatch.setattr(onnx, "onnx_in", lambda folder: contextlib.nullcontext())
    monkeypatch.setattr(folder_module, "check", stopped)
    with pytest.raises(stop):
        roberta.export(tmp_path, head="topic")
    assert there(tmp_path) == before


def test_a_failed_move_says_that_files_are_mixed(
    roberta: RobertaHubInterface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrote(roberta, tmp_path)
    before, moved, replace = there(tmp_path), [], os.replace

    def full(new: Path, old: Path) -> None:
        if old.parent != tmp_path or new.suffix == ".tmp":
            return replace(new, old)  # within the folder that is being made
        if len(moved) == fails_after:
            raise OSError(28, "No space left on device")
        moved.append(old.name)
        return replace(new, old)

    monkeypatch.setattr(files.os, "replace", full)
    fails_after = 0
    with pytest.raises(CheckpointError, match="what was there is as before"):
        wrote(roberta, tmp_path)
    assert there(tmp_path) == before
    fails_after = 2
    with pytest.raises(CheckpointError, match=r"2 of 11 new files are in place .* are mixed"):
        wrote(roberta, tmp_path)
    assert there(tmp_path).keys() == before.keys()


def test_files_are_on_the_disk_before_they_move_and_data_before_its_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    replace, fsync = os.replace, os.fsync
    monkeypatch.setattr(
        files.os, "replace", lambda new, old: (done.append(old.name), replace(new, old))
    )
    monkeypatch.setattr(files.os, "fsync", lambda handle: (done.append("flush"), fsync(handle)))
    with files.publishing_all(tmp_path) as work:
        for name in ("model.onnx", "model.onnx.data", "config.json", "1_Pooling/config.json"):
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text("new")
    assert done[:4] == ["flush"] * 4 and done[-1] == "flush"
    assert done[4:8] == ["model.onnx.data", "model.onnx", "config.json", "config.json"]
    assert target.earlier_files("onnx")[:2] == ("model.onnx", "model.onnx.data")
