"""Exact nearest-neighbour search in a corpus, block by block."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NoReturn

import torch
from torch import Tensor

from roberta_hub.arguments import no_item, short_repr, switch, whole_number
from roberta_hub.errors import InputError, InputTypeError, Place, placed
from roberta_hub.inference.batching import Runner
from roberta_hub.inference.embed import (
    are_vectors,
    as_tensor,
    check_vectors,
    compared_width,
    similarities,
    text_vectors,
    vectors_of,
)
from roberta_hub.inference.precision import as_ranges, in_floats, ranges_of
from roberta_hub.inference.word_index import RANKED, WordIndex, fused, import_bm25s
from roberta_hub.rows.frames import warn_if_exhausted
from roberta_hub.settings import SentenceSettings
from roberta_hub.text.texts import advise_of_empty, as_texts, empty_places
from roberta_hub.text.tokenizer import Text

_OF_QUERIES = ("query",)
_OF_CORPUS = ("document", "passage", "corpus")
"""Names of sentence-transformers' prompts for queries and for documents."""
COMPARES_WORDS = "words=True compares words"
"""Why it takes no vectors."""
BLOCK_ROWS = 2048
"""Texts or vectors per block, of the corpus and of the queries: 16 MB of scores."""


@dataclass(frozen=True)
class Hit:
    """A text of the corpus found for a query; `str` gives the score and the text."""

    index: int
    """Index in the corpus."""
    score: float
    """Similarity to the query, by default the cosine. With `words=True` the sum of 1 / (60 + rank)
    over the two rankings, at most 2 / 61; with `rerank`, and of `rank`, the cross-encoder's."""
    text: str | tuple[str, ...] | None
    """The text; None if the corpus is vectors."""

    def __str__(self) -> str:
        return f"{self.score:.2f} {self.named()}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict of plain values, which `json.dumps` takes.

        Example:
            >>> Hit(7, 0.9, "Goal!").to_dict()
            {'index': 7, 'score': 0.9, 'text': 'Goal!'}
        """
        return dataclasses.asdict(self)

    def __getitem__(self, key: object) -> NoReturn:
        raise no_item(self, key)

    def named(self) -> str:
        """Return its text, or "corpus[index]" if the corpus is vectors.

        Example:
            >>> Hit(7, 0.9, None).named()
            'corpus[7]'
        """
        if self.text is None:
            return f"corpus[{self.index}]"
        return self.text if isinstance(self.text, str) else " | ".join(self.text)


def search_prompts(settings: SentenceSettings) -> tuple[str, str]:
    """Return what is put before queries, and before the texts of a corpus.

    Example:
        >>> search_prompts(SentenceSettings(prompts={"query": "ask: ", "passage": "text: "}))
        ('ask: ', 'text: ')
    """
    query, corpus = (
        next((settings.prompts[name] for name in names if name in settings.prompts), "")
        for names in (_OF_QUERIES, _OF_CORPUS)
    )
    return query, corpus


def search_texts(
    runner: Runner,
    settings: SentenceSettings,
    queries: Any,
    corpus: Any,
    topk: int,
    *,
    truncate_dim: int | None = None,
    ranges: Any = None,
    words: bool = False,
) -> tuple[list[Text], list[list[Hit]]]:
    """Find the nearest of a corpus for each query. See `RobertaHubInterface.search`."""
    topk = whole_number("topk", topk, 1)
    if words := switch("words", words):
        import_bm25s()
        check_texts(COMPARES_WORDS, queries=queries, corpus=corpus)
    within = None if ranges is None else as_ranges(ranges)
    width = compared_width(runner, settings, truncate_dim, queries, corpus)

    def embed(given: Sequence[Text], prompt: str) -> Tensor:
        return text_vectors(runner, given, settings, prompt, truncate_dim)

    asked, found = search_prompts(settings)
    texts: list[Text] = []  # of the queries, also of an iterator; none if they are vectors

    def of_queries(given: Sequence[Text]) -> Tensor:
        texts.extend(given)
        advise_of_empty(empty_places(given), "queries", "its nearest text")
        return embed(given, asked)

    vectors = vectors_of(queries, "queries", of_queries, width, within)
    within = ranges_of(corpus) if within is None else within
    blocks = corpus_blocks(corpus, lambda given: embed(given, found))
    empty: list[int] = []  # of the corpus, which may be larger than memory
    known: list[Text] | None = [] if words else None
    most = max(topk, RANKED) if words else topk
    noted = _noted(blocks, empty, known)
    hits = search_vectors(vectors, noted, most, settings.similarity, within)
    advise_of_empty(empty, "corpus", "its nearness to a query")
    if known is not None:
        hits = _fused_with_words(texts, hits, known, topk)
    return texts or [f"query {i}" for i in range(len(hits))], hits


@dataclass(frozen=True)
class CorpusBlock:
    """Consecutive vectors of a corpus."""

    start: int
    """Index of the first in the corpus."""
    vectors: Tensor
    """(m, C)"""
    texts: Sequence[Text] | None


def _noted(
    blocks: Iterable[CorpusBlock], empty: list[int], texts: list[Text] | None
) -> Iterator[CorpusBlock]:
    """Pass blocks on, and note the places of empty texts, and all texts where a list is given."""
    for block in blocks:
        empty += [block.start + i for i in empty_places(block.texts or ())]
        if texts is not None:
            texts += block.texts or ()
        yield block


def check_texts(why: str, **given: Any) -> None:
    """Refuse vectors where texts are read, before anything is embedded."""
    for name, value in given.items():
        if are_vectors(value):
            raise InputTypeError(f"{why}, and {name} is vectors; pass texts")


def _fused_with_words(
    queries: Sequence[Text], hits: Sequence[Sequence[Hit]], corpus: Sequence[Text], topk: int
) -> list[list[Hit]]:
    """Join what vectors found with what words find."""
    index = WordIndex(corpus)
    found = []
    for query, near in zip(queries, hits, strict=True):
        rankings = [hit.index for hit in near], index.ranked(query)
        found.append([Hit(i, score, corpus[i]) for i, score in fused(rankings, topk)])
    return found


def search_vectors(
    queries: Tensor,
    blocks: Iterable[CorpusBlock],
    topk: int,
    similarity: str,
    ranges: Tensor | None = None,
) -> list[list[Hit]]:
    """Find the nearest vectors for each query; ties go to the lower index.

    Blocks of int8 vectors and of bits are compared as floats: each is scored, and none is left
    out by a first look at its bytes.
    """
    asked = torch.split(queries, BLOCK_ROWS)
    best = [Nearest.none(part) for part in asked]
    texts: dict[int, Text] = {}
    for block in blocks:
        name = f"corpus[{block.start}:]"
        vectors = in_floats(block.vectors, name, queries.size(1), ranges)
        vectors = check_vectors(vectors, name, queries.size(1))
        best = [
            known.with_block(
                similarities(part, vectors.to(part.device), similarity), block.start, topk
            )
            for part, known in zip(asked, best, strict=True)
        ]
        if block.texts is not None:
            texts |= {block.start + i: text for i, text in enumerate(block.texts)}
            kept = {index for known in best for index in known.indices.flatten().tolist()}
            texts = {index: text for index, text in texts.items() if index in kept}
    return [
        [Hit(index, score, texts.get(index)) for index, score in zip(*row, strict=True)]
        for known in best
        for row in zip(known.indices.tolist(), known.scores.tolist(), strict=True)
    ]


@dataclass(frozen=True)
class Nearest:
    """The nearest vectors so far, for some queries."""

    scores: Tensor
    """(q, k), the highest first."""
    indices: Tensor
    """Indices in the corpus, (q, k)."""

    @classmethod
    def none(cls, queries: Tensor) -> Nearest:
        """Return the state before the first block."""
        return cls(
            queries.new_empty(len(queries), 0, dtype=torch.float32),
            queries.new_empty(len(queries), 0, dtype=torch.long),
        )

    def with_block(self, scores: Tensor, start: int, topk: int) -> Nearest:
        """Merge a block into the nearest vectors.

        Args:
            scores: of the block. Shape: (q, m)
            start: index of its first vector in the corpus.
            topk: how many to keep.
        """
        places = stable_topk(scores, topk)
        scores = torch.cat([self.scores.to(scores.dtype), scores.gather(1, places)], dim=1)
        indices = torch.cat([self.indices, places + start], dim=1)
        # Earlier vectors come first, so the stable sort keeps them first among ties.
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        return Nearest(scores[:, :topk], indices.gather(1, order)[:, :topk])


def stable_topk(scores: Tensor, topk: int) -> Tensor:
    """Indices of the highest scores of each row, ascending; ties go to the lower index.

    `torch.topk` breaks ties arbitrarily.

    Example:
        >>> stable_topk(torch.tensor([[1.0, 3.0, 2.0, 2.0]]), 2)
        tensor([[1, 2]])
    """
    count = min(topk, scores.size(1))
    if not count:
        return scores.new_empty(len(scores), 0, dtype=torch.long)
    values, places = scores.topk(count, dim=1)
    last = values[:, -1:]
    crowded = (scores == last).sum(1) > (values == last).sum(1)
    if bool(crowded.any()):
        order = scores[crowded].argsort(dim=1, descending=True, stable=True)
        places[crowded] = order[:, :count]
    return places.sort(dim=1).values


def _in_corpus(start: int) -> Callable[[Place], Place]:
    """Return a function from places in a block to places in the corpus."""
    return lambda at: Place("corpus", at.index + start)


def corpus_blocks(corpus: Any, embed: Callable[[Sequence[Text]], Tensor]) -> Iterator[CorpusBlock]:
    """Split a corpus into blocks: vectors, a list of texts, or an iterator of texts."""
    if isinstance(corpus, str):
        raise InputTypeError(f"corpus is one str, {short_repr(corpus)}; pass a list of texts")
    if are_vectors(corpus):
        if len(corpus.shape) != 2:
            raise InputError(
                f"corpus has shape {tuple(corpus.shape)}; pass vectors of shape (n, C), as embed "
                "gives them for a list"
            )
        for start in range(0, len(corpus), BLOCK_ROWS):
            yield CorpusBlock(start, as_tensor(corpus[start : start + BLOCK_ROWS]), None)
        return
    one_by_one = isinstance(corpus, Iterator) and not isinstance(corpus, io.IOBase)  # no lines
    items = corpus if one_by_one else iter(as_texts(corpus, "corpus")[0])
    start = 0
    while part := list(islice(items, BLOCK_ROWS)):
        with placed(_in_corpus(start)):
            texts = as_texts(part, "corpus")[0] if one_by_one else part
            vectors = embed(texts)
        yield CorpusBlock(start, vectors, texts)
        start += len(part)
    if one_by_one and not start:
        warn_if_exhausted(corpus, "corpus")
