"""Trains a model as a configuration says, and holds the command `roberta-hub train`."""

from __future__ import annotations

import copy
import dataclasses
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from roberta_hub.errors import InputError
from roberta_hub.files import write_json
from roberta_hub.hub import load_model
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.model.heads import normalizes, pooling_of
from roberta_hub.model.roberta import require_roberta
from roberta_hub.terminal import clean
from roberta_hub.text.task import Task
from roberta_hub.train.config import compose
from roberta_hub.train.limits import check
from roberta_hub.train.rates import scale_rate
from roberta_hub.train.reports import RunResult, first_process, logger, on_stderr
from roberta_hub.train.settings import Config
from roberta_hub.train.usage import usage

if TYPE_CHECKING:
    from roberta_hub.text.tokenizer import Tokenizer
    from roberta_hub.train.data.data_bins import Split
    from roberta_hub.train.tasks.options import TaskSettings
    from roberta_hub.train.tasks.training_task import TrainingTask

SIZELESS_FIELDS = (
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "pooler_dropout",
    "layerdrop",
)
"""Fields of the architecture that no tensor's shape depends on."""


ORDERED_AS_FAIRSEQ = ("masked_lm", "classification", "regression")
"""Tasks whose batches fairseq's order is known of."""


def train(config: Config) -> RobertaHubInterface:
    """Train as configured; resume a run in `config.output`."""
    return result(run(config))


def run(config: Config) -> RunResult:
    """Train as `train` does, and return how the run ended instead of its model."""
    return _run(check(config))


def _run(config: Config) -> RunResult:
    """Train as a checked configuration says."""
    started = time.monotonic()
    from roberta_hub.train.loop.output_folder import claim_folder
    from roberta_hub.train.loop.training_loop import train_claimed

    settings = _checked(config)
    with claim_folder(config.output) as directory:  # before a model is fetched for it
        task = _make_task(settings)
        model: Any = task.module.roberta
        config = at_width(config, model.config.embed_dim)
        report = train_claimed(task, config, started)
        if first_process():
            write_json(directory / "train.json", dataclasses.asdict(config))
    return report


def at_width(config: Config, width: int) -> Config:
    """Scale a recipe's rate to a model that is narrower than those it is for, and say it.

    Example:
        >>> from roberta_hub.train.settings import OptimizerConfig
        >>> config = Config(optimizer=OptimizerConfig(lr=3e-5, width=768))
        >>> at_width(config, 384).optimizer.lr, at_width(config, 1024).optimizer.lr
        (0.00024, 3e-05)
    """
    optimizer = config.optimizer
    if optimizer.width is None:
        return config
    rate = scale_rate(optimizer.lr, width, optimizer.width)
    if rate != optimizer.lr and first_process():
        logger.info(
            "learning rate %.2g: the recipe's %.2g is for models of width %s, and this one has %s; "
            "optimizer.lr=... sets another",
            rate,
            optimizer.lr,
            optimizer.width,
            width,
        )
    return dataclasses.replace(
        config, optimizer=dataclasses.replace(optimizer, lr=rate, width=None)
    )


def _checked(config: Config) -> TaskSettings[Any]:
    """Read the settings of the task, and check the paths of its data before a model is fetched."""
    from roberta_hub.train.data.streams import source_files
    from roberta_hub.train.tasks.build import check_name, read_settings
    from roberta_hub.train.tasks.options import PRETRAINING_TASKS

    name = config.task.name
    check_name(name)
    if config.batch.order == "fairseq" and name not in ORDERED_AS_FAIRSEQ:
        raise InputError(
            f"batch.order=fairseq is for {', '.join(ORDERED_AS_FAIRSEQ)}, and task.name is {name}; "
            "leave it out"
        )
    settings = read_settings(config)
    for source in (settings.train, settings.valid):
        if source is None or source.splits:
            continue
        if name in PRETRAINING_TASKS:
            source_files(source.path)
        elif not os.path.exists(source.path):  # which also answers for names that no file can have
            raise InputError(f"data.{source.name}: {source.path}: no such file or folder")
    return settings


def result(report: RunResult) -> RobertaHubInterface:
    """Load the model that a run has left."""
    return load_model(report.directory / ("last" if report.best is None else "best"))


def make_task(config: Config) -> TrainingTask:
    """Make the model and what it is to learn, with the same weights in every process.

    All processes draw from the seed. A resumed run has its weights in a state, so its task
    makes none.
    """
    from roberta_hub.train.tasks.build import read_settings

    return _make_task(read_settings(config))


def _make_task(settings: TaskSettings[Any]) -> TrainingTask:
    from roberta_hub.train.loop.state import find_state
    from roberta_hub.train.tasks.build import build

    config = settings.config
    interface = make_model(config, settings.train.splits)
    fresh = not config.resume or find_state(Path(config.output)) is None
    torch.manual_seed(config.seed)
    return build(settings, interface, fresh=fresh)


def make_model(config: Config, splits: Sequence[Split] | None = None) -> RobertaHubInterface:
    """Make the model to begin with, in train mode; None: `find_splits` looks for the splits."""
    torch.manual_seed(config.seed)
    interface = _loaded(config, splits)
    if not config.architecture:
        return interface.train()
    old = require_roberta(interface.model, "training changes")
    has = dataclasses.asdict(old.config)
    changed = {name for name, value in config.architecture.items() if value != has[name]}
    if config.pretrained and (fixed := sorted(changed - set(SIZELESS_FIELDS))):
        raise InputError(
            f"architecture.{fixed[0]} cannot change in a model that has weights, only "
            f"{', '.join(SIZELESS_FIELDS)}; pretrained=false begins with random weights"
        )
    for name in changed & {"vocab_size", "padding_idx", "separator_idx"}:
        raise InputError(
            f"architecture.{name} is {config.architecture[name]!r}; the vocabulary of "
            f"{config.model} makes it {has[name]}"
        )
    torch.manual_seed(config.seed)
    try:
        model = type(old)(dataclasses.replace(old.config, **config.architecture))
    except (RuntimeError, MemoryError, OverflowError) as error:  # torch has no room for the weights
        raise InputError(
            f"a model of architecture {config.architecture} cannot be made here: "
            f"{str(error).splitlines()[0][:200]}"
        ) from None
    if old.pooler is not None:
        model.add_pooler()
    if old.replaced_head is not None:
        model.add_replaced_head()
    if old.sentence_layers is not None:
        if model.config.embed_dim != old.config.embed_dim:
            raise InputError(
                "architecture.embed_dim cannot change in a model with layers over its sentence "
                "vectors, which take the old width"
            )
        model.sentence_layers = copy.deepcopy(old.sentence_layers)
    for name, head in old.classification_heads.items():
        outputs, inner = head.out_proj.out_features, head.dense.out_features  # type: ignore[union-attr]
        model.register_classification_head(
            name,
            outputs,  # type: ignore[arg-type]
            inner,  # type: ignore[arg-type]
            pooling=pooling_of(head),
            normalize=normalizes(head),
        )
    for kind in ("token", "span"):
        for name, head in getattr(old, f"{kind}_heads", {}).items():
            sizes = (head.out_proj.out_features,) if kind == "token" else ()
            getattr(model, f"register_{kind}_head")(name, *sizes)
    if config.pretrained:
        model.load_state_dict(old.state_dict())
    interface.model, interface.cfg = model, model.config  # the interface keeps all else
    return interface.train()


def _loaded(config: Config, splits: Sequence[Split] | None) -> RobertaHubInterface:
    """Load the model; one with random weights has the vocabulary that the data name."""
    from roberta_hub.train.data.data_bins import find_splits
    from roberta_hub.train.vocabularies import folder_vocabulary, read_vocabulary

    path = Path(config.model)
    if splits is None:
        splits = find_splits(config.data.train or "", "train")
    is_file = os.path.isfile(path)  # which also answers for names that no file can have
    if config.restore and not is_file:
        from roberta_hub.train.fairseq_options import PRETRAINED

        raise InputError(
            f"restore=true resumes a run of fairseq's, and model={config.model} is no file; "
            f"give model=RUN/checkpoint_last.pt, or {PRETRAINED}"
        )
    if config.data.vocabulary is not None and config.pretrained:
        raise InputError(
            f"data.vocabulary={config.data.vocabulary} is for a model that begins with random "
            f"weights, and {config.model} has learned the meaning of its own ids; set "
            "pretrained=false, or leave data.vocabulary out"
        )
    data = splits[0].dictionary if splits else None
    beside = (path.parent / name for name in ("dict.txt", "input0/dict.txt"))
    if is_file and data is not None and not any(map(Path.is_file, beside)):
        return load_model(path, data_name_or_path=str(data))
    interface = load_model(config.model, pretrained=config.pretrained)
    if config.pretrained:
        return interface
    name = config.data.vocabulary
    if name is not None:
        return _with_vocabulary(interface, read_vocabulary(name), name, config.seed)
    if data is None:
        return interface
    return _with_vocabulary(interface, folder_vocabulary(data), data, config.seed)


def _with_vocabulary(
    interface: RobertaHubInterface, tokenizer: Tokenizer, source: str | Path, seed: int
) -> RobertaHubInterface:
    """Give a model with random weights another vocabulary, and a table of its size."""
    own = interface.tokenizer
    if (
        tokenizer.dictionary.symbols == own.dictionary.symbols
        and tokenizer.engine.fingerprint == own.engine.fingerprint
    ):
        return interface
    if first_process():
        logger.info("the vocabulary is that of %s, %s symbols", source, len(tokenizer))
    old = require_roberta(interface.model, "training changes")
    torch.manual_seed(seed)
    model = type(old)(dataclasses.replace(old.config, vocab_size=len(tokenizer)))
    return RobertaHubInterface(
        model.config, Task(tokenizer.dictionary), model, bpe=tokenizer.engine
    )


def _translated(settings: Sequence[str]) -> list[str]:
    """Translate what follows `--fairseq`, and say it; settings before it are ours and win."""
    if "--fairseq" not in settings:
        return list(settings)
    from roberta_hub.train.fairseq_options import NO_SIZE, as_overrides, translate

    at = list(settings).index("--fairseq")
    own, theirs = list(settings[:at]), settings[at + 1 :]
    found, said = translate(theirs)
    names = {word.lstrip("+").partition("=")[0] for word in own}
    sizes = ("batch.batch_size", "batch.max_tokens")
    if names.isdisjoint(sizes) and all(found[name] is None for name in sizes):
        raise InputError(NO_SIZE)
    words = as_overrides({name: value for name, value in found.items() if name not in names}) + own
    if first_process():
        for sentence in said:
            print(f"roberta-hub: without effect: {clean(sentence)}", file=sys.stderr)
        print(f"roberta-hub: the same as: train {clean(shlex.join(words))}", file=sys.stderr)
    return words


def command(settings: Sequence[str]) -> int:
    """Run `roberta-hub train ...`; return its exit status, 130 after Ctrl-C."""
    if not settings or any(word in ("-h", "--help") for word in settings):
        print(usage())
        return 0
    settings = _translated(settings)
    config = compose(settings)
    with on_stderr():
        report = _run(config)
    if not first_process():
        return 130 if report.stopped == "interrupted" else 0  # the first process reports for all
    numbers = ", ".join(f"{name} {value:.4g}" for name, value in report.metrics.items())
    print(
        f"stopped after update {report.update} ({report.stopped}){': ' if numbers else ''}{numbers}"
    )
    if report.best is not None:
        print(
            f"best: {report.best:.4g} after update {report.best_update}, in {report.directory}/best"
        )
    print(f"the model of the end: {report.directory}/last")
    if config.loop.fairseq_files:
        print(f"both as fairseq's trainer leaves them: {report.directory}/checkpoint_*.pt")
    if not report.finished:
        print(
            "not finished; the same command resumes from here, with the settings "
            + shlex.join(settings)
        )
    return 130 if report.stopped == "interrupted" else 0
