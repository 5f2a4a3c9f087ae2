"""Display of the pieces of a text with their ids."""

from __future__ import annotations

from typing import Any

from roberta_hub.inference.word_spans import word_spans
from roberta_hub.show.display import Display
from roberta_hub.show.strip import Chip, Strip
from roberta_hub.text.layout import FIRST_PIECE
from roberta_hub.text.tokenizer import Tokenizer


def token_strip(tokenizer: Tokenizer, sentences: tuple[str, ...]) -> Display:
    """Show the pieces of a text. See `RobertaHubInterface.token_strip`."""
    ids: list[int] = tokenizer.encode(*sentences).tolist()
    word_at = {
        column: word
        for word, unit in enumerate(word_spans(tokenizer, sentences))
        for column in unit.columns
    }
    places = _places(tokenizer, sentences)
    chips, values = [], []
    for column, (piece, number) in enumerate(zip(tokenizer.pieces(ids), ids, strict=True)):
        place = places.get(column)
        value: dict[str, Any] = {"piece": piece, "id": number}
        note = f"{piece}: id {number}, position {column}"
        if place is not None:
            sentence, start, end = place
            value |= {"sentence": sentence, "start": start, "end": end}
            note += f", characters {start} to {end}: {sentences[sentence][start:end]}"
        values.append(value)
        chips.append(Chip(piece, str(number), word_at.get(column), note))
    title = f"{len(ids)} tokens"
    return Display(title, [Strip(chips)], {"texts": list(sentences), "pieces": values})


def _places(tokenizer: Tokenizer, sentences: tuple[str, ...]) -> dict[int, tuple[int, int, int]]:
    """(sentence, start, end) in characters of each column that is a piece."""
    found: dict[int, tuple[int, int, int]] = {}
    column = FIRST_PIECE
    for sentence, text in enumerate(sentences):
        offsets = tokenizer.offsets(text)
        found |= {column + i: (sentence, *offset) for i, offset in enumerate(offsets)}
        column += len(offsets) + tokenizer.layout.separators
    return found
