"""model_max_length and truncation_side of a tokenizer are honoured by every verb and every save."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from families import write_family

import roberta_hub
from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError, VocabularyError

pytest.importorskip("transformers")

LONG = "The train was late in the news today, and we had coffee."


def load(folder: Path, **settings: Any) -> RobertaHubInterface:
    """A small BERT whose tokenizer has these settings."""
    write_family("bert", folder, head="sentence")
    path = folder / "tokenizer_config.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**about, **settings}), encoding="utf-8")
    return roberta_hub.load_model(folder).eval()


def read(roberta: RobertaHubInterface, **options: Any) -> str:
    """What the model reads of `LONG`."""
    return roberta.decode(roberta._runner(**options).ids([LONG])[0])


def test_the_smaller_limit_counts(tmp_path: Path) -> None:
    assert load(tmp_path / "a", model_max_length=9).max_positions == 9
    assert load(tmp_path / "b", model_max_length=10**30).max_positions == 66
    assert load(tmp_path / "c", model_max_length=512).max_positions == 66


def test_a_longer_text_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    roberta = load(tmp_path, model_max_length=9)
    with pytest.raises(InputError, match=r"texts\[0\]: too long: \d+ tokens > 9.*truncate=True"):
        roberta.classify([LONG])
    assert roberta.classify([LONG], truncate=True)[0].label
    assert roberta.classify([LONG], stride=2)[0].label


@pytest.mark.parametrize(("side", "words"), [("right", "the train was"), ("left", "had coffee.")])
def test_the_side_that_is_kept(tmp_path: Path, side: str, words: str) -> None:
    roberta = load(tmp_path, model_max_length=8, truncation_side=side)
    kept = read(roberta, truncate=True)
    assert words in kept
    assert len(kept) < len(LONG)


@pytest.mark.parametrize("format", ["huggingface", "roberta_hub"])
def test_both_are_saved(tmp_path: Path, format: Any) -> None:
    roberta = load(tmp_path / "a", model_max_length=8, truncation_side="left")
    roberta.save(tmp_path / "b", format)
    again = roberta_hub.load_model(tmp_path / "b").eval()
    assert again.max_positions == 8
    assert read(again, truncate=True) == read(roberta, truncate=True)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"model_max_length": 2}, "model_max_length is 2"),
        ({"model_max_length": -1}, "model_max_length is -1"),
        ({"model_max_length": "8"}, "model_max_length is '8'"),
        ({"model_max_length": True}, "model_max_length is True"),
        ({"truncation_side": "middle"}, "truncation_side is 'middle'"),
    ],
)
def test_values_that_cannot_be(tmp_path: Path, settings: dict[str, Any], name: str) -> None:
    with pytest.raises(VocabularyError, match=name):
        load(tmp_path, **settings)
