"""Correlates numbers that people gave, to pairs or texts, with a model's."""

from __future__ import annotations

from collections.abc import Sequence

from roberta_hub.errors import InputError, Remedy
from roberta_hub.evaluation.labels import Columns
from roberta_hub.evaluation.records import Evaluation
from roberta_hub.evaluation.tasks import Asked, at_rows, check_finite
from roberta_hub.inference.embed import similarities
from roberta_hub.measures.numbers import pearson, spearman
from roberta_hub.model.known_head import known_head
from roberta_hub.rows.labels import counted_weight, is_nan_word, labelled_rows
from roberta_hub.rows.left_out import LeftOut
from roberta_hub.rows.tables import Table
from roberta_hub.rows.values import is_blank, number_in
from roberta_hub.settings import SentenceSettings
from roberta_hub.text.tokenizer import Text

_CHUNK = 64
"""Pairs whose vectors are compared together."""


def scores(asked: Asked, table: Table, columns: Columns, head: str | None) -> Evaluation:
    """Correlate the numbers of a table with the model's, by Spearman's and Pearson's measure."""
    asked.takes("scores", "text", "label", "head", "weight")
    (column, *more) = columns.labels
    if more:
        raise InputError(f"{table.name}: scores are one column, not {len(more) + 1}")
    if head is None and asked.head is not None and asked.alone:
        known_head(asked.roberta.model, asked.head)
        raise InputError(
            f"head {asked.head!r} gives labels; scores are asked of a head of regression, or of "
            "vectors where no head is named"
        )
    if head is None and len(columns.texts) != 2:
        raise InputError(
            f"{table.name} has single texts, and vectors are compared in pairs",
            remedy=Remedy(
                "text=['a', 'b'] names two columns, and head=NAME asks a head of regression",
                "--text A,B names two columns, and --head NAME asks a head of regression",
            ),
        )
    texts: list[Text] = []
    where: list[str] = []
    wanted: list[float] = []
    weights: list[float] = []
    left = LeftOut()
    for row, text, value in labelled_rows(table, columns.texts, columns.labels, left):
        if is_blank(value) or is_nan_word(value):
            left.add("without a score", row.where)
            continue
        number = number_in(value)
        if number is None:
            raise row.error(f"the column {column!r} holds {value!r:.60}, which is no number")
        if weight := counted_weight(row, asked.weight, left):
            texts.append(text)
            where.append(row.where)
            wanted.append(number)
            weights.append(weight)
    left.check(texts, table.name)
    with at_rows(where):
        if head is None:
            found = pair_similarities(asked, texts)
        else:
            answers = asked.roberta.classify(texts, head, **asked.options)
            found = [answer.score for answer in answers]
    check_finite(found, where)
    numbers: dict[str, float | None] = {
        "spearman": spearman(found, wanted, weights),
        "pearson": pearson(found, wanted, weights),
    }
    notes = [*left.counted(), *asked.about_weight(), *asked.known(texts)]
    if numbers["spearman"] is None:
        notes.append("no correlation: all numbers of the table, or all answers, are the same")
    similarity = (asked.roberta.sentence or SentenceSettings()).similarity
    what = "scored pairs" if len(columns.texts) == 2 else "scored texts"
    return Evaluation(
        model=asked.name,
        task=table.name,
        kind="scores",
        verb="embed" if head is None else "classify",
        how=f"{similarity} of vectors" if head is None else f"head {head}",
        shape=f"{what} ({', '.join((*columns.texts, column))})",
        rows=len(texts),
        numbers=numbers,
        notes=tuple(notes),
    )


def pair_similarities(asked: Asked, pairs: Sequence[Text]) -> list[float]:
    """How near the two texts of each pair are, as `similarity` says."""
    roberta = asked.roberta
    flat = [text for pair in pairs for text in pair]
    vectors = roberta.embed(flat, **asked.options)
    one, other = vectors[::2], vectors[1::2]
    kind = (roberta.sentence or SentenceSettings()).similarity
    found: list[float] = []
    for start in range(0, len(one), _CHUNK):
        rows = slice(start, start + _CHUNK)
        found += similarities(one[rows], other[rows], kind).diagonal().tolist()
    return found
