"""Scores texts by how well they answer a query, by a cross-encoder (Nogueira and Cho 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from roberta_hub.arguments import short_repr, text_of, whole_number
from roberta_hub.errors import InputError, InputTypeError, Place, Remedy, placed
from roberta_hub.inference.classify import activate, activation_of, head_values
from roberta_hub.inference.heads import check_inputs
from roberta_hub.inference.search import Hit
from roberta_hub.inference.verb_model import VerbModel
from roberta_hub.text.tokenizer import Text

CANDIDATES_AT_LEAST = 20
"""Fewest hits that a cross-encoder orders."""
READS_TEXTS = "rerank reads a query with a text"
"""Why it takes no vectors."""
_NO_HEAD = Remedy(
    "load a cross-encoder, a model for reranking, or take label=NAME of a head of pairs: "
    "rank(..., label='entailment')",
    "-m takes a cross-encoder, a model for reranking; of a head of pairs --label NAME is taken: "
    "--label entailment",
)


def find_head(model: VerbModel, head: str | None = None, label: str | None = None) -> str:
    """Find the head that ranks."""
    heads = model.heads
    return heads.find(
        head,
        "classification",
        "rank",
        inputs="pair",
        fits=lambda name: len(heads.labels(name)) == 1 or label in heads.labels(name),
        need="classification head with one output, or with the label that is asked for",
        remedy=_NO_HEAD,
    )


def rank(
    model: VerbModel,
    pairs: Sequence[tuple[str, str]],
    *,
    head: str | None = None,
    label: str | None = None,
) -> list[float]:
    """Ask a head about (query, text): its sigmoid, or the probability of one of its labels."""
    heads = model.heads
    label = None if label is None else text_of("label", label)
    head = find_head(model, head, label)
    labels = heads.labels(head)
    check_inputs(pairs, head, heads.inputs(head))
    if len(labels) == 1 and label is None:
        return head_values(model.runner, pairs, head, vote=False)[:, 0].sigmoid().tolist()
    if label not in labels:
        given = "no label is given" if label is None else f"label is {short_repr(label)}"
        raise InputError(
            f"{given}, and head {head!r} has {', '.join(labels)}; rank takes the probability of "
            "one of them",
            remedy=Remedy("pass label=NAME", "say --label NAME"),
        )
    way = activation_of(heads.kind(head), None)
    logits = head_values(model.runner, pairs, head, vote=way == "softmax")
    return activate(logits, way)[:, labels.index(label)].tolist() if pairs else []


def best(
    model: VerbModel,
    query: str,
    texts: Sequence[str],
    *,
    topk: int | None = None,
    head: str | None = None,
    label: str | None = None,
) -> list[Hit]:
    """Rank texts by their scores, of equals the first. See `RobertaHubInterface.rank`."""
    most = len(texts) if topk is None else whole_number("topk", topk, 1)
    found = rank(model, [(query, text) for text in texts], head=head, label=label)
    order = sorted(range(len(texts)), key=lambda i: -found[i])
    return [Hit(i, found[i], texts[i]) for i in order[:most]]


def candidates(topk: int) -> int:
    """How many hits a cross-encoder orders, of which `topk` are kept: four times as many, or 20."""
    return max(CANDIDATES_AT_LEAST, 4 * topk)


def reranked(
    model: VerbModel, queries: Sequence[Text], found: Sequence[Sequence[Hit]], topk: int
) -> list[list[Hit]]:
    """Order the hits of each query by a cross-encoder, of equals the first, and keep `topk`."""
    pairs: list[tuple[str, str]] = []
    places: list[Place] = []
    for number, (query, hits) in enumerate(zip(queries, found, strict=True)):
        for hit in hits:
            pairs.append(
                (_single(query, "queries", number), _single(hit.text, "corpus", hit.index))
            )
            places.append(Place("corpus", hit.index))
    with placed(lambda at: places[at.index] if at.argument == "texts" else at):
        scores = iter(rank(model, pairs) if pairs else ())
    scored = [[replace(hit, score=next(scores)) for hit in hits] for hits in found]
    return [sorted(hits, key=lambda hit: -hit.score)[:topk] for hits in scored]


def _single(text: Text | None, name: str, number: int) -> str:
    if isinstance(text, str):
        return text
    raise InputTypeError(
        "a pair, and rerank reads a query with a text; pass single texts", place=Place(name, number)
    )
