"""Declares the verbs on vectors: embed, features, similar."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from roberta_hub.errors import InputError, placed
from roberta_hub.shell.asking import ask, ids_of, load
from roberta_hub.shell.drawing import Cells, Share
from roberta_hub.shell.formats import Answer, Form
from roberta_hub.shell.grammar import Asked, examples, takes_rows, takes_texts, takes_topk
from roberta_hub.shell.reading import STDIN, Item, Parts, from_file
from roberta_hub.shell.writing import opened

BLOCK = 2048
"""Texts that the search looks at together (inference/search.py, which brings torch)."""

if TYPE_CHECKING:
    from torch import Tensor

    from roberta_hub.interface import RobertaHubInterface


def _floats(vector: Tensor) -> array[float]:
    return array("f", vector.float().cpu().tolist())


def _summary(answer: Answer) -> Cells:
    """Tell the width of a vector, and its first numbers."""
    vector = answer["vector"]
    return len(vector), " ".join(f"{number:+.2f}" for number in vector[:4])


_VECTOR = Form(
    Parts(), sample={"vector": array("f")}, titles=("width", "begins with"), line=_summary
)


@click.command(
    epilog=examples(
        "roberta-hub embed -i reviews.csv --column text -o vectors.parquet",
        "printf 'A dog ran.\\nGoal!\\n' | roberta-hub embed -o vectors.npy",
    )
)
@click.option("--prompt", metavar="TEXT", help='Put this before each text: "query: ".')
@click.option("--prompt-name", metavar="NAME", help="Or one of the model's own prompts.")
@takes_rows
def embed(asked: Asked, prompt: str | None, prompt_name: str | None) -> int:
    """Compute one vector of each text, pooled and normalized as the model was trained to.

    The answer has the `vector`. Parquet holds vectors as lists of a fixed size, .npy holds them
    alone, one row a text.
    """

    def question(roberta: RobertaHubInterface, texts: list[Any]) -> Sequence[Answer]:
        found = roberta.embed(texts, prompt, prompt_name=prompt_name, **asked.options)
        return [{"vector": _floats(vector)} for vector in found]

    settings = {"prompt": prompt, "prompt_name": prompt_name}
    return ask(asked, _VECTOR, question, settings=settings)


@click.command(
    epilog=examples(
        'roberta-hub features "A dog ran." -o features.jsonl',
        "roberta-hub features -i corpus.txt --pooling mean -o features.npy",
    )
)
@click.option(
    "--layer",
    default=-1,
    show_default=True,
    metavar="N",
    help="-1 the features, 0 the embeddings, k the k-th layer.",
)
@click.option(
    "--pooling",
    metavar="KIND",
    type=click.Choice(["cls", "mean", "max", "pooler"]),
    help="cls, mean, max or pooler: one vector for each text, not for each token.",
)
@click.option("--normalize", is_flag=True, help="Give each vector the length 1.")
@takes_rows
def features(asked: Asked, layer: int, pooling: Any, normalize: bool) -> int:
    """Compute the model's hidden states.

    The answer has `tokens` and their `vectors`; or one `vector`, with --pooling.
    """

    def question(roberta: RobertaHubInterface, texts: list[Any]) -> Sequence[Answer]:
        settings: Any = {"layer": layer, "pooling": pooling, "normalize": normalize}
        found = roberta.features(texts, **settings, **asked.options)
        if pooling is not None:
            return [{"vector": _floats(vector)} for vector in found]
        ids = ids_of(roberta, texts, truncate=asked.truncate)
        return [
            {"tokens": roberta.tokenizer.pieces(row), "vectors": list(map(_floats, states))}
            for row, states in zip(ids, found, strict=True)
        ]

    form = Form(
        Parts(),
        sample={"tokens": [""], "vectors": [array("f")]},
        titles=("tokens", "width"),
        line=lambda answer: (len(answer["vectors"]), len(answer["vectors"][0])),
    )
    settings = {"layer": layer, "pooling": pooling, "normalize": normalize}
    form = form if pooling is None else _VECTOR
    return ask(asked, form, question, settings=settings)


@click.command(
    epilog=examples(
        'roberta-hub similar "a dog" -i corpus.txt',
        'roberta-hub similar "late delivery" -i reviews.csv --column text -k 3 -f jsonl',
    )
)
@takes_topk("How many texts for each query.")
@takes_texts
def similar(asked: Asked, topk: int) -> int:
    """Find the texts of a file, or of standard input, that are nearest to each TEXT.

    The answer has `hits`, the nearest first: the text, its place `index`, counted from 0, and its
    `score`, the cosine. The search is exact, and the file may be larger than memory.
    """
    if not asked.texts or asked.pairs:
        raise click.UsageError("give the texts to look for as arguments, and the corpus with -i")
    queries = [Item((text,), f"argument {n}") for n, text in enumerate(asked.texts, 1)]
    hit = {"index": 0, "score": 0.0, "text": ""}
    form = Form(Parts(most=1, one="query"), sample={"hits": [hit]}, block=_hits)
    corpus = _Corpus(asked)
    with opened(asked, form) as sink:
        roberta = load(asked)
        with placed(
            lambda at: (
                queries[at.index].where if at.argument == "queries" else corpus.where(at.index)
            )
        ):
            found = roberta.search(list(asked.texts), corpus.texts(), topk, **asked.options)
        sink.write(queries, [{"hits": [hit.to_dict() for hit in hits]} for hits in found])
    return 0


def _hits(answer: Answer) -> Sequence[Cells]:
    hits = answer["hits"]
    cosines = all(-1.01 < hit["score"] < 1.01 for hit in hits)
    rows: list[Cells] = [
        (Share(hit["score"]) if cosines else hit["score"], hit["index"], hit["text"])
        for hit in hits
    ]
    return rows


class _Corpus:
    """The texts that are searched, and where the last of them stand."""

    def __init__(self, asked: Asked) -> None:
        """Open a corpus, and read its first text: what is wrong is said before a model is loaded.

        Args:
            asked: names the file and the column.
        """
        every = from_file(asked.source or "-", asked.columns, Parts(most=1))
        self._items = (item for item in every if item is not None)
        self._ahead = list(islice(self._items, 1))
        if not self._ahead:
            raise InputError(f"{asked.source or STDIN}: no texts, so nothing is similar")
        self._count = 0
        self._places: deque[str] = deque(maxlen=2 * BLOCK)

    def texts(self) -> Iterator[str]:
        """Read the texts, one by one."""
        for item in chain(self._ahead, self._items):
            self._places.append(item.where)
            self._count += 1
            yield item.texts[0]

    def where(self, number: int) -> str:
        """Tell where one of the last texts stands."""
        return self._places[number - self._count]
