"""The verb similarity, of the two texts of a row."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from roberta_hub.verbs.question import AnswerFormat, Columns, Parts, Question, Settings, later

if TYPE_CHECKING:
    from roberta_hub.inference.verb_model import VerbModel


def _columns(model: VerbModel, pairs: Sequence[tuple[str, str]], found: list[float]) -> Columns:
    return {"similarity": found}


def _answer_format(settings: Settings) -> AnswerFormat:
    return AnswerFormat(Parts(least=2), sample={"similarity": 0.0})


SIMILARITY: Question[float, list[float]] = Question(
    name="similarity",
    help="",
    examples=(),
    answers=later(lambda: import_module("roberta_hub.inference.similarity").similarity),
    columns=_columns,
    answer_format=_answer_format,
    what_columns='text=("first", "second")',
)
