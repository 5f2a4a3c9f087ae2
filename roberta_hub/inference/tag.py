"""Token classification: labels words and merges them into spans."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from torch import Tensor

from roberta_hub.arguments import no_item
from roberta_hub.inference.batching import BatchStates, Reading, Runner
from roberta_hub.inference.heads import Heads
from roberta_hub.inference.windows import Windows
from roberta_hub.model.known_head import known_head
from roberta_hub.settings import WordRule
from roberta_hub.text.alignment import Extent, align
from roberta_hub.text.tokenizer import Tokenizer

OUTSIDE = "O"
"""Label of words outside any span."""
UNSPACED = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""A character of the scripts that write no spaces between words: Thai, Lao, Burmese, Khmer, Chinese
and Japanese."""
_WORD_PART = re.compile(rf"{UNSPACED}|(?:(?!{UNSPACED})[^\W_])+|[^\w\s]|_")
_CLITIC = re.compile(r"(?:n['’]t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)
_PREFIX = re.compile(r"([BIESLU])-(.+)")


@dataclass(frozen=True)
class Span:
    """Labelled span of a text; `str` gives label, text and score."""

    label: str
    """Label without "B-" or "I-"."""
    start: int
    """First character."""
    end: int
    """One past the last character."""
    text: str
    """`text[start:end]` of the whole text."""
    score: float
    """Mean probability of its words' labels."""

    def __str__(self) -> str:
        return f"{self.label} {self.text} {self.score:.2f}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict of plain values, which `json.dumps` takes.

        Example:
            >>> Span("PER", 0, 3, "Ada", 0.9).to_dict()
            {'label': 'PER', 'start': 0, 'end': 3, 'text': 'Ada', 'score': 0.9}
        """
        return dataclasses.asdict(self)

    def __getitem__(self, key: object) -> NoReturn:
        raise no_item(self, key)


def tag(
    runner: Runner,
    texts: Sequence[str],
    heads: Heads,
    head: str,
) -> list[list[Span]]:
    """Return the labelled spans of each text. See `RobertaHubInterface.tag`.

    Args:
        runner: of the model.
        texts: whole texts.
        heads: of the model.
        head: name of a token head.
    """
    labels, rule = heads.labels(head), heads.words(head)
    words = [split_words(text, rule) for text in texts]
    answers = tag_words(runner, texts, words, head, labels)
    return [
        merge_spans(text, spans, [label for label, _ in found], [p for _, p in found], labels)
        for text, spans, found in zip(texts, words, answers, strict=True)
    ]


def tag_words(
    runner: Runner,
    texts: Sequence[str],
    words: Sequence[Sequence[tuple[int, int]]],
    head: str,
    labels: Sequence[str],
) -> list[list[tuple[str, float]]]:
    """(label, probability) of every word, read at its first piece.

    A truncated word, or one without pieces, is outside with probability 0.

    Args:
        runner: of the model.
        texts: whole texts.
        words: (start, end) of each text's words, in characters.
        head: name of a token head.
        labels: names of its classes.
    """
    module = known_head(runner.model, head, "token")
    windows = runner.fit_windows(runner.tokenizer.encode_batch(texts), texts)

    def read(rows: BatchStates) -> list[Tensor]:
        probabilities = module(rows.states).float().softmax(-1).cpu()  # (N, K)
        return [part.clone() for part in rows.split(probabilities)]

    def merge(text: Windows, parts: list[Tensor]) -> dict[int, tuple[str, float]]:
        """(label, probability) of each piece, by its index in the text."""
        merged = text.merge(parts)  # (T, K), or fewer rows if truncated
        columns = text.columns[0].tolist() if len(parts) == 1 else range(len(merged))
        names = [labels[k] for k in merged.argmax(-1).tolist()]
        return dict(zip(columns, zip(names, merged.amax(-1).tolist(), strict=True), strict=True))

    answers = []
    found = runner.run_windows(windows, Reading(read=read, merge=merge))
    for text, spans, seen in zip(texts, words, found, strict=True):
        pieces = first_pieces(runner.tokenizer, text, spans)
        answers.append(
            [(OUTSIDE, 0.0) if p is None else seen.get(p, (OUTSIDE, 0.0)) for p in pieces]
        )
    return answers


def first_pieces(
    tokenizer: Tokenizer, text: str, words: Sequence[tuple[int, int]]
) -> list[int | None]:
    """Index of each word's first piece in `tokenizer.encode(text)`; None if it has none.

    Example:
        >>> first_pieces(Tokenizer.shipped(), "sudden epipheny", [(0, 6), (7, 15)])
        [1, 3]
    """
    return [pieces[0] if pieces else None for pieces in align(tokenizer, text, list(words))]


def split_words(text: str, rule: WordRule = "words") -> list[Extent]:
    """Split a text into words by the rule that a head was trained with.

    Args:
        text: whole.
        rule: "words" (`treebank_words`), or the smaller "parts" (`word_parts`).

    Example:
        >>> split_words("a £20-note"), split_words("a £20-note", "parts")
        ([(0, 1), (2, 10)], [(0, 1), (2, 3), (3, 5), (5, 6), (6, 10)])
    """
    return word_parts(text) if rule == "parts" else treebank_words(text)


def word_parts(text: str) -> list[Extent]:
    """Find runs of letters and digits, and every other character except whitespace.

    Annotated spans begin and end between such parts: "Berlin" in "Berlin-based", "20" in "£20". In
    scripts without spaces each character is a part.

    Example:
        >>> text = "Mary's U.S. trip_1"
        >>> [text[start:end] for start, end in word_parts(text)]
        ['Mary', "'", 's', 'U', '.', 'S', '.', 'trip', '_', '1']
    """
    return [match.span() for match in _WORD_PART.finditer(text)]


def treebank_words(text: str) -> list[tuple[int, int]]:
    """Split a text into words, about as treebanks and CoNLL do: (start, end) in characters.

    Whitespace separates words; punctuation at a word's edges and clitics such as "'s" are words of
    their own.

    Example:
        >>> text = "Mary's dog (a U.S. one) didn't bark."
        >>> [text[start:end] for start, end in treebank_words(text)]
        ['Mary', "'s", 'dog', '(', 'a', 'U.S.', 'one', ')', 'did', "n't", 'bark', '.']
    """
    spans: list[tuple[int, int]] = []
    for match in re.finditer(r"\S+", text):
        start, end = match.span()
        while start < end and _is_edge(text[start]):
            spans.append((start, start + 1))
            start += 1
        tail: list[tuple[int, int]] = []
        while start < end and _is_edge(text[end - 1]) and not _is_abbreviation(text[start:end]):
            tail.append((end - 1, end))
            end -= 1
        clitic = _CLITIC.search(text, start, end)
        if clitic is not None and clitic.start() > start:
            tail.append((clitic.start(), end))
            end = clitic.start()
        if start < end:
            spans.append((start, end))
        spans += reversed(tail)
    return spans


def _is_edge(character: str) -> bool:
    """Whether punctuation is split off; not in "#tag", "@name", "50%", "$5"."""
    return not character.isalnum() and character not in "#@$%&_-+*/\\=~^€£"


def _is_abbreviation(word: str) -> bool:
    """Whether a word is single letters with full stops."""
    return re.fullmatch(r"(?:[^\W\d_]\.){2,}", word) is not None


def merge_spans(
    text: str,
    words: Sequence[tuple[int, int]],
    tags: Sequence[str],
    scores: Sequence[float],
    labels: Sequence[str],
) -> list[Span]:
    """Merge the labels of words into spans.

    With "O" among the labels, adjacent "B-X", "I-X" and equal plain labels make one span, as in
    CoNLL's `conlleval`; "S-", "E-", "L-" and "U-" close it. Without "O" every word is a span.

    Args:
        text: of the words.
        words: (start, end) in characters.
        tags: one label per word.
        scores: one probability per word.
        labels: all labels of the head.

    Example:
        >>> words, tags = [(0, 2), (3, 6), (7, 11)], ["O", "B-LOC", "I-LOC"]
        >>> merge_spans("in New York", words, tags, [0.9, 0.8, 0.6], ["O"])
        [Span(label='LOC', start=3, end=11, text='New York', score=0.7)]
    """
    return [
        Span(
            label=label,
            start=words[first][0],
            end=words[last][1],
            text=text[words[first][0] : words[last][1]],
            score=sum(scores[first : last + 1]) / (last + 1 - first),
        )
        for label, first, last in entities(tags, joined=OUTSIDE in labels)
    ]


def entities(tags: Sequence[str], *, joined: bool = True) -> list[tuple[str, int, int]]:
    """(label, first word, last word) of every span.

    Args:
        tags: one label per word.
        joined: False: every word is a span of its own.

    Example:
        >>> entities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"])
        [('PER', 0, 1), ('LOC', 3, 3), ('LOC', 4, 4)]
    """
    found: list[tuple[str, int, int]] = []
    is_open = False
    for i, tag in enumerate(tags):
        match = _PREFIX.fullmatch(tag) if joined else None
        prefix, label = match.groups() if match else ("", tag)
        if tag == OUTSIDE:  # without "O" among the labels: a truncated word
            is_open = False
            continue
        begins = prefix in ("B", "S", "U") or not joined
        if is_open and not begins and found[-1][0] == label:
            found[-1] = (label, found[-1][1], i)
        else:
            found.append((label, i, i))
        is_open = prefix not in ("E", "L", "S", "U")
    return found
