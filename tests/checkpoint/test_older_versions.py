"""Files of earlier versions load with the same ids and numbers."""

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.train.config import compose
from roberta_hub.train.run import run

DATA = Path(__file__).resolve().parents[1] / "data"
FORMATS = {
    "roberta_hub": "sentiment",
    "fairseq": "sentiment",
    "huggingface": "sentence_classification_head",
}


def load_writer(folder: Path, name: str = "write") -> ModuleType:
    """The script that wrote a folder: it knows the examples and the settings."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=sorted(path.name for path in DATA.glob("v*")))
def written(request: pytest.FixtureRequest) -> Path:
    return DATA / str(request.param)


def check_answers(roberta: RobertaHubInterface, head: str, folder: Path, tolerance: float) -> None:
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    texts, roberta = load_writer(folder).TEXTS, roberta.eval()
    ids = roberta.encode_batch(texts)
    assert [own.tolist() for own in ids] == expected["ids"]
    assert list(roberta.head_labels(head)) == expected["labels"]
    with torch.no_grad():
        logits = torch.cat([roberta.predict(head, own, return_logits=True) for own in ids])
        features = torch.cat([roberta.extract_features(own)[:, 0] for own in ids])
    near = {"atol": tolerance, "rtol": tolerance}
    torch.testing.assert_close(logits, torch.tensor(expected["logits"]), **near)
    torch.testing.assert_close(features, torch.tensor(expected["features"]), **near)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_loads(written: Path, format: str) -> None:
    check_answers(load_model(written / format), FORMATS[format], written, 1e-5)


@pytest.mark.system
def test_a_run_goes_on(written: Path, tmp_path: Path) -> None:
    """From half of its updates to the end, where it stands as it stood then."""
    shutil.copytree(written / "run", tmp_path / "run")
    writer, data = load_writer(written), tmp_path / "reviews.tsv"
    data.write_text(writer.table(), encoding="utf-8")
    settings = writer.settings(
        written / "roberta_hub", data, tmp_path / "run", until=writer.UPDATES
    )
    report = run(compose(settings))
    assert report.update == writer.UPDATES
    log = (tmp_path / "run" / "log.csv").read_text().splitlines()
    assert int(log[1].split(",")[0]) > writer.UPDATES // 2  # and not from the beginning
    # Another CPU rounds otherwise, and training carries that on.
    check_answers(load_model(tmp_path / "run" / "last"), "sentiment", written, 0.05)


def test_a_classifier_made_from_its_tiny(tmp_path: Path) -> None:
    """The roberta.tiny of 0.1.0 had another shape; what was fine-tuned from it answers the same."""
    folder = DATA / "v0.1.0"
    writer = load_writer(folder, "tiny")
    writer.write(tmp_path / "model")
    found = writer.answers(tmp_path / "model")
    said: dict[str, Any] = json.loads((folder / "tiny.json").read_text())
    for ours, theirs in zip(found["scores"], said["scores"], strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    for name in ("vectors", "fillers"):
        torch.testing.assert_close(
            torch.tensor(found[name]), torch.tensor(said[name]), atol=1e-4, rtol=1e-4
        )
