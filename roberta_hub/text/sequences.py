"""Puts sentences together as sequences of an engine's numbers, text by text or many in one call.

Three more numbers stand for what is between and inside the texts: what begins a sequence, what
ends a sentence, and a token to be guessed.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import torch
from torch import Tensor

from roberta_hub.errors import InputError, InputTypeError, Place
from roberta_hub.text.layout import lay_out
from roberta_hub.text.pieces import Engine, Listed, Marked

Text: TypeAlias = "str | tuple[str, ...]"
"""One sentence, or several that are encoded as one sequence."""


_JOINED = 256
"""Texts that one call of an engine takes joined: enough to make its fixed cost small, few enough to
keep the joined text small."""
_LISTED = 2048
"""Texts that one call takes as a list, whose fixed cost is a thread of the library's own."""


class Sequences:
    """Puts sentences together as an engine numbers their pieces.

    Args:
        engine: cuts the sentences.
        separators: how many ends stand between two sentences.
    """

    def __init__(self, engine: Engine, separators: int) -> None:
        self.engine, self.separators = engine, separators
        self.begin, self.end, self.mask = range(engine.size, engine.size + 3)

    @property
    def at_once(self) -> int:
        """How many texts `many` should be given in one call."""
        return _LISTED if isinstance(self.engine.marked, Listed) else _JOINED

    def one(self, sentences: tuple[str, ...], *, no_separator: bool = False) -> Tensor:
        """One sequence, with a single end between sentences if `no_separator`: int32 (T,)."""
        flat = array("i")
        self._append(flat, sentences, 1 if no_separator else self.separators)
        return as_tensor(flat)

    def masked(self, spans: Sequence[str]) -> Tensor:
        """One sequence of the parts of a text, with `mask` between them: int32 (T,)."""
        flat = array("i", [self.begin])
        for span in spans:
            flat.extend(self.engine.encode_ids(span.rstrip()))
            flat.append(self.mask)
        flat[-1] = self.end  # in place of the mask behind the last span
        return as_tensor(flat)

    def many(self, texts: Sequence[Text], start: int) -> Tensor:
        """Sequences one behind the other, in one call where the engine can: int32 (T_1 + ...,).

        Args:
            texts: at least one.
            start: what an error calls the first.
        """
        marked = self.engine.marked
        if isinstance(marked, Listed):
            flat = self._listed(texts, marked)
        else:
            flat = None if marked is None else self._together(texts, marked)
        return self._singly(texts, start) if flat is None else flat

    def _listed(self, texts: Sequence[Text], listed: Listed) -> Tensor | None:
        """Return the engine's numbers of single sentences, from one call.

        None where something is wrong or a text has several sentences, for `_singly` to deal with.
        """
        if set(map(type, texts)) != {str}:
            return None
        flat: list[int] = []  # extended by a list in one step, which an array is not
        try:
            for numbers in listed.encode(cast("list[str]", texts)):
                flat.append(self.begin)
                flat += numbers
                flat.append(self.end)
        except InputError:
            return None
        return as_tensor(array("i", flat))

    def _together(self, texts: Sequence[Text], marked: Marked) -> Tensor | None:
        """Return the engine's numbers of all texts, from one call.

        None where something is wrong or odd, for `_singly` to deal with.
        """
        begin, end, separators = marked.begin, marked.end, self.separators
        sentences: Sequence[str]
        if marked.prepare is not None:
            texts = [_prepared(text, marked.prepare) for text in texts]
        if set(map(type, texts)) == {str}:  # most lists: no Python for each text
            sentences = cast("Sequence[str]", texts)
            joined = begin + (end + begin).join(sentences) + end
        else:
            sentences, joined = [], ""
            for text in texts:
                own = (text,) if isinstance(text, str) else text
                if not isinstance(own, tuple) or not own:
                    return None
                if not all(isinstance(sentence, str) for sentence in own):
                    return None
                sentences += own
                joined += begin + (end * separators).join(own) + end
        if max(map(len, sentences)) > marked.longest:
            return None
        ends = separators * (len(sentences) - len(texts)) + len(texts)
        if joined.count(begin) != len(texts) or joined.count(end) != ends:
            return None  # a text holds a mark, which must come out as text
        try:
            return as_tensor(marked.encode(joined))
        except InputError:
            return None

    def _singly(self, texts: Sequence[Text], start: int) -> Tensor:
        """Cut all texts one after the other; errors count from `start`."""
        flat = array("i")
        for i, text in enumerate(texts, start):
            try:
                self._append(flat, text, self.separators)
            except (InputError, InputTypeError) as error:
                error.within(Place("texts", i))
                raise
        return as_tensor(flat)

    def _append(self, flat: array[int], text: Text, separators: int) -> None:
        """Put one sequence at the end of `flat`, in the engine's numbers."""
        if isinstance(text, str):
            text = (text,)
        elif not isinstance(text, tuple) or not text:
            kind = "an empty tuple" if text == () else f"a {type(text).__name__}"
            raise InputTypeError(f"a text is a str or a tuple of them, not {kind}")
        ids = list(map(self.engine.encode_ids, text))
        lay_out(flat, ids, self.begin, self.end, separators)


def _prepared(text: Text, prepare: Callable[[str], str]) -> Text:
    if isinstance(text, str):
        return prepare(text)
    if isinstance(text, tuple) and all(isinstance(sentence, str) for sentence in text):
        return tuple(map(prepare, text))
    return text  # wrong, which is said later


def as_tensor(flat: array[int]) -> Tensor:
    """Look at numbers as a tensor."""
    return torch.frombuffer(flat, dtype=torch.int32)  # at least one mark is always there
