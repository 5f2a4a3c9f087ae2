"""A subword tokenizer with added tokens: it finds them, and another one cuts the rest of a text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from roberta_hub.errors import VocabularyError
from roberta_hub.text.added_token import AddedToken, AddedTokenSearch
from roberta_hub.text.characters import check_text
from roberta_hub.text.lowercase import Lowercased, piece_table
from roberta_hub.text.pieces import ListBatch, NormalizedText, SubwordTokenizer
from roberta_hub.text.tokenizer_json import TOKENIZER_FILE
from roberta_hub.text.wordpiece import WordPiece


class WithAddedTokens:
    """A `SubwordTokenizer` that finds added tokens in a text before another one cuts what is left.

    As `tokenizers` does it: first those that are not normalized, in the text as it is, then the
    others in the normalized text between them. Each part between tokens is cut as a text of its
    own.

    Example:
        >>> from roberta_hub.text.bpe import GPT2BPE
        >>> tokenizer = WithAddedTokens(GPT2BPE.shipped(), {"[E1]": AddedToken("[E1]")})
        >>> tokenizer.encode_ids("Hello [E1]world"), tokenizer.spans("Hello [E1]world")
        ([15496, 220, 50257, 6894], [(0, 5), (5, 6), (6, 10), (10, 15)])
    """

    def __init__(self, base: SubwordTokenizer, added: Mapping[str, AddedToken]) -> None:
        self.base, self.added = base, dict(added)
        self._table = table = piece_table(base)
        self.join, self.decode, self.word_surface = table.join, table.decode, table.word_surface
        self.fairseq_files = table.fairseq_files  # whose reader takes the tokens for plain text
        self._names = {number: symbol for symbol, number in table.symbols.items()}
        self._tokens: dict[int, AddedToken] = {}
        self._texts: dict[int, str] = {}
        self.size = table.size
        for symbol, token in self.added.items():
            number = table.symbols.get(symbol, self.size)
            self.size = max(self.size, number + 1)
            self._names[number] = symbol
            self._tokens[number] = token
            text = base.normalized(token.word).text if token.normalized else token.word
            if not text:
                raise VocabularyError(
                    f"nothing is left of the added token {token.word[:40]!r} when it is "
                    "normalized; add it with normalized=False"
                )
            self._texts[number] = text
        self.symbols = {symbol: number for number, symbol in self._names.items()}
        self._in_text = self._search(normalized=False)
        self._in_normalized = self._search(normalized=True)

    def _search(self, *, normalized: bool) -> AddedTokenSearch | None:
        found = {n: token for n, token in self._tokens.items() if token.normalized == normalized}
        return AddedTokenSearch(found, [self._texts[n] for n in found]) if found else None

    @property
    def batch_encoder(self) -> ListBatch | None:
        """Encodes the parts of many texts in one call, where `base` takes a list."""
        inner = self.base.batch_encoder
        if not isinstance(inner, ListBatch):
            return None
        encode = inner.encode

        def encode_list(texts: list[str]) -> list[list[int]]:
            rows = [list(self._parts(text)) for text in texts]
            parts = [part.text for number, part in chain(*rows) if number is None]
            found = iter(encode(parts) if parts else [])
            return [
                list(chain(*(next(found) if n is None else [n] for n, _ in row))) for row in rows
            ]

        return ListBatch(encode_list)

    @property
    def settings(self) -> Mapping[str, object]:
        """Settings of `base`, and the special ones among the tokens."""
        special = [token.word for token in self.added.values() if token.special]
        known = self._table.settings
        others = known.get("extra_special_tokens", [])
        words = [*(others if isinstance(others, list) else []), *special]
        return {**known, "extra_special_tokens": words} if words else known

    @property
    def fingerprint(self) -> str:
        """That of `base`, and the tokens."""
        return f"{self.base.fingerprint} {sorted(self.added.items())}"

    def encode_ids(self, text: str) -> list[int]:
        """Encode a text as piece numbers; an added token in it is one."""
        numbers: list[int] = []
        for number, part in self._parts(text):
            if number is None:
                numbers += self.base.encode_ids(part.text)
            else:
                numbers.append(number)
        return numbers

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each piece; a token has the white space that belongs to it."""
        spans: list[tuple[int, int]] = []
        for number, part in self._parts(text):
            own = [(0, len(part.text))] if number is not None else self.base.spans(part.text)
            spans += [part.origin(start, end) for start, end in own]
        return spans

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each added token in a text."""
        parts = self._parts(text)
        return [part.origin(0, len(part.text)) for number, part in parts if number is not None]

    def normalized(self, text: str) -> NormalizedText:
        """As `base` reads it."""
        return self.base.normalized(text)

    def _parts(self, text: str) -> Iterator[tuple[int | None, NormalizedText]]:
        """Yield (number of a token, its text) and (None, text between tokens)."""
        check_text(text)
        whole = NormalizedText.same(text)
        outer = [(None, 0, len(text))] if self._in_text is None else self._in_text.split(text)
        for number, start, end in outer:
            part = whole.part(start, end)
            if number is not None or self._in_normalized is None:
                yield number, part
                continue
            read = self.base.normalized(part.text)
            inner = self._in_normalized.split(read.text)
            if all(found is None for found, _, _ in inner):
                yield None, part
                continue
            for found, first, last in inner:
                own = read.part(first, last)
                yield found, own.within(part) if found is not None else self._between(own, part)

    def _between(self, own: NormalizedText, outer: NormalizedText) -> NormalizedText:
        """Return a part between tokens as it was before it was read, for it is read once more.

        Lower case before a character map ("℃") is another when it is read again. A part that
        does not begin or end where a character does stays as it was read.
        """
        before = outer.part(*own.origin(0, len(own.text)))
        is_same = self.base.normalized(before.text).text == own.text
        return before if is_same else own.within(outer)

    def piece(self, number: int) -> str:
        """Piece as the files write it; a token is itself."""
        token = self._tokens.get(number)
        return self._table.piece(number) if token is None else token.word

    def surface(self, number: int) -> bytes:
        """Text of a piece; of a token what is searched for, as transformers' `decode` has it."""
        text = self._texts.get(number)
        return self._table.surface(number) if text is None else self.word_surface(text)

    def is_text(self, number: int) -> bool:
        """Whether `encode_ids` can return this number."""
        return number in self._tokens or self._table.is_text(number)

    def begins_word(self, number: int) -> bool:
        """Whether the piece begins a word; each token is one."""
        return number in self._tokens or self._table.begins_word(number)

    def files(self, rows: Sequence[int | str]) -> dict[str, bytes]:
        """Files of `base` with the tokens; those at the end are in no vocabulary of pieces."""
        end = len(rows)
        while end and isinstance(last := rows[end - 1], int) and last >= self._table.size:
            end -= 1
        names = [
            self.piece(row) if isinstance(row, int) and row >= self._table.size else row
            for row in rows[:end]
        ]
        files = self._table.files(names)
        if TOKENIZER_FILE in files:
            table = json.loads(files[TOKENIZER_FILE])
            listed = {entry["id"]: entry for entry in table["added_tokens"]}
            listed |= {i: {"id": i, **entry} for i, entry in self.entries(rows).items()}
            table["added_tokens"] = [listed[number] for number in sorted(listed)]
            files[TOKENIZER_FILE] = json.dumps(table, ensure_ascii=False).encode()
        return files

    def entries(self, rows: Sequence[int | str]) -> dict[int, dict[str, object]]:
        """What transformers' files say of each token, by its id."""
        return {
            i: self._tokens[row].entry
            for i, row in enumerate(rows)
            if isinstance(row, int) and row in self._tokens
        }

    def encode(self, x: str, /) -> str:
        """Encode a text as symbols separated by spaces."""
        parts = self._parts(x)
        found = (self.base.encode(p.text) if n is None else self._names[n] for n, p in parts)
        return " ".join(filter(None, found))

    def is_beginning_of_word(self, x: str, /) -> bool:
        """Whether a symbol begins a word; each token does."""
        return x in self.added or self._table.is_beginning_of_word(x)


def added_symbol(word: str) -> str:
    """Name an added token in a dictionary that a dict.txt can hold, among pieces of every kind.

    A number would be a piece of GPT-2's there, and a line ends at a line break.

    Example:
        >>> [added_symbol(word) for word in ("[E1]", "2024")]
        ['[E1]', '<added:2024>']
    """
    plain = word.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    unsafe = word.isdecimal() or word.startswith("▁") or word != word.rstrip() or "\n" in word
    return f"<added:{plain}>" if unsafe or "\r" in word else word


def add_to(tokenizer: SubwordTokenizer, tokens: Iterable[AddedToken]) -> WithAddedTokens:
    """Return a tokenizer with further tokens; a word that is a piece keeps the piece's number.

    Example:
        >>> from roberta_hub.text.bpe import GPT2BPE
        >>> more = add_to(GPT2BPE.shipped(), [AddedToken("[E1]"), AddedToken("ing")])
        >>> more.encode("walking [E1]")
        '11152 278 220 [E1]'
    """
    known = tokenizer.added if isinstance(tokenizer, WithAddedTokens) else {}
    base = without_added(tokenizer)
    table = piece_table(base)
    pieces = {table.piece(number): symbol for symbol, number in table.symbols.items()}
    itself = isinstance(base, WordPiece)  # whose dictionary no dict.txt has to hold
    more = {
        pieces.get(token.word) or (token.word if itself else added_symbol(token.word)): token
        for token in tokens
    }
    return WithAddedTokens(base, {**known, **more})


def without_added(tokenizer: SubwordTokenizer) -> SubwordTokenizer:
    """Return what cuts the texts between added tokens; a tokenizer without any as it is."""
    return tokenizer.base if isinstance(tokenizer, WithAddedTokens) else tokenizer


def with_tokens(tokenizer: SubwordTokenizer, added: Mapping[str, AddedToken]) -> SubwordTokenizer:
    """Return a tokenizer with added tokens by their symbols; none: as it is.

    Example:
        >>> from roberta_hub.text.bpe import GPT2BPE
        >>> with_tokens(GPT2BPE.shipped(), {}) is GPT2BPE.shipped()
        True
    """
    return WithAddedTokens(tokenizer, added) if added else tokenizer


def in_lowercase(tokenizer: SubwordTokenizer) -> SubwordTokenizer:
    """Return a tokenizer that reads lower case between added tokens.

    It is what sentence-transformers 6 makes of `do_lower_case`. A token that is normalized is found
    whatever its letters are, another one as it is written.

    Example:
        >>> from roberta_hub.text.bpe import GPT2BPE
        >>> added = {"[E1]": AddedToken("[E1]", normalized=False), "Foo": AddedToken("Foo")}
        >>> lowered = in_lowercase(WithAddedTokens(GPT2BPE.shipped(), added))
        >>> lowered.encode("[E1]FOO [e1]")
        '[E1] Foo 685 68 16 60'
    """
    added = tokenizer.added if isinstance(tokenizer, WithAddedTokens) else {}
    return with_tokens(Lowercased(without_added(tokenizer)), added)
