"""fairseq's arguments mean the same for every source, and a name means one model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import edit_json, outputs, small
from server import Server, body, status
from small_models import small_roberta

import roberta_hub
from roberta_hub import load_model
from roberta_hub.checkpoint.fetch import catalogue
from roberta_hub.errors import CheckpointError, InputError, UnknownNameError

FREE = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "pooler_dropout",
    "encoder_layerdrop",
)
FORMATS = pytest.mark.parametrize("format", ["roberta_hub", "huggingface", "fairseq"])


@pytest.fixture
def folder(tmp_path: Path, format: Any) -> Path:
    small().save(tmp_path / "it", format)
    return tmp_path / "it"


@FORMATS
def test_what_no_tensor_depends_on_is_taken_from_every_source(folder: Path):
    loaded = load_model(folder, **dict.fromkeys(FREE, 0.25))
    config = loaded.model.config
    assert config.dropout == config.attention_dropout == config.activation_dropout == 0.25
    assert config.pooler_dropout == config.layerdrop == 0.25
    torch.testing.assert_close(outputs(loaded), outputs(small()))
    for value in (2.0, -1, "x", [1]):
        with pytest.raises(roberta_hub.RobertaHubError, match="dropout"):
            load_model(folder, dropout=value)


@FORMATS
def test_layers_to_keep_from_every_source(folder: Path):
    (kept,) = {load_model(folder, encoder_layers_to_keep="1").model.config.num_layers}
    assert kept == 1
    found = load_model(folder, encoder_layers_to_keep="1").model.state_dict()
    whole = small().model.state_dict()
    layer = "encoder.sentence_encoder.layers.{}.fc1.weight"
    assert torch.equal(found[layer.format(0)], whole[layer.format(1)])
    with pytest.raises(CheckpointError, match=r"layers 0\.\.1"):
        load_model(folder, encoder_layers_to_keep="7")


@FORMATS
def test_unknown_names_have_near_ones_from_every_source(folder: Path):
    with pytest.raises(UnknownNameError, match="did you mean dropout"):
        load_model(folder, dropoutt=0.1)


@pytest.mark.parametrize("format", ["roberta_hub", "huggingface"])
def test_what_the_weights_decide_is_an_error(folder: Path):
    with pytest.raises(InputError, match="encoder_layers: fixed by the weights"):
        load_model(folder, encoder_layers=1)


def test_layers_that_share_weights_cannot_go(tmp_path: Path):
    small(num_unique_layers=1).save(tmp_path / "it")
    with pytest.raises(InputError, match="share their weights"):
        load_model(tmp_path / "it", encoder_layers_to_keep="1")


# ---- a name's shape ----

PLACE = "/FacebookAI/roberta-base/resolve/main/"


@pytest.fixture
def served(server: Server, tmp_path: Path) -> dict[str, bytes]:
    """A small model under the name roberta.base, at the second source."""
    small_roberta(dropout=0.1).save(tmp_path / "it", format="huggingface")
    server.plan["/roberta.base.tar.gz"] = [status(404)]
    files = {}
    for name in ("config.json", "model.safetensors"):
        files[name] = (tmp_path / "it" / name).read_bytes()
        server.plan[PLACE + name] = [body(files[name])]
    return files


@pytest.mark.system
@pytest.mark.filterwarnings("ignore:.*fetched instead")
def test_a_model_of_another_shape_is_refused_under_that_name(
    served: dict[str, bytes], cache: Path, monkeypatch: pytest.MonkeyPatch
):
    for _ in range(2):  # as downloaded, and as cached
        with pytest.raises(CheckpointError) as caught:
            load_model("roberta.base", progress=False)
        for word in ("roberta.base", "max_positions is 48", "512", "delete", str(cache)):
            assert word in str(caught.value)
    assert load_model(cache / "roberta.base")  # by its path it is what it is
    sizes = ("max_positions", "embed_dim", "ffn_dim", "num_layers", "num_heads")
    models = [replace(record, unsure=sizes) for record in catalogue.MODELS]
    monkeypatch.setattr(catalogue, "MODELS", tuple(models))
    loaded = load_model("roberta.base", dropout=0.0)
    assert (loaded.model.config.num_layers, loaded.model.config.dropout) == (3, 0.0)


def test_the_embedded_model_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    small_roberta(num_layers=4, num_heads=4).save(tmp_path / "models" / "tiny")
    edit_json(tmp_path / "models" / "tiny" / "config.json")
    monkeypatch.setattr(
        "roberta_hub.formats.source.bundled_path", lambda record: tmp_path / "models" / "tiny"
    )
    with pytest.raises(CheckpointError, match=r"max_positions is 48.*512; reinstall"):
        load_model("roberta.tiny")
    assert json.loads((tmp_path / "models" / "tiny" / "config.json").read_text())


def test_a_name_takes_overrides_whatever_its_source():
    assert load_model("roberta.tiny", dropout=0.0).model.config.dropout == 0.0
    assert load_model("roberta.tiny", encoder_layers_to_keep="0,1").model.config.num_layers == 2
