"""What a verb asks: a model, with its heads and settings, as a caller wants it run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from roberta_hub.errors import Place, RobertaHubError
from roberta_hub.inference.batching import Runner
from roberta_hub.inference.heads import Heads
from roberta_hub.settings import SentenceSettings, ZeroShotSettings

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class VerbModel:
    """Parts of a model that the verbs use."""

    runner: Runner
    """Runner of the model, with the caller's options."""
    heads: Heads
    """The model's heads."""
    sentence: SentenceSettings | None
    """Settings of sentence vectors; None: not trained to make them."""
    zero_shot: ZeroShotSettings | None
    """Recorded settings of zero-shot labelling, if any."""
    task: str
    """fairseq's name of its training task; "": none."""


def one_by_one(rows: Sequence[Any], answer: Callable[[Any], Answer]) -> list[Answer]:
    """Answer row by row; errors about a part of a row also name the row."""
    answers = []
    for i, row in enumerate(rows):
        try:
            answers.append(answer(row))
        except RobertaHubError as error:
            if error.place is not None:  # not about a head, say
                error.within(Place("texts", i))
            raise
    return answers
