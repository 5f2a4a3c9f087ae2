"""A subword tokenizer that reads texts in lower case, as sentence-transformers lets others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from roberta_hub.text.characters import check_text
from roberta_hub.text.pieces import JoinedBatch, ListBatch, NormalizedText, SubwordTokenizer
from roberta_hub.text.with_added import WithAddedTokens


class InSmallLetters:
    """A `SubwordTokenizer` that lower-cases a text before another one cuts it.

    Each character is lowered separately, as in `tokenizers`; `str.lower` has a final sigma.

    Args:
        base: cuts the text.

    Example:
        >>> from roberta_hub.text.bpe import GPT2BPE
        >>> InSmallLetters(GPT2BPE.shipped()).encode("ΣΑΣ") == GPT2BPE.shipped().encode("σασ")
        True
    """

    def __init__(self, base: SubwordTokenizer) -> None:
        self.base = base
        self.size = base.size

    @property
    def symbols(self) -> Mapping[str, int]:
        """Those of `base`."""
        return self.base.symbols

    @property
    def batch_encoder(self) -> JoinedBatch | ListBatch | None:
        """Encodes many texts in one call, where `base` does."""
        inner = self.base.batch_encoder
        if inner is None:
            return None
        if isinstance(inner, ListBatch):
            encode = inner.encode
            return ListBatch(lambda texts: encode([_lowered(text) for text in texts]))
        prepare = inner.prepare or str
        return replace(inner, prepare=lambda text: prepare(_lowered(text)))

    @property
    def settings(self) -> Mapping[str, object]:
        """Those of `base`: sentence-transformers' own files say that letters become small."""
        return self.base.settings

    @property
    def fingerprint(self) -> str:
        """That of `base`, in lower case."""
        return f"{self.base.fingerprint} small letters"

    def encode_ids(self, text: str) -> list[int]:
        """Encode a text as piece numbers."""
        return self.base.encode_ids(_lowered(text))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each piece in the text as it was."""
        small = _small(text)
        return [small.origin(start, end) for start, end in self.base.spans(small.text)]

    def normalized(self, text: str) -> NormalizedText:
        """In lower case, and then as `base` reads it."""
        small = _small(text)
        return self.base.normalized(small.text).within(small)

    def piece(self, number: int) -> str:
        """Piece as the files write it."""
        return self.base.piece(number)

    def surface(self, number: int) -> bytes:
        """Text of a piece."""
        return self.base.surface(number)

    def word_surface(self, word: str) -> bytes:
        """Text that a whole word adds."""
        return self.base.word_surface(word)

    def is_text(self, number: int) -> bool:
        """Whether `base` can return this number."""
        return self.base.is_text(number)

    def begins_word(self, number: int) -> bool:
        """Whether the piece begins a word."""
        return self.base.begins_word(number)

    def join(self, surfaces: Iterable[bytes]) -> str:
        """Join surfaces to a text."""
        return self.base.join(surfaces)

    def files(self, rows: Sequence[int | str]) -> dict[str, bytes]:
        """Files of `base`."""
        return self.base.files(rows)

    def fairseq_files(self) -> dict[str, bytes]:
        """Files of `base`."""
        return self.base.fairseq_files()

    def encode(self, x: str, /) -> str:
        """Encode a text as symbols separated by spaces."""
        return self.base.encode(_lowered(x))

    def decode(self, x: str, /) -> str:
        """Decode symbols separated by spaces."""
        return self.base.decode(x)

    def is_beginning_of_word(self, x: str, /) -> bool:
        """Whether a symbol begins a word."""
        return self.base.is_beginning_of_word(x)


def in_lowercase(tokenizer: SubwordTokenizer) -> SubwordTokenizer:
    """Return a tokenizer that reads lower case between added tokens.

    It is what sentence-transformers 6 makes of `do_lower_case`. A token that is normalized is found
    whatever its letters are, another one as it is written.

    Example:
        >>> from roberta_hub.text.added_token import AddedToken
        >>> from roberta_hub.text.bpe import GPT2BPE
        >>> added = {"[E1]": AddedToken("[E1]", normalized=False), "Foo": AddedToken("Foo")}
        >>> small = in_lowercase(WithAddedTokens(GPT2BPE.shipped(), added))
        >>> small.encode("[E1]FOO [e1]")
        '[E1] Foo 685 68 16 60'
    """
    if isinstance(tokenizer, WithAddedTokens):
        return WithAddedTokens(InSmallLetters(tokenizer.base), tokenizer.added)
    return InSmallLetters(tokenizer)


def _lowered(text: str) -> str:
    check_text(text)
    return "".join(map(str.lower, text)) if "Σ" in text else text.lower()


def _small(text: str) -> NormalizedText:
    """Lower-case a text, and keep where each character comes from."""
    small = _lowered(text)
    if len(small) == len(text):
        return NormalizedText.same(small)
    starts = [start for start, character in enumerate(text) for _ in character.lower()]
    return NormalizedText(small, starts, [start + 1 for start in starts])
