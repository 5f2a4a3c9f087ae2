"""Builds the task that a configuration names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.nn import Module

from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.train.data.data_bins import find_splits
from roberta_hub.train.limits import suggestion
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.features import roberta_of
from roberta_hub.train.tasks.multiple_choice import CHOICE
from roberta_hub.train.tasks.multitask import MultitaskTask, SideTask, side_tasks
from roberta_hub.train.tasks.options import (
    PRETRAINING_TASKS,
    Source,
    TaskSettings,
    options_of,
    pretraining_options,
)
from roberta_hub.train.tasks.pretraining import build_pretraining
from roberta_hub.train.tasks.pronouns import WINOGRANDE, WSC
from roberta_hub.train.tasks.questions import SPAN
from roberta_hub.train.tasks.record import TaskRecord
from roberta_hub.train.tasks.sentence_vectors import SENTENCES
from roberta_hub.train.tasks.sentences import CLASSIFICATION, MULTI_LABEL, REGRESSION
from roberta_hub.train.tasks.tokens import TOKENS
from roberta_hub.train.tasks.training_task import TrainingTask

FINETUNING_TASKS: dict[str, TaskRecord[Any, Any]] = {
    "classification": CLASSIFICATION,
    "regression": REGRESSION,
    "multi_label": MULTI_LABEL,
    "tokens": TOKENS,
    "choice": CHOICE,
    "span": SPAN,
    "sentences": SENTENCES,
    "wsc": WSC,
    "winogrande": WINOGRANDE,
}
"""The fine-tuning tasks by name."""


def read_settings(config: Config) -> TaskSettings[Any]:
    """Read what a configuration says of its task: the options, and where the data are."""
    name, data = config.task.name, config.data
    check_name(name)
    options: Any = (pretraining_options if name in PRETRAINING_TASKS else options_of)(config)
    if data.train is None:
        raise InputError("data.train is not set; name a file with data.train=...")
    train = Source("train", data.train, find_splits(data.train, "train"))
    valid = data.valid and Source("valid", data.valid, find_splits(data.valid, "valid"))
    return TaskSettings(config, options, train, valid or None)


def build_task(
    config: Config, interface: RobertaHubInterface, *, fresh: bool = True
) -> TrainingTask:
    r"""Build the task that a configuration describes around a model.

    Fine-tuning also makes the head: one of this name with these labels learns on, else a new one is
    drawn from the seed.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import roberta_hub
        >>> from roberta_hub.train.config import DataConfig, TaskConfig
        >>> path = Path(tempfile.mkdtemp()) / "train.tsv"
        >>> _ = path.write_text("sentence\tlabel\nGood!\tyes\nBad.\tno\n")
        >>> data, task = DataConfig(train=str(path)), TaskConfig(name="classification")
        >>> config = Config(data=data, task=task)
        >>> task = build_task(config, roberta_hub.load_model("roberta.base", pretrained=False))
        >>> task.batch([0, 1], epoch=0).count
        2
    """
    return build(read_settings(config), interface, fresh=fresh)


def build(
    settings: TaskSettings[Any], interface: RobertaHubInterface, *, fresh: bool
) -> TrainingTask:
    """Build a task as `build_task` does, of settings that are read."""
    config = settings.config
    interface.zero_shot_settings = None
    if config.task.name in PRETRAINING_TASKS:
        return build_pretraining(settings, interface, fresh=fresh)
    sides = side_tasks(settings.options, roberta_of(interface).config.max_positions)
    for side in sides:
        check_name(side.name)
    task = FINETUNING_TASKS[config.task.name].task(settings, interface)
    return (
        MultitaskTask(task, sides, _others(config, interface, sides), config.seed)
        if sides
        else task
    )


def _others(
    config: Config, interface: RobertaHubInterface, sides: Sequence[SideTask]
) -> list[TrainingTask]:
    """Build the side tasks of a run; the main task's head stays the default of the verbs."""
    own_head, task, others = interface.default_head, interface.task, []
    for number, side in enumerate(sides, 1):
        before = _heads(interface)
        own = side.config(config, number)
        others.append(build_task(own, interface))
        now = _heads(interface)
        if any(now.get(name) is not head for name, head in before.items()):
            raise InputError(
                f"task.options.beside: {side.name} would learn in the head {own.task.head!r}, "
                "which has other labels; give it one of its own with head: ..."
            )
    interface.default_head, interface.task = own_head, task
    return others


def _heads(interface: RobertaHubInterface) -> dict[tuple[str, str], Module]:
    """Return every head of a model, by kind and name."""
    roberta = roberta_of(interface)
    kinds = ("classification_heads", "token_heads", "span_heads")
    return {(kind, name): h for kind in kinds for name, h in getattr(roberta, kind).items()}


def check_name(name: str) -> None:
    """Refuse the name of a task that does not exist; the message lists near ones."""
    known = [*PRETRAINING_TASKS, *FINETUNING_TASKS]
    if name not in known:
        raise UnknownNameError(f"task.name is {name!r}{suggestion(name, known)}")
