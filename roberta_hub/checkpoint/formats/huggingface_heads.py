"""The one head of a Hugging Face model: its name here, and what config.json says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roberta_hub.checkpoint.checkpoint import Checkpoint, distinct, plain_inputs
from roberta_hub.errors import CheckpointError

HEAD = "sentence_classification_head"
"""What the one classifier of a Hugging Face model is called here; it has no name there."""
TOKEN_HEAD = "token_classification_head"
"""And that of a token classifier."""
SPAN_HEAD = "question_answering_head"
"""And that of a model for question answering."""
INPUTS = "roberta_hub_inputs"
"""Our key in config.json, which transformers keeps and does not read."""


def read_heads(hf: dict[str, Any], checkpoint: Checkpoint) -> None:
    """Put what config.json says of the head into the checkpoint: labels, what it was trained on."""
    for head, (count, _) in checkpoint.heads().items():
        checkpoint.labels[head] = _labels(hf, count, head, checkpoint.source)
        checkpoint.inputs = plain_inputs({head: hf.get(INPUTS)})
        checkpoint.task = "sentence_prediction"
    for head, count in checkpoint.token_heads().items():
        checkpoint.labels[head] = _labels(hf, count, head, checkpoint.source)


def _labels(hf: dict[str, Any], num_classes: int, head: str, source: str) -> tuple[str, ...]:
    table = hf.get("id2label")
    table = table if isinstance(table, dict) else {}
    shown = [str(table.get(str(i), f"LABEL_{i}")) for i in range(num_classes)]
    return distinct(shown, head, source)


def choice_name(key: str) -> str:
    """A tensor of a model for multiple choice, by the name it has in one for classification."""
    for theirs, ours in (
        ("roberta.pooler.dense", "classifier.dense"),
        ("classifier", "classifier.out_proj"),
    ):
        if key in (f"{theirs}.weight", f"{theirs}.bias"):
            return key.replace(theirs, ours)
    return key


def chosen_head(heads: Sequence[str], head: str | None) -> str | None:
    """The head to save: the named one, else the only one; None where there is none."""
    if head is None and len(heads) > 1:
        raise CheckpointError(
            f"a Hugging Face model holds one classifier and this one has {len(heads)}: choose with "
            f"save(..., head=...) among {', '.join(heads)}"
        )
    if head is not None and head not in heads:
        raise CheckpointError(f"no head {head!r} to save; there are {', '.join(heads) or 'none'}")
    return head or next(iter(heads), None)


def about_head(head: str | None, checkpoint: Checkpoint) -> dict[str, Any]:
    """What config.json says of the head, in place of a model's without one."""
    if head is None:
        return {}
    if head in checkpoint.span_heads():
        return {"architectures": ["RobertaForQuestionAnswering"]}
    tokens = checkpoint.token_heads()
    kind = "Token" if head in tokens else "Sequence"
    count = tokens[head] if head in tokens else checkpoint.heads()[head][0]
    shown = checkpoint.labels.get(head, ())
    if len(shown) != count:
        shown = tuple(f"LABEL_{i}" for i in range(count))
    about: dict[str, Any] = {
        "architectures": [f"RobertaFor{kind}Classification"],
        "id2label": {str(i): label for i, label in enumerate(shown)},
        "label2id": {label: i for i, label in enumerate(shown)},
    }
    return about | ({INPUTS: checkpoint.inputs[head]} if head in checkpoint.inputs else {})
