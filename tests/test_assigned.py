"""What is assigned is taken or refused: other libraries' attributes, names, and values of ours."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import weakref
from typing import Any

import pytest
import torch
from small_models import small_roberta

from roberta_hub import RobertaClassifier, RobertaHubInterface
from roberta_hub.errors import Advice, InputError, InputTypeError, UnknownAttributeError
from roberta_hub.settings import SentenceSettings

LONG = "One two three four five six seven eight nine ten eleven twelve."


@pytest.fixture
def roberta() -> RobertaHubInterface:
    return small_roberta(heads={"mood": 2}, labels={"mood": ("bad", "good")}).eval()


@pytest.fixture
def several() -> RobertaHubInterface:
    return small_roberta(heads={"mood": 2, "topic": 3}).eval()


# ---- taken: as the same thing ----


def test_max_seq_length_is_the_limit_of_embed(roberta: RobertaHubInterface) -> None:
    whole = roberta.embed(LONG)
    assert roberta.max_seq_length == roberta.max_positions
    roberta.max_seq_length = 6
    assert roberta.max_seq_length == 6 and roberta.sentence == SentenceSettings(max_length=6)
    assert not torch.equal(roberta.embed(LONG, truncate=True), whole)
    for wrong in (0, "6", 10_000, True):
        with pytest.raises(InputError, match=r"max_seq_length is .*, must be .*in 1 to"):
            roberta.max_seq_length = wrong


def test_truncate_dim_cuts_vectors(roberta: RobertaHubInterface) -> None:
    whole = roberta.embed("A.")
    roberta.truncate_dim = 8
    assert torch.equal(roberta.embed("A."), whole[:8]) and roberta.truncate_dim == 8
    with pytest.raises(InputError, match="numbers; keep 1 to"):
        roberta.truncate_dim = 100_000


def test_prompts_are_put_before_texts(roberta: RobertaHubInterface) -> None:
    roberta.prompts = {"query": "query: "}
    roberta.default_prompt_name = "query"
    assert torch.equal(roberta.embed("A."), roberta.embed("query: A.", prompt=""))
    with pytest.raises(InputError, match=r"roberta\.default_prompt_name = None first"):
        roberta.prompts = {"passage": "passage: "}
    with pytest.raises(InputError, match="default_prompt is 'none', which is none of the prompts"):
        roberta.default_prompt_name = "none"


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("similarity_fn_name", "dot", "similarity"),
        ("pooling_mode", "cls", "pooling"),
        ("normalize_embeddings", True, "normalize"),
    ],
)
def test_other_settings_of_vectors(
    roberta: RobertaHubInterface, name: str, value: Any, field: str
) -> None:
    setattr(roberta, name, value)
    assert roberta.sentence == SentenceSettings(**{field: value})
    with pytest.raises(InputError):
        setattr(roberta, name, 5)


def test_labels_by_their_numbers(roberta: RobertaHubInterface) -> None:
    roberta.id2label = {1: "yes", 0: "no"}
    assert (
        roberta.head_labels("mood")
        == ("no", "yes")
        == tuple(roberta.classify("A.").scores)[
            :: 1 if roberta.classify("A.").label == "no" else -1
        ]
    )
    assert roberta.id2label == {0: "no", 1: "yes"} and roberta.label2id == {"no": 0, "yes": 1}
    roberta.id2label = {"0": "a", "1": "b"}  # as JSON has it
    roberta.label2id = {"down": 0, "up": 1}
    assert roberta.labels == {"mood": ("down", "up")}
    for name, wrong in (("id2label", {0: "a", 2: "b"}), ("label2id", ["a"]), ("id2label", {})):
        with pytest.raises(InputError, match=f"{name} is .*; give a dict from"):
            setattr(roberta, name, wrong)
    with pytest.raises(InputError, match=r"1 labels \['a'\] for 2 classes"):
        roberta.id2label = {0: "a"}


def test_a_list_of_labels_is_the_only_heads(
    roberta: RobertaHubInterface, several: RobertaHubInterface
) -> None:
    roberta.labels = ["no", "yes"]
    assert roberta.head_labels("mood") == ("no", "yes")
    with pytest.raises(InputError, match="these labels name no head, and this model has mood, top"):
        several.labels = ["no", "yes"]
    several.default_head = "topic"
    several.labels = ["a", "b", "c"]
    assert several.labels == {"topic": ("a", "b", "c")}


def test_the_tokenizers_limit_is_that_of_every_verb(roberta: RobertaHubInterface) -> None:
    roberta.tokenizer.model_max_length = 8
    assert roberta.max_positions == 8
    with pytest.raises(InputError, match=r"too long: .* tokens > 8"):
        roberta.classify(LONG)
    right = roberta.classify(LONG, truncate=True)
    roberta.tokenizer.truncation_side = "left"
    assert roberta.classify(LONG, truncate=True) != right
    roberta.tokenizer.model_max_length = int(1e30)  # as transformers says "none"
    assert roberta.classify(LONG) and roberta.tokenizer.model_max_length is None
    for wrong in (2, "8", 8.5):
        with pytest.raises(InputError, match="model_max_length is"):
            roberta.tokenizer.model_max_length = wrong
    with pytest.raises(InputError, match="truncation_side is 'up'; choose 'left' or 'right'"):
        roberta.tokenizer.truncation_side = "up"


# ---- refused: names that would change nothing ----

REFUSED = {
    "threshold": r"roberta\.thresholds\[head\]",
    "max_length": r"truncate=True in a call cuts long texts",
    "problem_type": r"roberta\.kinds\[head\] =",
    "config": r"roberta\.cfg has",
    "num_labels": r"head_labels\(head\)",
    "padding_side": "nothing is padded here",
    "model_max_length": r"roberta\.tokenizer\.model_max_length limits",
    "batch_size": "the call of a verb takes batch_tokens=",
    "candidate_labels": "the call of a verb takes labels=",
    "torch_dtype": "say dtype=",
    "truncate": r"it goes into a call: classify\(\.\.\., truncate=\.\.\.\)",
    "multi_label": r"it goes into a call: ",
    "topk": r"it goes into a call: ",
    "lables": "did you mean labels",
    "default_haed": "did you mean default_head",
    "max_seq_lenght": "did you mean max_seq_length",
    "device": r"device of a RobertaHubInterface cannot be set; roberta\.to\(device\)",
    "max_positions": r"roberta\.tokenizer\.model_max_length = N",
    "args": "load_model takes fairseq's arguments",
}


@pytest.mark.parametrize("name", REFUSED)
def test_names_that_would_change_nothing(roberta: RobertaHubInterface, name: str) -> None:
    with pytest.raises(UnknownAttributeError, match=REFUSED[name]):
        setattr(roberta, name, 5)


def test_neither_do_parts_take_them(roberta: RobertaHubInterface) -> None:
    for part, name, words in (
        (roberta.tokenizer, "padding_side", "nothing is padded"),
        (roberta.tokenizer, "max_seq_length", r"roberta\.max_seq_length is set for embed"),
        (roberta.tokenizer, "pad_token", "layout has the special ids"),
        (roberta.tokenizer, "layout", r"Tokenizer\(engine, dictionary, layout\) makes another"),
        (roberta.tokenizer, "bos", "bos of a Tokenizer cannot be set"),
        (roberta.model, "id2label", r"head_labels\(head\)"),
        (roberta.model, "max_seq_length", r"roberta\.max_seq_length is set for embed"),
        (roberta.cfg, "id2label", r"head_labels\(head\)"),
        (roberta.cfg, "dropout", "the model is built: load_model takes"),
        (SentenceSettings(), "max_length", r"roberta\.sentence = dataclasses\.replace"),
    ):
        with pytest.raises(UnknownAttributeError, match=words):
            setattr(part, name, 5)


def test_nor_the_estimator() -> None:
    mine = RobertaClassifier()
    for name, words in (
        ("C", "cross-validation"),
        ("class_weight", "say balance="),
        ("random_state", "say seed="),
        ("n_jobs", "set_num_threads"),
        ("threshold", "a threshold for each label is chosen"),
        ("epoch", "did you mean epochs"),
    ):
        with pytest.raises(UnknownAttributeError, match=words):
            setattr(mine, name, 1)
    mine.epochs, mine.note, mine.seen_ = 3, "own", 1
    assert mine.set_params(seed=5).get_params()["seed"] == 5 and mine.epochs == 3


@pytest.mark.parametrize("name", ["note", "name", "version", "title", "my_labels", "score", "_x"])
def test_names_of_the_callers_own_are_free(roberta: RobertaHubInterface, name: str) -> None:
    for thing in (roberta, roberta.model, roberta.tokenizer, RobertaClassifier()):
        setattr(thing, name, "own")
        assert getattr(thing, name) == "own"
        setattr(thing, f"{name}2", "a second")


def test_parts_of_torch_and_fairseqs_scripts(roberta: RobertaHubInterface) -> None:
    roberta.pooler, roberta.embeddings = torch.nn.Linear(2, 2), torch.nn.Embedding(2, 2)
    assert "embeddings.weight" in roberta.state_dict()
    roberta.task, roberta.cfg, roberta.bpe = roberta.task, roberta.cfg, roberta.bpe
    roberta.classify = lambda text: text  # type: ignore[method-assign, assignment]
    assert roberta.classify("as a test does") == "as a test does"
    other = small_roberta(heads={"mood": 3})
    roberta.model = other.model
    roberta.labels["mood"] = ["a", "b", "c"]  # checked by the model that is there now
    for name, wrong in (("model", 5), ("tokenizer", "gpt2"), ("sentence", {"pooling": "cls"})):
        with pytest.raises(InputTypeError, match=f"{name} is a "):
            setattr(roberta, name, wrong)


# ---- what is known of each head ----


def test_entries_are_checked_when_they_are_set(roberta: RobertaHubInterface) -> None:
    before = dict(roberta.labels)
    for wrong, words in (
        ({"mood": ["a"]}, r"1 labels \['a'\] for 2 classes"),
        ({"mood": ["a", "a"]}, "label 'a' is twice"),
        ({"mood": ["a", 5]}, "label 5 is no str"),
        ({"mood": "ab"}, "pass a list of str"),
        ({"moood": ["a", "b"]}, "no classification head 'moood'.*did you mean mood"),
        ("ab", "labels is a str; give a dict with an entry for each head, of mood"),
    ):
        with pytest.raises((InputError, InputTypeError, KeyError), match=words):
            roberta.labels = wrong
        if isinstance(wrong, dict):
            with pytest.raises((InputError, InputTypeError, KeyError), match=words):
                roberta.labels.update(wrong)
        assert roberta.labels == before
    with pytest.raises(InputError, match="inputs of head 'mood' is 'pairs'; choose 'one' or 'pai"):
        roberta.inputs["mood"] = "pairs"  # type: ignore[assignment]
    for name in ("kinds", "thresholds"):
        with pytest.raises(KeyError, match="no classification head 'topic'"):
            setattr(roberta, name, {"topic": None})
    with pytest.warns(Advice, match="default_head is 'topic', and this model has mood"):
        roberta.default_head = "topic"


def test_they_travel_with_copies_and_hold_no_model(roberta: RobertaHubInterface) -> None:
    for made in (copy.deepcopy(roberta), pickle.loads(pickle.dumps(roberta))):
        assert made.labels == roberta.labels
        with pytest.raises(InputError, match="for 2 classes"):
            made.labels["mood"] = ["a"]
    gone = weakref.ref(made.model)
    gc.disable()
    try:
        del made
        assert gone() is None  # at once: no circle keeps the weights
    finally:
        gc.enable()


def test_a_shallow_copy_has_its_own_once_they_are_set(roberta: RobertaHubInterface) -> None:
    before, own = dict(roberta.labels), copy.copy(roberta)
    own.labels = {"mood": ("one", "two", "three")[: len(before["mood"])]}
    own.labels["mood"] = [name + "!" for name in own.labels["mood"]]
    assert own.labels["mood"][0] == "one!"
    assert roberta.labels == before


def test_settings_are_still_replaced() -> None:
    made = dataclasses.replace(SentenceSettings(), max_length=5)
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
