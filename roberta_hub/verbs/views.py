"""Notebook views of lists of answers and of search hits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from roberta_hub.show.bars import Bar, Bars
from roberta_hub.show.display import Display, Part, ShownList
from roberta_hub.show.facts import Note

if TYPE_CHECKING:
    from roberta_hub.inference.search import Hit
    from roberta_hub.text.tokenizer import Text

TEXTS_DRAWN = 20
"""Most texts whose answers are drawn; the others are counted."""
Answer = TypeVar("Answer")


def draw_each(
    texts: Sequence[Text],
    found: list[Answer],
    parts: Callable[[Answer], Sequence[Part]],
    plain: Callable[[Answer], Any],
) -> ShownList[Answer]:
    """Draw each text with its answer below."""

    def display(items: Sequence[Answer]) -> Display:
        pairs = list(zip(texts, items, strict=True))
        drawn: list[Part] = []
        for text, answer in pairs[:TEXTS_DRAWN]:
            drawn += [Note(_one_line(text)), *parts(answer)]
        values = [{"text": text, "answer": plain(answer)} for text, answer in pairs]
        return Display("", [*drawn, *count_undrawn(pairs)], {"texts": values})

    return ShownList(found, display)


def count_undrawn(items: Sequence[object]) -> list[Part]:
    """Remark on the number of texts that are not drawn."""
    left = len(items) - TEXTS_DRAWN
    return [Note(f"and {left:,} more texts")] if left > 0 else []


def _one_line(text: Text) -> str:
    return text if isinstance(text, str) else " | ".join(text)


def hits(query: str, found: list[Hit]) -> ShownList[Hit]:
    """Draw the hits of a query with their scores."""

    def display(items: Sequence[Hit]) -> Display:
        values = {"query": query, "hits": [hit.to_dict() for hit in items]}
        return Display(query, _hit_parts(items), values)

    return ShownList(found, display)


def hits_of_many(queries: Sequence[Text], found: list[list[Hit]]) -> ShownList[list[Hit]]:
    """Draw the hits of several queries."""
    return draw_each(queries, found, _hit_parts, lambda own: [hit.to_dict() for hit in own])


def _hit_parts(found: Sequence[Hit]) -> list[Part]:
    are_shares = all(-1.001 <= hit.score <= 1.001 for hit in found)  # cosines
    rows = [
        Bar(hit.named(), f"{hit.score:.2f}", max(0.0, hit.score) if are_shares else None)
        for hit in found
    ]
    return [Bars(rows)]
