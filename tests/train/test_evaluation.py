"""Scores are scikit-learn's, their intervals hold what they say, and the words follow from both."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from roberta_hub.inference.classify import Prediction
from roberta_hub.measures.intervals import (
    bootstrap_interval,
    paired_difference_interval,
    share_interval,
)
from roberta_hub.measures.numbers import spearman
from roberta_hub.train.data.sentences import LabelledText
from roberta_hub.train.fitting.evaluation import compute_scores
from roberta_hub.train.fitting.fitted import judged_rows
from roberta_hub.train.fitting.scores import Recall, Scores

NAMES = ("complaint", "ok", "praise")


def classes(wanted: Sequence[str], answered: Sequence[str], sure: float = 0.9) -> Any:
    """Rows and answers of a classification; each answer has the probability `sure`."""
    names = sorted({*wanted, *answered})
    rest = (1 - sure) / max(len(names) - 1, 1)
    rows = [LabelledText(f"text {i}", (name,), f"table:{i + 1}") for i, name in enumerate(wanted)]
    answers = [
        Prediction.of(names, [sure if name == given else rest for name in names])
        for given in answered
    ]
    return rows, answers


def judged(wanted: Sequence[str], answered: Sequence[str], **options: Any) -> Scores:
    learnt = options.pop("learnt", {name: list(wanted).count(name) for name in set(wanted)})
    return compute_scores("classification", *classes(wanted, answered), learnt, **options)


def test_the_numbers_are_scikit_learns() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    draw = random.Random(3)
    wanted = [draw.choice(NAMES) for _ in range(200)]
    rows = [LabelledText("", (name,), "") for name in wanted]
    draws = torch.rand(200, 3, generator=torch.Generator().manual_seed(1))
    table = draws.double().softmax(-1).tolist()
    answers = [Prediction.of(NAMES, own) for own in table]
    found = compute_scores("classification", rows, answers, dict.fromkeys(NAMES, 60)).numbers
    given = [answer.label for answer in answers]
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(wanted, given))
    assert found["macro-F1"] == pytest.approx(metrics.f1_score(wanted, given, average="macro"))
    assert found["log loss"] == pytest.approx(metrics.log_loss(wanted, table, labels=NAMES))


def test_micro_f1_is_scikit_learns() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    draw = torch.Generator().manual_seed(2)
    wanted = torch.rand(80, 3, generator=draw) > 0.6
    scores = torch.rand(80, 3, generator=draw)
    rows = [
        LabelledText("", tuple(n for n, own in zip(NAMES, row, strict=True) if own), "")
        for row in wanted.tolist()
    ]
    answers = [Prediction.of(NAMES, row, [0.5] * 3) for row in scores.tolist()]
    found = compute_scores("multi_label", rows, answers, dict.fromkeys(NAMES, 60))
    score = metrics.f1_score(wanted, scores >= 0.5, average="micro")
    assert found.numbers["micro-F1"] == pytest.approx(score)
    assert found.interval[0] < score < found.interval[1]
    exact = (wanted == (scores >= 0.5)).all(1).double().mean().item()
    assert found.numbers["all labels right"] == pytest.approx(exact)


def test_spearman_is_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = random.Random(1)
    one = [draw.randrange(5) for _ in range(60)]
    other = [value + draw.randrange(4) for value in one]
    assert spearman(one, other) == pytest.approx(stats.spearmanr(one, other).statistic)
    assert spearman([1, 1], [1, 2]) is None


def test_calibration_is_the_mean_distance_of_ten_bins() -> None:
    found = judged(["ok"] * 10, ["ok"] * 6 + ["complaint"] * 4)
    assert found.numbers["ECE"] == pytest.approx(0.3)
    (only,) = found.bins
    assert (only.count, only.score, only.right) == (10, pytest.approx(0.9), 0.6)
    assert (only.low, only.high) == (0.9, 1.0)


# ---- intervals ----


def test_wilsons_interval_is_the_published_one() -> None:
    """Newcombe (1998), table I: 81 of 263, and 15 of 148."""
    assert share_interval(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=5e-4)
    assert share_interval(15 / 148, 148) == pytest.approx((0.0624, 0.1605), abs=5e-4)


def covered(draw: random.Random, count: int, both: float, only: float, other: float) -> bool:
    """Whether the interval of a difference holds it, on rows drawn with these shares."""
    better = worse = 0
    for _ in range(count):
        place = draw.random()
        better += both <= place < both + only
        worse += both + only <= place < both + only + other
    low, high = paired_difference_interval(better, worse, count)
    return low <= only - other <= high


@pytest.mark.parametrize(("only", "other"), [(0.3, 0.1), (0.05, 0.05), (0.4, 0.02)])
@pytest.mark.parametrize("count", [20, 200])
def test_the_interval_of_a_difference_holds_it(only: float, other: float, count: int) -> None:
    draw = random.Random(5)
    hits = sum(covered(draw, count, 0.4, only, other) for _ in range(1000))
    assert hits >= 930


def test_a_bootstrap_is_near_the_normal_interval_and_repeats() -> None:
    values = torch.randn(400, 1, generator=torch.Generator().manual_seed(1))
    state = torch.get_rng_state()
    low, high = bootstrap_interval(values, lambda means: means[:, 0])
    wide = 1.96 * float(values.std()) / 20
    assert low == pytest.approx(float(values.mean()) - wide, abs=0.02)
    assert high == pytest.approx(float(values.mean()) + wide, abs=0.02)
    assert bootstrap_interval(values, lambda means: means[:, 0]) == (low, high)
    assert torch.equal(torch.get_rng_state(), state)


# ---- words ----


def test_what_is_no_better_than_the_simplest_guess_is_said() -> None:
    wanted = ["ok"] * 80 + ["complaint"] * 20
    found = judged(wanted, ["ok"] * 100)
    assert found.conclusions[0] == "not better than always 'ok'"
    assert found.simplest == found.numbers["accuracy"] == 0.8
    assert judged(wanted, wanted).conclusions == ("better than always 'ok'",)


def test_a_gain_that_luck_gives_is_none() -> None:
    """100 rows, 4 more right than the guess and 3 less."""
    wanted = ["ok"] * 80 + ["complaint"] * 20
    answered = ["complaint"] * 3 + ["ok"] * 77 + ["complaint"] * 4 + ["ok"] * 16
    assert judged(wanted, answered).conclusions[0] == "not better than always 'ok'"


def test_few_rows_say_little() -> None:
    wanted = ["ok"] * 3 + ["complaint"] * 2
    found = judged(wanted, ["ok"] * 3 + ["complaint", "ok"])
    assert found.conclusions[0] == "too few rows to say whether it is better than always 'ok'"
    low, high = found.interval
    assert high - low > 0.5


def test_a_class_that_was_never_found_is_named() -> None:
    wanted = ["ok"] * 40 + ["complaint"] * 3
    found = judged(wanted, ["ok"] * 43)
    assert found.conclusions == (
        "not better than always 'ok'",
        "no complaint was found (0 of 3)",
        "complaint is rare and seldom found (0 of 3)",
    )
    assert "balance=True" in found.summary() and "--balance" in found.in_shell()
    assert "--balance" not in found.summary()
    many = [f"kind {i}" for i in range(8)]
    lost = judged(many + ["ok"] * 8, ["ok"] * 16).conclusions
    assert lost[1:4] == tuple(f"no kind {i} was found (0 of 1)" for i in range(3))
    assert lost[4] == "nor was any of 5 other classes"


def test_a_rare_class_has_its_recall_and_the_remedy() -> None:
    wanted = ["ok"] * 60 + ["complaint"] * 20
    answered = ["ok"] * 60 + ["complaint"] * 5 + ["ok"] * 15
    found = judged(wanted, answered)
    assert found.recalls == {"complaint": Recall(5, 20), "ok": Recall(60, 60)}
    assert found.remedy is not None and found.recalls["complaint"].share == 0.25
    assert "   0.25  complaint (5 of 20)" in found.summary().splitlines()
    balanced = judged(wanted, answered, balanced=True)
    assert balanced.remedy is None and balanced.recalls == found.recalls
    even = judged(wanted, answered, learnt={"ok": 50, "complaint": 20})
    assert even.recalls == {} and even.remedy is None


def test_the_choice_among_ways_takes_its_luck_off() -> None:
    wanted = ["ok"] * 50 + ["complaint"] * 50
    answered = ["ok"] * 60 + ["complaint"] * 40
    plain, corrected = judged(wanted, answered), judged(wanted, answered, optimism=0.02)
    assert corrected.numbers["accuracy"] == pytest.approx(plain.numbers["accuracy"] - 0.02)
    assert corrected.interval[0] < plain.interval[0]
    measured = 100 * plain.numbers["accuracy"]
    said = f"accuracy is {measured:.1f} % as measured, less 2.0 points because the same rows chose"
    assert said in corrected.details()
    assert "as measured" not in plain.summary()


def test_luck_takes_off_no_more_than_there_is() -> None:
    found = judged(["a", "b", "c", "d"], ["a", "a", "a", "a"], optimism=0.257)
    assert found.numbers["accuracy"] == 0.0 and found.interval[0] == 0.0
    assert "accuracy is 25.0 % as measured, less 25.0 points" in found.details()
    rows = [LabelledText("", ("a",), "1"), LabelledText("", ("b",), "2")]
    answers = [Prediction.of(["a", "b"], own, (0.5, 0.5)) for own in ([0.9, 0.1], [0.9, 0.1])]
    several = compute_scores("multi_label", rows, answers, {"a": 1, "b": 1}, optimism=0.9)
    assert several.numbers["micro-F1"] == 0.0 and several.interval[0] == 0.0


def test_cross_validated_scores_are_called_so() -> None:
    headline = judged(["ok", "bad"] * 20, ["ok", "bad"] * 20, how="cross-validated").headline()
    assert headline == (
        "accuracy 100.0 % cross-validated on 40 rows (95 %: 91 to 100); always 'bad': 50.0 %"
    )


def numbers(wanted: Sequence[float], answered: Sequence[float]) -> Scores:
    rows = [LabelledText(f"text {i}", (repr(v),), f"table:{i}") for i, v in enumerate(wanted)]
    answers = [Prediction.of(["0"], [value]) for value in answered]
    return compute_scores("regression", rows, answers, {repr(v): 1 for v in wanted})


def test_a_regression_is_beside_the_median() -> None:
    draw = random.Random(1)
    wanted = [draw.gauss(10, 3) for _ in range(100)]
    near = numbers(wanted, [value + draw.gauss(0, 1) for value in wanted])
    assert near.conclusions == (f"better than {near.guess}",)
    assert near.interval[0] < near.numbers["mean error"] < near.interval[1] < near.simplest
    blind = numbers(wanted, [sum(wanted) / len(wanted)] * 100)
    assert blind.conclusions == (f"not better than {blind.guess}",)
    assert set(blind.numbers) == {"mean error"}  # a constant has no correlation
    skewed = [1.0] * 60 + [100.0] * 40  # whose mean is 40.6
    constant = numbers(skewed, [1.0] * 100)
    assert constant.guess == "always the median, 1"
    assert constant.simplest == constant.numbers["mean error"] == pytest.approx(39.6)
    assert constant.conclusions == ("not better than always the median, 1",)


def test_a_constant_multi_label_answer_is_no_better_than_its_label() -> None:
    rows = [LabelledText(f"{i}", ("a",) if i % 4 else ("b", "c"), "") for i in range(60)]
    answers = [Prediction.of(["a", "b", "c"], [0.9, 0.2, 0.1], [0.5] * 3)] * 60
    found = compute_scores("multi_label", rows, answers, {"a": 45, "b": 15, "c": 15})
    assert found.guess == "always 'a'" and found.numbers["micro-F1"] == found.simplest
    assert found.conclusions == (
        "not better than always 'a'",
        "no b was found (0 of 15)",
        "no c was found (0 of 15)",
    )


def several(rows: Sequence[Sequence[str]], answered: Sequence[Sequence[str]]) -> Scores:
    """Rows of several labels of "abcdef", and answers that give some of them."""
    texts = [LabelledText(f"{i}", tuple(own), "") for i, own in enumerate(rows)]
    answers = [
        Prediction.of("abcdef", [0.9 if name in own else 0.1 for name in "abcdef"], [0.5] * 6)
        for own in answered
    ]
    learnt = {name: sum(name in own for own in rows) for name in "abcdef"}
    return compute_scores("multi_label", texts, answers, learnt)


def test_the_baseline_of_several_labels_is_the_best_constant_set() -> None:
    """Every set of labels is tried, and none reaches more than the one that is named."""
    draw = random.Random(6)
    for likely in ((0.9, 0.5, 0.5, 0.3, 0.1, 0.0), (0.2,) * 6, (0.6, 0.6, 0.05, 0.05, 0.05, 0.05)):
        rows = [
            [name for name, p in zip("abcdef", likely, strict=True) if draw.random() < p]
            for _ in range(40)
        ]
        found = several(rows, rows)
        reached = {
            subset: several(rows, [subset] * 40).numbers["micro-F1"]
            for size in range(1, 7)
            for subset in itertools.combinations("abcdef", size)
        }
        assert found.simplest == pytest.approx(max(reached.values()))
        best = max(reached, key=lambda subset: reached[subset])
        if len(best) <= 4:
            assert sorted(re.findall("'(.)'", found.guess)) == sorted(best)


def test_labels_drawn_by_chance_are_not_better_than_the_best_constant_set() -> None:
    better = 0
    for seed in range(40):
        draw = random.Random(seed)
        rows, answered = (
            [[name for name in "abc" if draw.random() < 0.6] for _ in range(120)] for _ in (0, 1)
        )
        found = several(rows, answered)
        assert re.match(r"always '[abc]', '[abc]' and '[abc]'$", found.guess)
        better += found.conclusions[0].startswith("better")
    assert not better
    assert several(rows, rows).conclusions[0] == f"better than {found.guess}"


def test_a_long_constant_set_is_written_short() -> None:
    rows = [list("abcdef")] * 30
    assert several(rows, rows).guess == "always 'a', 'b', 'c', 'd' and 2 other labels"


def test_each_judged_row_is_kept_with_its_answer() -> None:
    rows, answers = classes(["ok", "complaint"], ["ok", "ok"])
    first, second = judged_rows("classification", rows, answers)
    assert (first.wanted, first.answered, first.probability) == ("ok", "ok", 0.9)
    assert (second.wanted, second.answered, second.where) == ("complaint", "ok", "table:2")
    (row,) = judged_rows(
        "multi_label",
        [LabelledText("x", ("b", "a"), "")],
        [Prediction.of(["a", "b", "c"], [0.7, 0.2, 0.3], [0.5, 0.5, 0.3])],
    )
    assert (row.wanted, row.answered, row.probability) == (("b", "a"), ("a", "c"), None)


def test_summaries_fit_a_terminal() -> None:
    draw = random.Random(1)
    long = [f"a class with a rather long name {i}" for i in range(12)]
    wanted = [draw.choice(long) for _ in range(300)]
    answered = [draw.choice(long) for _ in range(300)]
    for found in (judged(wanted, answered), judged(wanted, answered, how="cross-validated")):
        assert max(map(len, found.summary().splitlines())) <= 80
