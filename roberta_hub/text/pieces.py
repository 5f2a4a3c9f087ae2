"""The protocol of subword tokenizers: split a text into pieces, join pieces into a text.

A tokenizer numbers its pieces as its own files do and names each; a dictionary maps names to the
model's ids. One tokenizer therefore serves models with different ids, and a piece that is not in
the dictionary becomes `<unk>`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class JoinedBatch:
    """Encodes many sentences in one call by joining them, faster than one call each."""

    begin: str
    """One character, put before each sentence; encoded as `SubwordTokenizer.size`."""
    end: str
    """Another one, put after each sentence; encoded as `SubwordTokenizer.size + 1`."""
    longest: int
    """Maximum length of a sentence, in characters."""
    encode: Callable[[str], array[int]]
    """Encodes the joined sentences; no sentence contains `begin` or `end`. Raises InputError as
    `SubwordTokenizer.encode_ids` does."""
    prepare: Callable[[str], str] | None = None
    """Applied to each sentence first; None: no preparation."""


@dataclass(frozen=True)
class ListBatch:
    """Encodes a list of sentences in one call."""

    encode: Callable[[list[str]], list[list[int]]]
    """Encodes each sentence as `SubwordTokenizer.encode_ids` does, with the same errors.
    """


@dataclass(frozen=True)
class NormalizedText:
    """A text as a tokenizer reads it, and where each of its n characters comes from.

    Example:
        >>> NormalizedText("ae", starts=[0, 0], ends=[1, 1]).origin(1, 2)  # of "æ", say
        (0, 1)
    """

    text: str
    starts: Sequence[int]
    """Where the character begins that each one was read from: n."""
    ends: Sequence[int]
    """Where it ends: n."""

    @classmethod
    def same(cls, text: str) -> NormalizedText:
        """A text that is read as it is."""
        return cls(text, range(len(text)), range(1, len(text) + 1))

    def part(self, start: int, end: int) -> NormalizedText:
        """Return the characters from `start` to `end`, exclusive."""
        return NormalizedText(self.text[start:end], self.starts[start:end], self.ends[start:end])

    def within(self, outer: NormalizedText) -> NormalizedText:
        """Return the same, where what was read is the text of `outer`."""
        starts = [
            outer.starts[start] if start < len(outer.starts) else outer.ends[-1]
            for start in self.starts
        ]
        return NormalizedText(self.text, starts, [outer.ends[end - 1] for end in self.ends])

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return (start, end) in the original text of some characters, also of none."""
        if start < end:
            return self.starts[start], max(self.ends[start:end])
        place = self.starts[start] if start < len(self.starts) else self.ends[-1]
        return place, place


@runtime_checkable
class SubwordTokenizer(Protocol):
    """Splits texts into subword pieces, each with a number.

    A tokenizer may normalize a text (to lower case, say), so decoding does not always give the
    original text back; spans refer to the original text. What its numbers mean is in a
    `PieceTable`: a kind of tokenizer is both, and a wrapper need only split.
    """

    @property
    def batch_encoder(self) -> JoinedBatch | ListBatch | None:
        """Encoder of many texts in one call; None: texts are encoded one by one."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest of all that the encoding depends on except `symbols`; "" for GPT-2's BPE."""
        ...

    def encode_ids(self, text: str) -> list[int]:
        """Encode a text as piece numbers; special words in it are plain text."""
        ...

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) in characters of the text for each number of `encode_ids(text)`.

        Starts and ends never decrease. Pieces of one character overlap; a piece with no text
        has an empty span.
        """
        ...

    def normalized(self, text: str) -> NormalizedText:
        """Text as the tokenizer reads it before it splits it, with all its white space.

        Normalizing it again changes nothing, so `encode_ids` of a part gives that part's pieces.
        """
        ...

    def encode(self, x: str, /) -> str:
        """Encode a text as symbols separated by spaces, as fairseq's `roberta.bpe.encode`."""
        ...


@runtime_checkable
class PieceTable(Protocol):
    """What the numbers of a `SubwordTokenizer` mean, and the files that say so."""

    @property
    def size(self) -> int:
        """Largest piece number plus 1."""
        ...

    @property
    def symbols(self) -> Mapping[str, int]:
        """Piece numbers by the symbols of the dictionary.

        Numbers without a symbol (SentencePiece's number for unknown characters, say) map to
        `<unk>`.
        """
        ...

    @property
    def settings(self) -> Mapping[str, object]:
        """Settings for tokenizer_config.json, with transformers' `tokenizer_class`."""
        ...

    def piece(self, number: int) -> str:
        """Piece as the tokenizer's files write it: 'Ġworld', '##ing', '▁de'."""
        ...

    def surface(self, number: int) -> bytes:
        """Text of a piece in UTF-8, with the space before a word: b' world', b'ing'.

        Bytes, since a byte-level piece may be a part of a character.
        """
        ...

    def word_surface(self, word: str) -> bytes:
        """Text that an added token, a whole word, adds to a decoded text."""
        ...

    def is_text(self, number: int) -> bool:
        """Whether `encode_ids` can return this number."""
        ...

    def begins_word(self, number: int) -> bool:
        """Whether the piece begins a word."""
        ...

    def join(self, surfaces: Iterable[bytes]) -> str:
        """Join surfaces to a text; symbols such as b'<mask>' may be among them.

        Invalid UTF-8 becomes U+FFFD. A tokenizer that adds a space before every text removes it
        again.
        """
        ...

    def files(self, rows: Sequence[int | str]) -> dict[str, bytes]:
        """Files of the same tokenizer in transformers' format, by name."""
        ...

    def fairseq_files(self) -> dict[str, bytes]:
        """Files that fairseq reads for this tokenizer besides dict.txt, by name."""
        ...

    def decode(self, x: str, /) -> str:
        """Decode symbols separated by spaces, as fairseq does; unknown symbols are kept."""
        ...

    def is_beginning_of_word(self, x: str, /) -> bool:
        """Whether a symbol begins a word, as fairseq says it."""
        ...


def ends_of(starts: Sequence[int]) -> list[int]:
    """Return where the character ends that each of a text's characters was read from.

    Example:
        >>> ends_of([0, 0, 1, 3])  # two characters from one, and one from two
        [1, 1, 3]
    """
    ends, end = [], starts[-1]
    for start, following in reversed(list(pairwise(starts))):
        end = following if following > start else end
        ends.append(end)
    return ends[::-1]
