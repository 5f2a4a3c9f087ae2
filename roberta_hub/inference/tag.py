"""Token classification: labels words and merges them into spans."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import regex
import torch
from torch import Tensor

from roberta_hub.arguments import no_item, one_of
from roberta_hub.inference.batching import BatchStates, Reading, Runner
from roberta_hub.inference.verb_model import VerbModel
from roberta_hub.inference.windows import Windows
from roberta_hub.model.known_head import known_head
from roberta_hub.settings import AGGREGATIONS, Aggregation, WordRule
from roberta_hub.text.alignment import Extent, align, ink_of, split_at
from roberta_hub.text.graphemes import first_cluster, last_cluster
from roberta_hub.text.layout import FIRST_PIECE
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.text.with_added import without_added
from roberta_hub.text.wordpiece import WordPiece

OUTSIDE = "O"
"""Label of words outside any span."""
TOUCHING = 0.05
"""What the probability counts for that a span begins where one of the same label ends."""
UNSPACED = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""A character of the scripts that write no spaces between words: Thai, Lao, Burmese, Khmer, Chinese
and Japanese."""
_WORD_PART = re.compile(rf"{UNSPACED}|(?:(?!{UNSPACED})[^\W_])+|[^\w\s]|_")
"""A part by the rule "parts", which cuts a word at its marks."""
_CLUSTERS = regex.compile(
    rf"(?:(?!{UNSPACED})(?=[\p{{L}}\p{{N}}\p{{M}}\u200c\u200d])\X)+|(?![\s\x1c-\x1f])\X"
)
"""A part by the rule "clusters": no part begins or ends inside of a grapheme cluster."""
_CLITIC = re.compile(r"(?:n['’]t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)
_PREFIX = re.compile(r"([BIESLU])-(.+)")
_SPACE = "▁"
"""How a SentencePiece vocabulary writes the space before a word; also a piece by itself."""
_JOINS = "'’.‐‑_&@#*%+~^$€£·°-"
"""What joins letters to one word: "O'Brien", "U.S.", "a-b", "a@b.org"."""
_ADDRESS = r"[A-Za-z][A-Za-z0-9+.-]{0,15}://[^\s,;|<>\"'()]+"
_UNIT = regex.compile(rf"({_ADDRESS})|\X")
_UNSPACED = re.compile(UNSPACED)


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
    model: VerbModel,
    texts: Sequence[str],
    *,
    head: str | None = None,
    aggregation: Aggregation = "word",
) -> list[list[Span]]:
    """Return the labelled spans of each text. See `RobertaHubInterface.tag`."""
    runner, heads = model.runner, model.heads
    head = heads.find(head, "token", "tag")
    one_of("aggregation", aggregation, AGGREGATIONS)
    labels, rule = heads.labels(head), heads.words(head)
    # transformers joins neighbours of one label also where no label is "O".
    known = labels if aggregation == "word" else (*labels, OUTSIDE)
    found = []
    for text, own in zip(texts, probabilities(runner, texts, head), strict=True):
        words, pieces = words_and_pieces(runner.tokenizer, text, rule, aggregation)
        if rule != "words" and aggregation == "word":
            said = label_parts(own, pieces, labels)
        else:
            said = label_words(own, pieces, labels, aggregation)
        found.append(merge_spans(text, words, [la for la, _ in said], [p for _, p in said], known))
    return [[_without_blanks(span) for span in spans if span.text.strip()] for spans in found]


def _without_blanks(span: Span) -> Span:
    """Return a span without the blanks at its edges: a piece may be a blank."""
    text = span.text.strip()
    if len(text) == len(span.text):
        return span
    start = span.start + span.text.index(text)
    return dataclasses.replace(span, start=start, end=start + len(text), text=text)


def tag_words(
    runner: Runner,
    texts: Sequence[str],
    words: Sequence[Sequence[tuple[int, int]]],
    head: str,
    labels: Sequence[str],
    rule: WordRule = "words",
) -> list[list[tuple[str, float]]]:
    """(label, probability) of every word: what the head says at its first piece.

    A word that was cut off, or that no piece belongs to, is outside with probability 0.
    """
    found = []
    for text, spans, own in zip(texts, words, probabilities(runner, texts, head), strict=True):
        firsts = first_pieces(runner.tokenizer, text, spans, rule)
        pieces = [[] if first is None else [first] for first in firsts]
        if rule != "words":
            found.append(label_parts(own, pieces, labels))
        else:
            found.append(label_words(own, pieces, labels, "first"))
    return found


def probabilities(runner: Runner, texts: Sequence[str], head: str) -> list[Tensor]:
    """Compute the probability of each class at each piece of each text."""
    module = known_head(runner.model, head, "token")
    windows = runner.fit_windows(runner.tokenizer.encode_batch(texts), texts)

    def read(rows: BatchStates) -> list[Tensor]:
        found = module(rows.states).float().softmax(-1).cpu()  # (N, K)
        return [part.clone() for part in rows.split(found)]

    def merge(text: Windows, parts: list[Tensor]) -> Tensor:
        merged = text.merge(parts)  # (T, K), or fewer rows where the text was cut
        if len(parts) > 1:
            return merged
        columns = text.columns[0]
        whole = merged.new_full((int(columns.max()) + 1, merged.size(1)), math.nan)
        whole[columns] = merged
        return whole

    return runner.run_windows(windows, Reading(read=read, merge=merge))


def label_words(
    found: Tensor, pieces: Sequence[Sequence[int]], labels: Sequence[str], aggregation: Aggregation
) -> list[tuple[str, float]]:
    """Give each word a label and its probability, by those of its pieces.

    A word without a piece that was read is outside with probability 0.

    Args:
        found: the probabilities of each piece. Shape: (T, K)
        pieces: of each word, by their places.
        labels: names of the K classes.
        aggregation: "max" takes the label of the piece that is surest, "average" the likeliest of
            the mean, all others that of the first piece.

    Example:
        >>> found = torch.tensor([[0.75, 0.25], [0.125, 0.875], [0.25, 0.75]])
        >>> [label_words(found, [[0, 1, 2]], "ab", how) for how in ("first", "max", "average")]
        [[('a', 0.75)], [('b', 0.875)], [('b', 0.625)]]
    """
    best = found.max(-1)
    names = [labels[k] for k in best.indices.tolist()]
    scores = best.values.tolist()  # NaN where a piece was not read
    said = []
    for all_of_word in pieces:
        own = all_of_word if aggregation in ("average", "max") else all_of_word[:1]
        own = [p for p in own if p < len(scores) and not math.isnan(scores[p])]
        if not own:
            said.append((OUTSIDE, 0.0))
        elif aggregation == "average":
            score, k = found[own].mean(0).max(0)
            said.append((labels[int(k)], float(score)))
        else:
            piece = max(own, key=scores.__getitem__)  # the first of equals
            said.append((names[piece], scores[piece]))
    return said


def label_parts(
    found: Tensor, pieces: Sequence[Sequence[int]], labels: Sequence[str]
) -> list[tuple[str, float]]:
    """Give each part of a text a label and its probability, so that spans are whole.

    It is read at its first piece; a part without a piece that was read is outside with probability
    0.

    Args:
        found: the probabilities of each piece; NaN where it was not read. Shape: (T, K)
        pieces: of each part, by their places.
        labels: names of the K classes.

    Example:
        >>> found = torch.tensor([[0.125, 0.875, 0.0], [0.0, 0.75, 0.25], [0.5, 0.0, 0.5]])
        >>> label_parts(found, [[0], [], [1, 2]], ["O", "B-X", "I-X"])
        [('B-X', 0.875), ('O', 0.0), ('I-X', 0.25)]
    """
    unread = found[:, 0].isnan().tolist()
    first = {w: own[0] for w, own in enumerate(pieces) if own}
    first = {w: piece for w, piece in first.items() if piece < len(unread) and not unread[piece]}
    own = found[list(first.values())]  # (parts, K)
    chosen = whole_spans(own, labels)
    scores = own.gather(1, chosen[:, None])[:, 0]
    said = [(OUTSIDE, 0.0)] * len(pieces)
    for w, k, score in zip(first, chosen.tolist(), scores.tolist(), strict=True):
        said[w] = (labels[k], score)
    return said


def whole_spans(probabilities: Tensor, labels: Sequence[str]) -> Tensor:
    """Choose the labels of a text's words that are likeliest together: (words,).

    "I-X" is chosen only after "B-X" or "I-X", and "B-X" after these counts `TOUCHING` times its
    probability (Viterbi's algorithm). Were each label chosen by itself, a span whose words disagree
    would become several.

    Args:
        probabilities: of each label, for each word. Shape: (words, K)
        labels: "O", and "B-" and "I-" of each label of spans; others may follow any label.

    Example:
        >>> labels = ["O", "B-X", "I-X", "B-Y", "I-Y"]
        >>> seen = torch.tensor([[0.1, 0.7, 0.0, 0.2, 0.0], [0.1, 0.0, 0.4, 0.0, 0.5]])
        >>> [labels[k] for k in seen.argmax(-1)], [labels[k] for k in whole_spans(seen, labels)]
        (['B-X', 'I-Y'], ['B-X', 'I-X'])
    """
    alone = probabilities.argmax(-1)
    first, after = _transitions(tuple(labels))
    if not len(alone) or not (first[alone[0]] or after[alone[:-1], alone[1:]].any()):
        return alone  # as most are: nothing is likelier
    logs = probabilities.double().clamp(min=1e-12).log()
    best = first + logs[0]  # of what is chosen so far, by its last label
    ways: list[Tensor] = []
    for word in logs[1:]:
        best, way = (best[:, None] + after).max(0)
        best = best + word
        ways.append(way)
    chosen = [best.argmax()]
    for way in reversed(ways):
        chosen.append(way[chosen[-1]])
    return torch.stack(chosen[::-1])


@functools.lru_cache(maxsize=8)
def _transitions(labels: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """Logarithms of what labels count as the first one, (K,), and after each other, (K, K)."""
    never, touching = -math.inf, math.log(TOUCHING)
    inside = [label[:2] == "I-" and f"B-{label[2:]}" in labels for label in labels]
    first = [never if within else 0.0 for within in inside]
    after = [
        [
            (touching if label[:2] == "B-" else 0.0) if before[2:] == label[2:] else own
            for own, label in zip(first, labels, strict=True)
        ]
        for before in labels
    ]
    return torch.tensor(first, dtype=torch.double), torch.tensor(after, dtype=torch.double)


def words_and_pieces(
    tokenizer: Tokenizer, text: str, rule: WordRule, aggregation: Aggregation
) -> tuple[list[Extent], list[list[int]]]:
    """Find the words that `tag` labels, and the pieces of each by their places.

    Example:
        >>> tokenizer = Tokenizer.shipped()
        >>> words_and_pieces(tokenizer, "in epipheny", "words", "word")
        ([(0, 2), (3, 11)], [[1], [2, 3, 4]])
        >>> words_and_pieces(tokenizer, "in epipheny", "words", "piece")
        ([(0, 2), (3, 5), (5, 7), (7, 11)], [[1], [2], [3], [4]])
    """
    if aggregation == "piece":
        extents = ink_of(text, tokenizer.offsets(text))
        return extents, [[place] for place in range(FIRST_PIECE, FIRST_PIECE + len(extents))]
    if (
        aggregation != "word"
        and rule == "words"
        and isinstance(without_added(tokenizer.engine), WordPiece)
    ):
        return _wordpiece_words(tokenizer, text)
    if rule != "words":
        words = word_parts(text, rule)
        return words, align(tokenizer, text, words)
    words = split_at(words_to_label(text), tokenizer.added_offsets(text))
    pieces = _with_space(tokenizer, text, align(tokenizer, text, words))
    # What begins in one piece has one label: in scripts without spaces, several characters.
    joined: list[tuple[Extent, list[int]]] = []
    for (start, end), own in zip(words, pieces, strict=True):
        if joined and own and joined[-1][0][1] == start and own[0] in joined[-1][1]:
            (begin, _), before = joined[-1]
            joined[-1] = ((begin, end), [*before, *(p for p in own if p not in before)])
        else:
            joined.append(((start, end), own))
    return [word for word, _ in joined], [own for _, own in joined]


def _wordpiece_words(tokenizer: Tokenizer, text: str) -> tuple[list[Extent], list[list[int]]]:
    words: list[Extent] = []
    pieces: list[list[int]] = []
    begins = map(tokenizer.piece_table.begins_word, tokenizer.engine.encode_ids(text))
    found = zip(begins, tokenizer.offsets(text), strict=True)
    for place, (begins_word, (start, end)) in enumerate(found, FIRST_PIECE):
        if not begins_word and pieces:
            words[-1] = (words[-1][0], end)
            pieces[-1].append(place)
        else:
            words.append((start, end))
            pieces.append([place])
    return words, pieces


def first_pieces(
    tokenizer: Tokenizer,
    text: str,
    words: Sequence[tuple[int, int]],
    rule: WordRule = "words",
) -> list[int | None]:
    """Find each word's first piece in `tokenizer.encode(text)`; None for a word without.

    Example:
        >>> first_pieces(Tokenizer.shipped(), "sudden epipheny", [(0, 6), (7, 15)])
        [1, 3]
    """
    found = align(tokenizer, text, list(words))
    if rule == "words":
        found = _with_space(tokenizer, text, found)
    return [pieces[0] if pieces else None for pieces in found]


def _with_space(tokenizer: Tokenizer, text: str, pieces: list[list[int]]) -> list[list[int]]:
    """Put a "▁" that is a piece by itself before the pieces of the word that it begins."""
    if _SPACE not in tokenizer.piece_table.symbols:
        return pieces
    names = ["", *tokenizer.tokenize(text)]  # by their places in encode(text)
    return [
        [own[0] - 1, *own]
        if own and names[own[0] - 1] == _SPACE and not names[own[0]].startswith(_SPACE)
        else own
        for own in pieces
    ]


def split_words(text: str, rule: WordRule = "words") -> list[Extent]:
    """Split a text into words by the rule that a head was trained with.

    Example:
        >>> split_words("a £20-note"), split_words("a £20-note", "clusters")
        ([(0, 1), (2, 10)], [(0, 1), (2, 3), (3, 5), (5, 6), (6, 10)])
    """
    return treebank_words(text) if rule == "words" else word_parts(text, rule)


def word_parts(text: str, rule: WordRule = "clusters") -> list[Extent]:
    """Find runs of letters and digits, and every other character except whitespace.

    Annotated spans begin and end between such parts: "Berlin" in "Berlin-based", "20" in "£20". In
    scripts without spaces each character is a part. A character is a grapheme cluster: a letter has
    its vowel signs, accents and joiners with it.

    Example:
        >>> text = "Mary's U.S. trip_1 हिन्दी"
        >>> [text[start:end] for start, end in word_parts(text)]
        ['Mary', "'", 's', 'U', '.', 'S', '.', 'trip', '_', '1', 'हिन्दी']
    """
    pattern = _WORD_PART if rule == "parts" or text.isascii() else _CLUSTERS
    return [match.span() for match in pattern.finditer(text)]


def words_to_label(text: str) -> list[Extent]:
    """Find the words of a text that `tag` labels: those of `treebank_words`, cut where no blank is.

    A character of a script without spaces is a word. Between letters and digits, a run without
    blanks is cut at brackets, quotes, "=", ";", "|" and other marks, and at "," ":" "/" except
    between two digits. Full stops, apostrophes, hyphens and "@" join, and an address is whole.

    Example:
        >>> text = "name:mary,town:hamburg 12:30 U.S./Berlin-based 今天 http://a.org/b"
        >>> [text[start:end] for start, end in words_to_label(text)]
        ['name', ':', 'mary', ',', 'town', ':', 'hamburg', '12:30', 'U.S.', '/', 'Berlin-based', \
'今', '天', 'http://a.org/b']
    """
    found: list[Extent] = []
    for run in re.finditer(r"\S+", text):
        begin, last = run.span()
        ink = [i for i in range(begin, last) if text[i].isalnum()]
        for unit in _UNIT.finditer(text, begin, last):
            at, end = unit.span()
            if at < begin or not ink:
                continue
            is_address = unit[1] is not None
            cuts = is_address or _UNSPACED.match(text, at)
            if not cuts and not (ink[0] < at < ink[-1] and _separates(text, at)):
                continue
            found += _without_edges(text, begin, at)
            found += _without_edges(text, at, end) if is_address else [(at, end)]
            begin = end
        found += _without_edges(text, begin, last)
    return found


def _separates(text: str, place: int) -> bool:
    """Tell whether a character between letters or digits ends a word."""
    character = text[place]
    if character in ",:/":
        return not (text[place - 1].isdigit() and text[place + 1].isdigit())
    if character.isalnum() or character in _JOINS:
        return False
    return not _is_mark(character) and unicodedata.category(character) != "Cf"  # joins as well


def treebank_words(text: str) -> list[tuple[int, int]]:
    """Split a text into words, about as treebanks and CoNLL do: (start, end) in characters.

    Whitespace separates words; punctuation at a word's edges and clitics such as "'s" are words of
    their own.

    Example:
        >>> text = "Mary's dog (a U.S. one) didn't bark."
        >>> [text[start:end] for start, end in treebank_words(text)]
        ['Mary', "'s", 'dog', '(', 'a', 'U.S.', 'one', ')', 'did', "n't", 'bark', '.']
    """
    return [
        word
        for run in re.finditer(r"\S+", text)
        for word in _without_edges(text, run.start(), run.end())
    ]


def _without_edges(text: str, start: int, end: int) -> list[Extent]:
    """Cut punctuation and clitics off the edges of a run without blanks."""
    found: list[Extent] = []
    while start < end and _is_edge(text[start]):
        found.append(first_cluster(text, start, end))
        start = found[-1][1]
    tail: list[Extent] = []
    while start < end:
        last = last_cluster(text, start, end)
        if not _is_edge(text[last[0]]) or _is_abbreviation(text[start:end]):
            break
        tail.append(last)
        end = last[0]
    clitic = _CLITIC.search(text, start, end)
    if clitic is not None and clitic.start() > start:
        tail.append((clitic.start(), end))
        end = clitic.start()
    if start < end:
        found.append((start, end))
    return found + tail[::-1]


def _is_edge(character: str) -> bool:
    """Whether punctuation is split off; not in "#tag", "@name", "50%", "$5"."""
    if character.isalnum() or character in "#@$%&_-+*/\\=~^€£":
        return False
    return not _is_mark(character)


def _is_mark(character: str) -> bool:
    """A vowel, an accent or a tone that is written on the character before it."""
    return unicodedata.category(character)[0] == "M"


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
