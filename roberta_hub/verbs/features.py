"""The verb features: the model's hidden states, of each token or pooled."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from roberta_hub.verbs.question import (
    AnswerFormat,
    Columns,
    Parts,
    Question,
    Settings,
    later,
)
from roberta_hub.verbs.vectors import vector_columns, vector_format

if TYPE_CHECKING:
    from torch import Tensor

    from roberta_hub.inference.verb_model import VerbModel


def _columns(model: VerbModel, texts: Sequence[Any], found: list[Tensor] | Tensor) -> Columns:
    if not isinstance(found, list):
        return vector_columns(model, texts, found)
    pieces = model.runner.tokenizer.pieces
    return {"tokens": [pieces(ids) for ids in model.runner.ids(texts)], "vectors": found}


def _answer_format(settings: Settings) -> AnswerFormat:
    if settings.get("pooling") is not None:
        return vector_format(settings)
    return AnswerFormat(
        Parts(),
        sample={"tokens": [""], "vectors": [array("f")]},
        titles=("tokens", "width"),
        line=lambda record: (len(record["vectors"]), len(record["vectors"][0])),
    )


FEATURES: Question[Tensor, list[Tensor] | Tensor] = Question(
    name="features",
    help="""Compute the model's hidden states.

    The answer has `tokens` and their `vectors`; or one `vector`, with --pooling.
    """,
    examples=(
        'roberta-hub features "A dog ran." -o features.jsonl',
        "roberta-hub features -i corpus.txt --pooling mean -o features.npy",
    ),
    options={"layer": {}, "pooling": {}, "normalize": {}},
    answers=later(lambda: import_module("roberta_hub.inference.features").features),
    columns=_columns,
    answer_format=_answer_format,
)
