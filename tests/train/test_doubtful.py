"""Wrong labels that were put in are found first, and what nobody could know is not doubted."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import roberta_hub
from roberta_hub.errors import InputError
from roberta_hub.inference.classify import Prediction
from roberta_hub.train.data.sentences import LabelledText
from roberta_hub.train.fitting.doubtful import doubtful_answers, likely_wrong

NAMES = ["art", "sport", "war"]


def made(count: int = 90, wrong: int = 9) -> tuple[list[LabelledText], torch.Tensor, set[str]]:
    """Rows of three classes of which every tenth has the next class's label, and probabilities."""
    right = torch.arange(count) % 3
    label = right.clone()
    label[: wrong * 10 : 10] = (right[: wrong * 10 : 10] + 1) % 3
    noise = torch.rand(count, 3, generator=torch.Generator().manual_seed(0))
    values = (noise + 2.5 * torch.nn.functional.one_hot(right, 3)).softmax(1)
    rows = [LabelledText(f"text {i}", (NAMES[k],), f"t:{i}") for i, k in enumerate(label.tolist())]
    return rows, values, {f"t:{i}" for i in range(0, wrong * 10, 10)}


def test_wrong_labels_are_found_first() -> None:
    rows, values, wrong = made()
    found = likely_wrong(rows, NAMES, values)
    assert {doubtful.where for doubtful in found} <= wrong and len(found) >= 5
    scores = [doubtful.score for doubtful in found]
    assert scores == sorted(scores, reverse=True) and min(scores) > 0.5
    first = found[0]
    place = int(first.where[2:])
    assert (first.given, first.suggested) == (rows[place].labels[0], NAMES[place % 3])
    assert first.probability == pytest.approx(float(values[place].max()), abs=1e-6)


def test_answers_of_the_interface() -> None:
    rows, values, _ = made()
    answers = [Prediction.of(NAMES, row) for row in values.tolist()]
    assert list(doubtful_answers("classification", rows, answers)) == likely_wrong(
        rows, NAMES, values
    )
    assert doubtful_answers("regression", rows, answers) == ()
    assert doubtful_answers("classification", [], []) == ()


def test_labels_that_nobody_could_know_are_not_doubted() -> None:
    """A class of one row is never learnt when that row is answered."""
    rows, values, wrong = made()
    rows[3] = LabelledText("text 3", ("rare",), "t:3")
    rows[4] = LabelledText("text 4", ("unheard",), "t:4")
    values = torch.cat([values, torch.zeros(90, 1)], 1)
    found = {doubtful.where for doubtful in likely_wrong(rows, [*NAMES, "rare"], values)}
    assert found and found <= wrong


def test_several_labels_are_judged_one_by_one() -> None:
    rows = [LabelledText(f"text {i}", ("a",) if i % 2 else ("a", "b"), f"t:{i}") for i in range(20)]
    values = [[0.9, 0.1] if i % 2 else [0.9, 0.9] for i in range(20)]
    values[3], values[6] = [0.9, 0.95], [0.9, 0.02]
    found = likely_wrong(rows, ["a", "b"], values, several=True)
    assert [(d.where, d.given, d.suggested) for d in found] == [
        ("t:6", "b", "not b"),
        ("t:3", "not b", "b"),
    ]
    assert found[0].score == pytest.approx(0.98)


def test_probabilities_of_another_shape() -> None:
    rows, values, _ = made()
    with pytest.raises(InputError, match=r"are of shape \(90, 3\); 90 rows and 2 labels"):
        likely_wrong(rows, NAMES[:2], values)


@settings(deadline=None)
@given(st.data(), st.integers(0, 12), st.integers(1, 4), st.booleans())
def test_any_numbers(data: st.DataObject, count: int, classes: int, several: bool) -> None:
    names = NAMES[:classes]
    labels = [data.draw(st.sets(st.sampled_from(NAMES), max_size=2)) for _ in range(count)]
    numbers = st.lists(st.floats(0, 1), min_size=len(names), max_size=len(names))
    values = torch.tensor([data.draw(numbers) for _ in range(count)]).reshape(count, len(names))
    rows = [LabelledText(f"text {i}", tuple(own), f"t:{i}") for i, own in enumerate(labels)]
    for doubtful in likely_wrong(rows, names, values, several=several):
        assert 0.5 <= doubtful.score <= 1 and doubtful.given != doubtful.suggested


@pytest.mark.system
@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("valid", [None, 0.25])
def test_fit_finds_wrong_labels(valid: float | None) -> None:
    """Regression on the vectors of roberta.tiny alone fits into so few minutes."""
    words = {"fine": "good", "great": "good", "dull": "bad", "empty": "bad"}
    rows = [{"text": f"A {w} film {i}.", "label": words[w]} for i, w in enumerate([*words] * 20)]
    wrong = {5, 30, 51, 76}
    for i in wrong:
        rows[i]["label"] = {"good": "bad", "bad": "good"}[rows[i]["label"]]
    mine = roberta_hub.fit(rows, valid=valid, minutes=0.01, progress=False)
    found = [int(doubtful.where.partition(":")[2]) - 1 for doubtful in mine.fitted.doubtful]
    assert len(found) == len(set(found)) and len(wrong & set(found)) >= 3  # in any of its rows
    first = mine.fitted.doubtful[0]
    assert first.given == rows[found[0]]["label"] != first.suggested


def test_rows_that_weigh_less_are_judged_by_the_others() -> None:
    """A machine's mistake is the same in all of its rows, which teach it; people's rows do not."""
    people = {"fine": "good", "great": "good", "dull": "bad", "empty": "bad"}
    machine = people | {"dull": "good"}
    rows = [
        {"text": f"A {word} film {n}.", "label": of[word], "weight": weight}
        for of, weight, numbers in ((people, 1, range(6)), (machine, 0.2, range(6, 36)))
        for n in numbers
        for word in people
    ]
    heavy = len(people) * 6
    wrong = {i for i, row in enumerate(rows) if i >= heavy and " dull " in row["text"]}
    mine = roberta_hub.fit(rows, weight="weight", minutes=0.01, progress=False)
    found = {int(doubtful.where.partition(":")[2]) - 1 for doubtful in mine.fitted.doubtful}
    assert found <= wrong and len(found) >= len(wrong) / 3


def test_what_heavier_rows_contradict_is_listed() -> None:
    """Few heavier rows are seldom sure: of a light row each other answer counts, of others not."""
    rows = [LabelledText(f"text {i}", ("ab"[i % 2],), f"t:{i}") for i in range(8)]
    values = [[0.9, 0.1] if i % 2 == 0 else [0.1, 0.9] for i in range(8)]
    values[2] = values[4] = [0.45, 0.55]
    assert likely_wrong(rows, ["a", "b"], values) == []
    light = [i in (3, 4) for i in range(8)]
    (found,) = likely_wrong(rows, ["a", "b"], values, by_heavier=light)
    assert (found.where, found.given, found.suggested) == ("t:4", "a", "b")
    assert found.by_heavier and found.said() == "a, by the heavier rows b (0.55)"


def test_few_heavier_rows_judge_nobody() -> None:
    """Two heavy rows would call every mistake of theirs a wrong label of the others."""
    words = {"fine": "good", "great": "good", "dull": "bad", "empty": "bad"}
    rows = [
        {"text": f"A {word} film {n}.", "label": label, "weight": 1 if n or word != "fine" else 9}
        for n in range(10)
        for word, label in words.items()
    ]
    rows[2]["weight"] = 9
    mine = roberta_hub.fit(rows, weight="weight", minutes=0.01, progress=False)
    assert mine.fitted.doubtful == ()
