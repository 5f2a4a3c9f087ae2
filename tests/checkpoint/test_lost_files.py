"""A file that was there and is lost: a link of a cache to nothing, a damaged note of its commit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from families import write_family

from roberta_hub import load_model
from roberta_hub.checkpoint.fetch import repositories
from roberta_hub.errors import CheckpointError, DownloadError

COMMIT = "a" * 40


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_family("bert", tmp_path / "model")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "vocab.txt"])
def test_a_link_to_nothing_is_named(model: Path, name: str) -> None:
    file = next(model.glob(name), None) or next(model.glob("tokenizer*.json"))
    file.unlink()
    file.symlink_to("../blobs/lost")
    with pytest.raises(CheckpointError) as error:
        load_model(model)
    said = f"{file} is a link to ../blobs/lost, which is not there; fetch the model again"
    assert said in str(error.value)


def test_other_links_to_nothing_do_not_matter(model: Path) -> None:
    for name in ("README.md", "checkpoint_last.pt", ".gitattributes"):
        (model / name).symlink_to("nothing")
    assert load_model(model)


def hub_cache(folder: Path, model: Path, reference: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """huggingface_hub's cache of a model that another program fetched."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(repositories, "pins", lambda: folder / "pins")
    storage = folder / "models--owner--name"
    (storage / "refs").mkdir(parents=True)
    (storage / "refs/main").write_bytes(reference)
    shutil.copytree(model, storage / "snapshots" / COMMIT)
    return storage


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"", b"abc", b"\x00" * 40, b"x" * 5000])
def test_a_damaged_note_of_the_commit(
    model: Path, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = hub_cache(tmp_path / "hub", model, content, monkeypatch)
    with pytest.raises(DownloadError, match="refs/main is damaged: it says which commit") as error:
        load_model("owner/name")
    assert "delete it, and load once with a network" in str(error.value)
    (storage / "refs/main").write_text(f"{COMMIT}\n")
    assert load_model("owner/name")


def test_a_blob_that_is_lost(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = hub_cache(tmp_path / "hub", model, COMMIT.encode(), monkeypatch)
    file = storage / "snapshots" / COMMIT / "model.safetensors"
    file.unlink()
    file.symlink_to("../../blobs/lost")
    with pytest.raises(DownloadError, match=r"model\.safetensors \(a link to nothing\) is not in"):
        load_model("owner/name")
