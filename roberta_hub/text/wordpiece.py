"""Cuts text into pieces with WordPiece (Wu et al. 2016, 4.1; Devlin et al. 2019, 3).

A text falls into words at blanks, punctuation and ideographs, and each word into the longest
pieces that the vocabulary has, from left to right: 'un ##aff ##able'. The ids are those of Hugging
Face's tokenizers, with which nearly all models are used, but for special words: in a text they are
text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from roberta_hub.errors import CheckpointError, InputError, InputTypeError, VocabularyError
from roberta_hub.text.characters import check_text
from roberta_hub.text.pieces import JoinedBatch, NormalizedText, ends_of
from roberta_hub.text.tokenizer_json import TOKENIZER_FILE, write_wordpiece
from roberta_hub.text.unicode import GLUED, Fold
from roberta_hub.text.wordpiece_rules import LONGEST_WORD, PREFIX, Rules, Specials

_REMEMBERED = 1 << 17
"""Most chunks of text whose pieces are kept: some 30 MB."""
_LONGEST_REMEMBERED = 32
"""Characters of such a chunk."""
_GLUED = str.maketrans("", "", GLUED)
_ASCII_WORD = re.compile(r"[a-zA-Z0-9]+|[^a-zA-Z0-9]")
_TIGHT = (".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re")
"""Prefixes of pieces that follow without a blank when text is cleaned up."""


class WordCache(dict[str, list[int]]):
    """Cache of the pieces of chunks, filled by `cut` on lookup and cleared when full.

    Example:
        >>> WordCache(lambda chunk: [len(chunk)])["a-b"]
        [3]
    """

    def __init__(self, cut: Callable[[str], list[int]]) -> None:
        super().__init__()
        self._cut = cut

    def __missing__(self, chunk: str) -> list[int]:
        """Cut a chunk and remember its pieces."""
        numbers = self._cut(chunk)
        if len(chunk) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[chunk] = numbers
        return numbers


class WordPiece:
    """A `SubwordTokenizer` whose numbers are the lines of vocab.txt, which are the model's ids too.

    Example:
        >>> names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##able", "!", "["]
        >>> engine = WordPiece(names)
        >>> engine.encode_ids("Unable!"), engine.encode("[MASK] unable")
        ([5, 6, 7], '[ [UNK] [UNK] un ##able')
    """

    batch_encoder: JoinedBatch | None = None
    """None: a list is cut text by text, which costs next to nothing."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        rules: Rules | None = None,
        specials: Specials | None = None,
        tokenizer_class: str = "BertTokenizer",
    ) -> None:
        self.names = list(names)
        self.rules = rules or Rules()
        self.specials = specials or Specials()
        self.tokenizer_class = tokenizer_class
        self.size = len(self.names)
        """How many pieces there are."""
        self.symbols = {name: i for i, name in enumerate(self.names)}
        """Each piece by its name in vocab.txt."""
        control = set(self.specials.names)
        if missing := control - self.symbols.keys():
            raise VocabularyError(f"the vocabulary lacks its special word {min(missing)!r}")
        self._unknown = self.symbols[self.specials.unk]
        self._first = {name: i for name, i in self.symbols.items() if name not in control}
        self._next = {
            name.removeprefix(PREFIX): i
            for name, i in self._first.items()
            if name.startswith(PREFIX)
        }
        self._longest = max(map(len, self._first), default=0)
        self._longest_next = max(map(len, self._next), default=0)
        rules = self.rules
        self._fold = Fold(lower=rules.lower, strip=rules.strip, chinese=rules.chinese)
        self._chunks = WordCache(self._cut)

    @property
    def settings(self) -> Mapping[str, object]:
        """What tokenizer_config.json says of this vocabulary.

        Example:
            >>> WordPiece(Specials().names).settings["do_lower_case"]
            True
        """
        rules, specials = self.rules, self.specials
        plain = rules.longest_word == LONGEST_WORD  # of which the classes for BERT know no other
        about: dict[str, object] = {
            "tokenizer_class": self.tokenizer_class if plain else "PreTrainedTokenizerFast",
            "do_lower_case": rules.lower,
            "strip_accents": rules.strip_accents,
            "tokenize_chinese_chars": rules.chinese,
            "cls_token": specials.bos,
            "sep_token": specials.eos,
            "pad_token": specials.pad,
            "unk_token": specials.unk,
            "mask_token": specials.mask,
        }
        return about | ({"extra_special_tokens": list(specials.others)} if specials.others else {})

    @property
    def fingerprint(self) -> str:
        """The kind, its rules and its special words."""
        return f"WordPiece {self.rules} {self.specials}"

    def encode_ids(self, text: str) -> list[int]:
        """Turn text into ids. Special words such as `[MASK]` are text like any other."""
        check_text(text)
        if not text.isprintable() and any(map(text.count, GLUED)):
            text = text.translate(_GLUED)
        # No Python for a chunk that was cut before.
        return list(chain.from_iterable(map(self._chunks.__getitem__, text.split())))

    def _cut(self, chunk: str) -> list[int]:
        """Cut what has no white space inside."""
        if chunk.isascii() and chunk.isprintable():  # what `Fold.words` gives too, but slower
            lowered = chunk.lower() if self.rules.lower else chunk
            if lowered.isalnum():
                return self._cut_word(lowered)
            words = _ASCII_WORD.findall(lowered)
        else:
            words = self._fold.words(chunk)
        return [number for word in words for number in self._cut_word(word)]

    def _cut_word(self, word: str) -> list[int]:
        """Cut one folded word: the longest piece first; all of it is unknown if a part is."""
        size = len(word)
        if size > self.rules.longest_word:
            return [self._unknown]
        whole = self._first.get(word)
        if whole is not None:
            return [whole]
        numbers: list[int] = []
        start, find, longest = 0, self._first.get, self._longest
        while start < size:
            for end in range(min(start + longest, size), start, -1):
                number = find(word[start:end])
                if number is not None:
                    break
            else:
                return [self._unknown]
            numbers.append(number)
            start, find, longest = end, self._next.get, self._longest_next
        return numbers

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) in characters of each piece; one that is unknown covers its word.

        An accent that goes belongs to the character before it.

        Example:
            >>> names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "de", "##ja"]
            >>> WordPiece(names).spans("De\u0301ja\u0300 vu")
            [(0, 3), (3, 6), (7, 9)]
        """
        check_text(text)
        spans: list[tuple[int, int]] = []
        word: list[str] = []
        places: list[tuple[int, int]] = []  # of each letter of the word
        for letter, i in self._fold.ordered(text):
            folded = self._fold[ord(letter)]
            if not folded and word and self._fold.is_mark(ord(letter)):
                places[-1] = places[-1][0], i + 1
            for c in folded:
                if c != " ":
                    word.append(c)
                    places.append((i, i + 1))
                elif word:
                    spans += self._word_spans("".join(word), places)
                    word, places = [], []
        return spans + self._word_spans("".join(word), places) if word else spans

    def _word_spans(self, word: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        numbers, spans, start = self._cut_word(word), [], 0
        for number in numbers:
            whole = number == self._unknown
            end = len(word) if whole else start + self._length(number, first=start == 0)
            spans.append((places[start][0], places[end - 1][1]))
            start = end
        return spans

    def _length(self, number: int, *, first: bool) -> int:
        return len(self.names[number]) - (0 if first else len(PREFIX))

    def normalized(self, text: str) -> NormalizedText:
        """In lower case and without accents, as far as the rules say so.

        Example:
            >>> WordPiece(Specials().names).normalized("Déjà-vu").text
            'deja-vu'
        """
        if text.isascii() and text.isprintable():
            return NormalizedText.same(text.lower() if self.rules.lower else text)
        read, starts = self._fold.normalized(text)
        return NormalizedText(read, starts, ends_of([*starts, len(text)]))

    def piece(self, number: int) -> str:
        """Return the piece as vocab.txt writes it."""
        if not 0 <= number < self.size:
            raise InputError(f"{number} is no piece; ids run from 0 to {self.size - 1}")
        return self.names[number]

    def surface(self, number: int) -> bytes:
        """Text of a piece: b' world', b'ing', or b'.' with clean-up."""
        name = self.piece(number)
        if name.startswith(PREFIX):
            return name.removeprefix(PREFIX).encode()
        return self.word_surface(name)

    def word_surface(self, word: str) -> bytes:
        """Return the word with a space before it, unless text is cleaned up and it is tight."""
        tight = self.rules.clean_up and word.startswith(_TIGHT)
        return (word if tight else f" {word}").encode()

    def is_text(self, number: int) -> bool:
        """Whether `encode_ids` can return this number: not a special word, nor `[unused1]`."""
        name = self.piece(number)
        if name in self.specials.names:
            return False
        word = f"a{name.removeprefix(PREFIX)}" if name.startswith(PREFIX) else name
        return len(word) <= self.rules.longest_word and self._fold.words(word) == [word]

    def begins_word(self, number: int) -> bool:
        """Whether the piece has no prefix `##`."""
        return not self.piece(number).startswith(PREFIX)

    def join(self, surfaces: Iterable[bytes]) -> str:
        """Return the text of pieces in a row, without the blank before the first."""
        return b"".join(surfaces).decode(errors="replace").removeprefix(" ")

    def files(self, rows: Sequence[int | str]) -> dict[str, bytes]:
        """vocab.txt and tokenizer.json, which say the same.

        Example:
            >>> sorted(WordPiece(Specials().names).files(range(5)))
            ['tokenizer.json', 'vocab.txt']
        """
        names = [row if isinstance(row, str) else self.piece(row) for row in rows]
        ids = {name: i for i, name in enumerate(names)}
        twice = next((name for i, name in enumerate(names) if ids[name] != i), None)
        broken = next((name for name in names if "\n" in name or not name), None)
        if twice is not None or broken is not None:
            reason = "is empty or holds a line break" if twice is None else "has two ids"
            raise CheckpointError(
                f"the piece {broken if twice is None else twice!r} {reason}, which vocab.txt "
                "cannot express"
            )
        return {
            "vocab.txt": "".join(f"{name}\n" for name in names).encode(),
            TOKENIZER_FILE: write_wordpiece(ids, self.rules, self.specials),
        }

    def fairseq_files(self) -> dict[str, bytes]:
        """None."""
        raise CheckpointError(
            "fairseq has no WordPiece; save as 'huggingface' or 'roberta_hub' instead"
        )

    def encode(self, x: str, /) -> str:
        """Turn text into pieces separated by blanks."""
        return " ".join(map(self.names.__getitem__, self.encode_ids(x)))

    def decode(self, x: str, /) -> str:
        """Turn pieces separated by blanks into text; other words stay as they are.

        Example:
            >>> names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##able", "!"]
            >>> WordPiece(names).decode("[MASK] un ##able !")
            '[MASK] unable!'
        """
        if not isinstance(x, str):
            raise InputTypeError(f"decode takes a str of pieces, not {type(x).__name__}")
        numbers = self.symbols
        return self.join(
            self.surface(numbers[name]) if name in numbers else f" {name}".encode()
            for name in x.split(" ")
            if name
        )

    def is_beginning_of_word(self, x: str, /) -> bool:
        """Whether a symbol has no prefix `##`."""
        return not x.startswith(PREFIX)
