"""search(): the nearest of every corpus, however it is given, beside the plain search."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from roberta_hub import Hit, RobertaHubError, RobertaHubInterface, SentenceSettings
from roberta_hub.inference import search
from roberta_hub.inference.embed import similarities

CORPUS = [
    f"{animal} {verb}" for animal in ("A dog", "A cat", "Mary") for verb in ("ran", "sat", "ate.")
]


def plain(queries: Tensor, corpus: Tensor, topk: int) -> list[list[tuple[int, float]]]:
    """Every score, sorted: of equals the first."""
    scores = similarities(queries, corpus, "cosine")
    return [sorted(enumerate(row.tolist()), key=lambda found: -found[1])[:topk] for row in scores]


def assert_hits(found: list[list[Hit]], wanted: list[list[tuple[int, float]]]) -> None:
    assert [[hit.index for hit in hits] for hits in found] == [
        [index for index, _ in hits] for hits in wanted
    ]
    for hits, pairs in zip(found, wanted, strict=True):
        assert [hit.score for hit in hits] == pytest.approx([score for _, score in pairs], abs=1e-6)


@given(
    st.integers(0, 40), st.integers(0, 5), st.integers(1, 12), st.integers(1, 9), st.integers(0, 99)
)
@settings(max_examples=60, deadline=None)
def test_blocks_find_what_the_plain_search_finds(
    rows: int, queries: int, topk: int, block: int, seed: int
) -> None:
    """Few directions, so that many scores are equal to the last bit."""
    generator = torch.Generator().manual_seed(seed)
    corpus = torch.randint(-1, 2, (rows, 2), generator=generator).float() * 2 + 0.5
    asked = torch.randint(-1, 2, (queries, 2), generator=generator).float() + 0.5
    parts = [
        search.CorpusBlock(start, corpus[start : start + block], None)
        for start in range(0, rows, block)
    ]
    found = search.search_vectors(asked, parts, topk, "dot")
    scores = (asked @ corpus.T).tolist()
    wanted = [sorted(enumerate(row), key=lambda pair: -pair[1])[:topk] for row in scores]
    assert_hits(found, wanted)


def test_every_form_of_a_corpus(
    roberta: RobertaHubInterface, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(search, "BLOCK_ROWS", 4)
    queries = ["A dog ate.", "Mary sat"]
    vectors, corpus = roberta.embed(queries), roberta.embed(CORPUS)
    wanted = plain(vectors, corpus, 3)
    np.save(tmp_path / "corpus.npy", corpus.numpy())
    on_disk = np.load(tmp_path / "corpus.npy", mmap_mode="r")
    for asked in (queries, vectors, vectors.numpy()):
        for given_ in (corpus, corpus.double(), on_disk):
            found = roberta.search(asked, given_, 3)
            assert_hits(found, wanted)
            assert all(hit.text is None for hits in found for hit in hits)
        for texts in (CORPUS, iter(CORPUS), (text for text in CORPUS)):
            found = roberta.search(asked, texts, topk=3)
            assert_hits(found, wanted)
            assert all(hit.text == CORPUS[hit.index] for hits in found for hit in hits)
    assert_hits([roberta.search(queries[0], CORPUS, 3)], wanted[:1])


def test_sizes_at_the_edge(roberta: RobertaHubInterface) -> None:
    assert [hit.index for hit in roberta.search("Mary", ["one"], topk=9)] == [0]
    assert roberta.search("Mary", []) == []
    assert roberta.search(["Mary", "dog"], iter([])) == [[], []]
    assert roberta.search([], CORPUS) == []
    assert roberta.search(["Mary"], torch.empty(0, 32)) == [[]]
    pair = roberta.search([("a", "b")], [("a", "b"), "c"], topk=1)[0][0]
    assert (pair.index, pair.text) == (0, ("a", "b"))


def test_a_corpus_that_comes_one_by_one_is_not_held(
    roberta: RobertaHubInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "BLOCK_ROWS", 8)
    ahead = []

    def texts() -> Iterator[str]:
        for i in range(100):
            ahead.append(i)
            yield f"{i} {CORPUS[i % 9]}"

    sizes: list[int] = []
    embed = search.corpus_blocks

    def watched(corpus: Any, function: Any) -> Iterator[search.CorpusBlock]:
        for block in embed(corpus, function):
            sizes.append(len(ahead) - block.start)
            yield block

    monkeypatch.setattr(search, "corpus_blocks", watched)
    hits = roberta.search("A dog ran", texts(), topk=2)
    assert len(hits) == 2 and sizes == [8] * 12 + [4]


def test_equal_texts_in_order(roberta: RobertaHubInterface) -> None:
    corpus = roberta.embed(["same", *CORPUS, "same", "same"])
    assert [hit.index for hit in roberta.search("same", corpus, topk=2)] == [0, 10]


def test_queries_and_corpus_get_their_prompts(roberta: RobertaHubInterface) -> None:
    told = copy.copy(roberta)
    told.sentence = SentenceSettings(
        prompts={"query": "query: ", "passage": "passage: "}, default_prompt="query"
    )
    found = told.search(["a dog"], CORPUS, topk=9)
    vectors = told.embed(CORPUS, prompt_name="passage")
    assert_hits(found, plain(told.embed(["a dog"], prompt_name="query"), vectors, 9))
    told.sentence = SentenceSettings(prompts={"sts": "sts: "}, default_prompt="sts")
    assert_hits(
        told.search(["a dog"], CORPUS, 9), plain(roberta.embed(["a dog"]), roberta.embed(CORPUS), 9)
    )


@pytest.mark.parametrize(
    ("corpus", "error", "says"),
    [
        ("a text", TypeError, "corpus is one str"),
        (torch.zeros(2, 5), ValueError, "width 5, and the others have 32"),
        (torch.zeros(32), ValueError, r"shape \(32,\)"),
        (torch.full((3, 32), torch.inf), ValueError, r"corpus\[0:\]\[0\] holds NaN or infinity"),
        (["a", 3], TypeError, r"corpus\[1\]"),
        (({"a"}), TypeError, "no order"),
        (3, TypeError, "corpus is a int"),
        (["a", "b " * 99], ValueError, r"corpus\[1\]: too long"),
    ],
)
def test_what_is_no_corpus(
    roberta: RobertaHubInterface, corpus: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says) as raised:
        roberta.search("Mary", corpus)
    assert isinstance(raised.value, RobertaHubError)


def test_an_error_names_the_place_in_the_whole_corpus(
    roberta: RobertaHubInterface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "BLOCK_ROWS", 2)
    with pytest.raises(TypeError, match=r"corpus\[3\]: a int"):
        roberta.search("Mary", itertools.chain(["a", "b", "c"], [3]))
    with pytest.raises(ValueError, match=r"corpus\[3\]: too long"):
        roberta.search("Mary", ["a", "b", "c", "d " * 99])
    with pytest.raises(ValueError, match="topk is 0"):
        roberta.search("Mary", CORPUS, topk=0)
