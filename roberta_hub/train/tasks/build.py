"""Builds the task that a configuration names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch.nn import Module

from roberta_hub.errors import InputError, UnknownNameError
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.train.limits import suggestion
from roberta_hub.train.settings import Config
from roberta_hub.train.tasks.features import roberta_of
from roberta_hub.train.tasks.finetuning import FineTuning
from roberta_hub.train.tasks.multiple_choice import choice
from roberta_hub.train.tasks.multitask import MultitaskTask, SideTask, side_tasks
from roberta_hub.train.tasks.options import options_of
from roberta_hub.train.tasks.pretraining import PRETRAINING_TASKS, build_pretraining
from roberta_hub.train.tasks.pronouns import winogrande, wsc
from roberta_hub.train.tasks.questions import questions
from roberta_hub.train.tasks.sentence_vectors import sentence_vectors
from roberta_hub.train.tasks.sentences import classification, multi_label, regression
from roberta_hub.train.tasks.tokens import tokens
from roberta_hub.train.tasks.training_task import TrainingTask

FINETUNING_BUILDERS: dict[str, Callable[[Config, RobertaHubInterface], FineTuning]] = {
    "classification": classification,
    "regression": regression,
    "multi_label": multi_label,
    "tokens": tokens,
    "choice": choice,
    "span": questions,
    "sentences": sentence_vectors,
    "wsc": wsc,
    "winogrande": winogrande,
}
"""Builders of the fine-tuning tasks by name."""


def build_task(
    config: Config, interface: RobertaHubInterface, *, fresh: bool = True
) -> TrainingTask:
    r"""Build the task that a configuration describes around a model.

    Fine-tuning also makes the head: one of this name with these labels learns on, else a new one is
    drawn from the seed.

    Args:
        config: `task`, `data`, `seed` and, for pre-training, `output` are read.
        interface: changed: its heads, labels and task name; `zero_shot_settings`, which held for
            the weights before; its weights by training.
        fresh: whether the run begins here; one that goes on has its weights in a state.

    Raises:
        UnknownNameError: no such task, option, metric or format.
        InputError: an example that cannot be used, with its file and line; several tasks
            that want one head for different labels.

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
    check_name(config.task.name)
    interface.zero_shot_settings = None
    if config.task.name in PRETRAINING_TASKS:
        return build_pretraining(config, interface, fresh=fresh)
    sides = side_tasks(options_of(config), roberta_of(interface).config.max_positions)
    for side in sides:
        check_name(side.name)
    task = FINETUNING_BUILDERS[config.task.name](config, interface)
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
    known = [*PRETRAINING_TASKS, *FINETUNING_BUILDERS]
    if name not in known:
        raise UnknownNameError(f"task.name is {name!r}{suggestion(name, known)}")
