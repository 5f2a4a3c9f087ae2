"""The verb tag: the labelled spans of each text."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from roberta_hub.show.colours import COLOUR_CYCLE
from roberta_hub.show.display import Display, ShownList
from roberta_hub.show.marked_text import Mark, MarkedText
from roberta_hub.verbs.question import (
    AnswerFormat,
    Cells,
    Columns,
    Parts,
    Question,
    Record,
    Settings,
    Share,
    later,
)
from roberta_hub.verbs.views import TEXTS_DRAWN, count_undrawn

if TYPE_CHECKING:
    from roberta_hub.inference.tag import Span
    from roberta_hub.inference.verb_model import VerbModel


def _columns(model: VerbModel, texts: Sequence[str], found: list[list[Span]]) -> Columns:
    return {"spans": [[span.to_dict() for span in spans] for spans in found]}


def _block(record: Record) -> Sequence[Cells]:
    return [(s["label"], s["text"], Share(s["score"])) for s in record["spans"]] or [("(none)",)]


def _answer_format(settings: Settings) -> AnswerFormat:
    span = {"label": "", "start": 0, "end": 0, "text": "", "score": 0.0}
    return AnswerFormat(Parts(most=1), sample={"spans": [span]}, block=_block)


def _view_one(text: str, found: list[Span]) -> ShownList[Span]:
    """Draw the spans of a text inside it."""

    def display(items: Sequence[Span]) -> Display:
        values = {"text": text, "spans": [span.to_dict() for span in items]}
        return Display("", [_marked(text, items)], values)

    return ShownList(found, display)


def _view(texts: Sequence[str], found: list[list[Span]]) -> ShownList[list[Span]]:
    """Draw the spans of several texts inside them."""

    def display(items: Sequence[list[Span]]) -> Display:
        pairs = list(zip(texts, items, strict=True))
        values = [{"text": t, "spans": [s.to_dict() for s in own]} for t, own in pairs]
        parts = [_marked(text, own) for text, own in pairs[:TEXTS_DRAWN]]
        return Display("", [*parts, *count_undrawn(pairs)], {"texts": values})

    return ShownList([_view_one(t, own) for t, own in zip(texts, found, strict=True)], display)


def _marked(text: str, found: Sequence[Span]) -> MarkedText:
    kinds = {label: i for i, label in enumerate(dict.fromkeys(span.label for span in found))}
    marks = [
        Mark(
            span.start,
            span.end,
            note=str(span),
            tag=span.label,
            colour=COLOUR_CYCLE[kinds[span.label] % len(COLOUR_CYCLE)],
        )
        for span in found
    ]
    return MarkedText(text, marks)


TAG: Question[list[Span], list[list[Span]]] = Question(
    name="tag",
    help="""Find the labelled spans of each text: names, places, parts of speech.

    The answer has `spans`, each with its label, text, start and end in characters, and score. It
    takes a model with a token head: `roberta-hub train finetune=ner` trains one.
    """,
    examples=(
        'roberta-hub tag -m ner "Ada Lovelace lived in London."',
        "printf 'Ada wrote.\\nIt rained.\\n' | roberta-hub tag -m ner -f csv",
    ),
    options={"head": {}, "aggregation": {}},
    answers=later(lambda: import_module("roberta_hub.inference.tag").tag),
    columns=_columns,
    answer_format=_answer_format,
    no_pairs="tag takes single texts",
    view=_view,
)
