"""Encodes sentences as sequences of a tokenizer's numbers, text by text or many in one call.

Three more numbers are reserved: begin of a sequence, end of a sentence, and mask.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import torch
from torch import Tensor

from roberta_hub.errors import InputError, InputTypeError, Place
from roberta_hub.text.layout import lay_out
from roberta_hub.text.pieces import JoinedBatch, ListBatch, SubwordTokenizer

Text: TypeAlias = "str | tuple[str, ...]"
"""One sentence, or several that are encoded as one sequence."""


_JOINED_TEXTS = 256
"""Texts joined per call: enough to make the fixed cost of a call small, few enough to keep the
joined text short."""
_LISTED_TEXTS = 2048
"""Texts per call as a list; a call starts a thread of the library."""


class Sequences:
    """Encodes sentences and joins them to sequences, with `separators` ends between two sentences.

    `size` is that of the engine's `PieceTable`: further numbers begin there.
    """

    def __init__(self, engine: SubwordTokenizer, size: int, separators: int) -> None:
        self.engine, self.separators = engine, separators
        self.begin, self.end, self.mask = range(size, size + 3)

    @property
    def at_once(self) -> int:
        """Number of texts to give `many` per call."""
        return _LISTED_TEXTS if isinstance(self.engine.batch_encoder, ListBatch) else _JOINED_TEXTS

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
        flat[-1] = self.end  # replaces the mask after the last span
        return as_tensor(flat)

    def many(self, texts: Sequence[Text], start: int) -> Tensor:
        """Concatenated sequences, from one call if the tokenizer has one: int32 (T_1 + ...,).

        Errors count the texts, of which there is at least one, from `start`.
        """
        encoder = self.engine.batch_encoder
        if isinstance(encoder, ListBatch):
            flat = self._encode_listed(texts, encoder)
        else:
            flat = None if encoder is None else self._encode_joined(texts, encoder)
        return self._encode_singly(texts, start) if flat is None else flat

    def _encode_listed(self, texts: Sequence[Text], encoder: ListBatch) -> Tensor | None:
        """Encode single sentences in one call.

        None if a text is invalid or has several sentences, for `_encode_singly` to handle.
        """
        if set(map(type, texts)) != {str}:
            return None
        flat: list[int] = []  # extended by a list in one step, which an array is not
        try:
            for numbers in encoder.encode(cast("list[str]", texts)):
                flat.append(self.begin)
                flat += numbers
                flat.append(self.end)
        except InputError:
            return None
        return as_tensor(array("i", flat))

    def _encode_joined(self, texts: Sequence[Text], encoder: JoinedBatch) -> Tensor | None:
        """Encode all texts in one call.

        None if a text is invalid or too long, for `_encode_singly` to handle.
        """
        begin, end, separators = encoder.begin, encoder.end, self.separators
        sentences: Sequence[str]
        if encoder.prepare is not None:
            texts = [_prepared(text, encoder.prepare) for text in texts]
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
        if max(map(len, sentences)) > encoder.longest:
            return None
        ends = separators * (len(sentences) - len(texts)) + len(texts)
        if joined.count(begin) != len(texts) or joined.count(end) != ends:
            return None  # a text contains `begin` or `end` itself, which must be encoded as text
        try:
            return as_tensor(encoder.encode(joined))
        except InputError:
            return None

    def _encode_singly(self, texts: Sequence[Text], start: int) -> Tensor:
        """Encode texts one by one; errors count from `start`."""
        flat = array("i")
        for i, text in enumerate(texts, start):
            try:
                self._append(flat, text, self.separators)
            except (InputError, InputTypeError) as error:
                error.within(Place("texts", i))
                raise
        return as_tensor(flat)

    def _append(self, flat: array[int], text: Text, separators: int) -> None:
        """Append one sequence to `flat`."""
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
    return text  # invalid; `_append` raises the error


def as_tensor(flat: array[int]) -> Tensor:
    """View numbers as a tensor."""
    return torch.frombuffer(flat, dtype=torch.int32)  # never empty
