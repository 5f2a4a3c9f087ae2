"""Holds the settings of a training run in dataclasses: a `Config`, and one class for each section.

A setting is one field, written `optimizer.lr=2e-5`; a section is a group of them, such as
`optimizer`. `limits.py` checks types and ranges, `config.py` fills a `Config` from yaml files and a
command line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from roberta_hub.settings import DEFAULT_HEAD

DECAYS = ("weights", "fairseq")
SCHEDULES = ("polynomial_decay", "fixed", "constant_then_decay")
PRECISIONS = ("no", "bf16", "fp16")
PARALLEL = ("ddp", "fsdp")
STATES = ("whole", "sharded")
DEGENERATE = ("warn", "stop")
ORDERS = ("random", "fairseq")
"""What `optimizer.decay`, `optimizer.schedule`, `loop.precision`, `loop.parallel`, `loop.state`,
`loop.degenerate` and `batch.order` may be."""


@dataclass
class DataConfig:
    """Where the examples are; the modules of `data/` know the layouts."""

    train: str | None = None
    """File, folder or token blocks to learn from."""
    valid: str | None = None
    """The held-out set that chooses the best checkpoint."""
    format: str | None = None
    """Layout of the files; None: their names say it."""
    columns: dict[str, Any] = field(default_factory=dict)
    """Names of the columns, for example `{sentence: text, label: stars}`."""
    vocabulary: str | None = None
    """Folder of `roberta-hub vocabulary`, or a model's name, for a model that begins with random
    weights; None: the model's own."""
    labels: list[str] | None = None
    """Class names in the order of the logits; None: those found in the training set, sorted."""
    limit: int | None = None
    """Use this many training examples; None: all."""


@dataclass
class TaskConfig:
    """What the model learns."""

    name: str = "???"
    """masked_lm, replaced_tokens; classification, regression, multi_label, tokens, choice, span,
    sentences, wsc, winogrande."""
    head: str = DEFAULT_HEAD
    """Name of the head in the saved model."""
    metric: str | None = None
    """The number that chooses the best checkpoint; None: the task's own."""
    options: dict[str, Any] = field(default_factory=dict)
    """The task's own options, such as `max_length`, `mask_prob`, `sentences`, `objectives`; see
    tasks/options.py."""


@dataclass
class OptimizerConfig:
    """Adam and its learning rate; see `loop/optimizer.py`."""

    lr: float = 1e-5
    """The peak of the learning rate."""
    betas: list[float] = field(default_factory=lambda: [0.9, 0.98])
    """Adam's: how slowly it forgets gradients, and their squares."""
    eps: float = 1e-6
    """Adam's: keeps its division from zero."""
    weight_decay: float = 0.1
    """Decoupled from the gradient (AdamW)."""
    decay: str = "weights"
    """"weights", or "fairseq": biases and LayerNorms decay too."""
    layer_decay: float = 1.0
    """Each layer's learning rate as a fraction of the one above it."""
    clip_norm: float = 0.0
    """Largest norm of the gradient; 0: no limit."""
    schedule: str = "polynomial_decay"
    """How the rate changes after the warm-up."""
    warmup_updates: int | None = None
    """None: 6 % of the updates, as in the GLUE recipes."""
    total_updates: int | None = None
    """Where the decay ends; None: at the end of `loop.max_updates` or `loop.max_epochs`."""
    decay_updates: int | None = None
    """How long the decay of `constant_then_decay` takes; None: a tenth of the updates."""
    end_lr: float = 0.0
    """Where the decay ends."""
    power: float = 1.0
    """Power of the polynomial; 1 is a line."""
    width: int | None = None
    """Width of the models that `lr` is for: a narrower one learns at a higher rate, see rates.py.
    None: `lr` is taken as it is. The recipes of fine-tuning say 768, unless `lr` is set."""


@dataclass
class BatchConfig:
    """What an update sees; see `data/batches.py`."""

    max_tokens: int | None = 4400
    """Most tokens of a micro-batch."""
    batch_size: int | None = None
    """Examples of a micro-batch; None: as many as `max_tokens` allows."""
    update_freq: int = 1
    """Micro-batches of an update, over all processes."""
    warmup_updates: int | None = None
    """Updates over which an update grows from one micro-batch to `update_freq`; None: none."""
    order: str = "random"
    """"random": padding costs nothing, so only the budget counts; "fairseq": the batches of
    fairseq 0.12.2 with this seed, one by one, of masked_lm and of sentence_prediction."""
    multiple: int = 1
    """In fairseq's order: a micro-batch has fewer examples, or a multiple of this
    (`--required-batch-size-multiple`, 8 there)."""


@dataclass
class LoopConfig:
    """Length, precision and output of a run; see `loop/training_loop.py`."""

    max_updates: int | None = None
    """The run ends after so many updates; None: `max_epochs` ends it."""
    max_epochs: int | None = None
    """The run ends after reading the training set so often; None: `max_updates` ends it."""
    max_minutes: float | None = None
    """Time for this start of the run: it saves and stops in time; the same command resumes."""
    evaluate_every: int | None = None
    """Updates between evaluations; None: at the end of each epoch; 0: never."""
    patience: int | None = None
    """Stop after this many evaluations without a new best."""
    save_every: int | None = None
    """Updates between states to resume from; None: after each evaluation and every
    `save_minutes`; 0: never, a stopped run starts from scratch."""
    save_minutes: float = 10.0
    """Minutes between states to resume from; see `save_every`."""
    log_every: int = 10
    """Updates between rows of the log."""
    precision: str = "no"
    """"no" (float32), "bf16" or "fp16"."""
    gradient_checkpointing: bool = False
    """Recompute each layer in the backward pass: less memory, a third more time."""
    parallel: str = "ddp"
    """With several processes: "ddp", or "fsdp", which shards weights and optimizer."""
    state: str = "whole"
    """How states to resume from are written: "whole" by the first process, or "sharded": each
    process writes its part while the training continues. Either is read by any number of them."""
    fairseq_files: bool = False
    """Write the best model and the last one as fairseq's trainer does too: checkpoint_best.pt and
    checkpoint_last.pt, which fairseq loads. A command after `--fairseq` sets it."""
    find_unused_parameters: bool = True
    """DDP needs it if some weights get no gradient, as the LM head in fine-tuning."""
    peak_flops: float | None = None
    """FLOP/s that a device could do at best, for `model_flops_utilization` in the log; None: known
    for some GPUs in 16 bits, and else left out."""
    degenerate: str = "warn"
    """What to do when the loss stays that of chance: "warn" or "stop"."""
    tensorboard: bool = False
    """Whether to log for TensorBoard too."""
    progress: bool | None = None
    """Whether to show a bar; None: on a terminal only."""


@dataclass
class Config:
    """The configuration of a training run: every setting, by section."""

    model: str = "roberta.base"
    """Name or path of what `load_model` loads."""
    pretrained: bool = True
    """False: the architecture of `model` with random weights; where `data.train` is a folder of
    fairseq-preprocess, with the vocabulary of that."""
    restore: bool = False
    """Resume the run of fairseq's that `model`, its checkpoint_last.pt, is of: optimizer, updates
    and place in the data are taken from it."""
    architecture: dict[str, Any] = field(default_factory=dict)
    """Fields of `RobertaConfig` to change; a model with weights allows only those that no tensor
    depends on, as dropout."""
    output: str = "run"
    """Folder that everything is written into."""
    resume: bool = True
    """Whether to resume a run in `output`."""
    seed: int = 1
    """Seed of the order, the masks, dropout and new weights."""
    data: DataConfig = field(default_factory=DataConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)
