"""Texts that tell faults apart: each exposes one mistake of tokenization."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from roberta_hub.text.tokenizer import Text, Tokenizer

PLAIN = (
    "The train from Hamburg was late, so they had two cups of coffee.",
    "Nobody knew why the dog barked at the old letter box.",
    "She reads the news in English and French every morning!",
    "In 1987, the town had 4,512 houses and one small school.",
    "Where can I buy a ticket to Berlin for tomorrow?",
    "It was raining when Mary walked home over the bridge.",
    "This film is wonderful; I would watch it again.",
    "Paris",
)
"""Sentences as all models know them, with capitals. What is wrong with the model or with the whole
of a service is seen in these."""
CUTS = (16, 32, 64, 128, 256, 384, 512)
"""Lengths at which services cut texts, in tokens."""
_WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "was",
    "that",
    "it",
    "for",
    "on",
    "with",
    "as",
    "he",
    "she",
    "be",
    "at",
    "by",
    "had",
    "not",
    "are",
    "but",
    "from",
    "or",
    "have",
    "an",
    "they",
    "which",
    "you",
    "one",
    "we",
    "all",
    "her",
    "his",
    "there",
    "been",
    "if",
    "more",
    "when",
    "will",
    "would",
    "who",
    "so",
    "no",
    "out",
    "up",
]
"""Words for texts of a length; those that are one token each are taken."""


@dataclass(frozen=True)
class Probe:
    """A text, and what it tells."""

    text: Text
    tells: str
    plain: bool = False
    """Whether it has nothing but what every text has."""
    long: bool = False
    """Whether it is there for its length."""


_SPECIAL = (
    ("the train was late again, and nobody was surprised.", "lower case"),
    ("THE TRAIN WAS LATE AGAIN", "capitals"),
    ("Der Zug aus Köln war zu spät, déjà vu.", "accents"),
    ("L'ÉTÉ DERNIER, LES ÉLÈVES", "capitals with accents"),
    ("今天天气很好，我们去公园。", "Chinese"),
    ("あの犬は古い家で寝ています。", "Japanese"),
    ("Собака спит в старом доме.", "Cyrillic"),
    ("Great! 👍🏽 👩\u200d👩\u200d👧", "emoji"),
    ("  two blanks before and two after  ", "blanks around"),
    ("two  blanks\tand a tab\nand a line", "blanks inside"),
    ("can’t — “so” …", "typographic marks"),
    ("", "nothing"),
)
_PAIRS = (
    ("A dog ran.", "An animal moved."),
    ("Where is the station?", "The station is behind the bridge, on the left."),
)


def probes(tokenizer: Tokenizer, limits: Sequence[int], own: Sequence[Text] = ()) -> list[Probe]:
    """Make the texts for a model.

    Example:
        >>> found = probes(Tokenizer.shipped(), [512])
        >>> [probe.tells for probe in found if probe.long][-4:]
        ['511 tokens', '512 tokens', '513 tokens', '578 tokens']
    """
    found = [Probe(text, "a sentence", plain=True) for text in PLAIN]
    found += [Probe(text, tells) for text, tells in _SPECIAL]
    found += [Probe(f"a {word} b", f"{word} in a text") for word in _special_tokens(tokenizer)]
    found += [Probe(pair, "a pair") for pair in _PAIRS]
    found += [
        Probe(text, f"{length} tokens", long=True)
        for length, text in _of_lengths(tokenizer, _lengths(limits))
    ]
    return [*found, *(Probe(text, "yours") for text in own)]


def _special_tokens(tokenizer: Tokenizer) -> list[str]:
    """Words that a tokenizer of others takes for tokens with a role."""
    layout = tokenizer.layout
    roles = [layout.eos, layout.bos, layout.mask]
    return list(dict.fromkeys(tokenizer.dictionary[role] for role in roles if role is not None))


def _lengths(limits: Sequence[int]) -> list[int]:
    most = max(limits)
    near = {length for limit in limits for length in (limit - 1, limit, limit + 1)}
    above = {cut + 6 for cut in CUTS if cut + 6 < most}
    return sorted({length for length in near | above if length >= 3} | {most + most // 8 + 2})


def _of_lengths(tokenizer: Tokenizer, lengths: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Texts of so many tokens, of which the longer begin as the shorter do."""
    words = _short_words(lambda text: len(tokenizer.encode(text)))
    specials = len(tokenizer.encode(words[0])) - 1
    for length in lengths:
        text = " ".join(words[i * 7 % len(words)] for i in range(max(length - specials, 0)))
        yield len(tokenizer.encode(text)), text


def _short_words(count: Callable[[str], int]) -> list[str]:
    """Those of `_WORDS` that are one token wherever they stand; all of them if none is."""
    alone = [word for word in _WORDS if count(f"{word} {word} {word}") - count(f"{word}") == 2]
    least = min((count(word) for word in alone), default=0)
    return [word for word in alone if count(word) == least] or _WORDS
