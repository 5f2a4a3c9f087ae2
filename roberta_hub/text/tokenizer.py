"""Sentences ↔ ids: BPE and dictionary joined, with offsets into the text.

Shapes: T tokens of one sequence, `<s>` and `</s>` included.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise
from typing import TypeAlias, cast

import torch
from torch import Tensor

from roberta_hub.arguments import switch
from roberta_hub.errors import InputError, InputTypeError, VocabularyError
from roberta_hub.text.bpe import BEGIN, END, GPT2BPE, MAX_MARKED
from roberta_hub.text.characters import character_of_byte
from roberta_hub.text.dictionary import MASK, Dictionary
from roberta_hub.text.tables import printable

Text: TypeAlias = "str | tuple[str, ...]"
"""One sentence, or several that are encoded as one sequence."""

_CHUNK = 256
"""Texts that one call of the BPE takes: enough to make its fixed cost small, few enough to keep the
joined text small."""


class Tokenizer:
    """Turns sentences into a model's ids and back.

    The tables are taken from the dictionary when the tokenizer is made: a symbol added later is not
    seen.

    Args:
        bpe: cuts text into pieces.
        dictionary: knows each piece by its GPT-2 id as a decimal string; a piece it lacks becomes
            `<unk>`.

    Example:
        >>> tokenizer = Tokenizer.shipped()
        >>> tokenizer.encode("Hello world!")
        tensor([    0, 31414,   232,   328,     2])
        >>> tokenizer.decode(tokenizer.encode("Hello world!"))
        'Hello world!'
    """

    def __init__(self, bpe: GPT2BPE, dictionary: Dictionary) -> None:
        self.bpe = bpe
        self.dictionary = dictionary
        # A dict.txt may give a special symbol a second id. fairseq writes that one, as a word of
        # the line; but an unknown piece is `unk()`, and padding `pad()`.
        self.bos = dictionary.index(dictionary.bos_word)
        self.eos = dictionary.index(dictionary.eos_word)
        self.pad, self.unk = dictionary.pad(), dictionary.unk()
        self._begins, self._ends = {self.bos, dictionary.bos()}, {self.eos, dictionary.eos()}
        # Sequences are put together from GPT-2 ids, with three more numbers for the symbols between
        # and inside texts, and then translated all at once.
        self._mask = bpe.end_id + 1
        known, unk = dictionary.indices, self.unk
        table = [known.get(str(i), unk) for i in range(bpe.max_id + 1)]
        self._to_model = torch.tensor([*table, self.bos, self.eos, dictionary.index(MASK)])

    @classmethod
    def shipped(cls) -> Tokenizer:
        """RoBERTa's tokenizer, from the tables in the package."""
        return cls(GPT2BPE.shipped(), Dictionary.roberta())

    def __len__(self) -> int:
        return len(self.dictionary)

    @property
    def mask_idx(self) -> int:
        """Id of `<mask>`.

        Raises:
            VocabularyError: the dictionary has none.
        """
        self._require_mask()
        return self.dictionary.index(MASK)

    @functools.cached_property
    def words(self) -> Tensor:
        """Which ids stand for text, not for a special symbol or a filler: bool (V,).

        Example:
            >>> Tokenizer.shipped().words.sum()  # all of GPT-2's tokens but <|endoftext|>
            tensor(50256)
        """
        bpe = self.bpe
        return torch.tensor([bpe.is_text(symbol) for symbol in self.dictionary.symbols])

    def encode(self, sentence: str, *more: str, no_separator: bool = False) -> Tensor:
        """Turn sentences into one sequence: `<s> A </s>`, or `<s> A </s> </s> B </s>` and so on.

        Special words in the text are text: no input can write a control token. Nothing is cut off.

        Args:
            sentence: the first sentence.
            more: further ones.
            no_separator: one `</s>` between sentences instead of two.

        Returns:
            int64 tensor (T,).

        Raises:
            InputTypeError: a sentence is not a str.
            InputError: a sentence holds half of a surrogate pair.

        Example:
            >>> tokenizer = Tokenizer.shipped()
            >>> tokenizer.encode("It was a great day")
            tensor([  0, 243,  21,  10, 372, 183,   2])
            >>> tokenizer.encode("Hello", "world", no_separator=True)
            tensor([    0, 31414,     2,  8331,     2])
        """
        flat = array("i")
        single = no_separator if no_separator is False else switch("no_separator", no_separator)
        self._append(flat, (sentence, *more), 1 if single else 2)
        return self._to_model[_as_tensor(flat)]

    def encode_batch(self, texts: Sequence[Text], threads: int | None = None) -> list[Tensor]:
        """Turn many texts into ids, the same as `encode` gives for each.

        Args:
            texts: sentences, or tuples of sentences for `<s> A </s> </s> B </s>`.
            threads: how many share the work; None: one.

        Returns:
            An int64 tensor (T_i,) for each text, in order. Neighbours are views of one tensor:
            `.clone()` what is kept much longer than the rest.

        Raises:
            InputTypeError, InputError: as `encode`, and the message names the item.

        Example:
            >>> Tokenizer.shipped().encode_batch(["Hello", ("Hello", " world")])
            [tensor([    0, 31414,     2]), tensor([    0, 31414,     2,     2,   232,     2])]
        """
        if isinstance(texts, (str, bytes)):
            raise InputTypeError(
                f"texts is a {type(texts).__name__}, not a list; use encode for one text"
            )
        texts = list(texts)
        chunks = [(start, texts[start : start + _CHUNK]) for start in range(0, len(texts), _CHUNK)]
        if threads is None or threads <= 1:
            return [ids for chunk in chunks for ids in self._encode_chunk(chunk)]
        with ThreadPoolExecutor(threads) as pool:
            return [ids for part in pool.map(self._encode_chunk, chunks) for ids in part]

    def _encode_chunk(self, chunk: tuple[int, Sequence[Text]]) -> Sequence[Tensor]:
        start, texts = chunk
        flat = self._encode_together(texts)
        if flat is None:
            flat = self._encode_singly(texts, start)
        ends = [*self._places(flat, self.bpe.begin_id)[1:], len(flat)]
        lengths = [end - begin for begin, end in pairwise([0, *ends])]
        return torch.split(self._to_model[flat], lengths)

    def _encode_together(self, texts: Sequence[Text]) -> Tensor | None:
        """GPT-2 ids of all texts from one call.

        None where something is wrong or odd, for `_encode_singly` to deal with.
        """
        sentences: Sequence[str]
        if not self.bpe.plain:
            return None
        if self.bpe.add_prefix_space:
            texts = [self._prefixed(text) for text in texts]
        if set(map(type, texts)) == {str}:  # most lists: no Python for each text
            sentences = cast("Sequence[str]", texts)
            joined = BEGIN + (END + BEGIN).join(sentences) + END
        else:
            sentences, joined = [], ""
            for text in texts:
                own = (text,) if isinstance(text, str) else text
                if not isinstance(own, tuple) or not own:
                    return None
                if not all(isinstance(sentence, str) for sentence in own):
                    return None
                sentences += own
                joined += BEGIN + (END + END).join(own) + END
        if max(map(len, sentences)) > MAX_MARKED:
            return None
        ends = 2 * len(sentences) - len(texts)
        if joined.count(BEGIN) != len(texts) or joined.count(END) != ends:
            return None  # a text holds a mark, which must come out as text
        try:
            return _as_tensor(self.bpe.encode_marked(joined))
        except InputError:
            return None

    def _prefixed(self, text: Text) -> Text:
        if isinstance(text, str):
            return self.bpe.prefixed(text)
        if isinstance(text, tuple) and all(isinstance(sentence, str) for sentence in text):
            return tuple(map(self.bpe.prefixed, text))
        return text  # wrong, which is said later

    def _encode_singly(self, texts: Sequence[Text], start: int) -> Tensor:
        """GPT-2 ids of all texts, one after the other; errors count from number `start`."""
        flat = array("i")
        for i, text in enumerate(texts, start):
            try:
                self._append(flat, text, 2)
            except (InputError, InputTypeError) as error:
                raise type(error)(f"texts[{i}]: {error}") from None
        return _as_tensor(flat)

    def _append(self, flat: array[int], text: Text, num_separators: int) -> None:
        """Put one sequence at the end of `flat`, in GPT-2 ids."""
        flat.append(self.bpe.begin_id)
        if isinstance(text, str):
            flat.extend(self.bpe.encode_ids(text))
        elif isinstance(text, tuple) and text:
            flat.extend(self.bpe.encode_ids(text[0]))
            for sentence in text[1:]:
                flat.extend([self.bpe.end_id] * num_separators)
                flat.extend(self.bpe.encode_ids(sentence))
        else:
            kind = "an empty tuple" if text == () else f"a {type(text).__name__}"
            raise InputTypeError(f"a text is a str or a tuple of them, not {kind}")
        flat.append(self.bpe.end_id)

    @staticmethod
    def _places(flat: Tensor, mark: int) -> list[int]:
        places: list[int] = flat.eq(mark).nonzero().flatten().tolist()
        return places

    def encode_masked(self, text: str, mask_token: str = MASK) -> Tensor:
        """Turn text with placeholders into ids with `<mask>`, as fairseq's `fill_mask` does.

        Whitespace before a placeholder belongs to it, since the word to be found brings its own:
        `'a <mask>'` and `'a<mask>'` are the same.

        Args:
            text: any number of placeholders.
            mask_token: the placeholder.

        Returns:
            int64 tensor (T,).

        Example:
            >>> Tokenizer.shipped().encode_masked("Hello <mask>!")
            tensor([    0, 31414, 50264,   328,     2])
        """
        if not isinstance(text, str):
            raise InputTypeError(f"text is a {type(text).__name__}, not a str")
        if not mask_token:
            raise InputError("mask_token is empty")
        if mask_token in text:
            self._require_mask()
        flat = array("i", [self.bpe.begin_id])
        for span in text.split(mask_token):
            flat.extend(self.bpe.encode_ids(span.rstrip()))
            flat.append(self._mask)
        flat[-1] = self.bpe.end_id  # in place of the mask behind the last span
        return self._to_model[_as_tensor(flat)]

    def decode(self, tokens: Tensor | Sequence[int]) -> str | list[str]:
        """Turn ids back into text: one str, or a list where two `</s>` stand between sentences.

        `<s>`, `</s>` and padding leave no trace; `<mask>`, `<unk>` and fillers show their names;
        bytes that are no UTF-8 become U+FFFD.

        Args:
            tokens: (T,), of any integer type, on any device; or a list of ints.

        Raises:
            InputTypeError: not whole numbers.
            InputError: not one-dimensional, or an id outside the dictionary.

        Example:
            >>> tokenizer = Tokenizer.shipped()
            >>> tokenizer.decode(tokenizer.encode("Hello", "world"))
            ['Hello', 'world']
        """
        ids = [i for i in self._check_ids(tokens) if i != self.pad]
        if ids and ids[0] in self._begins:
            ids = ids[1:]
        pairs = {(end, end) for end in self._ends}
        cuts = [i + 1 for i, pair in enumerate(pairwise(ids)) if pair in pairs]
        pieces = [ids[start:end] for start, end in pairwise([0, *cuts, len(ids)])]
        table = self._symbol_bytes
        sentences = [
            b"".join([table[i] for i in piece]).decode(errors="replace") for piece in pieces
        ]
        return sentences[0] if len(sentences) == 1 else sentences

    def decode_id(self, token: int) -> str:
        """The text of one id, `<s>` and the like by their names.

        Example:
            >>> Tokenizer.shipped().decode_id(232), Tokenizer.shipped().decode_id(0)
            (' world', '<s>')
        """
        (checked,) = self._check_ids([token])
        return self.bpe.symbol_bytes(self.dictionary[checked]).decode(errors="replace")

    def tokenize(self, text: str) -> list[str]:
        """Cut text into pieces as GPT-2's files write them: one character a byte, `Ġ` a space.

        Example:
            >>> Tokenizer.shipped().tokenize("I had a sudden epipheny")
            ['I', 'Ġhad', 'Ġa', 'Ġsudden', 'Ġep', 'ip', 'heny']
        """
        return [printable(self.bpe.token_bytes(i)) for i in self.bpe.encode_ids(text)]

    def pieces(self, tokens: Tensor | Sequence[int] | None = None) -> list[str]:
        """The printable piece behind each id; `<s>` and the like are themselves.

        None: the whole vocabulary.

        Example:
            >>> Tokenizer.shipped().pieces([0, 31414, 232, 50264, 2])
            ['<s>', 'Hello', 'Ġworld', '<mask>', '</s>']
        """
        ids = range(len(self.dictionary)) if tokens is None else self._check_ids(tokens)
        return [printable(self.bpe.symbol_bytes(self.dictionary[i])) for i in ids]

    def byte_spans(self, text: str) -> list[tuple[int, int]]:
        """Where each piece of `tokenize(text)` lies in the text's UTF-8 bytes, without gaps.

        Example:
            >>> Tokenizer.shipped().byte_spans("can’t")
            [(0, 3), (3, 5), (5, 6), (6, 7)]
        """
        return list(pairwise(accumulate(self.bpe.byte_lengths(text), initial=0)))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each piece of `tokenize(text)` lies in the text, in characters.

        A piece with only some of a character's bytes covers that whole character, as its neighbour
        does; one that is only the space of `add_prefix_space` covers nothing.

        Example:
            >>> Tokenizer.shipped().offsets("can’t")
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

    @functools.cached_property
    def _symbol_bytes(self) -> list[bytes]:
        """What each id adds to decoded text."""
        table = [self.bpe.symbol_bytes(symbol) for symbol in self.dictionary.symbols]
        for silent in self._begins | self._ends:
            table[silent] = b""
        return table

    def _require_mask(self) -> None:
        if MASK not in self.dictionary:
            raise VocabularyError(f"the dictionary has no {MASK}, so nothing can be masked")

    def _check_ids(self, tokens: Tensor | Sequence[int]) -> list[int]:
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
        size = len(self.dictionary)
        if min(ids) < 0 or max(ids) >= size:
            place = next(i for i, token in enumerate(ids) if not 0 <= token < size)
            raise InputError(f"tokens[{place}] is {ids[place]}; ids run from 0 to {size - 1}")
        return ids


def _as_tensor(flat: array[int]) -> Tensor:
    return torch.frombuffer(flat, dtype=torch.int32)  # at least one mark is always there
