"""Every verb on texts: one str in, one answer out; any container; arguments that cannot be."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_models import assert_close, small_roberta

from roberta_hub import Prediction, RobertaConfig, RobertaHubInterface
from roberta_hub.errors import InputError, InputTypeError

TEXTS = ["Hello world!", "A dog ran.", "Goal"]
VERBS: dict[str, tuple[str, dict[str, Any]]] = {
    "encode_batch": ("encode_batch", {}),
    "features": ("features", {}),
    "features, cls": ("features", {"pooling": "cls"}),
    "features, mean": ("features", {"pooling": "mean"}),
    "classify": ("classify", {"head": "topic"}),
    "zero_shot": ("zero_shot", {"labels": ["art", "sport"], "head": "mnli"}),
    "score": ("score", {}),
    "tag": ("tag", {"head": "ner"}),
}


@pytest.fixture(scope="module")
def tagger() -> RobertaHubInterface:
    labels = ("contradiction", "neutral", "entailment")
    roberta = small_roberta(heads={"mnli": 3, "topic": 2}, labels={"mnli": labels})
    roberta.register_token_head("ner", labels=["O", "B-X", "I-X"])
    return roberta


def same(one: Any, other: Any) -> None:
    if isinstance(one, torch.Tensor):
        assert one.shape == other.shape
        assert_close(one.float(), other.float())
    elif isinstance(one, Prediction):
        assert one.label == other.label
        assert one.scores == pytest.approx(dict(other.scores), abs=1e-5)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-4)
    else:
        assert [(s.label, s.start, s.end) for s in one] == [
            (s.label, s.start, s.end) for s in other
        ]


@pytest.mark.parametrize("verb", VERBS)
def test_one_str_in_one_answer_out(tagger: RobertaHubInterface, verb: str) -> None:
    name, keywords = VERBS[verb]
    call = getattr(tagger, name)
    many = call(TEXTS, **keywords)
    for text, wanted in zip(TEXTS, many, strict=True):
        same(call(text, **keywords), wanted)


@pytest.mark.parametrize("verb", VERBS)
def test_any_container(tagger: RobertaHubInterface, verb: str) -> None:
    pandas = pytest.importorskip("pandas")
    name, keywords = VERBS[verb]
    call = getattr(tagger, name)
    wanted = call(TEXTS, **keywords)
    for texts in (iter(TEXTS), (t for t in TEXTS), pandas.Series(TEXTS, index=[7, 8, 9])):
        for one, other in zip(call(texts, **keywords), wanted, strict=True):
            same(one, other)
    with pytest.raises(InputTypeError, match="DataFrame with the columns 'text'"):
        call(pandas.DataFrame({"text": TEXTS}), **keywords)
    with pytest.raises(InputTypeError, match="dict with the keys 'a'"):
        call({"a": TEXTS}, **keywords)
    with pytest.raises(InputTypeError, match=r"tuple of 2 str.*\[\('a', 'b'\)\].*\['a', 'b'\]"):
        call(("a", "b"), **keywords)


def test_a_list_of_two_is_a_pair(tagger: RobertaHubInterface) -> None:
    assert torch.equal(tagger.encode_batch([["a", "b"]])[0], tagger.encode("a", "b"))
    one, other = tagger.classify([["a", "b"], ("a", "b")], "mnli")
    same(one, other)


def test_masks_in_a_generator(tagger: RobertaHubInterface) -> None:
    """0.1.0 answered a generator with []."""
    texts = ["a <mask> b", "<mask> and <mask>"]
    wanted = [tagger.fill_mask(text, topk=2) for text in texts]
    for many in (texts, iter(texts), (text for text in texts)):
        found = tagger.fill_mask(many, topk=2)
        assert [str(f).count("<mask>") for f in found] == [str(w).count("<mask>") for w in wanted]
        for one, other in zip(found[0], wanted[0], strict=True):
            assert (one[0], one[2]) == (other[0], other[2])
            assert one[1] == pytest.approx(other[1], rel=1e-3)
    assert tagger.fill_mask(iter([])) == []


WRONG: list[tuple[str, Callable[[RobertaHubInterface], Any], str]] = [
    ("layer is text", lambda r: r.features(["a"], layer="1"), "layer is '1'; -1 is the features"),
    ("layer is True", lambda r: r.features(["a"], layer=True), "layer is True"),
    ("layer is huge", lambda r: r.features(["a"], layer=10**5000), "layer a int: this model has"),
    ("topk is True", lambda r: r.fill_mask("a <mask>", topk=True), "topk is True; choose 1 to"),
    ("topk is text", lambda r: r.fill_mask("a <mask>", topk="2"), "topk is '2'"),
    ("targets", lambda r: r.fill_mask("a <mask>", targets=[1]), r"targets\[0\] is a int"),
    ("labels", lambda r: r.zero_shot(["a"], None), "labels is a NoneType"),
    ("a hypothesis", lambda r: r.zero_shot(["a"], ["b"], hypothesis=None), "hypothesis is a None"),
    ("candidates", lambda r: r.disambiguate_pronoun("a [it]", [1]), r"candidates\[0\] is a int"),
    ("truncate", lambda r: r.features(["a"], truncate="no"), "truncate is 'no'; pass True or"),
    ("progress", lambda r: r.features(["a"], progress="no"), "progress is 'no'; pass True or"),
    ("stride", lambda r: r.features(["a"], stride=True), "stride is True; it is the overlap"),
    ("batch_tokens", lambda r: r.features(["a"], batch_tokens="9"), "batch_tokens is '9'"),
    ("multi_label", lambda r: r.classify(["a"], "mnli", multi_label="no"), "multi_label is 'no'"),
    ("a head", lambda r: r.classify(["a"], ["mnli"]), "head is a list; pass a name, of mnli"),
    ("no_separator", lambda r: r.encode("a", "b", no_separator="no"), "no_separator is 'no'"),
    ("an id", lambda r: r.save(None), "save into is None; give a str"),
    ("no path", lambda r: r.save(""), "save into is '', which is no path"),
    ("a model", lambda r: RobertaHubInterface(r.cfg, r.task, None), "model is a NoneType"),
    ("a task", lambda r: RobertaHubInterface(r.cfg, None, r.model), "task is a NoneType"),
]


@pytest.mark.parametrize(("call", "message"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_arguments_that_cannot_be(tagger: RobertaHubInterface, call: Any, message: str) -> None:
    with pytest.raises((InputError, InputTypeError), match=message):
        call(tagger)


def test_words_that_cannot_be(tagger: RobertaHubInterface) -> None:
    pytest.importorskip("spacy")
    call = tagger.extract_features_aligned_to_words
    with pytest.raises(InputError, match=r"words\[1\] is empty"):
        call("a b", words=["a", ""])
    with pytest.raises(InputTypeError, match=r"words\[0\] is a int"):
        call("a b", words=[1])
    with pytest.raises(InputTypeError, match="sentence is a int, not a str"):
        call(5)


def test_a_budget_of_any_size(tagger: RobertaHubInterface) -> None:
    wanted = tagger.features(TEXTS, pooling="mean")
    for budget in (1, 10**400):
        same(tagger.features(TEXTS, pooling="mean", batch_tokens=budget), wanted)


def test_a_model_has_layers() -> None:
    with pytest.raises(InputError, match=r"num_layers is 0, must lie in 1\.\.1,000"):
        RobertaConfig(num_layers=0)


# ---- keywords of others ----


@pytest.mark.parametrize(
    ("verb", "keyword", "advice"),
    [
        ("classify", "batch_size", "say batch_tokens="),
        ("features", "batch_size", "say batch_tokens="),
        ("fill_mask", "top_k", "say topk="),
        ("search", "k", "say topk="),
        ("zero_shot", "candidate_labels", "say labels="),
        ("zero_shot", "hypothesis_template", "say hypothesis="),
        ("classify", "max_length", "say truncate=.*cuts"),
        ("score", "truncation", "say truncate=.*cuts"),
        ("tag", "aggregation_strategy", "say aggregation=: first, .* piece is simple"),
        ("features", "padding", "nothing is padded here"),
        ("encode", "return_tensors", "comes out is a torch tensor"),
        ("encode_batch", "padding", "nothing is padded here"),
        ("encode_batch", "batch_tokens", "it takes texts"),
        ("answer", "doc_stride", "say stride="),
        ("answer", "max_answer_len", "say max_answer_tokens="),
        ("features", "poling", "did you mean pooling=.*It takes .*pooling"),
        ("choose", "trunkate", "did you mean truncate="),
        ("save", "fromat", "did you mean format="),
    ],
)
def test_a_keyword_of_others_is_answered_with_ours(
    tagger: RobertaHubInterface, verb: str, keyword: str, advice: str
) -> None:
    match = f"^{verb} has no argument '{keyword}'; .*{advice}"
    with pytest.raises(InputTypeError, match=match) as caught:
        getattr(tagger, verb)(["a"], **{keyword: 3})
    assert isinstance(caught.value, TypeError) and "Runner" not in str(caught.value)


def test_copies_answer_too(tagger: RobertaHubInterface) -> None:
    with pytest.raises(InputTypeError, match="say topk="):
        copy.deepcopy(tagger).fill_mask("a <mask>", top_k=1)
