"""The verb similarity, of the two texts of a row."""

from __future__ import annotations

from collections.abc import Sequence

from roberta_hub.settings import SentenceSettings
from roberta_hub.verbs import embed
from roberta_hub.verbs.question import AnswerFormat, Columns, Parts, Question, Settings, VerbModel

PAIRS_AT_ONCE = 64
"""Pairs per block; a block of n computes n² cosines and keeps the diagonal."""


def answers(model: VerbModel, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Compare the first text of each row with its second. See `RobertaHubInterface.similarity`."""
    from roberta_hub.inference.embed import similarities

    kind = (model.sentence or SentenceSettings()).similarity
    first = embed.answers(model, [a for a, _ in pairs])  # (n, C)
    second = embed.answers(model, [b for _, b in pairs])  # (n, C)
    found: list[float] = []
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        block = slice(start, start + PAIRS_AT_ONCE)
        found += similarities(first[block], second[block], kind).diagonal().tolist()
    return found


def _columns(model: VerbModel, pairs: Sequence[tuple[str, str]], found: list[float]) -> Columns:
    return {"similarity": found}


def _answer_format(settings: Settings) -> AnswerFormat:
    return AnswerFormat(Parts(least=2), sample={"similarity": 0.0})


SIMILARITY: Question[float, list[float]] = Question(
    name="similarity",
    help="",
    examples=(),
    answers=answers,
    columns=_columns,
    answer_format=_answer_format,
    what_columns='text=("first", "second")',
)
