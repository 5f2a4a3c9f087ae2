"""Cuts a text by GPT-2's pattern and merges the bytes of each word; tiktoken does the work."""

from __future__ import annotations

import functools
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from roberta_hub.text.characters import check_surrogates

if TYPE_CHECKING:
    import tiktoken

# GPT-2's pattern. The alternatives that need no look-ahead are grouped, and whitespace that ends
# the text has one of its own: the regex engine then runs them without backtracking, about half as
# fast again, with the same matches.
PATTERN = r"(?:'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+$)|\s+(?!\S)|\s+"

# What the pattern's \s means (Unicode White_Space). Python's own \s has U+001C to U+001F too.
SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_SPACES = re.compile(f"[{SPACE}]{{2,}}")
# The pattern's last look-ahead backtracks; from a million whitespace characters in a row its engine
# gives up.
MAX_JOINED = 100_000
"""Longest sentence, in characters, that `Merger.encode_joined` takes."""

BEGIN, END = "\ue000", "\ue001"
"""Marks of sentences for `Merger.encode_joined`; `Merger.encode` sees nothing special in them.

Each is a single character, so that a text cannot spell one together with its neighbour, and a
private one, which hardly any text holds.
"""


class Merger:
    """Turns texts into the numbers of their tokens."""

    def __init__(
        self, tokens: Sequence[bytes], numbers: Mapping[bytes, int] | None, size: int
    ) -> None:
        self._tokens = tokens
        self._size = size
        self._numbers: dict[int, int] | None = None  # rank → number, where they differ
        if numbers is not None:
            self._numbers = {rank: numbers[token] for rank, token in enumerate(tokens)}
            self._numbers |= {mark: mark for mark in (size, size + 1)}

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
            special_tokens={BEGIN: self._size, END: self._size + 1},
        )

    def encode(self, text: str) -> list[int]:
        """Turn one text into numbers; it holds no half of a surrogate pair."""
        if len(text) < MAX_JOINED:
            ranks = self._encoding.encode_ordinary(text)
        else:
            ranks = [rank for part in _parts(text) for rank in self._encoding.encode_ordinary(part)]
        return ranks if self._numbers is None else [self._numbers[rank] for rank in ranks]

    def encode_joined(self, text: str) -> array[int]:
        """Turn many sentences, with marks around each, into numbers at once.

        One call for many short sentences is faster than many calls, and other threads run
        meanwhile. The caller sees to it that no sentence holds a mark, and that none is longer than
        `MAX_JOINED`.
        """
        check_surrogates(text)
        kinds: dict[str, Any] = {"allowed_special": {BEGIN, END}, "disallowed_special": ()}
        try:  # no Python number for each id, a tenth of the time
            ranks = array("i", self._encoding.encode_to_numpy(text, **kinds).tobytes())
        except ModuleNotFoundError:  # numpy, which torch can do without
            ranks = array("i", self._encoding.encode(text, **kinds))
        known = self._numbers
        return ranks if known is None else array("i", [known[rank] for rank in ranks])

    def merge(self, word: bytes) -> list[bytes]:
        """Merge the bytes of one word as far as they go."""
        ranks = self._encoding._encode_single_piece(word) if word else []
        return [self._tokens[rank] for rank in ranks]


def _parts(text: str) -> Iterator[str]:
    """Cut a text so that no part holds long whitespace before other characters.

    The pieces stay the same. The pattern gives all but the last character of such whitespace as one
    piece, so a cut before it and a cut before that last character fall where pieces end anyway.
    """
    done = 0
    for spaces in _SPACES.finditer(text):
        if spaces.end() - spaces.start() >= MAX_JOINED and spaces.end() < len(text):
            yield text[done : spaces.start()]
            yield text[spaces.start() : spaces.end() - 1]
            done = spaces.end() - 1
    yield text[done:]
