"""The task of labelling words (entities, parts of speech), each by its first piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.inference.tag import OUTSIDE, entities, first_pieces
from roberta_hub.measures.classes import NO_ANSWER, likeliest
from roberta_hub.measures.counts import count_labels, precision_recall_f1
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.data.conll import TaggedWords, text_of
from roberta_hub.train.data.labels import label_ids, label_names
from roberta_hub.train.data.tagged_words import read_words
from roberta_hub.train.tasks.encoding import encode
from roberta_hub.train.tasks.evaluation import chance_loss, run_examples
from roberta_hub.train.tasks.features import hidden
from roberta_hub.train.tasks.finetuning import Encoded, Measure, Objective, Targets, rows_in_batch
from roberta_hub.train.tasks.record import ExampleSet, TaskRecord, always, rows_of
from roberta_hub.train.tasks.trained_head import make_head
from roberta_hub.train.tasks.training_task import Batch, Loss


@dataclass(frozen=True)
class TokenObjective:
    """A token head on the first piece of every word."""

    head: str

    def logits(self, roberta: Roberta, batch: Batch) -> Tensor:
        """Compute the logits of the batch's words, end to end: (M, K)."""
        rows = hidden(roberta, batch, batch.targets["rows"])  # (M, C)
        logits: Tensor = roberta.token_heads[self.head](rows)
        return logits

    def loss(self, logits: Tensor, batch: Batch) -> Loss:
        """Sum the cross-entropy over words."""
        logits, labels = logits.float(), batch.targets["labels"]
        total = F.cross_entropy(logits, labels, reduction="sum")
        return Loss(total, {"correct": logits.detach().argmax(-1).eq(labels).sum()})


Sentences: TypeAlias = ExampleSet[TaggedWords]
Names: TypeAlias = tuple[str, ...]
"""The labels of words in the order of the logits."""


def _make_labels(train: Sentences) -> Names:
    config = train.settings.config
    names = label_names(config, [tag for e in train.rows for tag in e.tags])
    return make_head(train.interface, config, len(names), names, "token")


def _encode_words(own: Sentences, names: Names) -> tuple[Encoded, list[list[int]]]:
    """Encode sentences; also return the words of each that the model can see.

    Cutting and invisible characters hide some.
    """
    joined = [text_of(e.words) for e in own.rows]
    texts, where = [text for text, _ in joined], [e.where for e in own.rows]
    ids = encode(own.interface, texts, where, own.settings.options)
    columns, labels, seen = [], [], []
    for example, (text, spans), row in zip(own.rows, joined, ids, strict=True):
        pieces = first_pieces(own.interface.tokenizer, text, spans)
        kept = [w for w, piece in enumerate(pieces) if piece is not None and piece < len(row) - 1]
        if not kept:
            raise InputError(f"{example.where}: no word of {text[:40]!r} can be seen by the model")
        numbers = label_ids(example.tags, names, example.where)
        seen.append(kept)
        columns.append(torch.tensor([pieces[w] for w in kept]))
        labels.append(torch.tensor([numbers[w] for w in kept]))
    return encoded_words(ids, columns, labels), seen


def encoded_words(
    ids: Sequence[Tensor], columns: Sequence[Tensor], labels: Sequence[Tensor]
) -> Encoded:
    """Make examples of sequences, in which the tokens at some columns have labels."""

    def targets(indices: Sequence[int]) -> tuple[Targets, int]:
        rows = rows_in_batch([columns[i] for i in indices], [len(ids[i]) for i in indices])
        return {"rows": rows, "labels": torch.cat([labels[i] for i in indices])}, len(rows)

    return Encoded([(own,) for own in ids], targets)


def _measures(held_out: Sentences, names: Names, objective: Objective) -> Measure:
    """Measure the accuracy of words, and precision, recall and F1 of entities.

    Words that the model cannot see count as outside of entities.
    """
    encoded, seen = _encode_words(held_out, names)
    wanted = [e.tags for e in held_out.rows]

    def measure() -> dict[str, float]:
        predicted = [[OUTSIDE] * len(tags) for tags in wanted]
        total, count = 0.0, 0
        for indices, logits, batch in run_examples(held_out.interface, objective, encoded):
            total += float(objective.loss(logits, batch).total)
            count += batch.count
            best = iter(likeliest(logits).tolist())
            for i in indices:
                for word in seen[i]:
                    number = next(best)
                    # What is no label of the head is wrong wherever it is given.
                    predicted[i][word] = names[number] if number != NO_ANSWER else ""
        words = [
            p == t
            for own, tags in zip(predicted, wanted, strict=True)
            for p, t in zip(own, tags, strict=True)
        ]
        return {
            **entity_scores(wanted, predicted, joined=OUTSIDE in names),
            "accuracy": sum(words) / len(words),
            "loss": total / max(count, 1),
        }

    return measure


def entity_scores(
    wanted: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, joined: bool = True
) -> dict[str, float]:
    """Compute precision, recall and F1 of entities, as CoNLL's `conlleval` does.

    An entity is right if its words and its label are.

    Example:
        >>> entity_scores([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "O", "O", "B-LOC"]])
        {'precision': 0.5, 'recall': 0.5, 'f1': 0.5}
    """
    true, given = (
        [{*entities(tags, joined=joined)} for tags in rows] for rows in (wanted, predicted)
    )
    return precision_recall_f1(*count_labels(true, given).totals())


TOKENS = TaskRecord(
    read=rows_of(read_words),
    head=_make_labels,
    loss=lambda settings, names: TokenObjective(settings.config.task.head),
    encode=lambda own, names: _encode_words(own, names)[0],
    measures=_measures,
    metrics=always("f1", "precision", "recall", "accuracy", "loss"),
    chance=lambda train, names, encoded: chance_loss(len(names)),
)
"""A label for each word: CoNLL's, evaluated by entities."""
