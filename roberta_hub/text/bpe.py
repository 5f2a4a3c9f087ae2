"""Cuts text into pieces with GPT-2's byte-level BPE, without loss (Radford et al. 2019, 2.2).

A pattern cuts the text into words, each word is taken as bytes, and neighbouring bytes are merged,
earliest merge first (`merging.py`). This module keeps the tables and finds what is wrong with them.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from roberta_hub.errors import CheckpointError, InputError, InputTypeError, VocabularyError
from roberta_hub.text.characters import character_of_byte, check_text
from roberta_hub.text.dictionary import SPECIALS
from roberta_hub.text.gpt2_tables import (
    BYTE_ORDER,
    check_ids,
    check_merges,
    from_printable,
    ids_file,
    merges_file,
    printable,
    read_encoder,
    read_merges,
)
from roberta_hub.text.merging import BEGIN, END, MAX_JOINED, Merger
from roberta_hub.text.pieces import JoinedBatch, NormalizedText
from roberta_hub.text.tokenizer_json import TOKENIZER_FILE, write_byte_level
from roberta_hub.text.vocabulary import shipped_vocabulary


class GPT2BPE:
    """Byte-level BPE with GPT-2's ids: a `SubwordTokenizer` with fairseq's `GPT2BPE` methods.

    In fairseq's methods ids are decimal strings separated by spaces, as a dictionary names them.

    Example:
        >>> bpe = GPT2BPE.shipped()
        >>> bpe.encode("Hello world!"), bpe.decode("15496 995 0")
        ('15496 995 0', 'Hello world!')
    """

    def __init__(
        self,
        merges: Sequence[tuple[bytes, bytes]],
        ids: Mapping[bytes, int] | None = None,
        *,
        add_prefix_space: bool = False,
        fairseq_names: tuple[str, str] = ("encoder.json", "vocab.bpe"),
    ) -> None:
        self._merges = list(merges)
        tokens = [bytes([byte]) for byte in BYTE_ORDER] + [a + b for a, b in self._merges]
        if ids is None:
            self._bytes = dict(enumerate([*tokens, b"<|endoftext|>"]))
        else:
            check_ids(tokens, ids)
            self._bytes = {number: token for token, number in ids.items()}
        self.symbols = {str(number): number for number in self._bytes}
        """Each GPT-2 id by its decimal string, which is its name in a dictionary."""
        self._text_tokens = frozenset(tokens)
        self.add_prefix_space = add_prefix_space
        self._fairseq_names = fairseq_names
        self.max_id = max(self._bytes)
        """The largest GPT-2 id."""
        self.size = self.max_id + 1
        """One more than that."""
        self._merger = Merger(tokens, ids, self.size)

    @classmethod
    @functools.lru_cache(maxsize=1)
    def shipped(cls) -> GPT2BPE:
        """GPT-2's own tables, from the file in the package; built once and shared."""
        tokens = [bytes([byte]) for byte in BYTE_ORDER]
        merges = []
        tables = shipped_vocabulary()
        for left, right in zip(tables.left, tables.right, strict=True):
            merges.append((tokens[left], tokens[right]))
            tokens.append(tokens[left] + tokens[right])
        return cls(merges)

    @classmethod
    def from_files(
        cls,
        encoder_json: str | os.PathLike[str],
        vocab_bpe: str | os.PathLike[str],
        **settings: Any,
    ) -> GPT2BPE:
        """Read the files that fairseq calls `gpt2_encoder_json` and `gpt2_vocab_bpe`.

        Those that it calls `bpe_vocab` and `bpe_merges` have the same form.
        """
        ids = read_encoder(Path(encoder_json))
        merges = read_merges(Path(vocab_bpe))
        try:
            if merges != cls.shipped().merges():
                check_merges(merges)  # takes a second, and GPT-2's are known to pass
            return cls(merges, ids, **settings)
        except VocabularyError as error:
            raise VocabularyError(f"{vocab_bpe} with {encoder_json}: {error}") from None

    def encode_ids(self, text: str) -> list[int]:
        """Turn text into GPT-2 ids. Special words such as `<mask>` are text like any other.

        Example:
            >>> GPT2BPE.shipped().encode_ids("<mask>")
            [27, 27932, 29]
        """
        check_text(text)
        return self._merger.encode(self.prefixed(text) if self.add_prefix_space else text)

    def prefixed(self, text: str) -> str:
        """Return the text with the space before it that `add_prefix_space` asks for."""
        needed = self.add_prefix_space and text and not text.startswith(" ")
        return " " + text if needed else text

    @property
    def batch_encoder(self) -> JoinedBatch:
        """Gives the ids of `encode_ids`."""
        prepare = self.prefixed if self.add_prefix_space else None
        return JoinedBatch(BEGIN, END, MAX_JOINED, self._merger.encode_joined, prepare)

    @property
    def settings(self) -> dict[str, object]:
        """What tokenizer_config.json says of these tables."""
        return {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": self.add_prefix_space}

    @functools.cached_property
    def fingerprint(self) -> str:
        """Digest of tables that are not GPT-2's, and the space in front; "" without either.

        Two tables may give their ids the same names, and only this tells them apart.
        """
        prefix = "{} True" if self.add_prefix_space else ""  # as in states of training runs
        ids = {token: number for number, token in self._bytes.items()}
        tokens = [bytes([byte]) for byte in BYTE_ORDER] + [a + b for a, b in self._merges]
        numbers = [ids[token] for token in tokens]
        if self._merges == GPT2BPE.shipped()._merges and numbers == list(range(len(numbers))):
            return prefix
        lines = "\n".join([*self.printable_merges(), *map(str, numbers)])
        return f"{prefix} {hashlib.blake2b(lines.encode(), digest_size=16).hexdigest()}".lstrip()

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) in characters of each piece of a text.

        A piece with only some of a character's bytes covers that whole character, as its neighbour
        does; one that is only the space of `add_prefix_space` covers nothing.

        Example:
            >>> GPT2BPE.shipped().spans("can’t")
            [(0, 3), (3, 4), (3, 4), (4, 5)]
        """
        spans = self.byte_spans(text)
        if text.isascii():
            return spans
        owner = [*character_of_byte(text), len(text)]
        return [
            (owner[start], owner[end - 1] + 1 if end > start else owner[start])
            for start, end in spans
        ]

    def byte_spans(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) in the text's UTF-8 bytes of each of its pieces, without gaps.

        Example:
            >>> GPT2BPE.shipped().byte_spans("can’t")
            [(0, 3), (3, 5), (5, 6), (6, 7)]
        """
        check_text(text)
        prefixed = self.prefixed(text)
        lengths = [len(self._bytes[i]) for i in self._merger.encode(prefixed)]
        if prefixed != text:
            lengths[0] -= 1  # the space that is not in the text
        return list(pairwise(accumulate(lengths, initial=0)))

    def normalized(self, text: str) -> NormalizedText:
        """As it is."""
        return NormalizedText.same(text)

    def encode(self, text: str) -> str:
        """Turn text into GPT-2 ids as decimal strings separated by spaces, as in fairseq.

        Example:
            >>> GPT2BPE.shipped().encode(" world")
            '995'
        """
        return " ".join(map(str, self.encode_ids(text)))

    def decode(self, ids: str) -> str:
        """Turn decimal strings separated by spaces back into text.

        Whatever is no id of this table (`<mask>`, `<unk>`, `<pad>`, `madeupword0000`) stays as it
        is; bytes that are no UTF-8 become U+FFFD.

        Example:
            >>> GPT2BPE.shipped().decode("15496 <mask> 0")
            'Hello<mask>!'
        """
        if not isinstance(ids, str):
            raise InputTypeError(f"decode takes a str of ids, not {type(ids).__name__}")
        return b"".join(map(self.symbol_bytes, ids.split())).decode(errors="replace")

    def symbol_bytes(self, symbol: str) -> bytes:
        """Return the bytes of the token that a symbol names; of another symbol its letters.

        Example:
            >>> GPT2BPE.shipped().symbol_bytes("995"), GPT2BPE.shipped().symbol_bytes("<mask>")
            (b' world', b'<mask>')
        """
        number = self.symbols.get(symbol)
        return symbol.encode() if number is None else self._bytes[number]

    def is_text(self, number: int) -> bool:
        """Whether `encode_ids` can return an id: not `<|endoftext|>`."""
        return self._bytes.get(number) in self._text_tokens

    def begins_word(self, number: int) -> bool:
        """Whether a token begins with a space.

        Example:
            >>> [GPT2BPE.shipped().begins_word(number) for number in (995, 6894)]
            [True, False]
        """
        return self.token_bytes(number).startswith(b" ")

    def piece(self, number: int) -> str:
        """One token as GPT-2's files write it: one character a byte, `Ġ` a space.

        Example:
            >>> GPT2BPE.shipped().piece(995)
            'Ġworld'
        """
        return printable(self.token_bytes(number))

    def join(self, surfaces: Iterable[bytes]) -> str:
        """Return the text of tokens in a row; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(surfaces).decode(errors="replace")

    def is_beginning_of_word(self, x: str) -> bool:
        """Whether the decoded symbols begin with a space, as in fairseq.

        Example:
            >>> [GPT2BPE.shipped().is_beginning_of_word(x) for x in ("995", "6894")]
            [True, False]
        """
        return self.decode(x).startswith(" ")

    def token_bytes(self, number: int) -> bytes:
        """Return the bytes of one token, which are what it adds to a text.

        Example:
            >>> GPT2BPE.shipped().token_bytes(995)
            b' world'
        """
        try:
            return self._bytes[number]
        except KeyError:
            raise InputError(f"{number} is no GPT-2 id; ids run from 0 to {self.max_id}") from None

    surface = token_bytes

    def word_surface(self, word: str) -> bytes:
        """The word itself, without a space."""
        return word.encode()

    @functools.cached_property
    def bpe(self) -> GPT2Encoder:
        """GPT-2's encoder, as `roberta.bpe.bpe` in fairseq."""
        return GPT2Encoder(self)

    def merge_bytes(self, word: bytes) -> list[bytes]:
        """Merge the bytes of one word as far as they go."""
        return self._merger.merge(word)

    def merges(self) -> list[tuple[bytes, bytes]]:
        """Return the two parts of each merge, earliest first.

        Example:
            >>> GPT2BPE.shipped().merges()[:2]
            [(b' ', b't'), (b' ', b'a')]
        """
        return list(self._merges)

    def printable_ids(self) -> dict[str, str]:
        """Dictionary symbol of each printable token.

        Example:
            >>> GPT2BPE.shipped().printable_ids()["Ġworld"]
            '995'
        """
        return {printable(self._bytes[number]): name for name, number in self.symbols.items()}

    def printable_merges(self) -> list[str]:
        """Write the merges as lines of `vocab.bpe` and `merges.txt`, without the version line.

        Example:
            >>> GPT2BPE.shipped().printable_merges()[:2]
            ['Ġ t', 'Ġ a']
        """
        return [f"{printable(left)} {printable(right)}" for left, right in self._merges]

    def files(self, rows: Sequence[int | str]) -> dict[str, bytes]:
        """vocab.json, merges.txt and tokenizer.json.

        tokenizer.json repeats it, for `tokenizers` and servers based on it. It is
        left out where a merge makes a piece without an id, which `tokenizers` refuses.
        """
        names = [row if isinstance(row, str) else self.piece(row) for row in rows]
        ids = {name: i for i, name in enumerate(names)}
        if len(ids) < len(names):
            twice = next(name for i, name in enumerate(names) if ids[name] != i)
            raise CheckpointError(
                f"the dictionary gives {twice!r} two ids, which vocab.json cannot express; save as "
                "'fairseq'"
            )
        merges = self.printable_merges()
        files = {"vocab.json": ids_file(ids), "merges.txt": merges_file(merges)}
        pairs = [merge.split(" ") for merge in merges]
        pieces = {piece for left, right in pairs for piece in (left, right, left + right)}
        if pieces | {SPECIALS[0], SPECIALS[2]} <= ids.keys():
            prefix = self.add_prefix_space
            files[TOKENIZER_FILE] = write_byte_level(ids, pairs, add_prefix_space=prefix)
        return files

    def fairseq_files(self) -> dict[str, bytes]:
        """encoder.json and vocab.bpe, or the names that they were read by."""
        if self.add_prefix_space:
            raise CheckpointError(
                "fairseq's BPE puts no space before a text, as this tokenizer does; save as "
                "'huggingface' or 'roberta_hub'"
            )
        ids = {self.piece(number): number for number in self.symbols.values()}
        contents = (ids_file(ids), merges_file(self.printable_merges()))
        return dict(zip(self._fairseq_names, contents, strict=True))


class GPT2Encoder:
    """GPT-2 ids as numbers, and their tables (`fairseq/data/encoders/gpt2_bpe_utils.py`).

    Example:
        >>> from roberta_hub.text.bpe import GPT2BPE
        >>> encoder = GPT2BPE.shipped().bpe
        >>> encoder.encode("Hello world"), encoder.decoder[995], encoder.encoder["Ġworld"]
        ([15496, 995], 'Ġworld', 995)
    """

    def __init__(self, owner: GPT2BPE) -> None:
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
