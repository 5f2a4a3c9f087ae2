"""What comes back with a model: one line, a data frame, a display that holds what was measured."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from roberta_hub.inference.classify import Prediction
from roberta_hub.train.data.sentences import LabelledText
from roberta_hub.train.fitting.choice import Choice, Tried
from roberta_hub.train.fitting.evaluation import compute_scores
from roberta_hub.train.fitting.examples import read_examples
from roberta_hub.train.fitting.fitted import Fitted, judged_rows
from roberta_hub.train.fitting.learning_options import LearningOptions
from roberta_hub.train.fitting.model_card import model_card
from roberta_hub.train.settings import Config

CHOICE = Choice(
    "the head, then the body",
    "the best of two by cross-validation",
    (
        Tried("regression on frozen vectors", 0.81, 2.0),
        Tried("the head, then the body", 0.84, 50.0),
        Tried("contrastive pairs first", why_not="over two minutes' work"),
    ),
    "accuracy",
)


def made(task: str = "classification", pairs: bool = False) -> Fitted:
    wanted: dict[str, list[Any]] = {
        "classification": [("ok",), ("bad",), ("ok",), ("bad",)] * 10,
        "multi_label": [("ok",), ("bad", "ok"), (), ("bad",)] * 10,
        "regression": [("1.5",), ("2.5",), ("3.5",), ("4.0",)] * 10,
    }
    rows = [
        LabelledText(
            (f"one {i}", f"<b>two</b> {i}") if pairs else f"<b>text</b> {i}", own, f"a:{i}"
        )
        for i, own in enumerate(wanted[task])
    ]
    sure = [0.95, 0.7, 0.2, 0.55] * 10
    least = [0.5, 0.5] if task == "multi_label" else None
    answers = [Prediction.of(["ok", "bad"], [p, 1 - p], least) for p in sure]
    learnt = {"ok": 20, "bad": 20}
    if task == "regression":
        answers, learnt = [Prediction.of(["0"], [4 * p]) for p in sure], {"1.5": 1, "4.0": 1}
    scores = compute_scores(task, rows, answers, learnt, "cross-validated")
    return Fitted(
        "reviews.csv", scores, judged_rows(task, rows, answers), CHOICE, 12.0, ("a note",)
    )


@pytest.mark.parametrize("task", ["classification", "multi_label", "regression"])
def test_it_is_one_line_as_repr_and_all_of_it_as_str(task: str) -> None:
    fitted = made(task)
    assert "\n" not in repr(fitted) and fitted.scores.headline() in repr(fitted)
    lines = str(fitted).splitlines()
    assert lines[0] == f"learnt by {CHOICE.taken}: {CHOICE.why}"
    assert "-  contrastive pairs first: over two minutes' work" in lines[3]
    assert set(fitted.scores.summary().splitlines()) <= set(lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("task", ["classification", "multi_label", "regression"])
def test_it_is_drawn(task: str, tmp_path: Any) -> None:
    fitted = made(task)
    html = fitted._repr_html_()
    for words in ("Fitted on reviews.csv", CHOICE.why, "not tried: contrastive pairs first"):
        assert words.replace("'", "&#x27;") in html or words in html
    assert "<b>" not in html and "&lt;b&gt;text" in html
    assert ("Filled:" in html) == (task != "regression")
    for one in fitted.scores.bins:
        assert f">{one.low:.1f}–{one.high:.1f}<" in html and f">{one.count}<" in html
    picture = fitted.png(tmp_path / "x.png")
    assert picture[:4] == b"\x89PNG" and (tmp_path / "x.png").read_bytes() == picture
    assert picture.size[1] > (550 if task == "regression" else 900)


@pytest.mark.parametrize("pairs", [False, True])
def test_the_rows_are_a_data_frame(pairs: bool) -> None:
    pytest.importorskip("pandas")
    fitted = made(pairs=pairs)
    frame = fitted.to_pandas()
    texts = ["text", "text2"] if pairs else ["text"]
    assert list(frame) == [*texts, "wanted", "answered", "right", "probability", "where"]
    assert len(frame) == 40 and frame["right"].mean() == fitted.scores.numbers["accuracy"]
    assert (frame["right"] == (frame["wanted"] == frame["answered"])).all()
    assert frame["probability"].between(0.5, 1).all() and frame["where"][3] == "a:3"


def test_rows_of_several_labels_and_of_numbers() -> None:
    pytest.importorskip("pandas")
    several, numbers = made("multi_label"), made("regression").to_pandas()
    share = several.scores.numbers["all labels right"]
    assert several.to_pandas()["right"].mean() == pytest.approx(share)
    assert "right" not in numbers and numbers["answered"][0] == pytest.approx(3.8)


def test_it_is_plain_values_and_can_be_pickled() -> None:
    fitted = made()
    plain = json.loads(json.dumps(fitted.to_dict()))
    assert plain["choice"]["ways"][0]["score"] == 0.81 and len(plain["rows"]) == 40
    assert ["ok", "ok", 10] in plain["scores"]["confusion"]
    assert pickle.loads(pickle.dumps(fitted)) == fitted
    with pytest.raises(dataclasses.FrozenInstanceError):
        fitted.seconds = 1.0  # type: ignore[misc]


def carded(fitted: Fitted, **options: Any) -> str:
    rows = [{"text": f"some words {i}", "label": "ab"[i % 2]} for i in range(20)]
    made = read_examples(rows)
    return model_card(
        made, fitted, Config(model="roberta.tiny"), LearningOptions(**options), Path("mine")
    )


def test_the_card_tells_the_ways_and_what_they_reached() -> None:
    fitted = made()
    text = carded(fitted)
    assert CHOICE.summary() in text and fitted.scores.summary() in text
    assert "It began as roberta.tiny" in text and "All of it took 12 s, with roberta_hub" in text
    for words in ("calibrated", "balanced world", "thresholds"):
        assert words not in text
    assert text.index("## Scores") < text.index("ECE (expected calibration error) is")
    assert "expected" not in carded(made("regression"))


def test_the_card_tells_what_probabilities_mean() -> None:
    told = dataclasses.replace(made(), temperature=1.327)
    assert "the logits are divided by 1.33, a temperature found on\nrows" in carded(told)
    assert "those of a balanced world" in carded(made(), balance=True)
    told = dataclasses.replace(made("multi_label"), thresholds={"bad": 0.25, "ok": 0.5})
    text = carded(told)
    assert text.index("## Scores") < text.index("is at or over: bad 0.25, ok 0.5.\n")
    assert "there a label begins at 0.5" in text


def test_the_command_says_what_the_caller_said() -> None:
    """And not what was chosen: an option that is said would choose."""
    assert "epochs" not in carded(made()).split("## How it was made")[1].split("```")[1]
    text = carded(made(), epochs=3, learning_rate=2e-5, balance=True, seed=7)
    assert "epochs=3, learning_rate=2e-05, balance=True, seed=7)" in text
