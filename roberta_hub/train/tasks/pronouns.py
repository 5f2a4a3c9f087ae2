"""Pronouns: WSC and Winogrande, through the masked-LM head alone (fairseq `examples/roberta/wsc`).

The query and each candidate take the pronoun's place, masked; the mean log-probability of its
tokens is its score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.inference.pronouns import Schema, find_candidates, replaced
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.config import Config
from roberta_hub.train.data.layouts import Pronoun, read_pronouns
from roberta_hub.train.tasks.finetuning import (
    Encoded,
    FineTuning,
    Options,
    Targets,
    gather,
    hidden,
    located,
    metric_of,
    name_task,
    options_of,
    roberta_of,
    train_path,
)
from roberta_hub.train.tasks.task import Batch, Loss


@dataclass(frozen=True)
class PronounObjective:
    """Makes the query likelier than each candidate, where it is right."""

    cross_entropy: bool
    """Over query and candidates; else `-q + alpha * sum(max(0, c - q + beta))`."""
    alpha: float
    beta: float

    def logits(self, roberta: Roberta, batch: Batch) -> Tensor:
        """Scores of query and candidates: (B, 1 + most candidates).

        Minus infinity where there are fewer.
        """
        target = batch.targets
        rows = hidden(roberta, batch)[target["rows"]]  # (masked, C)
        vocabulary = roberta.encoder.output_layer(rows).float().log_softmax(-1)
        likelihood = vocabulary.gather(1, target["answers"].unsqueeze(1)).squeeze(1)  # (masked,)
        spans = len(target["places"])
        total = likelihood.new_zeros(spans).index_add(0, target["owners"], likelihood)
        means = total / target["sizes"]
        examples, width = len(target["labels"]), len(target["width"])
        table = means.new_full((examples * width,), -torch.inf)
        return table.index_copy(0, target["places"], means).view(examples, width)

    def loss(self, logits: Tensor, batch: Batch) -> Loss:
        """Summed over the examples whose query is right.

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
        correct = judge(logits.detach()).eq(right).sum()
        return Loss(each[right].sum(), {"correct": correct})


def judge(scores: Tensor) -> Tensor:
    """Whether the query is at least as likely as every candidate: (B, 1 + candidates) -> (B,).

    The result is bool.
    """
    return (scores[:, :1] >= scores[:, 1:]).all(1)


def wsc(config: Config, interface: RobertaHubInterface) -> FineTuning:
    """Winograd schemas of SuperGLUE, by fairseq's cross-entropy unless the margin is chosen."""
    return _pronouns(config, interface, cross_entropy=True, alpha=1.0, beta=0.0, format="wsc")


def winogrande(config: Config, interface: RobertaHubInterface) -> FineTuning:
    """Winogrande's blanks, or GAP's pronouns, with fairseq's margin: alpha 5.0, beta 0.4."""
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
        scores, targets, loss = gather(model, objective, valid)
        hits = [judge(s).eq(t["labels"]) for s, t in zip(scores, targets, strict=True)]
        return {"accuracy": float(torch.cat(hits).float().mean()), "loss": loss}

    return FineTuning(
        interface,
        objective,
        _prepare(interface, train, options),
        measure if valid is not None else None,
        metric=metric_of(config, "accuracy", ("accuracy", "loss")),
    )


def _prepare(
    interface: RobertaHubInterface, examples: Sequence[Pronoun], options: Options
) -> Encoded:
    tokenizer, limit = interface.tokenizer, options.max_length or interface.max_positions
    sequences: list[tuple[Tensor, ...]] = []
    spans: list[list[tuple[int, int]]] = []
    answers: list[Tensor] = []
    for example in examples:
        schema = Schema(example.before, example.pronoun, example.after, example.query)
        rivals = example.candidates or tuple(find_candidates(schema))
        if not rivals:
            raise InputError(
                f"{example.where}: nothing else that {example.pronoun!r} could refer to; "
                'add "candidates": [...]'
            )
        hidden_ids, own, wanted = [], [], []
        for text in (example.query, *rivals):
            if not text.strip():
                raise InputError(f"{example.where}: a candidate is empty")
            with located(example.where):
                ids, start, end = replaced(tokenizer, schema, text, init_token=options.init_token)
            if len(ids) > limit:
                raise InputError(f"{example.where}: {len(ids)} tokens > {limit}; leave it out")
            wanted.append(ids[start:end])
            hidden_ids.append(ids.index_fill(0, torch.arange(start, end), tokenizer.mask_idx))
            own.append((start, end))
        sequences.append(tuple(hidden_ids))
        spans.append(own)
        answers.append(torch.cat(wanted))
    labels = torch.tensor([example.label for example in examples])

    def targets(indices: Sequence[int]) -> tuple[Targets, int]:
        flat = [(i, k) for i in indices for k in range(len(spans[i]))]
        starts = accumulate((len(sequences[i][k]) for i, k in flat), initial=0)
        own = [
            (s + spans[i][k][0], s + spans[i][k][1])
            for (i, k), s in zip(flat, starts, strict=False)
        ]
        sizes = torch.tensor([end - start for start, end in own])
        width = max(len(spans[i]) for i in indices)
        places = [r * width + k for r, i in enumerate(indices) for k in range(len(spans[i]))]
        return {
            "rows": torch.cat([torch.arange(start, end) for start, end in own]),
            "answers": torch.cat([answers[i] for i in indices]),
            "owners": torch.repeat_interleave(sizes),
            "sizes": sizes,
            "places": torch.tensor(places),
            "width": torch.empty(width),  # only its length says something
            "labels": labels[list(indices)],
        }, len(indices)

    return Encoded(sequences, targets)
