"""An engine that is nothing like BPE: words at blanks, in lower case and without accents.

Its numbers are not the model's ids, an unknown word has a number without a name, and the special
symbols of its vocabulary stand among the words.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Sequence

from roberta_hub.errors import CheckpointError
from roberta_hub.text import Dictionary, SequenceLayout
from roberta_hub.text.characters import check_text
from roberta_hub.text.pieces import JoinedBatch, NormalizedText

FIRST_NUMBER = 1000
BEGIN, END = "\ue100", "\ue101"
SPECIALS = {2: "[UNK]", 5: "[PAD]", 7: "[CLS]", 9: "[SEP]", 11: "[MASK]"}


class Words:
    """Cuts at blanks, and punctuation off the ends of words: `##.` goes on with a word."""

    def __init__(self, names: Sequence[str], *, marked: bool = False) -> None:
        self.names = list(names)
        self.symbols = {name: FIRST_NUMBER + i for i, name in enumerate(self.names)}
        self.unknown = FIRST_NUMBER + len(self.names)
        self.size = self.unknown + 1
        self.settings = {"tokenizer_class": "WordsAtBlanks", "lowercase": True}
        self.fingerprint = "words at blanks"
        self.batch_encoder = JoinedBatch(BEGIN, END, 200, self._encode_joined) if marked else None

    def _pieces(self, text: str) -> Iterator[tuple[str, int, int]]:
        for match in re.finditer(r"\S+", text):
            start, end = match.span()
            tail = []
            while end - start > 1 and text[end - 1] in ".,!?":
                tail.append((f"##{text[end - 1]}", end - 1, end))
                end -= 1
            yield normal(text[start:end]), start, end
            yield from reversed(tail)

    def encode_ids(self, text: str) -> list[int]:
        check_text(text)
        return [self.symbols.get(name, self.unknown) for name, _, _ in self._pieces(text)]

    def _encode_joined(self, text: str) -> array[int]:
        check_text(text)
        marks, numbers = {BEGIN: self.size, END: self.size + 1}, array("i")
        for part in re.split(f"([{BEGIN}{END}])", text):
            numbers.extend([marks[part]] if part in marks else self.encode_ids(part))
        return numbers

    def spans(self, text: str) -> list[tuple[int, int]]:
        check_text(text)
        return [(start, end) for _, start, end in self._pieces(text)]

    def normalized(self, text: str) -> NormalizedText:
        return NormalizedText.same(text)

    def word_surface(self, word: str) -> bytes:
        return f" {word}".encode()

    def piece(self, number: int) -> str:
        return "[UNK]" if number == self.unknown else self.names[number - FIRST_NUMBER]

    def surface(self, number: int) -> bytes:
        name = self.piece(number)
        return (name[2:] if name.startswith("##") else f" {name}").encode()

    def is_text(self, number: int) -> bool:
        return FIRST_NUMBER <= number < self.unknown

    def begins_word(self, number: int) -> bool:
        return not self.piece(number).startswith("##")

    def join(self, surfaces: Iterable[bytes]) -> str:
        return b"".join(surfaces).decode().removeprefix(" ")

    def files(self, rows: Sequence[int | str]) -> dict[str, bytes]:
        names = [row if isinstance(row, str) else self.piece(row) for row in rows]
        return {"words.txt": "\n".join(names).encode()}

    def fairseq_files(self) -> dict[str, bytes]:
        raise CheckpointError("fairseq cuts no words at blanks")

    def encode(self, x: str, /) -> str:
        return " ".join(map(self.piece, self.encode_ids(x)))

    def decode(self, x: str, /) -> str:
        known = self.symbols
        return self.join(self.surface(known[w]) if w in known else w.encode() for w in x.split())

    def is_beginning_of_word(self, x: str, /) -> bool:
        return not x.startswith("##")


def normal(word: str) -> str:
    """In lower case and without accents."""
    letters = unicodedata.normalize("NFD", word.lower())
    return "".join(c for c in letters if unicodedata.category(c) != "Mn")


def vocabulary(words: Sequence[str]) -> Dictionary:
    """Words with the special symbols at ids of their own among them."""
    rest = iter(words)
    symbols = [SPECIALS.get(i) or next(rest) for i in range(len(words) + len(SPECIALS))]
    return Dictionary.from_symbols(symbols, bos="[CLS]", pad="[PAD]", eos="[SEP]", unk="[UNK]")


def layout_of(dictionary: Dictionary) -> SequenceLayout:
    """One separator, as in BERT."""
    return SequenceLayout.of(dictionary, mask="[MASK]", separators=1)
