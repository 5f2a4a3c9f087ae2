"""Adds objectives of RoBERTa's relatives to what a pre-training task learns.

- Next sentence (Devlin et al. 2019, section 3.1): does the second segment follow the first?
- Sentence order (Lan et al. 2020, section 3.1): are two segments in the text's order?
- The boundary of spans (Joshi et al. 2020, section 3.2): see span_boundary.py.

Each adds its mean to the mean of the task's own loss, as BERT's code and transformers do.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from roberta_hub.checkpoint.names.albert import SENTENCE_ORDER as ORDER_HEAD
from roberta_hub.checkpoint.names.bert import NEXT_SENTENCE as NEXT_HEAD
from roberta_hub.errors import InputError
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.heads import ClassificationHead, init_bert, normalizes, pooling_of
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.tasks.features import hidden, roberta_of
from roberta_hub.train.tasks.options import NEXT_SENTENCE, SENTENCE_ORDER, SPAN_BOUNDARY
from roberta_hub.train.tasks.span_boundary import SpanBoundary
from roberta_hub.train.tasks.training_task import Batch, Loss

_HEADS = {
    NEXT_SENTENCE: (NEXT_HEAD, ("is_next", "not_next")),
    SENTENCE_ORDER: (ORDER_HEAD, ("in_order", "swapped")),
}
"""The head of each question about two segments, and its labels."""


class Objectives(nn.Module):
    """The objectives next to a task's own, over features that are computed once.

    A question about segments is answered by a classification head of the model, whose dense layer
    is the pooler; it is saved with the model, as BertForPreTraining and AlbertForPreTraining have
    it. As in BERT's code, there is no dropout on the pooled vector.
    """

    def __init__(self, interface: RobertaHubInterface, names: Sequence[str]) -> None:
        """Make the heads that the model lacks."""
        super().__init__()
        roberta = roberta_of(interface)
        self.names = tuple(names)
        for name in names:
            if name in _HEADS:
                _segment_head(interface, name)
        self.boundary = SpanBoundary(roberta) if SPAN_BOUNDARY in names else None
        self.metrics = tuple(
            f"{name}_{what}"
            for name in names
            for what in (("loss",) if name == SPAN_BOUNDARY else ("loss", "accuracy"))
        )

    def rows(self, batch: Batch) -> list[Tensor]:
        """Return the rows of the tokens whose features are needed, a tensor for each objective."""
        return [
            batch.targets["boundary_sides"] if name == SPAN_BOUNDARY else batch.packed.starts
            for name in self.names
        ]

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count what each of the metrics is a mean of, by name."""
        return {
            name: len(batch.targets["boundary_ids"])
            if name.startswith(SPAN_BOUNDARY)
            else len(batch.packed.lengths)
            for name in self.metrics
        }

    def forward(self, roberta: Roberta, batch: Batch, states: Sequence[Tensor]) -> Loss:
        """Add up the objectives' means, times `batch.count`, as the loop divides by it."""
        scale = max(batch.count, 1)
        total, logs = torch.zeros((), device=batch.packed.ids.device), {}
        for name, features in zip(self.names, states, strict=True):
            if name == SPAN_BOUNDARY:
                assert self.boundary is not None
                targets = batch.targets
                wanted = targets["boundary_ids"]
                summed = self.boundary(roberta, features, targets["boundary_places"], wanted)
                loss = summed / max(len(wanted), 1)
            else:
                logits = _segment_logits(roberta, _HEADS[name][0], features).float()  # (B, 2)
                labels = batch.targets["segments"]
                loss = F.cross_entropy(logits, labels)
                logs[f"{name}_accuracy"] = scale * logits.argmax(1).eq(labels).float().mean()
            logs[f"{name}_loss"] = scale * loss.detach()
            total = total + scale * loss
        return Loss(total, logs)


def gather(roberta: Roberta, batch: Batch, rows: Sequence[Tensor]) -> list[Tensor]:
    """Compute the features of several groups of tokens in one pass: (*, C) each.

    Args:
        roberta: the model.
        batch: its sequences are packed.
        rows: of the tokens of each group, which may share some. Shape: (*,) each
    """
    every, places = torch.unique(torch.cat([part.flatten() for part in rows]), return_inverse=True)
    states = hidden(roberta, batch, every)
    parts = places.split([part.numel() for part in rows])
    return [states[part.view(own.shape)] for part, own in zip(parts, rows, strict=True)]


def _segment_logits(roberta: Roberta, head: str, firsts: Tensor) -> Tensor:
    """Judge pairs by the features of their first tokens: (B, C) -> (B, 2)."""
    module = roberta.classification_heads[head]
    assert isinstance(module, ClassificationHead)  # `_segment_head` has looked
    logits: Tensor = module.out_proj(module.activation_fn(module.dense(firsts)))
    return logits


def _segment_head(interface: RobertaHubInterface, objective: str) -> None:
    """Give a model the head of an objective, unless it has it; the pooler becomes a part of it."""
    roberta, (name, labels) = roberta_of(interface), _HEADS[objective]
    if roberta.config.pooler_activation_fn != "tanh":
        raise InputError(
            f"task.options.objectives: {objective} is learnt through BERT's pooler, and this model "
            f"has none: its heads have {roberta.config.pooler_activation_fn} in place of tanh, as "
            "DistilBERT's and ELECTRA's do; leave the objective out, or begin with a BERT, an "
            "ALBERT or a RoBERTa"
        )
    new = name not in roberta.classification_heads
    if new:
        roberta.register_classification_head(name, 2)
    head = roberta.classification_heads[name]
    if not isinstance(head, ClassificationHead) or not _fits(head, roberta):
        raise InputError(
            f"task.options.objectives: {objective} learns in a head {name!r} of two labels on the "
            "first token, and the model has another of that name; save it without that head, or "
            "under another name"
        )
    if new:
        init_bert(head.out_proj)
        if roberta.pooler is None:
            init_bert(head.dense)
        else:
            head.dense.load_state_dict(roberta.pooler.dense.state_dict())
    if roberta.pooler is not None:
        roberta.pooler.dense = head.dense  # one layer, which both names mean
    interface.labels[name] = labels
    interface.inputs[name] = "pair"


def _fits(head: ClassificationHead, roberta: Roberta) -> bool:
    """Whether a head judges two labels by a pooler's vector."""
    sizes = (head.out_proj.out_features, head.dense.out_features)
    plain = pooling_of(head) == "cls" and not normalizes(head)
    return plain and sizes == (2, roberta.config.embed_dim)
