"""Says what a subword engine is: it cuts a text into pieces and puts pieces together again.

`bpe.py` is the first. An engine numbers its pieces as its own files do, and gives each a name; a
dictionary turns names into the model's ids. So one engine serves models whose ids differ, and a
piece that a dictionary lacks becomes `<unk>`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Marked:
    """How an engine cuts many sentences in one call, which is faster than a call for each."""

    begin: str
    """A single character; in front of a sentence it becomes the number `Engine.size`."""
    end: str
    """Another one; behind a sentence it becomes `Engine.size + 1`."""
    longest: int
    """Characters of the longest sentence that the call takes."""
    encode: Callable[[str], array[int]]
    """Turns sentences, with marks around them, into the engine's numbers. No sentence holds a
    mark. Raises InputError as `Engine.encode_ids` does."""
    prepare: Callable[[str], str] | None = None
    """What each sentence goes through first; None: nothing."""


@dataclass(frozen=True)
class Listed:
    """How an engine cuts a list of sentences in one call, which takes them as they are."""

    encode: Callable[[list[str]], list[list[int]]]
    """Turns each sentence into the engine's numbers, the same as `Engine.encode_ids`.

    Raises InputError or InputTypeError where that does, whichever sentence it is.
    """


@runtime_checkable
class Engine(Protocol):
    """Cuts texts into pieces, and knows each piece by a number of its own.

    An engine may read a text in a normal form (lower case, say) and cannot always write the text as
    it was; its spans lie in the text as it was given.
    """

    @property
    def size(self) -> int:
        """One more than the largest number of a piece."""
        ...

    @property
    def symbols(self) -> Mapping[str, int]:
        """The number of each piece by the piece's name in a dictionary.

        A number without a name is no piece (what SentencePiece gives for unknown characters, say),
        and becomes `<unk>` in every model.
        """
        ...

    @property
    def marked(self) -> Marked | Listed | None:
        """How lists are cut in one call; None: the engine cuts text by text."""
        ...

    @property
    def settings(self) -> Mapping[str, object]:
        """What tokenizer_config.json says of this engine.

        `tokenizer_class` among it: transformers' name of the kind, by which the files are read.
        """
        ...

    @property
    def fingerprint(self) -> str:
        """What the numbers of a text depend on beside `symbols`; "" for GPT-2's BPE."""
        ...

    def encode_ids(self, text: str) -> list[int]:
        """Turn a text into the numbers of its pieces; special words in it are text.

        Raises:
            InputTypeError: not a str.
            InputError: half of a surrogate pair.
        """
        ...

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) in characters of the text for each number of `encode_ids(text)`.

        Starts and ends never go back. Pieces of one character overlap; a piece that stands for
        nothing in the text covers nothing.
        """
        ...

    def piece(self, number: int) -> str:
        """Return the piece as the engine's files write it: 'Ġworld', '##ing', '▁de'."""
        ...

    def surface(self, number: int) -> bytes:
        """Tell what a piece adds to a text, with the space before a word: b' world', b'ing'.

        Bytes in UTF-8, since a byte-level piece may be a part of a character.
        """
        ...

    def is_text(self, number: int) -> bool:
        """Tell whether the number can come out of `encode_ids`."""
        ...

    def begins_word(self, number: int) -> bool:
        """Tell whether the piece begins a word."""
        ...

    def join(self, surfaces: Iterable[bytes]) -> str:
        """Return the text of surfaces in a row, among which names such as b'<mask>' may stand.

        Bytes that are no UTF-8 become U+FFFD. An engine that reads a space before every text
        leaves that space out again.
        """
        ...

    def files(self, rows: Sequence[int | str]) -> dict[str, bytes]:
        """Return the files from which transformers builds the same tokenizer, by name.

        Args:
            rows: what each of the model's ids is: a piece's number, or a symbol that is no piece.

        Raises:
            CheckpointError: rows that the files cannot express.
        """
        ...

    def fairseq_files(self) -> dict[str, bytes]:
        """Return the files that fairseq reads for this engine beside dict.txt, by name.

        Raises:
            CheckpointError: fairseq has no such engine.
        """
        ...

    # What fairseq's users call as `roberta.bpe`.

    def encode(self, x: str, /) -> str:
        """Return the symbols of a text, separated by spaces."""
        ...

    def decode(self, x: str, /) -> str:
        """Return the text of symbols separated by spaces; names that are no pieces stay."""
        ...

    def is_beginning_of_word(self, x: str, /) -> bool:
        """Tell whether a symbol begins a word."""
        ...
