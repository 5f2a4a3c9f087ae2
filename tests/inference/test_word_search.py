"""search(words=True, rerank=): BM25 beside vectors, reciprocal ranks, and a second look."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import small_roberta

from roberta_hub import RobertaHubInterface
from roberta_hub.errors import InputError, InputTypeError, UnknownNameError

pytest.importorskip("bm25s")

from roberta_hub.inference.word_index import WordIndex, fused, words_of

CORPUS = [f"{who} {did}" for who in ("A dog", "A cat", "Mary") for did in ("ran", "sat", "ate.")]


@pytest.fixture(scope="module")
def judge() -> RobertaHubInterface:
    return small_roberta(heads={"grade": 1})


def plain_bm25(corpus: list[str], query: str) -> list[float]:
    """Robertson's sum in Lucene's form, word by word."""
    texts = [Counter(words_of(text)) for text in corpus]
    mean = sum(map(Counter.total, texts)) / len(texts)
    scores = []
    for own in texts:
        score = 0.0
        for word in words_of(query):
            having = sum(word in text for text in texts)
            idf = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
            norm = own[word] + 1.5 * (1 - 0.75 + 0.75 * own.total() / mean)
            score += idf * own[word] / norm
        scores.append(score)
    return scores


@given(
    st.lists(st.text("abcde ", max_size=12), min_size=1, max_size=12), st.text("abcdf ", max_size=9)
)
@settings(max_examples=60, deadline=None)
def test_the_ranking_of_words_is_that_of_the_plain_sum(corpus: list[str], query: str) -> None:
    scores = plain_bm25(corpus, query) if any(map(words_of, corpus)) else [0.0] * len(corpus)
    found = WordIndex(corpus).ranked(query)
    assert {i for i, score in enumerate(scores) if score > 0} == {*found}
    assert [scores[i] for i in found] == pytest.approx(sorted(map(scores.__getitem__, found))[::-1])


def test_words_are_compared_without_case_marks_and_composition() -> None:
    index = WordIndex(["Café in 東京", "हिन्दी में", ("one", "two")])
    assert index.ranked("CAFE\u0301!") == [0] and index.ranked("京") == [0]
    assert index.ranked("हिन्दी") == [1] and index.ranked(("Two", "?")) == [2]
    assert index.ranked("") == index.ranked("...") == index.ranked("three") == []


def test_search_joins_two_rankings(roberta: RobertaHubInterface) -> None:
    corpus = [*CORPUS, "order 4711"]
    queries = ["Mary ran", "4711", "unknown"]
    near = roberta.search(queries, corpus, 10)
    index = WordIndex(corpus)
    for given_ in (corpus, iter(corpus)):
        found = roberta.search(queries, given_, 4, words=True)
        for query, hits, by_vectors in zip(queries, found, near, strict=True):
            wanted = fused([[hit.index for hit in by_vectors], index.ranked(query)], 4)
            assert [(hit.index, hit.score) for hit in hits] == wanted
            assert all(hit.text == corpus[hit.index] for hit in hits)
    assert [hit.index for hit in found[2]] == [hit.index for hit in near[2][:4]]  # no such word
    assert found[0][0].score <= 2 / 61
    assert roberta.search("4711", corpus, 2, words=True)[0].score == pytest.approx(
        1 / 61 + 1 / (61 + [hit.index for hit in near[1]].index(9))
    )


def test_edges_of_words(roberta: RobertaHubInterface) -> None:
    assert roberta.search("Mary", [], words=True) == []
    assert roberta.search([], CORPUS, words=True) == []
    assert roberta.search(["Mary"], iter([]), words=True) == [[]]
    assert len(roberta.search("?!", ["...", "!"], words=True)) == 2  # no word at all
    pair = roberta.search([("a", "b")], [("a", "b"), "c"], topk=1, words=True)[0][0]
    assert (pair.index, pair.text) == (0, ("a", "b"))
    for queries, corpus, name in (
        (roberta.embed(["a"]), CORPUS, "queries"),
        ("a", roberta.embed(CORPUS), "corpus"),
    ):
        with pytest.raises(InputTypeError, match=f"compares words, and {name} is vectors"):
            roberta.search(queries, corpus, words=True)
    with pytest.raises(InputTypeError, match="words is 'no'"):
        roberta.search("a", CORPUS, words="no")  # type: ignore[call-overload]


@pytest.mark.parametrize("words", [False, True])
def test_a_second_look(
    roberta: RobertaHubInterface, judge: RobertaHubInterface, words: bool
) -> None:
    corpus = [f"{n} {text}" for n in range(4) for text in CORPUS]
    queries = ["A dog", "Mary sat"]
    found = roberta.search(queries, corpus, 3, rerank=judge, words=words)
    for query, hits, own in zip(
        queries, found, roberta.search(queries, corpus, 20, words=words), strict=True
    ):
        wanted = judge.rank(query, [str(hit.text) for hit in own], 3)
        assert [hit.text for hit in hits] == [hit.text for hit in wanted]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in wanted], abs=1e-6)
        assert all(corpus[hit.index] == hit.text for hit in hits)
    one = roberta.search("A dog", corpus, 3, rerank=judge, words=words)
    assert [hit.index for hit in one] == [hit.index for hit in found[0]]
    assert len(roberta.search("A dog", corpus, 9, rerank=judge)) == 9
    assert roberta.search("A dog", [], rerank=judge) == []


def test_what_cannot_be_looked_at_again(
    roberta: RobertaHubInterface, judge: RobertaHubInterface
) -> None:
    vectors = roberta.embed(CORPUS)
    tries: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"rerank": "a.name"}, InputTypeError, "rerank is a str; pass a cross-encoder, load_model"),
        ({"rerank": small_roberta()}, UnknownNameError, "one output"),
        ({"corpus": vectors, "rerank": judge}, InputTypeError, "and corpus is vectors; pass texts"),
        ({"queries": vectors, "rerank": judge}, InputTypeError, "and queries is vectors"),
        ({"corpus": [("a", "b")], "rerank": judge}, InputTypeError, r"corpus\[0\]: a pair"),
        (
            {"corpus": ["b", "a " * 99], "rerank": judge},
            InputError,
            r"corpus\[1\]",
        ),
    ]
    for changes, error, says in tries:
        with pytest.raises(error, match=says):
            roberta.search(**{"queries": ["a"], "corpus": CORPUS, **changes})
    assert torch.is_tensor(vectors)
