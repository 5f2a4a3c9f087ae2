"""Reads files with a word and its tag a line, as CoNLL's shared tasks wrote them.

What the columns hold says which is the word and which the tag: of CoNLL 2000 to 2003,
GermEval, MIT's .bio, WNUT, OntoNotes (CoNLL 2012) and Universal Dependencies (CoNLL-U).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from roberta_hub.errors import InputError, Remedy
from roberta_hub.inference.tag import UNSPACED
from roberta_hub.rows.labels import label_of
from roberta_hub.rows.lines import lines
from roberta_hub.rows.tables import Table

SUFFIXES = (
    ".conll",
    ".conll2003",
    ".conllu",
    ".conllup",
    ".iob",
    ".iob2",
    ".bio",
    ".bioes",
    ".gold_conll",
    ".v4_gold_conll",
)
"""How names of files with a word a line end."""
WORDS = ("word", "token", "words", "tokens", "form", "text")
TAGS = ("tag", "ner_tag", "ner", "label", "iob", "bio", "entity", "pos", "tags", "labels", "upos")
"""Names of the columns of words and of tags, where a file has a header."""
SENTENCES = ("sentence #", "sentence", "sentence_id", "sentence id", "sentence_idx", "sent_id")
"""Names of the column that says which sentence a word is in; such a file is a table."""
DOCUMENT = "-DOCSTART-"
"""Stands in place of a word where a document begins."""
_LOOK = 2000
"""Lines by which a layout is known."""
_MOST = 0.9
"""Share of a column's cells that show what it holds."""
_MARK = re.compile(r"O|[BIESLU]-.+")
"""What a tag of words in spans looks like; some files write it in lower case."""
_SMALL_MARK = re.compile(_MARK.pattern, re.IGNORECASE)
_BRACKET = re.compile(r"(?:\(([^()*]+))?\*(\))?|\(([^()*]+)\)")
"""A tag of OntoNotes: "(ORG*" begins, "*" continues it, "*)" ends, "(ORG)" is all of a span."""
_NUMBER = re.compile(r"\d+(?:[-.:]\d+)*")
_RANGE = re.compile(r"\d+[-.]\d+")
"""The number of what is no word in CoNLL-U: a token of several words, or a word left unsaid."""
_UNSET = ("", "_", "-", "*")
_UPOS = {
    "ADJ",
    "ADP",
    "ADV",
    "AUX",
    "CCONJ",
    "DET",
    "INTJ",
    "NOUN",
    "NUM",
    "PART",
    "PRON",
    "PROPN",
    "PUNCT",
    "SCONJ",
    "SYM",
    "VERB",
    "X",
    "_",
}
"""Parts of speech of Universal Dependencies."""
_CHUNKS = {
    "NP",
    "VP",
    "PP",
    "ADVP",
    "ADJP",
    "SBAR",
    "PRT",
    "CONJP",
    "INTJ",
    "LST",
    "UCP",
    "NC",
    "VC",
    "PC",
    "AC",
}
"""Labels of chunks, in a column next to the tags of entities."""
_ONTONOTES = (3, 10)
"""Columns of the word and of its entity in CoNLL 2012, behind document, part and number."""
_UNSPACED = re.compile(UNSPACED)
_LETTERS = 10
"""Least words by which a file is known to have a character a line."""


@dataclass(frozen=True)
class TaggedWords:
    """A sentence cut into words, with a label for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    where: str


@dataclass(frozen=True)
class Wanted:
    """Columns that the caller names, by number from 1 or by name; None: found."""

    word: str | None = None
    tag: str | None = None
    remedy: Callable[[str, str], Remedy] = lambda what, column: Remedy(
        f'say which with {what}="{column}"', f"say which with --{what} {column}"
    )
    """Makes the remedy of columns that could each be meant, of "text" or "label" and a column."""


@dataclass(frozen=True)
class Layout:
    """Where a file's words and tags are."""

    path: Path
    width: int
    """Columns of most lines."""
    word: int
    tag: int
    number: int | None
    """Column of the words' numbers, if there is one."""
    header: int | None
    """Line of the columns' names, if there is one."""
    known: frozenset[str]
    """Tags of the lines that were looked at."""
    marked: bool
    """Whether tags mark spans."""
    characters: bool
    """Whether a line is a character."""
    spelled: bool
    """Whether these are of a script that writes blanks between words."""

    @property
    def said(self) -> str:
        """The layout in words."""
        plain = (self.word, self.tag) == (0, self.width - 1)
        columns = "" if plain else f" (columns {self.word + 1} and {self.tag + 1})"
        return f"a {'character' if self.characters else 'word'} and its tag a line{columns}"


# ---- reading ----


def is_conll(path: Path) -> bool:
    """Tell whether a file has a word and its tag a line, by most of its lines."""
    try:
        seen = _Seen.of(path)
    except InputError:  # not UTF-8: the reader of the file says so
        return False
    names = [suffix.lower() for suffix in path.suffixes]
    suffixed = any(name in SUFFIXES for name in names)
    if seen.width < 2 or seen.has_sentences:
        return False
    return suffixed or seen.is_known or (seen.is_regular and bool(seen.tag_columns()))


def read_conll(
    path: Path, wanted: Wanted | None = None, *, joins: bool = False
) -> tuple[Layout, list[TaggedWords]]:
    """Read the sentences of a file with a word and its tag a line.

    Lines without ink and "-DOCSTART-" end a sentence; comments ("# text = ...") and CoNLL-U's
    ranges and empty words are left out. Tags in brackets become "B-" and "I-".
    """
    layout = layout_of(path, wanted or Wanted())
    sentences = [
        TaggedWords(tuple(words), tuple(_plain_tags(tags, layout.marked)), f"{path}:{first}")
        for words, tags, first in _sentences(layout)
    ]
    blanks = any(" " in one.words for one in sentences)
    if layout.spelled and not (joins and blanks):
        why = "" if blanks else ", and none is the blank between words"
        raise InputError(
            f"{path}: each line is a character, not a word{why}",
            remedy=Remedy("write a word a line, or JSONL with a text and its spans in characters"),
        )
    return layout, sentences


def _sentences(layout: Layout) -> Iterator[tuple[list[str], list[str], int]]:
    """Read sentences as (words, tags, the line of the first word)."""
    words: list[str] = []
    tags: list[str] = []
    first, last = 0, -1
    for number, text in lines(layout.path):
        cells = _cells(text)
        if layout.characters and text[:1] == " " and 0 < len(cells) < layout.width:
            cells = ["", *cells]  # a blank is the character
        if number == layout.header or _is_comment(cells, layout):
            continue
        own = _number(cells, layout)
        if _RANGE.fullmatch(own):
            continue
        again = own.isdecimal() and int(own) <= last  # a sentence without a blank line before it
        if words and (_ends(cells) or again):
            yield words, tags, first
            words, tags = [], []
        if _ends(cells):
            last = -1
            continue
        last = int(own) if own.isdecimal() else last
        word, tag = _word_and_tag(cells, layout, f"{layout.path}:{number}", text)
        first = first if words else number
        words.append(word)
        tags.append(tag)
    if words:
        yield words, tags, first


def _cells(text: str) -> list[str]:
    # Not at every white space: a word may hold a no-break one ("10 000").
    text = text.rstrip("\t \r")
    cells = text.split("\t") if "\t" in text else [cell for cell in text.split(" ") if cell]
    return [cell.strip() for cell in cells]


def _ends(cells: Sequence[str]) -> bool:
    return not any(cells) or DOCUMENT in cells[:5]


def _number(cells: Sequence[str], layout: Layout) -> str:
    """Return the number of a line's word; "": it has none."""
    return "" if layout.number is None else "".join(cells[layout.number : layout.number + 1])


def _is_comment(cells: Sequence[str], layout: Layout) -> bool:
    """Tell whether a line that begins with "#" says something of the sentence, and is no word."""
    if not cells or not cells[0].startswith("#"):
        return False
    if len(cells) < layout.width or len(cells) <= layout.tag or cells[2:3] == ["="]:
        return True
    tag = cells[layout.tag]
    return not _SMALL_MARK.fullmatch(tag) if layout.marked else tag not in layout.known


def _word_and_tag(cells: Sequence[str], layout: Layout, where: str, text: str) -> tuple[str, str]:
    # A last column stays the last one where a line has more or fewer.
    place = -1 if layout.tag == layout.width - 1 else layout.tag
    whole = len(cells) > max(1, layout.word, place)
    word, tag = (cells[layout.word], cells[place]) if whole else ("", "")
    word = " " if layout.characters and not word else word
    if not word or not tag:
        raise InputError(f"{where}: {text[:40]!r} is not a word and a label")
    return word, label_of(tag, where)


# ---- tags ----


def is_joined(tags: Iterable[str]) -> bool:
    """Tell whether tags mark spans of several words: some word is outside, or begins one.

    Example:
        >>> [is_joined(tags) for tags in (["O", "B-PER"], ["o", "b-per"], ["NOUN", "e-mail"])]
        [True, True, False]
    """
    found = set(tags)
    return any(map(_MARK.fullmatch, found)) or _is_small(found)


def _is_small(tags: set[str]) -> bool:
    return "o" in tags and all(map(_SMALL_MARK.fullmatch, tags))


def tidy_tags(tags: Sequence[str]) -> list[str]:
    """Write tags of spans as they mostly are: "o" as "O", "b-per" as "B-per".

    Example:
        >>> tidy_tags(["o", "b-per", "I-per"])
        ['O', 'B-per', 'I-per']
    """
    return [
        tag[0].upper() + tag[1:] if _SMALL_MARK.fullmatch(tag) and tag[0] in "obi" else tag
        for tag in tags
    ]


def _plain_tags(tags: Sequence[str], marked: bool) -> list[str]:
    """Write a sentence's tags with "B-" and "I-", if they mark spans."""
    if not marked:
        return list(tags)
    found: list[str] = []
    label = ""
    for tag in tags:
        match = _BRACKET.fullmatch(tag)
        if match is None:
            found.append(tag)
            continue
        begun = match[1] or match[3]
        label = begun or label
        found.append(f"{'B' if begun else 'I'}-{label}" if label else "O")
        label = "" if match[2] or match[3] else label
    return tidy_tags(found)


# ---- which column is what ----


def layout_of(path: Path, wanted: Wanted) -> Layout:
    """Find the columns of the words and of the tags by what they hold."""
    seen = _Seen.of(path)
    if not seen.width:
        raise InputError(f"{path}: holds no examples")
    if seen.width < 2:
        raise InputError(f"{path}:{seen.first}: {seen.line[:40]!r} is not a word and a label")
    if seen.has_sentences:
        raise InputError(
            f"{path}: a column says which sentence a word is in, and no blank line does",
            remedy=Remedy("save it as CSV for `fit`, or put a blank line between sentences"),
        )
    tag = seen.column(wanted.tag)
    word = seen.column(wanted.word)
    if tag is None:
        tag = _only(seen.tags(word), seen, "the tags", "label", wanted)
    if word is None:
        word = _only(seen.words(tag), seen, "the words", "text", wanted)
    if word == tag:
        raise InputError(f"{path}: column {word + 1} cannot be both the word and its tag")
    known = frozenset(seen.values[tag])
    return Layout(
        path=path,
        width=seen.width,
        word=word,
        tag=tag,
        number=seen.number(word),
        header=seen.header,
        known=known,
        marked=seen.is_bracketed(tag) or is_joined(known),
        characters=are_characters(seen.values[word]),
        spelled=are_characters(seen.values[word], spelled=True),
    )


def are_characters(words: Sequence[str], *, spelled: bool = False) -> bool:
    """Tell whether words are characters.

    Example:
        >>> are_characters("我们今天去上海公园看花"), are_characters(["Ada", "sings"] * 9)
        (True, False)
        >>> are_characters("我们今天去上海公园看花", spelled=True)
        False
    """
    inked = [word for word in words if word.strip()]
    single = [word for word in inked if len(word) == 1]
    letters = sum(word.isalpha() and not _UNSPACED.match(word) for word in single)
    most = len(inked) >= _LETTERS and len(single) >= _MOST * len(inked)
    return most and (not spelled or 2 * letters > len(single))


def text_of(words: Sequence[str], *, spaced: bool = True) -> tuple[str, list[tuple[int, int]]]:
    """Join words to a text, and say where each lies: (start, end).

    Example:
        >>> text_of(["in", "Rome"]), text_of(["今天", "去", "上海", "."], spaced=False)[0]
        (('in Rome', [(0, 2), (3, 7)]), '今天去上海 .')
    """
    single = all(len(word) == 1 for word in words)
    glued = single and any(word == " " or _UNSPACED.match(word) for word in words)
    text = ""
    places = []
    for word in words:
        bare = not text or (not spaced and (glued or (_bare(text[-1]) and _bare(word[0]))))
        text += word if bare else f" {word}"
        places.append((len(text) - len(word), len(text)))
    return text, places


def _bare(character: str) -> bool:
    """Tell whether a character has no blank next to it: of such a script, or its punctuation."""
    wide = unicodedata.category(character)[0] == "P" and unicodedata.east_asian_width(character)
    return wide in ("W", "F") or _UNSPACED.match(character) is not None


def _only(found: Sequence[int], seen: _Seen, what: str, argument: str, wanted: Wanted) -> int:
    """Return the only column, or say that there are several or none."""
    if len(found) == 1:
        return found[0]
    numbers = [str(column + 1) for column in found]
    said = (
        f"columns {' and '.join(numbers)} could each hold {what}"
        if found
        else f"no column is known to hold {what}"
    )
    raise InputError(
        f"{seen.path}: {said}. {seen.table.listed()}",
        remedy=wanted.remedy(argument, numbers[0] if numbers else "N"),
    )


@dataclass(frozen=True)
class _Seen:
    """The first lines of a file, by their columns."""

    path: Path
    sentences: list[list[list[str]]]
    """Cells of each line that has as many as most."""
    width: int
    names: tuple[str, ...]
    """Names of the columns: those of a header, else numbers from 1."""
    header: int | None
    first: int
    """The first line that has ink, and its text."""
    line: str
    is_ontonotes: bool
    is_regular: bool
    """Whether at least every second line has as many columns."""

    @classmethod
    def of(cls, path: Path) -> _Seen:
        """Look at a file."""
        found = [(n, _cells(text), text) for n, text in islice(lines(path), _LOOK)]
        inked = [(n, cells, text) for n, cells, text in found if any(cells)]
        rows = [(n, cells) for n, cells, _ in inked if not _is_said(cells)]
        first, line = next(((n, text) for n, _, text in inked), (1, ""))
        header = next(
            (n for n, cells in rows[:1] if _has(cells, WORDS) and _has(cells, TAGS)), None
        )
        widths = Counter(len(cells) for n, cells in rows if n != header)
        width = widths.most_common(1)[0][0] if widths else 0
        plus = next((c for _, c, _ in inked if c[:3] == ["#", "global.columns", "="]), [])[3:]
        named = dict(rows).get(header, plus) if header else plus
        sentences: list[list[list[str]]] = [[]]
        for n, cells, _ in found:
            if _ends(cells) and sentences[-1]:
                sentences.append([])
            if len(cells) == width and n != header and not _is_said(cells):
                sentences[-1].append(cells)
        return cls(
            path=path,
            sentences=[one for one in sentences if one],
            width=width,
            names=tuple(named)
            if len({*named}) == width
            else tuple(str(i + 1) for i in range(width)),
            header=header,
            first=first,
            line=line,
            is_ontonotes=bool(rows) and all(map(_is_ontonotes, (cells for _, cells in rows))),
            is_regular=2 * widths[width] >= widths.total(),
        )

    @cached_property
    def values(self) -> list[list[str]]:
        """Cells of each column."""
        rows = [row for one in self.sentences for row in one]
        return [[row[i] for row in rows] for i in range(self.width)]

    @property
    def table(self) -> Table:
        """The lines as a table, which lists and checks its columns."""
        rows = [dict(zip(self.names, row, strict=True)) for one in self.sentences for row in one]
        return Table(str(self.path), list(self.names), lambda: iter(list(enumerate(rows, 1))))

    @property
    def has_sentences(self) -> bool:
        """Whether a header names a column of sentences, so that the file is a table."""
        return self.header is not None and _has(self.names, SENTENCES)

    @property
    def is_conllu(self) -> bool:
        """Whether the columns are those of Universal Dependencies."""
        return self.width == 10 and self._counts(0) and {*self.values[3]} <= _UPOS

    @property
    def is_known(self) -> bool:
        """Whether the columns are those of a layout that is known by all of them."""
        return self.is_ontonotes or self.is_conllu

    def column(self, wanted: str | None) -> int | None:
        """Find a column that the caller names: by its name, or its number from 1."""
        if wanted is None:
            return None
        if wanted not in self.names and wanted.isdecimal() and 0 < int(wanted) <= self.width:
            return int(wanted) - 1
        return self.names.index(self.table.check(wanted))

    def tags(self, word: int | None) -> list[int]:
        """List the columns that may be the tags."""
        if self.is_ontonotes:
            return [_ONTONOTES[1]]
        marked = [i for i in self.tag_columns() if i != word]
        if marked or not self.is_conllu:
            last = self.width - 1
            plain = "_" not in self.values[last] and not self._all(last, _NUMBER) and last != word
            return marked or ([last] if plain else [])
        return [3]

    def tag_columns(self) -> list[int]:
        """List the columns of tags that mark spans; chunks next to entities are none."""
        values, last = self.values, self.width - 1
        found = [i for i in range(self.width) if self._all(i, _MARK) or _is_small({*values[i]})]
        found = [i for i in found if i == last or {*values[i]} & {"O", "o"}]
        spans = [i for i in found if any(value[1:2] == "-" for value in values[i])]
        found = spans or [i for i in found if i == last]
        entities = [i for i in found if not {v[2:] for v in values[i] if v[2:]} <= _CHUNKS]
        return (entities or found) or [i for i in range(self.width) if self.is_bracketed(i)]

    def is_bracketed(self, column: int) -> bool:
        """Tell whether a column has tags in brackets, as OntoNotes has them."""
        opened = any(value.startswith("(") for value in self.values[column])
        return opened and self._all(column, _BRACKET)

    def words(self, tag: int) -> list[int]:
        """List the columns that may be the words: the first that holds text, and what has more."""
        if self.is_known:
            return [_ONTONOTES[0] if self.is_ontonotes else 1]
        others = [i for i in range(self.width) if i != tag]
        plain = [i for i in others if not self._all(i, _SMALL_MARK) and not self._unset(i)]
        texts = [i for i in plain if not (self._all(i, _NUMBER) or self._labels_lines(i))]
        found = texts or plain or others
        kinds = {i: len({*self.values[i]}) for i in found}
        more = [i for i in found[1:] if kinds[i] > 2 * kinds[found[0]]]
        return [found[0], *more]

    def number(self, word: int) -> int | None:
        """Find the column that counts the words of each sentence."""
        return next((i for i in range(word) if self._counts(i)), None)

    def _all(self, column: int, pattern: re.Pattern[str]) -> bool:
        cells = self.values[column]
        return sum(map(bool, map(pattern.fullmatch, cells))) >= _MOST * len(cells) > 0

    def _unset(self, column: int) -> bool:
        return all(value in _UNSET for value in self.values[column])

    def _counts(self, column: int) -> bool:
        """Tell whether a column counts the words of each sentence from 0 or 1."""
        for one in self.sentences:
            own = [row[column] for row in one if not _RANGE.fullmatch(row[column])]
            begin = own[0] if own else "1"
            if begin not in ("0", "1"):
                return False
            if own != [str(int(begin) + i) for i in range(len(own))] and not self._restarts(own):
                return False
        return any(row[column] == "2" for one in self.sentences for row in one)

    @staticmethod
    def _restarts(numbers: Sequence[str]) -> bool:
        """Tell whether numbers count up, and begin again at one: sentences without a blank line."""
        steps = list(zip(numbers, numbers[1:], strict=False))
        return all(
            b.isdecimal() and (b == numbers[0] or int(b) == int(a) + 1)
            for a, b in steps
            if a.isdecimal()
        )

    def _labels_lines(self, column: int) -> bool:
        """Tell whether a column names sentences or lines: "doc1" all along, or "t1", "t2", ...."""
        several = [[row[column] for row in one] for one in self.sentences if len(one) > 1]
        constant = all(len({*cells}) == 1 for cells in several)
        stems = [{*(re.sub(r"\d+$", "", cell) for cell in cells)} for cells in several]
        ended = all(cell[-1:].isdecimal() for cells in several for cell in cells)
        counted = ended and all(len(s) == 1 for s in stems)
        return bool(several) and (constant or counted)


def _has(cells: Iterable[str], names: Sequence[str]) -> bool:
    return any(cell.casefold() in names for cell in cells)


def _is_said(cells: Sequence[str]) -> bool:
    """Tell whether a line is likely no word, where that is not known yet."""
    return "".join(cells[:1]).startswith("#") or DOCUMENT in cells[:5]


def _is_ontonotes(cells: Sequence[str]) -> bool:
    """Tell whether a line has the columns of CoNLL 2012; how many depends on the sentence."""
    return (
        len(cells) > 11
        and cells[1].isdecimal()
        and cells[2].isdecimal()
        and _BRACKET.fullmatch(cells[10]) is not None
    )
