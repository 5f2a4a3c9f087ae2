"""Tells what tokenizers make of each character, by tables that are the same on every Python.

`unicode.json` holds them: what Hugging Face's tokenizers does, with which most models are used.
`tools/build_unicode.py` asks it. Its tables are of several years, and that is their use: a
character keeps its ids whatever Unicode says of it later.

    dropped       controls, formats, private use, U+FFFD
    blank         white space, but for the blank itself
    chinese       ideographs, each a word (Google's code adds U+2B820 to U+2B91F)
    punctuation   each a word of its own
    marks         accents and vowel signs, which `strip` takes away
    order         combining characters by their canonical place (Unicode 3.11)
    lower         lower case, each character for itself: 'Σ' is always 'σ'
    decomposed    letters with their accents apart (NFD), but for Hangul
    accents       what ALBERT's tokenizers leave out: every mark (Mn, Mc, Me)
    compatible    what NFKD makes of a character, where NFD makes something else
    white         what parts words (White_Space)
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TypeAlias

from roberta_hub.errors import VocabularyError

FILE_NAME = "unicode.json"
SHA256 = "f12d12fcecb86e2c295a44accf924cd721f9197ad16e208d34595ec885059c18"
GLUED = "\v\f\x1c\x1d\x1e\x1f\x85"
"""Characters at which `str.split` cuts, and which are dropped here."""
_REMEMBERED = 1 << 14
"""Most characters whose fold is kept."""
Ranges: TypeAlias = "list[list[int]]"


@dataclass(frozen=True)
class UnicodeTables:
    """The content of `unicode.json`; ranges are pairs of a first and a last code point."""

    dropped: Ranges
    blank: Ranges
    chinese: Ranges
    punctuation: Ranges
    marks: Ranges
    order: dict[str, int]
    """The combining class of each combining character."""
    lower: dict[str, str]
    decomposed: dict[str, str]
    accents: Ranges
    compatible: dict[str, str]
    white: str


@functools.lru_cache(maxsize=1)
def unicode_tables() -> UnicodeTables:
    """Read the tables, once; another file than this version's is refused.

    Example:
        >>> tables = unicode_tables()
        >>> tables.lower["É"], tables.order["\u0301"], tables.blank[0]
        ('é', 230, [9, 10])
    """
    data = resources.files("roberta_hub.text").joinpath(FILE_NAME).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != SHA256:
        raise VocabularyError(
            f"the shipped table {FILE_NAME} is damaged: sha256 {digest}, expected {SHA256}; "
            "reinstall roberta_hub"
        )
    table = json.loads(data)
    del table["source"]
    table["order"] = {
        chr(code): int(place)
        for place, ranges in table["order"].items()
        for first, last in ranges
        for code in range(first, last + 1)
    }
    return UnicodeTables(**table)


class Fold(dict[int, str]):
    """What each character becomes, as a table for `str.translate`.

    The result separates words by blanks: punctuation and ideographs have a blank on each
    side.

    Example:
        >>> "Déjà-vu, 你好!".translate(Fold(lower=True, strip=True, chinese=True)).split()
        ['deja', '-', 'vu', ',', '你', '好', '!']
    """

    def __init__(self, *, lower: bool, strip: bool, chinese: bool) -> None:
        super().__init__()
        self.lower, self.strip, self.chinese = lower, strip, chinese
        self._tables = unicode_tables()
        left = "".join(c for c in self._tables.order if not is_in(self._tables.marks, ord(c)))
        self._disordered = re.compile(f"[{left}].*[{left}]", re.DOTALL) if strip else None

    def __missing__(self, code: int) -> str:
        """Compute what a character becomes, and remember it."""
        folded = self._fold(code)
        if len(self) < _REMEMBERED:
            self[code] = folded
        return folded

    def _fold(self, code: int) -> str:
        points = self._tables.punctuation
        return "".join(f" {c} " if is_in(points, ord(c)) else c for c in self._plain(code))

    def _plain(self, code: int) -> str:
        """Return what a character becomes before words are cut at punctuation."""
        known, text = self._tables, chr(code)
        if is_in(known.dropped, code):
            return ""
        if is_in(known.blank, code):
            return " "
        if self.strip:
            text = "".join(c for c in decomposed(text) if not is_in(known.marks, ord(c)))
        if self.lower:
            text = "".join(known.lower.get(c, c) for c in text)
        return f" {text} " if self.chinese and is_in(known.chinese, code) else text

    def is_mark(self, code: int) -> bool:
        """Whether a character is an accent to strip."""
        return self.strip and is_in(self._tables.marks, code)

    def ordered(self, text: str) -> list[tuple[str, int]]:
        """Return the characters of a text to fold one by one, each with its index in the text.

        Where several combining characters stay they are put in their canonical order, as if the
        text was taken apart as a whole; the indices keep the order of the text.
        """
        if self._disordered is None or not self._disordered.search(text):
            return list(zip(text, range(len(text)), strict=True))
        dropped = self._tables.dropped
        kept = [(c, i) for i, c in enumerate(text) if not is_in(dropped, ord(c))]
        apart = [(part, i) for c, i in kept for part in decomposed(c)]
        letters = in_order([part for part, _ in apart], self._tables.order)
        return list(zip(letters, (i for _, i in apart), strict=True))

    def normalized(self, text: str) -> tuple[str, list[int]]:
        """Return the folded text, and the index of the character that each of its own came from.

        Punctuation has no blanks around it here.

        Example:
            >>> Fold(lower=True, strip=True, chinese=True).normalized("Dé-好")
            ('de- 好 ', [0, 1, 2, 3, 3, 3])
        """
        parts = [(self._plain(ord(letter)), i) for letter, i in self.ordered(text)]
        return "".join(part for part, _ in parts), [i for part, i in parts for _ in part]

    def words(self, chunk: str) -> list[str]:
        """Cut into words what has no white space inside.

        Example:
            >>> Fold(lower=True, strip=True, chinese=True).words("¿Qué?")
            ['¿', 'que', '?']
        """
        if self._disordered is not None and self._disordered.search(chunk):
            chunk = "".join(c for c, _ in self.ordered(chunk))
        return chunk.translate(self).split()


def is_in(ranges: Ranges, code: int) -> bool:
    """Whether a code point is in one of the sorted ranges.

    Example:
        >>> is_in([[1, 3], [7, 7]], 3), is_in([[1, 3], [7, 7]], 4)
        (True, False)
    """
    place = bisect_right(ranges, code, key=_first) - 1
    return place >= 0 and code <= ranges[place][1]


def _first(pair: list[int]) -> int:
    return pair[0]


def decomposed(character: str) -> str:
    """Take a character apart (NFD).

    Example:
        >>> [f"{ord(c):04X}" for c in decomposed("ế")], len(decomposed("한"))
        (['0065', '0302', '0301'], 3)
    """
    code = ord(character) - 0xAC00
    if not 0 <= code < 11_172:
        return unicode_tables().decomposed.get(character, character)
    first, rest = divmod(code, 588)  # Unicode 3.12: 19 x 21 x 28 syllables
    second, third = divmod(rest, 28)
    return chr(0x1100 + first) + chr(0x1161 + second) + (chr(0x11A7 + third) if third else "")


def lowered(character: str) -> str:
    """Lower-case a character, whatever its neighbours are.

    Example:
        >>> lowered("Σ"), lowered("ß")
        ('σ', 'ß')
    """
    return unicode_tables().lower.get(character, character)


@functools.lru_cache(maxsize=_REMEMBERED)
def unaccented(character: str) -> str:
    """Take a character apart (NFKD), and leave its marks out, vowel signs among them.

    Example:
        >>> [unaccented(c) for c in "éﬁकि"]
        ['e', 'fi', 'क', '']
    """
    parts = unicode_tables().compatible.get(character) or decomposed(character)
    return "".join(c for c in parts if not is_in(unicode_tables().accents, ord(c)))


def in_order(letters: Iterable[str], order: Mapping[str, int]) -> Iterator[str]:
    """Sort the combining characters of each run by their place; equals stay as they are."""
    run: list[str] = []
    for letter in letters:
        if letter in order:
            run.append(letter)
            continue
        yield from sorted(run, key=order.__getitem__)
        run.clear()
        yield letter
    yield from sorted(run, key=order.__getitem__)
