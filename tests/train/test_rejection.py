"""`fit(..., reject=)` refuses as many texts of known classes as it says, and texts of no class."""

from __future__ import annotations

import json
import random
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import roberta_hub
from roberta_hub import RobertaClassifier, compare, evaluate, load_model
from roberta_hub.errors import InputError
from roberta_hub.inference.certainty import known_shares
from roberta_hub.inference.classify import Prediction
from roberta_hub.settings import REJECTED
from roberta_hub.train.data.sentences import LabelledText
from roberta_hub.train.fitting import learning
from roberta_hub.train.fitting.confusions import confusion_display
from roberta_hub.train.fitting.evaluation import compute_scores
from roberta_hub.train.fitting.rejection import (
    check_rows,
    conformal_threshold,
    fit_rejection,
    held_out_rejection,
    rows_needed,
    scores_of_answered,
)
from roberta_hub.train.fitting.scores import Scores
from roberta_hub.train.fitting.target import read_target, refused_label

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.filterwarnings("ignore:.*rows are few to learn from")
WORDS = {
    "travel": ("train", "flight", "hotel", "ticket", "luggage", "passport"),
    "food": ("soup", "bread", "salad", "dinner", "kitchen", "recipe"),
    "music": ("guitar", "concert", "singer", "melody", "album", "drums"),
}
HEAD = "sentence_classification_head"
STRANGE = [
    "asdf asdf asdf",
    "qwertyuiop",
    "Wo ist der Bahnhof?",
    "猫は寝ています。",
    "1234 !!!! ;;;",
]


def rows(count: int, seed: int = 1) -> list[dict[str, str]]:
    draw = random.Random(seed)
    found = []
    for i in range(count):
        label = [*WORDS][i % len(WORDS)]
        one, other = draw.sample(WORDS[label], 2)
        found.append({"text": f"I talk of the {one} and the {other}.", "label": label})
    return list({row["text"]: row for row in found}.values())


def fitted(table: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return roberta_hub.fit(table, minutes=1e-6, progress=False, **options).eval()


# ---- the threshold ----


@pytest.mark.parametrize(("count", "share"), [(19, 0.05), (39, 0.05), (99, 0.1), (25, 0.3)])
def test_new_rows_are_below_it_as_often_as_is_said(count: int, share: float) -> None:
    draw = torch.Generator().manual_seed(count)
    tables = torch.rand(4000, count + 1, generator=draw)
    below = [conformal_threshold(own[:-1].tolist(), share) > float(own[-1]) for own in tables]
    expected = int((count + 1) * share) / (count + 1)
    assert sum(below) / len(below) == pytest.approx(expected, abs=0.03)
    assert expected <= share


def test_too_few_rows_are_an_error_that_says_how_many() -> None:
    for share in (0.5, 0.1, 0.05, 0.07, 0.01):
        check_rows(rows_needed(share), share)
        with pytest.raises(InputError, match=f"needs {rows_needed(share)} row"):
            check_rows(rows_needed(share) - 1, share)
    with pytest.raises(InputError, match=r"needs 99 rows .* there are 1[0-8]; add rows"):
        fitted(rows(18), reject=0.01)


@pytest.mark.parametrize("share", [0.05, 0.1, 0.3, 0.5])
def test_a_weight_of_two_is_the_row_twice(share: float) -> None:
    draw = random.Random(int(100 * share))
    for _ in range(200):
        sure = [round(draw.random(), 2) for _ in range(draw.randint(19, 60))]
        assert (
            conformal_threshold(sure, share, [1.0] * len(sure))
            == (sorted(sure)[int(round((len(sure) + 1) * share, 9)) - 1])
        )
        often = [draw.randint(1, 4) for _ in sure]
        repeated = [own for own, times in zip(sure, often, strict=True) for _ in range(times)]
        assert conformal_threshold(sure, share, often) == conformal_threshold(repeated, share)
        halves = [times / 2 for times in often]
        assert min(sure) <= conformal_threshold(sure, share, halves) <= max(sure)


def test_rows_choose_the_threshold_by_their_weights() -> None:
    """In turns and held out: the rows of the surer half weigh nine times as much."""
    answers = [Prediction.of(["a", "b"], [0.5 + i / 200, 0.5 - i / 200]) for i in range(100)]
    ids = [torch.tensor([5])] * 100
    places = [*range(0, 100, 2)], [*range(1, 100, 2)]
    even, heavy = [1.0] * 100, [1.0] * 50 + [9.0] * 50
    found = []
    for weights in (even, heavy):
        ordered = [answers[i] for fold in places for i in fold]
        crossed, marked = fit_rejection(ordered, ids, places, range(100), 0.2, weights)
        held_out, _ = held_out_rejection(answers, ids, ids, 0.2, weights)
        assert crossed.below == held_out.below
        found.append((crossed.below, sum(bool(one.rejected) for one in marked)))
    (plain, few), (higher, more) = found
    assert plain < higher and 15 < few < 25 < 50 < more


def test_heavy_rows_are_no_more_rows_and_light_ones_are_fewer() -> None:
    with pytest.raises(InputError, match="there are 10; add rows"):
        check_rows(10, 0.05, weights=[100.0] * 10)
    with pytest.raises(InputError, match=r"there are 20 with a weight of 10\.5 in all; add rows"):
        check_rows(20, 0.05, weights=[0.5] * 19 + [1.0])
    check_rows(19, 0.05, weights=[1 / 3 * 3.0] * 19)
    light = [{**row, "w": 1.0 if i % 20 == 0 else 0.1} for i, row in enumerate(rows(60))]
    with pytest.raises(InputError, match=r"there are \d\d with a weight of \d.\d in all; add rows"):
        fitted(light, reject=0.05, weight="w")


# ---- whole fits ----


@pytest.mark.system
def test_it_refuses_what_no_class_fits(tmp_path: Path) -> None:
    table = rows(90)
    mine = fitted(table, reject=0.05, output=tmp_path / "mine")
    strange = mine.classify(STRANGE)
    assert all(one.label is None and one.rejected is True for one in strange)
    known = mine.classify([row["text"] for row in rows(120, 2)])
    assert sum(one.rejected for one in known) / len(known) < 0.15
    assert all(one.rejected is False for one in known if one.label is not None)
    again = load_model(tmp_path / "mine").eval()
    assert [one.label for one in again.classify(STRANGE)] == [None] * len(STRANGE)
    assert mine.fitted.reject_below == mine.reject_below[HEAD] == again.reject_below[HEAD]
    scores = mine.fitted.scores
    refused = sum(row.answered is None for row in mine.fitted.rows)
    assert scores.count == len(mine.fitted.rows) - refused
    assert sum(n for (_, own), n in scores.confusion.items() if own == REJECTED) == refused
    assert f"refused are {refused} of {len(mine.fitted.rows)} rows" in str(scores.summary())
    card = (tmp_path / "mine/README.md").read_text()
    assert "It refuses answers whose certainty is below" in card and "reject=0.05" in card
    assert REJECTED in str(mine.fitted)


@pytest.mark.system
def test_held_out_rows_of_a_large_table_choose(monkeypatch: pytest.MonkeyPatch, base: Path) -> None:
    monkeypatch.setattr(learning, "SMALL_TABLE_ROWS", 40)
    mine = fitted(rows(90), reject=0.2, valid=0.3, model=base, epochs=1)
    assert mine.fitted.scores.how == "held out"
    assert 0 < mine.reject_below[HEAD] < 1
    again = fitted(rows(90), valid=0.3, model=base, epochs=1)
    assert not again.reject_below and again.fitted.reject_below is None


@pytest.mark.system
def test_fit_again_without_it_answers_every_text(tmp_path: Path) -> None:
    fitted(rows(60), reject=0.05, output=tmp_path / "mine")
    again = fitted(rows(60, 3), model=tmp_path / "mine")
    assert not again.reject_below and again.classify(STRANGE)[0].label is not None


def test_what_has_no_single_class_is_refused_by_name(base: Path) -> None:
    several = [{"text": f"text {i}", "label": ["a"] if i % 2 else ["a", "b"]} for i in range(40)]
    numbers = [{"text": f"text {i}", "label": i / 7} for i in range(40)]
    for table in (several, numbers):
        with pytest.raises(InputError, match="reject is for classes of which a text has one"):
            fitted(table, reject=0.05, model=base)
    spans = [{"text": f"Ada {i}", "spans": [[0, 3, "PER"]]} for i in range(30)]
    with pytest.raises(InputError, match="reject means nothing to a tagger"):
        roberta_hub.fit(spans, reject=0.05, model=base, label="spans")
    for value in (0, 1, -0.1, 5):
        with pytest.raises(InputError, match=rf"reject is {value}; give a number above 0 "):
            fitted(rows(30), reject=value)


def with_noise(count: int) -> list[dict[str, str]]:
    """Every fourth text is letters that no other text has."""
    draw, found = random.Random(count), rows(count)
    for row in found[::4]:
        row["text"] = " ".join("".join(draw.choices("bdfghklmnprtvz", k=4)) for _ in range(4))
    return found


@pytest.mark.system
def test_held_out_rows_are_judged_by_pieces_of_the_others(base: Path) -> None:
    """The head learns them at last, and then it knows their pieces."""
    table = with_noise(90)
    mine = fitted(table, reject=0.2, valid=0.3, model=base)
    noise = {row["text"] for row in table[::4]}
    assert noise & {row.text for row in mine.fitted.rows if row.answered is None}
    pieces = mine._heads.of(HEAD).known_pieces
    known = known_shares(mine.tokenizer.encode_batch([*noise]), pieces)
    assert known.tolist() == [1.0] * len(noise)


def test_a_class_with_the_name_of_a_refusal_is_an_error(base: Path) -> None:
    named = [{**row, "label": REJECTED} if i % 3 else row for i, row in enumerate(rows(60))]
    with pytest.raises(
        InputError, match=r"a class '\(rejected\)', .* leave out reject=\.\.\."
    ) as e:
        fitted(named, reject=0.1, model=base)
    assert e.value.in_shell().endswith("give the class another name, or leave out --reject")
    plain = fitted(named, model=base)
    assert f"{REJECTED} {REJECTED}" not in str(plain.fitted)
    found = evaluate(plain, named)
    assert [group.name for group in found.groups].count(REJECTED) == 1
    plain.reject_below[HEAD] = 0.5
    for ask in (lambda: evaluate(plain, named), lambda: compare(plain, plain, named)):
        with pytest.raises(InputError, match=r"reject_below and a label '\(rejected\)', which is"):
            ask()


@pytest.mark.parametrize("classes", [3, 12])
def test_confusions_show_such_a_class(classes: int) -> None:
    others = {(f"c{i}", f"c{i}"): 5 for i in range(classes)}
    found = "\n".join(
        line
        for part in confusion_display("classification", {**others, (REJECTED, "c1"): 2})
        for line in part.lines()
    )
    assert REJECTED in found
    refused = confusion_display("classification", {**others, ("c0", REJECTED): 2})
    shown = "\n".join(line for part in refused for line in part.lines())
    assert REJECTED in shown and f"taken for {REJECTED}" not in shown


# ---- the estimator ----


@pytest.mark.system
def test_predict_gives_the_label_of_refused_texts() -> None:
    table = rows(90)
    texts, labels = [row["text"] for row in table], [row["label"] for row in table]
    numbers = [[*WORDS].index(label) for label in labels]
    options: dict[str, Any] = {"minutes": 1e-6, "reject": 0.05, "progress": False}
    for y, given, wanted in (
        (labels, {}, "rejected"),
        (labels, {"reject_label": "none of these"}, "none of these"),
        (numbers, {"reject_label": -1}, -1),
    ):
        mine = RobertaClassifier(**options, **given).fit(texts, y)
        found = mine.predict([*texts[:6], *STRANGE])
        assert found[-len(STRANGE) :].tolist() == [wanted] * len(STRANGE)
        assert wanted not in mine.classes_.tolist()
        assert mine.predict_proba(STRANGE).shape == (len(STRANGE), 3)
        assert mine.score(STRANGE, [wanted] * len(STRANGE)) == 1.0


def test_classes_that_are_no_text_name_one() -> None:
    numbers, texts = read_target([0, 1, 0], 3), read_target(["a", "b", "rejected"], 3)
    with pytest.raises(InputError, match=r"the classes are int; reject_label=.* names one"):
        refused_label(0.05, None, numbers)
    with pytest.raises(InputError, match="'rejected', which is a class; name another"):
        refused_label(0.05, None, texts)
    with pytest.raises(InputError, match="1, which is a class"):
        refused_label(0.05, 1, numbers)
    for target, label in ((numbers, "none"), (texts, -1), (read_target([True, False], 2), -1)):
        with pytest.raises(InputError, match="give a value of their type"):
            refused_label(0.05, label, target)
    with pytest.raises(InputError, match="reject_label means nothing without reject"):
        refused_label(None, "none", texts)
    assert refused_label(None, None, numbers) is None
    several = read_target([["a"], ["a", "b"]], 2)
    assert refused_label(0.05, "none", several) is None  # `fit` says that it refuses several labels
    with pytest.raises(InputError, match="reject_label means nothing without reject"):
        refused_label(None, "none", several)
    for label in (None, -1):
        with pytest.raises(InputError, match="give y as text"):
            refused_label(0.1, label, read_target([True, False], 2))


def test_the_label_of_refused_texts_is_read_as_a_class_is() -> None:
    texts, floats = read_target([" travel", "food"], 2), read_target([0.0, 1.0], 2)
    assert refused_label(0.05, " none\t", texts) == "none"
    assert [refused_label(0.05, label, floats) for label in (-1, -1.0, np.float64(-1))] == [-1] * 3
    for label in (" travel ", "travel"):
        with pytest.raises(InputError, match="travel', which is a class; name another value"):
            refused_label(0.05, label, texts)
    for label in (1, 1.0):
        with pytest.raises(InputError, match="which is a class; name another value"):
            refused_label(0.05, label, floats)
    for label in ("", " ", "\n"):
        with pytest.raises(InputError, match="reject_label: the label is empty"):
            refused_label(0.05, label, texts)
    for label in (0.5, "x", float("nan"), True):
        with pytest.raises(InputError, match="are float; give a whole number, such as -1, that is"):
            refused_label(0.05, label, floats)


def test_several_labels_are_not_blamed_on_reject_label(base: Path) -> None:
    several = [["travel"] if i % 2 else ["travel", "food"] for i in range(40)]
    mine = RobertaClassifier(base, reject=0.05, reject_label="x", minutes=1e-6, progress=False)
    with pytest.raises(InputError, match="reject is for classes of which a text has one"):
        mine.fit([f"text {i}" for i in range(40)], several)


@pytest.mark.system
def test_a_label_with_white_space_scores_as_it_is_predicted() -> None:
    table = rows(90)
    texts, labels = [row["text"] for row in table], [row["label"] for row in table]
    mine = RobertaClassifier(
        minutes=1e-6, progress=False, reject=0.05, reject_label=" none ", valid=None
    ).fit(texts, labels)
    assert mine.predict(STRANGE).tolist() == ["none"] * len(STRANGE)
    for label in ("none", " none "):
        assert mine.score(STRANGE, [label] * len(STRANGE)) == 1.0


def test_what_all_rows_reach_counts_their_shares() -> None:
    """A row that is 85 % good counts as .85 right, with refusals and without."""
    graded = ({"good": 0.15, "bad": 0.85}, {"good": 0.85, "bad": 0.15})
    words = ("dull", "lovely")
    given = [{"text": f"A {words[i % 2]} film {i}.", "label": graded[i % 2]} for i in range(40)]
    plain, careful = (
        roberta_hub.fit(given, minutes=1e-6, progress=False, **more)
        for more in ({}, {"reject": 0.1})
    )
    reached = 100 * plain.fitted.scores.numbers["accuracy"]
    assert (
        f"without refusing {reached:.1f} % of all rows are right"
        in careful.fitted.scores.conclusions[1]
    )


# ---- what is told ----


def told(given: list[tuple[LabelledText, bool]]) -> Scores:
    """Measure answers that are all "good", and refused or not."""
    answers = [
        Prediction.of(["good", "bad"], [0.9, 0.1]).refuse(0.0 if refused else 1.0, below=0.5)
        for _, refused in given
    ]
    measure = partial(compute_scores, "classification", learnt={"good": 3, "bad": 3})
    return scores_of_answered([row for row, _ in given], answers, measure)


def test_a_refused_row_counts_what_it_counts_elsewhere() -> None:
    shared = LabelledText("so", ("good",), "2", shares=(("bad", 0.25), ("good", 0.75)), weight=2)
    found = told([(LabelledText("fine", ("good",), "1", weight=3), False), (shared, True)])
    assert found.confusion == {
        ("good", "good"): 3,
        ("bad", REJECTED): 0.5,
        ("good", REJECTED): 1.5,
    }
    assert "refused are 1 of 2 rows (40.0 % by weight)" in found.conclusions[1]
    plain = told([(LabelledText("fine", (own,), "1"), own == "bad") for own in ("good", "bad")])
    assert plain.confusion == {("good", "good"): 1, ("bad", REJECTED): 1}
    assert "refused are 1 of 2 rows (50.0 %)" in plain.conclusions[1]


def test_where_all_rows_are_refused_there_are_no_numbers() -> None:
    found = told([(LabelledText("fine", (own,), "1"), True) for own in ("good", "bad")])
    assert found.count == 0 and {*found.numbers.values()} == {None}
    assert found.interval == (0.0, 1.0) and not (found.bins or found.mistakes or found.recalls)
    assert found.confusion == {("good", REJECTED): 1, ("bad", REJECTED): 1}
    said = found.summary()
    assert said.startswith("accuracy unknown: no judged row was answered\n")
    assert "of the others" not in said
    assert "refused are 2 of 2 rows (100.0 %); without refusing 50.0 % of all rows are" in said


@pytest.mark.system
def test_a_fit_that_answers_no_judged_row_says_so(tmp_path: Path) -> None:
    valid = [{"text": text, "label": "food"} for text in STRANGE[:2]]
    mine = fitted(rows(60), valid=valid, reject=0.1, output=tmp_path / "mine")
    assert "no judged row was answered" in str(mine.fitted) and "no judged" in repr(mine.fitted)
    card = (tmp_path / "mine/README.md").read_text()
    assert "no judged row was answered" in card and "ECE (expected" not in card
    assert json.dumps(mine.fitted.to_dict(), allow_nan=False)
    found = evaluate(mine, valid)
    assert (found["accuracy_answered"], found["ece"]) == (None, None)
    compared = compare(mine, mine, valid).whole
    assert compared.calibration == (None, None)
