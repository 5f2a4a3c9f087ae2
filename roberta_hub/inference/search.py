"""Finds the texts of a corpus whose vectors are nearest to those of queries: exactly, in blocks."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NoReturn

import torch
from torch import Tensor

from roberta_hub.arguments import no_item, shown, whole_number
from roberta_hub.errors import InputError, InputTypeError, Place, placed
from roberta_hub.inference.batching import Runner
from roberta_hub.inference.embed import (
    are_vectors,
    as_tensor,
    check_vectors,
    embed,
    similarities,
    vectors_of,
)
from roberta_hub.rows.frames import advise_of_nothing
from roberta_hub.settings import SentenceSettings
from roberta_hub.text.texts import as_texts
from roberta_hub.text.tokenizer import Text

_OF_QUERIES = ("query",)
_OF_CORPUS = ("document", "passage", "corpus")
"""Names of prompts by which sentence-transformers tells what is searched from what is found."""
BLOCK = 2048
"""Texts or vectors of a corpus that are looked at together, and queries too: 16 MB of scores."""


@dataclass(frozen=True)
class Hit:
    """One text of a corpus that a query found; `str` gives the score and the text."""

    index: int
    """Its place in the corpus."""
    score: float
    """How near it is; by default the cosine."""
    text: str | tuple[str, ...] | None
    """The text itself; None where the corpus is given as vectors."""

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
        """Name it by its text, or by its place in the corpus where that has no texts.

        Example:
            >>> Hit(7, 0.9, None).named()
            'corpus[7]'
        """
        if self.text is None:
            return f"corpus[{self.index}]"
        return self.text if isinstance(self.text, str) else " | ".join(self.text)


def ask(
    runner: Runner, settings: SentenceSettings, queries: Any, corpus: Any, topk: int
) -> tuple[list[Text], list[list[Hit]]]:
    """Find the nearest of a corpus for each query. See `RobertaHubInterface.search`.

    Args:
        runner: of the model, with the settings' limit.
        settings: of the model; its prompts for queries and for what is searched are put before.
        queries: one str, texts or vectors.
        corpus: texts or vectors.
        topk: most hits of a query.

    Returns:
        The queries, those without a text by their number, and the hits of each.
    """
    topk = whole_number("topk", topk, 1)
    asked, found = (
        next((settings.prompts[name] for name in names if name in settings.prompts), "")
        for names in (_OF_QUERIES, _OF_CORPUS)
    )
    texts: list[Text] = []  # of the queries, an iterator's too; vectors have none

    def of_queries(given: Sequence[Text]) -> Tensor:
        texts.extend(given)
        return embed(runner, given, settings, asked)

    vectors = vectors_of(queries, "queries", of_queries)
    blocks = corpus_blocks(corpus, lambda given: embed(runner, given, settings, found))
    hits = search(vectors, blocks, topk, settings.similarity)
    return texts or [f"query {i}" for i in range(len(hits))], hits


@dataclass(frozen=True)
class Block:
    """Neighbours in a corpus."""

    start: int
    """The place of the first."""
    vectors: Tensor
    """(m, C)"""
    texts: Sequence[Text] | None


def search(queries: Tensor, blocks: Iterable[Block], topk: int, similarity: str) -> list[list[Hit]]:
    """Find the nearest of all vectors for each query; of equals, those that come first.

    Args:
        queries: (q, C)
        blocks: of the corpus, in order.
        topk: most hits of a query; a smaller corpus gives fewer.
        similarity: of `SIMILARITIES`.

    Returns:
        The hits of each query, the nearest first.
    """
    asked = torch.split(queries, BLOCK)
    best = [Nearest.none(part) for part in asked]
    texts: dict[int, Text] = {}
    for block in blocks:
        vectors = check_vectors(block.vectors, f"corpus[{block.start}:]", queries.size(1))
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
    """The best of what was seen so far, for some queries."""

    scores: Tensor
    """(q, k), the highest first."""
    indices: Tensor
    """(q, k), of the corpus."""

    @classmethod
    def none(cls, queries: Tensor) -> Nearest:
        """Return what is known before the first block."""
        return cls(
            queries.new_empty(len(queries), 0, dtype=torch.float32),
            queries.new_empty(len(queries), 0, dtype=torch.long),
        )

    def with_block(self, scores: Tensor, start: int, topk: int) -> Nearest:
        """Return the best of these and of a block.

        Args:
            scores: of the block. Shape: (q, m)
            start: the place of its first vector in the corpus.
            topk: how many to keep.
        """
        places = first_best(scores, topk)
        scores = torch.cat([self.scores.to(scores.dtype), scores.gather(1, places)], dim=1)
        indices = torch.cat([self.indices, places + start], dim=1)
        # What was seen before stands in front, so that it stays there among equals.
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        return Nearest(scores[:, :topk], indices.gather(1, order)[:, :topk])


def first_best(scores: Tensor, topk: int) -> Tensor:
    """Find the places of the highest scores of each row, in order of place.

    Among equal scores `torch.topk` takes any; here the first are taken.

    Args:
        scores: (q, m)
        topk: how many.

    Returns:
        (q, min(topk, m)) int64.

    Example:
        >>> first_best(torch.tensor([[1.0, 3.0, 2.0, 2.0]]), 2)
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
    """Make what tells the place in the corpus from the one in a block that begins at `start`."""
    return lambda at: Place("corpus", at.index + start)


def corpus_blocks(corpus: Any, embed: Callable[[Sequence[Text]], Tensor]) -> Iterator[Block]:
    """Cut a corpus into blocks: vectors, a list of texts, or what yields texts one by one.

    Args:
        corpus: what the caller passed.
        embed: from some texts to vectors.

    Raises:
        InputTypeError: it is none of these; the message names the item.
    """
    if isinstance(corpus, str):
        raise InputTypeError(f"corpus is one str, {shown(corpus)}; pass a list of texts")
    if are_vectors(corpus):
        if len(corpus.shape) != 2:
            raise InputError(
                f"corpus has shape {tuple(corpus.shape)}; pass vectors of shape (n, C), as embed "
                "gives them for a list"
            )
        for start in range(0, len(corpus), BLOCK):
            yield Block(start, as_tensor(corpus[start : start + BLOCK]), None)
        return
    one_by_one = isinstance(corpus, Iterator) and not isinstance(corpus, io.IOBase)  # no lines
    items = corpus if one_by_one else iter(as_texts(corpus, "corpus")[0])
    start = 0
    while part := list(islice(items, BLOCK)):
        with placed(_in_corpus(start)):
            texts = as_texts(part, "corpus")[0] if one_by_one else part
            vectors = embed(texts)
        yield Block(start, vectors, texts)
        start += len(part)
    if one_by_one and not start:
        advise_of_nothing(corpus, "corpus")
