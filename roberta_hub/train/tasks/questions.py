"""The task of finding answers in a context: SQuAD 1.1 and 2."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.inference.answer import answers, context_windows
from roberta_hub.inference.batching import Runner
from roberta_hub.measures.squad import squad_score
from roberta_hub.model.roberta import Roberta
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.train.data.questions import QuestionExample, read_questions
from roberta_hub.train.tasks.encoding import located
from roberta_hub.train.tasks.features import hidden, roberta_of
from roberta_hub.train.tasks.finetuning import Encoded, Measure, Targets
from roberta_hub.train.tasks.record import ExampleSet, TaskRecord, always, rows_of
from roberta_hub.train.tasks.trained_head import seeded
from roberta_hub.train.tasks.training_task import Batch, Loss


@dataclass(frozen=True)
class AnswerObjective:
    """A span head: it finds the tokens that begin and end the answer; `<s>` twice means none."""

    head: str

    def logits(self, roberta: Roberta, batch: Batch) -> Tensor:
        """Score each token as start and as end: (B, T, 2), minus infinity after each sequence."""
        packed = batch.packed
        logits = packed.unpack(roberta.span_heads[self.head](hidden(roberta, batch)))
        places = torch.arange(packed.shape[1], device=logits.device)
        lengths = torch.tensor(packed.lengths, device=logits.device)
        outside = places >= lengths.unsqueeze(1)  # (B, T)
        return logits.masked_fill(outside.unsqueeze(-1), -torch.inf)

    def loss(self, logits: Tensor, batch: Batch) -> Loss:
        """Sum the mean of start's and end's cross-entropies over windows (Devlin et al. 2019)."""
        logits = logits.float()
        start = F.cross_entropy(logits[..., 0], batch.targets["start"], reduction="sum")
        end = F.cross_entropy(logits[..., 1], batch.targets["end"], reduction="sum")
        return Loss((start + end) / 2)


Questions: TypeAlias = ExampleSet[QuestionExample]


def _make_head(train: Questions) -> None:
    config, interface = train.settings.config, train.interface
    if config.task.head not in roberta_of(interface).span_heads:
        with seeded(config.seed):
            interface.register_span_head(config.task.head)
    interface.default_head = config.task.head


def _encode_windows(own: Questions, made: None) -> Encoded:
    """Cut long contexts into windows, each an example."""
    options, tokenizer = own.settings.options, own.interface.tokenizer
    longest = own.interface.max_positions
    limit = min(options.max_length or longest, longest)
    ids: list[Tensor] = []
    spans: list[tuple[int, int]] = []
    for example in own.rows:
        texts = (example.question, example.context)
        with located(example.where):
            windows = context_windows(tokenizer, *texts, limit, options.stride, options.truncate)
        first, last = answer_tokens(tokenizer, example) or (-1, -1)
        for window in windows:
            inside = window.first <= first and last < window.first + window.count
            shift = window.column - window.first
            ids.append(window.ids)
            spans.append((first + shift, last + shift) if inside else (0, 0))
    table = torch.tensor(spans)

    def targets(indices: Sequence[int]) -> tuple[Targets, int]:
        rows = table[list(indices)]
        return {"start": rows[:, 0], "end": rows[:, 1]}, len(indices)

    return Encoded([(window,) for window in ids], targets)


def answer_tokens(tokenizer: Tokenizer, example: QuestionExample) -> tuple[int, int] | None:
    """Find the first and last token of the context that the first answer covers; None without one.

    Example:
        >>> question = QuestionExample("Who?", "It was Ada.", ((7, "Ada"),), "")
        >>> answer_tokens(Tokenizer.shipped(), question)
        (2, 2)
    """
    if not example.answers:
        return None
    begin, text = example.answers[0]
    offsets = tokenizer.offsets(example.context)
    ends = [end for _, end in offsets]
    first = bisect_right(ends, begin)
    last = bisect_right(ends, begin + len(text.rstrip()) - 1)
    return first, last


def _measures(held_out: Questions, made: None, objective: object) -> Measure:
    """Measure exact match and F1 of the answers' words as SQuAD's scripts do, in 0..1.

    Where a question has no answer the script is that of SQuAD 2.0, else that of 1.1.
    """
    examples, options = held_out.rows, held_out.settings.options
    unanswerable = any(not example.answers for example in examples)

    def measure() -> dict[str, float]:
        runner = Runner(
            model=held_out.interface.model,
            tokenizer=held_out.interface.tokenizer,
            stride=options.stride,
            truncate=options.truncate,
        )
        found = answers(
            runner,
            [(example.question, example.context) for example in examples],
            held_out.settings.config.task.head,
            max_tokens=options.max_answer_tokens,
            no_answer=unanswerable,
        )
        scores = [
            squad_score(own.text, [text for _, text in example.answers], unanswerable=unanswerable)
            for example, own in zip(examples, found, strict=True)
        ]
        exact, f1 = (sum(own) / len(scores) for own in zip(*scores, strict=True))
        return {"exact": exact, "f1": f1}

    return measure


def _chance(train: Questions, made: None, encoded: Encoded) -> float:
    return sum(math.log(length) for length in encoded.lengths()) / len(encoded.sequences)


SPAN = TaskRecord(
    read=rows_of(read_questions),
    head=_make_head,
    loss=lambda settings, made: AnswerObjective(settings.config.task.head),
    encode=_encode_windows,
    measures=_measures,
    metrics=always("f1", "exact"),
    chance=_chance,
)
"""An answer in the context, or none, for each question."""
