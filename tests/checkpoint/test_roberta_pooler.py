"""RoBERTa's own pooler is kept where a file has it, and is no part of models that have none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from families import write_family
from safetensors.torch import load_file
from small_models import assert_close, small_roberta

import roberta_hub
from roberta_hub import SentenceSettings
from roberta_hub.errors import CheckpointError

TEXTS = ["Hello world!", "The train was late."]


def test_it_is_kept_in_both_formats(tmp_path: Path) -> None:
    folder = write_family("gottbert", tmp_path / "theirs", head="bare")
    weights = load_file(folder / "model.safetensors")
    ours = roberta_hub.load_model(folder).eval()
    first = ours.features(TEXTS, pooling="cls")
    matrix, bias = weights["pooler.dense.weight"], weights["pooler.dense.bias"]
    wanted = torch.tanh(first @ matrix.T + bias)
    assert_close(ours.features(TEXTS, pooling="pooler"), wanted)
    for format in ("roberta_hub", "huggingface"):
        ours.save(tmp_path / format, format=format)
        again = roberta_hub.load_model(tmp_path / format).eval()
        assert_close(again.features(TEXTS, pooling="pooler"), wanted)


def test_fairseq_has_no_place_for_it(tmp_path: Path) -> None:
    """The model is written all the same, for RoBERTa answers without it, and a warning says so."""
    ours = small_roberta()
    ours.model.add_pooler()
    with pytest.warns(UserWarning, match="fairseq's format has no place for the pooler"):
        ours.save(tmp_path / "fairseq", format="fairseq")
    again = roberta_hub.load_model(tmp_path / "fairseq").eval()
    assert again.model.pooler is None
    assert_close(again.features(TEXTS, pooling="mean"), ours.features(TEXTS, pooling="mean"))


def test_fairseq_has_no_place_for_settings_of_vectors(tmp_path: Path) -> None:
    ours = small_roberta()
    ours.sentence = SentenceSettings(normalize=True)
    with pytest.warns(UserWarning, match=r"how embed makes vectors \(mean pooling, normalized"):
        ours.save(tmp_path / "fairseq", format="fairseq")


def test_a_new_head_does_not_begin_as_it() -> None:
    """Nothing says that it was trained; transformers begins with random weights too."""
    ours = small_roberta()
    ours.model.add_pooler()
    assert ours.model.pooler is not None
    ours.register_classification_head("topic", 2)
    dense = ours.model.classification_heads["topic"].dense  # type: ignore[union-attr]
    assert not torch.equal(dense.weight, ours.model.pooler.dense.weight)  # type: ignore[arg-type]


@pytest.mark.system
def test_with_another_pooling_it_stays_in_our_format(tmp_path: Path) -> None:
    ours = small_roberta()
    ours.model.add_pooler()
    ours.sentence = SentenceSettings(pooling=("pooler", "mean"))
    ours.save(tmp_path / "ours")
    vectors = ours.embed(TEXTS)
    assert vectors.shape == (2, 64)
    assert torch.equal(roberta_hub.load_model(tmp_path / "ours").eval().embed(TEXTS), vectors)
    with pytest.raises(CheckpointError, match=r"pooler \+ mean, and sentence-transformers takes"):
        ours.save(tmp_path / "theirs", format="huggingface")


def test_unpooled_prompts_and_the_pooler_exclude_each_other() -> None:
    with pytest.raises(ValueError, match=r"include_prompt=False.*reads <s> alone"):
        SentenceSettings(pooling="pooler", include_prompt=False)


def test_a_prompt_that_leaves_no_text() -> None:
    ours = small_roberta()
    ours.sentence = SentenceSettings(include_prompt=False, max_length=6)
    with pytest.raises(ValueError, match=r"texts\[0\]: the prompt has .* nothing of it is left"):
        ours.embed(TEXTS, prompt="one two three four five six: ", truncate=True)
