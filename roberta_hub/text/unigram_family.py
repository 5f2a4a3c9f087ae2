"""Says how tokenizers that read SentencePiece files differ: names, special symbols, cleaning.

ALBERT cleans a text before SentencePiece sees it, as Hugging Face's tokenizers does, with which its
models are used; `Cleaned.starts` leads back to the text as it was. A comma behind a digit is cut
off afterwards, as in google-research/albert.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from roberta_hub.text.dictionary import MASK, SPECIALS
from roberta_hub.text.unicode import lowered, unaccented

_SPACE = "▁"
_QUOTES = re.compile("``|''")


@dataclass(frozen=True)
class Cleaned:
    """A text that was cleaned."""

    text: str
    """n characters."""
    starts: Sequence[int]
    """Where each of them begins in the text as it was, and where the last one ends: n + 1."""


@dataclass(frozen=True)
class Cleaning:
    """What happens to a text before SentencePiece reads it.

    Example:
        >>> cleaned = Cleaning().clean("Ça ``va''")
        >>> cleaned.text, cleaned.starts
        ('ca "va"', [0, 1, 2, 3, 5, 6, 7, 9])
    """

    do_lower_case: bool = True
    """Capitals become lower case, each for itself."""
    keep_accents: bool = False
    """Accents and vowel signs stay, and no character is decomposed (NFKD)."""
    remove_space: bool = True
    """White space at the ends goes, and each run of it becomes one space.

    SentencePiece does that anyway; transformers' older classes read it.
    """
    plain_quotes: bool = True
    """Two backquotes or two apostrophes become one double quote."""
    cut_commas: bool = True
    """A comma behind a digit is a piece of its own."""

    def clean(self, text: str) -> Cleaned:
        """Clean a text, and keep where each character comes from."""
        if text.isascii() and not (self.plain_quotes and _QUOTES.search(text)):
            read = text.lower() if self.do_lower_case else text
            return Cleaned(read, range(len(text) + 1))
        characters, starts = [], []
        for start, character in self._quoted(text):
            parts = character if self.keep_accents else unaccented(character)
            for part in "".join(map(lowered, parts)) if self.do_lower_case else parts:
                characters.append(part)
                starts.append(start)
        return Cleaned("".join(characters), [*starts, len(text)])

    def _quoted(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield (start, character) with plain quotes."""
        place = 0
        while place < len(text):
            pair = self.plain_quotes and text[place : place + 2] in ("``", "''")
            yield place, '"' if pair else text[place]
            place += 2 if pair else 1


def ends_in_comma(piece: str) -> bool:
    """Whether a piece ends in a digit and a comma."""
    return piece.endswith(",") and piece[-2:-1].isdigit()


def commas(
    texts: Sequence[str], numbers: dict[str, int], unknown: int, encode: Callable[[str], list[str]]
) -> dict[int, list[tuple[int, int]]]:
    """Cut pieces that end in a digit and a comma again, without the comma.

    `▁9,` becomes `▁9` and `,`, so that a number is the same with and without a comma after it. The
    result has (number, length in characters) of the parts, by the number of the piece; a part that
    is no piece has the number `unknown`.
    """
    found = {}
    for text in texts:
        if ends_in_comma(text) and text in numbers:
            parts = encode(text[:-1].replace(_SPACE, ""))
            if text[0] != _SPACE and parts[0][0] == _SPACE:
                parts = parts[1:] if len(parts[0]) == 1 else [parts[0][1:], *parts[1:]]
            lengths = [len(part) for part in parts]
            if sum(lengths) != len(text) - 1:  # a space inside the piece: the last part has it
                lengths = [*lengths[:-1], len(text) - 1 - sum(lengths[:-1])]
            parts.append(",")
            lengths.append(1)
            own = [numbers.get(part, unknown) for part in parts]
            found[numbers[text]] = list(zip(own, lengths, strict=True))
    return found


@dataclass(frozen=True)
class Family:
    """One of transformers' classes of tokenizer."""

    tokenizer_class: str
    """Its name."""
    file: str | None
    """The name of its `.model` file; None: tokenizer.json alone says what the rows are."""
    first: tuple[str, ...] = SPECIALS
    """The model's first rows."""
    left_out: int = 3
    """How many of the file's first pieces are no further rows of the model."""
    mask: str = MASK
    """The mask."""
    bos: str = SPECIALS[0]
    """Begins a sequence."""
    eos: str = SPECIALS[2]
    """Ends a sentence."""
    pad: str = SPECIALS[1]
    """Fills batches."""
    unk: str = SPECIALS[3]
    """The unknown symbol."""
    separators: int = 2
    """Number of `eos` between two sentences."""
    cleaning: Cleaning | None = None
    """What happens to a text first; None: nothing."""
    white_space: bool = False
    """All white space parts words, as in Hugging Face's tokenizers; else what the file's character
    map says, as in SentencePiece itself."""

    @property
    def settings(self) -> Mapping[str, object]:
        """What tokenizer_config.json says of it."""
        cleaning = {} if self.cleaning is None else asdict(self.cleaning)
        plain = {} if self.white_space else {WHITE_SPACE: False}
        return {"tokenizer_class": self.tokenizer_class} | cleaning | plain


WHITE_SPACE = "white_space"
"""A setting of ours in tokenizer_config.json: false where SentencePiece's own rules hold."""
FILE = "sentencepiece.bpe.model"
"""What fairseq calls the file, and most of transformers' classes."""
XLM_R = Family("XLMRobertaTokenizer", FILE)
"""Row 4 is the file's piece 3; `<mask>` is the last row."""
CAMEMBERT = Family(
    "CamembertTokenizer",
    FILE,
    first=("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"),
    left_out=1,
)
"""Row 5 is the file's piece 1: `<s>` and `</s>` have two rows each, of which the second is used."""
ALBERT = Family(
    "AlbertTokenizer",
    "spiece.model",
    first=(),
    left_out=0,
    mask="[MASK]",
    bos="[CLS]",
    eos="[SEP]",
    separators=1,
    cleaning=Cleaning(),
    white_space=True,
)
"""The rows are the file's pieces."""
OTHER = Family("PreTrainedTokenizerFast", None, first=(), left_out=0, white_space=True)
"""The rows are tokenizer.json's pieces."""
