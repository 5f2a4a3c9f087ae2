"""Heads know their inputs: a text goes to the head for single texts, a pair to that for pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_models import small_roberta

from roberta_hub import RobertaHubInterface, load_model
from roberta_hub.errors import InputError, UnknownNameError

PAIR = ("A dog ran.", "An animal moved.")
MOODS, NLI = ("negative", "neutral", "positive"), ("contradiction", "neutral", "entailment")


@pytest.fixture(scope="module")
def tiny() -> RobertaHubInterface:
    """The model in the box, with a head for single texts and one for names beside its own."""
    torch.manual_seed(1)
    roberta = load_model()
    roberta.register_classification_head("sentiment", labels=MOODS)
    roberta.inputs["sentiment"] = "one"
    roberta.register_token_head("entities", labels=["O", "B-person", "I-person"])
    return roberta.eval()


def several(**inputs: Any) -> RobertaHubInterface:
    """A model with a head for each name, and what it was trained on where that is not None."""
    roberta = small_roberta(num_layers=1)
    for head in inputs:
        roberta.register_classification_head(head, labels=[f"{head} no", f"{head} yes"])
    roberta.inputs |= {head: own for head, own in inputs.items() if own is not None}
    return roberta.eval()


def head_of(roberta: RobertaHubInterface, text: Any) -> str:
    """The head that answered, of which the labels' names begin."""
    return roberta.classify([text])[0].label.split()[0]


def test_the_box_answers_texts_and_pairs(tiny: RobertaHubInterface) -> None:
    assert {*tiny.classify("I loved it.").scores} == {*MOODS}
    assert {*tiny.classify([PAIR])[0].scores} == {*NLI}
    assert tiny.classify([PAIR]) == tiny.classify([PAIR], head="mnli")
    assert tiny.classify(["I loved it."]) == tiny.classify(["I loved it."], head="sentiment")
    by_head = tiny.predict_proba(["I loved it."], "sentiment")
    assert torch.equal(tiny.predict_proba(["I loved it."]), by_head)
    assert tiny.tag("Ann lives in Paris.") == tiny.tag("Ann lives in Paris.", head="entities")
    assert tiny.classify([]) == [] and tiny.predict_proba([]).shape == (0, 3)


def test_texts_and_pairs_at_once_are_refused(tiny: RobertaHubInterface) -> None:
    for ask in (tiny.classify, tiny.predict_proba):
        with pytest.raises(InputError, match=r"single texts and pairs at once.*mnli.*sentiment"):
            ask(["I loved it.", PAIR])


@pytest.mark.parametrize(
    ("heads", "default", "one", "pair"),
    [
        ({"a": "one", "b": "pair"}, None, "a", "b"),
        ({"a": "one", "b": "pair"}, "b", "a", "b"),
        ({"a": "one", "b": "pair", "c": "one"}, "c", "c", "b"),
        ({"a": "one", "b": None}, "b", "b", "b"),  # which may have been trained on either
        ({"a": None}, None, "a", "a"),
    ],
)
def test_the_head_for_the_inputs(
    heads: dict[str, Any], default: str | None, one: str, pair: str
) -> None:
    roberta = several(**heads)
    roberta.default_head = default
    assert (head_of(roberta, "a text"), head_of(roberta, PAIR)) == (one, pair)


@pytest.mark.parametrize("heads", [{"a": "one", "b": "one"}, {"a": "one", "b": None}])
def test_several_heads_for_the_inputs_are_listed(heads: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"this model has 2: a \(a no, a yes\), b"):
        several(**heads).classify("a text")


def test_other_inputs_than_its_only_head_takes_are_refused_by_it() -> None:
    with pytest.raises(InputError, match="'b' judges pairs"):
        several(b="pair").classify("a text")
    with pytest.raises(InputError, match="'a' was trained on single texts"):
        several(a="one").classify([PAIR])
    with pytest.raises(InputError, match="'b' judges pairs"):
        several(a="one", b="pair").classify("a text", head="b")


def test_a_head_of_either_takes_both_at_once() -> None:
    assert len(several(a=None).classify(["a text", PAIR])) == 2


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda tiny: tiny.rank("late?", ["It is late."]), "load a cross-encoder"),
        (lambda tiny: tiny.choose("Fish live in", ["water", "trees"]), "multiple choice"),
        (lambda tiny: tiny.answer("Who?", "Ann did."), "deepset/roberta-base-squad2"),
    ],
)
def test_what_the_box_cannot_says_what_to_load(
    tiny: RobertaHubInterface, ask: Callable[[RobertaHubInterface], Any], words: str
) -> None:
    with pytest.raises(UnknownNameError, match=words):
        ask(tiny)


def test_entailment_is_asked_of_the_head_that_judges_it(tiny: RobertaHubInterface) -> None:
    labels = ["art", "sport"]
    found, named = tiny.zero_shot("Goal!", labels), tiny.zero_shot("Goal!", labels, by="both")
    assert found == named
    assert 0 <= tiny.rank("late?", ["It is late."], label="entailment")[0].score <= 1


def test_surprise_is_explained_of_a_text_and_the_answer_of_a_pair(
    tiny: RobertaHubInterface,
) -> None:
    assert "bits" in str(tiny.explain("I loved it."))
    assert "bits" not in str(tiny.explain(PAIR))
