"""Gives `roberta.bpe.bpe`, GPT-2's encoder in fairseq, whose tables and methods users reach for."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol

from roberta_hub.errors import InputError
from roberta_hub.text.tables import BYTE_ORDER, from_printable, printable


class _Tables(Protocol):
    """What is asked of a `GPT2BPE`."""

    def printable_ids(self) -> dict[str, str]: ...
    def merges(self) -> list[tuple[bytes, bytes]]: ...
    def encode_ids(self, text: str) -> list[int]: ...
    def token_bytes(self, number: int) -> bytes: ...
    def merge_bytes(self, word: bytes) -> list[bytes]: ...


class GPT2Encoder:
    """GPT-2 ids as numbers, and the tables behind them (`fairseq/data/encoders/gpt2_bpe_utils.py`).

    Example:
        >>> from roberta_hub.text.bpe import GPT2BPE
        >>> encoder = GPT2BPE.shipped().bpe
        >>> encoder.encode("Hello world"), encoder.decoder[995], encoder.encoder["Ġworld"]
        ([15496, 995], 'Ġworld', 995)
    """

    def __init__(self, owner: _Tables) -> None:
        self._owner = owner

    @functools.cached_property
    def encoder(self) -> dict[str, int]:
        """Id of each printable token."""
        return {token: int(symbol) for token, symbol in self._owner.printable_ids().items()}

    @functools.cached_property
    def decoder(self) -> dict[int, str]:
        """Printable token of each id."""
        return {number: token for token, number in self.encoder.items()}

    @functools.cached_property
    def byte_encoder(self) -> dict[int, str]:
        """Printable character of each byte."""
        return {byte: printable(bytes([byte])) for byte in BYTE_ORDER}

    @functools.cached_property
    def byte_decoder(self) -> dict[str, int]:
        """Byte of each printable character."""
        return {character: byte for byte, character in self.byte_encoder.items()}

    @functools.cached_property
    def bpe_ranks(self) -> dict[tuple[str, str], int]:
        """Place of each merge, given as its two printable parts."""
        pairs = self._owner.merges()
        return {
            (printable(left), printable(right)): rank for rank, (left, right) in enumerate(pairs)
        }

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        return self._owner.encode_ids(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of ids; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(map(self._owner.token_bytes, tokens)).decode(errors="replace")

    def bpe(self, token: str) -> str:
        """Return the pieces of one printable word, separated by spaces.

        Example:
            >>> from roberta_hub.text.bpe import GPT2BPE
            >>> GPT2BPE.shipped().bpe.bpe("Ġepipheny")
            'Ġep ip heny'
        """
        try:
            pieces = self._owner.merge_bytes(from_printable(token))
        except KeyError as error:
            raise InputError(f"{token[:40]!r} holds {error}, which is no printable byte") from None
        return " ".join(map(printable, pieces))
