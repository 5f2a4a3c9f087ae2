"""Teaches a model a table again and again from the same start: a head on its vectors, or all of it.

Legend: n rows, C width of the model, K outputs of the head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from roberta_hub.config import RobertaConfig
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.heads import ClassificationHead
from roberta_hub.model.roberta import Roberta, require_roberta
from roberta_hub.settings import HeadKind
from roberta_hub.train.data.sentences import LabelledText
from roberta_hub.train.fitting.regression import Linear, solve
from roberta_hub.train.loop.flops import training_flops
from roberta_hub.train.loop.state import restore_generators_after
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.encoding import encode
from roberta_hub.train.tasks.evaluation import outputs_of
from roberta_hub.train.tasks.features import head_vectors
from roberta_hub.train.tasks.finetuning import Encoded, FineTuning, labelled
from roberta_hub.train.tasks.options import options_of
from roberta_hub.train.tasks.sentences import SentenceObjective
from roberta_hub.train.tasks.training_task import Batch, Loss

NEW_HEAD_SCALE = 0.15
"""Size of a new head's inner values, where tanh is nearly straight."""
HEAD_KINDS: dict[str, HeadKind] = {
    "classification": "single_label",
    "multi_label": "multi_label",
    "regression": "regression",
}
"""What a head learns, by `Examples.task`."""
START_STRENGTH = 100.0
"""Weight of the rows relative to the prior, if a regression only initializes a training."""
START_SCALE = 0.3
"""Share of a regression's weights at which a training begins. A regression on few rows is sure of
all of them, and then the body learns little. benchmarks/results/fit_elsewhere.md measures it."""
FLOPS_PER_SECOND = 1e11
"""Floating-point operations that two cores do in a second; work is counted by it."""


RunTask = Callable[[FineTuning, Config], None]
"""Trains a task in place, as `updates` does."""


def seconds_of(model: RobertaConfig, lengths: Iterable[int]) -> float:
    """Count the seconds of two cores that training on texts takes, each seen once."""
    return training_flops(model, lengths) / FLOPS_PER_SECOND


@dataclass(frozen=True)
class EncodedRows:
    """Rows as ids and numbers."""

    ids: list[Tensor]
    targets: Tensor
    """Shares of the classes (one-hot, mostly), 0 or 1 of each label, or numbers with mean 0 and
    deviation 1. (n, K), float64."""
    weights: Tensor
    """How much each row counts. (n,), float64"""

    def examples(self, task: str, rows: Sequence[int]) -> Encoded:
        """Make the training examples of some rows."""
        table = self.targets[list(rows)]
        one_hot = task == "classification" and bool((table.amax(1) == 1).all())
        values = table.argmax(1) if one_hot else table.float()
        values = values[:, 0] if task == "regression" else values
        per = table.size(1) if task == "multi_label" else 1
        weights = self.relative_weights(rows)
        given = None if bool((weights == 1).all()) else weights.float()
        return labelled([self.ids[i] for i in rows], values, per, given)

    def relative_weights(self, rows: Sequence[int]) -> Tensor:
        """Divide the weights of some rows by their mean: (len(rows),), float64."""
        weights = self.weights[list(rows)]
        return weights / weights.mean()


def encode_rows(
    roberta: RobertaHubInterface,
    config: Config,
    rows: Sequence[LabelledText],
    names: Sequence[str],
    scale: tuple[float, float],
) -> EncodedRows:
    """Encode rows, cut as the configuration says."""
    texts, where = [row.text for row in rows], [row.where for row in rows]
    ids = encode(roberta, texts, where, options_of(config))
    weights = torch.tensor([row.weight for row in rows], dtype=torch.float64)
    if not names:
        mean, deviation = scale
        numbers = [[(float(row.labels[0]) - mean) / deviation] for row in rows]
        return EncodedRows(ids, torch.tensor(numbers, dtype=torch.float64).view(-1, 1), weights)
    place = {name: k for k, name in enumerate(names)}
    targets = torch.zeros(len(rows), len(names), dtype=torch.float64)
    for i, row in enumerate(rows):
        targets[i, [place[name] for name in row.labels]] = 1.0
        for name, share in row.shares:
            targets[i, place[name]] = share
    return EncodedRows(ids, targets, weights)


class Learner:
    """A model with a head, and rows that it can learn in several ways from the same start."""

    def __init__(
        self,
        roberta: RobertaHubInterface,
        config: Config,
        task: str,
        encoded: EncodedRows,
        run: RunTask,
        embeddings: bool,
    ) -> None:
        """Keep the weights to begin with."""
        self.roberta, self.config, self.task, self.encoded = roberta, config, task, encoded
        self.kind, self._run = HEAD_KINDS[task], run
        self.embeddings = embeddings
        self.model: Roberta = require_roberta(roberta.model, "fit trains")
        self.objective = SentenceObjective(config.task.head, task)
        self.shares: Tensor | None = None
        """Shares of the classes if each is to count the same, else None. Shape: (K,)"""
        self._start = _copied(self.model)

    @property
    def head(self) -> ClassificationHead:
        """The head that learns."""
        head: ClassificationHead = self.model.classification_heads[self.config.task.head]  # type: ignore[assignment]
        return head

    def all(self) -> Encoded:
        """Return every row as an example."""
        return self.encoded.examples(self.task, range(len(self.encoded.ids)))

    def work_of(self, rows: Sequence[int]) -> float:
        """Count the seconds of two cores that training on some rows takes, each seen once."""
        return seconds_of(self.model.config, (len(self.encoded.ids[i]) for i in rows))

    def work_of_training(self, rows: Sequence[int]) -> float:
        """Count the seconds of two cores that `train` takes."""
        epochs = self.config.loop.max_epochs
        assert epochs is not None  # `run_config` sets it
        return epochs * self.work_of(rows)

    # ---- a head on vectors ----

    def reset_head(self, rows: Sequence[int], inner: nn.Linear | None = None) -> None:
        """Make the head's inner layer pass vectors on, so that its output layer is a regression."""
        dense = self.head.dense
        with torch.no_grad():
            if inner is not None:
                dense.weight.copy_(inner.weight)
                dense.bias.copy_(inner.bias)
            else:
                vectors = self.vectors(self.encoded.examples(self.task, rows))
                weights = self.encoded.relative_weights(rows)[:, None].to(vectors)
                middle = (weights * vectors).mean(0)
                spread, size = (
                    (weights * (vectors - m).square()).mean().sqrt() for m in (middle, 0.0)
                )
                # Vectors that hardly differ are not blown up: the body would learn too fast.
                gain = float(torch.minimum(NEW_HEAD_SCALE / spread, 5 / size))
                dense.weight.copy_(torch.eye(len(middle)) * gain)
                dense.bias.copy_(-middle * gain)
        self._start = _copied(self.model)

    def vectors(self, examples: Encoded) -> Tensor:
        """Compute what the head's inner layer reads of each example: (n, C)."""
        return torch.cat(outputs_of(self.roberta, _InnerInputs(self.objective.head), examples))

    def features(self, examples: Encoded) -> Tensor:
        """Compute what the head's output layer reads of each example: (n, inner), float64."""
        with torch.no_grad():
            vectors = self.vectors(examples).to(self.head.dense.weight.device)
            inner: Tensor = self.head.activation_fn(self.head.dense(vectors))
        return inner.double().cpu()

    def set_head(self, layer: Linear, scale: float) -> None:
        """Take a regression as the head's output layer."""
        output = self.head.out_proj
        with torch.no_grad():
            output.weight.copy_(layer.weight / scale)
            output.bias.copy_(layer.bias)

    def scale_head(self, share: float) -> None:
        """Multiply the head's output layer: its answers become less sure, and stay in order."""
        output = self.head.out_proj
        with torch.no_grad():
            output.weight.mul_(share)
            output.bias.mul_(share)

    # ---- the whole model ----

    def train(self, rows: Sequence[int]) -> None:
        """Train head and body on some rows."""
        self._train(self.encoded.examples(self.task, rows), self.config)

    def train_on(self, encoded: EncodedRows, config: Config) -> None:
        """Train head and body on other rows, and begin there from now on."""
        examples = encoded.examples(self.task, range(len(encoded.ids)))
        features = self.features(examples)
        scale = float(features.norm(dim=1).mean().clamp(min=1e-9))
        self.set_head(solve(features / scale, encoded.targets, self.kind, START_STRENGTH), scale)
        self._train(examples, config)
        self._start = _copied(self.model)

    def _train(self, examples: Encoded, config: Config) -> None:
        tokens = self.model.transformer.embed_tokens
        tokens.requires_grad_(self.embeddings)
        task = FineTuning(self.roberta, self.objective, examples, None, metric="loss")
        try:
            with restore_generators_after():
                self._run(task, config)
        finally:
            tokens.requires_grad_(True)

    def restore(self) -> None:
        """Go back to the start, the head too."""
        self.model.load_state_dict(self._start)

    # ---- answers ----

    def logits(self, encoded: EncodedRows, rows: Sequence[int]) -> Tensor:
        """Answer some of the rows: (len(rows), K), float64."""
        examples = encoded.examples(self.task, rows)
        if not rows:
            return torch.zeros(0, encoded.targets.size(1), dtype=torch.float64)
        return torch.cat(outputs_of(self.roberta, self.objective, examples)).double()


@dataclass(frozen=True)
class _InnerInputs:
    """An objective whose answers are what a head's inner layer reads; nothing is learnt by it."""

    head: str

    def logits(self, roberta: Roberta, batch: Batch) -> Tensor:
        head: ClassificationHead = roberta.classification_heads[self.head]  # type: ignore[assignment]
        return head.read(head_vectors(roberta, batch, self.head).unsqueeze(1))

    def loss(self, logits: Tensor, batch: Batch) -> Loss:
        raise NotImplementedError


def _copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}
