"""The verb fill_mask: the most probable words for each mask of a text."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from roberta_hub.show.bars import Bar, Bars
from roberta_hub.show.display import Display, Part, ShownList
from roberta_hub.show.facts import Note
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
from roberta_hub.verbs.views import draw_each

if TYPE_CHECKING:
    from roberta_hub.inference.fill_mask import Fillings
    from roberta_hub.inference.verb_model import VerbModel


def _columns(model: VerbModel, texts: Sequence[str], found: list[list[Fillings]]) -> Columns:
    words = [
        [
            {"mask": number, "word": word.strip(), "score": score, "filled": filled}
            for number, mask in enumerate(masks, 1)
            for filled, score, word in mask
        ]
        for masks in found
    ]
    return {"words": words}


def _block(record: Record) -> Sequence[Cells]:
    words = record["words"]
    several = words[-1]["mask"] > 1
    return [(*([w["mask"]] if several else []), w["word"], Share(w["score"])) for w in words]


def _answer_format(settings: Settings) -> AnswerFormat:
    word = {"mask": 0, "word": "", "score": 0.0, "filled": ""}
    return AnswerFormat(Parts(most=1), sample={"words": [word]}, block=_block)


def view_one(text: str, masks: list[Fillings]) -> ShownList[Any]:
    """Draw the fillings of the masks of one text."""

    def display(items: Sequence[Any]) -> Display:
        return Display(text, _word_parts(items), {"text": text, "words": _fillings(items)})

    return ShownList(masks[0] if len(masks) == 1 else masks, display)


def _view(texts: Sequence[str], found: list[list[Fillings]]) -> ShownList[Any]:
    """Draw the fillings of the masks of several texts."""
    drawn = [view_one(text, masks) for text, masks in zip(texts, found, strict=True)]
    return draw_each(texts, drawn, _word_parts, _fillings)


def _word_parts(found: Sequence[Any]) -> list[Part]:
    masks: Sequence[Fillings] = found if found and isinstance(found[0], list) else [list(found)]
    parts: list[Part] = []
    for number, mask in enumerate(masks, 1):
        if len(masks) > 1:
            parts.append(Note(f"mask {number}"))
        parts.append(Bars([_word_bar(word, p, mask) for _, p, word in mask]))
    return parts


def _word_bar(word: str, probability: float, mask: Fillings) -> Bar:
    """Draw a word; note the space if it also occurs without one."""
    name = word.strip()
    twice = sum(other.strip() == name for _, _, other in mask) > 1
    note = "after a space" if twice and word != name else ""
    return Bar(name, f"{probability:.3f}", probability, note)


def _fillings(found: Sequence[Any]) -> list[Any]:
    if found and isinstance(found[0], list):
        return [_fillings(mask) for mask in found]
    return [{"word": word, "probability": p, "text": text} for text, p, word in found]


FILL_MASK: Question[Fillings, list[Any]] = Question(
    name="fill_mask",
    help="""Find the most probable words for each <mask> of a text.

    The answer has `words`, each with the number of its mask, its probability `score`, and the text
    with the word in place, `filled`.
    """,
    examples=(
        'roberta-hub fill-mask "She is a student at Harvard <mask>."',
        'roberta-hub fill-mask "It was a <mask> film." --targets good,bad',
    ),
    options={"topk": {}, "targets": {}},
    answers=later(lambda: import_module("roberta_hub.inference.fill_mask").fill_mask),
    columns=_columns,
    answer_format=_answer_format,
    argument="masked_input",
    no_pairs="fill_mask takes str with <mask> in it",
    view=_view,
)
