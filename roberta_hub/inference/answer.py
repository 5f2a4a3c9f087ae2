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
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor

from roberta_hub.arguments import advise, no_item, shown, switch, whole_number
from roberta_hub.errors import InputError, InputTypeError
from roberta_hub.inference.batching import BatchStates, Runner
from roberta_hub.model.known_head import known_head
from roberta_hub.settings import MAX_ANSWER
from roberta_hub.show.display import Display, Part
from roberta_hub.show.facts import Note
from roberta_hub.show.marked_text import Mark, MarkedText
from roberta_hub.show.sheet import Picture
from roberta_hub.text.layout import FIRST_PIECE
from roberta_hub.text.tokenizer import Tokenizer

DEFAULT_STRIDE = 128
"""Default overlap in tokens of two windows over a long context."""


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

        Example:
            >>> Answer("Ada", 0, 3, 0.9).png()
            <PNG of 1386 x 97 pixels>
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


def answers(
    runner: Runner,
    questions: Sequence[tuple[str, str]],
    head: str,
    *,
    max_tokens: int = MAX_ANSWER,
    no_answer: bool = True,
) -> list[Answer]:
    """Answers to many (question, context). See `RobertaHubInterface.answer`."""
    module = known_head(runner.model, head, "span")
    max_tokens = min(whole_number("max_answer_tokens", max_tokens, 1), runner.limit)
    no_answer = switch("no_answer", no_answer)
    for question, context in questions:
        _advise(question, context)
    inputs = [
        context_windows(
            runner.tokenizer, question, context, runner.limit, runner.stride, runner.truncate
        )
        for question, context in questions
    ]
    flat = [window for own in inputs for window in own]

    def answer(rows: BatchStates) -> list[tuple[int, int, float, float]]:
        logits = rows.split(module(rows.states).float())  # each (T_i, 2)
        return [
            best_span(part, flat[i], max_tokens, no_answer=no_answer)
            for i, part in zip(rows.indices, logits, strict=True)
        ]

    found = iter(runner.run([window.ids for window in flat], answer))
    return [
        _answer(runner.tokenizer, context, [next(found) for _ in own])
        for (_, context), own in zip(questions, inputs, strict=True)
    ]


def _advise(question: object, context: object) -> None:
    """Warn of a question and a context that look forgotten or swapped."""
    if not (isinstance(question, str) and isinstance(context, str)):
        return  # `context_windows` raises
    for what, text in (("question", question), ("context", context)):
        if not text.strip():
            advise(
                f"the {what} is {shown(text)}, so the answer says nothing; answer takes the "
                "question first, then the context"
            )
    if context.rstrip().endswith("?") and not question.rstrip().endswith("?"):
        advise(
            f"the context, {shown(context, 40)}, ends in a question mark, and the question does "
            "not; answer takes the question first, then the context"
        )


def context_windows(
    tokenizer: Tokenizer,
    question: str,
    context: str,
    limit: int,
    stride: int | None = None,
    truncate: bool = False,
) -> list[ContextWindow]:
    """Lay out one question: one input if it fits, else windows over the context.

    Args:
        tokenizer: of the model.
        question: repeated in every window.
        context: any length.
        limit: longest input in tokens.
        stride: overlap of two windows in tokens; None: 128, or half of the room if that is less.
        truncate: the first window only.

    Raises:
        InputError: the question leaves no room, or the stride is not below the room.
    """
    for what, text in (("question", question), ("context", context)):
        if not isinstance(text, str):
            raise InputTypeError(
                f"{what} is a {type(text).__name__}, not a str; several are asked one by one"
            )
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


def best_span(
    logits: Tensor, window: ContextWindow, max_tokens: int, *, no_answer: bool
) -> tuple[int, int, float, float]:
    """Return the best span of one window.

    Args:
        logits: of start and end. Shape: (T, 2)
        window: the input.
        max_tokens: of the span.
        no_answer: whether `<s>` competes.

    Returns:
        (first, last, margin over `<s>` in nats, probability), in tokens of the whole context; (-1,
        -1) for no answer.
    """
    own = torch.cat([logits[:1], logits[window.column : window.column + window.count]])
    start, end = own[:, 0], own[:, 1]  # <s>, then the context
    norm = start.logsumexp(0) + end.logsumexp(0)
    null = start[0] + end[0]
    size = window.count
    if not size:
        return -1, -1, 0.0, float((null - norm).exp())
    pairs = start[1:, None] + end[None, 1:]  # (size, size)
    # start <= end < start + max_tokens
    allowed = torch.ones_like(pairs, dtype=torch.bool).triu().tril(max_tokens - 1)
    pairs = pairs.masked_fill(~allowed, -torch.inf)
    place = int(pairs.argmax())
    best = pairs.flatten()[place]
    margin = float(best - null)
    if no_answer and margin <= 0:
        return -1, -1, margin, float((null - norm).exp())
    first, last = divmod(place, size)
    return window.first + first, window.first + last, margin, float((best - norm).exp())


def _answer(
    tokenizer: Tokenizer, context: str, found: list[tuple[int, int, float, float]]
) -> Answer:
    """Return the span with the largest margin over `<s>` of its own window."""
    first, last, _, score = max(found, key=lambda span: span[2])
    if first < 0:
        return Answer("", 0, 0, score)
    offsets = tokenizer.offsets(context)
    start, end = offsets[first][0], offsets[last][1]
    text = context[start:end]
    start += len(text) - len(text.lstrip())
    end = max(start, end - (len(text) - len(text.rstrip())))
    return Answer(context[start:end], start, end, score)
