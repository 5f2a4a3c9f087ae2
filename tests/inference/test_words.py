"""extract_features_aligned_to_words: a spaCy Doc whose vectors add up to the pieces'."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from questions import states_of
from small_models import assert_close
from torch import Tensor

from roberta_hub import RobertaHubInterface
from roberta_hub.inference.words import POOLINGS, pool

spacy = pytest.importorskip("spacy")

SENTENCES = [
    'I said, "hello RoBERTa."',
    "You can’t be 🙂🙃 naïve, can't you?",
    "unbelievability",
    "",
    "日本語 text",
]
"""Without blanks that are pieces of their own, so that words cover every piece."""


def vectors(doc: Any) -> Tensor:
    return torch.stack([token.vector for token in doc])


def aligned(roberta: RobertaHubInterface, sentence: str, *args: Any, **options: Any) -> Any:
    with torch.no_grad():
        return roberta.extract_features_aligned_to_words(sentence, *args, **options)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_words_and_specials_add_up_to_the_pieces(
    roberta: RobertaHubInterface, sentence: str
) -> None:
    doc = aligned(roberta, sentence)
    tokens = [token.text for token in spacy.blank("en")(sentence)]
    assert [token.text for token in doc] == ["<s>", *tokens, "</s>"]
    features = states_of(roberta, roberta.encode(sentence))
    assert_close(vectors(doc).sum(0), features.sum(0))
    assert_close(doc[0].vector, features[0])
    assert_close(doc[-1].vector, features[-1])


def test_the_readmes_example_has_ten_words(roberta: RobertaHubInterface) -> None:
    doc = aligned(roberta, SENTENCES[0])
    assert len(doc) == 10
    assert doc.text.startswith('<s> I said, "hello RoBERTa."')


def test_each_word_is_the_sum_of_its_pieces(roberta: RobertaHubInterface) -> None:
    doc = aligned(roberta, "You can’t.", words=["You", "can", "’t", "."])
    features = states_of(roberta, roberta.encode("You can’t."))
    assert_close(doc[2].vector, features[2])
    assert_close(doc[3].vector, features[3:6].sum(0))
    assert_close(doc[4].vector, features[6])


@pytest.mark.parametrize(
    "sentence", ["trailing  ", "  in front", "double  space", " ", "\n", "a\tb "]
)
def test_blanks_do_no_harm(roberta: RobertaHubInterface, sentence: str) -> None:
    doc = aligned(roberta, sentence)
    found = vectors(doc)
    assert found.shape == (len(doc), 32) and found.isfinite().all()
    features = states_of(roberta, roberta.encode(sentence))
    assert_close(found[0], features[0])
    assert_close(found[-1], features[-1])
    for token, vector in zip(doc, found, strict=True):
        assert token.text.isspace() or vector.any()


def test_all_hiddens(roberta: RobertaHubInterface) -> None:
    found = vectors(aligned(roberta, SENTENCES[1], True))
    assert found.shape[1:] == (4, 32)
    assert_close(found[:, -1], vectors(aligned(roberta, SENTENCES[1])))
    ids = roberta.encode(SENTENCES[1])
    for layer in range(4):
        assert_close(found[:, layer].sum(0), states_of(roberta, ids, layer).sum(0))


@pytest.mark.system
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(roberta: RobertaHubInterface, dtype: torch.dtype) -> None:
    half = copy.deepcopy(roberta).to(dtype)
    found = vectors(aligned(half, SENTENCES[1]))
    assert found.dtype is dtype
    assert_close(found.float(), vectors(aligned(roberta, SENTENCES[1])), 6e-2)


@pytest.mark.system
def test_gradients_reach_the_model(roberta: RobertaHubInterface) -> None:
    own = copy.deepcopy(roberta)
    vectors(own.extract_features_aligned_to_words("Hello world")).square().sum().backward()
    assert own.model.encoder.sentence_encoder.layers[0].fc1.weight.grad.any()  # type: ignore[union-attr, index]


def test_own_words_that_are_not_in_the_text(roberta: RobertaHubInterface) -> None:
    with pytest.raises(ValueError, match=r"words\[1\], 'moon', does not occur"):
        aligned(roberta, "Hello world", words=["Hello", "moon"])
    with pytest.raises(ValueError, match="pooling is 'best'; choose sum, mean, first, max"):
        aligned(roberta, "Hello", pooling="best")
    with pytest.raises(ValueError, match="exceeds maximum length"):
        aligned(roberta, "word " * 60)


def test_pooling_by_hand() -> None:
    features = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    alignment = [[1, 2], [2, 3], [], [4]]  # piece 2 is shared by two words
    halves = features[2] / 2
    zeros = torch.zeros(3)
    wanted = {
        "sum": [features[1] + halves, halves + features[3], zeros, features[4]],
        "mean": [features[1:3].mean(0), features[2:4].mean(0), zeros, features[4]],
        "first": [features[1], features[2], zeros, features[4]],
        "max": [features[1:3].amax(0), features[2:4].amax(0), zeros, features[4]],
    }
    assert set(wanted) == set(POOLINGS)
    for pooling, words in wanted.items():
        found = pool(features, alignment, pooling)
        assert_close(found, torch.stack([features[0], *words, features[5]]))
