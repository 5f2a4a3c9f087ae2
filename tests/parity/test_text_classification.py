"""`classify` in the situations of transformers' tests of its pipeline, which answers beside it.

The situations are those of tests/pipelines/test_pipelines_text_classification.py of
huggingface/transformers. Their `top_k` are the first of `scores` here, their
`function_to_apply` is `multi_label=` of `classify`, and `predict(return_logits=True)`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from families import write_family

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.errors import InputError, InputTypeError

pytestmark = pytest.mark.parity
transformers = pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

KINDS = ["gottbert", "bert", "distilbert", "electra", "xlm-roberta", "camembert"]
TEXTS = [
    "This is great !",
    "This is bad",
    "Something else",
    "HuggingFace is in ",
    "Paris is in France",
]
PAIR = ("HuggingFace is in ", "Paris is in France")


def both(kind: str, folder: Path, **settings: Any) -> tuple[Any, RobertaHubInterface]:
    """(the pipeline, ours) of a random model whose answers are far apart."""
    transformers.utils.logging.disable_progress_bar()
    write_family(kind, folder, head="sentence", **settings)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        last = [p for name, p in model.named_parameters() if name.startswith("classifier")][-2]
        last.mul_(8)
    model.save_pretrained(folder)
    pipeline = transformers.pipeline("text-classification", model=str(folder), device="cpu")
    return pipeline, load_model(folder).eval()


def scores(rows: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(row["label"], pytest.approx(row["score"], rel=5e-6, abs=2e-6)) for row in rows]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [2, 3])
def test_the_best_labels(kind: str, count: int, tmp_path: Path) -> None:
    pipeline, ours = both(kind, tmp_path, num_labels=count)
    found = ours.classify(TEXTS)
    for topk in (None, 1, 2):
        theirs = pipeline(TEXTS, top_k=topk)
        for prediction, rows in zip(found, theirs, strict=True):
            assert [*prediction.scores.items()][:topk] == scores(rows)
    for text, prediction in zip(TEXTS, found, strict=True):
        (row,) = pipeline(text)
        alone = ours.classify(text)
        assert (alone.label, alone.score) == (row["label"], pytest.approx(row["score"], abs=2e-6))
        assert alone.label == prediction.label in ours.head_labels("sentence_classification_head")
    several = [prediction.score for prediction in found]
    assert max(several) - min(several) > 1e-5
    assert ours.classify([]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_pairs(kind: str, tmp_path: Path) -> None:
    """A dict of `text` and `text_pair` there, a tuple in a list here."""
    pipeline, ours = both(kind, tmp_path)
    theirs = pipeline({"text": PAIR[0], "text_pair": PAIR[1]}, top_k=None)
    assert [*ours.classify([PAIR])[0].scores.items()] == scores(theirs)
    assert ours.classify([list(PAIR)]) == ours.classify([PAIR])
    with pytest.raises(ValueError):
        pipeline([list(PAIR)])
    with pytest.raises(InputTypeError, match=r"pass \[\('HuggingFace is in ', .*for one of sev"):
        ours.classify(PAIR)
    with pytest.raises(InputTypeError, match="a dict with the keys 'text', 'text_pair'"):
        ours.classify({"text": PAIR[0], "text_pair": PAIR[1]})  # type: ignore[call-overload]
    with pytest.raises(InputTypeError, match=r"\[0\]: a list of 1; a pair is"):
        ours.classify([[list(PAIR)]])


@pytest.mark.parametrize("kind", ["gottbert", "bert", "distilbert"])
@pytest.mark.parametrize(
    ("count", "problem"),  # the softmax of one output is 1
    [(1, None), (1, "multi"), (1, "regression")]
    + [(3, problem) for problem in (None, "single", "multi", "regression")],
)
def test_every_function(kind: str, problem: str | None, count: int, tmp_path: Path) -> None:
    """The one that the folder names, and each of them on demand.

    Of one output whose folder names no problem theirs is the sigmoid; ours is the output itself,
    as rerankers and regressions were trained.
    """
    named = {"single": "single_label_classification", "multi": "multi_label_classification"}
    name = named.get(problem or "", problem)
    pipeline, ours = both(kind, tmp_path, num_labels=count, problem_type=name)
    found = ours.classify(TEXTS)
    raw = {"function_to_apply": "none"} if (count, problem) == (1, None) else {}
    for prediction, rows in zip(found, pipeline(TEXTS, top_k=None, **raw), strict=True):
        assert [*prediction.scores.items()] == scores(rows)
    sigmoids = pipeline(TEXTS, top_k=None, function_to_apply="sigmoid")
    for prediction, rows in zip(ours.classify(TEXTS, multi_label=True), sigmoids, strict=True):
        assert [*prediction.scores.items()] == scores(rows)
    if count > 1 and problem != "regression":
        softmaxes = pipeline(TEXTS, top_k=None, function_to_apply="softmax")
        answers = ours.classify(TEXTS, multi_label=False)
        for prediction, rows in zip(answers, softmaxes, strict=True):
            assert [*prediction.scores.items()] == scores(rows)
    head = "sentence_classification_head"
    labels = ours.head_labels(head)
    for text, rows in zip(
        TEXTS, pipeline(TEXTS, top_k=None, function_to_apply="none"), strict=True
    ):
        logits = ours.predict(head, ours.encode(text), return_logits=True)[0].tolist()
        assert dict(zip(labels, logits, strict=True)) == pytest.approx(
            {row["label"]: row["score"] for row in rows}, abs=1e-5
        )
    for argument in ("function_to_apply", "top_k", "return_all_scores"):
        with pytest.raises(InputTypeError, match=f"classify has no argument '{argument}'"):
            ours.classify(TEXTS, **{argument: 1})  # type: ignore[call-overload]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype, tmp_path: Path) -> None:
    """The weights are rounded, and the probabilities are float32's."""
    both("distilbert", tmp_path)
    pipeline = transformers.pipeline("text-classification", model=str(tmp_path), dtype=dtype)
    ours = load_model(tmp_path, dtype=dtype).eval()
    for prediction, row in zip(ours.classify(TEXTS), pipeline(TEXTS), strict=True):
        assert prediction.label == row["label"]
        assert prediction.score == pytest.approx(row["score"], abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_long_texts(kind: str, tmp_path: Path) -> None:
    pipeline, ours = both(kind, tmp_path)
    text = "HuggingFace is in Paris. " * 40
    limit = {"truncation": True, "max_length": ours.max_positions}
    (found,) = ours.classify([text], truncate=True)
    assert [*found.scores.items()] == scores(pipeline(text, top_k=None, **limit))
    with pytest.raises(InputError, match="too long"):
        ours.classify(text)
