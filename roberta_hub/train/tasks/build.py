"""The fine-tuning tasks by name."""

from __future__ import annotations

from collections.abc import Callable

from roberta_hub.errors import UnknownNameError
from roberta_hub.interface import RobertaHubInterface
from roberta_hub.train.config import Config, near
from roberta_hub.train.tasks.choices import choice
from roberta_hub.train.tasks.finetuning import FineTuning
from roberta_hub.train.tasks.pronouns import winogrande, wsc
from roberta_hub.train.tasks.questions import span
from roberta_hub.train.tasks.sentences import classification, multi_label, regression
from roberta_hub.train.tasks.tokens import tokens

TASKS: dict[str, Callable[[Config, RobertaHubInterface], FineTuning]] = {
    "classification": classification,
    "regression": regression,
    "multi_label": multi_label,
    "tokens": tokens,
    "choice": choice,
    "span": span,
    "wsc": wsc,
    "winogrande": winogrande,
}


def build_task(config: Config, interface: RobertaHubInterface) -> FineTuning:
    r"""The task that a configuration describes, around a model, whose head it makes.

    A head of this name with these labels learns on; else a new one is drawn from the seed.

    Args:
        config: `task`, `data` and `seed` are read.
        interface: changed: its heads, labels and task name; its weights by training.

    Raises:
        UnknownNameError: no such task, option, metric or format.
        InputError: an example that cannot be used, with its file and line.

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
    if config.task.name not in TASKS:
        raise UnknownNameError(
            f"task.name is {config.task.name!r}{near(config.task.name, list(TASKS))}"
        )
    return TASKS[config.task.name](config, interface)
