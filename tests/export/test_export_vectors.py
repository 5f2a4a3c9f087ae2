"""An export holds all settings of sentence vectors, or says what it leaves out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from families import write_family

import roberta_hub
from roberta_hub import RobertaHubInterface, SentenceSettings
from roberta_hub.errors import RobertaHubError
from roberta_hub.scale.models import LoadedModel
from roberta_hub.settings import SentenceLayer

DENSE = SentenceLayer(kind="dense", activation="gelu")


def with_dense(folder: Path, seed: int = 0) -> RobertaHubInterface:
    """A small encoder with a dense layer over its vectors."""
    roberta = roberta_hub.load_model(folder).eval()
    torch.manual_seed(seed)
    roberta.model.add_sentence_layers((DENSE,), {"sentence_layers.0.linear.weight": (8, 32)}, 32)
    roberta.sentence = SentenceSettings(layers=(DENSE,), normalize=True, truncate_dim=5)
    return roberta


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_family("gottbert", tmp_path_factory.mktemp("body"), head="bare")


@pytest.mark.system
def test_layers_go_with_token_vectors(body: Path, tmp_path: Path) -> None:
    roberta = with_dense(body)
    roberta.export(tmp_path / "out", "torch", check=False)
    assert (tmp_path / "out/2_Dense/model.safetensors").is_file()
    about = json.loads((tmp_path / "out/config_sentence_transformers.json").read_text())
    assert about["truncate_dim"] == 5
    roberta.sentence = SentenceSettings()
    roberta.export(tmp_path / "out", "torch", check=False)  # an earlier export's files go
    assert not (tmp_path / "out/2_Dense/model.safetensors").exists()


@pytest.mark.system
def test_a_pooled_vector_says_what_it_lacks(body: Path, tmp_path: Path) -> None:
    roberta = with_dense(body)
    with pytest.warns(UserWarning, match=r"mean pooling, dense \(gelu\), normalized, cut to 5"):
        roberta.export(tmp_path / "out", "torch", pooling="mean", check=False)


@pytest.mark.system
def test_token_vectors_hold_no_pooler(body: Path, tmp_path: Path) -> None:
    roberta = roberta_hub.load_model(body).eval()
    roberta.sentence = SentenceSettings(pooling="pooler")
    with pytest.warns(UserWarning, match="pooling='pooler' exports it"):
        roberta.export(tmp_path / "out", "torch", check=False)
    assert not (tmp_path / "out/modules.json").exists()
    found = roberta.export(tmp_path / "pooled", "torch", pooling="pooler")
    assert found.difference is not None and found.difference < 1e-4


def test_a_lake_knows_layers_and_settings_apart(body: Path) -> None:
    plain = roberta_hub.load_model(body).eval()
    plain.sentence = SentenceSettings()
    digests = {LoadedModel(plain).digest}
    for settings in ({"truncate_dim": 8}, {"include_prompt": False}, {"pooling": "last_token"}):
        changed = roberta_hub.load_model(body).eval()
        changed.sentence = SentenceSettings(**settings)  # type: ignore[arg-type]
        digests.add(LoadedModel(changed).digest)
    digests |= {LoadedModel(with_dense(body, seed)).digest for seed in (0, 1)}
    assert len(digests) == 6


def test_what_0_2_0_knew_is_written_as_it_was() -> None:
    """Its files and its digests in lakes stay as they are."""
    known = SentenceSettings(pooling="mean", normalize=True, max_length=256)
    assert [*known.to_dict()] == [
        *("pooling", "normalize", "max_length", "prompts", "default_prompt", "lower_case"),
        "similarity",
    ]
    assert repr(known).endswith("lower_case=False, similarity='cosine')")
    assert not known.is_later


@pytest.mark.parametrize(
    ("settings", "later"),
    [
        ({"truncate_dim": 8}, "truncate_dim=8"),
        ({"include_prompt": False}, "include_prompt=False"),
        ({"layers": [{"kind": "dense"}]}, "layers=(SentenceLayer(kind='dense'"),
        ({"pooling": "weighted_mean"}, "weighted_mean"),
    ],
)
def test_what_is_new_says_so(settings: dict[str, Any], later: str) -> None:
    made = SentenceSettings(**settings)
    assert made.is_later and later in repr(made)
    assert SentenceSettings(**json.loads(json.dumps(made.to_dict()))) == made


def test_settings_need_the_layers_that_they_name(body: Path, tmp_path: Path) -> None:
    roberta = roberta_hub.load_model(body).eval()
    roberta.sentence = SentenceSettings(layers=(DENSE,))
    for ask in (lambda: roberta.embed("x"), lambda: roberta.save(tmp_path / "m")):
        with pytest.raises(RobertaHubError, match=r"layers names dense.*are those of none"):
            ask()
    other = with_dense(body)
    other.sentence = None  # the layers are not saved without a word that names them
    other.save(tmp_path / "m")
    assert roberta_hub.load_model(tmp_path / "m").model.sentence_layers is None


@pytest.mark.parametrize("kind", ["x", None, 3, ["dense"]])
def test_a_layer_that_cannot_be(kind: Any) -> None:
    with pytest.raises(RobertaHubError, match="kind is"):
        SentenceLayer(kind=kind)
