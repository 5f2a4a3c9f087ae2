"""Composes the configuration of a run from conf/*.yaml and a command line.

hydra composes, omegaconf checks the types and `limits.check` the ranges. No file names code.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn, get_type_hints

from roberta_hub.errors import (
    InputError,
    InputTypeError,
    MissingExtraError,
    RobertaHubError,
    UnknownNameError,
    near_names,
)
from roberta_hub.extras import install
from roberta_hub.rows.tables import FORMATS, format_of
from roberta_hub.terminal import clean
from roberta_hub.train.limits import check, check_references, suggestion
from roberta_hub.train.settings import (
    BatchConfig,
    Config,
    DataConfig,
    LoopConfig,
    OptimizerConfig,
    TaskConfig,
)

__all__ = [
    "BatchConfig",
    "Config",
    "DataConfig",
    "LoopConfig",
    "OptimizerConfig",
    "TaskConfig",
    "check",
    "compose",
    "fields",
    "recipes",
]
CONF = Path(__file__).with_name("conf")
GROUPS = ("pretrain", "finetune")
SECTIONS: dict[str, type] = {
    "data": DataConfig,
    "task": TaskConfig,
    "optimizer": OptimizerConfig,
    "batch": BatchConfig,
    "loop": LoopConfig,
}


def fields(kind: type = Config, prefix: str = "") -> Iterator[str]:
    """List the dotted names of all settings.

    Example:
        >>> [name for name in fields() if name.startswith("batch.")][:4]
        ['batch.max_tokens', 'batch.batch_size', 'batch.update_freq', 'batch.warmup_updates']
    """
    for item in dataclasses.fields(kind):
        if not prefix and item.name in SECTIONS:
            yield from fields(SECTIONS[item.name], f"{item.name}.")
        else:
            yield prefix + item.name


def recipes(group: str) -> list[str]:
    """List the recipes of a group: the names of its yaml files.

    Example:
        >>> recipes("pretrain")
        ['base', 'mask_30', 'tiny']
    """
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


_composing = threading.RLock()
"""hydra's state belongs to the whole process: one call at a time changes it and puts it back."""


def compose(overrides: Sequence[str]) -> Config:
    """Compose the configuration that `roberta-hub train` makes of its arguments.

    A recipe's numbers of updates are those of its published set. For a table of your own, those
    that are not set are None: the run lasts `loop.max_epochs`, and warm-up takes 6 % of it. A table
    is your own if `data.format` says csv, tsv, jsonl or parquet, if `data.columns` names columns,
    or if the name of `data.train` ends in .csv or .parquet; the last two also leave the recipe's
    layout for the one that the file's name says.

    A recipe's rate is for models of its `optimizer.width`, and `run` scales it to a narrower one. A
    rate that is set here is taken as it is.

    Args:
        overrides: settings in hydra's grammar: "finetune=mnli", "optimizer.lr=2e-5",
            "data.columns={sentence: text}".

    Raises:
        UnknownNameError: no such recipe or field; the message lists near ones.
        InputError: a value of the wrong type or out of range.

    Example:
        >>> config = compose(["finetune=rte", "data.train=train.tsv", "loop.max_epochs=3"])
        >>> config.task.name, config.optimizer.lr, config.batch.batch_size, config.loop.max_epochs
        ('classification', 2e-05, 16, 3)
        >>> mine = compose(["finetune=rte", "data.train=mine.csv"])
        >>> mine.data.format, mine.loop.max_epochs, mine.loop.max_updates
        (None, 10, None)
    """
    try:
        from hydra.errors import HydraException
        from hydra.version import VersionBase  # noqa: F401  # hydra before 1.2 has none
        from omegaconf.errors import OmegaConfBaseException
    except ImportError as error:
        raise MissingExtraError(
            f"training configurations need hydra ({error}): {install('train')}"
        ) from None
    if isinstance(overrides, str) or not isinstance(overrides, Sequence):
        raise InputTypeError(
            f"overrides is a {type(overrides).__name__}; give a list of settings, for example "
            f"{_EXAMPLE.split()}"
        )
    given = [_checked(override) for override in overrides]
    with _composing:
        try:
            config = _composed(given)
        except RobertaHubError:
            raise
        except (HydraException, OmegaConfBaseException, TypeError, ValueError) as error:
            _explain(error, overrides)
    assert isinstance(config, Config)
    names = {override.lstrip("+").partition("=")[0] for override in given}
    _fit_to_table(config, names)
    if names & {"optimizer", "optimizer.lr"} and "optimizer.width" not in names:
        config.optimizer.width = None  # a rate that the caller sets is never scaled
    return check(config)


def _fit_to_table(config: Config, given: set[str]) -> None:
    """Leave the published set of a recipe where the data are a table of the user's own."""
    data = config.data
    if "finetune" not in given or data.train is None:
        return
    named = format_of(Path(data.train))
    if "data.format" not in given and (data.columns or named in ("csv", "parquet")):
        data.format = None
    # Without `max_epochs` the run would have no end.
    if data.format in (None, *FORMATS) and config.loop.max_epochs is not None:
        for section, name in _OF_THE_SET:
            if f"{section}.{name}" not in given:
                setattr(getattr(config, section), name, None)


_OF_THE_SET = (
    ("optimizer", "warmup_updates"),
    ("optimizer", "total_updates"),
    ("loop", "max_updates"),
)
"""Settings that count updates, whose numbers in a recipe are those of its published set."""


def _composed(overrides: list[str]) -> object:
    """Compose with hydra, and leave its state in this process as it was."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.version import VersionBase
    from omegaconf import OmegaConf

    store = ConfigStore.instance()
    # Others store theirs here: an imported fairseq has a "config" and a group "model".
    repo = store.repo
    store.repo = {name: node for name, node in repo.items() if name.startswith(("hydra", "_dummy"))}
    store.store("train_schema", node=Config)
    before = GlobalHydra.instance().hydra  # a program around us may have its own
    version = VersionBase.instance().getbase()  # fairseq 0.12.2 dies where 1.3 stays set
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            node = hydra_compose("config", overrides)
        check_references(OmegaConf.to_container(node, resolve=False))
        return OmegaConf.to_object(node)
    finally:
        store.repo = repo
        VersionBase.instance().version_base = version
        GlobalHydra.instance().clear()
        if before is not None:
            GlobalHydra.instance().initialize(before)


def _checked(override: str) -> str:
    """Refuse names and grammar that cannot be, before hydra says so in its own words."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    if not isinstance(override, str):
        raise InputTypeError(f"a setting is a {type(override).__name__}; write {_EXAMPLE.split()}")
    found = re.fullmatch(r"(\+{0,2})([^=\s+~]+)=(.*)", override, flags=re.DOTALL)
    if found is None:
        raise InputError(
            f"{override[:100]!r} is no setting; write name=value, for example {_EXAMPLE}"
        )
    name, value = found[2], found[3]
    if name in GROUPS:
        if value not in recipes(name):
            raise UnknownNameError(
                f"no configuration {name}={value}{suggestion(value, recipes(name))}"
            )
        return override
    value = _as_text(value) if _is_text(name) else value
    override = f"{found[1]}{name}={value}"
    try:
        OverridesParser.create().parse_override(override)
    except (HydraException, ValueError) as error:  # ValueError: an integer of 5,000 digits
        raise InputError(
            f"{clean(override)[:100]}: not hydra's grammar ({str(error).splitlines()[0]}); quote "
            f"what has special "
            f"""characters: "{name}='...'" """.rstrip()
        ) from None
    if name.startswith(_OPEN) or f"{name}." in _OPEN:
        return f"++{name}={value}"  # hydra does not know the names inside
    names = [*fields(), *GROUPS]
    if name not in names:
        leaves = [known for known in names if known.rsplit(".", 1)[-1] == name]
        leaves = leaves or _OTHERS.get(name.rsplit(".", 1)[-1], [])
        leaves = leaves or near_names(name, names) or _near_leaves(name, names)
        hint = (
            f"did you mean {' or '.join(leaves)}?"
            if leaves
            else "roberta-hub train --help lists them"
        )
        raise UnknownNameError(f"no field {name!r}; {hint}")
    return override


def _is_text(name: str) -> bool:
    """Whether a setting is text, or holds texts."""
    section, _, own = name.rpartition(".")
    if "data.columns" in (section, name):
        return True
    if section == "task.options":
        from roberta_hub.train.tasks.options import FinetuningOptions, PretrainingOptions

        hints = get_type_hints(PretrainingOptions) | get_type_hints(FinetuningOptions)
    else:
        hints = get_type_hints(SECTIONS.get(section, Config))
    hint = str(hints.get(own))
    return "str" in hint and "dict" not in hint


def _as_text(value: str) -> str:
    """Quote what hydra would read as a number or a truth value: a folder may be called 2024_01_05.

    Example:
        >>> _as_text("2024_01_05"), _as_text("[a, 007, 1e5]"), _as_text("null")
        ("'2024_01_05'", "[a, 007, '1e5']", 'null')
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    def quoted(found: re.Match[str]) -> str:
        word = found[0]
        try:
            read = OverridesParser.create().parse_override(f"x={word}").value()
        except (HydraException, ValueError):  # ValueError: an integer of 5,000 digits
            return word
        return f"'{word}'" if isinstance(read, (bool, int, float)) else word

    return _WORDS.get(value[:1], _WHOLE).sub(quoted, value)


_WHOLE = re.compile(r".+", re.DOTALL)
_QUOTED = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|"""
_WORDS = {
    "[": re.compile(_QUOTED + r"""[^\s,\[\]{}'"](?:[^,\[\]{}'"]*[^\s,\[\]{}'"])?"""),
    "{": re.compile(_QUOTED + r"""[^\s,:\[\]{}'"](?:[^,:\[\]{}'"]*[^\s,:\[\]{}'"])?"""),
}
"""The words of a value: of a list, of a dict; any other value is one."""


_OTHERS = {
    "learning_rate": ["optimizer.lr"],
    "num_train_epochs": ["loop.max_epochs"],
    "epochs": ["loop.max_epochs"],
    "max_steps": ["loop.max_updates"],
    "warmup_steps": ["optimizer.warmup_updates"],
}
"""Settings by the words of other libraries."""


def _near_leaves(name: str, names: Sequence[str]) -> list[str]:
    """Names of settings, whatever their section, that are near to a name."""
    leaves = {known.rsplit(".", 1)[-1]: known for known in reversed(names)}
    return [leaves[leaf] for leaf in near_names(name.rsplit(".", 1)[-1], leaves)]


_OPEN = ("data.columns.", "task.options.", "architecture.")
"""Fields that hold names which hydra cannot know; the code that reads them checks them."""
_EXAMPLE = "finetune=mnli data.train=train.tsv optimizer.lr=2e-5"


def _explain(error: Exception, overrides: Sequence[str]) -> NoReturn:
    """Raise hydra's exception as one of ours, in one line."""
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
    raise InputError(f"{clean(where)[:200]}: {clean(what)[:300]}") from None
