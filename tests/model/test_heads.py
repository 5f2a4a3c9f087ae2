"""Heads for tokens and spans in the model: made, replaced, refused, applied."""

from __future__ import annotations

import pytest
import torch
from small_models import small_model, small_roberta

from roberta_hub.errors import Advice, InputError


def test_they_are_linear_maps_of_each_token():
    model = small_model().eval()
    model.register_token_head("ner", 5)
    model.register_span_head("squad")
    assert model.list_heads() == "ner (token), squad (span)"
    features = torch.randn(2, 7, 16)
    for head, classes in ((model.token_heads["ner"], 5), (model.span_heads["squad"], 2)):
        out = head(features)
        assert out.shape == (2, 7, classes)
        linear = head.out_proj
        torch.testing.assert_close(out, features @ linear.weight.T + linear.bias)
        torch.testing.assert_close(head(features[0]), out[0])


def test_dropout_is_in_the_token_head_while_it_trains():
    model = small_model(pooler_dropout=0.5)
    model.register_token_head("ner", 5)
    head, features = model.token_heads["ner"], torch.ones(3, 16)
    assert head.training and not torch.equal(head(features), head(features))
    assert torch.equal(head.eval()(features), head(features))


def test_a_new_head_is_like_its_model():
    model = small_model().to(torch.bfloat16).eval()
    model.register_token_head("ner", 2)
    model.register_span_head("squad")
    for head in (model.token_heads["ner"], model.span_heads["squad"]):
        assert head.out_proj.weight.dtype == torch.bfloat16 and not head.training
    old = model.token_heads["ner"]
    model.register_token_head("ner", 3)
    assert (
        model.token_heads["ner"] is not old and model.token_heads["ner"].out_proj.out_features == 3
    )


@pytest.mark.parametrize(
    ("name", "classes", "words"),
    [
        ("a.b", 2, "a.b"),
        ("", 2, "name"),
        ("keys", 2, "'keys' cannot name a head"),
        (
            "mnli",
            2,
            r"'mnli' names a head of another kind; this model has mnli; choose another name",
        ),
        ("ner", 0, "head 'ner': num_classes is 0, must be at least 1"),
        ("ner", True, "num_classes is True"),
        ("ner", 2.5, "num_classes is 2.5"),
    ],
)
def test_token_heads_that_cannot_be(name, classes, words):
    model = small_model(heads={"mnli": 3})
    with pytest.raises(InputError, match=words):
        model.register_token_head(name, classes)
    assert list(model.token_heads) == []


def test_a_name_belongs_to_one_kind():
    model = small_model(heads={"mnli": 3})
    model.register_span_head("squad")
    for register in (model.register_token_head, model.register_classification_head):
        with pytest.raises(InputError, match=r"names a head of another kind; .* squad \(span\)"):
            register("squad", 2)
    with pytest.raises(InputError, match="names a head of another kind"):
        model.register_span_head("mnli")
    assert model.list_heads() == "mnli, squad (span)"


def test_labels_through_the_interface():
    roberta = small_roberta()
    roberta.register_token_head("ner", labels=["O", "X"])
    assert roberta.head_labels("ner") == ("O", "X")
    roberta.register_token_head("ner", 3)  # anew, of whatever labels: the old names are gone
    assert roberta.head_labels("ner") == ("0", "1", "2")
    with pytest.raises(InputError, match=r"2 labels \['O', 'X'\] for 3 classes"):
        roberta.register_token_head("ner", 3, labels=["O", "X"])
    with pytest.raises(InputError, match=r"\['O', 'O'\]"):
        roberta.register_token_head("ner", labels=["O", "O"])
    with pytest.raises(InputError, match="num_classes is"):
        roberta.register_token_head("ner")
    assert roberta.head_labels("ner") == ("0", "1", "2")


def test_weights_load_around_heads_as_in_fairseq(caplog):
    """A new head keeps its weights, another's is left out; all else stays strict."""
    model, other = small_model(heads={"old": 3}), small_model(heads={"old": 3, "more": 2})
    model.register_classification_head("new", 2)
    model.register_token_head("ner", 5)
    kept = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    with caplog.at_level("INFO", "roberta_hub"), pytest.warns(Advice, match="head 'more' of the"):
        model.load_state_dict(other.state_dict())
    assert "head new is not in the checkpoint, and keeps its weights" in caplog.messages
    theirs = other.state_dict()
    for key, tensor in model.state_dict().items():
        own = ".new." in key or ".ner." in key
        assert torch.equal(tensor, kept[key] if own else theirs[key]), key

    model.register_classification_head("old", 4)
    kept = model.classification_heads["old"].out_proj.weight.clone()
    with pytest.warns(Advice, match="head 'old' of the checkpoint is left out: .* another size"):
        model.load_state_dict({k: v for k, v in theirs.items() if ".more." not in k})
    assert torch.equal(model.classification_heads["old"].out_proj.weight, kept)

    for lost in ("classification_heads.old.dense.bias", "encoder.lm_head.bias"):
        fewer = dict(small_model(heads={"old": 4}).state_dict())
        del fewer[lost]
        with pytest.raises(RuntimeError, match=f"Missing key.*{lost}"):
            model.load_state_dict(fewer)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        model.load_state_dict({**small_model(heads={"old": 4}).state_dict(), "x": torch.ones(1)})


@pytest.mark.parametrize("count", ["3", 2.5, True])
def test_a_number_of_classes_is_a_whole_number(count):
    with pytest.raises(InputError, match=r"num_classes is .*, must be a whole number, at least 1"):
        small_model().register_classification_head("x", count)
