"""Builds the pronoun tasks, WSC and Winogrande, on the masked-LM head alone.

The query and each candidate take the pronoun's place, masked; the mean log-probability of its
tokens is its score (fairseq `examples/roberta/wsc`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.inference.pronouns import WinogradSchema, find_candidates, with_candidate
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.data.pronouns import PronounExample, read_pronouns
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.encoding import located, name_task
from roberta_hub.train.tasks.evaluation import gather_outputs
from roberta_hub.train.tasks.features import hidden, roberta_of
from roberta_hub.train.tasks.finetuning import Encoded, FineTuning, Targets
from roberta_hub.train.tasks.options import FinetuningOptions, metric_of, options_of, train_path
from roberta_hub.train.tasks.training_task import Batch, Loss


@dataclass(frozen=True)
class PronounObjective:
    """Makes the query more likely than each candidate, in the examples where it is right."""

    cross_entropy: bool
    """Over query and candidates; else `-q + alpha * sum(max(0, c - q + beta))`."""
    alpha: float
    beta: float

    def logits(self, roberta: Roberta, batch: Batch) -> Tensor:
        """Score query and candidates: (B, 1 + most candidates), minus infinity for missing ones."""
        target = batch.targets
        rows = hidden(roberta, batch, target["rows"])  # (masked, C)
        vocabulary = roberta.encoder.output_layer(rows).float().log_softmax(-1)
        likelihood = vocabulary.gather(1, target["answers"].unsqueeze(1)).squeeze(1)  # (masked,)
        spans = len(target["places"])
        total = likelihood.new_zeros(spans).index_add(0, target["owners"], likelihood)
        means = total / target["sizes"]
        examples, width = len(target["labels"]), len(target["width"])
        table = means.new_full((examples * width,), -torch.inf)
        return table.index_copy(0, target["places"], means).view(examples, width)

    def loss(self, logits: Tensor, batch: Batch) -> Loss:
        """Sum the loss over the examples whose query is right.

        The others teach nothing (fairseq `wsc_criterion`).
        """
        right = batch.targets["labels"]
        query, rivals = logits[:, :1], logits[:, 1:]
        if self.cross_entropy:
            each = F.cross_entropy(
                logits, torch.zeros_like(right, dtype=torch.long), reduction="none"
            )
        else:
            there = rivals.isfinite()
            gap = (rivals.masked_fill(~there, 0) - query + self.beta).clamp(min=0) * there
            # fairseq adds -q once a candidate.
            each = (-query * there + self.alpha * gap).sum(1)
        correct = query_wins(logits.detach()).eq(right).sum()
        return Loss(each[right].sum(), {"correct": correct})


def query_wins(scores: Tensor) -> Tensor:
    """Tell whether the query is as likely as every candidate: (B, 1 + candidates) -> bool (B,)."""
    return (scores[:, :1] >= scores[:, 1:]).all(1)


def wsc(config: Config, interface: RobertaHubInterface) -> FineTuning:
    """Build the task of SuperGLUE's Winograd schemas, with fairseq's cross-entropy by default."""
    return _pronouns(config, interface, cross_entropy=True, alpha=1.0, beta=0.0, format="wsc")


def winogrande(config: Config, interface: RobertaHubInterface) -> FineTuning:
    """Build the task of Winogrande's blanks or GAP's pronouns, with fairseq's margin by default."""
    format = "winogrande"
    return _pronouns(config, interface, cross_entropy=False, alpha=5.0, beta=0.4, format=format)


def _pronouns(
    config: Config,
    interface: RobertaHubInterface,
    *,
    cross_entropy: bool,
    alpha: float,
    beta: float,
    format: str,
) -> FineTuning:
    data, options = config.data, options_of(config)
    if roberta_of(interface).encoder.lm_head is None:
        raise InputError(
            "this model has no language-model head, which pronoun tasks train; load a masked-LM "
            "checkpoint"
        )
    objective = PronounObjective(
        cross_entropy if options.cross_entropy is None else options.cross_entropy,
        alpha if options.margin_alpha is None else options.margin_alpha,
        beta if options.margin_beta is None else options.margin_beta,
    )
    name_task(interface, "wsc", interface.tokenizer.bos if options.init_token else None)
    train = read_pronouns(train_path(config), data.format or format)[: data.limit]
    held_out = read_pronouns(data.valid, data.format or format) if data.valid else None
    valid = _prepare(interface, held_out, options) if held_out else None

    def measure(model: RobertaHubInterface) -> dict[str, float]:
        assert valid is not None
        scores, targets, loss = gather_outputs(model, objective, valid)
        hits = [query_wins(s).eq(t["labels"]) for s, t in zip(scores, targets, strict=True)]
        return {"accuracy": float(torch.cat(hits).float().mean()), "loss": loss}

    task = FineTuning(
        interface,
        objective,
        _prepare(interface, train, options),
        measure if valid is not None else None,
        metric=metric_of(config, "accuracy", ("accuracy", "loss")),
    )
    return task.of_data(train, held_out)


@dataclass(frozen=True)
class _Queries:
    """An example as ids: the query first, then its rivals, each masked in the pronoun's place."""

    ids: tuple[Tensor, ...]
    places: list[tuple[int, int]]
    """First masked token and one past the last, of each sequence."""
    answers: Tensor
    """The masked tokens of all sequences, end to end."""


def _prepare(
    interface: RobertaHubInterface, examples: Sequence[PronounExample], options: FinetuningOptions
) -> Encoded:
    found = [_queries(interface, example, options) for example in examples]
    labels = torch.tensor([example.label for example in examples])

    def targets(indices: Sequence[int]) -> tuple[Targets, int]:
        flat = [
            (ids, place)
            for i in indices
            for ids, place in zip(found[i].ids, found[i].places, strict=True)
        ]
        starts = accumulate((len(ids) for ids, _ in flat), initial=0)
        own = [(s + first, s + end) for (_, (first, end)), s in zip(flat, starts, strict=False)]
        sizes = torch.tensor([end - start for start, end in own])
        counts = [len(found[i].places) for i in indices]
        width = max(counts)
        places = [row * width + k for row, count in enumerate(counts) for k in range(count)]
        return {
            "rows": torch.cat([torch.arange(start, end) for start, end in own]),
            "answers": torch.cat([found[i].answers for i in indices]),
            "owners": torch.repeat_interleave(sizes),
            "sizes": sizes,
            "places": torch.tensor(places),
            "width": torch.empty(width),  # only its length counts
            "labels": labels[list(indices)],
        }, len(indices)

    return Encoded([own.ids for own in found], targets)


def _queries(
    interface: RobertaHubInterface, example: PronounExample, options: FinetuningOptions
) -> _Queries:
    """Put the query and each rival in the pronoun's place, masked."""
    tokenizer, limit = interface.tokenizer, options.max_length or interface.max_positions
    schema = WinogradSchema(example.before, example.pronoun, example.after, example.query)
    rivals = example.candidates or tuple(find_candidates(schema))
    if not rivals:
        raise InputError(
            f"{example.where}: nothing else that {example.pronoun!r} could refer to; "
            'add "candidates": [...]'
        )
    sequences, places, answers = [], [], []
    for text in (example.query, *rivals):
        if not text.strip():
            raise InputError(f"{example.where}: a candidate is empty")
        with located(example.where):
            ids, start, end = with_candidate(tokenizer, schema, text, init_token=options.init_token)
        if len(ids) > limit:
            raise InputError(f"{example.where}: {len(ids)} tokens > {limit}; leave it out")
        answers.append(ids[start:end])
        sequences.append(ids.index_fill(0, torch.arange(start, end), tokenizer.mask_idx))
        places.append((start, end))
    return _Queries(tuple(sequences), places, torch.cat(answers))
