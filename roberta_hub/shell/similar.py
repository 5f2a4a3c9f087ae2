"""Declares `roberta-hub similar`: semantic search."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from roberta_hub.errors import Advice, InputError, placed
from roberta_hub.indexing import is_index
from roberta_hub.shell.formats import Sink
from roberta_hub.shell.layout import AnsweredRow, Layout
from roberta_hub.shell.options import Request, complete_model, examples, takes_texts
from roberta_hub.shell.reading import STDIN, Item, check_words, open_source
from roberta_hub.shell.run_verb import load_requested
from roberta_hub.shell.signature import takes_arguments
from roberta_hub.shell.tally import Tally, fault_error
from roberta_hub.shell.writing import open_sink
from roberta_hub.verbs.question import AnswerFormat, Cells, Parts, Record, Share

if TYPE_CHECKING:
    from roberta_hub.interface import RobertaHubInterface

BLOCK_ROWS = 2048
"""Texts per block of the search (that of inference/search.py, which imports torch)."""


@click.command(
    epilog=examples(
        'roberta-hub similar "a dog" -i corpus.txt',
        'roberta-hub similar "late delivery" -i reviews.csv --text text -k 3 -f jsonl',
    )
)
@takes_arguments(
    "interface.py",
    "search",
    rerank={"metavar": "MODEL", "shell_complete": complete_model},
    truncate_dim={"ends": (1, None)},
    ranges=None,
)
@takes_arguments("indexing/opened.py", "search", ("where", "exact"), where={"metavar": "SQL"})
@takes_texts
def similar(request: Request, topk: int, where: str | None, exact: bool, **settings: Any) -> int:
    """Find the texts of a file, or of standard input, that are nearest to each TEXT.

    The answer has `hits`, the nearest first: the text, its place `index`, counted from 0, and its
    `score`, the cosine. The search is exact, and the file may be larger than memory, unless words
    are compared too.

    FILE may be an index of `roberta-hub index`, FILE.lance: the vectors are there already, its
    model makes those of each TEXT, and a hit has the other columns as `row`.
    """
    if not request.texts or request.pairs:
        raise click.UsageError("give the texts to look for as arguments, and the corpus with -i")
    check_words(request.texts, need_a_file=request.source is None)
    queries = [Item((text,), f"argument {n}") for n, text in enumerate(request.texts, 1)]
    hit = {"index": 0, "score": 0.0, "text": ""}
    if request.keep is not None:
        raise click.UsageError(
            "--keep is for verbs that answer each row; hits have a place `index`"
        )
    answer_format = AnswerFormat(Parts(most=1, one="query"), sample={"hits": [hit]}, block=_hits)
    layout = Layout(answer_format, blocks=True)
    layout.set_names(queries)
    if not is_index(request.source):
        if where is not None or exact:
            raise click.UsageError("--where and --exact are for an index: -i FILE.lance")
        _in_file(request, layout, queries, topk, **settings)
        return 0
    if settings.pop("truncate_dim") is not None:
        raise click.UsageError("--truncate-dim is for a file; an index knows its width")
    _in_index(request, layout, queries, topk, where=where, exact=exact, **settings)
    return 0


def _in_index(
    request: Request,
    layout: Layout,
    queries: Sequence[Item],
    topk: int,
    rerank: str | None,
    **settings: Any,
) -> None:
    """Search an index on disk; it knows its model and its columns."""
    if request.columns or request.input_format:
        raise click.UsageError("--text and --input-format are for a file; an index knows its texts")
    from roberta_hub.indexing.opened import open_index

    with open_sink(request, layout) as sink:
        opened = open_index(str(request.source), request.model, device=request.device)
        second = _reranker(request, rerank)
        with placed(
            lambda at: queries[at.index].where if at.argument == "queries" else f"row {at.index}"
        ):
            found = opened.search(
                list(request.texts), topk, rerank=second, **settings, **request.options
            )
        _write(sink, queries, [[hit.to_dict() for hit in hits] for hits in found])


def _reranker(request: Request, name: str | None) -> RobertaHubInterface | None:
    return None if name is None else load_requested(replace(request, model=name))


def _in_file(
    request: Request,
    layout: Layout,
    queries: Sequence[Item],
    topk: int,
    rerank: str | None,
    **settings: Any,
) -> None:
    """Search the texts of a file, or of standard input."""
    corpus = _Corpus(request)
    with open_sink(request, layout) as sink:
        roberta = load_requested(request)
        second = _reranker(request, rerank)
        with (
            warnings.catch_warnings(),
            placed(
                lambda at: (
                    queries[at.index].where if at.argument == "queries" else corpus.where(at.index)
                )
            ),
        ):
            # The tally names the file's line.
            warnings.filterwarnings("ignore", r"corpus\[\d+\].* empty", Advice)
            found = roberta.search(
                list(request.texts),
                corpus.texts(),
                topk,
                rerank=second,
                **settings,
                **request.options,
            )
        _write(
            sink,
            queries,
            [
                [{**hit.to_dict(), "index": corpus.number(hit.index)} for hit in hits]
                for hits in found
            ],
        )
    corpus.tally.finish(request.errors)


def _write(sink: Sink, queries: Sequence[Item], found: Sequence[Sequence[Record]]) -> None:
    """Write the hits of each query."""
    sink.write(
        [
            AnsweredRow(query, {"hits": list(hits)})
            for query, hits in zip(queries, found, strict=True)
        ]
    )


def _hits(answer: Record) -> Sequence[Cells]:
    hits = answer["hits"]
    cosines = all(-1.01 < hit["score"] < 1.01 for hit in hits)
    rows: list[Cells] = [
        (Share(hit["score"]) if cosines else hit["score"], hit["index"], hit["text"])
        for hit in hits
    ]
    return rows


class _Corpus:
    """The texts to search, and the places of the latest; rows without a text are left out."""

    def __init__(self, request: Request) -> None:
        """Open a corpus and read its first text, so that errors come before the model is loaded."""
        name = request.source or "-"
        source = open_source(name, request.columns, Parts(most=1), request.input_format)
        self.tally = Tally()
        self._items = (item for item in source.items if item is not None)
        self._left_out: list[int] = []
        """How many texts come before each row that is left out."""
        self._count = 0
        self._places: deque[str] = deque(maxlen=2 * BLOCK_ROWS)
        self._first = next(self._with_texts(), None)
        if self._first is None:
            raise InputError(f"{request.source or STDIN}: no texts, so nothing is similar")

    def _with_texts(self) -> Iterator[Item]:
        for item in self._items:
            error = None if item.fault is None else fault_error(item)
            self.tally.add([AnsweredRow(item, None, error)])
            if error is None:
                yield item
            else:
                self._left_out.append(self._count)

    def texts(self) -> Iterator[str]:
        """Read the texts, one by one."""
        assert self._first is not None
        for item in chain([self._first], self._with_texts()):
            self._places.append(item.where)
            self._count += 1
            yield item.texts[0]

    def where(self, number: int) -> str:
        """Place of one of the latest texts; an older one's number."""
        behind = self._count - number
        return self._places[-behind] if behind <= len(self._places) else f"text {number}"

    def number(self, index: int) -> int:
        """Row of a text, from 0; those that are left out count."""
        return index + bisect_right(self._left_out, index)
