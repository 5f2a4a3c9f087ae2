"""What a training run can be told: dataclasses with types and limits.

They are filled from conf/*.yaml and the command line. hydra composes and omegaconf checks types;
`check` knows the limits. Nothing in a file names code.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Optional, TypeVar

from roberta_hub.config import RobertaConfig
from roberta_hub.errors import InputError, MissingExtraError, UnknownNameError
from roberta_hub.train.optimizer import DECAYS, SCHEDULES

Settings = TypeVar("Settings")
CONF = Path(__file__).with_name("conf")
GROUPS = ("pretrain", "finetune")
PRECISIONS = ("no", "bf16", "fp16")
PARALLEL = ("ddp", "fsdp")
DEGENERATE = ("warn", "stop")

# `Optional[...]` rather than `| None`: omegaconf evaluates these on Python 3.10 too.


@dataclass
class DataConfig:
    """Where the examples are; `examples.py` and `blocks.py` know the layouts."""

    train: Optional[str] = None  # noqa: UP045
    """File, folder or token blocks to learn from."""
    valid: Optional[str] = None  # noqa: UP045
    """The held-out set that chooses the best checkpoint."""
    format: Optional[str] = None  # noqa: UP045
    """Layout of the files; None: from their names."""
    columns: dict[str, Any] = field(default_factory=dict)
    """What the columns are called, `{sentence: text, label: stars}` for example."""
    labels: Optional[list[str]] = None  # noqa: UP045
    """Class names in the order of the logits; None: those found in the training set, sorted."""
    limit: Optional[int] = None  # noqa: UP045
    """Use this many training examples; None: all."""


@dataclass
class TaskConfig:
    """What is learnt."""

    name: str = "???"
    """masked_lm, replaced_tokens; classification, regression, multi_label, tokens, choice, span,
    wsc, winogrande."""
    head: str = "sentence_classification_head"
    """Name of the head in the saved model."""
    metric: Optional[str] = None  # noqa: UP045
    """What chooses the best checkpoint; None: the task's own."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keywords of the task itself, such as `max_length`, `mask_prob`, `margin_alpha`."""


@dataclass
class OptimizerConfig:
    """Adam and its learning rate; see `optimizer.py`."""

    lr: float = 1e-5
    betas: list[float] = field(default_factory=lambda: [0.9, 0.98])
    eps: float = 1e-6
    weight_decay: float = 0.1
    decay: str = "weights"
    """"weights", or "fairseq": biases and LayerNorms decay too."""
    layer_decay: float = 1.0
    """Each layer's rate as a fraction of the one above it."""
    clip_norm: float = 0.0
    """Largest norm of the gradient; 0: as it is."""
    schedule: str = "polynomial_decay"
    warmup_updates: Optional[int] = None  # noqa: UP045
    """None: 6 % of the updates, as in the GLUE recipes."""
    total_updates: Optional[int] = None  # noqa: UP045
    """Where the decay ends; None: at `loop.max_updates`, else where `loop.max_epochs` end."""
    end_lr: float = 0.0
    power: float = 1.0


@dataclass
class BatchConfig:
    """What an update sees; see `batches.py`."""

    max_tokens: Optional[int] = 4400  # noqa: UP045
    """Tokens of a micro-batch."""
    batch_size: Optional[int] = None  # noqa: UP045
    """Examples of a micro-batch; None: as many as `max_tokens` lets in."""
    update_freq: int = 1
    """Micro-batches of an update, over all processes."""


@dataclass
class LoopConfig:
    """How long, how precisely, and what is written; see `loop.py`."""

    max_updates: Optional[int] = None  # noqa: UP045
    max_epochs: Optional[int] = None  # noqa: UP045
    max_minutes: Optional[float] = None  # noqa: UP045
    """Of this invocation: it saves and stops in time, and goes on when started again."""
    evaluate_every: Optional[int] = None  # noqa: UP045
    """Updates between evaluations; None: at the end of each epoch; 0: never."""
    patience: Optional[int] = None  # noqa: UP045
    """Stop after this many evaluations without a new best."""
    save_every: Optional[int] = None  # noqa: UP045
    """Updates between states to resume from; None: after each evaluation and every
    `save_minutes`."""
    save_minutes: float = 10.0
    log_every: int = 10
    """Updates between rows of the log."""
    precision: str = "no"
    """"no" (float32), "bf16" or "fp16"."""
    gradient_checkpointing: bool = False
    """Recompute each layer in the backward pass: less memory, a third more time."""
    parallel: str = "ddp"
    """With several processes: "ddp", or "fsdp", which shards weights and optimizer."""
    find_unused_parameters: bool = True
    """For DDP, where some weights get no gradient, as the LM head in fine-tuning."""
    degenerate: str = "warn"
    """A run whose loss stays that of chance: "warn", or "stop"."""
    tensorboard: bool = False
    progress: Optional[bool] = None  # noqa: UP045
    """A bar; None: where somebody is looking."""


@dataclass
class Config:
    """A training run."""

    model: str = "roberta.base"
    """Name or path of what `load_model` loads."""
    pretrained: bool = True
    """False: the named architecture with random weights."""
    architecture: dict[str, Any] = field(default_factory=dict)
    """Fields of `RobertaConfig` to change; with weights only those that no tensor depends on, as
    dropout."""
    output: str = "run"
    """Folder of everything that is written."""
    resume: bool = True
    """Go on where a run in `output` stopped."""
    seed: int = 1
    data: DataConfig = field(default_factory=DataConfig)
    task: TaskConfig = field(default_factory=TaskConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)


def check(config: Config) -> Config:
    """The configuration, or an InputError that names the field, its value and its limits."""
    _choices(config)
    _ranges(config)
    optimizer, loop = config.optimizer, config.loop
    if len(optimizer.betas) != 2 or not all(0 <= beta < 1 for beta in optimizer.betas):
        raise InputError(f"optimizer.betas is {optimizer.betas}; give two numbers in 0..1")
    warmup, total = optimizer.warmup_updates, optimizer.total_updates
    if optimizer.schedule != "fixed" and warmup and total and warmup >= total:
        raise InputError(
            f"optimizer.warmup_updates {warmup} leaves nothing of the {total} updates; "
            "make it smaller, or null for 6 %"
        )
    if loop.max_updates is None and loop.max_epochs is None:
        raise InputError("neither loop.max_updates nor loop.max_epochs is set; the run has no end")
    if config.batch.max_tokens is None and config.batch.batch_size is None:
        raise InputError("neither batch.max_tokens nor batch.batch_size is set")
    names = [f.name for f in dataclasses.fields(RobertaConfig)]
    for name in config.architecture:
        if name not in names:
            raise UnknownNameError(f"no field architecture.{name}{near(name, names)}")
    return config


def _choices(config: Config) -> None:
    for name, choices in {
        "optimizer.decay": DECAYS,
        "optimizer.schedule": SCHEDULES,
        "loop.precision": PRECISIONS,
        "loop.parallel": PARALLEL,
        "loop.degenerate": DEGENERATE,
    }.items():
        section, key = name.split(".")
        value = getattr(getattr(config, section), key)
        if value not in choices:
            raise UnknownNameError(f"{name} is {value!r}{near(value, choices)}")


_MINIMA: dict[str, float] = {
    **dict.fromkeys(("optimizer.lr", "optimizer.eps", "optimizer.weight_decay"), 0),
    **dict.fromkeys(("optimizer.clip_norm", "optimizer.end_lr", "optimizer.layer_decay"), 0),
    **dict.fromkeys(("optimizer.warmup_updates", "optimizer.power", "loop.evaluate_every"), 0),
    **dict.fromkeys(("optimizer.total_updates", "batch.max_tokens", "batch.batch_size"), 1),
    **dict.fromkeys(("batch.update_freq", "loop.max_updates", "loop.max_epochs", "data.limit"), 1),
    **dict.fromkeys(("loop.patience", "loop.save_every", "loop.log_every"), 1),
    **dict.fromkeys(("loop.max_minutes", "loop.save_minutes"), 0),
}


def _ranges(config: Config) -> None:
    for name, least in _MINIMA.items():
        section, key = name.split(".")
        value = getattr(getattr(config, section), key)
        if value is not None and not least <= value < float("inf"):
            raise InputError(f"{name} is {value}, must be at least {least} and finite")


def read_options(kind: type[Settings], values: Mapping[str, Any]) -> Settings:
    """`task.options` as the dataclass of a task, with names and types checked.

    Raises:
        UnknownNameError: no such option; the message lists near ones.
        InputError: a value of another type.
    """
    known = {item.name: str(item.type) for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name, value in values.items():
        if name not in known:
            raise UnknownNameError(f"no option task.options.{name}{near(name, list(known))}")
        kinds, given = known[name].split(" | "), type(value).__name__
        if given == "NoneType":
            given = "None"
        if given not in kinds and not (given == "int" and "float" in kinds):
            raise InputError(f"task.options.{name} is {value!r}, must be {known[name]}")
    return kind(**values)


def near(name: object, names: Sequence[str]) -> str:
    """The end of a sentence about an unknown name: those that look like it, else all."""
    close = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; there are {', '.join(names)}"


def fields(kind: type = Config, prefix: str = "") -> Iterator[str]:
    """Dotted names of every field that can be set.

    Example:
        >>> [name for name in fields() if name.startswith("batch.")]
        ['batch.max_tokens', 'batch.batch_size', 'batch.update_freq']
    """
    parts = {"data": DataConfig, "task": TaskConfig, "optimizer": OptimizerConfig}
    parts |= {"batch": BatchConfig, "loop": LoopConfig}
    for item in dataclasses.fields(kind):
        if not prefix and item.name in parts:
            yield from fields(parts[item.name], f"{item.name}.")
        else:
            yield prefix + item.name


def recipes(group: str) -> list[str]:
    """Names of the yaml files of a group.

    Example:
        >>> recipes("pretrain")
        ['base', 'tiny']
    """
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


_composing = threading.RLock()
"""hydra's state is the whole process's: one call at a time changes it and puts it back."""


def compose(overrides: Sequence[str]) -> Config:
    """The configuration that `roberta-hub train` makes of its arguments.

    Args:
        overrides: hydra's grammar: "finetune=mnli", "optimizer.lr=2e-5", "data.columns={sentence:
            text}".

    Raises:
        UnknownNameError: no such recipe or field; the message lists near ones.
        InputError: a value of the wrong type or out of range.

    Example:
        >>> config = compose(["finetune=rte", "data.train=train.tsv", "loop.max_epochs=3"])
        >>> config.task.name, config.optimizer.lr, config.batch.batch_size, config.loop.max_epochs
        ('classification', 2e-05, 16, 3)
    """
    try:
        from hydra import compose as hydra_compose
        from hydra import initialize_config_dir
        from hydra.core.config_store import ConfigStore
        from hydra.core.global_hydra import GlobalHydra
        from hydra.errors import HydraException
        from hydra.version import VersionBase
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException
    except ImportError as error:
        raise MissingExtraError(
            f"training configurations need hydra ({error}); pip install 'roberta-hub[train]'"
        ) from None
    given = [_checked(override) for override in overrides]
    with _composing:
        store = ConfigStore.instance()
        repo = (
            store.repo
        )  # others store theirs here: an imported fairseq has a "config" and a group "model"
        store.repo = {
            name: node for name, node in repo.items() if name.startswith(("hydra", "_dummy"))
        }
        store.store("train_schema", node=Config)
        before = GlobalHydra.instance().hydra  # a program around us may have its own
        version = VersionBase.instance().getbase()  # fairseq 0.12.2 dies where 1.3 stays set
        GlobalHydra.instance().clear()
        try:
            with initialize_config_dir(str(CONF), version_base="1.3"):
                node = hydra_compose("config", given)
            config = OmegaConf.to_object(node)
        except (HydraException, OmegaConfBaseException) as error:
            _explain(error, overrides)
        finally:
            store.repo = repo
            VersionBase.instance().version_base = version
            GlobalHydra.instance().clear()
            if before is not None:
                GlobalHydra.instance().initialize(before)
    assert isinstance(config, Config)
    return check(config)


def _checked(override: str) -> str:
    """Refuse names and grammar that cannot be, before hydra says so in its own words."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    found = re.fullmatch(r"(\+{0,2})([^=\s+~]+)=(.*)", override, flags=re.DOTALL)
    if found is None:
        raise InputError(f"{override!r} is no setting; write name=value, for example {_EXAMPLE}")
    name, value = found[2], found[3]
    if name in GROUPS:
        if value not in recipes(name):
            raise UnknownNameError(f"no configuration {name}={value}{near(value, recipes(name))}")
        return override
    try:
        OverridesParser.create().parse_override(override)
    except HydraException as error:
        raise InputError(
            f"{override}: not hydra's grammar ({str(error).splitlines()[0]}); quote what has "
            f"special "
            f"""characters: "{name}='...'" """.rstrip()
        ) from None
    if name.startswith(_OPEN) or f"{name}." in _OPEN:
        return f"++{name}={value}"  # what they hold is not known to hydra
    names = [*fields(), *GROUPS]
    if name not in names:
        leaves = [known for known in names if known.rsplit(".", 1)[-1] == name]
        leaves = leaves or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        hint = (
            f"did you mean {' or '.join(leaves)}?"
            if leaves
            else "roberta-hub train --help lists them"
        )
        raise UnknownNameError(f"no field {name!r}; {hint}")
    return override


_OPEN = ("data.columns.", "task.options.", "architecture.")
"""Fields that hold names of somebody else's choice; whoever reads them checks them."""
_EXAMPLE = "finetune=mnli data.train=train.tsv optimizer.lr=2e-5"


def _explain(error: Exception, overrides: Sequence[str]) -> NoReturn:
    """An exception of hydra's as one of ours, in one line."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    key = next((line.split(":", 1)[1].strip() for line in lines if "full_key" in line), "")
    what = lines[0] if lines else type(cause).__name__
    if key == "task.name":
        both = [f"{group}={name}" for group in GROUPS for name in recipes(group)]
        raise InputError(f"nothing to train for; begin with one of {', '.join(both)}") from None
    given = next((o for o in overrides if key and o.lstrip("+~").startswith(f"{key}=")), "")
    where = given or key or " ".join(overrides)
    raise InputError(f"{where}: {what}") from None
