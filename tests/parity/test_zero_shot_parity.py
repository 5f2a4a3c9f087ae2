"""By entailment, `zero_shot` is what transformers' pipeline computes, to the digit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roberta_hub import load_model

from . import peers

pytestmark = [pytest.mark.parity, peers.needs_transformers]

TEXTS = ["The team scored twice in the last minute.", "Add salt and stir the soup."]
LABELS = ["sports", "cooking", "foreign_politics", "the price of bread"]


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("hypothesis", ["This example is {}.", "Is it about {}?"])
def test_scores_are_the_pipelines(tmp_path: Path, hypothesis: str, multi_label: bool) -> None:
    peers.hf_model()  # which makes transformers importable beside a broken torchaudio
    import transformers

    ours = load_model("roberta.tiny").eval()
    ours.save(tmp_path / "theirs", "huggingface", head="mnli")
    pipeline = transformers.pipeline(
        "zero-shot-classification", model=str(tmp_path / "theirs"), device="cpu"
    )
    theirs = pipeline(TEXTS, LABELS, hypothesis_template=hypothesis, multi_label=multi_label)
    found = ours.zero_shot(
        TEXTS, LABELS, hypothesis=hypothesis, multi_label=multi_label, by="entailment"
    )
    for prediction, other in zip(found, theirs, strict=True):
        assert list(prediction.scores) == other["labels"]
        assert list(prediction.scores.values()) == pytest.approx(other["scores"], abs=2e-6)
    again = load_model(tmp_path / "theirs").eval()  # that format has no place for a way
    assert again.zero_shot_settings is None
    asked = {"hypothesis": hypothesis, "multi_label": multi_label}
    plain = again.zero_shot(TEXTS, LABELS, **asked)  # type: ignore[call-overload]
    for prediction, other in zip(plain, found, strict=True):
        assert dict(prediction.scores) == pytest.approx(dict(other.scores), abs=2e-6)


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("name", ["entailment", "ENTAIL", "entails", "Entailed"])
def test_one_label_and_other_names_are_the_pipelines(
    tmp_path: Path, name: str, multi_label: bool
) -> None:
    peers.hf_model()
    import transformers

    load_model("roberta.tiny").save(tmp_path, "huggingface", head="mnli")
    config = json.loads((tmp_path / "config.json").read_text())
    names = {"contradiction": 0, "neutral": 1, name: 2}
    config |= {"label2id": names, "id2label": {str(i): label for label, i in names.items()}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    pipeline = transformers.pipeline("zero-shot-classification", model=str(tmp_path), device="cpu")
    ours = load_model(tmp_path).eval()
    for labels in (["sports"], ["the price of bread"], LABELS):
        theirs = pipeline(TEXTS, labels, multi_label=multi_label)
        for prediction, other in zip(
            ours.zero_shot(TEXTS, labels, multi_label=multi_label), theirs, strict=True
        ):
            assert list(prediction.scores) == other["labels"]
            assert list(prediction.scores.values()) == pytest.approx(other["scores"], abs=2e-6)
