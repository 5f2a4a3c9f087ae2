"""Tokens that a user added to a vocabulary, and the search for them in a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from roberta_hub.arguments import brief
from roberta_hub.errors import VocabularyError

Part: TypeAlias = "tuple[int | None, int, int]"
"""(index of an added token, start, end) in characters; None: text between the tokens."""

_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""Unicode's White_Space; `str.isspace` has four control characters more."""
_BLANKS_HERE = re.compile(f"[{_BLANKS}]*")
_CIRCLED = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
"""Symbols that are letters (Other_Alphabetic)."""
_LEVELS = 3
"""Letters by which a pattern branches: with 30,000 words a handful are left to try at a place."""
_FLAGS = ("special", "normalized", "lstrip", "rstrip", "single_word")


@dataclass(frozen=True)
class AddedToken:
    """A word that is always one token in a text, as in `tokenizers`."""

    word: str
    """Its text, as the user wrote it."""
    special: bool = False
    """transformers' `skip_special_tokens` leaves it out; the ids of texts do not depend on it."""
    normalized: bool = True
    """Searched for in the normalized text: where that is in lower case, "Foo" is found in "FOO"."""
    lstrip: bool = False
    """White space before it belongs to it."""
    rstrip: bool = False
    """White space after it belongs to it."""
    single_word: bool = False
    """Not inside a longer word."""

    @classmethod
    def of(cls, entry: Mapping[str, Any] | str, *, special: bool = False) -> AddedToken:
        """Read an entry of transformers' files; a str has no flags, and `special` is its default.

        Example:
            >>> AddedToken.of({"content": "[E1]", "special": True}).normalized
            False
        """
        table: Mapping[str, Any] = {"content": entry} if isinstance(entry, str) else entry
        word = table["content"]
        if not isinstance(word, str) or not word:
            raise VocabularyError(f"added token {brief(word)}: a token is a text")
        special = table.get("special", special)
        flags = {name: table.get(name, False) for name in _FLAGS}
        flags |= {"special": special, "normalized": table.get("normalized", not special)}
        for name, value in flags.items():
            if not isinstance(value, bool):
                raise VocabularyError(
                    f"added token {brief(word)}: {name} is {brief(value)}, not true or false"
                )
        return cls(word, **flags)

    @property
    def entry(self) -> dict[str, object]:
        """What transformers' files say of it, but for its id."""
        return {"content": self.word, **{name: getattr(self, name) for name in _FLAGS}}


class AddedTokenSearch:
    """Splits texts at added tokens, given by index: the leftmost first, and of those the longest.

    `texts` is what each token looks like in a text, in the order of `tokens`.

    Example:
        >>> search = AddedTokenSearch({5: AddedToken("[E1]", lstrip=True)}, ["[E1]"])
        >>> search.split("a [E1]b")
        [(None, 0, 1), (5, 1, 6), (None, 6, 7)]
    """

    def __init__(self, tokens: Mapping[int, AddedToken], texts: Sequence[str]) -> None:
        self._tokens = dict(tokens)
        self._index: dict[str, int] = {}
        for index, text in zip(tokens, texts, strict=True):
            # Of two that look the same the first; tokenizers takes another one in each process.
            self._index.setdefault(text, index)
        self._pattern = re.compile(_any_of(self._index, _LEVELS))

    def split(self, text: str) -> list[Part]:
        """Return the parts of a text, in order and none empty.

        The parts of a token have the white space that belongs to it.
        """
        parts: list[Part] = []
        place = 0
        for match in self._pattern.finditer(text):
            start, end = match.span()
            index = self._index[match[0]]
            token = self._tokens[index]
            if token.single_word and (is_word_at(text, start - 1) or is_word_at(text, end)):
                continue
            if token.lstrip:
                while start > place and text[start - 1] in _BLANKS:
                    start -= 1
            if token.rstrip:
                end = _BLANKS_HERE.match(text, end).end()  # type: ignore[union-attr]
            start = max(start, place)  # a token may begin with white space of the one before it
            if place < start:
                parts.append((None, place, start))
            parts.append((index, start, end))
            place = end
        if place < len(text):
            parts.append((None, place, len(text)))
        return parts


def is_word_at(text: str, place: int) -> bool:
    r"""Whether a text has a letter of a word at a place, as `\w` of `tokenizers` means it.

    Example:
        >>> [is_word_at("a-", place) for place in (-1, 0, 1, 2)]
        [False, True, False, False]
    """
    if not 0 <= place < len(text):
        return False
    letter = text[place]
    kind, code = unicodedata.category(letter), ord(letter)
    return (
        kind[0] in "LM"
        or kind in ("Nd", "Nl", "Pc")
        or letter in "\u200c\u200d"
        or any(first <= code <= last for first, last in _CIRCLED)
    )


def _any_of(words: Collection[str], levels: int) -> str:
    """Make a pattern of words of which the longest is found; it branches by their first letters.

    Example:
        >>> _any_of(["ab", "a", "b"], 1)
        '(?:a(?:b|)|b(?:))'
    """
    if levels == 0 or len(words) < 2:
        return f"(?:{'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))})"
    groups: dict[str, list[str]] = {}
    for word in words:
        if word:
            groups.setdefault(word[0], []).append(word[1:])
    branches = [re.escape(first) + _any_of(rest, levels - 1) for first, rest in groups.items()]
    return f"(?:{'|'.join([*branches, *([''] if '' in words else [])])})"
