"""Declares `roberta-hub similar`: semantic search."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice

import click

from roberta_hub.errors import InputError, placed
from roberta_hub.shell.options import Request, examples, takes_texts, takes_topk
from roberta_hub.shell.reading import STDIN, Item, from_file
from roberta_hub.shell.run_verb import load_requested
from roberta_hub.shell.writing import open_sink
from roberta_hub.verbs.question import AnswerFormat, Cells, Parts, Record, Share

BLOCK_ROWS = 2048
"""Texts per block of the search (that of inference/search.py, which imports torch)."""


@click.command(
    epilog=examples(
        'roberta-hub similar "a dog" -i corpus.txt',
        'roberta-hub similar "late delivery" -i reviews.csv --column text -k 3 -f jsonl',
    )
)
@takes_topk("How many texts for each query.")
@takes_texts
def similar(request: Request, topk: int) -> int:
    """Find the texts of a file, or of standard input, that are nearest to each TEXT.

    The answer has `hits`, the nearest first: the text, its place `index`, counted from 0, and its
    `score`, the cosine. The search is exact, and the file may be larger than memory.
    """
    if not request.texts or request.pairs:
        raise click.UsageError("give the texts to look for as arguments, and the corpus with -i")
    queries = [Item((text,), f"argument {n}") for n, text in enumerate(request.texts, 1)]
    hit = {"index": 0, "score": 0.0, "text": ""}
    answer_format = AnswerFormat(Parts(most=1, one="query"), sample={"hits": [hit]}, block=_hits)
    corpus = _Corpus(request)
    with open_sink(request, answer_format) as sink:
        roberta = load_requested(request)
        with placed(
            lambda at: (
                queries[at.index].where if at.argument == "queries" else corpus.where(at.index)
            )
        ):
            found = roberta.search(list(request.texts), corpus.texts(), topk, **request.options)
        sink.write(queries, [{"hits": [hit.to_dict() for hit in hits]} for hits in found])
    return 0


def _hits(answer: Record) -> Sequence[Cells]:
    hits = answer["hits"]
    cosines = all(-1.01 < hit["score"] < 1.01 for hit in hits)
    rows: list[Cells] = [
        (Share(hit["score"]) if cosines else hit["score"], hit["index"], hit["text"])
        for hit in hits
    ]
    return rows


class _Corpus:
    """The texts to search, and the places of the latest."""

    def __init__(self, request: Request) -> None:
        """Open a corpus and read its first text, so that errors come before the model is loaded.

        Args:
            request: names the file and the column.
        """
        every = from_file(request.source or "-", request.columns, Parts(most=1))
        self._items = (item for item in every if item is not None)
        self._ahead = list(islice(self._items, 1))
        if not self._ahead:
            raise InputError(f"{request.source or STDIN}: no texts, so nothing is similar")
        self._count = 0
        self._places: deque[str] = deque(maxlen=2 * BLOCK_ROWS)

    def texts(self) -> Iterator[str]:
        """Read the texts, one by one."""
        for item in chain(self._ahead, self._items):
            self._places.append(item.where)
            self._count += 1
            yield item.texts[0]

    def where(self, number: int) -> str:
        """Place of one of the latest texts."""
        return self._places[number - self._count]
