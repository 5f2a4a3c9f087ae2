"""Builds the task of labelling words (entities, parts of speech), each by its first piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from roberta_hub.errors import InputError
from roberta_hub.inference.tag import OUTSIDE, entities, first_pieces
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.measures.classes import NO_ANSWER, likeliest
from roberta_hub.measures.counts import count_labels, precision_recall_f1
from roberta_hub.model.roberta import Roberta
from roberta_hub.train.data.conll import TaggedWords, text_of
from roberta_hub.train.data.labels import label_ids, label_names
from roberta_hub.train.data.tagged_words import read_words
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.encoding import encode
from roberta_hub.train.tasks.evaluation import chance_loss, run_examples
from roberta_hub.train.tasks.features import hidden
from roberta_hub.train.tasks.finetuning import Encoded, FineTuning, Targets
from roberta_hub.train.tasks.options import metric_of, options_of, train_path
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


@dataclass(frozen=True)
class _Tagged:
    """Sentences as ids, with the column and the label of each word that the model can see."""

    encoded: Encoded
    tags: list[tuple[str, ...]]
    """The labels of all words, as in the file."""
    seen: list[list[int]]
    """The words of each sentence that the model can see; cutting and odd characters hide some."""


def tokens(config: Config, interface: RobertaHubInterface) -> FineTuning:
    """Build a task with a label for each word: CoNLL's, evaluated by entities."""
    data = config.data
    train = read_words(train_path(config), data.format, data.columns)[: data.limit]
    held_out = read_words(data.valid, data.format, data.columns) if data.valid else None
    names = label_names(config, [tag for e in train for tag in e.tags])
    names = make_head(interface, config, len(names), names, "token")
    objective = TokenObjective(config.task.head)
    valid = _prepare(config, interface, held_out, names) if held_out else None

    def measure(model: RobertaHubInterface) -> dict[str, float]:
        assert valid is not None
        return evaluate_tags(model, objective, valid, names)

    task = FineTuning(
        interface,
        objective,
        _prepare(config, interface, train, names).encoded,
        measure if valid is not None else None,
        metric=metric_of(config, "f1", ("f1", "precision", "recall", "accuracy", "loss")),
        chance=chance_loss(len(names)),
    )
    return task.of_data(train, held_out)


def _prepare(
    config: Config,
    interface: RobertaHubInterface,
    examples: list[TaggedWords],
    names: tuple[str, ...],
) -> _Tagged:
    joined = [text_of(e.words) for e in examples]
    texts, where = [text for text, _ in joined], [e.where for e in examples]
    ids = encode(interface, texts, where, options_of(config))
    columns, labels, seen = [], [], []
    for example, (text, spans), own in zip(examples, joined, ids, strict=True):
        pieces = first_pieces(interface.tokenizer, text, spans)
        kept = [w for w, piece in enumerate(pieces) if piece is not None and piece < len(own) - 1]
        if not kept:
            raise InputError(f"{example.where}: no word of {text[:40]!r} can be seen by the model")
        numbers = label_ids(example.tags, names, example.where)
        seen.append(kept)
        columns.append(torch.tensor([pieces[w] for w in kept]))
        labels.append(torch.tensor([numbers[w] for w in kept]))

    def targets(indices: Sequence[int]) -> tuple[Targets, int]:
        starts = accumulate((len(ids[i]) for i in indices), initial=0)
        rows = torch.cat([columns[i] + start for i, start in zip(indices, starts, strict=False)])
        return {"rows": rows, "labels": torch.cat([labels[i] for i in indices])}, len(rows)

    return _Tagged(Encoded([(own,) for own in ids], targets), [e.tags for e in examples], seen)


def evaluate_tags(
    model: RobertaHubInterface, objective: TokenObjective, examples: _Tagged, names: Sequence[str]
) -> dict[str, float]:
    """Measure the accuracy of words, and precision, recall and F1 of entities.

    Words that the model cannot see count as outside of entities.
    """
    predicted = [[OUTSIDE] * len(tags) for tags in examples.tags]
    total, count = 0.0, 0
    for indices, logits, batch in run_examples(model, objective, examples.encoded):
        total += float(objective.loss(logits, batch).total)
        count += batch.count
        best = iter(likeliest(logits).tolist())
        for i in indices:
            for word in examples.seen[i]:
                number = next(best)
                # What is no label of the head is wrong wherever it is given.
                predicted[i][word] = names[number] if number != NO_ANSWER else ""
    words = [
        p == t
        for own, tags in zip(predicted, examples.tags, strict=True)
        for p, t in zip(own, tags, strict=True)
    ]
    return {
        **entity_scores(examples.tags, predicted, joined=OUTSIDE in names),
        "accuracy": sum(words) / len(words),
        "loss": total / max(count, 1),
    }


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
