"""A table is learnt: the head it begins with, what is stored with it, and which rows judge."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest
import torch
from small_models import assert_close
from table_lessons import (
    nothing,
    pairs,
    plain,
    sentences,
    taught,
    with_own_head,
)
from torch import Tensor

from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError
from roberta_hub.train.fitting import learning
from roberta_hub.train.fitting.examples import Examples, read_examples
from roberta_hub.train.fitting.learning import METHOD_ONCE, reusable_head
from roberta_hub.train.fitting.method_selection import (
    METHOD_AS_IS,
    METHOD_HEAD,
    METHOD_OWN,
    METHOD_WHOLE,
)
from roberta_hub.train.loop.updates import updates
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.finetuning import FineTuning

MNLI = ("Neutral", "ENTAILMENT", "contradiction")
"""As tables write them: in another order, and not as the model does."""
LITTLE = 1e-9
"""Minutes in which nothing is trained but a regression."""


def ruin(task: FineTuning, config: Config) -> None:
    """A training that makes the model worse, whatever it knew."""
    head = task.roberta.classification_heads[config.task.head]
    with torch.no_grad():
        for parameter in (*task.roberta.transformer.parameters(), *head.parameters()):
            parameter.mul_(-0.5)


def weights(roberta: RobertaHubInterface) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in roberta.model.state_dict().items()}


def output(roberta: RobertaHubInterface) -> Any:
    return roberta.model.classification_heads[roberta.default_head].out_proj  # type: ignore[index, union-attr]


def own_rows(roberta: RobertaHubInterface, count: int) -> list[dict[str, Any]]:
    """Pairs with the labels that the model's own head gives, in a table's spelling."""
    spelt = {name.casefold(): name for name in MNLI}
    rows = pairs(count, MNLI)
    found = roberta.classify([(row["premise"], row["hypothesis"]) for row in rows], head="mnli")
    given = [spelt[one.label] for one in found]
    for row, label, i in zip(rows, given, range(count), strict=True):
        row["label"] = MNLI[i % 3] if i < 9 else label  # each class is there
    return rows


# ---- the model's own head ----


def test_a_head_with_the_tables_labels_is_found() -> None:
    def found(roberta: RobertaHubInterface, rows: list[dict[str, Any]], **more: Any) -> str | None:
        return reusable_head(roberta, read_examples(rows), **more)

    roberta = with_own_head()
    rows = pairs(12, MNLI)
    assert found(roberta, rows) == "mnli" == found(roberta, rows, pooling="cls")
    assert found(roberta, rows, pooling="mean") is None
    assert found(roberta, pairs(12, MNLI[:2])) is None
    assert found(roberta, pairs(12, (*MNLI[:2], "contradicts"))) is None
    assert found(roberta, [{"text": r["premise"], "label": r["label"]} for r in rows]) is None
    assert found(roberta, [{**row, "label": [row["label"]]} for row in rows]) is None
    roberta.default_head = None  # a head is known by its inputs and labels
    assert found(roberta, rows) == "mnli" and found(plain(), rows) is None
    roberta.default_head, roberta.inputs["other"] = "mnli", "one"
    moods = ("0", "1")
    single = [{"text": f"It rains {i}.", "label": moods[i % 2]} for i in range(12)]
    assert found(roberta, single) == "other"  # and not the default, which judges pairs
    del roberta.inputs["mnli"]
    assert found(roberta, rows) is None


@pytest.mark.parametrize("run", [nothing, ruin])
def test_what_is_not_beaten_comes_back_as_it_was(run: Any) -> None:
    roberta = with_own_head()
    rows = own_rows(roberta, 45)
    before = weights(roberta)
    texts = [(row["premise"], row["hypothesis"]) for row in rows]
    scores = roberta.classify(texts)
    learnt = taught(roberta, read_examples(rows), run)
    right = sum(one.label == row["label"].casefold() for one, row in zip(scores, rows, strict=True))
    assert learnt.choice.taken == METHOD_AS_IS and learnt.temperature is None
    assert learnt.choice.why == (
        f"training is not better than the model as it is ({100 * right / 45:.1f} %)"
    )
    assert [way.name for way in learnt.choice.ways] == [METHOD_AS_IS, METHOD_OWN]
    assert learnt.choice.ways[0].score == pytest.approx(right / 45)
    after = weights(roberta)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert list(after) == list(before)  # no head came, and none went
    assert roberta.default_head == "mnli"
    assert roberta.labels["mnli"] == ("contradiction", "Neutral", "ENTAILMENT")
    again = {one.label.casefold() for one in roberta.classify(texts)}
    assert again == {one.label for one in scores}
    # Each row is judged by what the model answers to it.
    asked = roberta.classify([row.text for row in learnt.rows])
    assert [one.label for one in learnt.answers] == [one.label for one in asked]
    assert [one.score for one in learnt.answers] == pytest.approx(
        [a.score for a in asked], abs=1e-5
    )


def test_balance_does_not_touch_what_stays_as_it_is() -> None:
    roberta = with_own_head()
    rows = own_rows(roberta, 45)
    assert len(set(Counter(row["label"] for row in rows).values())) > 1  # shares differ
    before = weights(roberta)
    learnt = taught(roberta, read_examples(rows), ruin, balance=True)
    assert learnt.choice.taken == METHOD_AS_IS
    assert all(torch.equal(before[name], value) for name, value in weights(roberta).items())
    asked = roberta.classify([row.text for row in learnt.rows])
    assert [one.score for one in learnt.answers] == pytest.approx(
        [a.score for a in asked], abs=1e-5
    )


def test_training_that_is_better_begins_at_the_own_head() -> None:
    """The labels are those of the head's outputs in another order, which the training finds."""
    roberta, starts = with_own_head(), []
    rows = own_rows(roberta, 45)
    turned = dict(zip(MNLI, (*MNLI[1:], MNLI[0]), strict=True))
    rows = [{**row, "label": turned[row["label"]]} for row in rows]
    before = output(roberta).weight.clone()

    def turn(task: FineTuning, config: Config) -> None:
        assert config.task.head == "mnli"
        head: Any = task.roberta.classification_heads["mnli"]
        starts.append(torch.equal(head.out_proj.weight, before))
        names = roberta.labels["mnli"]
        place = [names.index({v: k for k, v in turned.items()}[name]) for name in names]
        with torch.no_grad():
            head.out_proj.weight.copy_(head.out_proj.weight[place].clone())
            head.out_proj.bias.copy_(head.out_proj.bias[place].clone())

    learnt = taught(roberta, read_examples(rows), turn)
    assert learnt.choice.taken == METHOD_OWN and all(starts)
    assert learnt.choice.why == "better than the model as it is, by cross-validation"
    assert learnt.temperature is not None and learnt.choice.ways[1].score is not None
    assert learnt.choice.ways[1].score > 0.7 > (learnt.choice.ways[0].score or 0)
    assert not torch.equal(output(roberta).weight, before)


@pytest.mark.system
def test_another_pooling_than_the_own_heads_makes_a_new_one() -> None:
    roberta = with_own_head()
    learnt = taught(roberta, read_examples(pairs(30, MNLI)), pooling="mean", minutes=LITTLE)
    assert learnt.choice.taken == METHOD_HEAD and roberta.default_head != "mnli"
    assert roberta.model.classification_heads[roberta.default_head].pooling == "mean"  # type: ignore[index, union-attr]


# ---- temperature, balance, thresholds ----


def logits_of(roberta: RobertaHubInterface, texts: list[str]) -> Tensor:
    head: Any = roberta.model.classification_heads[roberta.default_head]  # type: ignore[index]
    names = roberta.head_labels(roberta.default_head or "")
    found = roberta.classify(texts)
    assert isinstance(head.out_proj, torch.nn.Linear)
    return torch.tensor([[one.scores[name] for name in names] for one in found]).double().log()


@pytest.mark.system
def test_the_temperature_is_in_the_last_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = read_examples(sentences(45, noise=0.4))
    texts = [row.text for row in examples.train]
    made, balanced, raw = plain(), plain(), plain()
    learnt = taught(made, examples, minutes=LITTLE)
    taught(balanced, examples, minutes=LITTLE, balance=True)
    monkeypatch.setattr(learning._Table, "finish", lambda *given: None)
    taught(raw, examples, minutes=LITTLE)
    divisor = learnt.temperature
    assert learnt.choice.taken == METHOD_HEAD
    assert divisor is not None and abs(divisor - 1) > 0.01
    assert_close(output(made).weight, output(raw).weight / divisor)
    assert_close(output(made).bias, output(raw).bias / divisor)
    wanted = (logits_of(raw, texts) / divisor).log_softmax(1)
    assert_close(logits_of(made, texts), wanted, 1e-4)

    counts = Counter(row.labels[0] for row in examples.train)
    shares = torch.tensor([counts[name] / 45 for name in examples.classes]).double()
    assert_close(output(balanced).weight, output(made).weight)
    assert_close(output(balanced).bias, output(made).bias - shares.log().float())
    assert_close(logits_of(balanced, texts), (wanted - shares.log()).log_softmax(1), 1e-4)


@pytest.mark.parametrize("task", ["multi_label", "regression"])
def test_balance_is_for_classes(task: str) -> None:
    rows = [{"text": f"row {i}", "label": i / 7} for i in range(20)]
    if task == "multi_label":
        rows = [{"text": f"row {i}", "label": ["a", "b"][: i % 3]} for i in range(20)]
    roberta = plain()
    with pytest.raises(InputError, match="balance is for classes of which a text has one"):
        taught(roberta, read_examples(rows), balance=True)
    assert roberta.default_head is None  # nothing was made


def listed(count: int) -> list[dict[str, Any]]:
    rows = sentences(count)
    for i, row in enumerate(rows):
        row["label"] = [name for name in ("cat", "dog") if name in row["text"]]
        row["label"] += ["rare"] if i % 10 == 0 else []
    return rows


def test_thresholds_are_stored_and_answer() -> None:
    roberta, examples = plain(), read_examples(listed(60))
    learnt = taught(roberta, examples, minutes=LITTLE)
    least = roberta.thresholds[roberta.default_head or ""]
    assert len(least) == 3 and all(0 < one < 1 for one in least) and least != (0.5,) * 3
    limits = dict(zip(("cat", "dog", "rare"), least, strict=True))
    given = []
    for found in roberta.classify([row.text for row in examples.train]):
        given.append({name for name, score in found.scores.items() if score >= limits[name]})
        assert set(found.labels or ()) == given[-1]
    assert {"cat"} in given and {"dog"} in given
    # The judged rows have thresholds that others chose, and may differ from those.
    assert len(learnt.answers) == 60 and all(one.labels is not None for one in learnt.answers)


def test_a_regression_answers_in_the_tables_numbers() -> None:
    value = {"cat": 1000.5, "dog": 2000.5, "cow": 9000.5}
    rows = [{**row, "label": value[row["label"]]} for row in sentences(60, noise=0.0)]
    roberta = plain()
    learnt = taught(roberta, read_examples(rows), minutes=LITTLE)
    assert learnt.temperature is None and learnt.optimism == 0.0
    found = roberta.classify([row["text"] for row in rows])
    mean = sum(one.score for one in found) / 60
    assert mean == pytest.approx(sum(row["label"] for row in rows) / 60, rel=0.02)
    unseen = torch.tensor([one.score for one in learnt.answers])
    wanted = torch.tensor([float(row.labels[0]) for row in learnt.rows])
    assert float(torch.corrcoef(torch.stack([unseen, wanted]))[0, 1]) > 0.5


# ---- which rows judge, and which are learnt ----


def turned(examples: Examples, side: str, **fields: Any) -> Examples:
    """The same table with another label, or another text, in the first row of a side."""
    rows = list(getattr(examples, side))
    rows[0] = dataclasses.replace(rows[0], **fields)
    return dataclasses.replace(examples, **{side: rows})


def other(examples: Examples, side: str) -> tuple[str]:
    own = getattr(examples, side)[0].labels[0]
    return (next(name for name in examples.classes if name != own),)


@pytest.mark.system
def test_few_rows_are_cross_validated_and_more_are_held_out() -> None:
    few = taught(plain(), read_examples(sentences(60)), minutes=LITTLE)
    assert few.how == "cross-validated" and len(few.rows) == len(few.answers) == 60
    examples = read_examples(sentences(210))
    more = taught(plain(), examples, minutes=LITTLE)
    assert more.how == "held out" and more.rows == examples.valid
    assert more.optimism == 0.0  # those rows chose nothing
    assert sum(more.counts.values()) == len(examples.train)


@pytest.mark.system
def test_rows_held_out_of_ones_own_table_are_learnt_at_last() -> None:
    examples = read_examples(sentences(60), valid=0.2)
    changed = turned(examples, "valid", labels=other(examples, "valid"))
    one, two = plain(), plain()
    first = taught(one, examples, minutes=LITTLE)
    second = taught(two, changed, minutes=LITTLE)
    assert not torch.equal(output(one).weight, output(two).weight)
    # But they are judged before: neither its label nor theirs has a part in an answer.
    assert first.answers == second.answers and first.temperature == second.temperature
    text = turned(examples, "valid", text="Quite another text.")
    third = taught(plain(), text, minutes=LITTLE)
    assert third.answers[1:] == first.answers[1:]


@pytest.mark.system
def test_rows_of_a_table_to_measure_on_are_never_learnt() -> None:
    examples = read_examples(sentences(60), valid=sentences(30, seed=2)[:9])
    roberta = plain()
    first = taught(roberta, examples, minutes=LITTLE)
    assert first.how == "held out" and first.rows == examples.valid
    for changed in (
        turned(examples, "valid", labels=other(examples, "valid")),
        turned(examples, "valid", text="Quite another text, and long."),
        dataclasses.replace(examples, valid=examples.valid[:2]),
    ):
        again = plain()
        taught(again, changed, minutes=LITTLE)
        for name, value in weights(roberta).items():
            assert torch.equal(value, again.model.state_dict()[name]), name
    asked = roberta.classify([row.text for row in first.rows])
    assert [one.score for one in first.answers] == pytest.approx([a.score for a in asked], abs=1e-4)


@pytest.mark.system
def test_nothing_is_learnt_twice() -> None:
    """Trainings: one for each fold, one for the judge, and one for all rows of one's own table."""
    for valid, wanted in ((0.2, 7), (sentences(9, seed=2), 6), (None, 6)):
        sizes: list[int] = []

        def better(task: FineTuning, config: Config, sizes: list[int] = sizes) -> None:
            sizes.append(len(task.lengths(0)))
            with torch.no_grad():  # another answer to some row, so that it is taken
                task.roberta.classification_heads[config.task.head].out_proj.bias.add_(
                    torch.tensor([0.1, 0.0, -0.1])
                )

        examples = read_examples(sentences(60, noise=0.5), valid=valid)
        learnt = taught(plain(), examples, better)
        if learnt.choice.taken == METHOD_WHOLE:
            assert len(sizes) == wanted
            assert sizes[-1] == len(examples.train) + (wanted == 7) * len(examples.valid)
        else:
            pytest.fail("the sample was to be learnt as a whole")


# ---- in earnest ----


@pytest.mark.system
def test_the_same_table_gives_the_same_weights() -> None:
    rows = sentences(24, noise=0.0)
    found = []
    for _ in range(2):
        roberta = plain()
        before = torch.get_rng_state()
        learnt = taught(roberta, read_examples(rows), updates, epochs=2)
        assert torch.equal(before, torch.get_rng_state())
        found.append((weights(roberta), learnt.answers, learnt.choice))
        torch.rand(3)
    (one, *told), (two, *again) = found
    assert told == again
    assert all(torch.equal(one[name], two[name]) for name in one)
    other = plain()
    taught(other, read_examples(rows), updates, epochs=2, seed=2)
    assert not torch.equal(
        one["classification_heads.sentence_classification_head.out_proj.weight"],
        output(other).weight,
    )


# ---- a large table ----


def test_a_large_table_is_learnt_once_and_its_held_out_rows_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its classes alternate: every second row would be of one class alone."""
    monkeypatch.setattr(learning, "SMALL_TABLE_ROWS", 60)
    monkeypatch.setattr(learning, "HEAD_SAMPLE_ROWS", 60)
    rows = [{"text": f"A {w} of {i}.", "label": w} for i in range(60) for w in ("cat", "dog")]
    valid = [{"text": f"The {w} in {i}.", "label": w} for i in range(6) for w in ("cat", "dog")]
    examples = read_examples(rows, valid=valid)
    sizes = []

    def run(task: FineTuning, config: Config) -> None:
        sizes.append(len(task.lengths(0)))

    roberta = plain()
    learnt = taught(roberta, examples, run)
    assert learnt.choice.taken == METHOD_ONCE and sizes == [120]
    assert learnt.how == "held out" and learnt.rows == examples.valid
    found = roberta.classify([row["text"] for row in rows])
    right = sum(one.label == row["label"] for one, row in zip(found, rows, strict=True))
    assert right > 80  # the head began as a regression that knows both classes
    other_label = turned(examples, "valid", labels=other(examples, "valid"))
    again = plain()
    taught(again, other_label, run)
    ours, theirs = output(roberta).weight, output(again).weight
    assert_close(ours / ours.norm(), theirs / theirs.norm())  # but for the temperature


def test_options_without_effect_on_a_large_table_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "SMALL_TABLE_ROWS", 20)
    rows = [{"text": f"A {w} of {i}.", "label": w} for i in range(30) for w in ("cat", "dog")]
    examples = read_examples(rows, valid=0.2)
    found = taught(plain(), examples, lambda task, config: None, trials=3)
    assert found.notes == ["trials are made with at most 20 rows; these were learnt once"]
    found = taught(plain(), examples, lambda task, config: None, minutes=9)
    assert found.notes == []  # see the recipe's tests
