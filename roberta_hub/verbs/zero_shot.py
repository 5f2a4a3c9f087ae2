"""The verb zero_shot: zero-shot classification with the caller's labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roberta_hub.settings import HYPOTHESIS
from roberta_hub.verbs.predictions import prediction_columns, prediction_format, prediction_view
from roberta_hub.verbs.question import Question, VerbModel

if TYPE_CHECKING:
    from roberta_hub.inference.classify import Prediction


def answers(
    model: VerbModel,
    texts: Sequence[Any],
    *,
    labels: Sequence[str],
    hypothesis: str = HYPOTHESIS,
    head: str | None = None,
    multi_label: bool = False,
    by: str | None = None,
) -> list[Prediction]:
    """Judge labels in words. See `RobertaHubInterface.zero_shot`."""
    from roberta_hub.inference.zero_shot import ZeroShotModel, zero_shot

    return zero_shot(
        ZeroShotModel(model.runner, model.heads, model.sentence, model.zero_shot),
        texts,
        labels,
        hypothesis=hypothesis,
        head=head,
        multi_label=multi_label,
        by=by,
    )


ZERO_SHOT: Question[Prediction, list[Prediction]] = Question(
    name="zero_shot",
    help="""Give each text one of your own labels, without training.

    A head for natural-language inference judges whether the text entails the hypothesis, and
    sentence vectors say which label is near. The answer has the label, its probability `score`,
    and the `scores` of all labels.
    """,
    examples=(
        'roberta-hub zero-shot "I was charged twice." --labels billing,delivery,praise',
        "roberta-hub zero-shot -i reviews.csv --text text --labels good,bad -f csv",
    ),
    options={
        "labels": {"needed": True},
        "hypothesis": {"metavar": "TEXT"},
        "head": {},
        "multi_label": {},
        "by": {},
    },
    answers=answers,
    of_empty="its label",
    columns=prediction_columns,
    answer_format=prediction_format,
    view=prediction_view,
    asked_columns=("scores",),
)
