"""GPT-2's byte-level BPE: text → ids and back, without loss (Radford et al. 2019, section 2.2).

Text is cut into pieces by a pattern, each piece into bytes, and the bytes are merged pair by pair,
earliest merge first. tiktoken does the cutting and merging; this module owns the tables and
everything that can be wrong with them.
"""

from __future__ import annotations

import functools
import os
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roberta_hub.errors import InputError, InputTypeError, VocabularyError
from roberta_hub.text.characters import check_surrogates, check_text
from roberta_hub.text.gpt2_encoder import GPT2Encoder
from roberta_hub.text.tables import BYTE_ORDER, check_merges, printable, read_encoder, read_merges
from roberta_hub.text.vocabulary import shipped_tables

if TYPE_CHECKING:
    import tiktoken

# GPT-2's pattern. The alternatives that need no look-ahead are grouped, and whitespace that ends
# the text has one of its own: the regex engine then runs them without backtracking, about half as
# fast again, with the same matches.
PATTERN = r"(?:'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+$)|\s+(?!\S)|\s+"

# What the pattern's \s means (Unicode White_Space). Python's own \s has U+001C to U+001F besides.
_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SPACES = re.compile(f"[{_SPACE}]{{2,}}")
# The pattern's last look-ahead backtracks; from a million whitespace characters in a row its engine
# gives up.
MAX_MARKED = 100_000
"""Longest sentence for `encode_marked`."""

BEGIN, END = "\ue000", "\ue001"
"""Sequence marks for `encode_marked`; `encode_ids` and `encode` see nothing special in them.

Single characters, so that a text cannot spell one together with its neighbour; private ones, so
that hardly any does alone.
"""

_MAX_ID = 1 << 24


class GPT2BPE:
    """Byte-level BPE with fairseq's `GPT2BPE` interface.

    Ids travel as decimal strings separated by spaces.

    Args:
        merges: the two parts of each merge, earliest first.
        ids: the id of each token; None for GPT-2's numbering: bytes in `BYTE_ORDER`, merge k = 256
            + k, then `<|endoftext|>`.
        added: words that are one token each wherever they stand in a text, even inside other
            words, as transformers' `add_tokens` makes them.
        add_prefix_space: a text, and what follows an added word, is read with a space before it
            unless it has one.

    Raises:
        VocabularyError: the tables contradict themselves or each other.

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
        added: Sequence[str] = (),
        add_prefix_space: bool = False,
    ) -> None:
        self._merges = list(merges)
        # A token's rank is its place here, and what tiktoken counts in.
        self._tokens = [bytes([byte]) for byte in BYTE_ORDER] + [a + b for a, b in self._merges]
        if ids is None:
            self._bytes = dict(enumerate([*self._tokens, b"<|endoftext|>"]))
        else:
            _check_ids(self._tokens, ids)
            self._bytes = {number: token for token, number in ids.items()}
        self._symbols = {str(number): token for number, token in self._bytes.items()}
        self._text_tokens = frozenset(self._tokens)
        self._added = self._number(added)
        self._added_words = _any_of(added)
        self.add_prefix_space = add_prefix_space
        self.max_id = max(self._bytes)
        """The largest GPT-2 id."""
        self.begin_id, self.end_id = self.max_id + 1, self.max_id + 2
        """Behind the ids of the table: what `encode_marked` puts for BEGIN and END."""
        self._ids: dict[int, int] | None = None  # rank → id, where they differ
        if ids is not None:
            self._ids = {rank: ids[token] for rank, token in enumerate(self._tokens)}
            self._ids |= {self.begin_id: self.begin_id, self.end_id: self.end_id}

    def _number(self, added: Sequence[str]) -> dict[str, int]:
        """The id of each added word: its token's, where the table has one of that picture."""
        pictures = self.printable_ids() if added else {}
        numbers: dict[str, int] = {}
        for word in added:
            if word in pictures:
                numbers[word] = int(pictures[word])
                continue
            numbers[word] = max(self._bytes) + 1
            self._bytes[numbers[word]] = word.encode()
            self._symbols[str(numbers[word])] = word.encode()
        self._text_tokens |= {word.encode() for word in added}
        return numbers

    @classmethod
    @functools.lru_cache(maxsize=1)
    def shipped(cls) -> GPT2BPE:
        """GPT-2's own tables, from the file in the package; built once and shared."""
        tokens = [bytes([byte]) for byte in BYTE_ORDER]
        merges = []
        tables = shipped_tables()
        for left, right in zip(tables.left, tables.right, strict=True):
            merges.append((tokens[left], tokens[right]))
            tokens.append(tokens[left] + tokens[right])
        return cls(merges)

    @classmethod
    def from_files(
        cls, encoder_json: str | os.PathLike[str], vocab_bpe: str | os.PathLike[str]
    ) -> GPT2BPE:
        """Read the files that fairseq calls `gpt2_encoder_json` and `gpt2_vocab_bpe`.

        Args:
            encoder_json: JSON object from printable token to id.
            vocab_bpe: a version line, then one merge a line, `left right`.

        Raises:
            VocabularyError: a file is missing, damaged, or does not fit the other.
        """
        ids = read_encoder(Path(encoder_json))
        merges = read_merges(Path(vocab_bpe))
        try:
            if merges != cls.shipped().merges():
                check_merges(merges)  # takes a second, and GPT-2's are known to pass
            return cls(merges, ids)
        except VocabularyError as error:
            raise VocabularyError(f"{vocab_bpe} with {encoder_json}: {error}") from None

    @functools.cached_property
    def _encoding(self) -> tiktoken.Encoding:
        import tiktoken

        # A repeated token keeps its first rank: the earliest merge is the one that acts.
        ranks: dict[bytes, int] = {}
        for rank, token in enumerate(self._tokens):
            ranks.setdefault(token, rank)
        return tiktoken.Encoding(
            "roberta_hub",
            pat_str=PATTERN,
            mergeable_ranks=ranks,
            special_tokens={BEGIN: self.begin_id, END: self.end_id},
        )

    def encode_ids(self, text: str) -> list[int]:
        """Turn text into GPT-2 ids. Special words such as `<mask>` are text like any other.

        Raises:
            InputTypeError: `text` is not a str.
            InputError: `text` holds half of a surrogate pair, which UTF-8 cannot express.

        Example:
            >>> GPT2BPE.shipped().encode_ids("<mask>")
            [27, 27932, 29]
        """
        check_text(text)
        if self._added_words is None:
            return self._ordinary_ids(self.prefixed(text))
        ids: list[int] = []
        for part in self._added_words.split(text):
            if part in self._added:
                ids.append(self._added[part])
            else:
                ids += self._ordinary_ids(self.prefixed(part))
        return ids

    def prefixed(self, text: str) -> str:
        """The text with the space before it that `add_prefix_space` asks for."""
        needed = self.add_prefix_space and text and not text.startswith(" ")
        return " " + text if needed else text

    @property
    def plain(self) -> bool:
        """Whether `encode_marked` gives the same ids as `encode_ids`: there are no added words."""
        return not self._added

    @property
    def added(self) -> dict[str, str]:
        """Dictionary symbol of each added word."""
        return {word: str(number) for word, number in self._added.items()}

    def byte_lengths(self, text: str) -> list[int]:
        """How many UTF-8 bytes of the text each of its pieces covers.

        Example:
            >>> GPT2BPE.shipped().byte_lengths("can’t")
            [3, 2, 1, 1]
        """
        check_text(text)
        parts = [text] if self._added_words is None else self._added_words.split(text)
        lengths: list[int] = []
        for part in parts:
            if part in self._added:
                lengths.append(len(part.encode()))
                continue
            prefixed = self.prefixed(part)
            own = [len(self._bytes[i]) for i in self._ordinary_ids(prefixed)]
            if prefixed != part:
                own[0] -= 1  # the space that is not in the text
            lengths += own
        return lengths

    def _ordinary_ids(self, text: str) -> list[int]:
        if len(text) < MAX_MARKED:
            ranks = self._encoding.encode_ordinary(text)
        else:
            ranks = [rank for part in _parts(text) for rank in self._encoding.encode_ordinary(part)]
        return ranks if self._ids is None else [self._ids[rank] for rank in ranks]

    def encode_marked(self, text: str) -> array[int]:
        """Turn many sentences into GPT-2 ids in one go.

        `BEGIN` and `END` between the sentences become `begin_id` and `end_id`. One call for many
        short sentences is faster than many calls, and other threads run meanwhile. The caller sees
        to it that no sentence holds a mark or lacks its prefix, that none is longer than
        `MAX_MARKED`, and that the BPE is `plain`.

        Raises:
            InputError: as `encode_ids`.
        """
        check_surrogates(text)
        kinds: dict[str, Any] = {"allowed_special": {BEGIN, END}, "disallowed_special": ()}
        try:  # no Python number for each id, a tenth of the time
            ranks = array("i", self._encoding.encode_to_numpy(text, **kinds).tobytes())
        except ModuleNotFoundError:  # numpy, which torch can do without
            ranks = array("i", self._encoding.encode(text, **kinds))
        return ranks if self._ids is None else array("i", [self._ids[rank] for rank in ranks])

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
        """Bytes that a dictionary symbol stands for.

        Those of a token, or a placeholder's own letters.

        Example:
            >>> GPT2BPE.shipped().symbol_bytes("995"), GPT2BPE.shipped().symbol_bytes("<mask>")
            (b' world', b'<mask>')
        """
        token = self._symbols.get(symbol)
        return symbol.encode() if token is None else token

    def is_text(self, symbol: str) -> bool:
        """Whether a dictionary symbol can come out of `encode`.

        A placeholder cannot, nor can `<|endoftext|>`.
        """
        return self._symbols.get(symbol) in self._text_tokens

    def is_beginning_of_word(self, x: str) -> bool:
        """Whether the decoded symbols begin with a space, as in fairseq.

        Example:
            >>> [GPT2BPE.shipped().is_beginning_of_word(x) for x in ("995", "6894")]
            [True, False]
        """
        return self.decode(x).startswith(" ")

    def token_bytes(self, gpt2_id: int) -> bytes:
        """Bytes of one token.

        Raises:
            InputError: no such id.

        Example:
            >>> GPT2BPE.shipped().token_bytes(995)
            b' world'
        """
        try:
            return self._bytes[gpt2_id]
        except KeyError:
            raise InputError(f"{gpt2_id} is no GPT-2 id; ids run from 0 to {self.max_id}") from None

    @functools.cached_property
    def bpe(self) -> GPT2Encoder:
        """GPT-2's encoder, as `roberta.bpe.bpe` in fairseq."""
        return GPT2Encoder(self)

    def merge_bytes(self, word: bytes) -> list[bytes]:
        """Merge the bytes of one word as far as they go."""
        ranks = self._encoding._encode_single_piece(word) if word else []
        return [self._tokens[rank] for rank in ranks]

    def merges(self) -> list[tuple[bytes, bytes]]:
        """The two parts of each merge, earliest first.

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
        return {printable(token): symbol for symbol, token in self._symbols.items()}

    def printable_merges(self) -> list[str]:
        """The merges as lines of `vocab.bpe` and `merges.txt`, without the version line at the top.

        Example:
            >>> GPT2BPE.shipped().printable_merges()[:2]
            ['Ġ t', 'Ġ a']
        """
        return [f"{printable(left)} {printable(right)}" for left, right in self._merges]


def _any_of(words: Sequence[str]) -> re.Pattern[str] | None:
    """Finds the first of some words, and of those that begin there the longest; None: no words."""
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first))})") if words else None


def _parts(text: str) -> Iterator[str]:
    """Cut a text so that no part holds long whitespace before other characters.

    The pieces stay the same. The pattern gives all but the last character of such whitespace as one
    piece, so a cut before it and a cut before that last character fall where pieces end anyway.
    """
    done = 0
    for spaces in _SPACES.finditer(text):
        if spaces.end() - spaces.start() >= MAX_MARKED and spaces.end() < len(text):
            yield text[done : spaces.start()]
            yield text[spaces.start() : spaces.end() - 1]
            done = spaces.end() - 1
    yield text[done:]


def _check_ids(tokens: Sequence[bytes], ids: Mapping[bytes, int]) -> None:
    missing = next((token for token in tokens if token not in ids), None)
    if missing is not None:
        raise VocabularyError(f"token {printable(missing)!r} has no id")
    if len(set(ids.values())) != len(ids):
        raise VocabularyError("two tokens share one id")
    outside = next((i for i in ids.values() if not 0 <= i < _MAX_ID), None)
    if outside is not None:
        raise VocabularyError(f"id {outside} is outside 0..{_MAX_ID - 1}")
