"""Measures labelled spans as seqeval does: one is right if its place and its label are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from roberta_hub.arguments import short_repr
from roberta_hub.errors import InputError
from roberta_hub.evaluation.labels import OF_LABELS, label_groups
from roberta_hub.evaluation.records import Evaluation
from roberta_hub.evaluation.tasks import Asked, at_rows
from roberta_hub.inference.tag import OUTSIDE, entities, tag_words
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.measures.counts import count_labels, f1s, precision_recall_f1
from roberta_hub.measures.intervals import bootstrap_interval
from roberta_hub.rows.left_out import NO_TEXT, LeftOut
from roberta_hub.train.data.conll import text_of
from roberta_hub.train.data.roles import nonempty
from roberta_hub.train.fitting.span_layouts import SpanTable
from roberta_hub.train.fitting.spans import checked

Found = set[tuple[str, int, int]]
"""(label, first word, last word) of the spans of a sentence; of a text the label, and its start and
end in characters."""


def spans(asked: Asked, source: SpanTable) -> Evaluation:
    """Measure the spans of texts: at the words where these are given, else as `tag` finds them."""
    asked.takes("spans", "text", "label", "labels", "head")
    return _at_words(asked, source) if source.sentences else _in_texts(asked, source)


def _at_words(asked: Asked, source: SpanTable) -> Evaluation:
    """Measure sentences whose words are given: each gets what the head says at its first piece."""
    assert source.sentences is not None
    roberta, head, known = _head(asked)
    rule = roberta._heads.words(head)
    sentences = nonempty(source.sentences(rule != "words"), source.name)
    joined = OUTSIDE in known
    wanted = [
        {(asked.labels.get(label, label), a, b) for label, a, b in entities(own, joined=joined)}
        for own in (one.tags for one in sentences)
    ]
    _check_known(wanted, known, head, source.name)
    joined_words = [text_of(one.words, spaced=rule == "words") for one in sentences]
    texts, places = [text for text, _ in joined_words], [own for _, own in joined_words]
    with at_rows([one.where for one in sentences]):
        tags = tag_words(roberta._runner(**asked.options), texts, places, head, known, rule)
    given = [{*entities([tag for tag, _ in own], joined=joined)} for own in tags]
    how = f"head {head}, at the words of the file"
    unread = sum(score == 0 for own in tags for _, score in own)
    said = "words that were cut off or have no piece of their own, and count as outside"
    notes = (f"{said}: {unread:,}",) if unread else ()
    notes = (*notes, *asked.known(texts))
    return _measured(asked, source, how, wanted, given, notes)


def _in_texts(asked: Asked, source: SpanTable) -> Evaluation:
    """Measure the spans that `tag` finds in texts, by their places in characters."""
    roberta, head, known = _head(asked)
    left = LeftOut()
    rows = checked(source.read(), left)
    for reason, count in left.reasons.items():
        if reason != NO_TEXT:
            where, exactly = count.first[0]
            raise InputError(f"{reason} {exactly}".rstrip(), place=where)
    left.check(rows, source.name)
    wanted = [{(asked.labels.get(la, la), start, end) for start, end, la in r.spans} for r in rows]
    _check_known(wanted, known, head, source.name)
    with at_rows([row.where for row in rows]):
        found = roberta.tag([row.text for row in rows], head, **asked.options)
    given = [{(span.label, span.start, span.end) for span in own} for own in found]
    how = f"head {head}, by places in characters"
    notes = (*left.counted(), *asked.known([row.text for row in rows]))
    return _measured(asked, source, how, wanted, given, notes)


def _head(asked: Asked) -> tuple[RobertaHubInterface, str, tuple[str, ...]]:
    """The model, the token head that is asked, and its labels."""
    head = asked.head_of("token")
    return asked.roberta, head, asked.roberta.head_labels(head)


def _measured(
    asked: Asked,
    source: SpanTable,
    how: str,
    wanted: Sequence[Found],
    given: Sequence[Found],
    notes: tuple[str, ...] = (),
) -> Evaluation:
    counts = count_labels(wanted, given, lambda span: span[0])
    numbers = precision_recall_f1(*counts.totals())
    groups = label_groups(counts, sorted({label for label, _ in counts.labels}))
    means = [group.numbers["f1"] for group in groups]
    return Evaluation(
        model=asked.name,
        task=source.name,
        kind="spans",
        verb="tag",
        how=how,
        shape=source.layout,
        rows=len(wanted),
        numbers={
            "f1": numbers["f1"],
            "precision": numbers["precision"],
            "recall": numbers["recall"],
            "f1_macro": sum(means) / len(means) if means else 0.0,
        },
        interval=bootstrap_interval(counts.rows, f1s),
        groups=groups,
        notes=notes,
    )


def _check_known(wanted: Sequence[Found], tags: Sequence[str], head: str, name: str) -> None:
    joined = OUTSIDE in tags
    known = {label for label, _, _ in entities(tags, joined=joined)} - {OUTSIDE}
    counts = Counter(label for own in wanted for label, _, _ in own)
    if unknown := [label for label in counts if label not in known]:
        shown = ", ".join(f"{short_repr(label)} ({counts[label]:,})" for label in unknown[:10])
        raise InputError(
            f"{name} has spans with labels that head {head!r} does not know: {shown}; it knows "
            f"{', '.join(sorted(known))[:300]}",
            remedy=OF_LABELS,
        )
