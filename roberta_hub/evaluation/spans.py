"""Measures labelled spans of sentences that are cut into words, as conlleval and seqeval do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError
from roberta_hub.evaluation.labels import OF_LABELS, precision_recall_f1
from roberta_hub.evaluation.records import Evaluation, Group
from roberta_hub.evaluation.tasks import Asked, at_rows
from roberta_hub.inference.tag import OUTSIDE, entities, tag_words
from roberta_hub.train.data.tagged_words import TaggedWords
from roberta_hub.train.fitting.measures import bootstrap_interval

Found = set[tuple[str, int, int]]
"""(label, first word, last word) of the spans of a sentence."""


def spans(asked: Asked, sentences: Sequence[TaggedWords], name: str, shape: str) -> Evaluation:
    """Measure precision, recall and F1 of spans: one is right if its words and its label are.

    The words are those of the task; each gets what the head says at its first piece.

    Args:
        asked: the model, and which head.
        sentences: with the right tags.
        name: of the task.
        shape: what it was found to be.

    Raises:
        InputError: labels that the head does not know; the message lists them.
        UnknownNameError: the model has no token head.
    """
    roberta = asked.roberta
    head = roberta._heads.find(asked.head, "token", "evaluate")
    known = roberta.head_labels(head)
    joined = OUTSIDE in known
    wanted = [
        {(asked.labels.get(la, la), a, b) for la, a, b in entities(one.tags, joined=joined)}
        for one in sentences
    ]
    labels = {label for label, _, _ in entities(known, joined=joined)} if joined else {*known}
    _check_known(wanted, labels, head, name)
    texts = [" ".join(one.words) for one in sentences]
    with at_rows([one.where for one in sentences]):
        tags = tag_words(
            roberta._runner(**asked.options),
            texts,
            [_places(one.words) for one in sentences],
            head,
            known,
            roberta._heads.words(head),
        )
    given = [{*entities([tag for tag, _ in own], joined=joined)} for own in tags]
    rows = torch.tensor([_counts(a, b) for a, b in zip(wanted, given, strict=True)]).double()
    numbers = precision_recall_f1(*map(int, rows.sum(0).tolist()))
    groups = _groups(wanted, given)
    means = [group.numbers["f1"] for group in groups]
    return Evaluation(
        model=asked.name,
        task=name,
        kind="spans",
        verb="tag",
        how=f"head {head}, at the words of the file",
        shape=shape,
        rows=len(sentences),
        numbers={
            "f1": numbers["f1"],
            "precision": numbers["precision"],
            "recall": numbers["recall"],
            "f1_macro": sum(means) / len(means) if means else 0.0,
        },
        interval=bootstrap_interval(rows, _f1),
        groups=groups,
    )


def _places(words: Sequence[str]) -> list[tuple[int, int]]:
    """Where words lie in the text that blanks make of them."""
    ends = accumulate(len(word) + 1 for word in words)
    return [(end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True)]


def _check_known(wanted: Sequence[Found], known: set[str], head: str, name: str) -> None:
    counts = Counter(label for own in wanted for label, _, _ in own)
    if unknown := [label for label in counts if label not in known]:
        shown = ", ".join(f"{short_repr(label)} ({counts[label]:,})" for label in unknown[:10])
        raise InputError(
            f"{name} has spans with labels that head {head!r} does not know: {shown}; it knows "
            f"{', '.join(sorted(known - {OUTSIDE}))[:300]}",
            remedy=OF_LABELS,
        )


def _counts(wanted: Found, given: Found) -> tuple[int, int, int]:
    """Right, missed and wrong spans of a sentence."""
    right = len(wanted & given)
    return right, len(wanted) - right, len(given) - right


def _f1(means: Tensor) -> Tensor:
    right, missed, wrong = means.unbind(1)
    return 2 * right / (2 * right + missed + wrong).clamp(min=1e-12)


def _groups(wanted: Sequence[Found], given: Sequence[Found]) -> tuple[Group, ...]:
    """Precision, recall and F1 of each label that is wanted or given."""
    labels = sorted({label for own in (*wanted, *given) for label, _, _ in own})
    found = []
    for label in labels:
        pairs = [
            _counts({s for s in a if s[0] == label}, {s for s in b if s[0] == label})
            for a, b in zip(wanted, given, strict=True)
        ]
        right, missed, wrong = (sum(column) for column in zip(*pairs, strict=True))
        numbers = precision_recall_f1(right, missed, wrong)
        found.append(Group("label", label, right + missed, numbers))
    return tuple(found)
