"""The verb embed: one vector of each text, as the model was trained to make it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roberta_hub.settings import SentenceSettings
from roberta_hub.verbs.question import Question, VerbModel
from roberta_hub.verbs.vectors import vector_columns, vector_format

if TYPE_CHECKING:
    from torch import Tensor


def answers(
    model: VerbModel,
    texts: Sequence[Any],
    *,
    prompt: str | None = None,
    prompt_name: str | None = None,
    truncate_dim: int | None = None,
) -> Tensor:
    """Compute sentence vectors, (n, C). See `RobertaHubInterface.embed`."""
    from roberta_hub.inference.embed import embed, within_limit

    settings = model.sentence or SentenceSettings()
    before = settings.find_prompt(prompt, prompt_name)
    return embed(within_limit(model.runner, settings), texts, settings, before, truncate_dim)


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
    options={"prompt": {"metavar": "TEXT"}, "prompt_name": {}, "truncate_dim": {"ends": (1, None)}},
    answers=answers,
    of_empty="its vector",
    columns=vector_columns,
    answer_format=vector_format,
)
