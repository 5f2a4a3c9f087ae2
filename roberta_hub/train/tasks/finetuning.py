"""What fine-tuning tasks are made of: examples as ids and targets, an objective, a measure."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from roberta_hub.errors import InputError, InputTypeError, MissingExtraError, UnknownNameError
from roberta_hub.inference.batching import BATCH_TOKENS, batches
from roberta_hub.inference.mode import evaluating
from roberta_hub.inference.windows import fit
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.packing import pack_sequences
from roberta_hub.model.roberta import RobertaModel
from roberta_hub.text.task import Task as DictionaryTask
from roberta_hub.train.config import Config, near, read_options
from roberta_hub.train.tasks.task import Batch, Loss

Targets = dict[str, Tensor]


@dataclass(frozen=True)
class Encoded:
    """Examples as ids, and what an objective compares with."""

    sequences: Sequence[tuple[Tensor, ...]]
    """The sequences of each example: one, or one an option."""
    targets: Callable[[Sequence[int]], tuple[Targets, int]]
    """Of a batch of examples, with the count that its loss is averaged over."""

    def lengths(self) -> list[int]:
        """Tokens of each example."""
        return [sum(map(len, own)) for own in self.sequences]

    def batch(self, indices: Sequence[int], padding_idx: int) -> Batch:
        """Some examples, packed."""
        flat = [ids for i in indices for ids in self.sequences[i]]
        targets, count = self.targets(indices)
        return Batch(pack_sequences(flat, padding_idx=padding_idx), targets, count)


class Objective(Protocol):
    """From a batch to logits, and from these to the loss. Holds no parameters."""

    def logits(self, roberta: RobertaModel, batch: Batch) -> Tensor:
        """What the head says; the shape is the objective's."""
        ...

    def loss(self, logits: Tensor, batch: Batch) -> Loss:
        """Summed over the batch's targets."""
        ...


class HeadModule(nn.Module):
    """A model under an objective: what the optimizer and DDP see."""

    def __init__(self, roberta: RobertaModel, objective: Objective) -> None:
        super().__init__()
        self.roberta = roberta
        self.objective = objective

    def forward(self, batch: Batch) -> Loss:
        """The loss of a batch."""
        return self.objective.loss(self.objective.logits(self.roberta, batch), batch)


Measure = Callable[[RobertaHubInterface], dict[str, float]]


class FineTuning:
    """A `Task` (see `task.py`) made of its parts."""

    def __init__(
        self,
        interface: RobertaHubInterface,
        objective: Objective,
        train: Encoded,
        measure: Measure | None,
        *,
        metric: str,
        chance: float | None = None,
    ) -> None:
        """Put the parts together.

        Args:
            interface: the model with its head registered and labels set.
            objective: from batches to losses.
            train: examples to learn from.
            measure: numbers of a model on the held-out set; None where there is none.
            metric: which of them chooses the best checkpoint.
            chance: the loss of knowing nothing.
        """
        self.interface = interface
        self.roberta = roberta_of(interface)
        self.module: nn.Module = HeadModule(self.roberta, objective)
        self.metric = metric
        self.larger_is_better = metric != "loss"
        self._train = train
        self._lengths = train.lengths()
        self._measure = measure
        self._chance = chance

    def lengths(self, epoch: int) -> Sequence[int]:
        """Tokens of each training example, the same in every epoch."""
        return self._lengths

    def batch(self, indices: Sequence[int], epoch: int) -> Batch:
        """Training examples as a batch."""
        return self._train.batch(indices, self.roberta.config.padding_idx)

    def evaluate(self, interface: RobertaHubInterface | None = None) -> dict[str, float]:
        """Numbers on the held-out set; empty where there is none."""
        return self._measure(interface or self.interface) if self._measure is not None else {}

    def chance(self) -> float | None:
        """The loss of knowing nothing."""
        return self._chance

    def finish(self) -> RobertaHubInterface:
        """The trained model with its head and label names."""
        return self.interface


def roberta_of(interface: RobertaHubInterface) -> RobertaModel:
    """The model, which must be ours."""
    if not isinstance(interface.model, RobertaModel):
        raise InputError(
            "training needs a roberta_hub model; turn fairseq's into one with "
            "roberta_hub.fairseq_bridge.from_fairseq"
        )
    return interface.model


def hidden(roberta: RobertaModel, batch: Batch) -> Tensor:
    """The features of a batch's tokens: (N, C)."""
    encoder = roberta.encoder.sentence_encoder
    states = deque(encoder.packed(batch.packed), maxlen=1)  # one is alive at a time in evaluation
    return encoder.finish(states.pop())


def outputs(
    interface: RobertaHubInterface, objective: Objective, examples: Encoded
) -> Iterator[tuple[list[int], Tensor, Batch]]:
    """(indices, logits on the CPU, batch) over all examples in eval mode, without gradients."""
    roberta = roberta_of(interface)
    device = next(roberta.parameters()).device
    budget = BATCH_TOKENS.get(device.type, BATCH_TOKENS["cuda"])
    with evaluating(roberta):
        for indices in batches(examples.lengths(), budget):
            batch = examples.batch(indices, roberta.config.padding_idx)
            yield indices, objective.logits(roberta, batch.to(device)).float().cpu(), batch


def gather(
    interface: RobertaHubInterface, objective: Objective, examples: Encoded
) -> tuple[list[Tensor], list[Targets], float]:
    """Logits and targets of each batch, and the loss averaged over all targets."""
    logits, targets, total, count = [], [], 0.0, 0
    for _, values, batch in outputs(interface, objective, examples):
        logits.append(values)
        targets.append(batch.targets)
        total += float(objective.loss(values, batch).total)
        count += batch.count
    return logits, targets, total / max(count, 1)


@contextmanager
def located(where: str) -> Iterator[None]:
    """Inside, an error about an example says where that example stands."""
    try:
        yield
    except (InputError, InputTypeError) as error:
        raise InputError(f"{where}: {error}") from None


def encode(
    interface: RobertaHubInterface, texts: Sequence[Any], where: Sequence[str], options: Options
) -> list[Tensor]:
    """Ids of texts, cut where the options say so, else an error that names file and line."""
    try:
        sequences = interface.tokenizer.encode_batch(list(texts))
    except InputError:
        for text, place in zip(texts, where, strict=True):  # which of them it was
            with located(place):
                interface.tokenizer.encode_batch([text])
        raise
    return shorten(interface, sequences, where, options)


def shorten(
    interface: RobertaHubInterface,
    sequences: Sequence[Tensor],
    where: Sequence[str],
    options: Options,
) -> list[Tensor]:
    """Sequences of at most `max_length` tokens."""
    limit = options.max_length or interface.max_positions
    if limit > interface.max_positions:
        raise InputError(
            f"task.options.max_length is {limit}, the model takes {interface.max_positions} tokens"
        )
    for ids, place in zip(sequences, where, strict=True):
        if len(ids) > limit and not options.truncate:
            raise InputError(
                f"{place}: {len(ids)} tokens > {limit}; task.options.truncate=true cuts the "
                "longest sentence"
            )
    layout = interface.tokenizer.layout
    fitted = fit(sequences, where, limit, layout, truncate=options.truncate)
    return [window.ids[0] for window in fitted]


@dataclass(frozen=True)
class Options:
    """What `task.options` may say, for every task; each task reads those that concern it."""

    max_length: int | None = None
    """Longest input in tokens; None: the model's. Answers in a text are judged with the model's, in
    windows."""
    truncate: bool = False
    """Cut longer ones, instead of an error."""
    separator: str = ","
    """Between the labels of a multi-label text in a TSV."""
    max_option_length: int = 128
    """Longest option of RACE in tokens, `<s>` and `</s>` included (fairseq `sentence_ranking`)."""
    stride: int | None = None
    """Tokens that the windows over a long context share."""
    max_answer_tokens: int = 30
    """Longest answer when evaluating."""
    cross_entropy: bool | None = None
    """Over query and candidates; False: the margin. None: True for wsc, False for winogrande."""
    margin_alpha: float | None = None
    """Weight of the margin; None: 1 for wsc, 5 for winogrande."""
    margin_beta: float | None = None
    """Width of the margin; None: 0 for wsc, 0.4 for winogrande."""
    rehearse: str | None = None
    """Text, or a folder of tokens, whose masked words the model goes on guessing: see
    rehearsal.py."""
    rehearse_weight: float = 1.0
    """Of that loss beside the task's."""
    rehearse_share: float = 1.0
    """Tokens of text for each token of the task's examples."""
    init_token: bool = False
    """Put `<s>` before the sentences of pronoun tasks; fairseq's recipes do not."""


def options_of(config: Config) -> Options:
    """The task's options, with their names and types checked."""
    options = read_options(Options, config.task.options)
    for name in ("max_length", "max_option_length", "max_answer_tokens"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise InputError(f"task.options.{name} is {value}, must be at least 1")
    for name in ("rehearse_weight", "rehearse_share"):
        if not 0 <= getattr(options, name) < float("inf"):
            raise InputError(f"task.options.{name} is {getattr(options, name)}, must be at least 0")
    return options


def train_path(config: Config) -> str:
    """The training set, which must be named."""
    if config.data.train is None:
        raise InputError("data.train is not set; name a file with data.train=...")
    return config.data.train


def metric_of(config: Config, default: str, known: Sequence[str]) -> str:
    """The number that chooses the best checkpoint."""
    metric = config.task.metric or default
    if metric not in known:
        raise UnknownNameError(f"task.metric is {metric!r}{near(metric, known)}")
    return metric


LAID_OUT = ("sentence_ranking", "commonsense_qa", "wsc")
"""fairseq's tasks whose inputs are laid out otherwise than those of all others."""


def name_task(interface: RobertaHubInterface, name: str, init_token: int | None = None) -> None:
    """Store the layout of the inputs in the model, for `choose` and `disambiguate_pronoun`.

    As in fairseq a model remembers one.
    """
    task = interface.task
    if not isinstance(task, DictionaryTask):
        return
    if task.name in LAID_OUT and task.name != name:
        warnings.warn(
            f"this model's inputs were laid out as fairseq's task {task.name!r} has them, and from "
            f"now on as {name!r}: what it learnt before will be asked in the new layout, and "
            "answer worse; train it on a copy of the model",
            stacklevel=2,
        )
    interface.task = dataclasses.replace(task, name=name, init_token=init_token)


def chance_of(classes: int) -> float | None:
    """The loss of guessing among so many classes, ln K."""
    return math.log(classes) if classes > 1 else None


def metrics() -> Any:
    """The module of torchmetrics' functions."""
    try:
        import torchmetrics.functional
    except ImportError:
        raise MissingExtraError(
            "evaluation needs torchmetrics: pip install 'roberta-hub[train]'"
        ) from None
    return torchmetrics.functional
