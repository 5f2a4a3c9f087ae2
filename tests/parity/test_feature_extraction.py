"""`features` in the situations of transformers' tests of its feature-extraction pipeline.

They are those of tests/pipelines/test_pipelines_feature_extraction.py of huggingface/transformers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from families import write_family
from small_models import assert_close

from roberta_hub import load_model
from roberta_hub.errors import InputError

pytestmark = pytest.mark.parity
transformers = pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

KINDS = ["gottbert", "bert", "distilbert", "electra", "xlm-roberta", "camembert", "albert"]
TEXTS = ["This is a test", "This", "This is", "This is a", "This is a test test test test", "", "x"]


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(the pipeline, ours) of one folder."""
    transformers.utils.logging.disable_progress_bar()
    folder = write_family(request.param, tmp_path_factory.mktemp(request.param), head="bare")
    pipeline = transformers.pipeline("feature-extraction", model=str(folder), device="cpu")
    return pipeline, load_model(folder).eval()


def test_each_token_has_a_vector(both: Any) -> None:
    pipeline, ours = both
    found = ours.features(TEXTS)
    for text, states in zip(TEXTS, found, strict=True):
        (wanted,) = pipeline(text)
        assert_close(states, torch.tensor(wanted))
        assert_close(ours.features(text), torch.tensor(wanted))
        assert_close(states, pipeline(text, return_tensors=True)[0])
        assert states.shape == (len(ours.encode(text)), 32)
    for wanted, states in zip(pipeline(TEXTS), found, strict=True):
        assert_close(states, torch.tensor(wanted[0]))


def test_a_long_text_is_cut_on_demand(both: Any) -> None:
    pipeline, ours = both
    text = "This is a test" * 100
    with pytest.raises(InputError, match="too long"):
        ours.features(text)
    for limit in (ours.max_positions,):
        (wanted,) = pipeline(text, tokenize_kwargs={"truncation": True, "max_length": limit})
        assert_close(ours.features(text, truncate=True), torch.tensor(wanted))


def test_a_limit_of_the_folder(both: Any, tmp_path: Path) -> None:
    """Their `max_length` is a setting of the folder here: `model_max_length`."""
    pipeline, ours = both
    ours.save(tmp_path, format="huggingface")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path, model_max_length=4)
    tokenizer.save_pretrained(tmp_path)
    again = load_model(tmp_path).eval()
    for text in TEXTS:
        (wanted,) = pipeline(text, tokenize_kwargs={"truncation": True, "max_length": 4})
        assert_close(again.features(text, truncate=True), torch.tensor(wanted))
