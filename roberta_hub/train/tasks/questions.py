"""Builds the task of finding answers in a context: SQuAD 1.1 and 2."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.inference.answer import answers, context_windows
from roberta_hub.inference.batching import Runner
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.measures.squad import squad_score
from roberta_hub.model.roberta import Roberta
from roberta_hub.text.tokenizer import Tokenizer
from roberta_hub.train.data.questions import QuestionExample, read_questions
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.encoding import located
from roberta_hub.train.tasks.features import hidden, roberta_of
from roberta_hub.train.tasks.finetuning import Encoded, FineTuning, Targets
from roberta_hub.train.tasks.options import metric_of, options_of, train_path
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


def questions(config: Config, interface: RobertaHubInterface) -> FineTuning:
    """Build a task with an answer in the context, or none, for each question.

    Long contexts are cut into windows.
    """
    data, head = config.data, config.task.head
    train = read_questions(train_path(config), data.format, data.columns)[: data.limit]
    held_out = read_questions(data.valid, data.format, data.columns) if data.valid else None
    if head not in roberta_of(interface).span_heads:
        with seeded(config.seed):
            interface.register_span_head(head)
    interface.default_head = head
    encoded = _prepare(config, interface, train)

    def measure(model: RobertaHubInterface) -> dict[str, float]:
        assert held_out is not None
        return evaluate_answers(config, model, held_out)

    chance = sum(math.log(length) for length in encoded.lengths()) / len(encoded.sequences)
    task = FineTuning(
        interface,
        AnswerObjective(head),
        encoded,
        measure if held_out else None,
        metric=metric_of(config, "f1", ("f1", "exact")),
        chance=chance,
    )
    return task.of_data(train, held_out)


def _prepare(
    config: Config, interface: RobertaHubInterface, examples: list[QuestionExample]
) -> Encoded:
    options, tokenizer = options_of(config), interface.tokenizer
    limit = min(options.max_length or interface.max_positions, interface.max_positions)
    ids: list[Tensor] = []
    spans: list[tuple[int, int]] = []
    for example in examples:
        texts = (example.question, example.context)
        with located(example.where):
            own = context_windows(tokenizer, *texts, limit, options.stride, options.truncate)
        found = answer_tokens(tokenizer, example)
        for window in own:
            first, last = found if found is not None else (-1, -1)
            inside = window.first <= first and last < window.first + window.count
            shift = window.column - window.first
            ids.append(window.ids)
            spans.append((first + shift, last + shift) if inside else (0, 0))
    table = torch.tensor(spans)

    def targets(indices: Sequence[int]) -> tuple[Targets, int]:
        own = table[list(indices)]
        return {"start": own[:, 0], "end": own[:, 1]}, len(indices)

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


def evaluate_answers(
    config: Config, model: RobertaHubInterface, examples: Sequence[QuestionExample]
) -> dict[str, float]:
    """Measure exact match and F1 of the answers' words as SQuAD's scripts do, in 0..1.

    Where a question has no answer the script is that of SQuAD 2.0, else that of 1.1.
    """
    options = options_of(config)
    unanswerable = any(not example.answers for example in examples)
    runner = Runner(
        model=model.model,
        tokenizer=model.tokenizer,
        stride=options.stride,
        truncate=options.truncate,
    )
    found = answers(
        runner,
        [(example.question, example.context) for example in examples],
        config.task.head,
        max_tokens=options.max_answer_tokens,
        no_answer=unanswerable,
    )
    scores = [
        squad_score(answer.text, [text for _, text in example.answers], unanswerable=unanswerable)
        for example, answer in zip(examples, found, strict=True)
    ]
    exact, f1 = (sum(own) / len(scores) for own in zip(*scores, strict=True))
    return {"exact": exact, "f1": f1}
