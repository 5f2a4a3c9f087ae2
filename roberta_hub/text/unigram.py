"""Cuts whole texts into SentencePiece's pieces, by the library of that name (Kudo 2018).

fairseq's XLM-R and CamemBERT read texts so, and ALBERT after a cleaning of its own. The library
gets nothing but a model that `sentencepiece_file.py` has checked. A cache of words would be faster
and give other ids: ties between scores are broken by context.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from roberta_hub.errors import (
    CheckpointError,
    InputTypeError,
    MissingExtraError,
    VocabularyError,
)
from roberta_hub.extras import install
from roberta_hub.text.added import CONTROL_NAMES
from roberta_hub.text.characters import check_text
from roberta_hub.text.dictionary import SPECIALS
from roberta_hub.text.pieces import ListBatch, NormalizedText, ends_of
from roberta_hub.text.sentencepiece_file import (
    BYTE,
    NORMAL,
    UNIGRAM,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    SentencePieceModel,
    model_of,
)
from roberta_hub.text.tokenizer_json import TOKENIZER_FILE, write_unigram
from roberta_hub.text.unicode import unicode_tables
from roberta_hub.text.unigram_family import (
    ALBERT,
    FILE,
    OTHER,
    WHITE_SPACE,
    XLM_R,
    Family,
    commas,
)

SPACE_SYMBOL = "▁"
"""What SentencePiece writes for a space: U+2581."""
_MARK_OF_A_WORD = re.compile(rf"{SPACE_SYMBOL}(?![{SPACE_SYMBOL}{unicode_tables().white}]|\Z)")
"""A "▁" in a text before a word, which begins the word as a blank does."""
OLDEST_SENTENCEPIECE = (0, 2, 3)
"""The oldest version of the library: older ones crash on false files."""


class SentencePiece:
    """SentencePiece: a `SubwordTokenizer` whose numbers are the indices in the `.model` file.

    It holds fairseq's `SentencepieceBPE` methods. Many threads may call one engine.

    Example:
        >>> from roberta_hub.text.sentencepiece_file import model_of
        >>> texts, kinds = ["<unk>", "▁", "▁a", "b"], bytes([2, 1, 1, 1])
        >>> engine = SentencePiece(model_of(texts, [0.0, -3.0, -1.0, -2.0], kinds))
        >>> engine.encode("a b"), engine.encode_ids("a b?"), engine.decode("▁a ▁ b")
        ('▁a ▁ b', [2, 1, 3, 0], 'a b')
    """

    def __init__(self, model: SentencePieceModel, family: Family = XLM_R) -> None:
        self.model = model = model.with_controls(CONTROL_NAMES)
        self.family = family
        self._data = model.serialized()
        self._library = _load(self._data)
        self.size = len(model.texts)
        """One more than the largest number."""
        named = (NORMAL, USER_DEFINED, UNUSED, BYTE)
        self.symbols = {
            text: number
            for number, (text, kind) in enumerate(zip(model.texts, model.kinds, strict=True))
            if kind in named
        }
        """The number of each piece by its text; control pieces are none."""
        self._unknown = model.unknown
        self._bytes = frozenset(text for text, n in self.symbols.items() if model.kinds[n] == BYTE)
        self._white = self.unmapped_space() if family.white_space else ""
        self._parts_at_marks = family.white_space and self._keeps_marks
        self._plain = family.cleaning is None and not self._white and not self._parts_at_marks
        self._cut_again: dict[int, list[tuple[int, int]]] = {}
        if family.cleaning is not None and family.cleaning.cut_commas:
            cut = partial(self._library.encode, out_type=str)
            self._cut_again = commas(model.texts, self.symbols, self._unknown, cut)

    def unmapped_space(self) -> str:
        """Return the white space that the file's character map leaves as it is."""
        return "".join(c for c in unicode_tables().white if c in self._library.normalize(f"a{c}a"))

    def _read(self, text: str) -> str:
        """Return the text that the library reads."""
        cleaning = self.family.cleaning
        return self._spaced(text if cleaning is None else cleaning.clean(text).text)

    def _spaced(self, text: str) -> str:
        for character in self._white:
            text = text.replace(character, " ")
        if self._parts_at_marks and SPACE_SYMBOL in text:
            text = _MARK_OF_A_WORD.sub(" ", text)
        return text

    @functools.cached_property
    def _keeps_marks(self) -> bool:
        """Whether the character map leaves a "▁" of a text as it is, and makes no blank of it."""
        joins_blanks = self.model.remove_extra_whitespaces
        library = self._library if joins_blanks else self._map(remove_extra_whitespaces=True)
        return SPACE_SYMBOL * 2 in library.normalize(f"a{SPACE_SYMBOL * 2}a")

    def _between_marks(self, read: str) -> Iterator[tuple[int, str | None]]:
        """Yield (start, text) of the parts that the library reads, and (start, None) of a "▁".

        The library takes a "▁" by itself for white space, which it drops at the end of a text; fast
        tokenizers make a piece of it.
        """
        if not self._parts_at_marks or SPACE_SYMBOL not in read:
            yield 0, read
            return
        start = 0
        for number, part in enumerate(read.split(SPACE_SYMBOL)):
            if number:
                yield start, None
                start += 1
            if part:
                yield start, part
            start += len(part)

    def _numbers(self, read: str) -> list[int]:
        """Numbers of a text that is read, before pieces are cut again."""
        mark = self.symbols.get(SPACE_SYMBOL, self._unknown)
        numbers: list[int] = []
        for _, part in self._between_marks(read):
            numbers += [mark] if part is None else self._library.encode(part)
        return numbers

    def __reduce__(self) -> tuple[Any, ...]:
        return SentencePiece, (self.model, self.family)

    def __deepcopy__(self, memo: object) -> SentencePiece:
        return self  # nothing in it changes

    @property
    def batch_encoder(self) -> ListBatch:
        """The library cuts a list in one call."""
        return ListBatch(self._encode_list)

    @property
    def settings(self) -> Mapping[str, object]:
        """What tokenizer_config.json says of this engine.

        The generic class, where the family's own would not do as tokenizer.json says.
        """
        cleaning, model = self.family.cleaning, self.model
        of_class = (
            ALBERT.cleaning if self.family.tokenizer_class == ALBERT.tokenizer_class else None
        )
        plain = (cleaning and cleaning.plain_quotes) == (of_class and of_class.plain_quotes)
        if plain and not (model.byte_fallback and model.type == UNIGRAM):
            return self.family.settings
        return {**self.family.settings, "tokenizer_class": OTHER.tokenizer_class}

    @property
    def fingerprint(self) -> str:
        """A digest of the model, the cleaning, and what becomes a space before it."""
        rules = {name: value for name, value in self.settings.items() if name != WHITE_SPACE}
        white = f" {self._white!r}" if self._white else ""
        return f"{hashlib.sha256(self._data).hexdigest()} {rules}{white}"

    def encode_ids(self, text: str) -> list[int]:
        """Turn a text into the numbers of its pieces; unknown neighbours become one number.

        Special words such as `<mask>` are text like any other.
        """
        check_text(text)
        return self._recut(self._numbers(self._read(text)))

    def _encode_list(self, texts: list[str]) -> list[list[int]]:
        if self.family.cleaning is not None:
            for text in texts:
                check_text(text)
        try:
            if not self._plain:
                texts = list(map(self._read, texts))
            rows: list[list[int]] = self._library.encode(texts, num_threads=1)
            if self._parts_at_marks:
                marked = (i for i, text in enumerate(texts) if SPACE_SYMBOL in text)
                rows = [*rows]
                for i in marked:
                    rows[i] = self._numbers(texts[i])
        except (AttributeError, RuntimeError, TypeError, ValueError):
            for text in texts:
                check_text(text)
            raise
        return list(map(self._recut, rows)) if self._cut_again else rows

    def _recut(self, numbers: list[int]) -> list[int]:
        if self._cut_again.keys().isdisjoint(numbers):
            return numbers
        return [own for number in numbers for own, _ in self._parts(number, 0)]

    def _parts(self, number: int, length: int) -> Sequence[tuple[int, int]]:
        """Return (number, length in characters) of what a piece is cut into."""
        return self._cut_again.get(number) or [(number, length)]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) in characters of each piece of a text.

        The space before a word belongs to its piece, as far as the text has one. A piece with only
        some of what a character is read as covers that whole character.

        Example:
            >>> from roberta_hub.text.sentencepiece_file import model_of
            >>> texts, kinds = ["<unk>", "▁", "▁a", "b"], bytes([2, 1, 1, 1])
            >>> engine = SentencePiece(model_of(texts, [0.0, -3.0, -1.0, -2.0], kinds))
            >>> engine.spans("a  b"), engine.spans("b")
            ([(0, 1), (1, 3), (3, 4)], [(0, 0), (0, 1)])
        """
        check_text(text)
        cleaning = self.family.cleaning
        cleaned = None if cleaning is None else cleaning.clean(text)
        read = self._spaced(text if cleaned is None else cleaned.text)
        spans: list[tuple[int, int]] = []
        for first, part in self._between_marks(read):
            places = range(first, first + (1 if part is None else len(part)) + 1)
            origin = places if cleaned is None else [cleaned.starts[place] for place in places]
            spans += [(origin[0], origin[1])] if part is None else self._spans_of(part, origin)
        return spans

    def _spans_of(self, read: str, origin: Sequence[int]) -> list[tuple[int, int]]:
        """Return the spans of a part that the library reads.

        `origin` is where each of its characters begins in the text, and where the last one ends.
        """
        normal, starts = self._library.normalize(read, with_offsets=True)
        starts = [origin[start] for start in starts]
        ends = ends_of(starts)
        if self.model.add_dummy_prefix and len(starts) > 1 and starts[0] == starts[1]:
            ends[0] = starts[0]  # a space that is not in the text
        sizes = [1] * len(normal)
        if self._bytes:  # pieces of bytes: the place counts bytes, not characters
            sizes = [len(character.encode()) for character in normal]
            starts = [s for s, n in zip(starts, sizes, strict=False) for _ in range(n)]
            ends = [e for e, n in zip(ends, sizes, strict=False) for _ in range(n)]
        lengths = [
            length
            for number, piece in zip(
                self._library.encode(read), self._library.encode(read, out_type=str), strict=True
            )
            for _, length in self._parts(number, self._length(piece))
        ]
        places = pairwise(accumulate(lengths, initial=0))
        return [(starts[first], max(ends[first:last])) for first, last in places]

    def normalized(self, text: str) -> NormalizedText:
        """Cleaned as the family's are, and by the character map; all white space stays."""
        cleaning = self.family.cleaning
        read, starts = text, list(range(len(text) + 1))
        if cleaning is not None:
            cleaned = cleaning.clean(text)
            read, starts = cleaned.text, list(cleaned.starts)
        if self.model.character_map:
            mapped, places = self._mapper.normalize(read, with_offsets=True)
            starts = [starts[place] for place in places]
            kept = SPACE_SYMBOL if self._keeps_marks else ""
            read = "".join(
                " " if c == SPACE_SYMBOL and read[place] != kept else c
                for c, place in zip(mapped, places, strict=False)
            )
        return NormalizedText(read, starts[:-1], ends_of(starts)[: len(read)])

    @functools.cached_property
    def _mapper(self) -> Any:
        """Does what the character map says, and nothing to white space."""
        return self._map(remove_extra_whitespaces=False)

    def _map(self, *, remove_extra_whitespaces: bool) -> Any:
        bare = model_of(
            ["<unk>", SPACE_SYMBOL],
            [0.0, 0.0],
            bytes([UNKNOWN, NORMAL]),
            character_map=self.model.character_map,
            add_dummy_prefix=False,
            remove_extra_whitespaces=remove_extra_whitespaces,
        )
        return _load(bare.serialized())

    def _length(self, piece: str) -> int:
        if not self._bytes:
            return len(piece)
        return 1 if piece in self._bytes else len(piece.encode())

    def piece(self, number: int) -> str:
        """Return a piece as the file writes it: '▁de'."""
        return self.model.texts[number]

    def surface(self, number: int) -> bytes:
        """Text of a piece in UTF-8, with a plain space; a byte piece is its byte."""
        text = self.model.texts[number]
        if self.model.kinds[number] == BYTE:
            return bytes([int(text[3:5], 16)])
        return text.replace(SPACE_SYMBOL, " ").encode()

    def word_surface(self, word: str) -> bytes:
        """The word itself, without a space."""
        return word.encode()

    def is_text(self, number: int) -> bool:
        """Whether `encode_ids` can return this number."""
        return self.model.kinds[number] in (NORMAL, USER_DEFINED, BYTE)

    def begins_word(self, number: int) -> bool:
        """Whether the piece begins with a space."""
        return self.model.texts[number].startswith(SPACE_SYMBOL)

    def join(self, surfaces: Iterable[bytes]) -> str:
        """Return the text of surfaces in a row, without white space at its ends, as in fairseq."""
        return b"".join(surfaces).decode(errors="replace").replace(SPACE_SYMBOL, " ").strip()

    def files(self, rows: Sequence[int | str]) -> dict[str, bytes]:
        """The `.model` file under the family's name, and tokenizer.json for unigram models.

        A model that does not mark the first word, or keeps blanks in a row, has no tokenizer.json,
        which transformers' classes read as if it did not.

        tokenizer.json gives these ids on ordinary text, and others where its reader differs from
        SentencePiece: half-width katakana, long runs of one character, special words in a text.
        """
        files = {} if self.family.file is None else {self.family.file: self._data}
        model = self.model
        if model.type == UNIGRAM and model.add_dummy_prefix and model.remove_extra_whitespaces:
            files[TOKENIZER_FILE] = write_unigram(self.model, self.family, rows)
        return files

    def fairseq_files(self) -> dict[str, bytes]:
        """sentencepiece.bpe.model."""
        if self.family.cleaning is not None:
            raise CheckpointError(
                "fairseq's SentencePiece does not clean texts as ALBERT's tokenizer does; save as "
                "'huggingface' or 'roberta_hub'"
            )
        return {FILE: self._data}

    def encode(self, x: str) -> str:
        """Return the pieces of a text, separated by spaces; unknown characters as they are."""
        check_text(x)
        if self._plain:
            return " ".join(self._library.encode(x, out_type=str))
        return " ".join(map(self.piece, self.encode_ids(x)))

    def decode(self, x: str) -> str:
        """Return the text of pieces separated by spaces; names that are no pieces stay."""
        if not isinstance(x, str):
            raise InputTypeError(f"decode takes a str of pieces, not {type(x).__name__}")
        known = self.symbols
        return self.join(
            self.surface(known[word]) if word in known else word.encode(errors="replace")
            for word in x.split(" ")
        )

    def is_beginning_of_word(self, x: str) -> bool:
        """Whether a symbol begins a word; fairseq's special symbols do."""
        return x in SPECIALS or x.startswith(SPACE_SYMBOL)


def _load(data: bytes) -> Any:
    """Return the library's processor of a model that was checked."""
    try:
        import sentencepiece
    except ImportError:
        raise MissingExtraError(
            f"this model's tokenizer needs sentencepiece: {install('multilingual')}"
        ) from None
    version = sentencepiece.__version__
    if tuple(int(part) for part in re.findall(r"\d+", version)[:3]) < OLDEST_SENTENCEPIECE:
        raise MissingExtraError(
            f"sentencepiece {version} crashes on false files; this needs "
            f"{'.'.join(map(str, OLDEST_SENTENCEPIECE))} or newer: {install('multilingual')}"
        )
    library = sentencepiece.SentencePieceProcessor()
    try:
        library.LoadFromSerializedProto(data)
    except Exception as error:
        raise VocabularyError(
            f"sentencepiece {version} does not take the model: {str(error)[:300]}"
        ) from None
    return library
