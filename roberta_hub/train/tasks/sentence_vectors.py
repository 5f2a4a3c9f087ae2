"""The task of sentence vectors, trained on pairs, on scores or on another model's vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from roberta_hub.errors import InputError, placed
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.measures.classes import likeliest
from roberta_hub.measures.numbers import correlations
from roberta_hub.model.roberta import Roberta
from roberta_hub.model.sentence_layers import layers_of, through_layers
from roberta_hub.settings import SentenceSettings
from roberta_hub.train.data.pairs import PairExample, read_pairs
from roberta_hub.train.reports import first_process, logger
from roberta_hub.train.tasks.distillation import load_teacher
from roberta_hub.train.tasks.encoding import shorten
from roberta_hub.train.tasks.evaluation import outputs_of
from roberta_hub.train.tasks.features import hidden
from roberta_hub.train.tasks.finetuning import Encoded, Measure, Targets
from roberta_hub.train.tasks.options import Source
from roberta_hub.train.tasks.record import ExampleSet, Settings, TaskRecord
from roberta_hub.train.tasks.training_task import Batch, Loss
from roberta_hub.train.tasks.vector_losses import (
    contrastive_loss,
    cosent_loss,
    cosine_matrix,
    false_negatives,
    pool_sequences,
    teacher_distance,
)

ROWS_PER_RANKING = 100
"""Rows of a held-out table among whose positives each anchor looks for its own."""
SENTENCES_COMPARED = 500
"""Held-out single sentences whose cosines are compared with the teacher's."""

TextVectors = Callable[[list[str]], Tensor]
"""Makes the vectors of texts: (len(texts), D)."""


@dataclass(frozen=True)
class VectorObjective:
    """Pooled vectors of all texts of a batch: near those that they belong to, far from others.

    Each micro-batch is contrasted within itself, in each process: fewer rows, fewer negatives.
    """

    settings: SentenceSettings
    scale: float
    symmetric: bool
    teacher_weight: float
    teacher: TextVectors | None

    def logits(self, roberta: Roberta, batch: Batch) -> Tensor:
        """Compute the vectors, before `normalize` and `truncate_dim`: (S, D)."""
        rows, own = hidden(roberta, batch).float(), self.settings
        vectors = pool_sequences(rows, batch.packed, own.pooling, roberta.pooler)
        return through_layers(roberta, own.layers, vectors)

    def loss(self, logits: Tensor, batch: Batch) -> Loss:
        """Sum the losses for which there are targets over the batch's examples, in float32."""
        targets, logs = batch.targets, {}
        total = logits.new_zeros(())
        with torch.autocast(logits.device.type, enabled=False):  # cosines in bfloat16 are coarse
            if "alike" in targets:
                table = self.table(logits, targets)
                total = contrastive_loss(table, symmetric=self.symmetric)
                found = table.detach().argmax(1)
                logs["correct"] = found.eq(torch.arange(len(table), device=found.device)).sum()
            elif "scores" in targets:
                first, second = logits[targets["anchors"]], logits[targets["positives"]]
                found = torch.cosine_similarity(first, second)
                total = batch.count * cosent_loss(found, targets["scores"], self.scale)
            if "teacher" in targets:
                away = batch.count * teacher_distance(logits, targets["teacher"])
                logs["teacher"] = away.detach()
                total = total + self.teacher_weight * away
        return Loss(total, logs)

    def table(self, vectors: Tensor, targets: Targets) -> Tensor:
        """Compare anchors with candidates: scaled cosines (B, B + M), or minus infinity."""
        candidates = torch.cat([targets["positives"], targets["negatives"]])
        found = cosine_matrix(vectors[targets["anchors"]], vectors[candidates])
        return (self.scale * found).masked_fill(targets["alike"], -torch.inf)


Pairs: TypeAlias = ExampleSet[PairExample]
Numbers: TypeAlias = Callable[[list[Tensor]], dict[str, float]]


def _read(settings: Settings, interface: RobertaHubInterface, source: Source) -> list[PairExample]:
    found = read_pairs(source.path, settings.config.data.format, settings.config.data.columns)
    if len(found[0].texts) == 1 and settings.options.teacher is None:
        raise InputError(
            f"data.{source.name} has single sentences (no column 'sentence2'; see data.columns), "
            "which only another model's vectors teach: name it with task.options.teacher=..."
        )
    return found


def _objective(train: Pairs) -> VectorObjective:
    """Learn vectors as the model's settings say, else by the normalized mean, which they become."""
    interface, options = train.interface, train.settings.options
    settings = interface.sentence or SentenceSettings(normalize=True)
    _check(train, settings)
    layers_of(interface.model, settings.layers)  # its error
    interface.sentence = settings
    teacher = None
    if options.teacher is not None:
        precision = train.settings.config.loop.precision
        teacher = _teacher(load_teacher(options.teacher, precision), interface)
    _report(train.rows)
    weight = options.teacher_weight
    return VectorObjective(settings, options.scale, options.symmetric, weight, teacher)


def _check(train: Pairs, settings: SentenceSettings) -> None:
    contrasted = train.rows[0].score is None and len(train.rows[0].texts) > 1
    if contrasted and train.settings.config.batch.batch_size == 1:
        raise InputError(
            "batch.batch_size is 1, and a pair is contrasted with the others of its micro-batch; "
            "take 32 or more"
        )
    if not settings.include_prompt and settings.find_prompt(None, None):
        raise InputError(
            "this model's vectors leave out the tokens of their prompt (include_prompt=False), and "
            "the task pools all tokens: set the model's `sentence` to include_prompt=True, or to "
            "no default_prompt, and save it"
        )
    if settings.similarity != "cosine" and not settings.normalize:
        raise InputError(
            f"this model's vectors compare by {settings.similarity!r} and are not normalized; the "
            "task learns cosines: change the model's `sentence` to similarity='cosine' and save it"
        )


def _report(train: Sequence[PairExample]) -> None:
    if not first_process():
        return
    kind = "single sentences" if len(train[0].texts) == 1 else "pairs"
    hard = sum(len(pair.texts) > 2 for pair in train)
    more = f", {hard:,} with a hard negative" if hard else ""
    more += ", with scores, of which the order counts" if train[0].score is not None else ""
    logger.info("sentence vectors of %s %s%s", f"{len(train):,}", kind, more)


def _teacher(teacher: RobertaHubInterface, student: RobertaHubInterface) -> TextVectors:
    """Make vectors by another model, which is no part of what is trained and saved."""

    def vectors(texts: list[str]) -> Tensor:
        device = next(student.model.parameters()).device
        if teacher.device != device:
            teacher.to(device)
        return teacher.embed(texts, truncate=True, progress=False)

    return vectors


def _encoded(given: Pairs, settings: SentenceSettings, teacher: TextVectors | None) -> Encoded:
    """Encode examples as `embed` does, each different text once."""
    examples = given.rows
    number: dict[str, int] = {}
    where: list[str] = []
    own = []
    for pair in examples:
        for text in pair.texts:
            if text not in number:
                number[text] = len(where)
                where.append(pair.where)
        own.append(tuple(number[text] for text in pair.texts))
    texts = list(number)
    ids = _ids(given, settings, texts, where)
    same: dict[bytes, int] = {}
    kinds = torch.tensor([same.setdefault(row.numpy().tobytes(), len(same)) for row in ids])
    scores = torch.tensor([0.0 if pair.score is None else pair.score for pair in examples])
    scored = examples[0].score is not None

    def targets(indices: Sequence[int]) -> tuple[Targets, int]:
        rows = [own[i] for i in indices]
        found = _places(rows)
        if scored:
            found["scores"] = scores[list(indices)]
        elif "positives" in found:
            flat = kinds[[text for row in rows for text in row]]
            found["alike"] = false_negatives(
                *(flat[found[n]] for n in ("anchors", "positives", "negatives"))
            )
        if teacher is not None:
            found["teacher"] = teacher([texts[text] for row in rows for text in row])
        return found, len(indices)

    return Encoded([tuple(ids[text] for text in row) for row in own], targets)


def _places(rows: Sequence[tuple[int, ...]]) -> Targets:
    """Tell which sequences of a batch are anchors, positives and hard negatives."""
    starts, start = [], 0
    for row in rows:
        starts.append(start)
        start += len(row)
    if len(rows[0]) == 1:
        return {"anchors": torch.tensor(starts)}
    hard = [start + 2 for start, row in zip(starts, rows, strict=True) if len(row) > 2]
    anchors = torch.tensor(starts)
    negatives = torch.tensor(hard, dtype=torch.long)
    return {"anchors": anchors, "positives": anchors + 1, "negatives": negatives}


def _ids(
    given: Pairs, settings: SentenceSettings, texts: Sequence[str], where: Sequence[str]
) -> list[Tensor]:
    options, interface, tokenizer = (
        given.settings.options,
        given.interface,
        given.interface.tokenizer,
    )
    prompt = settings.find_prompt(None, None)
    seen = [prompt + text for text in texts]
    if settings.lower_case:
        tokenizer = tokenizer.in_lowercase
    if settings.max_length is not None:
        limit = min(settings.max_length, interface.max_positions)
        options = replace(options, max_length=min(options.max_length or limit, limit))
    with placed(lambda at: where[at.index]):
        sequences = tokenizer.encode_batch(seen)
    return shorten(interface, sequences, where, options)


def _metrics(settings: Settings, held_out: Sequence[PairExample] | None) -> Sequence[str]:
    """Name the measures of a held-out set; without one, all."""
    contrasted, compared = ("accuracy", "loss", "triplet_accuracy"), ("spearman", "pearson")
    if held_out is None:
        return (*contrasted, *compared)
    if held_out[0].score is not None or len(held_out[0].texts) == 1:
        return compared
    return contrasted if any(len(pair.texts) > 2 for pair in held_out) else contrasted[:2]


def _measures(held_out: Pairs, objective: VectorObjective, same: object) -> Measure:
    """Measure on the vectors of each example's texts, (texts, C) each."""
    encoded, examples = _encoded(held_out, objective.settings, None), held_out.rows
    if examples[0].score is None and len(examples[0].texts) > 1:
        numbers = _accuracy(objective, encoded, examples)
    else:
        numbers = _correlation(objective, examples)
    return lambda: numbers(outputs_of(held_out.interface, objective, encoded))


def _accuracy(
    objective: VectorObjective, valid: Encoded, examples: Sequence[PairExample]
) -> Numbers:
    """Measure how often the positive is nearest, among positives and negatives of some rows.

    `ROWS_PER_RANKING` rows at a time, in the order of the table. `triplet_accuracy` compares
    it with the row's own negative alone.
    """
    hard = [i for i, pair in enumerate(examples) if len(pair.texts) > 2]

    def numbers(vectors: list[Tensor]) -> dict[str, float]:
        right, loss = 0, 0.0
        for start in range(0, len(vectors), ROWS_PER_RANKING):
            own = range(start, min(start + ROWS_PER_RANKING, len(vectors)))
            targets, _ = valid.targets(own)
            table = objective.table(torch.cat([vectors[i] for i in own]), targets)
            loss += float(contrastive_loss(table, symmetric=objective.symmetric))
            right += int(likeliest(table).eq(torch.arange(len(table))).sum())
        found = {"accuracy": right / len(vectors), "loss": loss / len(vectors)}
        if hard:
            triples = torch.stack([vectors[i] for i in hard])  # (H, 3, C)
            near, far = (torch.cosine_similarity(triples[:, 0], triples[:, k]) for k in (1, 2))
            found["triplet_accuracy"] = float((near > far).float().mean())
        return found

    return numbers


def _correlation(objective: VectorObjective, examples: Sequence[PairExample]) -> Numbers:
    """Measure the correlation of cosines with the scores, or of sentences with the teacher's."""
    if examples[0].score is not None:
        wanted = torch.tensor([float(pair.score or 0.0) for pair in examples])
    else:
        assert objective.teacher is not None  # _read
        texts = [pair.texts[0] for pair in examples[:SENTENCES_COMPARED]]
        wanted = _between(objective.teacher(texts).cpu())

    def numbers(parts: list[Tensor]) -> dict[str, float]:
        vectors = torch.stack(parts)  # (n, texts, C)
        if vectors.size(1) == 2:
            found = torch.cosine_similarity(vectors[:, 0], vectors[:, 1])
        else:
            found = _between(vectors[:SENTENCES_COMPARED, 0])
        return correlations(found, wanted)

    return numbers


def _between(vectors: Tensor) -> Tensor:
    """Cosines of each two different vectors: (n, C) -> (n * (n - 1) / 2,)."""
    first, second = torch.triu_indices(len(vectors), len(vectors), offset=1)
    return cosine_matrix(vectors, vectors)[first, second]


SENTENCES = TaskRecord(
    read=_read,
    head=_objective,
    loss=lambda settings, objective: objective,
    encode=lambda train, objective: _encoded(train, objective.settings, objective.teacher),
    measures=_measures,
    metrics=_metrics,
)
"""Vectors of pairs, triples, scored pairs or single sentences; see `read_pairs`."""
