"""A save that is refused leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import small
from small_models import small_roberta

from roberta_hub import load_model
from roberta_hub.errors import CheckpointError, InputError, RobertaHubError


def test_a_refused_save_leaves_no_folder(tmp_path: Path):
    prenorm = small(normalize_before=True)
    target = tmp_path / "new" / "deep"
    with pytest.raises(CheckpointError, match="cannot express"):
        prenorm.save(target, format="huggingface")
    assert list(tmp_path.iterdir()) == []
    target.parent.mkdir()
    (target.parent / "mine").write_text("x")
    with pytest.raises(CheckpointError, match="cannot express"):
        prenorm.save(target, format="huggingface")
    assert [path.name for path in target.parent.iterdir()] == ["mine"]
    target.mkdir()  # what was there before stays
    with pytest.raises(CheckpointError, match="cannot express"):
        prenorm.save(target, format="huggingface")
    assert target.is_dir()
    with pytest.raises(CheckpointError, match="cannot be written"):
        prenorm.save(tmp_path / "one" / ("x" * 300))
    assert not (tmp_path / "one").exists()
    prenorm.save(target)
    assert (target / "config.json").is_file()


@pytest.mark.parametrize("directory", [None, 5, b"x", ["x"], "", "a\0b", 1.5, object()])
def test_a_directory_that_is_none(directory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RobertaHubError, match="the directory to save into"):
        small().save(directory)
    assert list(tmp_path.iterdir()) == []


def test_half_a_surrogate_pair(tmp_path: Path):
    with pytest.raises(InputError, match="which is no path"):
        small().save(f"{tmp_path}/\ud800")


@pytest.mark.parametrize("format", [None, 5, ["fairseq"], "", "pt"])
def test_formats_that_are_none(tmp_path: Path, format: Any):
    with pytest.raises(RobertaHubError, match="choose fairseq, roberta_hub, huggingface"):
        small().save(tmp_path / "it", format=format)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system
def test_a_save_asks_whose_folder_it_is_and_not_whether_it_can_be_read(tmp_path: Path) -> None:
    """A modules.json with a part that is not read here stops loading, and not another save."""
    modules = [
        {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Odd", "type": "sentence_transformers.models.Odd"},
    ]
    model = small_roberta()
    model.save(tmp_path, format="huggingface")
    (tmp_path / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    with pytest.raises(CheckpointError, match="not read here"):
        load_model(tmp_path)
    model.save(tmp_path, format="huggingface")
    assert load_model(tmp_path).encode("Hello world!").tolist() == [0, 31414, 232, 328, 2]
