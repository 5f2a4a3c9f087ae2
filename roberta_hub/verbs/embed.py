"""The verb embed: one vector of each text, as the model was trained to make it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from roberta_hub.verbs.question import Question, later
from roberta_hub.verbs.vectors import vector_columns, vector_format

if TYPE_CHECKING:
    from torch import Tensor


EMBED: Question[Tensor, Tensor] = Question(
    name="embed",
    help="""Compute one vector of each text, pooled and normalized as the model was trained to.

    The answer has the `vector`. Parquet holds vectors as lists of a fixed size, .npy holds them
    alone, one row a text.
    """,
    examples=(
        "roberta-hub embed -i reviews.csv --text text -o vectors.parquet",
        "printf 'A dog ran.\\nGoal!\\n' | roberta-hub embed -o vectors.npy",
    ),
    options={
        "prompt": {"metavar": "TEXT"},
        "prompt_name": {},
        "truncate_dim": {"ends": (1, None)},
        "dtype": {},
        "ranges": {"metavar": "FILE"},
    },
    answers=later(lambda: import_module("roberta_hub.inference.embed").embed),
    of_empty="its vector",
    columns=vector_columns,
    answer_format=vector_format,
)
