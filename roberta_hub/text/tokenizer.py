"""Sentences to a model's ids and back, with the character offsets of pieces.

Shapes: T tokens of one sequence, `<s>` and `</s>` included; V symbols of the dictionary.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NoReturn

import torch
from torch import Tensor

from roberta_hub.arguments import holds_text, one_of, switch, whole_number
from roberta_hub.errors import InputError, InputTypeError, UnknownAttributeError, VocabularyError
from roberta_hub.keywords import check_assigned, checked, names_others
from roberta_hub.settings import MAX_LENGTH
from roberta_hub.text.bpe import GPT2BPE
from roberta_hub.text.dictionary import MASK, Dictionary
from roberta_hub.text.layout import LEAST_LENGTH, SequenceLayout
from roberta_hub.text.lowercase import piece_table
from roberta_hub.text.pieces import PieceTable, SubwordTokenizer
from roberta_hub.text.sequences import Sequences
from roberta_hub.text.sequences import Text as Text
from roberta_hub.text.with_added import WithAddedTokens, in_lowercase

_PARTS = ("engine", "piece_table", "dictionary", "layout")
"""What a tokenizer's tables are made of."""


@names_others
class Tokenizer:
    """Turns sentences into a model's ids and back.

    The tables are taken from the dictionary when the tokenizer is made: a symbol added later is not
    seen.

    Example:
        >>> tokenizer = Tokenizer.shipped()
        >>> tokenizer.encode("Hello world!")
        tensor([    0, 31414,   232,   328,     2])
        >>> tokenizer.decode(tokenizer.encode("Hello world!"))
        'Hello world!'
    """

    engine: SubwordTokenizer
    piece_table: PieceTable
    dictionary: Dictionary
    layout: SequenceLayout

    def __init__(
        self, engine: SubwordTokenizer, dictionary: Dictionary, layout: SequenceLayout | None = None
    ) -> None:
        layout = SequenceLayout.of(dictionary) if layout is None else layout
        pieces = piece_table(engine)
        vars(self).update(engine=engine, piece_table=pieces, dictionary=dictionary, layout=layout)
        self._size = len(dictionary)
        # Sequences are joined in the engine's numbers, and then translated all at once.
        self._sequences = Sequences(engine, pieces.size, layout.separators)
        known, table = dictionary.indices, [layout.unk] * pieces.size
        for symbol, number in pieces.symbols.items():
            table[number] = known.get(symbol, layout.unk)
        mask = layout.unk if layout.mask is None else layout.mask
        self._to_model = torch.tensor([*table, layout.bos, layout.eos, mask])

    @classmethod
    def shipped(cls) -> Tokenizer:
        """RoBERTa's tokenizer, from the tables in the package."""
        return cls(GPT2BPE.shipped(), Dictionary.roberta())

    if not TYPE_CHECKING:  # a type checker sees the class as it is

        def __setattr__(self, name: str, value: object) -> None:
            """Refuse what would change nothing: names of other libraries, and what ids rest on."""
            if name in _PARTS:
                raise UnknownAttributeError(
                    f"{name} of a Tokenizer cannot be set; Tokenizer(engine, dictionary, layout) "
                    "makes another, and roberta.bpe = ... gives a model another engine"
                )
            if not name.startswith("_"):
                check_assigned(self, name, ())
            super().__setattr__(name, value)

    def __call__(self, *args: object, **keywords: object) -> NoReturn:
        """Refuse the call that transformers' tokenizers take."""
        raise InputTypeError(
            "a tokenizer is not called; roberta.encode(text) gives ids and encode_batch(texts) ids "
            "of many; verbs take texts as they are"
        )

    def __len__(self) -> int:
        return self._size

    @property
    def model_max_length(self) -> int | None:
        """Most tokens of a text; None: as many as the model takes. It can be set."""
        return self.layout.max_length

    @model_max_length.setter
    def model_max_length(self, length: int | None) -> None:
        if length is not None:
            length = whole_number("model_max_length", length, LEAST_LENGTH)
        unlimited = length is None or length > MAX_LENGTH  # transformers writes 1e30
        self._lay_out(replace(self.layout, max_length=None if unlimited else length))

    @property
    def truncation_side(self) -> str:
        """The end of a text that `truncate=True` removes, "right" or "left"; it can be set."""
        return self.layout.truncation_side

    @truncation_side.setter
    def truncation_side(self, side: Literal["left", "right"]) -> None:
        one_of("truncation_side", side, ("left", "right"))
        self._lay_out(replace(self.layout, truncation_side=side))

    def _lay_out(self, layout: SequenceLayout) -> None:
        """Take another layout of the same ids."""
        vars(self)["layout"] = layout
        vars(self).pop("in_lowercase", None)

    @property
    def bos(self) -> int:
        """Id that begins a sequence."""
        return self.layout.bos

    @property
    def eos(self) -> int:
        """Id that ends a sentence."""
        return self.layout.eos

    @property
    def mask_idx(self) -> int:
        """Id of `<mask>`."""
        if self.layout.mask is None:
            raise VocabularyError(f"the dictionary has no {MASK}, so nothing can be masked")
        return self.layout.mask

    @functools.cached_property
    def rows(self) -> list[int | str]:
        """What each id is: the engine's number of a piece, or a symbol that is no piece.

        Example:
            >>> Tokenizer.shipped().rows[:6]
            ['<s>', '<pad>', '</s>', '<unk>', 13, 262]
        """
        numbers = self.piece_table.symbols
        return [numbers.get(symbol, symbol) for symbol in self.dictionary.symbols[: len(self)]]

    @functools.cached_property
    def in_lowercase(self) -> Tokenizer:
        """The same, which reads what is between added tokens in lower case."""
        return Tokenizer(in_lowercase(self.engine), self.dictionary, self.layout)

    @functools.cached_property
    def words(self) -> Tensor:
        """Ids of text, without special symbols and fillers: bool (V,).

        Example:
            >>> Tokenizer.shipped().words.sum()  # all of GPT-2's tokens but <|endoftext|>
            tensor(50256)
        """
        is_text = self.piece_table.is_text
        return torch.tensor([isinstance(row, int) and is_text(row) for row in self.rows])

    @functools.cached_property
    def num_words(self) -> int:
        """How many ids are text; see `words`."""
        return int(self.words.sum())

    @functools.cached_property
    def ids_of_pieces(self) -> dict[str, int]:
        """The id of each piece of text by its printable name.

        Example:
            >>> Tokenizer.shipped().ids_of_pieces["Ġworld"]
            232
        """
        names = enumerate(zip(self.pieces(), self.words.tolist(), strict=True))
        return {name: i for i, (name, is_text) in names if is_text}

    @functools.cached_property
    def beginnings(self) -> Tensor:
        """Which ids begin a word: bool (V,).

        Example:
            >>> Tokenizer.shipped().beginnings[[232, 31414, 2]]  # " world", "Hello", </s>
            tensor([ True, False, False])
        """
        begins = self.piece_table.begins_word
        return torch.tensor([isinstance(row, int) and begins(row) for row in self.rows])

    @checked
    def encode(self, sentence: str, *more: str, no_separator: bool = False) -> Tensor:
        """Turn sentences into one sequence: `<s> A </s>`, or `<s> A </s> </s> B </s>` and so on.

        Special words in the text are text: no input can write a special token. Nothing is cut off.

        Example:
            >>> tokenizer = Tokenizer.shipped()
            >>> tokenizer.encode("It was a great day")
            tensor([  0, 243,  21,  10, 372, 183,   2])
            >>> tokenizer.encode("Hello", "world", no_separator=True)
            tensor([    0, 31414,     2,  8331,     2])
        """
        single = no_separator if no_separator is False else switch("no_separator", no_separator)
        return self._to_model[self._sequences.one((sentence, *more), no_separator=single)]

    @checked
    def encode_batch(self, texts: Sequence[Text], threads: int | None = None) -> list[Tensor]:
        """Turn many texts into ids, the same as `encode` gives for each.

        Example:
            >>> Tokenizer.shipped().encode_batch(["Hello", ("Hello", " world")])
            [tensor([    0, 31414,     2]), tensor([    0, 31414,     2,     2,   232,     2])]
        """
        if isinstance(texts, (str, bytes)):
            raise InputTypeError(
                f"texts is a {type(texts).__name__}, not a list; use encode for one text"
            )
        texts = list(texts)
        size = self._sequences.at_once
        chunks = [(start, texts[start : start + size]) for start in range(0, len(texts), size)]
        if threads is None or threads <= 1:
            return [ids for chunk in chunks for ids in self._encode_chunk(chunk)]
        with ThreadPoolExecutor(threads) as pool:
            return [ids for part in pool.map(self._encode_chunk, chunks) for ids in part]

    def _encode_chunk(self, chunk: tuple[int, Sequence[Text]]) -> Sequence[Tensor]:
        start, texts = chunk
        flat = self._sequences.many(texts, start)
        starts: list[int] = flat.eq(self._sequences.begin).nonzero().flatten().tolist()
        lengths = [end - begin for begin, end in pairwise([*starts, len(flat)])]
        return torch.split(self._to_model[flat], lengths)

    def ids_of(self, text: str) -> Tensor:
        """Return the ids of a text's pieces alone, without `<s>` and `</s>`: int64 (n,).

        Example:
            >>> Tokenizer.shipped().ids_of("Hello world!")
            tensor([31414,   232,   328])
        """
        return self._to_model[torch.tensor(self.engine.encode_ids(text), dtype=torch.int32)]

    @functools.cached_property
    def placeholders(self) -> tuple[str, ...]:
        """Mask words in a text: `<mask>`, and the model's own.

        Example:
            >>> Tokenizer.shipped().placeholders  # of BERT ('<mask>', '[MASK]')
            ('<mask>',)
        """
        own = MASK if self.layout.mask is None else self.dictionary[self.layout.mask]
        return tuple(dict.fromkeys([MASK, own]))

    def encode_masked(self, text: str, mask_token: str | None = None) -> Tensor:
        """Turn text with placeholders into ids with `<mask>`, as fairseq's `fill_mask` does.

        Whitespace before a placeholder belongs to it, since the word to be found brings its own:
        `'a <mask>'` and `'a<mask>'` are the same.

        Example:
            >>> Tokenizer.shipped().encode_masked("Hello <mask>!")
            tensor([    0, 31414, 50264,   328,     2])
        """
        if not isinstance(text, str):
            raise InputTypeError(f"text is a {type(text).__name__}, not a str")
        if mask_token == "":
            raise InputError("mask_token is empty")
        words = self.placeholders if mask_token is None else (mask_token,)
        spans = re.split("|".join(map(re.escape, words)), text)
        if len(spans) > 1:
            _ = self.mask_idx  # refuses a dictionary without one
        return self._to_model[self._sequences.masked(spans)]

    @checked
    def decode(self, tokens: Tensor | Sequence[int]) -> str | list[str]:
        """Turn ids back into text: a str, or a list if `SequenceLayout.split` finds several.

        `<s>`, `</s>` and padding leave no trace; `<mask>`, `<unk>` and fillers show their names;
        bytes that are no UTF-8 become U+FFFD.

        Example:
            >>> tokenizer = Tokenizer.shipped()
            >>> tokenizer.decode(tokenizer.encode("Hello", "world"))
            ['Hello', 'world']
        """
        table, join = self._surfaces, self.piece_table.join
        parts = self.layout.split(self._check_ids(tokens))
        sentences = [join([table[i] for i in part]) for part in parts]
        return sentences[0] if len(sentences) == 1 else sentences

    def decode_id(self, token: int) -> str:
        """Show what one id adds to a text, with the space before a word; `<s>` by its name.

        Example:
            >>> Tokenizer.shipped().decode_id(232), Tokenizer.shipped().decode_id(0)
            (' world', '<s>')
        """
        (checked,) = self._check_ids([token])
        return self._surface(self.rows[checked]).decode(errors="replace")

    def tokenize(self, text: str) -> list[str]:
        """Cut text into pieces as the engine's files write them: GPT-2's show a space as `Ġ`.

        Example:
            >>> Tokenizer.shipped().tokenize("I had a sudden epipheny")
            ['I', 'Ġhad', 'Ġa', 'Ġsudden', 'Ġep', 'ip', 'heny']
        """
        return list(map(self.piece_table.piece, self.engine.encode_ids(text)))

    def pieces(self, tokens: Tensor | Sequence[int] | None = None) -> list[str]:
        """Printable piece of each id; special symbols are unchanged.

        None: the whole vocabulary.

        Example:
            >>> Tokenizer.shipped().pieces([0, 31414, 232, 50264, 2])
            ['<s>', 'Hello', 'Ġworld', '<mask>', '</s>']
        """
        rows = self.rows
        if tokens is not None:
            rows = [rows[i] for i in self._check_ids(tokens)]
        return [row if isinstance(row, str) else self.piece_table.piece(row) for row in rows]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character offsets of each piece of `tokenize(text)`.

        A piece with only some of a character's bytes covers that whole character, as its neighbour
        does; one without text has an empty span.

        Example:
            >>> Tokenizer.shipped().offsets("can’t")
            [(0, 3), (3, 4), (3, 4), (4, 5)]
        """
        return self.engine.spans(text)

    def added_offsets(self, text: str) -> list[tuple[int, int]]:
        """Tell where added tokens are in a text, in characters, without the blanks of theirs."""
        engine = self.engine
        if not isinstance(engine, WithAddedTokens):
            return []
        found = engine.token_spans(text)
        return [
            (end - len(text[start:end].lstrip()), start + len(text[start:end].rstrip()))
            for start, end in found
        ]

    @functools.cached_property
    def _surfaces(self) -> list[bytes]:
        """What each id adds to decoded text."""
        table = list(map(self._surface, self.rows))
        for silent in self.layout.begins | self.layout.ends:
            table[silent] = b""
        return table

    def _surface(self, row: int | str) -> bytes:
        return row.encode() if isinstance(row, str) else self.piece_table.surface(row)

    def _check_ids(self, tokens: Tensor | Sequence[int]) -> list[int]:
        if isinstance(tokens, str) or holds_text(tokens):
            raise InputTypeError(
                "tokens are not a row of whole numbers but text; encode(text) gives ids"
            )
        if not isinstance(tokens, Tensor):
            try:
                tokens = torch.as_tensor(tokens)
            except (TypeError, ValueError, RuntimeError, OverflowError) as error:
                raise InputTypeError(f"tokens are not a row of whole numbers: {error}") from None
        if tokens.dim() != 1:
            raise InputError(f"tokens have shape {tuple(tokens.shape)}, expected one dimension")
        if not tokens.numel():
            return []
        if tokens.dtype.is_floating_point or tokens.dtype.is_complex or tokens.dtype == torch.bool:
            raise InputTypeError(f"tokens are {tokens.dtype}, not whole numbers")
        ids: list[int] = tokens.tolist()
        size = len(self)
        if min(ids) < 0 or max(ids) >= size:
            place = next(i for i, token in enumerate(ids) if not 0 <= token < size)
            raise InputError(f"tokens[{place}] is {ids[place]}; ids run from 0 to {size - 1}")
        return ids
