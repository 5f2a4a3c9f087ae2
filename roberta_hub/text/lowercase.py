"""Reads texts in lower case before a subword tokenizer splits them."""

from __future__ import annotations

from dataclasses import replace

from roberta_hub.arguments import kind_of
from roberta_hub.errors import InputTypeError
from roberta_hub.text.characters import check_text
from roberta_hub.text.pieces import (
    JoinedBatch,
    ListBatch,
    NormalizedText,
    PieceTable,
    SubwordTokenizer,
)


class Lowercased:
    """A `SubwordTokenizer` that lower-cases a text before another one splits it.

    Each character is lowered separately, as in `tokenizers`; `str.lower` has a final sigma.

    Example:
        >>> from roberta_hub.text.bpe import GPT2BPE
        >>> gpt2 = GPT2BPE.shipped()
        >>> Lowercased(gpt2).encode("ΣΑΣ") == gpt2.encode("σασ")
        True
    """

    def __init__(self, base: SubwordTokenizer) -> None:
        self.base = base

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
    def fingerprint(self) -> str:
        """The fingerprint of `base`, and the lower case in the words of saved training states."""
        return f"{self.base.fingerprint} small letters"

    def encode_ids(self, text: str) -> list[int]:
        """Encode a text as piece numbers."""
        return self.base.encode_ids(_lowered(text))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each piece in the text as it was."""
        lowered = _normalized(text)
        return [lowered.origin(start, end) for start, end in self.base.spans(lowered.text)]

    def normalized(self, text: str) -> NormalizedText:
        """Text in lower case, as `base` then reads it."""
        lowered = _normalized(text)
        return self.base.normalized(lowered.text).within(lowered)

    def encode(self, x: str, /) -> str:
        """Encode a text as symbols separated by spaces."""
        return self.base.encode(_lowered(x))


def piece_table(tokenizer: SubwordTokenizer) -> PieceTable:
    """Return what the numbers of a tokenizer mean: a lowercased one has those of its `base`."""
    table = tokenizer.base if isinstance(tokenizer, Lowercased) else tokenizer
    if not isinstance(table, PieceTable):
        raise InputTypeError(
            f"a {kind_of(table)} splits texts and does not say what its pieces are; add the "
            "members of PieceTable, see text/pieces.py"
        )
    return table


def _lowered(text: str) -> str:
    check_text(text)
    return "".join(map(str.lower, text)) if "Σ" in text else text.lower()


def _normalized(text: str) -> NormalizedText:
    """Lower-case a text, and keep where each character comes from."""
    lowered = _lowered(text)
    if len(lowered) == len(text):
        return NormalizedText.same(lowered)
    starts = [start for start, character in enumerate(text) for _ in character.lower()]
    return NormalizedText(lowered, starts, [start + 1 for start in starts])
