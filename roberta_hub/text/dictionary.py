"""Holds fairseq's table of symbols and ids, and reads and writes it (`fairseq/data/dictionary.py`).

A file has one `symbol count` a line; ids follow the order of the lines, after `<s>` 0, `<pad>` 1,
`</s>` 2, `<unk>` 3. fairseq reads good files the same way; of a bad one the error names the line.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

import torch
from torch import Tensor

from roberta_hub.errors import InputError, InputTypeError, UnknownNameError, VocabularyError
from roberta_hub.files import read_bytes, write_bytes
from roberta_hub.text.vocabulary import shipped_vocabulary

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
"""The symbols that fairseq gives the ids 0 to 3."""
MASK = "<mask>"
"""The mask symbol, in a dictionary and in a text for `fill_mask`."""
UNUSED_SUFFIX = "NOTUSED"
"""Suffix of a special symbol's row that a dict.txt has replaced by another row."""
OVERWRITE_FLAG = "#fairseq:overwrite"
"""Flag after a count: moves a symbol of the dictionary to this line's id."""
MAX_LINE_CHARACTERS = 65_536
"""Longest line, in characters."""
MAX_SYMBOLS = 2_000_000
"""Most symbols a dictionary may have."""
MAX_DICTIONARY_BYTES = 32 << 20
"""Largest file; RoBERTa's has 0.6 MB, a million words have 15."""

PathOrFile: TypeAlias = "str | os.PathLike[str] | IO[str] | IO[bytes]"
_JOINED = {"sentencepiece": "\u2581", "wordpiece": "_", "letter": "|", "_EOW": "_EOW"}
"""Subword kinds whose spaces are removed, with the symbol that becomes a space."""
SUBWORD_KINDS = (*_JOINED, "silence", "subword_nmt", "@@ ", "@@", "none")
"""Every `bpe_symbol` but None."""


def without_unused(row: str) -> str:
    """Return the special symbol that a row out of use is named after; other rows as they are."""
    bare = row.removesuffix(UNUSED_SUFFIX)
    return bare if bare in SPECIALS else row


def tokenize_line(line: str) -> list[str]:
    """Split at runs of whitespace, none at the ends."""
    return re.sub(r"\s+", " ", line).strip().split()


class Dictionary:
    """Symbols, their ids and how often each was seen in training, as in fairseq.

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

        The counts of fairseq's file are not part of the package; counts are descending ranks
        instead, so that sorting by count keeps the order.

        Example:
            >>> d = Dictionary.roberta()
            >>> len(d), d.symbols[4:7], d.index("50256"), d.symbols[-2:]
            (50265, ['13', '262', '11'], 50260, ['madeupword0002', '<mask>'])
        """
        dictionary = cls()
        dictionary.symbols += map(str, shipped_vocabulary().order)  # none twice
        dictionary.indices = {symbol: i for i, symbol in enumerate(dictionary.symbols)}
        dictionary.count += range(len(dictionary) - dictionary.nspecial, 0, -1)
        dictionary.pad_to_multiple_(8)
        dictionary.add_symbol(MASK)
        return dictionary

    @classmethod
    def from_symbols(
        cls, symbols: Iterable[str], *, bos: str, pad: str, eos: str, unk: str
    ) -> Dictionary:
        """Number symbols in order; special ones may be anywhere, as in BERT's vocabulary.

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
            twice = next(s for i, s in enumerate(dictionary.symbols) if dictionary.indices[s] != i)
            raise VocabularyError(f"two pieces have the same name, {twice[:40]!r}")
        if missing := [word for word in words if word not in dictionary.indices]:
            raise VocabularyError(f"the vocabulary lacks its special symbol {missing[0]!r}")
        dictionary.count = list(range(len(dictionary.symbols), 0, -1))  # ranks, as in `roberta`
        dictionary._set_special(*map(dictionary.index, words))
        dictionary.nspecial = len(words) if dictionary.as_fairseq else 0
        return dictionary

    @classmethod
    def from_rows(cls, rows: Sequence[str]) -> Dictionary:
        """Number rows that begin with fairseq's special symbols, which may have a second row each.

        Example:
            >>> d = Dictionary.from_rows(["<s>NOTUSED", "<pad>", "</s>", "<unk>", "a", "<s>"])
            >>> d.bos(), d.index("<s>"), d.symbols[4:]
            (0, 5, ['a', '<s>'])
        """
        dictionary = cls()
        for row in rows[len(SPECIALS) :]:
            symbol = without_unused(row)
            special = symbol in SPECIALS
            if symbol in dictionary and not special:
                raise VocabularyError(f"two pieces have the same name, {symbol[:40]!r}")
            dictionary.add_symbol(symbol, overwrite=special)
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
        """Count of a symbol in training."""
        return self.count[idx]

    def __getitem__(self, idx: int) -> str:
        if idx < -len(self):
            raise InputError(f"symbol {idx}: this dictionary has {len(self)} symbols")
        return self.symbols[idx] if idx < len(self) else self.unk_word

    def __iter__(self) -> Iterator[str]:
        return iter(self.symbols)  # __getitem__ never raises, so iterating by it would not end

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
        """Add `n` to the count of a symbol, which is appended if it is new."""
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
        """Sort the ordinary symbols by descending count, ties by name, and pad the size."""
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
        source = _source_name(f)
        return cls.parse(_read(f, source), source, add_mask=add_mask)

    def add_from_file(self, f: PathOrFile, *, source: str | None = None) -> None:
        """Append the symbols of a file to this dictionary; `source` names it in errors."""
        source = source or _source_name(f)
        for symbol, count, overwrite in _entries(_read(f, source), source, self):
            self.add_symbol(symbol, n=count, overwrite=overwrite)

    def dumps(self, *, with_mask: bool = True) -> bytes:
        r"""Write the file that `parse` reads; `parse(d.dumps(), "")` has the same ids.

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
        return _file_of(self.symbols[:end], self.count, self.nspecial)

    def save(self, f: str | os.PathLike[str] | IO[str], *, with_mask: bool = True) -> None:
        """Write `dumps()` to a path, all or nothing, or to an open text file."""
        data = self.dumps(with_mask=with_mask)
        if not isinstance(f, (str, os.PathLike)):
            f.write(data.decode())
            return
        write_bytes(Path(f), data)


def _source_name(f: PathOrFile) -> str:
    """Name of a file for messages."""
    return (
        os.fspath(f) if isinstance(f, (str, os.PathLike)) else str(getattr(f, "name", "dictionary"))
    )


def _read(f: PathOrFile, source: str) -> bytes:
    """Read a dictionary file whole, if it is not absurdly large."""
    if isinstance(f, (str, os.PathLike)):
        return read_bytes(f, MAX_DICTIONARY_BYTES, VocabularyError, "dictionary")
    data = f.read(MAX_DICTIONARY_BYTES + 1)
    if isinstance(data, str):
        data = data.encode(errors="surrogatepass")
    if len(data) > MAX_DICTIONARY_BYTES:
        raise VocabularyError(
            f"{source} is larger than {MAX_DICTIONARY_BYTES} bytes, the limit for a dictionary"
        )
    return data


def _entries(data: bytes, source: str, present: Container[str]) -> Iterator[tuple[str, int, bool]]:
    """Symbol, count and overwrite flag of each line.

    `present` grows between the steps, which shows duplicates.
    """
    if data.startswith(b"\xef\xbb\xbf"):
        raise VocabularyError(
            f"{source} begins with a byte order mark; save it as UTF-8 without one"
        )
    try:
        # Universal newlines and nothing else: splitlines() would cut at U+2028 inside a symbol.
        lines = io.StringIO(data.decode(), newline=None)
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise VocabularyError(f"{source}, line {number}: not UTF-8 ({error.reason})") from None
    for number, line in enumerate(lines, start=1):
        where = f"{source}, line {number}"
        if len(line) > MAX_LINE_CHARACTERS:
            raise VocabularyError(
                f"{where}: {len(line)} characters, the limit is {MAX_LINE_CHARACTERS}"
            )
        if number > MAX_SYMBOLS:
            raise VocabularyError(f"{where}: more than {MAX_SYMBOLS} symbols")
        symbol, count, overwrite = _entry(line, where)
        if symbol in present and not overwrite:
            raise VocabularyError(
                f"{where}: {symbol!r} again; `{OVERWRITE_FLAG}` after the count permits it"
            )
        yield symbol, count, overwrite


def _entry(line: str, where: str) -> tuple[str, int, bool]:
    try:
        symbol, field = line.rstrip().rsplit(" ", 1)
        overwrite = field == OVERWRITE_FLAG
        if overwrite:
            symbol, field = symbol.rsplit(" ", 1)
        return symbol, int(field), overwrite
    except ValueError:
        raise VocabularyError(f"{where}: {line[:80]!r} is not `symbol count`") from None


def _file_of(symbols: Sequence[str], counts: Sequence[int], first: int) -> bytes:
    """Write the symbols from number `first` on as a file; the others are implied."""
    seen = set(symbols[:first])
    lines = []
    for idx in range(first, len(symbols)):
        symbol = symbols[idx]
        if "\n" in symbol or "\r" in symbol:
            raise VocabularyError(f"symbol {idx}, {symbol!r}, holds a line break")
        flag = f" {OVERWRITE_FLAG}" if symbol in seen else ""
        lines.append(f"{symbol} {counts[idx]}{flag}\n")
        seen.add(symbol)
    return "".join(lines).encode()


def join_subwords(sentence: str, kind: str | None) -> str:
    """Join the subwords of a sentence (`fairseq/data/data_utils.py post_process`).

    Example:
        >>> join_subwords("h e | s a w", "letter"), join_subwords("a <SIL> b", "silence")
        ('he saw', 'a b')
    """
    if kind is None or kind == "none":
        return sentence
    if kind in _JOINED:
        return sentence.replace(" ", "").replace(_JOINED[kind], " ").strip()
    if kind == "silence":
        return re.sub(" +", " ", sentence.replace("<SIL>", "")).strip()
    if kind in ("subword_nmt", "@@ ", "@@"):
        mark = "@@" if kind == "@@" else "@@ "
        return (sentence + " ").replace(mark, "").rstrip()
    raise UnknownNameError(
        f"bpe_symbol {kind!r} is none of None, {', '.join(map(repr, SUBWORD_KINDS))}"
    )
