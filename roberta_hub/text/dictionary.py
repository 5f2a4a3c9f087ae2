"""Holds fairseq's table of symbols and ids, and reads and writes it (`fairseq/data/dictionary.py`).

A file has one `symbol count` a line; ids follow the order of the lines, after `<s>` 0, `<pad>` 1,
`</s>` 2, `<unk>` 3. fairseq reads good files the same way; of a bad one the error names the line.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from roberta_hub.errors import InputError, InputTypeError, VocabularyError
from roberta_hub.files import write_bytes
from roberta_hub.text.dictionary_file import (
    PathOrFile,
    entries,
    file_of,
    read_bytes,
    source_name,
)
from roberta_hub.text.subwords import join_subwords
from roberta_hub.text.vocabulary import shipped_tables

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
"""The symbols that fairseq gives the ids 0 to 3."""
MASK = "<mask>"
"""Stands for a token to be guessed: in a dictionary, and in a text for `fill_mask`."""


def tokenize_line(line: str) -> list[str]:
    """Split at runs of whitespace, none at the ends."""
    return re.sub(r"\s+", " ", line).strip().split()


class Dictionary:
    """Symbols, their ids and how often each was seen in training, as in fairseq.

    Args:
        bos: the symbol that begins a sequence, id 0.
        pad: padding, id 1.
        eos: the symbol that ends a sequence, id 2.
        unk: stands for any unknown symbol, id 3.
        extra_special_symbols: further symbols ahead of the ordinary ones.

    Example:
        >>> d = Dictionary()
        >>> d.add_symbol("hello"), d.index("hello"), d.index("bye") == d.unk(), d[4], len(d)
        (4, 4, True, 'hello', 5)
    """

    def __init__(
        self,
        *,
        bos: str = SPECIALS[0],
        pad: str = SPECIALS[1],
        eos: str = SPECIALS[2],
        unk: str = SPECIALS[3],
        extra_special_symbols: Iterable[str] = (),
    ) -> None:
        self.bos_word, self.pad_word, self.eos_word, self.unk_word = bos, pad, eos, unk
        self.symbols: list[str] = []
        self.count: list[int] = []
        self.indices: dict[str, int] = {}
        # These four stay where they are even when a file overwrites a symbol and moves its index.
        self.bos_index = self.add_symbol(bos)
        self.pad_index = self.add_symbol(pad)
        self.eos_index = self.add_symbol(eos)
        self.unk_index = self.add_symbol(unk)
        for symbol in extra_special_symbols:
            self.add_symbol(symbol)
        self.nspecial = len(self.symbols)

    @classmethod
    def roberta(cls) -> Dictionary:
        """RoBERTa's 50,265 symbols: 4 specials, 50,257 GPT-2 ids, 3 fillers, `<mask>`.

        A new copy each time.

        The counts of fairseq's file are not part of the package. Descending numbers stand in for
        them, so that sorting by count keeps the order; they are ranks, not frequencies.

        Example:
            >>> d = Dictionary.roberta()
            >>> len(d), d.symbols[4:7], d.index("50256"), d.symbols[-2:]
            (50265, ['13', '262', '11'], 50260, ['madeupword0002', '<mask>'])
        """
        dictionary = cls()
        dictionary.symbols += map(str, shipped_tables().order)  # none twice
        dictionary.indices = {symbol: i for i, symbol in enumerate(dictionary.symbols)}
        dictionary.count += range(len(dictionary) - dictionary.nspecial, 0, -1)
        dictionary.pad_to_multiple_(8)
        dictionary.add_symbol(MASK)
        return dictionary

    @classmethod
    def from_symbols(
        cls, symbols: Iterable[str], *, bos: str, pad: str, eos: str, unk: str
    ) -> Dictionary:
        """Number symbols in their order; the special ones stand anywhere, as in BERT's vocabulary.

        Raises:
            VocabularyError: a symbol stands there twice, or a special one is missing.

        Example:
            >>> names = {"bos": "[CLS]", "pad": "[PAD]", "eos": "[SEP]", "unk": "[UNK]"}
            >>> symbols = ["[PAD]", "the", "[UNK]", "[CLS]", "[SEP]"]
            >>> d = Dictionary.from_symbols(symbols, **names)
            >>> d.pad(), d.unk(), d.bos(), d.eos(), d.index("the")
            (0, 2, 3, 4, 1)
        """
        dictionary, words = cls(bos=bos, pad=pad, eos=eos, unk=unk), (bos, pad, eos, unk)
        dictionary.symbols = list(symbols)
        dictionary.indices = {symbol: i for i, symbol in enumerate(dictionary.symbols)}
        if len(dictionary.indices) < len(dictionary.symbols):
            raise VocabularyError("a symbol stands in the vocabulary twice")
        if missing := [word for word in words if word not in dictionary.indices]:
            raise VocabularyError(f"the vocabulary lacks its special symbol {missing[0]!r}")
        dictionary.count = list(range(len(dictionary.symbols), 0, -1))  # ranks, as in `roberta`
        dictionary._set_special(*map(dictionary.index, words))
        dictionary.nspecial = len(words) if dictionary.as_fairseq else 0
        return dictionary

    def _set_special(self, bos: int, pad: int, eos: int, unk: int) -> None:
        self.bos_index, self.pad_index, self.eos_index, self.unk_index = bos, pad, eos, unk

    @property
    def as_fairseq(self) -> bool:
        """Whether the special symbols come first and in fairseq's order, as in every dict.txt."""
        return [self.bos_index, self.pad_index, self.eos_index, self.unk_index] == [0, 1, 2, 3]

    @classmethod
    def of(cls, other: Any) -> Dictionary:
        """Return a `Dictionary` with the content of another, say a real fairseq one; ours as it is.

        The other has fairseq's `symbols`, `count`, `indices`, `nspecial`, `bos()` and so on.
        """
        if isinstance(other, Dictionary):
            return other
        special = [other.bos(), other.pad(), other.eos(), other.unk()]
        words = [other.symbols[idx] for idx in special]
        dictionary = cls(**dict(zip(("bos", "pad", "eos", "unk"), words, strict=True)))
        dictionary.symbols, dictionary.count = list(other.symbols), list(other.count)
        dictionary.indices = dict(other.indices)
        dictionary._set_special(*special)
        dictionary.nspecial = other.nspecial
        return dictionary

    def __len__(self) -> int:
        return len(self.symbols)

    def get_count(self, idx: int) -> int:
        """Tell how often a symbol was seen in training."""
        return self.count[idx]

    def __getitem__(self, idx: int) -> str:
        if idx < -len(self):
            raise InputError(f"symbol {idx}: this dictionary has {len(self)} symbols")
        return self.symbols[idx] if idx < len(self) else self.unk_word

    def __iter__(self) -> Iterator[str]:
        return iter(self.symbols)  # by __getitem__, which knows no end, it would run for ever

    def __contains__(self, sym: object) -> bool:
        return sym in self.indices

    def __eq__(self, other: object) -> bool:
        return self.indices == other.indices if isinstance(other, Dictionary) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # mutable, compared by content

    def __repr__(self) -> str:
        return f"Dictionary({len(self)} symbols)"

    def bos(self) -> int:
        """Id that begins a sequence."""
        return self.bos_index

    def pad(self) -> int:
        """Id of padding."""
        return self.pad_index

    def eos(self) -> int:
        """Id that ends a sequence."""
        return self.eos_index

    def unk(self) -> int:
        """Id of every unknown symbol."""
        return self.unk_index

    def index(self, sym: str) -> int:
        """Id of a symbol, that of `<unk>` if it is not in the table."""
        if not isinstance(sym, str):
            raise InputTypeError(f"a symbol is a str, not {type(sym).__name__}")
        return self.indices.get(sym, self.unk_index)

    def add_symbol(self, word: str, n: int = 1, overwrite: bool = False) -> int:
        """Add `n` to the count of a symbol, which is appended if it is new.

        Args:
            word: the symbol.
            n: occurrences to add.
            overwrite: append it even if it is there; its index moves to the new place.

        Returns:
            The id.
        """
        if word in self.indices and not overwrite:
            idx = self.indices[word]
            self.count[idx] += n
            return idx
        idx = len(self.symbols)
        self.indices[word] = idx
        self.symbols.append(word)
        self.count.append(n)
        return idx

    def update(self, new_dict: Dictionary) -> None:
        """Add the symbols and counts of another dictionary."""
        for word in new_dict.symbols:
            self.add_symbol(word, n=new_dict.count[new_dict.indices[word]])

    def finalize(self, threshold: int = -1, nwords: int = -1, padding_factor: int = 8) -> None:
        """Sort the ordinary symbols by descending count, ties by name, and pad the size.

        Args:
            threshold: leave out symbols seen less often.
            nwords: keep this many symbols, the special ones included; -1: all.
            padding_factor: fill up to a multiple of this with `madeupword` symbols; 1: no filling.
        """
        keep = (nwords if nwords > 0 else len(self)) - self.nspecial
        counts = dict(zip(self.symbols[self.nspecial :], self.count[self.nspecial :], strict=True))
        ordered = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))
        kept = [symbol for symbol in ordered[: max(keep, 0)] if counts[symbol] >= threshold]
        self.symbols = self.symbols[: self.nspecial] + kept
        self.count = self.count[: self.nspecial] + [counts[symbol] for symbol in kept]
        self.indices = {symbol: idx for idx, symbol in enumerate(self.symbols)}
        self.pad_to_multiple_(padding_factor)

    def pad_to_multiple_(self, padding_factor: int) -> None:
        """Append `madeupword0000`, … until the size is a multiple of `padding_factor`."""
        self.pad_to_(-(-len(self) // max(padding_factor, 1)) * max(padding_factor, 1))

    def pad_to_(self, size: int) -> None:
        """Append `madeupword0000`, … until there are `size` symbols."""
        filler = 0
        while len(self) < size:
            self.add_symbol(f"madeupword{filler:04d}", n=0)
            filler += 1

    def string(
        self,
        tensor: Tensor | Sequence[int],
        bpe_symbol: str | None = None,
        escape_unk: bool = False,
        extra_symbols_to_ignore: Collection[int] | None = None,
        unk_string: str | None = None,
        include_eos: bool = False,
        separator: str = " ",
    ) -> str:
        """Join the symbols of a row of ids, without `<s>` and `</s>`; of a matrix, one line a row.

        Args:
            tensor: ids, (T,) or (B, T).
            bpe_symbol: joins subwords of a kind, one of `subwords.KINDS`; None: no joining.
            escape_unk: write `<<unk>>` for unknown symbols, to tell them from a literal `<unk>`.
            extra_symbols_to_ignore: ids to leave out as well.
            unk_string: what to write for unknown symbols instead.
            include_eos: keep `</s>`.
            separator: between symbols.

        Example:
            >>> Dictionary.roberta().string([0, 31414, 232, 50264, 2])
            '15496 995 <mask>'
        """
        options = (bpe_symbol, escape_unk, extra_symbols_to_ignore, unk_string, include_eos)
        if isinstance(tensor, Tensor) and tensor.dim() == 2:
            return "\n".join(self.string(row, *options, separator) for row in tensor)
        ids = tensor.tolist() if isinstance(tensor, Tensor) else tensor
        ignored = {self.bos_index, *(extra_symbols_to_ignore or ())}
        if not include_eos:
            ignored.add(self.eos_index)
        unknown = self.unk_string(escape_unk) if unk_string is None else unk_string
        symbols = (unknown if i == self.unk_index else self[i] for i in ids if i not in ignored)
        return join_subwords(separator.join(symbols), bpe_symbol)

    def unk_string(self, escape: bool = False) -> str:
        """Return the unknown symbol, in angle brackets if `escape`."""
        return f"<{self.unk_word}>" if escape else self.unk_word

    def encode_line(
        self,
        line: str,
        line_tokenizer: Callable[[str], list[str]] = tokenize_line,
        add_if_not_exist: bool = True,
        consumer: Callable[[str, int], None] | None = None,
        append_eos: bool = True,
        reverse_order: bool = False,
    ) -> Tensor:
        """Turn a line of symbols into ids.

        Args:
            line: symbols separated by whitespace.
            line_tokenizer: splits the line.
            add_if_not_exist: new symbols enter the dictionary; otherwise they become `<unk>`.
            consumer: called with each symbol and its id.
            append_eos: end with `</s>`.
            reverse_order: last symbol first.

        Returns:
            int32 tensor (T,).

        Example:
            >>> Dictionary.roberta().encode_line("15496 995 nothing", add_if_not_exist=False)
            tensor([31414,   232,     3,     2], dtype=torch.int32)
        """
        words = line_tokenizer(line)
        ids = []
        for word in reversed(words) if reverse_order else words:
            idx = self.add_symbol(word) if add_if_not_exist else self.index(word)
            if consumer is not None:
                consumer(word, idx)
            ids.append(idx)
        return torch.tensor(ids + [self.eos_index] * append_eos, dtype=torch.int32)

    @classmethod
    def parse(cls, data: bytes, source: str, *, add_mask: bool = False) -> Dictionary:
        r"""Read the bytes of a dictionary file.

        Args:
            data: lines `symbol count`, each perhaps followed by ` #fairseq:overwrite`.
            source: name of the file for error messages.
            add_mask: append `<mask>` if the file has none, as RoBERTa's tasks do; their `dict.txt`
                leaves it out.

        Raises:
            VocabularyError: empty, no UTF-8, a line of another form, a symbol twice, or a size
                beyond all reason.

        Example:
            >>> Dictionary.parse(b"hello 3\nworld 1\n", "dict.txt", add_mask=True).symbols[4:]
            ['hello', 'world', '<mask>']
        """
        dictionary = cls()
        dictionary.add_from_file(io.BytesIO(data), source=source)
        if len(dictionary) == dictionary.nspecial:
            raise VocabularyError(f"{source} is empty; it should hold one `symbol count` a line")
        if add_mask and MASK not in dictionary:
            dictionary.add_symbol(MASK)
        return dictionary

    @classmethod
    def load(cls, f: PathOrFile, *, add_mask: bool = False) -> Dictionary:
        """Read a dictionary file by path, or from an open file; see `parse`."""
        source = source_name(f)
        return cls.parse(read_bytes(f, source), source, add_mask=add_mask)

    def add_from_file(self, f: PathOrFile, *, source: str | None = None) -> None:
        """Append the symbols of a file to this dictionary; `source` names it in errors."""
        source = source or source_name(f)
        for symbol, count, overwrite in entries(read_bytes(f, source), source, self):
            self.add_symbol(symbol, n=count, overwrite=overwrite)

    def dumps(self, *, with_mask: bool = True) -> bytes:
        r"""Write the file that `parse` reads; `parse(d.dumps(), "")` has the same ids.

        Args:
            with_mask: False leaves out a `<mask>` at the end, as in the files that fairseq writes:
                its tasks add it.

        Raises:
            VocabularyError: a symbol holds a line break, or the special symbols are not where
                fairseq's are; the format can express neither.

        Example:
            >>> Dictionary.roberta().dumps(with_mask=False)[-18:]
            b'\nmadeupword0002 0\n'
        """
        if not self.as_fairseq:
            raise VocabularyError(
                f"{self.bos_word} has id {self.bos_index}, {self.pad_word} {self.pad_index}, "
                f"{self.eos_word} {self.eos_index} and {self.unk_word} {self.unk_index}; a "
                "dict.txt can only say 0, 1, 2 and 3"
            )
        end = len(self) - (not with_mask and self.symbols[-1] == MASK)
        return file_of(self.symbols[:end], self.count, self.nspecial)

    def save(self, f: str | os.PathLike[str] | IO[str], *, with_mask: bool = True) -> None:
        """Write `dumps()` to a path, all or nothing, or to an open text file."""
        data = self.dumps(with_mask=with_mask)
        if not isinstance(f, (str, os.PathLike)):
            f.write(data.decode())
            return
        write_bytes(Path(f), data)
