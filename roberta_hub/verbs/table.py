"""Table of the verbs that answer each row separately."""

from __future__ import annotations

from typing import Any

from roberta_hub.verbs.answer import ANSWER
from roberta_hub.verbs.choose import CHOOSE
from roberta_hub.verbs.classify import CLASSIFY
from roberta_hub.verbs.embed import EMBED
from roberta_hub.verbs.features import FEATURES
from roberta_hub.verbs.fill_mask import FILL_MASK
from roberta_hub.verbs.question import Question
from roberta_hub.verbs.rank import RANK
from roberta_hub.verbs.score import SCORE
from roberta_hub.verbs.similarity import SIMILARITY
from roberta_hub.verbs.tag import TAG
from roberta_hub.verbs.zero_shot import ZERO_SHOT

QUESTIONS: dict[str, Question[Any, Any]] = {
    question.name: question
    for question in (
        CLASSIFY,
        ZERO_SHOT,
        EMBED,
        FEATURES,
        SIMILARITY,
        SCORE,
        FILL_MASK,
        TAG,
        ANSWER,
        CHOOSE,
        RANK,
    )
}
"""Verbs by method name; a new verb is a file here and a line in this table."""
