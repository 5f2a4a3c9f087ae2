"""The metrics are scikit-learn's, scipy's and SQuAD's scripts', on degenerate tables too.

The numbers of tests/data/squad_scores.json are recorded: for SQuAD 1.1 what the functions of its
evaluate-v1.1.py give, for 2.0 those of evaluate-v2.0.py as transformers 4.57.6 had them in
data/metrics/squad_metrics.py.
"""

from __future__ import annotations

import json
import math
import random
import warnings
from pathlib import Path

import pytest
import torch

from roberta_hub.measures import classes, numbers
from roberta_hub.measures.calibration import log_loss
from roberta_hub.measures.squad import squad_score
from roberta_hub.train.fitting.evaluation import compute_scores
from roberta_hub.train.tasks.tokens import entity_scores

pytestmark = pytest.mark.parity
sklearn = pytest.importorskip("sklearn.metrics")
stats = pytest.importorskip("scipy.stats")


def tables() -> list[tuple[list[int], list[int]]]:
    """(answered, wanted): one row, one class, constant ones, others, and some without an answer."""
    draw = random.Random(5)
    found = [([0], [0]), ([1], [1]), ([0], [1]), ([1], [0]), ([0] * 11, [0] * 10 + [1])]
    found += [([1] * 11, [0] * 10 + [1]), ([0] * 10 + [1], [0] * 11), ([2, 2, 2], [2, 2, 2])]
    for _ in range(300):
        classes, rows = draw.randint(1, 5), draw.randint(1, 9)
        columns = []
        for low in (draw.choice([0, 0, 0, -1]), 0):
            constant = draw.random() < 0.2
            column = [draw.randrange(low, classes) for _ in range(rows)]
            columns.append([max(column[0], low)] * rows if constant else column)
        found.append((columns[0], columns[1]))
    return found


@pytest.mark.parametrize("answered, wanted", tables())
def test_classification_is_scikit_learns(answered, wanted):
    ours, theirs = torch.tensor(answered), torch.tensor(wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one class alone
        assert classes.matthews(ours, theirs) == pytest.approx(
            sklearn.matthews_corrcoef(wanted, answered), abs=1e-12
        )
    assert classes.accuracy(ours, theirs) == sklearn.accuracy_score(wanted, answered)
    assert classes.macro_f1(ours, theirs) == pytest.approx(
        sklearn.f1_score(wanted, answered, average="macro", zero_division=0)
    )
    if max(*answered, *wanted) < 2 and min(answered) > -1:
        assert classes.f1_of(ours, theirs) == pytest.approx(
            sklearn.f1_score(wanted, answered, zero_division=0)
        )


@pytest.mark.parametrize("seed", range(40))
def test_several_labels_are_scikit_learns(seed):
    draw = random.Random(seed)
    rows, labels = draw.choice([(1, 1), (1, 3), (4, 1), (5, 3)])
    share = draw.choice([0.0, 0.3, 1.0])
    wanted = torch.tensor([[int(draw.random() < 0.4) for _ in range(labels)] for _ in range(rows)])
    logits = torch.tensor(
        [[draw.uniform(-1, 1) if draw.random() > share else 0.0 for _ in range(labels)]] * rows
    )
    answered = classes.over_half(logits)
    assert answered.tolist() == [[int(p >= 0.5) for p in row] for row in logits.sigmoid().tolist()]
    there, given = wanted.numpy(), answered.numpy()
    assert classes.f1_of(answered, wanted) == pytest.approx(
        sklearn.f1_score(there.ravel(), given.ravel(), zero_division=0)
    )
    assert classes.accuracy(answered, wanted) == pytest.approx(
        1 - sklearn.hamming_loss(there.ravel(), given.ravel())
    )


@pytest.mark.parametrize("seed", range(60))
def test_correlations_are_scipys(seed):
    draw = random.Random(seed)
    rows = draw.choice([2, 2, 3, 8, 40])
    scale, middle = draw.choice([(1, 0), (1e-5, 0), (1e-3, 1000.0), (1e6, -3)])
    values = [0.0, 1.0, 2.0, 0.3]
    a, b = ([scale * draw.choice(values) + middle for _ in range(rows)] for _ in "ab")
    if draw.random() < 0.2:
        a = a[:1] * rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of constant columns
        pearson, spearman = stats.pearsonr(a, b).statistic, stats.spearmanr(a, b).statistic
    found = numbers.correlations(*(torch.tensor(c, dtype=torch.double) for c in (a, b)))
    assert found["pearson"] == pytest.approx(pearson, abs=1e-9, nan_ok=True)
    assert found["spearman"] == pytest.approx(spearman, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, math.nan, 2.0], [1.0, math.inf, 2.0]])
def test_no_correlation_is_nan_and_no_number(values):
    found = numbers.correlations(torch.tensor(values), torch.arange(len(values)).double())
    assert math.isnan(found["pearson"]) and math.isnan(found["spearman"])


def test_a_model_that_gives_nan_has_no_answer():
    logits = torch.tensor([[math.nan, math.nan], [2.0, 1.0]])
    answered = classes.likeliest(logits)
    assert classes.accuracy(answered, torch.tensor([0, 0])) == 0.5
    assert classes.accuracy(classes.over_half(logits), torch.tensor([[0, 0], [1, 1]])) == 0.5


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("always", ["a", "b", None])
def test_fits_numbers_are_scikit_learns(count, always):
    """Of one row, of answers that are always one, and of a class that is never wanted."""
    from roberta_hub.inference.classify import Prediction
    from roberta_hub.train.data.sentences import LabelledText

    draw = random.Random(count)
    wanted = [draw.choice(["a", "a", "c"]) for _ in range(count)]
    rows = [LabelledText(f"text {i}", (label,), str(i)) for i, label in enumerate(wanted)]
    answers = []
    for label in wanted:
        top = always or draw.choice(["a", "b", "c", label])
        answers.append(Prediction.of(list("abc"), [0.6 if n == top else 0.2 for n in "abc"]))
    found = compute_scores("classification", rows, answers, {"a": 4, "b": 1, "c": 1}).numbers
    given = [answer.label for answer in answers]
    assert found["accuracy"] == pytest.approx(sklearn.accuracy_score(wanted, given))
    assert found["macro-F1"] == pytest.approx(
        sklearn.f1_score(wanted, given, average="macro", zero_division=0)
    )
    each = [[answer.scores[name] for name in "abc"] for answer in answers]
    assert found["log loss"] == pytest.approx(sklearn.log_loss(wanted, each, labels=list("abc")))


def test_a_probability_of_0_costs_as_scikit_learns():
    """Which clips at the smallest step of a float64, and we at 1e-15."""
    theirs = sklearn.log_loss(["a", "b"], [[0.0, 1.0], [0.0, 1.0]], labels=["a", "b"])
    assert log_loss([0.0, 1.0]) == pytest.approx(theirs, rel=0.05)


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ([["O"]], [["O"]]),
        ([["B-PER"]], [["O"]]),
        ([["O"]], [["B-PER"]]),
        ([["B-PER"]], [["B-PER"]]),
        ([["O", "O"], ["O"]], [["O", "O"], ["O"]]),
        ([["B-PER", "I-PER"]], [["I-PER", "I-PER"]]),
        ([["B-PER", "B-PER"]], [["B-PER", "I-PER"]]),
        ([["B-PER", "I-LOC"]], [["B-PER", "I-PER"]]),
        ([["B-PER"] * 4], [["B-LOC"] * 4]),
    ],
)
def test_spans_are_seqevals(wanted, given):
    peer = pytest.importorskip("seqeval.metrics")
    scores = (peer.precision_score, peer.recall_score, peer.f1_score)
    assert tuple(entity_scores(wanted, given).values()) == pytest.approx(
        tuple(score(wanted, given, zero_division=0) for score in scores)
    )


# ---- SQuAD ----

SQUAD_2 = [  # (answered, right answers, exact, F1) as evaluate-v2.0.py counts
    ("", [], 1, 1),
    ("the", [], 1, 1),
    ("...", [], 1, 1),
    ("cat", [], 0, 0),
    ("", ["cat"], 0, 0),
    ("a", ["the"], 1, 1),
    ("", ["the"], 1, 1),
    ("cat", ["the"], 0, 0),
    ("the", ["the", "cat"], 0, 0),  # of several, those without a word are left out
    ("The Cat!", ["cat", "dog"], 1, 1),
    ("big cat", ["the cat"], 0, 2 / 3),
    ("cat cat", ["cat"], 0, 2 / 3),
]
SQUAD_1 = [  # as evaluate-v1.1.py counts
    ("the", ["a"], 1, 0),
    ("the", ["the", "cat"], 1, 0),
    ("", ["cat"], 0, 0),
    ("The Cat!", ["cat", "dog"], 1, 1),
    ("big cat", ["the cat"], 0, 2 / 3),
]


@pytest.mark.parametrize(
    ("unanswerable", "row"), [(True, r) for r in SQUAD_2] + [(False, r) for r in SQUAD_1]
)
def test_squads_scripts(unanswerable, row):
    answered, answers, exact, f1 = row
    found = squad_score(answered, answers, unanswerable=unanswerable)
    assert found == pytest.approx((exact, f1))


RECORDED = json.loads(
    (Path(__file__).parents[1] / "data" / "squad_scores.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("version", ["squad 1.1", "squad 2.0"])
def test_squads_scripts_on_random_answers(version):
    """Of articles, punctuation, capitals, scripts and blanks of every kind."""
    rows = [row for row in RECORDED if row[version] is not None]
    assert len(rows) > 150
    for row in rows:
        found = squad_score(row["said"], row["answers"], unanswerable=version == "squad 2.0")
        assert found == pytest.approx(tuple(row[version])), row
    numbers = [tuple(row[version]) for row in rows]
    assert {(0, 0), (1, 1)} < set(numbers)
