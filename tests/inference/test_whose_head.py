"""Whose head answers: a default never guesses, and no pair passes for a text."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from questions import NLI
from small_models import small_roberta

from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError, InputTypeError, UnknownNameError

FEELINGS = ("negative", "positive")


@pytest.fixture
def tuned() -> RobertaHubInterface:
    """As fine-tuning leaves it: a head of its own beside the one that was there."""
    roberta = small_roberta(heads={"mnli": 3, "mood": 2}, labels={"mnli": NLI, "mood": FEELINGS})
    roberta.default_head = "mood"
    roberta.inputs = {"mnli": "pair", "mood": "one"}
    return roberta


@pytest.fixture
def many() -> RobertaHubInterface:
    """Two heads of each kind, and none is the model's own."""
    roberta = small_roberta(
        heads={"mnli": 3, "topic": 2, "race": 1, "grade": 1},
        labels={"mnli": NLI, "topic": ("art", "sport")},
    )
    for name in ("ner", "pos"):
        roberta.register_token_head(name, labels=["O", f"B-{name}"])
    for name in ("squad", "quac"):
        roberta.register_span_head(name)
    return roberta.eval()


def test_the_models_own_head_answers(tuned: RobertaHubInterface) -> None:
    (found,) = tuned.classify(["A dull film."])
    assert set(found.scores) == set(FEELINGS)
    assert found == tuned.classify(["A dull film."], "mood")[0]  # the second place is head's
    assert set(tuned.classify([("A", "B")], head="mnli")[0].scores) == set(NLI)


def test_the_only_head_answers() -> None:
    roberta = small_roberta(heads={"topic": 2}, labels={"topic": ("art", "sport")})
    assert set(roberta.classify(["Goal!"])[0].scores) == {"art", "sport"}
    roberta.default_head = "gone"  # as where it was deleted
    assert set(roberta.classify(["Goal!"])[0].scores) == {"art", "sport"}


@pytest.mark.system
def test_every_kind_has_its_own_default(many: RobertaHubInterface) -> None:
    context, options = "Ada wrote it.", ["yes", "no"]
    for kind, head in (("token", "ner"), ("span", "squad"), ("race", "race")):
        own = copy.deepcopy(many)
        own.default_head = head
        if kind == "token":
            assert own.tag([context]) == own.tag([context], "ner")
        elif kind == "span":
            assert own.answer("Who?", context) == own.answer("Who?", context, "squad")
        else:
            assert own.choose(context, options) == own.choose(context, options, "race")
    del many.model.token_heads["pos"], many.model.span_heads["quac"]
    del many.model.classification_heads["grade"]
    many.default_head = "topic"  # which only classify can ask
    assert many.tag([context]) == many.tag([context], "ner")
    assert many.answer("Who?", context) == many.answer("Who?", context, "squad")
    assert many.choose(context, options) == many.choose(context, options, "race")
    assert many.zero_shot([context], options) == many.zero_shot([context], options, head="mnli")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda r: r.classify(["a"]),
            r"classify .* has 3: topic \(art, sport\), race \(0\), grade \(0\); pass head=",
        ),
        (
            lambda r: r.classify([("a", "b")]),
            r"classify .* has 4: mnli \(contradiction, neutral, entailment\), topic \(art, sport\)",
        ),
        (lambda r: r.tag(["a"]), r"tag .* has 2: ner \(O, B-ner\), pos \(O, B-pos\); pass head="),
        (lambda r: r.answer("a?", "a"), r"answer .* 2: squad \(start, end\), quac"),
        (lambda r: r.choose("a", ["b"]), r"choose .* has 2: race \(0\), grade \(0\)"),
    ],
)
def test_several_heads_are_listed(many: RobertaHubInterface, call: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call(many)


def test_zero_shot_takes_the_only_head_for_entailment(tuned: RobertaHubInterface) -> None:
    found = tuned.zero_shot(["a film"], ["fun", "dull"])
    assert found == tuned.zero_shot(["a film"], ["fun", "dull"], head="mnli")
    tuned.register_classification_head("rte", labels=["not_entailment", "Entailment"])
    tuned.eval()
    with pytest.raises(InputError, match=r"zero_shot .* has 2: mnli .*, rte \(not_entailment"):
        tuned.zero_shot(["a film"], ["fun", "dull"])
    tuned.default_head = "rte"
    assert tuned.zero_shot(["a"], ["fun"]) == tuned.zero_shot(["a"], ["fun"], head="rte")
    tuned.inputs["rte"] = "one"
    with pytest.raises(InputError, match="'rte' was trained on single texts; zero_shot needs"):
        tuned.zero_shot(["a"], ["fun"], head="rte")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r: r.classify(["a"]), "classify needs a classification head, .* no head"),
        (lambda r: r.tag(["a"]), "tag needs a token head"),
        (lambda r: r.answer("a?", "a"), "answer needs a span head"),
        (lambda r: r.choose("a", ["b"]), "choose needs a classification head with one output"),
        (lambda r: r.zero_shot(["a"], ["b"]), "zero_shot needs a head for entailment"),
    ],
)
def test_a_model_that_has_none(call: Any, words: str) -> None:
    with pytest.raises(UnknownNameError, match=words):
        call(small_roberta())


def test_a_head_without_names_can_be_named() -> None:
    roberta = small_roberta(heads={"nli": 3})
    with pytest.raises(UnknownNameError, match=r"roberta.labels\[HEAD\] = \[...\] names"):
        roberta.zero_shot(["a"], ["b"])
    roberta.labels["nli"] = ("contradiction", "neutral", "entailment")
    assert roberta.zero_shot(["a"], ["b", "c"])[0].label in ("b", "c")


def test_what_there_is_instead_is_listed(tuned: RobertaHubInterface) -> None:
    with pytest.raises(UnknownNameError, match=r"choose needs .* mood \(negative, positive\)"):
        tuned.choose("a", ["b"])
    del tuned.model.classification_heads["mnli"]
    with pytest.raises(UnknownNameError, match=r"one of whose labels is 'entailment', .*mood"):
        tuned.zero_shot(["a"], ["b"])


def test_explain_takes_the_models_own_head(tuned: RobertaHubInterface) -> None:
    """A model that was trained for a head explains that; surprise is of what it does not judge."""
    text, pair = "A dull film.", ("A film.", "It is dull.")
    assert tuned.explain(text).to_dict() == tuned.explain(text, "mood").to_dict()
    assert "bits" in tuned.explain(pair).to_dict()  # mood judges single texts
    tuned.default_head = "mnli"
    assert tuned.explain(pair).to_dict() == tuned.explain(pair, "mnli").to_dict()
    assert "bits" in tuned.explain(text).to_dict()
    tuned.default_head = None  # two heads, and a language model
    assert "bits" in tuned.explain(text).to_dict()
    tuned.default_head = "gone"
    assert "bits" in tuned.explain(text).to_dict()


def test_explain_takes_the_only_head_where_there_is_no_language_model() -> None:
    roberta = small_roberta(heads={"topic": 2}, labels={"topic": ("art", "sport")}, lm_head=False)
    text = "Goal!"
    assert roberta.explain(text).to_dict() == roberta.explain(text, "topic").to_dict()
    roberta.register_classification_head("mood", 2)
    with pytest.raises(InputError, match=r"explain .* has 2: topic \(art, sport\), mood \(0, 1\)"):
        roberta.eval().explain(text)
    with pytest.raises(InputError, match="no language-model head; load a masked-LM checkpoint"):
        small_roberta(lm_head=False).explain(text)


@pytest.mark.parametrize("head", [5, ["mnli"], b"mnli", {}])
def test_a_head_is_a_name(many: RobertaHubInterface, head: Any) -> None:
    calls: list[Any] = [
        lambda: many.classify(["a"], head),
        lambda: many.zero_shot(["a"], ["b"], head=head),
        lambda: many.tag(["a"], head),
        lambda: many.answer("a?", "a", head),
        lambda: many.choose("a", ["b"], head),
        lambda: many.predict(head, torch.tensor([0, 2])),
        lambda: many.head_labels(head),
    ]
    for call in calls:
        with pytest.raises(InputTypeError, match=f"head is a {type(head).__name__}; pass a name"):
            call()


# ---- single texts and pairs ----


@pytest.mark.parametrize("marked", [True, False])
def test_a_head_of_pairs_takes_no_single_text(tuned: RobertaHubInterface, marked: bool) -> None:
    """A mark says so, or the label: nothing entails anything in one text."""
    tuned.inputs = {"mnli": "pair"} if marked else {}
    for texts, place in (
        (["A dull film."], 0),
        ([("a", "b"), ("a", "b"), "A dull film."], 2),
        ([("A dull film.",)], 0),
    ):
        with pytest.raises(
            InputError,
            match=rf"texts\[{place}\]: a single text \('A dull film\.'\).*'mnli'.*"
            r"\(text, other text\).*zero_shot\(texts, labels\)",
        ):
            tuned.classify(texts, "mnli")
    with pytest.raises(InputError, match=r"texts\[1\]: a tuple of 3 texts \('a'\).*'mnli'"):
        tuned.classify([("a", "b"), ("a", "b", "c")], "mnli")
    assert tuned.classify([], "mnli") == []
    tuned.predict("mnli", tuned.encode("a"))  # fairseq's own call does as it is told


def test_a_mark_is_above_the_labels(tuned: RobertaHubInterface) -> None:
    tuned.inputs["mnli"] = "one"
    assert len(tuned.classify(["a"], "mnli")) == 1


def test_a_head_of_single_texts_takes_no_pair(tuned: RobertaHubInterface) -> None:
    with pytest.raises(InputError, match=r"texts\[1\]: a tuple of 2 texts .*'mood' was trained"):
        tuned.classify(["a", ("b", "c")], "mood")
    with pytest.raises(InputError, match="single texts and pairs at once"):
        tuned.classify(["a", ("b", "c")])
    assert set(tuned.classify([("b", "c")])[0].scores) == set(NLI)
    assert len(tuned.classify(["a", ("b",)])) == 2


def test_an_unmarked_head_takes_both(many: RobertaHubInterface) -> None:
    assert len(many.classify(["a", ("b", "c")], "topic")) == 2


def test_a_new_head_knows_nothing_of_the_old_one(tuned: RobertaHubInterface) -> None:
    tuned.register_classification_head("mood", 2)
    assert "mood" not in tuned.inputs and "mood" not in tuned.labels
    tuned.inputs["ner"] = "one"
    tuned.register_token_head("ner", 2)
    assert "ner" not in tuned.inputs


# ---- labels ----


@pytest.mark.parametrize("register", ["register_classification_head", "register_token_head"])
def test_labels_are_enough(register: str) -> None:
    roberta = small_roberta()
    getattr(roberta, register)("topic", labels=["art", "news", "sport"])
    assert roberta.head_labels("topic") == ("art", "news", "sport")
    with pytest.raises(InputError, match=r"2 labels \['a', 'b'\] for 3 classes"):
        getattr(roberta, register)("topic", 3, labels=["a", "b"])
    with pytest.raises(InputError, match=r"'a' is twice in \['a', 'b', 'a'\]"):
        getattr(roberta, register)("topic", labels=["a", "b", "a"])
    for labels in ("ab", b"ab", 5, ["a", 1], [None]):
        with pytest.raises(InputTypeError, match=r"head 'topic': label.* pass a list of str"):
            getattr(roberta, register)("topic", labels=labels)
    with pytest.raises(InputError, match="num_classes is"):
        getattr(roberta, register)("topic", labels=[])
    assert roberta.head_labels("topic") == ("art", "news", "sport")


def test_the_constructor_refuses_a_label_of_two_classes() -> None:
    with pytest.raises(InputError, match=r"head 'mood': label 'good' is twice"):
        small_roberta(heads={"mood": 3}, labels={"mood": ("good", "bad", "good")})


def test_labels_cannot_be_made_equal_later(tuned: RobertaHubInterface) -> None:
    before = tuned.head_labels("mood")
    with pytest.raises(InputError, match="label 'good' is twice"):
        tuned.labels["mood"] = ("good", "good")
    assert tuned.head_labels("mood") == before


def test_the_earlier_name_own_head_warns(tuned: RobertaHubInterface) -> None:
    with pytest.warns(DeprecationWarning, match="default_head"):
        tuned.own_head = "rte"
    assert tuned.default_head == "rte"
    with pytest.warns(DeprecationWarning, match="default_head"):
        assert tuned.own_head == "rte"
    with pytest.warns(DeprecationWarning, match="default_head"):
        again = RobertaHubInterface(tuned.cfg, tuned.task, tuned.model, own_head="mood")
    assert again.default_head == "mood"
