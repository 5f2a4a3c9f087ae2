"""Extractive question answering (Rajpurkar et al. 2016, 2018).

Within a window the search is BERT's and SpanBERT's own (`run_squad.py`): the pair of start and end
in the context with the largest sum of logits, the end not before the start and within 30 tokens,
against the sum at `<s>` or `[CLS]` for no answer. Three things differ. Every pair is searched, not
only the 20 best starts with the 20 best ends. A window is as long as the model allows, 512 tokens
instead of 384, and the question is never cut. In a context of several windows each span is compared
with the `[CLS]` of its own window, not with the minimum over all windows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, NoReturn, TypeAlias

import torch
from torch import Tensor

from roberta_hub.arguments import advise, kind_of, no_item, short_repr, switch, whole_number
from roberta_hub.errors import InputError, InputTypeError, Place, RobertaHubError, placed
from roberta_hub.inference.batching import BatchStates, Runner
from roberta_hub.inference.verb_model import VerbModel, one_by_one
from roberta_hub.model.known_head import known_head
from roberta_hub.settings import MAX_ANSWER
from roberta_hub.show.display import Display, Part
from roberta_hub.show.facts import Note
from roberta_hub.show.marked_text import Mark, MarkedText
from roberta_hub.show.sheet import Picture
from roberta_hub.text.alignment import Extent, ink_of
from roberta_hub.text.layout import FIRST_PIECE
from roberta_hub.text.texts import as_single_texts
from roberta_hub.text.tokenizer import Tokenizer

DEFAULT_STRIDE = 128
"""Default overlap in tokens of two windows over a long context."""
ScoredSpan: TypeAlias = tuple[int, int, float, float]
"""(first, last, margin over `<s>` in nats, probability) of tokens of a context."""


@dataclass(frozen=True)
class Answer:
    """Span of the context; `str` gives it with its score, or "no answer"."""

    text: str
    """`context[start:end]`; "" if the context has no answer."""
    start: int
    """First character."""
    end: int
    """One past the last character."""
    score: float
    """Probability of the start times that of the end; for no answer, both at the first token."""
    _question_and_context: ClassVar[tuple[str, str]] = ("", "")
    """Question and context, if known."""

    def __str__(self) -> str:
        return f"{self.text or 'no answer'} {self.score:.2f}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict of plain values, which `json.dumps` takes.

        Example:
            >>> Answer("Ada", 0, 3, 0.9).to_dict()
            {'text': 'Ada', 'start': 0, 'end': 3, 'score': 0.9}
        """
        return dataclasses.asdict(self)

    def png(self, path: str | PathLike[str] | None = None) -> Picture:
        """Draw the answer in its context, as a notebook shows it; see `Display.png`.

        Args:
            path: the file that the picture is written to; None: to none.

        Example:
            >>> Answer("Ada", 0, 3, 0.9).png()
            <PNG of 533 x 97 pixels>
        """
        return self._display().png(path)

    def _repr_html_(self) -> str:
        return self._display()._repr_html_()

    def _display(self) -> Display:
        question, context = self._question_and_context
        marks = [Mark(self.start, self.end)] if self.text else []
        parts: list[Part] = [Note(question), MarkedText(context, marks)] if context else []
        return Display(str(self), parts, self.to_dict())

    def __getstate__(self) -> dict[str, Any]:
        return self.to_dict()

    def __getitem__(self, key: object) -> NoReturn:
        raise no_item(self, key)


def with_context(answer: Answer, question: str, context: str) -> Answer:
    """Attach the question and context to an answer, to draw it in its context; return it.

    They are no fields: equality, `to_dict` and pickles ignore them.
    """
    object.__setattr__(answer, "_question_and_context", (question, context))
    return answer


@dataclass(frozen=True)
class ContextWindow:
    """One input: `<s> question </s> </s> part of the context </s>`."""

    ids: Tensor
    """Shape: (T,)"""
    column: int
    """Index in `ids` of the first token of the context."""
    first: int
    """Index of that token in the whole context."""
    count: int
    """Number of tokens of the context."""


def answer_each(model: VerbModel, question: object, context: object, **settings: Any) -> Any:
    """Answer one question or several of one context or several.

    See `RobertaHubInterface.answer`.
    """
    questions, one_question = as_single_texts(question, "question", needs="a question is a str")
    contexts, one_context = as_single_texts(context, "context", needs="a context is a str")
    if one_question:
        questions *= 1 if one_context else len(contexts)
    elif one_context:
        contexts *= len(questions)
    if len(questions) != len(contexts):
        raise InputError(
            f"{len(questions)} questions and {len(contexts)} contexts; pass as many of both, or "
            "one str of either"
        )
    lone = {"question": one_question, "context": one_context}
    with placed(lambda at: at.argument if lone[at.argument] else at):
        found = answer_pairs(model, list(zip(questions, contexts, strict=True)), **settings)
    return found[0] if one_question and one_context else found


def answer(model: VerbModel, pairs: Sequence[tuple[str, str]], **settings: Any) -> list[Any]:
    """Answer row by row, so that an error names its row."""

    def one(pair: tuple[str, str]) -> Any:
        with placed(lambda at: at.argument):
            return answer_pairs(model, [pair], **settings)[0]

    return one_by_one(pairs, one)


def answer_pairs(
    model: VerbModel,
    pairs: Sequence[tuple[str, str]],
    *,
    head: str | None = None,
    max_answer_tokens: int = MAX_ANSWER,
    no_answer: bool = True,
    topk: int | None = None,
) -> list[Any]:
    """Ask a span head: an answer for each (question, context), or with `topk` a list of them."""
    found = best_answers(
        model.runner,
        pairs,
        model.heads.find(head, "span", "answer"),
        max_tokens=max_answer_tokens,
        no_answer=no_answer,
        topk=1 if topk is None else topk,
    )
    drawn = [
        [with_context(one, *pair) for one in own] for own, pair in zip(found, pairs, strict=True)
    ]
    return [own[0] for own in drawn] if topk is None else drawn


def answers(
    runner: Runner,
    questions: Sequence[tuple[str, str]],
    head: str,
    *,
    max_tokens: int = MAX_ANSWER,
    no_answer: bool = True,
) -> list[Answer]:
    """Answers to many (question, context)."""
    found = best_answers(
        runner, questions, head, max_tokens=max_tokens, no_answer=no_answer, topk=1
    )
    return [own[0] for own in found]


def best_answers(
    runner: Runner,
    questions: Sequence[tuple[str, str]],
    head: str,
    *,
    max_tokens: int = MAX_ANSWER,
    no_answer: bool = True,
    topk: int = 1,
) -> list[list[Answer]]:
    """The best answers to many (question, context), at most `topk` for each."""
    module = known_head(runner.model, head, "span")
    max_tokens = min(whole_number("max_answer_tokens", max_tokens, 1), runner.limit)
    no_answer = switch("no_answer", no_answer)
    topk = whole_number("topk", topk, 1)
    inputs: list[list[ContextWindow]] = []
    ink: dict[str, list[Extent]] = {}
    for i, (question, context) in enumerate(questions):
        with _placed_at(i):
            inputs.append(
                context_windows(
                    runner.tokenizer,
                    question,
                    context,
                    runner.limit,
                    runner.stride,
                    runner.truncate,
                )
            )
        _advise(question, context)
        if context not in ink:
            ink[context] = ink_of(context, runner.tokenizer.offsets(context))
    flat = [
        (window, ink[context])
        for own, (_, context) in zip(inputs, questions, strict=True)
        for window in own
    ]

    def answer(rows: BatchStates) -> list[tuple[list[ScoredSpan], float]]:
        logits = rows.split(module(rows.states).float())  # each (T_i, 2)
        return [
            best_spans(part, flat[i][0], max_tokens, flat[i][1], topk)
            for i, part in zip(rows.indices, logits, strict=True)
        ]

    found = iter(runner.run([window.ids for window, _ in flat], answer))
    results = []
    for i, (own, (_, context)) in enumerate(zip(inputs, questions, strict=True)):
        with _placed_at(i):
            spans = [next(found) for _ in own]
            results.append(_answers(context, ink[context], spans, topk, no_answer=no_answer))
    return results


@contextmanager
def _placed_at(index: int) -> Iterator[None]:
    """Name the item of the questions or the contexts that an error is about."""
    try:
        yield
    except RobertaHubError as error:
        if isinstance(error.place, str):
            error.at(Place(error.place, index))
        raise


def _advise(question: str, context: str) -> None:
    """Warn of a question and a context that look swapped."""
    if context.rstrip().endswith("?") and not question.rstrip().endswith("?"):
        advise(
            f"the context, {short_repr(context, 40)}, ends in a question mark, and the question "
            "does not; answer takes the question first, then the context"
        )


def context_windows(
    tokenizer: Tokenizer,
    question: str,
    context: str,
    limit: int,
    stride: int | None = None,
    truncate: bool = False,
) -> list[ContextWindow]:
    """Lay out one question: one input if it fits, else windows over the context."""
    for what, text in (("question", question), ("context", context)):
        if not isinstance(text, str):
            raise InputTypeError(f"a {kind_of(text)}, not a str", place=what)
        if not text.strip():
            raise InputError(
                f"{short_repr(text)} is empty; answer takes the question first, then the context",
                place=what,
            )
        if not len(tokenizer.ids_of(text)):
            raise InputError(f"{short_repr(text)} has nothing that the tokenizer reads", place=what)
    ids = tokenizer.encode(question, context)
    column = FIRST_PIECE + len(tokenizer.ids_of(question)) + tokenizer.layout.separators
    length, room = len(ids) - column - 1, limit - column - 1  # the last `</s>` takes one
    if length <= room:
        return [ContextWindow(ids, column, 0, length)]
    if room < 1:
        raise InputError(
            f"too long: with its marks {column + 1} tokens, and the model takes {limit}, the "
            f"context included ({question[:40]!r}...); shorten it",
            place="question",
        )
    if truncate and stride is not None:
        raise InputError("truncate=True and stride=N exclude each other; choose one")
    overlap = min(DEFAULT_STRIDE, room // 2) if stride is None else stride
    if not 0 <= overlap < room:
        raise InputError(
            f"stride is {overlap}; the question leaves room for {room} tokens of the "
            "context, and two windows must share fewer than that",
            place="context",
        )
    firsts = [0] if truncate else [*range(0, length - room, room - overlap), length - room]
    before, after = ids[:column], ids[-1:]
    parts = [ids[column + first : column + first + room] for first in firsts]
    return [
        ContextWindow(torch.cat([before, part, after]), column, first, room)
        for part, first in zip(parts, firsts, strict=True)
    ]


def best_spans(
    logits: Tensor,
    window: ContextWindow,
    max_tokens: int,
    ink: Sequence[Extent],
    topk: int = 1,
) -> tuple[list[ScoredSpan], float]:
    """Return the best spans of one window, and the probability that it has no answer.

    Args:
        logits: of start and end. Shape: (T, 2)
        window: the input.
        max_tokens: of a span.
        ink: for each token of the whole context its characters, without blanks before them. A span
            has some.
        topk: number of spans that differ in their characters.
    """
    own = torch.cat([logits[:1], logits[window.column : window.column + window.count]])
    start, end = own[:, 0], own[:, 1]  # <s>, then the context
    norm = start.logsumexp(0) + end.logsumexp(0)
    null = start[0] + end[0]
    none, size = float((null - norm).exp()), window.count
    if not size:
        return [], none
    pairs = start[1:, None] + end[None, 1:]  # (size, size)
    # start <= end < start + max_tokens
    allowed = torch.ones_like(pairs, dtype=torch.bool).triu().tril(max_tokens - 1)
    here = ink[window.first : window.first + size]
    has_ink = torch.tensor([first < last for first, last in here], device=pairs.device).long()
    if not has_ink.all():
        until = has_ink.cumsum(0)
        allowed &= until[None, :] - until[:, None] + has_ink[:, None] > 0
    scores = pairs.masked_fill(~allowed, -torch.inf).flatten()
    count = topk
    while True:  # spans with blanks at their edges are the same stretch
        # Equal scores in the order of the text: topk has them in any order.
        least = scores.topk(min(count, len(scores))).values[-1]
        places = (~(scores < least) & (scores != -math.inf)).nonzero().flatten()  # and NaN
        places = places[scores[places].argsort(descending=True, stable=True)]
        spans: list[ScoredSpan] = []
        seen: set[Extent] = set()
        for value, place in zip(scores[places].tolist(), places.tolist(), strict=True):
            if len(spans) == topk:
                break
            first, last = divmod(place, size)
            stretch = _stretch(here, first, last)
            if stretch in seen:
                continue
            seen.add(stretch)
            score = math.exp(value - float(norm))
            spans.append((window.first + first, window.first + last, value - float(null), score))
        if len(spans) == topk or count >= len(scores):
            return spans, none
        count *= 4


def _stretch(ink: Sequence[Extent], first: int, last: int) -> Extent:
    """Return the characters of the tokens first to last, which have ink, without blanks around."""
    inked = [extent for extent in ink[first : last + 1] if extent[0] < extent[1]]
    return inked[0][0], inked[-1][1]


def _answers(
    context: str,
    ink: Sequence[Extent],
    found: Sequence[tuple[list[ScoredSpan], float]],
    topk: int,
    *,
    no_answer: bool,
) -> list[Answer]:
    """Return the spans with the largest margins over `<s>` of their own windows.

    "" has a margin of 0, and the probability that the window with the best span gives it.
    """
    spans = sorted((span for own, _ in found for span in own), key=lambda span: -span[2])
    best: list[tuple[float, Answer]] = []
    seen: set[Extent] = set()
    for first, last, margin, score in spans:
        start, end = _stretch(ink, first, last)
        if (start, end) not in seen:
            seen.add((start, end))
            best.append((margin, Answer(context[start:end], start, end, score)))
    if no_answer:
        _, none = max(found, key=lambda own: own[0][0][2] if own[0] else -math.inf)
        better = sum(margin > 0 for margin, _ in best)
        best.insert(better, (0.0, Answer("", 0, 0, none)))
    if not best:
        raise InputError(
            f"what is read of {short_repr(context, 40)} has no word to answer with", place="context"
        )
    return [answer for _, answer in best[:topk]]
