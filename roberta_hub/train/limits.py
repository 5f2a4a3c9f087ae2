"""Checks the settings of a run: their types, their ranges, their names."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from roberta_hub.config import RobertaConfig
from roberta_hub.errors import InputError, InputTypeError, UnknownNameError, close_names
from roberta_hub.terminal import clean
from roberta_hub.train.settings import (
    DECAYS,
    DEGENERATE,
    ORDERS,
    PARALLEL,
    PRECISIONS,
    SCHEDULES,
    STATES,
    Config,
)

TaskOptions = TypeVar("TaskOptions")
MAX_SEED = 2**63 - 1
"""The largest number that torch's generators and int64 tensors hold."""
MAX_LAYER_DECAY = 10.0
MAX_WHOLE = 2**62
"""Limit of every other whole number: far beyond any run, and twice it still fits an int64."""


def check(config: Config) -> Config:
    """Check a configuration, and write its paths as text and numpy's numbers as Python's.

    A state holds the settings, and is read without classes of other packages.

    An error names the field, its value and the limits.
    """
    if not isinstance(config, Config):
        raise InputTypeError(f"config is a {type(config).__name__}; give what compose returns")
    config = _plain(config)
    _types(config)
    _choices(config)
    _ranges(config)
    optimizer, loop = config.optimizer, config.loop
    if len(optimizer.betas) != 2 or not all(0 <= beta < 1 for beta in optimizer.betas):
        raise InputError(f"optimizer.betas is {optimizer.betas}; give two numbers in 0..1")
    warmup, total = optimizer.warmup_updates, optimizer.total_updates
    if optimizer.schedule != "fixed" and warmup and total and warmup >= total:
        raise InputError(
            f"optimizer.warmup_updates {warmup} leaves nothing of the {total} updates; make it "
            "smaller, or null for 6 %"
        )
    if loop.max_updates is None and loop.max_epochs is None:
        raise InputError("neither loop.max_updates nor loop.max_epochs is set; the run has no end")
    if config.batch.max_tokens is None and config.batch.batch_size is None:
        raise InputError("neither batch.max_tokens nor batch.batch_size is set")
    names = [f.name for f in dataclasses.fields(RobertaConfig)]
    for name in config.architecture:
        if name not in names:
            raise UnknownNameError(f"no field architecture.{name}{suggestion(name, names)}")
    return config


def _plain(value: Any) -> Any:
    """Return a value whose numbers and texts are Python's own, section by section."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **own)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    for kind in (str, float, int):
        if isinstance(value, kind) and type(value) not in (kind, bool):
            return kind(value)
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) is dict:
        return {key: _plain(item) for key, item in value.items()}
    return value


def _types(section: Any, prefix: str = "") -> None:
    """Check the type of every field: hydra does so too, but a Config may be made by hand."""
    for name, hint in typing.get_type_hints(type(section)).items():
        value, field = getattr(section, name), prefix + name
        if dataclasses.is_dataclass(hint):
            if not isinstance(value, hint):  # type: ignore[arg-type]
                raise InputTypeError(
                    f"{field} is a {type(value).__name__}, must be a {_word(hint)}"
                )
            _types(value, f"{field}.")
        elif not _fits(value, hint):
            raise InputTypeError(f"{field} is {_shown(value)}, must be {_word(hint)}")
        else:
            _written(value, field)


def _fits(value: Any, hint: Any) -> bool:
    """Tell whether a value is of a type; an int serves as a float, a tuple as a list."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin is types.UnionType:
        return any(_fits(value, kind) for kind in inner)
    if origin is list:
        return isinstance(value, (list, tuple)) and all(_fits(item, inner[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(key, inner[0]) for key in value)
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float)) if hint is float else isinstance(value, hint)


def _written(value: Any, field: str) -> None:
    """Refuse values that train.json cannot hold, and whole numbers that no tensor can."""
    if isinstance(value, int) and not -MAX_WHOLE <= value <= MAX_WHOLE and field != "seed":
        raise InputError(f"{field} is {_shown(value)}, must be at most {MAX_WHOLE}")
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        raise InputError(
            f"{field} is {_shown(value)}; give text, numbers, lists and tables of these, whose "
            "text can be written as UTF-8"
        ) from None


def _word(hint: Any) -> str:
    """Write a type as people do."""
    if typing.get_origin(hint) is types.UnionType:
        return " or ".join(map(_word, typing.get_args(hint)))
    name = "None" if hint is type(None) else getattr(hint, "__name__", str(hint))
    return str(hint) if typing.get_origin(hint) else name


def _shown(value: object) -> str:
    """Show a value in a sentence: cut, and without characters that a terminal obeys."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a list in itself
        text = f"a very large {type(value).__name__}"
    text = clean(text)
    return text if len(text) <= 80 else f"{text[:77]}..."


CHOICES = {
    "optimizer.decay": DECAYS,
    "optimizer.schedule": SCHEDULES,
    "loop.precision": PRECISIONS,
    "loop.parallel": PARALLEL,
    "loop.state": STATES,
    "loop.degenerate": DEGENERATE,
    "batch.order": ORDERS,
}
"""Settings that have one of some values, by their dotted names."""


def _choices(config: Config) -> None:
    for name, choices in CHOICES.items():
        section, key = name.split(".")
        value = getattr(getattr(config, section), key)
        if value not in choices:
            raise UnknownNameError(f"{name} is {_shown(value)}{suggestion(value, choices)}")


MINIMA: dict[str, float] = {
    **dict.fromkeys(("optimizer.lr", "optimizer.eps", "optimizer.weight_decay"), 0),
    **dict.fromkeys(("optimizer.clip_norm", "optimizer.end_lr", "optimizer.layer_decay"), 0),
    **dict.fromkeys(("optimizer.warmup_updates", "optimizer.power", "loop.evaluate_every"), 0),
    **dict.fromkeys(("optimizer.total_updates", "batch.max_tokens", "batch.batch_size"), 1),
    **dict.fromkeys(("batch.multiple",), 1),
    **dict.fromkeys(("batch.update_freq", "loop.max_updates", "loop.max_epochs", "data.limit"), 1),
    **dict.fromkeys(("loop.patience", "loop.log_every", "loop.peak_flops"), 1),
    **dict.fromkeys(("optimizer.decay_updates", "batch.warmup_updates"), 0),
    **dict.fromkeys(("optimizer.width",), 1),
    **dict.fromkeys(("loop.max_minutes", "loop.save_minutes", "loop.save_every"), 0),
}
"""The least value of each number, by its dotted name."""


def _ranges(config: Config) -> None:
    for name, least in MINIMA.items():
        section, key = name.split(".")
        value = getattr(getattr(config, section), key)
        if value is not None and not least <= value < float("inf"):
            raise InputError(f"{name} is {value}, must be at least {least} and finite")
    if config.optimizer.layer_decay > MAX_LAYER_DECAY:  # its powers overflow
        raise InputError(
            f"optimizer.layer_decay is {config.optimizer.layer_decay}, must be at most "
            f"{MAX_LAYER_DECAY}"
        )
    if not 0 <= config.seed <= MAX_SEED:
        raise InputError(f"seed is {_shown(config.seed)}, must lie in 0..{MAX_SEED}")


_REFERENCE = re.compile(r"\$\{\s*(?:[\w.\[\]]+|now:[\w%:. -]+)\s*\}")
"""Another setting, or the time of hydra's `${now:%Y}`: what is followed."""


def check_references(value: object, where: str = "") -> None:
    """Refuse resolvers in a tree of settings that is not resolved yet.

    `${optimizer.lr}` is another setting. A resolver, as `${oc.env:HOME}` is, would write what this
    machine keeps in its environment into the folder of a model. The tree is checked as it is read:
    a file has many ways to write "$".
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            check_references(key, where)
            check_references(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            check_references(item, where)
    elif isinstance(value, str) and "${" in _REFERENCE.sub("", value):
        place = f"{clean(where)[:100]}: " if where else ""
        raise InputError(f"{place}{_shown(value)} is not resolved; write the value itself")


def read_options(
    kind: type[TaskOptions], values: Mapping[str, Any], *, where: str = "task.options"
) -> TaskOptions:
    """Read `task.options` as the dataclass of a task, with names and types checked."""
    known = typing.get_type_hints(kind)
    for name, value in values.items():
        if name not in known:
            raise UnknownNameError(f"no option {where}.{name}{suggestion(name, list(known))}")
        if not _fits(value, known[name]):
            raise InputError(f"{where}.{name} is {_shown(value)}, must be {_word(known[name])}")
    return kind(**values)


def suggestion(name: object, names: Sequence[str]) -> str:
    """End a sentence about an unknown name: with the names that look like it, else with all."""
    close = close_names(name, names)
    if close:
        return f"; did you mean {close}?"
    return f"; there are {', '.join(names)}"
