"""Holds the rules of a WordPiece tokenizer: how texts become words, special words, limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roberta_hub.errors import VocabularyError

PREFIX = "##"
"""Prefix of a piece that continues a word."""
LONGEST_WORD = 100
"""Characters of a word that is cut, in transformers; in Google's code 200."""
MAX_WORD = 10_000
"""What a file may ask for instead: the time of cutting grows with it."""
MAX_PIECES = 2_000_000
"""Largest vocabulary; LaBSE's, the largest known, has 501,153."""
MAX_PIECE = 1_000
"""Characters of a piece."""


@dataclass(frozen=True)
class Rules:
    """How a text becomes words, and words a text.

    Example:
        >>> Rules(lower=False).strip, Rules().strip, Rules(strip_accents=False).strip
        (False, True, False)
    """

    lower: bool = True
    """In lower case: the vocabulary is uncased."""
    strip_accents: bool | None = None
    """Accents go; None: where texts are read in lower case."""
    chinese: bool = True
    """Each ideograph is a word."""
    longest_word: int = LONGEST_WORD
    """Characters of a word; a longer one is unknown."""
    clean_up: bool = True
    """Decoding leaves out the blank before `.`, `,`, `!` and `?`."""

    @property
    def strip(self) -> bool:
        """Whether accents are removed."""
        return self.lower if self.strip_accents is None else self.strip_accents


@dataclass(frozen=True)
class Specials:
    """Special words by their names."""

    bos: str = "[CLS]"
    eos: str = "[SEP]"
    pad: str = "[PAD]"
    unk: str = "[UNK]"
    mask: str | None = "[MASK]"
    others: tuple[str, ...] = ()
    """Control tokens that the sequences of this package do not use."""

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        mask = () if self.mask is None else (self.mask,)
        return (self.pad, self.unk, self.bos, self.eos, *mask, *self.others)


def check_pieces(names: Sequence[str], where: str, first: int) -> None:
    """Refuse pieces that vocab.txt cannot express.

    The message begins with `where`, as "vocab.txt, line ", and the piece's place, counted from
    `first`.
    """
    seen: dict[str, int] = {}
    for number, name in enumerate(names, start=first):
        problem = ""
        if not name:
            problem = "it is empty"
        elif len(name) > MAX_PIECE:
            problem = f"{len(name):,} characters; a piece has at most {MAX_PIECE:,}"
        elif "\0" in name or "\r" in name or "\n" in name:
            problem = f"{name[:40]!r} holds a NUL or a line break"
        elif name in seen:
            problem = f"{name[:40]!r} stands there twice, first as {seen[name]}"
        if problem:
            raise VocabularyError(f"{where}{number}: {problem}")
        seen[name] = number
