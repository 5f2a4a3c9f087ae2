"""By entailment, `zero_shot` is what transformers' pipeline computes, to the digit.

The later situations are those of tests/pipelines/test_pipelines_zero_shot.py of
huggingface/transformers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from families import write_family

from roberta_hub import load_model
from roberta_hub.errors import InputError, InputTypeError, UnknownNameError

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


QUESTION = "Who are you voting for in 2020?"
TOPICS = ["politics", "public health", "science"]
KINDS = ["gottbert", "bert", "distilbert", "xlm-roberta", "camembert"]


def judge(kind: str, folder: Path, names: list[str]) -> tuple[Any, Any]:
    """(the pipeline, ours) of a random head whose classes have these names."""
    peers.hf_model()
    import transformers

    transformers.utils.logging.disable_progress_bar()
    known = {"id2label": dict(enumerate(names)), "label2id": {n: i for i, n in enumerate(names)}}
    write_family(kind, folder, head="sentence", num_labels=len(names), **known)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith("classifier") and parameter.ndim == 2:
                parameter.mul_(4)
    model.save_pretrained(folder)
    pipeline = transformers.pipeline("zero-shot-classification", model=str(folder), device="cpu")
    return pipeline, load_model(folder).eval()


def assert_same(found: Any, theirs: dict[str, Any]) -> None:
    assert dict(found.scores) == pytest.approx(
        dict(zip(theirs["labels"], theirs["scores"], strict=True)), abs=2e-6
    )
    assert list(found.scores.values()) == sorted(found.scores.values(), reverse=True)


@pytest.mark.parametrize("kind", KINDS)
def test_one_label_several_and_lists_of_texts(kind: str, tmp_path: Path) -> None:
    """Labels are a list here; a text of them with commas is theirs, and refused."""
    pipeline, ours = judge(kind, tmp_path, ["contradiction", "neutral", "entailment"])
    for labels in (["politics"], TOPICS[:2], TOPICS):
        for several in (False, True):
            theirs = pipeline(QUESTION, labels, multi_label=several)
            assert_same(ours.zero_shot(QUESTION, labels, multi_label=several), theirs)
    together = ours.zero_shot(QUESTION, TOPICS)
    assert sum(together.scores.values()) == pytest.approx(1)
    one = {"hypothesis": "This text is about {}"}
    theirs = pipeline(QUESTION, ["politics"], hypothesis_template="This text is about {}")
    assert_same(ours.zero_shot(QUESTION, ["politics"], **one), theirs)
    texts = ["I am happy", "I am sad"]
    for some in (texts[:1], texts):
        found = ours.zero_shot(some, ["positive", "negative"])
        assert len(found) == len(some)
        for own, other in zip(found, pipeline(some, ["positive", "negative"]), strict=True):
            assert_same(own, other)
    for label in ("politics", "politics, public health"):
        assert len(pipeline(QUESTION, label)["labels"]) == 1 + label.count(",")
        with pytest.raises(InputError, match="pass a list of labels"):
            ours.zero_shot(QUESTION, label)


NAMES: list[tuple[list[str], int | None]] = [
    (["LABEL_0", "LABEL_1", "LABEL_2"], None),
    (["entailment", "neutral", "contradiction"], 0),
    (["ENTAIL", "NON-ENTAIL"], 0),
    (["CONTR", "NEUTRAL", "ENTAIL"], 2),
    (["not_entailment", "entailment"], 1),
    (["contradiction", "entailment"], 1),
    (["Entailment", "Neutral", "Contradiction"], 0),
]
"""Names of the classes, and which of them is entailment."""


@pytest.mark.parametrize(("names", "entailment"), NAMES)
def test_which_class_is_entailment(
    names: list[str], entailment: int | None, tmp_path: Path
) -> None:
    """Where no name says it theirs takes the last class, with a warning, and we ask."""
    pipeline, ours = judge("bert", tmp_path, names)
    if entailment is None:
        assert pipeline.entailment_id == -1
        with pytest.raises(UnknownNameError, match="in the order of"):
            ours.zero_shot(QUESTION, TOPICS)
        ours.labels["sentence_classification_head"] = ("contradiction", "neutral", "entailment")
    else:
        assert pipeline.entailment_id == entailment
    for several in (False, True):
        theirs = pipeline(QUESTION, TOPICS, multi_label=several)
        assert_same(ours.zero_shot(QUESTION, TOPICS, multi_label=several), theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_text_is_cut_and_its_hypothesis_is_not(kind: str, tmp_path: Path) -> None:
    """Theirs cuts in silence (their issue 13381), and we on demand."""
    pipeline, ours = judge(kind, tmp_path, ["contradiction", "neutral", "entailment"])
    text, limit = QUESTION * 100, ours.max_positions
    pipeline.tokenizer.model_max_length = limit
    theirs = pipeline(text, TOPICS)
    assert_same(ours.zero_shot(text, TOPICS, truncate=True), theirs)
    with pytest.raises(InputError, match=f"too long: .* > {limit}"):
        ours.zero_shot(text, TOPICS)


def test_what_both_refuse(tmp_path: Path) -> None:
    pipeline, ours = judge("bert", tmp_path, ["contradiction", "neutral", "entailment"])
    refused: list[tuple[Any, Any, str | None, type[Exception], str]] = [
        (None, ["politics"], "about {}", InputTypeError, "texts is a NoneType"),
        (QUESTION, [], "about {}", InputError, "at least one"),
        (QUESTION, "", "about {}", InputError, "pass a list of labels"),
        (QUESTION, None, "about {}", InputTypeError, "labels is a NoneType"),
        (QUESTION, ["politics"], "Not formatting template", InputError, "has no {}"),
        (QUESTION, ["politics"], None, InputTypeError, "hypothesis is a NoneType"),
    ]
    for text, labels, hypothesis, error, says in refused:
        with pytest.raises((ValueError, TypeError, AttributeError)):
            pipeline(text, candidate_labels=labels, hypothesis_template=hypothesis)
        with pytest.raises(error, match=says):
            ours.zero_shot(text, labels, hypothesis=hypothesis)
    with pytest.raises(ValueError):  # an empty text, which is one of many in a table here
        pipeline("", candidate_labels="politics")
    assert_same(ours.zero_shot(["", " "], TOPICS)[1], pipeline(" ", TOPICS))
