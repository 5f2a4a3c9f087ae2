"""Says what formats of other libraries hold of a head, and what they cannot; and of vectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from roberta_hub.arguments import advise
from roberta_hub.checkpoint.checkpoint import (
    HEADS,
    POOLER,
    SPAN_HEADS,
    TOKEN_HEADS,
    Checkpoint,
)
from roberta_hub.errors import CheckpointError, Remedy
from roberta_hub.settings import DEFAULT_THRESHOLD, FACTS, HeadType


def facts_elsewhere(kind: HeadType) -> dict[str, dataclasses.Field[Any]]:
    """List the facts that files of other libraries hold, by our keys there.

    Example:
        >>> [*facts_elsewhere("token")]
        ['roberta_hub_words']
    """
    return {
        f"roberta_hub_{name}": fact
        for name, fact in FACTS.items()
        if fact.metadata["elsewhere"] and fact.metadata["of"] == kind
    }


def check_first_token(checkpoint: Checkpoint, whose: str, heads: Sequence[str]) -> None:
    """Refuse heads that read another vector than `<s>`, which other libraries' classes read."""
    known = {head: checkpoint.known(head) for head in heads}
    pooled = [head for head, own in known.items() if own.pooling != "cls" or own.normalize]
    if not pooled:
        return
    what = "the mean of all tokens" if known[pooled[0]].pooling != "cls" else "vectors of length 1"
    read = f"{'reads' if len(pooled) == 1 else 'read'} {what}"
    raise CheckpointError(
        f"head {', '.join(map(repr, pooled))} {read}, and {whose} reads <s> alone, so that it "
        "would answer otherwise",
        remedy=Remedy(
            "save as 'roberta_hub', or make a head of <s> by fit(..., pooling=\"cls\")",
            "give --to roberta_hub, or make a head of <s> by `roberta-hub fit --pooling cls`",
        ),
    )


def held_by_fairseq(checkpoint: Checkpoint, head: str | None = None) -> Checkpoint:
    """Return the checkpoint with the heads that fairseq's RoBERTa can hold, and warn of the others.

    Those are its classification heads; of a model whose own head is none of them nothing is left
    out, so that writing it is refused.
    """
    able = [*checkpoint.heads()]
    if head is not None and head not in able:
        there = [*checkpoint.token_heads(), *checkpoint.span_heads()]
        what = "a head for tokens or spans" if head in there else "there is none of that name"
        raise CheckpointError(
            f"fairseq's RoBERTa has classification heads only, and {head!r} is no such head "
            f"({what}); there are {', '.join(able) or 'none'}"
        )
    if head is None and checkpoint.default_head not in able:
        return checkpoint
    keep = able if head is None else [head]
    prefixes = tuple(f"{HEADS}{name}." for name in keep)
    advise_of_heads(checkpoint, "fairseq's", keep)
    return dataclasses.replace(
        checkpoint,
        weights={
            name: tensor
            for name, tensor in checkpoint.weights.items()
            if not name.startswith((HEADS, TOKEN_HEADS, SPAN_HEADS)) or name.startswith(prefixes)
        },
        known_heads={name: own for name, own in checkpoint.known_heads.items() if name in keep},
        default_head=checkpoint.default_head if checkpoint.default_head in keep else head,
    )


def advise_of_heads(
    checkpoint: Checkpoint, whose: str, written: Sequence[str], others: Sequence[str] = ()
) -> None:
    """Warn of heads that a format leaves out."""
    there = [*checkpoint.heads(), *checkpoint.token_heads(), *checkpoint.span_heads()]
    left = [name for name in there if name not in (*written, *others)]
    if left:
        advise(
            f"{whose} format gets head {', '.join(map(repr, written))} of this model, without "
            f"{', '.join(map(repr, left))}",
            remedy=Remedy(
                "head=NAME chooses another, and format='roberta_hub' holds all",
                "--head NAME chooses another, and --to roberta_hub holds all",
            ),
        )


def advise_of_thresholds(checkpoint: Checkpoint, whose: str, heads: Sequence[str]) -> None:
    """Warn where heads have thresholds, which other libraries' files have no place for."""
    chosen = [
        head for head in heads if {*(checkpoint.known(head).thresholds or ())} - {DEFAULT_THRESHOLD}
    ]
    if chosen:
        advise(
            f"{whose} format has no place for thresholds, so that head "
            f"{', '.join(map(repr, chosen))} gives a label there from a probability of "
            f"{DEFAULT_THRESHOLD} on"
        )


def advise_of_refusals(checkpoint: Checkpoint, whose: str, heads: Sequence[str]) -> None:
    """Warn where heads refuse answers, which other libraries' files have no place for."""
    refusing = [head for head in heads if checkpoint.known(head).reject_below is not None]
    if refusing:
        advise(
            f"{whose} format has no place for reject_below, so that head "
            f"{', '.join(map(repr, refusing))} gives every text a label there",
            remedy=Remedy("format='roberta_hub' keeps it", "--to roberta_hub keeps it"),
        )


def advise_of_vectors(checkpoint: Checkpoint, whose: str) -> None:
    """Warn where a model has a pooler or settings of vectors, which a format has no place for."""
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
