"""The verb classify: a label for each text, by a head that was trained for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roberta_hub.verbs.predictions import prediction_columns, prediction_format, prediction_view
from roberta_hub.verbs.question import Parts, Question, VerbModel

if TYPE_CHECKING:
    from roberta_hub.inference.classify import Prediction

_NO_HEAD = (
    "roberta.tiny, the model in the box, labels pairs only (--pair A B). For labels in words, "
    "without training: roberta-hub zero-shot TEXT --labels good,bad. For a model of your own: "
    "roberta-hub fit reviews.csv, then classify -m with the folder that it writes"
)


def answers(
    model: VerbModel,
    texts: Sequence[Any],
    *,
    head: str | None = None,
    multi_label: bool | None = None,
) -> list[Prediction]:
    """Ask a classification head. See `RobertaHubInterface.classify`."""
    from roberta_hub.inference.classify import classify

    head = model.heads.find_for(texts, head, "classify")
    return classify(model.runner, texts, model.heads, head, multi_label)


CLASSIFY: Question[Prediction, list[Prediction]] = Question(
    name="classify",
    help="""Give each text a label, by a head that was trained for it.

    The answer has the label, its probability `score`, and the `scores` of all labels; where a text
    may have several labels, it also has `labels`. Without -m the model in the box judges pairs:
    entailment, neutral or contradiction.
    """,
    examples=(
        'roberta-hub classify -m mine "I loved every minute of it."',
        "roberta-hub classify -m mine -i reviews.csv --text text -o labels.csv",
        'roberta-hub classify --pair "A dog ran." "An animal moved."',
    ),
    options={"head": {}, "multi_label": {"flags": ("--multi-label/--single-label",)}},
    answers=answers,
    of_empty="its label",
    columns=prediction_columns,
    answer_format=prediction_format,
    view=prediction_view,
    parts_of_tiny=Parts(least=2, hint=_NO_HEAD),
    asked_columns=("scores",),
    any_count=True,
)
