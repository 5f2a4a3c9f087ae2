"""Rows count by their weight, and by shares of their classes, as repeated rows do."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import assert_close
from table_lessons import learner_of, nothing, plain, sentences, taught
from torch import Tensor

import roberta_hub
from roberta_hub.errors import InputError, InputTypeError, UnknownNameError
from roberta_hub.inference.classify import Prediction
from roberta_hub.measures.numbers import median, pearson, spearman
from roberta_hub.rows.labels import Shares
from roberta_hub.settings import HeadKind
from roberta_hub.train.data.sentences import LabelledText
from roberta_hub.train.fitting.calibration import choose_thresholds, fit_temperature
from roberta_hub.train.fitting.doubtful import likely_wrong
from roberta_hub.train.fitting.evaluation import compute_scores
from roberta_hub.train.fitting.examples import Examples, read_examples
from roberta_hub.train.fitting.regression import regression, solve
from roberta_hub.train.fitting.target import read_weights
from roberta_hub.train.tasks.sentences import SentenceObjective
from roberta_hub.train.tasks.training_task import Batch

pytestmark = pytest.mark.filterwarnings("ignore:.*rows are few to learn from")
KINDS: tuple[HeadKind, ...] = ("single_label", "multi_label", "regression")
LITTLE = 1e-9
"""Minutes in which nothing is trained but a regression."""


def rows_of(kind: HeadKind, count: int = 40, outputs: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors, targets that they tell but for some noise, and whole weights."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(count, 6, generator=generator).double() / 6**0.5
    told = features @ torch.randn(6, outputs, generator=generator).double() * 3
    told += torch.randn(count, outputs, generator=generator).double()
    weights = torch.randint(1, 4, (count,), generator=generator)
    if kind == "single_label":
        return features, torch.eye(outputs).double()[told.argmax(1)], weights
    return features, (told > 0.7).double() if kind == "multi_label" else told, weights


# ---- learning ----


@pytest.mark.parametrize("kind", KINDS)
def test_whole_weights_are_repetitions_to_a_regression(kind: HeadKind) -> None:
    """With the same folds: the chosen settings, the unseen logits and the last layer."""
    features, targets, weights = rows_of(kind)
    parts = [list(range(k, 40, 4)) for k in range(4)]
    origin = torch.arange(40).repeat_interleave(weights)
    copies = [[i for i, row in enumerate(origin.tolist()) if row % 4 == k] for k in range(4)]
    one = regression(features, targets, kind, parts, weights=weights.double())
    other = regression(features[origin], targets[origin], kind, copies)
    assert one.settings == other.settings
    assert_close(one.unseen[origin], other.unseen, 1e-6)
    assert_close(one.layer(features), other.layer(features), 1e-6)
    unweighted = regression(features, targets, kind, parts)
    assert float((one.layer(features) - unweighted.layer(features)).abs().max()) > 1e-3


@pytest.mark.parametrize("kind", ["single_label", "multi_label"])
def test_temperature_and_thresholds_know_weights(kind: HeadKind) -> None:
    features, targets, weights = rows_of(kind)
    origin = torch.arange(40).repeat_interleave(weights)
    logits = 9 * features[:, :3]
    one = fit_temperature(logits, targets, kind, weights=weights)
    assert one == pytest.approx(fit_temperature(logits[origin], targets[origin], kind), rel=1e-6)
    given = logits.sigmoid()
    assert choose_thresholds(given, targets, weights) == choose_thresholds(
        given[origin], targets[origin]
    )


def test_a_weighted_regression_is_scikit_learns() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    features, targets, _ = rows_of("single_label")
    weights = torch.rand(40, generator=torch.Generator().manual_seed(2)).double()
    layer = solve(features, targets, "single_label", 10.0, weights=weights)
    peer = linear.LogisticRegression(C=10, tol=1e-9, max_iter=5000)
    peer.fit(features.numpy(), targets.argmax(1).numpy(), sample_weight=weights.numpy())
    wanted = torch.from_numpy(peer.predict_proba(features.numpy()))
    assert_close(layer(features).softmax(1), wanted, 1e-4)
    features, targets, _ = rows_of("regression")
    layer = solve(features, targets, "regression", 10.0, weights=weights)
    ridge = linear.Ridge(alpha=1 / 20).fit(features, targets, sample_weight=weights.numpy())
    assert_close(layer(features), torch.from_numpy(ridge.predict(features.numpy())), 1e-8)


def test_shares_are_rows_of_each_class() -> None:
    """Cross-entropy against shares is that of a row for each class, weighted by its share."""
    features, targets, _ = rows_of("single_label")
    shares = (targets + torch.tensor([0.5, 0.3, 0.2])) / 2
    parts = features.repeat_interleave(3, 0), torch.eye(3).double().repeat(40, 1)
    one = solve(features, shares, "single_label", 10.0)
    other = solve(*parts, "single_label", 10.0, weights=shares.flatten())
    assert_close(one(features), other(features), 1e-4)


@pytest.mark.parametrize("kind", ["classification", "multi_label", "regression"])
def test_the_loss_of_a_training_is_that_of_repeated_texts(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 1 if kind == "regression" else 3, generator=generator)
    labels: Tensor = torch.tensor([0, 2, 1, 1])
    if kind == "multi_label":
        labels = torch.randint(0, 2, (4, 3), generator=generator).float()
    elif kind == "regression":
        labels = torch.randn(4, generator=generator)
    weights, objective = torch.tensor([1.0, 3.0, 0.0, 2.0]), SentenceObjective("head", kind)
    again = torch.arange(4).repeat_interleave(weights.long())

    def loss(rows: Tensor, **more: Tensor) -> float:
        batch = Batch(None, {"labels": labels[rows], **more}, count=len(rows))  # type: ignore[arg-type]
        return float(objective.loss(logits[rows], batch).total)

    assert loss(torch.arange(4), weights=weights) == pytest.approx(loss(again), rel=1e-6)


def test_a_table_with_weights_is_learnt_as_the_repeated_one() -> None:
    """From reading to logits: where each text is a fold of its own, folds do not differ."""
    rows = [{**row, "times": 1 + i % 3} for i, row in enumerate(sentences(30))]
    repeated = [row for row in rows for _ in range(row["times"])]
    found = []
    for table in (rows, repeated):
        learner = learner_of(plain(), table, nothing)
        if table is rows:
            learner.encoded.weights.copy_(torch.tensor([row["times"] for row in rows]))
        learner.reset_head(range(len(table)))
        encoded = learner.encoded
        layer = solve(
            learner.features(learner.all()),
            encoded.targets,
            learner.kind,
            10.0,
            weights=encoded.weights,
        )
        learner.set_head(layer, 1.0)
        texts = [row["text"] for row in rows]
        given = learner.roberta.classify(texts, head=learner.config.task.head)
        found.append(torch.tensor([list(one.scores.values()) for one in given]))
    assert_close(found[0], found[1], 1e-5)


def test_weights_and_shares_reach_the_training() -> None:
    learner = learner_of(plain(), sentences(6), nothing)
    encoded = learner.encoded
    plain_targets, _ = learner.all().targets([0, 1])
    assert "weights" not in plain_targets and plain_targets["labels"].dtype == torch.int64
    encoded.weights[0] = 6.0
    encoded.targets[1] = torch.tensor([0.5, 0.25, 0.25])
    targets, count = learner.all().targets([0, 1])
    assert count == 2 and targets["labels"][1].tolist() == [0.5, 0.25, 0.25]
    assert targets["weights"].tolist() == pytest.approx([36 / 11, 6 / 11])  # of all: a mean of 1


@pytest.mark.system
def test_a_whole_model_learns_shares() -> None:
    """A text that is half of each class ends between both."""
    words = {"cat": {"a": 1, "b": 0}, "dog": {"a": 0, "b": 1}, "cow": {"a": 0.5, "b": 0.5}}
    rows = [{"text": f"A {w} of {i}.", "label": s} for i in range(12) for w, s in words.items()]
    from roberta_hub.train.loop.updates import updates

    roberta = plain()
    learnt = taught(roberta, read_examples(rows), updates, epochs=10, learning_rate=0.01)
    found = {w: roberta.classify(f"A {w} of 3.").scores["a"] for w in words}
    assert found["cat"] > 0.8 > found["cow"] > 0.2 > found["dog"]
    assert learnt.choice.measure == "accuracy" and learnt.how == "cross-validated"


# ---- scores ----


def drawn(count: int = 120) -> tuple[list[str], list[Prediction], list[list[float]], list[float]]:
    draw, names = random.Random(3), ("complaint", "ok", "praise")
    wanted = [draw.choice(names) for _ in range(count)]
    table = torch.rand(count, 3, generator=torch.Generator().manual_seed(1)).double()
    table = (3 * table).softmax(-1)
    weights = [draw.choice([0.2, 1.0, 2.5]) for _ in range(count)]
    answers = [Prediction.of(names, own) for own in table.tolist()]
    return wanted, answers, table.tolist(), weights


def check_classes(
    found: Any, wanted: list[str], given: list[str], table: Any, weights: list[float]
) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    about: Any = {"sample_weight": weights}
    numbers = found.numbers
    assert numbers["accuracy"] == pytest.approx(metrics.accuracy_score(wanted, given, **about))
    macro = metrics.f1_score(wanted, given, average="macro", **about)
    assert numbers["macro-F1"] == pytest.approx(macro)
    assert numbers["MCC"] == pytest.approx(metrics.matthews_corrcoef(wanted, given, **about))
    loss = metrics.log_loss(wanted, table, labels=sorted({*wanted}), **about)
    assert numbers["log loss"] == pytest.approx(loss)
    names = sorted({*wanted})
    square = metrics.confusion_matrix(wanted, given, labels=names, **about)
    for i, right in enumerate(names):
        for j, answered in enumerate(names):
            assert found.confusion.get((right, answered), 0) == pytest.approx(square[i, j])
    most = max(sum(w for w, own in zip(weights, wanted, strict=True) if own == n) for n in names)
    assert found.simplest == pytest.approx(most / sum(weights))


def test_weighted_scores_are_scikit_learns() -> None:
    wanted, answers, table, weights = drawn()
    rows = [LabelledText("", (n,), "", weight=w) for n, w in zip(wanted, weights, strict=True)]
    found = compute_scores("classification", rows, answers, dict.fromkeys(wanted, 40))
    check_classes(found, wanted, [str(answer.label) for answer in answers], table, weights)
    assert found.count == 120 and "each row counts by its weight" in found.details()
    low, high = found.interval
    even = compute_scores(
        "classification",
        [LabelledText("", (n,), "") for n in wanted],
        answers,
        dict.fromkeys(wanted, 40),
    )
    assert high - low > even.interval[1] - even.interval[0]  # weighted rows are worth fewer
    assert even.counted == () and all(isinstance(n, int) for n in even.confusion.values())


def test_shares_count_as_parts_of_rows() -> None:
    """The reference is a row for each class of a row, weighted by its share."""
    wanted, answers, table, weights = drawn()
    draw, names = random.Random(5), sorted({*wanted})
    rows, parts = [], []
    for name, weight in zip(wanted, weights, strict=True):
        other = draw.choice([n for n in names if n != name])
        shares: Shares = tuple(sorted([(name, 0.75), (other, 0.25)]))
        rows.append(LabelledText("", (name,), "", shares=shares, weight=weight))
        parts.append(shares)
    found = compute_scores("classification", rows, answers, dict.fromkeys(wanted, 40))
    index = [i for i, shares in enumerate(parts) for _ in shares]
    check_classes(
        found,
        [name for shares in parts for name, _ in shares],
        [str(answers[i].label) for i in index],
        [table[i] for i in index],
        [weights[i] * share for i, shares in enumerate(parts) for _, share in shares],
    )
    assert "a row with shares counts as parts of its classes" in found.details()


def test_several_labels_and_numbers_are_weighted_too() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    draw, names = random.Random(2), ("art", "war")
    weights = [draw.choice([0.5, 3.0]) for _ in range(60)]
    table = [[draw.random() for _ in names] for _ in weights]
    truth = [[draw.random() < 0.5 for _ in names] for _ in weights]
    rows = [
        LabelledText("", tuple(n for n, yes in zip(names, own, strict=True) if yes), "", weight=w)
        for own, w in zip(truth, weights, strict=True)
    ]
    answers = [Prediction.of(names, own, (0.5, 0.5)) for own in table]
    found = compute_scores("multi_label", rows, answers, dict.fromkeys(names, 30)).numbers
    given = [[p >= 0.5 for p in own] for own in table]
    micro = metrics.f1_score(truth, given, average="micro", sample_weight=weights)
    assert found["micro-F1"] == pytest.approx(micro)
    exact = metrics.accuracy_score(truth, given, sample_weight=weights)
    assert found["all labels right"] == pytest.approx(exact)
    numbers = [draw.gauss(0, 2) for _ in weights]
    values = [n + draw.gauss(0, 1) for n in numbers]
    rows = [
        LabelledText("", (repr(n),), "", weight=w) for n, w in zip(numbers, weights, strict=True)
    ]
    guesses = [Prediction.of(["0"], [value]) for value in values]
    scored = compute_scores("regression", rows, guesses, {})
    error = metrics.mean_absolute_error(numbers, values, sample_weight=weights)
    assert scored.numbers["mean error"] == pytest.approx(error)
    twice = [round(2 * w) for w in weights]
    long = [
        [n for n, k in zip(own, twice, strict=True) for _ in range(k)] for own in (numbers, values)
    ]
    for name, peer in (("Spearman", spearman), ("Pearson", pearson)):
        assert scored.numbers[name] == pytest.approx(peer(*long))
    assert median(numbers, weights) == pytest.approx(median(long[0], [1] * len(long[0])))


def test_a_row_that_is_half_of_each_class_is_no_mistake_and_not_doubtful() -> None:
    half: Shares = (("a", 0.5), ("b", 0.5))
    rows = [LabelledText(f"text {i}", ("ab"[i % 2],), f"t:{i}") for i in range(8)]
    rows += [LabelledText("both", ("a",), "t:8", shares=half)]
    sure = [[0.9, 0.1] if i % 2 == 0 else [0.1, 0.9] for i in range(8)] + [[0.05, 0.95]]
    answers = [Prediction.of(["a", "b"], own) for own in sure]
    scores = compute_scores("classification", rows, answers, {"a": 4, "b": 4})
    assert scores.mistakes == [] and scores.numbers["accuracy"] == pytest.approx(8.5 / 9)
    assert scores.confusion == {("a", "a"): 4, ("b", "b"): 4.5, ("a", "b"): 0.5}
    assert likely_wrong(rows, ["a", "b"], sure) == []
    least: Shares = (("a", 0.6), ("b", 0.4))
    rows[-1] = LabelledText("both", ("a",), "t:8", shares=least)
    assert [found.where for found in likely_wrong(rows, ["a", "b"], sure)] == ["t:8"]


# ---- reading ----


def table(**columns: Any) -> list[dict[str, Any]]:
    """Twenty-four texts, with values in turn in each column."""
    return [
        {"text": f"some words {i}", **{name: own[i % len(own)] for name, own in columns.items()}}
        for i in range(24)
    ]


def noted(found: Examples, words: str) -> bool:
    return any(words in note for note in found.notes)


def test_a_column_of_weights() -> None:
    rows = table(label=["a", "b"], trust=["1", 0, 2.5])
    found = read_examples(rows, weight="trust")
    assert [row.weight for row in found.train[:3]] == [1.0, 2.5, 1.0]
    assert noted(found, "8 rows with a weight of 0 left out, first table:2")
    assert "labels: label, weights: trust" in found.summary()
    small = read_examples(table(label=["a", "b"], trust=[0.1, 0.3]), weight="trust")
    assert [row.weight for row in small.train[:2]] == pytest.approx([0.5, 1.5])
    assert noted(small, "all weights are below 1: they are multiplied by 5, to a mean of 1")
    alone = read_examples(
        [{"text": r["text"], "kind": r["label"], "w": 1} for r in rows], weight="w"
    )
    assert alone.label == "kind"  # the only other column


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (-1, "table:3: trust is -1; a weight is a number, 0 or more"),
        (float("nan"), "table:3: trust is empty"),
        ("", "table:3: trust is empty"),
        (float("inf"), "table:3: trust is inf"),
        ("much", "table:3: trust is 'much'"),
        (
            1e300,
            "table:3: trust is 1e\\+300; a weight is at most 1e\\+12; divide all of them by one",
        ),
        ([1], r"table:3: trust is \[1\]"),
    ],
)
def test_what_is_no_weight(cell: Any, words: str) -> None:
    rows = table(label=["a", "b"], trust=[1])
    rows[2]["trust"] = cell
    with pytest.raises(InputError, match=words):
        read_examples(rows, weight="trust")


def test_raters_of_yes_and_no_are_told_how_they_are_learnt() -> None:
    """Read as votes unasked, a column of 0 and 1 for each label would be classes yes and no."""
    rows = table(ada=["yes", "no"], bob=["no", "no"])
    with pytest.raises(InputError, match="the task multi_label learns those; if each column is a"):
        read_examples(rows, label=["ada", "bob"], task="classification")
    rows = table(ada=["yes", "maybe"], bob=["maybe", "no"])
    with pytest.raises(InputError, match="task='classification' reads the cells as votes for cl"):
        read_examples(rows, label=["ada", "bob"])
    read = read_examples(rows, label=["ada", "bob"], task="classification")
    assert read.train[0].amounts == {"maybe": 0.5, "yes": 0.5}
    rows = table(toxic=["yes", "maybe"], threat=["yes", "no"])
    with pytest.raises(InputError, match=r"true or false, yes or no$"):  # one column: a slip
        read_examples(rows, label=["toxic", "threat"])


def test_lists_of_shares_want_names() -> None:
    rows = table(label=[[0.7, 0.3], [0, 1]])
    with pytest.raises(InputError, match=r"label is \[0.7, 0.3\]: shares without names; write"):
        read_examples(rows)
    assert read_examples(table(label=[["a", "b"], ["a"]])).task == "multi_label"


def test_columns_of_weights_that_cannot_be() -> None:
    rows = table(label=["a", "b"], trust=[0])
    with pytest.raises(InputError, match="trust is zero in every row; nothing to learn"):
        read_examples(rows, weight="trust")
    with pytest.raises(UnknownNameError, match="no column 'thrust'; did you mean trust"):
        read_examples(rows, weight="thrust")
    with pytest.raises(InputTypeError, match="weight is 2; give the name of a column"):
        read_examples(rows, weight=2)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="column 'trust' holds weights, and no text or label"):
        read_examples(rows, label="trust", weight="trust")
    spans = [{"text": f"Ada came {i} times.", "spans": [[0, 3, "PER"]], "w": 1} for i in range(12)]
    with pytest.raises(InputError, match="holds spans, and a tagger learns all rows alike"):
        roberta_hub.fit(spans, weight="w", progress=False)


def test_a_table_to_measure_on_may_have_weights() -> None:
    rows = table(label=["a", "b"], trust=[1, 2])
    valid = [{"text": f"other {i}", "label": "ab"[i % 2], "trust": i} for i in range(4)]
    found = read_examples(rows, valid=valid, weight="trust")
    assert [row.weight for row in found.valid] == [1, 2, 3]
    for row in valid:
        del row["trust"]
    found = read_examples(rows, valid=valid, weight="trust")
    assert [row.weight for row in found.valid] == [1] * 4
    assert noted(found, "valid has no column 'trust': its rows count the same")


def test_a_dict_of_shares() -> None:
    cells = [{"good": 0.7, "bad": 0.3}, {"good": 0, "bad": 1}, {"good": None, "bad": 1.0}]
    found = read_examples(table(label=cells))
    assert found.task == "classification" and found.classes == ("bad", "good")
    assert [row.labels for row in found.train[:2]] == [("good",), ("bad",)]
    assert found.train[0].shares == (("bad", pytest.approx(0.3)), ("good", pytest.approx(0.7)))
    assert found.train[1].shares == ()  # a class like any other
    assert noted(found, "label holds shares of classes: 8 rows of 24 with several")
    several = read_examples(table(label=cells), task="multi_label")
    assert several.task == "multi_label" and several.train[0].labels == ("good",)
    flags = [{"art": 1.0, "war": 0.0}, {"art": 0.0, "war": 1.0}]
    assert read_examples(table(label=flags)).task == "multi_label"  # spaCy's cats
    assert read_examples(table(label=flags), task="classification").classes == ("art", "war")
    mixed = [{"good": 0.7, "bad": 0.3}, "bad"]
    assert read_examples(table(label=mixed), task="classification").train[1].labels == ("bad",)
    with pytest.raises(InputError, match=r"table:2: label is .*; the shares of one class are from"):
        read_examples(table(label=[cells[0], {"good": 0.7}]), task="classification")
    with pytest.raises(InputError, match="table:1: label has 'good': 'much'"):
        read_examples(table(label=[{"good": "much"}]), task="classification")


def test_columns_of_shares_and_of_votes() -> None:
    rows = table(good=[0.7, "0.1", 1], bad=[0.3, 0.9, 0], ada=["no way", "fine", ""])
    found = read_examples(rows, label=["good", "bad"])
    assert found.task == "classification" and found.labels_from == ("good", "bad")
    assert [row.labels for row in found.train[:3]] == [("good",), ("bad",), ("good",)]
    rows[1]["bad"] = ""
    found = read_examples(rows, label=["good", "bad"])
    assert noted(found, "1 row without a label left out, first table:2")
    rows[1]["bad"] = 0.2
    with pytest.raises(InputError, match=r"good is 0.7; a column that is a label of its own"):
        read_examples(rows, label=["good", "bad"])
    with pytest.raises(InputError, match=r"table:2: good, bad is .*; the shares of one class"):
        read_examples(rows, label=["good", "bad"], task="classification")
    votes = table(ada=["pro", "contra"], bob=["pro", ""], eve=["contra", None])
    found = read_examples(votes, label=["ada", "bob", "eve"])
    assert found.train[0].shares == (
        ("contra", pytest.approx(1 / 3)),
        ("pro", pytest.approx(2 / 3)),
    )
    assert found.train[1].labels == ("contra",) and not found.train[1].shares
    assert noted(found, "ada, bob, eve holds votes for classes: 12 rows of 24 with several")
    stars = table(ada=[1, 5], bob=[2, 5])
    found = read_examples(stars, label=["ada", "bob"], task="classification")
    assert found.classes == ("1", "2", "5")


def test_numbers_of_raters_are_told_how_they_are_read_as_votes() -> None:
    stars = table(ada=[1, 2], bob=[2, 1], eve=["1", ""])
    with pytest.raises(InputError, match="is 2; a column that is a label of its own") as error:
        read_examples(stars, label=["ada", "bob"])
    assert str(error.value).endswith("task='classification' reads the numbers as votes for classes")
    assert "a rater, --task classification reads the numbers as votes" in error.value.in_shell()
    found = read_examples(stars, label=["ada", "bob"], task="classification")
    assert found.classes == ("1", "2") and found.train[0].shares == (("1", 0.5), ("2", 0.5))
    for cells in ({"toxic": [0, 1, 2], "threat": [0, 1]}, {"toxic": [0.5, 1], "threat": [1, 1.5]}):
        with pytest.raises(InputError, match="a label of its own") as error:
            read_examples(table(**cells), label=["toxic", "threat"])  # a slip, and no votes
        assert "classification" not in str(error.value)


def test_a_row_whose_shares_are_not_1_is_named() -> None:
    shares = [{"good": 0.7, "bad": 0.3}, {"good": 0.2, "bad": 0.8}]
    cells = [{"good": 0.7, "bad": 0.6} if i == 7 else shares[i % 2] for i in range(24)]
    found = read_examples(table(label=cells))
    assert found.task == "multi_label"
    assert noted(
        found,
        "most dicts of label add up to 1, as shares of one class do; 1 row not, first table:8, "
        "whose sum is 1.3",
    )
    graded = [{"art": 0.7, "war": 0.9}, {"art": 0.2, "war": 0.1}]
    assert not any("add up" in note for note in read_examples(table(label=graded)).notes)
    rows = table(good=[c["good"] for c in cells], bad=[c["bad"] for c in cells])
    with pytest.raises(InputError, match="names a row whose sum is not 1"):
        read_examples(rows, label=["good", "bad"])
    with pytest.raises(InputError, match=r"table:8: good, bad is .*; the shares of one class"):
        read_examples(rows, label=["good", "bad"], task="classification")


def test_a_class_that_only_shares_name_is_on_both_sides() -> None:
    rows = table(label=[{"a": 0.9, "b": 0.1}, {"a": 1.0}, {"c": 1.0}])
    for seed in range(5):
        found = read_examples(rows, valid=0.3, seed=seed)
        assert found.classes == ("a", "b", "c")


# ---- all of it ----


@pytest.mark.system
def test_a_fit_with_weights_says_so(base: Path, tmp_path: Path) -> None:
    rows = table(label=["pro", "contra"], trust=[1, 0.5])
    mine = roberta_hub.fit(
        rows, weight="trust", model=str(base), minutes=1, output=tmp_path / "mine", progress=False
    )
    card = " ".join((tmp_path / "mine/README.md").read_text().split())
    assert "weights: trust" in card and "each row counts by its weight" in card
    assert "weight='trust'" in card
    assert {row.weight for row in mine.fitted.rows} == {1.0, 0.5}
    assert mine.fitted.to_dict()["scores"]["counted"] == ("each row counts by its weight",)
    again = roberta_hub.load_model(tmp_path / "mine")
    assert again.classify("some words 3").scores == pytest.approx(
        mine.classify("some words 3").scores
    )


@pytest.mark.parametrize("kind", ["classification", "multi_label", "regression"])
def test_every_kind_learns_with_weights(kind: str) -> None:
    labels: dict[str, list[Any]] = {
        "classification": ["a", "b", "c"],
        "multi_label": [["a"], ["a", "b"], []],
        "regression": [0.5, 1.5, 3.25],
    }
    rows = table(label=labels[kind], trust=[1, 3])
    learnt = taught(plain(), read_examples(rows, weight="trust"), minutes=LITTLE)
    assert len(learnt.answers) == 24


def test_balance_counts_classes_after_the_weights() -> None:
    """A class of few rows with large weights is no rare one."""
    rows = table(label=["a", "a", "a", "b"], trust=[1, 1, 1, 3])
    roberta = plain()
    taught(roberta, read_examples(rows, weight="trust"), minutes=LITTLE, balance=True)
    plainly = plain()
    taught(plainly, read_examples(rows, weight="trust"), minutes=LITTLE)
    head = roberta.default_head
    one, other = (m.model.classification_heads[head].out_proj for m in (roberta, plainly))  # type: ignore[index, union-attr]
    assert_close(one.bias - one.bias.mean(), other.bias - other.bias.mean(), 1e-5)


@pytest.mark.parametrize("columns", [True, False])
def test_shares_in_percent_are_no_votes_and_no_labels(columns: bool) -> None:
    """Read as votes they would be classes named 80 and 20; as labels each row would have all."""
    cells = [{"good": 80 - i, "bad": 20 + i} for i in range(8)]
    cells[3]["bad"] = 5  # one slip makes them nothing else
    if columns:
        rows = [{"text": f"Film {i}", **cell} for i, cell in enumerate(cells)]
        given: dict[str, Any] = {"label": ["good", "bad"], "task": "classification"}
    else:
        rows = [{"text": f"Film {i}", "label": cell} for i, cell in enumerate(cells)]
        given = {"label": "label"}
    with pytest.raises(InputError, match="divide percent by 100"):
        read_examples(rows, text="text", **given)


def test_raters_that_write_numbers_are_no_percents() -> None:
    rows = [{"text": f"Film {i}", "Ada": 1, "Bob": 1 + i % 2} for i in range(8)]
    examples = read_examples(rows, text="text", label=["Ada", "Bob"], task="classification")
    assert examples.classes == ("1", "2")


def test_a_name_among_shares_is_a_whole_row_of_its_class() -> None:
    """It was one of several labels, of which a note said that no row has it."""
    graded: list[Any] = [{"good": 0.1, "bad": 0.9}, "good", "bad", {"good": 0.7, "bad": 0.3}]
    rows = [{"text": f"Film {i}", "label": graded[i % 4]} for i in range(12)]
    examples = read_examples(rows, text="text", label="label")
    assert (examples.task, examples.classes) == ("classification", ("bad", "good"))
    assert [row.labels for row in examples.train[:4]] == [("bad",), ("good",), ("bad",), ("good",)]
    assert not any("no row" in note for note in examples.notes)


def test_thirds_of_two_digits_are_shares() -> None:
    rows = [{"text": f"Film {i}", "label": dict.fromkeys("abc", 0.33)} for i in range(8)]
    assert read_examples(rows, text="text", label="label").classes == ("a", "b", "c")


@pytest.mark.parametrize("weight", [-3, 0])
def test_a_weight_for_all_texts_is_above_zero(weight: float) -> None:
    with pytest.raises(InputError, match="give a number above 0"):
        read_weights(weight, 4)
