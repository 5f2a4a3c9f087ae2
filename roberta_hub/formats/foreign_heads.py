"""Says what formats of other libraries cannot hold of a classification head, or of vectors."""

from __future__ import annotations

from collections.abc import Sequence

from roberta_hub.arguments import advise
from roberta_hub.checkpoint.checkpoint import POOLER, Checkpoint
from roberta_hub.errors import CheckpointError, Remedy
from roberta_hub.settings import DEFAULT_THRESHOLD, HeadSettings


def check_first_token(checkpoint: Checkpoint, whose: str, heads: Sequence[str]) -> None:
    """Refuse heads that read another vector than `<s>`, from which other libraries' classes answer.

    Args:
        checkpoint: of the model.
        whose: what the library's class is called.
        heads: that are written.

    Raises:
        CheckpointError: one reads the mean of all tokens, or a vector of length 1.
    """
    settings = {head: _settings(checkpoint, head) for head in heads}
    pooled = [head for head, own in settings.items() if own.pooling != "cls" or own.normalize]
    if not pooled:
        return
    what = (
        "the mean of all tokens" if settings[pooled[0]].pooling != "cls" else "vectors of length 1"
    )
    read = f"{'reads' if len(pooled) == 1 else 'read'} {what}"
    raise CheckpointError(
        f"head {', '.join(map(repr, pooled))} {read}, and {whose} reads <s> alone, so that it "
        "would answer otherwise",
        remedy=Remedy(
            "save as 'roberta_hub', or make a head of <s> by fit(..., pooling=\"cls\")",
            "give --to roberta_hub, or make a head of <s> by `roberta-hub fit --pooling cls`",
        ),
    )


def advise_of_thresholds(checkpoint: Checkpoint, whose: str, heads: Sequence[str]) -> None:
    """Warn where heads have thresholds, which other libraries' files have no place for.

    Args:
        checkpoint: of the model.
        whose: what the library is called.
        heads: that are written.
    """
    chosen = [
        head
        for head in heads
        if any(
            number != DEFAULT_THRESHOLD for number in _settings(checkpoint, head).thresholds or ()
        )
    ]
    if chosen:
        advise(
            f"{whose} format has no place for thresholds, so that head "
            f"{', '.join(map(repr, chosen))} gives a label there from a probability of "
            f"{DEFAULT_THRESHOLD} on"
        )


def advise_of_vectors(checkpoint: Checkpoint, whose: str) -> None:
    """Warn where a model has a pooler or settings of vectors, which a format has no place for.

    Args:
        checkpoint: of the model.
        whose: what the library is called.
    """
    lost = []
    if checkpoint.has(POOLER):
        lost.append("the pooler")
    if checkpoint.sentence is not None:
        longest = checkpoint.config.max_positions
        lost.append(f"how embed makes vectors ({checkpoint.sentence.summary(longest)})")
    if lost:
        advise(
            f"{whose} format has no place for {' and '.join(lost)}, so that what was written "
            "lacks it; the formats 'roberta_hub' and 'huggingface' hold it"
        )


def _settings(checkpoint: Checkpoint, head: str) -> HeadSettings:
    return checkpoint.head_settings.get(head, HeadSettings())
