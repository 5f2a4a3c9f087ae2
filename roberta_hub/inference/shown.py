"""Makes the verbs' lists drawable: bars of words, labels and hits, and spans inside their texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from roberta_hub.inference.classify import Prediction, parts_of
from roberta_hub.inference.fill_mask import Filled
from roberta_hub.inference.search import Hit
from roberta_hub.inference.tag import Span
from roberta_hub.show.bars import Bar, Bars
from roberta_hub.show.colours import CYCLE
from roberta_hub.show.display import Display, Part, ShownList
from roberta_hub.show.facts import Remark
from roberta_hub.show.words import Mark, Words
from roberta_hub.text.tokenizer import Text

MOST = 20
"""Texts whose answers are drawn; of the others their number is."""
LABELS = 3
"""Labels that are drawn of each of several texts."""
Answer = TypeVar("Answer")


def words(text: str, masks: list[Filled]) -> ShownList[Any]:
    """Draw what fills the masks of one text.

    Args:
        text: with one mask or more.
        masks: what fills each.

    Returns:
        What fills the mask, where there is one; else a list of these.
    """

    def display(items: Sequence[Any]) -> Display:
        return Display(text, _word_parts(items), {"text": text, "words": _fillings(items)})

    return ShownList(masks[0] if len(masks) == 1 else masks, display)


def words_of_many(texts: Sequence[str], found: list[list[Filled]]) -> ShownList[Any]:
    """Draw what fills the masks of several texts."""
    drawn = [words(text, masks) for text, masks in zip(texts, found, strict=True)]
    return _several(texts, drawn, _word_parts, _fillings)


def predictions(texts: Sequence[Text], found: list[Prediction]) -> ShownList[Prediction]:
    """Draw the most probable labels of each text."""
    return _several(texts, found, lambda one: parts_of(one, LABELS), Prediction.to_dict)


def spans(text: str, found: list[Span]) -> ShownList[Span]:
    """Draw the spans of a text inside it."""

    def display(items: Sequence[Span]) -> Display:
        values = {"text": text, "spans": [span.to_dict() for span in items]}
        return Display("", [_marked(text, items)], values)

    return ShownList(found, display)


def spans_of_many(texts: Sequence[str], found: list[list[Span]]) -> ShownList[list[Span]]:
    """Draw the spans of several texts inside them."""

    def display(items: Sequence[list[Span]]) -> Display:
        pairs = list(zip(texts, items, strict=True))
        values = [{"text": t, "spans": [s.to_dict() for s in own]} for t, own in pairs]
        parts = [_marked(text, own) for text, own in pairs[:MOST]]
        return Display("", [*parts, *_more(pairs)], {"texts": values})

    return ShownList([spans(t, own) for t, own in zip(texts, found, strict=True)], display)


def hits(query: str, found: list[Hit]) -> ShownList[Hit]:
    """Draw the hits of a query with their scores."""

    def display(items: Sequence[Hit]) -> Display:
        values = {"query": query, "hits": [hit.to_dict() for hit in items]}
        return Display(query, _hit_parts(items), values)

    return ShownList(found, display)


def hits_of_many(queries: Sequence[Text], found: list[list[Hit]]) -> ShownList[list[Hit]]:
    """Draw the hits of several queries."""
    return _several(queries, found, _hit_parts, lambda own: [hit.to_dict() for hit in own])


def _several(
    texts: Sequence[Text],
    found: list[Answer],
    parts: Callable[[Answer], Sequence[Part]],
    plain: Callable[[Answer], Any],
) -> ShownList[Answer]:
    """Draw each text with its answer below."""

    def display(items: Sequence[Answer]) -> Display:
        pairs = list(zip(texts, items, strict=True))
        drawn: list[Part] = []
        for text, answer in pairs[:MOST]:
            drawn += [Remark(_one_line(text)), *parts(answer)]
        values = [{"text": text, "answer": plain(answer)} for text, answer in pairs]
        return Display("", [*drawn, *_more(pairs)], {"texts": values})

    return ShownList(found, display)


def _more(items: Sequence[object]) -> list[Part]:
    more = len(items) - MOST
    return [Remark(f"and {more:,} more texts")] if more > 0 else []


def _one_line(text: Text) -> str:
    return text if isinstance(text, str) else " | ".join(text)


def _word_parts(found: Sequence[Any]) -> list[Part]:
    masks: Sequence[Filled] = found if found and isinstance(found[0], list) else [list(found)]
    parts: list[Part] = []
    for number, mask in enumerate(masks, 1):
        if len(masks) > 1:
            parts.append(Remark(f"mask {number}"))
        parts.append(Bars([_word_bar(word, p, mask) for _, p, word in mask]))
    return parts


def _word_bar(word: str, probability: float, mask: Filled) -> Bar:
    """Draw a word, and say of one that is there with and without a space before which it is."""
    name = word.strip()
    twice = sum(other.strip() == name for _, _, other in mask) > 1
    note = "after a space" if twice and word != name else ""
    return Bar(name, f"{probability:.3f}", probability, note)


def _fillings(found: Sequence[Any]) -> list[Any]:
    if found and isinstance(found[0], list):
        return [_fillings(mask) for mask in found]
    return [{"word": word, "probability": p, "text": text} for text, p, word in found]


def _marked(text: str, found: Sequence[Span]) -> Words:
    kinds = {label: i for i, label in enumerate(dict.fromkeys(span.label for span in found))}
    marks = [
        Mark(
            span.start,
            span.end,
            note=str(span),
            tag=span.label,
            colour=CYCLE[kinds[span.label] % len(CYCLE)],
        )
        for span in found
    ]
    return Words(text, marks)


def _hit_parts(found: Sequence[Hit]) -> list[Part]:
    are_shares = all(-1.001 <= hit.score <= 1.001 for hit in found)  # cosines
    rows = [
        Bar(hit.named(), f"{hit.score:.2f}", max(0.0, hit.score) if are_shares else None)
        for hit in found
    ]
    return [Bars(rows)]
