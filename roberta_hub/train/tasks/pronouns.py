"""The pronoun tasks, WSC and Winogrande, on the masked-LM head alone.

The query and each candidate take the pronoun's place, masked; the mean log-probability of its
tokens is its score (fairseq `examples/roberta/wsc`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.inference.pronouns import WinogradSchema, find_candidates, with_candidate
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.data.pronouns import PronounExample, read_pronouns
from roberta_hub.train.tasks.encoding import located, name_task
from roberta_hub.train.tasks.features import hidden, roberta_of, table_of, table_places
from roberta_hub.train.tasks.finetuning import Encoded, Targets, rows_in_batch
from roberta_hub.train.tasks.options import FinetuningOptions, Source
from roberta_hub.train.tasks.record import ExampleSet, Settings, TaskRecord, always, on_outputs
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
        return table_of(total / target["sizes"], target)

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


Pronouns: TypeAlias = ExampleSet[PronounExample]


def _name_layout(train: Pronouns) -> None:
    interface = train.interface
    if roberta_of(interface).encoder.lm_head is None:
        raise InputError(
            "this model has no language-model head, which pronoun tasks train; load a masked-LM "
            "checkpoint"
        )
    bos = interface.tokenizer.bos if train.settings.options.init_token else None
    name_task(interface, "wsc", bos)


class _Masked(NamedTuple):
    """The query or a rival, masked in the pronoun's place."""

    ids: Tensor
    places: Tensor
    """Places of the masked tokens."""
    answers: Tensor
    """The masked tokens."""


def _encode(own: Pronouns, made: None) -> Encoded:
    found = [_queries(own.interface, example, own.settings.options) for example in own.rows]
    labels = torch.tensor([example.label for example in own.rows])

    def targets(indices: Sequence[int]) -> tuple[Targets, int]:
        ids, places, answers = zip(*(query for i in indices for query in found[i]), strict=True)
        sizes = torch.tensor([len(masked) for masked in places])
        return {
            "rows": rows_in_batch(places, [len(row) for row in ids]),
            "answers": torch.cat(answers),
            "owners": torch.repeat_interleave(sizes),
            "sizes": sizes,
            "labels": labels[list(indices)],
            **table_places([len(found[i]) for i in indices]),
        }, len(indices)

    return Encoded([tuple(query.ids for query in queries) for queries in found], targets)


def _queries(
    interface: RobertaHubInterface, example: PronounExample, options: FinetuningOptions
) -> list[_Masked]:
    """Put the query and each rival in the pronoun's place, masked."""
    tokenizer, limit = interface.tokenizer, options.max_length or interface.max_positions
    schema = WinogradSchema(example.before, example.pronoun, example.after, example.query)
    rivals = example.candidates or tuple(find_candidates(schema))
    if not rivals:
        raise InputError(
            f"{example.where}: nothing else that {example.pronoun!r} could refer to; "
            'add "candidates": [...]'
        )
    found = []
    for text in (example.query, *rivals):
        if not text.strip():
            raise InputError(f"{example.where}: a candidate is empty")
        with located(example.where):
            ids, start, end = with_candidate(tokenizer, schema, text, init_token=options.init_token)
        if len(ids) > limit:
            raise InputError(f"{example.where}: {len(ids)} tokens > {limit}; leave it out")
        places = torch.arange(start, end)
        seen = ids.index_fill(0, places, tokenizer.mask_idx)
        found.append(_Masked(seen, places, ids[start:end]))
    return found


def _measure(scores: list[Tensor], labels: list[Tensor]) -> dict[str, float]:
    hits = [query_wins(own).eq(right) for own, right in zip(scores, labels, strict=True)]
    return {"accuracy": float(torch.cat(hits).float().mean())}


def _record(format: str, usual: PronounObjective) -> TaskRecord[PronounExample, None]:
    """Make a task, with the format and the loss that it has by default."""

    def read(
        settings: Settings, interface: RobertaHubInterface, source: Source
    ) -> Sequence[PronounExample]:
        return read_pronouns(source.path, settings.config.data.format or format)

    def loss(settings: Settings, made: None) -> PronounObjective:
        options = settings.options
        return PronounObjective(
            usual.cross_entropy if options.cross_entropy is None else options.cross_entropy,
            usual.alpha if options.margin_alpha is None else options.margin_alpha,
            usual.beta if options.margin_beta is None else options.margin_beta,
        )

    measures = on_outputs(_encode, _measure)
    return TaskRecord(read, _name_layout, loss, _encode, measures, always("accuracy", "loss"))


WSC = _record("wsc", PronounObjective(cross_entropy=True, alpha=1.0, beta=0.0))
"""SuperGLUE's Winograd schemas, with fairseq's cross-entropy by default."""
WINOGRANDE = _record("winogrande", PronounObjective(cross_entropy=False, alpha=5.0, beta=0.4))
"""Winogrande's blanks or GAP's pronouns, with fairseq's margin by default."""
