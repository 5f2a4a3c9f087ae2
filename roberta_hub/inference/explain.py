"""Explains a model by words: the surprisal of each, or its contribution to an answer.

Surprisal masks whole words: the pieces of a word are predicted from left to right, with its later
pieces masked too (Kauf and Ivanova 2023, PLL-word-l2r). A contribution is the change of the output
when the word is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from roberta_hub.arguments import short_repr, text_of
from roberta_hub.errors import InputTypeError, placed
from roberta_hub.inference.batching import (
    BatchStates,
    Runner,
    check_lm_head,
    has_lm_head,
    lm_logits,
)
from roberta_hub.inference.classify import (
    Activation,
    Prediction,
    activate,
    activation_of,
    prediction_parts,
    thresholds_of,
    window_values,
)
from roberta_hub.inference.heads import Heads, check_inputs
from roberta_hub.inference.windows import Windows
from roberta_hub.inference.word_spans import WordSpan, word_spans
from roberta_hub.model.known_head import heads_of
from roberta_hub.model.packing import PackedBatch
from roberta_hub.settings import DEFAULT_HEAD, Inputs
from roberta_hub.show.bars import Bar, Bars
from roberta_hub.show.colours import BLUE, ORANGE
from roberta_hub.show.display import Display, Part
from roberta_hub.show.facts import Note
from roberta_hub.show.marked_text import Mark, MarkedText

ALTERNATIVES = 5
"""Alternatives kept for each word."""
MAX_BITS = 15.0
"""Surprisal of the strongest colour: one word among 33,000, about a vocabulary."""
MIN_SCALE = 0.1
"""Least contribution (as probability) of the strongest colour."""
ALTERNATIVES_LISTED = 3
"""Alternatives listed below a text."""
WORDS_LISTED = 5
"""Words listed below a text."""
_SCALE = MarkedText(
    "key: 0 5 10 15 bits or more",
    [Mark(5, 6, 0.0), Mark(7, 8, 5 / MAX_BITS), Mark(9, 11, 10 / MAX_BITS), Mark(12, 27)],
)
"""Legend of the colours of surprisal, up to `MAX_BITS`."""


def one_text(value: object) -> tuple[str, ...]:
    """Return the sentences of a single text: a str, or a tuple for a pair.

    Example:
        >>> one_text("a"), one_text(("a", "b"))
        (('a',), ('a', 'b'))
    """
    if isinstance(value, tuple) and value:
        return tuple(text_of(f"text[{i}]", part) for i, part in enumerate(value))
    if not isinstance(value, str):
        raise InputTypeError(
            f"text is {short_repr(value)}; pass one str, or a tuple of sentences for a pair"
            + (", and show several texts one by one" if isinstance(value, list) else "")
        )
    return (text_of("text", value),)


def explain(
    runner: Runner, text: str | tuple[str, ...], heads: Heads, head: str | None = None
) -> Display:
    """Show the surprisal of each word, or its contribution. See `RobertaHubInterface.explain`."""
    sentences = one_text(text)
    with placed(lambda _: "text"):
        asked = head_to_explain(heads, head, "pair" if len(sentences) > 1 else "one")
        if asked is None:
            return surprisal_display(runner, sentences)
        return contribution_display(runner, sentences, heads, asked)


def head_to_explain(heads: Heads, head: str | None, inputs: Inputs) -> str | None:
    """Return the head whose answer is explained; None: the language model's surprise is.

    Without a name it is the head that the model was trained for, unless that judges other inputs;
    and the only head of a model without a language-model head.
    """
    there = heads_of(heads.model)
    own = heads.default
    knows = own is not None and own in there and heads.inputs(own) in (None, inputs)
    if head is None and knows:
        return own
    if head is None and (has_lm_head(heads.model) or not len(there)):
        return None
    return heads.find(head, "classification", "explain", inputs=inputs)


# ---- surprise ----


@dataclass(frozen=True)
class Surprisal:
    """Surprisal of a word, and the model's alternatives."""

    unit: WordSpan
    bits: float
    """-log2 of the word's probability."""
    rank: int
    """Rank of the word's first piece; 1 is the most probable."""
    instead: list[tuple[str, float]]
    """Alternatives with their probabilities, most probable first; for a word of several pieces,
    first pieces of words of the same length."""


def surprisal_display(runner: Runner, sentences: tuple[str, ...]) -> Display:
    """Show the surprisal of each word. See `RobertaHubInterface.explain`."""
    check_lm_head(runner.model, "explain without a head")
    found = surprisals(runner, sentences)
    bits = sum(word.bits for word in found)
    parts: list[Part] = [
        MarkedText(text, [_surprisal_mark(sentences, w) for w in found if w.unit.sentence == i])
        for i, text in enumerate(sentences)
    ]
    if found:
        parts.append(
            Note(
                f"{bits:.1f} bits: {bits / len(found):.1f} for each of {len(found)} words and "
                "signs. 0 bits: the model is sure of it; each bit halves its probability"
            )
        )
        parts += [_SCALE, Note(f"most surprising, with bars to {MAX_BITS:.0f} bits:")]
    most = sorted(found, key=lambda word: -word.bits)[:WORDS_LISTED]
    rows = [
        Bar(
            _text(sentences, word.unit),
            f"{word.bits:.1f}",
            word.bits / MAX_BITS,
            "instead: " + _listed(word, ALTERNATIVES_LISTED),
        )
        for word in most
    ]
    parts.append(Bars(rows, ORANGE))
    words = [
        {
            **_place(sentences, word.unit),
            "bits": word.bits,
            "probability": 2.0**-word.bits,
            "rank": word.rank,
            "instead": [{"word": name.strip(), "probability": p} for name, p in word.instead],
        }
        for word in found
    ]
    values = {"texts": list(sentences), "bits": bits, "words": words}
    return Display("Surprise", parts, values)


def surprisals(runner: Runner, sentences: tuple[str, ...]) -> list[Surprisal]:
    """Compute the surprisal of each word of a text; truncated words are left out."""
    tokenizer = runner.tokenizer
    mask = tokenizer.mask_idx
    windows = runner.fit_windows([tokenizer.encode(*sentences)], [_text_in_errors(sentences)])[0]
    copies: list[Tensor] = []
    targets: list[int] = []
    owners: list[WordSpan] = []
    for unit in word_spans(tokenizer, sentences):
        window, columns = _in_window(windows, unit)
        for i, column in enumerate(columns):
            masked = window.clone()
            masked[columns[i:]] = mask
            copies.append(masked)
            targets.append(int(window[column]))
            owners.append(unit)

    def answer(rows: BatchStates) -> list[tuple[float, int, list[tuple[int, float]]]]:
        logits = lm_logits(runner.model, rows.at(first_masks(rows.batch)), len(tokenizer))
        logs = logits.log_softmax(-1)  # (B, V)
        own = torch.tensor([targets[i] for i in rows.indices], device=logs.device).unsqueeze(1)
        wanted = logs.gather(1, own)
        words = tokenizer.words.to(logs.device)
        ranks = ((logs > wanted) & words).sum(1) + 1
        others = logs.masked_fill(~words, -torch.inf).scatter(1, own, -torch.inf)
        values, ids = others.topk(min(ALTERNATIVES, others.size(1)), dim=1)
        pairs = zip(ids.tolist(), values.exp().tolist(), strict=True)
        best = [list(zip(*pair, strict=True)) for pair in pairs]
        return list(zip(wanted.squeeze(1).tolist(), ranks.tolist(), best, strict=True))

    def first_masks(batch: PackedBatch) -> Tensor:
        """Find the first masked place of each sequence: (B,)."""
        masked = batch.ids.eq(mask)
        places = [part.int().argmax() for part in torch.split(masked, list(batch.lengths))]
        return batch.starts + torch.stack(places)

    found: list[Surprisal] = []
    for unit, (log, rank, best) in zip(
        owners, runner.run(copies, answer, pick=first_masks), strict=True
    ):
        bits = max(0.0, -log / math.log(2))
        if found and found[-1].unit is unit:  # a later piece of the word
            last = found[-1]
            found[-1] = Surprisal(unit, last.bits + bits, last.rank, last.instead)
        else:
            instead = [(tokenizer.decode_id(i), p) for i, p in best if p > 0]
            found.append(Surprisal(unit, bits, rank, instead))
    return found


def _in_window(windows: Windows, unit: WordSpan) -> tuple[Tensor, list[int]]:
    """Window where a word is farthest from a cut, and its columns there; none if truncated."""
    if len(windows.ids) == 1:
        places = windows.columns[0].tolist()
        w = 0
    else:
        w = int(windows.best[unit.columns[0]])
        places = windows.columns[w].tolist()
    at = {column: place for place, column in enumerate(places)}
    return windows.ids[w], [at[column] for column in unit.columns if column in at]


def _surprisal_mark(sentences: Sequence[str], word: Surprisal) -> Mark:
    rank = "first guess" if word.rank == 1 else f"guess number {word.rank:,}"
    note = f"{_text(sentences, word.unit)}: {word.bits:.1f} bits, {rank}\ninstead: {_listed(word)}"
    return Mark(word.unit.start, word.unit.end, min(1.0, word.bits / MAX_BITS), note)


def _listed(word: Surprisal, most: int = ALTERNATIVES) -> str:
    more = "…" if len(word.unit.columns) > 1 else ""
    guesses = [(name.strip(), share) for name, share in word.instead[:most]]
    return ", ".join(f"{_quoted(name)}{more} {_percent(share)}" for name, share in guesses)


def _quoted(name: str) -> str:
    """Put signs into quotes: a comma would look like one of the list's."""
    return name if any(map(str.isalnum, name)) else f'"{name}"'


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.005 else "<1%"


# ---- contributions ----


def contribution_display(
    runner: Runner,
    sentences: tuple[str, ...],
    heads: Heads,
    head: str,
) -> Display:
    """Show what each word contributes to a head's answer. See `RobertaHubInterface.explain`."""
    text = sentences if len(sentences) > 1 else sentences[0]
    labels, inputs = heads.labels(head), heads.inputs(head)
    way = activation_of(heads.kind(head), None)
    least = thresholds_of(heads.thresholds(head), len(labels), way)
    check_inputs([text], head, inputs)
    units = word_spans(runner.tokenizer, sentences)
    values = outputs_without_words(runner, sentences, head, units, way)  # (1 + words, K)
    prediction = Prediction.of(labels, values[0].tolist(), least)
    best = labels.index(prediction.best)
    shares = way == "sigmoid" or (way == "softmax" and values.size(1) > 1)
    changes = (values[0, best] - values[1:, best]).tolist()
    found = [(unit, change) for unit, change in zip(units, changes, strict=True)]
    scale = max([*map(abs, changes), MIN_SCALE if shares else 0.0]) or 1.0
    what = f'"{prediction.best}"' if shares else "the output"

    def mark(unit: WordSpan, change: float) -> Mark:
        without = prediction.score - change
        note = f"without {_text(sentences, unit)}: {what} {without:.2f} ({_signed(-change)})"
        return Mark(unit.start, unit.end, change / scale, note)

    parts: list[Part] = prediction_parts(prediction)
    parts += [
        MarkedText(words, [mark(u, c) for u, c in found if u.sentence == i], BLUE, ORANGE)
        for i, words in enumerate(sentences)
    ]
    strongest = f"; strongest colour: {scale:.2f}" if found else ""
    parts.append(
        Note(f"how much {what} falls without a word; orange, dotted: it rises instead{strongest}")
    )
    ranked = sorted(found, key=lambda pair: -abs(pair[1]))[:WORDS_LISTED]
    rows = [
        Bar(
            _text(sentences, unit),
            _signed(change),
            abs(change) / (1.0 if shares else scale),  # the scale of the labels above
            f"in sentence {unit.sentence + 1}" if len(sentences) > 1 else "",
            colour=BLUE if change > 0 else ORANGE,
        )
        for unit, change in ranked
    ]
    parts.append(Bars(rows))
    dicts = [{**_place(sentences, unit), "contribution": change} for unit, change in found]
    data: dict[str, Any] = {"texts": list(sentences), "head": head, **prediction.to_dict()}
    # The default name says nothing.
    title = str(prediction) if head == DEFAULT_HEAD else f"{head}: {prediction}"
    return Display(title, parts, {**data, "words": dicts})


def outputs_without_words(
    runner: Runner,
    sentences: tuple[str, ...],
    head: str,
    units: Sequence[WordSpan],
    way: Activation = "softmax",
) -> Tensor:
    """Run a head on a text, and on the text without each of its words."""
    ids = runner.tokenizer.encode(*sentences)
    runner.fit_windows([ids], [_text_in_errors(sentences)])  # before a copy of it for each word
    copies = [ids]
    for unit in units:
        copies.append(_without(ids, unit))
    windows = runner.fit_windows(
        copies, [_text_in_errors(sentences)] * len(copies), [0] * len(copies)
    )
    return activate(window_values(runner, windows, head, vote=way == "softmax"), way)


def _signed(change: float) -> str:
    return f"{change:+.2f}" if abs(change) >= 0.005 else "0.00"


def _without(ids: Tensor, unit: WordSpan) -> Tensor:
    kept = torch.ones(len(ids), dtype=torch.bool)
    kept[unit.columns] = False
    return ids[kept]


def _text_in_errors(sentences: tuple[str, ...]) -> object:
    """The text as errors quote it."""
    return sentences if len(sentences) > 1 else sentences[0]


def _text(sentences: Sequence[str], unit: WordSpan) -> str:
    return sentences[unit.sentence][unit.start : unit.end]


def _place(sentences: Sequence[str], unit: WordSpan) -> dict[str, Any]:
    return {
        "word": _text(sentences, unit),
        "sentence": unit.sentence,
        "start": unit.start,
        "end": unit.end,
    }
